"""A Reader over a few values in memory, for tests of what only looks.

Parents of everything that is named are folders; what is not named is ABSENT; symbolic links resolve
as on a real host.
"""

from __future__ import annotations

import posixpath
import shlex
import zlib
from collections.abc import Mapping, Sequence

from hosttune.errors import Refused
from hosttune.host.door import Completed, Process, ReaderKind, Rehearsal, Space, Stat, Usage
from hosttune.values import ABSENT, Absent, Answer, FileValue, Unreadable

_MAX_LINKS = 40


class FakeReader:
    """FakeReader(files={"/etc/hostname": "a"}, links={"/etc/mtab": "/proc/self/mounts"}) ...

    files: path -> str, bytes, FileValue (sets mode and owner too) or Unreadable.
    links: path -> text of the link.
    folders: empty folders (those that hold something need no mention).
    queries: argv as a tuple -> Completed, str (its stdout, status 0), ABSENT or Unreadable.
    stats: path -> Stat (device nodes, odd owners) or Unreadable.
    spaces: path -> Space.
    refused: path of a file or folder -> why nothing can be written there.
    unreadable: path -> reason; that path and everything below it answers Unreadable to every method.
    processes: a tuple of Process, or Unreadable.
    `asked` collects every argv that was queried, in order; `seen` every path that was read, listed or stat'ed.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes | FileValue | Unreadable] | None = None,
        *,
        links: Mapping[str, str] | None = None,
        folders: Sequence[str] = (),
        queries: Mapping[tuple[str, ...], Completed | str | Absent | Unreadable] | None = None,
        stats: Mapping[str, Stat | Unreadable] | None = None,
        spaces: Mapping[str, Space] | None = None,
        unreadable: Mapping[str, str] | None = None,
        processes: tuple[Process, ...] | Unreadable = (),
        kind: ReaderKind = "live",
        name: str = "fake",
        persistent_only: bool = False,
        is_privileged: bool = True,
        now: float = 1_750_000_000.0,
        rehearsal: Rehearsal | None = None,
        untried_by: tuple[str, ...] = (),
        refused: Mapping[str, Refused] | None = None,
    ) -> None:
        self.refused = dict(refused or {})
        self.untried_by = untried_by
        self.rehearsal = rehearsal or Unreadable("not tried")
        self.rehearsed: list[tuple[bytes, bytes, tuple[str, ...]]] = []
        self.files = {self._clean(path): value for path, value in (files or {}).items()}
        self.links = {self._clean(path): target for path, target in (links or {}).items()}
        self.queries = dict(queries or {})
        self.stats = {self._clean(path): value for path, value in (stats or {}).items()}
        self.spaces = {self._clean(path): value for path, value in (spaces or {}).items()}
        self.unreadable = {self._clean(path): reason for path, reason in (unreadable or {}).items()}
        self.kind: ReaderKind = kind
        self.name = name
        self.persistent_only = persistent_only
        self.is_privileged = is_privileged
        self.has_tried_packages = False
        self.asked: list[tuple[str, ...]] = []
        self.seen: list[str] = []
        self._folders = {self._clean(path) for path in folders} | {"/"}
        self._processes = processes
        self._now = now
        self._named: tuple[str, ...] | None = None
        self._made: dict[str, set[str]] = {}

    def read(self, path: str) -> Answer[bytes]:
        place = self._enter(path)
        if not isinstance(place, str):
            return place
        value: str | bytes | FileValue | Unreadable | Absent = self.files.get(place, ABSENT)
        if isinstance(value, FileValue):
            value = value.content
        if value is ABSENT and place in self._tree():
            return Unreadable(f"{path} is a folder")
        return value.encode() if isinstance(value, str) else value

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        place = self._enter(path)
        if not isinstance(place, str):
            return place
        tree = self._tree()
        if place not in tree:
            return Unreadable(f"{path} is not a folder") if self._is_leaf(place) else ABSENT
        return tuple(sorted(tree[place]))

    def link(self, path: str) -> Answer[str]:
        place = self._enter(path, follow=False)
        if not isinstance(place, str):
            return place
        if place in self.links:
            return self.links[place]
        exists = self._is_leaf(place) or place in self._tree()
        return Unreadable(f"{path} is not a symbolic link") if exists else ABSENT

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        place = self._enter(path, follow=follow)
        if not isinstance(place, str):
            return place
        if place in self.stats:
            return self.stats[place]
        inode = zlib.crc32(place.encode())
        if place in self.links:
            return Stat("link", 0o777, 0, 0, len(self.links[place]), 0, 1, inode, 1)
        if place in self._tree():
            return Stat("directory", 0o755, 0, 0, 4096, 0, 1, inode, 2)
        value = self.files.get(place)
        if value is None:
            return ABSENT
        if isinstance(value, Unreadable):
            return Stat("file", 0o600, 0, 0, 0, 0, 1, inode, 1)
        if isinstance(value, FileValue):
            return Stat(
                "file", value.mode, value.uid, value.gid, len(value.content), 0, 1, inode, 1
            )
        content = value.encode() if isinstance(value, str) else value
        return Stat("file", 0o644, 0, 0, len(content), 0, 1, inode, 1)

    def resolve(self, path: str) -> Answer[str]:
        place = self._enter(path)
        if not isinstance(place, str):
            return place
        return place if self._is_leaf(place) or place in self._tree() else ABSENT

    def space(self, path: str) -> Answer[Space]:
        place = self._enter(path)
        return self.spaces.get(place, ABSENT) if isinstance(place, str) else place

    def usage(self, path: str) -> Answer[Usage]:
        from hosttune.host.reading.usage import count_by_questions

        return count_by_questions(self, path)

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        assert timeout_s > 0  # no command without a bound
        self.asked.append(tuple(argv))
        answer = self.queries.get(tuple(argv), ABSENT)
        return Completed(0, answer.encode(), b"") if isinstance(answer, str) else answer

    def rehearse_fstab(
        self, before: bytes, after: bytes, tmpfs_options: tuple[str, ...]
    ) -> Answer[Rehearsal]:
        self.rehearsed.append((before, after, tmpfs_options))
        return self.rehearsal

    def refused_write(self, path: str) -> Refused | None:
        """By path, else by the folder that is nearest."""
        while path not in self.refused and path != "/":
            path = posixpath.dirname(path)
        return self.refused.get(path)

    def fstab_untried_by(self) -> tuple[str, ...]:
        return self.untried_by

    def processes(self) -> Answer[tuple[Process, ...]]:
        return self._processes

    def os_release(self) -> Answer[Mapping[str, str]]:
        for path in ("/etc/os-release", "/usr/lib/os-release"):
            content = self.read(path)
            if isinstance(content, Unreadable):
                return content
            if isinstance(content, bytes):
                pairs = (
                    line.partition("=") for line in content.decode().splitlines() if "=" in line
                )
                return {key.lower(): " ".join(shlex.split(value)) for key, _, value in pairs}
        return ABSENT

    def now(self) -> float:
        return self._now

    @staticmethod
    def _clean(path: str) -> str:
        return posixpath.normpath("/" + path.lstrip("/"))

    def _is_leaf(self, place: str) -> bool:
        return place in self.files or place in self.links or place in self.stats

    def _tree(self) -> dict[str, set[str]]:
        """Folder -> names in it, from everything that is named: made anew when that changed."""
        named = (*self.files, *self.links, *self.stats, *self.unreadable, *self._folders)
        if named == self._named:
            return self._made
        tree: dict[str, set[str]] = {folder: set() for folder in self._folders}
        for path in named:
            child = path
            while child != "/":
                parent = posixpath.dirname(child)
                tree.setdefault(parent, set()).add(posixpath.basename(child))
                child = parent
        self._named, self._made = named, tree
        return tree

    def _enter(self, path: str, *, follow: bool = True) -> str | Absent | Unreadable:
        """The canonical path, or why it cannot be reached."""
        self.seen.append(path)
        return self._walk("/", path, follow=follow, hops=0)

    def _walk(self, base: str, path: str, *, follow: bool, hops: int) -> str | Absent | Unreadable:
        if hops > _MAX_LINKS:
            return Unreadable(f"{path}: too many levels of symbolic links")
        here = "/" if path.startswith("/") else base
        parts = [part for part in path.split("/") if part not in {"", "."}]
        for index, part in enumerate(parts):
            here = posixpath.dirname(here) if part == ".." else posixpath.join(here, part)
            if here in self.unreadable:
                return Unreadable(self.unreadable[here])
            is_last = index == len(parts) - 1
            if here in self.links and (follow or not is_last):
                rest = "/".join([self.links[here], *parts[index + 1 :]])
                return self._walk(posixpath.dirname(here), rest, follow=follow, hops=hops + 1)
        return here
