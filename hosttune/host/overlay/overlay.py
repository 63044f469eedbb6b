"""A copy-on-write layer in memory over any Reader: where a plan is tried before anybody says yes.

The same apply code writes here as on a real host; facts are then read again through the overlay.
Programs that change a host are modelled by `host/overlay/simulate.py`; one that is not modelled is
refused, so that nothing is believed that was not tried.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_

from hosttune.errors import Conflict, Refused
from hosttune.host.door import BeforeReader, Completed, Process, Reader, ReaderKind, Space, Stat
from hosttune.host.masking.cleaned import Cleaned
from hosttune.host.overlay.simulate import DPKG_STATUS
from hosttune.host.overlay.twins import TWIN_PATHS
from hosttune.host.reading.mountinfo import (
    MountLine,
    find_holding,
    parse,
    topmost_at,
    with_atime,
    with_mount,
    without_mount,
)
from hosttune.values import ABSENT, Absent, Answer, FileValue, Unreadable

MOUNTINFO = "/proc/self/mountinfo"
MAX_LINKS = 40


class Overlay(BeforeReader):
    """A Writer that changes nothing but itself."""

    kind: ReaderKind = "overlay"

    def __init__(self, base: Reader) -> None:
        super().__init__(base)
        self.files: dict[str, FileValue | Absent] = {}
        self.written_ns: dict[str, int] = {}  # when `replace` wrote a file
        self.links: dict[str, str | Absent] = {}
        self.folders: dict[str, bool] = {}  # made (True) and removed (False) here
        self.uncovered: set[str] = (
            set()
        )  # unmounted here: what the disk shows there is gone, the folder itself is empty
        self.units: dict[tuple[str, str], str] = {}  # (unit, property of `systemctl show`) -> value
        self._canonical: dict[str, str] = {}  # what the base makes of a path

    @property
    def has_tried_packages(self) -> bool:
        return DPKG_STATUS in self.written_ns or self.base.has_tried_packages

    def now(self) -> float:
        return self.base.now()

    def operator(self) -> str:
        return "overlay"

    def os_release(self) -> Answer[Mapping[str, str]]:
        return self.base.os_release()

    def processes(self) -> Answer[tuple[Process, ...]]:
        return self.base.processes()

    def space(self, path: str) -> Answer[Space]:
        return self.base.space(path)

    def read(self, path: str) -> Answer[bytes]:
        place = self._place(path)
        kept = self.files.get(place)
        if kept is None:
            # Under the name that was asked, unless a link of ours changes what it means: a record
            # may know a file only by that name.
            return self.base.read(place if self.links else path)
        return kept.content if isinstance(kept, FileValue) else kept

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        folder = self._place(path)
        below = () if folder in self.uncovered else self.base.list(folder if self.links else path)
        names = set(below) if isinstance(below, tuple) else set()
        start = folder.rstrip("/") + "/"
        for place, value in {**self.files, **self.links}.items():
            if place.startswith(start):
                name, _, rest = place[len(start) :].partition("/")
                if not isinstance(value, Absent):
                    names.add(name)
                elif not rest:
                    names.discard(name)
        for place, is_there in self.folders.items():
            if posixpath.dirname(place) == folder:
                (names.add if is_there else names.discard)(posixpath.basename(place))
        # The base still has a folder that was removed here, with the files that were in it.
        if self.folders.get(folder) is False and not names:
            return ABSENT
        is_folder = names or isinstance(below, tuple) or self.folders.get(folder)
        return tuple(sorted(names)) if is_folder else below

    def link(self, path: str) -> Answer[str]:
        place = self._entry(path)
        if place in self.links:
            return self.links[place]
        return ABSENT if place in self.files else self.base.link(place if self.links else path)

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        if not follow:
            target = self.links.get(self._entry(path))
            if isinstance(target, str):
                return Stat("link", 0o777, 0, 0, len(target), 0, 0, 0, 1)
            if target is None and isinstance(self.base.link(path), str):
                return self.base.stat(path, follow=False)
        place = self._place(path)
        kept = self.files.get(place)
        if isinstance(kept, Absent) or self.folders.get(place) is False:
            return ABSENT
        below = self.base.stat(place if self.links else path, follow=follow)
        if isinstance(kept, FileValue):
            written_ns = self.written_ns.get(
                place, below.mtime_ns if isinstance(below, Stat) else 0
            )
            if isinstance(below, Stat):
                return with_(below, size=len(kept.content), mtime_ns=written_ns)
            return Stat(
                "file", kept.mode, kept.uid, kept.gid, len(kept.content), written_ns, 0, 0, 1
            )
        if below is ABSENT and self._has_below(place):
            return Stat("directory", 0o755, 0, 0, 0, 0, 0, 0, 2)
        return below

    def _has_below(self, folder: str) -> bool:
        if self.folders.get(folder):
            return True
        start = folder + "/"
        for entries in (self.files, self.links):
            for place in entries:
                if place.startswith(start) and not isinstance(entries[place], Absent):
                    return True
        return False

    def resolve(self, path: str) -> Answer[str]:
        place = self._place(path)
        kept = self.files.get(place)
        if kept is not None:
            return kept if isinstance(kept, Absent) else place
        if self._has_below(place):
            return place
        return ABSENT if self.folders.get(place) is False else self.base.resolve(place)

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        from hosttune.host.overlay.simulate import answer

        return answer(self, tuple(argv), lambda: self.base.query(argv, timeout_s=timeout_s))

    def replace(self, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
        """Refuses what the real replace would, as far as the base can tell."""
        present = self.read(path)
        if isinstance(present, Unreadable):
            raise Refused(f"{path}: {present.reason}")
        if present != expected:
            raise Conflict(f"{path} is not what the plan was made from", hint="run the plan again")
        if present is ABSENT and isinstance(self.link(path), str):
            raise Refused(
                f"{path} is a symbolic link that leads nowhere",
                hint="remove the link, or make what it points to",
            )
        stat = self.stat(path)
        if isinstance(stat, Stat):
            if stat.links > 1:
                raise Refused(
                    f"{path} has {stat.links} hard links: the others would keep the old text"
                )
            # As the real one: a file that is there keeps its mode and owner, whatever the plan
            # names.
            new = FileValue(new.content, stat.mode, stat.uid, stat.gid)
        self.require_writable(path)
        self.files[self._place(path)] = new
        self.written_ns[self._place(path)] = int(self.now() * 1e9)

    def refused_write(self, path: str) -> Refused | None:
        return self.base.refused_write(path) or self._read_only(path)

    def _read_only(self, path: str) -> Refused | None:
        """Refuses what is in a read-only tree; of an image below a folder the table says nothing. A
        file that is a mount by itself is no such tree.
        """
        table = ABSENT if self.persistent_only else self.read(MOUNTINFO)
        place = self._place(path)
        mount = find_holding(table, place) if isinstance(table, bytes) else None
        if not mount or not mount.is_read_only or mount.target == place:
            return None
        return Refused(
            f"{path} cannot be written: {mount.target} is mounted read-only",
            hint="where that is meant, change the image that it is made from (hosttune apply "
            "--root FOLDER --yes); where it is not, the kernel log says why: sudo dmesg",
        )

    def require_writable(self, path: str) -> None:
        """Raise what the real `replace` would refuse whatever is written."""
        if refused := self.refused_write(path):
            raise refused

    def require_entry(self, path: str) -> None:
        """The same for a folder or a link: what counts is the folder in which its name comes or
        goes.
        """
        folder = posixpath.dirname(_clean(path))
        self.require_writable(posixpath.join(folder, ".hosttune-new"))

    def remove(self, path: str, *, expected: bytes) -> None:
        if self.read(path) != expected:
            raise Conflict(f"{path} is not what the plan was made from", hint="run the plan again")
        self.require_writable(path)
        self.files[self._place(path)] = ABSENT

    def overwrite(self, path: str, content: bytes, *, expected: bytes) -> None:
        self.replace(path, FileValue(content), expected=expected)

    def set_value(self, path: str, text: str) -> None:
        present = self.read(path)
        if not isinstance(present, bytes):
            raise Refused(
                f"{path}: "
                + (
                    present.reason
                    if isinstance(present, Unreadable)
                    else "this kernel has no such value"
                )
            )
        # The mode of the base: a value that was set here before has that of a new file.
        value = self.base.stat(path)
        if isinstance(value, Stat) and not value.mode & 0o222:
            raise Refused(f"{path}: this kernel only shows it")
        if refused := self._read_only(path):
            raise refused
        self.files[self._place(path)] = FileValue(
            _as_printed(present.decode("utf-8", "replace"), text).encode()
        )
        # The kernel sets the other spelling to 0 only if the value changes (mm/page-writeback.c,
        # dirty_ratio_handler).
        if path in TWIN_PATHS and text.strip() != present.decode("utf-8", "replace").strip():
            self.files[self._place(TWIN_PATHS[path])] = FileValue(b"0\n")

    def set_atime(self, target: str, mode: str) -> None:
        data, mount = self._find_mounted(target)
        self.files[MOUNTINFO] = FileValue(with_atime(data, mount.id, mode))

    def _find_mounted(self, target: str) -> tuple[bytes, MountLine]:
        data = self.read(MOUNTINFO)
        mount = topmost_at(parse(data), target) if isinstance(data, bytes) else None
        if not isinstance(data, bytes) or mount is None:
            raise Refused(f"nothing is mounted at {target}")
        return data, mount

    def make_folder(self, path: str) -> None:
        parent = posixpath.dirname(path.rstrip("/")) or "/"
        if not isinstance(self.list(parent), tuple):
            raise Refused(f"{parent} is not a folder")
        if self.stat(path) is not ABSENT:
            raise Refused(f"{path} cannot be made: it is there")
        self.require_entry(path)
        self.folders[self._place(path)] = True

    def remove_folder(self, path: str) -> None:
        if self.list(path) != ():
            raise Refused(f"{path} stays: it is not empty")
        self.require_entry(path)
        table = self.read(MOUNTINFO)
        if isinstance(table, bytes) and topmost_at(parse(table), path):
            raise Refused(f"{path} stays: something is mounted on it")
        self.folders[self._place(path)] = False

    def mount(self, device: str, target: str, fstype: str, options: str) -> None:
        data = self.read(MOUNTINFO)
        name = device.rpartition("/")[2]
        number = self.base.read(f"/sys/class/block/{name}/dev")
        if not isinstance(number, bytes):
            number = b"0:0"  # a mapped device: its name in /sys is another
        if not isinstance(data, bytes) or not isinstance(self.list(target), tuple):
            raise Refused(f"{device} cannot be mounted at {target}")
        words = tuple(options.split(","))
        table = with_mount(data, number.decode().strip(), device, target, fstype, words)
        self.files[MOUNTINFO] = FileValue(table)
        self.uncovered.discard(self._place(target))

    def unmount(self, target: str) -> None:
        data, mount = self._find_mounted(target)
        self.files[MOUNTINFO] = FileValue(without_mount(data, mount.id))
        self.uncovered.add(self._place(target))

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        del timeout_s
        from hosttune.host.overlay.simulate import simulate

        return simulate(self, tuple(argv))

    def append(self, path: str, data: bytes) -> None:
        present = self.read(path)
        self.files[self._place(path)] = FileValue(
            (present if isinstance(present, bytes) else b"") + data, 0o600
        )

    def make_link(self, path: str, target: str) -> None:
        if self.stat(path, follow=False) is not ABSENT:
            raise Conflict(f"{path} is there already", hint="run the plan again")
        self.require_entry(path)
        self.links[self._entry(path)] = target

    def remove_link(self, path: str, *, expected: str) -> None:
        if self.link(path) != expected:
            raise Conflict(f"{path} was changed in the meantime", hint="run the plan again")
        self.require_entry(path)
        self.links[self._entry(path)] = ABSENT

    def publish(self, path: str, new: FileValue | Absent) -> None:
        self.require_writable(path)
        self.files[self._place(path)] = new

    def log(self, message: Cleaned, message_id: str = "") -> None:
        """The system log is not modelled."""

    def discard_leftovers(self, path: str) -> None:
        """An overlay leaves none."""

    def _entry(self, path: str) -> str:
        """The place of `path` itself, a link at its end not followed."""
        folder, name = posixpath.split(_clean(path))
        return posixpath.join(self._place(folder), name) if name else folder

    def _place(self, path: str) -> str:
        """The one name under which a file is kept here, however it was asked for. /proc/self is no
        one's link here.
        """
        clean = _clean(path)
        if clean in self.files or clean.startswith("/proc/"):
            return clean
        if self.links:
            return self._walk_links(clean)
        return self.canonical(clean)

    def canonical(self, clean: str) -> str:
        """The place of a path without `.` and `..` below this layer, also of one that is not
        there.
        """
        place = self._canonical.get(clean)
        if place is None:
            found = self.base.resolve(clean)
            if isinstance(found, str) or clean == "/":
                place = found if isinstance(found, str) else clean
            else:
                folder, _, name = clean.rpartition("/")
                place = f"{self.canonical(folder or '/').rstrip('/')}/{name}"
            self._canonical[clean] = place
        return place

    def _walk_links(self, path: str) -> str:
        """As `_place`, with the links that lie here alone."""
        todo, done, links = path.split("/")[:0:-1], "/", 0
        while todo:
            part = todo.pop()
            if part in ("", ".", ".."):
                done = posixpath.dirname(done) if part == ".." else done
                continue
            entry = posixpath.join(done, part)
            target = self.links[entry] if entry in self.links else self.base.link(entry)
            if isinstance(target, str) and entry not in self.files and links < MAX_LINKS:
                links += 1
                done = "/" if target.startswith("/") else done
                todo += target.split("/")[::-1]
            else:
                done = entry
        return done


def _clean(path: str) -> str:
    """As posixpath.normpath, which is slow before Python 3.12, where a path may need it: hardly
    ever.
    """
    if (
        path.startswith("/")
        and "//" not in path
        and "/." not in path
        and (path[-1] != "/" or path == "/")
    ):
        return path
    return posixpath.normpath(path)


def _as_printed(old: str, text: str) -> str:
    """A kernel value as it reads after `text` was written: tabs where they were, a choice in
    brackets.
    """
    words = text.split()
    choices = old.split()
    marked = any(word.startswith("[") and word.endswith("]") for word in choices)
    plain = [word.strip("[]") for word in choices]
    if marked and len(words) == 1 and words[0] in plain:
        return " ".join(f"[{word}]" if word == words[0] else word for word in plain) + "\n"
    return ("\t" if "\t" in old.strip() else " ").join(words) + "\n"
