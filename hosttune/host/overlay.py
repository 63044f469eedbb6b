"""A copy-on-write layer in memory over any Reader: where a plan is tried before anybody says yes.

The same apply code writes here as on a real host; facts are then read again through the overlay. Programs that change
a host are modelled by `host/simulate.py`; one that is not modelled is refused, so that nothing is believed that was
not tried.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_

from hosttune.errors import Conflict, Refused
from hosttune.host.door import Completed, Process, Reader, ReaderKind, Space, Stat
from hosttune.host.mountinfo import parse, topmost_at, with_atime
from hosttune.values import ABSENT, Absent, Answer, FileValue, Unreadable

MOUNTINFO = "/proc/self/mountinfo"


class Overlay:
    """A Writer that changes nothing but itself."""

    kind: ReaderKind = "overlay"

    def __init__(self, base: Reader) -> None:
        self.base = base
        self.files: dict[str, FileValue | Absent] = {}
        self.links: dict[str, str | Absent] = {}
        self.answers: dict[tuple[str, ...], Answer[Completed]] = {}

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def persistent_only(self) -> bool:
        return self.base.persistent_only

    @property
    def is_privileged(self) -> bool:
        return self.base.is_privileged

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
        kept = self._kept(path)
        if kept is None:
            return self.base.read(path)
        return kept.content if isinstance(kept, FileValue) else kept

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        below = self.base.list(path)
        folder = self._place(path)
        names = set(below) if isinstance(below, tuple) else set()
        mine = {**self.files, **self.links}
        for place, value in mine.items():
            if place.startswith(folder.rstrip("/") + "/"):
                rest = place[len(folder.rstrip("/")) + 1 :]
                if not isinstance(value, Absent):
                    names.add(rest.split("/", 1)[0])
                elif "/" not in rest:
                    names.discard(rest)
        return tuple(sorted(names)) if names or isinstance(below, tuple) else below

    def link(self, path: str) -> Answer[str]:
        place = posixpath.normpath(path)
        if place in self.links:
            return self.links[place]
        return ABSENT if place in self.files else self.base.link(path)

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        if not follow and posixpath.normpath(path) in self.links:
            target = self.links[posixpath.normpath(path)]
            return target if isinstance(target, Absent) else Stat("link", 0o777, 0, 0, len(target), 0, 0, 0, 1)
        kept = self._kept(path)
        if kept is None:
            below = self.base.stat(path, follow=follow)
            if below is ABSENT and any(
                place.startswith(self._place(path) + "/") and not isinstance(value, Absent)
                for place, value in self.files.items()
            ):
                return Stat("directory", 0o755, 0, 0, 0, 0, 0, 0, 1)
            return below
        if isinstance(kept, Absent):
            return kept
        below = self.base.stat(path, follow=follow)
        if isinstance(below, Stat):
            return with_(below, size=len(kept.content))
        return Stat("file", kept.mode, kept.uid, kept.gid, len(kept.content), 0, 0, 0, 1)

    def resolve(self, path: str) -> Answer[str]:
        place = self._place(path)
        if place in self.files:
            value = self.files[place]
            return value if isinstance(value, Absent) else place
        return self.base.resolve(place)

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        from hosttune.host.simulate import answer

        known = self.answers.get(tuple(argv))
        if known is not None:
            return known
        return answer(self, tuple(argv), lambda: self.base.query(argv, timeout_s=timeout_s))

    def replace(self, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
        present = self.read(path)
        if isinstance(present, Unreadable):
            raise Refused(f"{path}: {present.reason}")
        if present != expected:
            raise Conflict(f"{path} is not what the plan was made from", hint="run the plan again")
        self.files[self._place(path)] = new

    def remove(self, path: str, *, expected: bytes) -> None:
        if self.read(path) != expected:
            raise Conflict(f"{path} is not what the plan was made from", hint="run the plan again")
        self.files[self._place(path)] = ABSENT

    def set_value(self, path: str, text: str) -> None:
        present = self.read(path)
        if not isinstance(present, bytes):
            raise Refused(
                f"{path}: " + (present.reason if isinstance(present, Unreadable) else "this kernel has no such value")
            )
        self.files[self._place(path)] = FileValue(text.encode())

    def set_atime(self, target: str, mode: str) -> None:
        data = self.read(MOUNTINFO)
        if not isinstance(data, bytes):
            raise Refused("the mounts of this host cannot be read")
        mount = topmost_at(parse(data), target)
        if mount is None:
            raise Refused(f"nothing is mounted at {target}")
        self.files[MOUNTINFO] = FileValue(with_atime(data, mount.id, mode))

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        del timeout_s
        from hosttune.host.simulate import simulate

        return simulate(self, tuple(argv))

    def append(self, path: str, data: bytes) -> None:
        present = self.read(path)
        self.files[self._place(path)] = FileValue((present if isinstance(present, bytes) else b"") + data, 0o600)

    def log(self, message: str) -> None:
        """The system log is not modelled."""

    def discard_leftovers(self, path: str) -> None:
        """An overlay leaves none."""

    def _place(self, path: str) -> str:
        clean = posixpath.normpath(path)
        if clean in self.files or clean.startswith("/proc/"):
            return clean
        canonical = self.base.resolve(clean)
        if isinstance(canonical, str):
            return canonical
        folder, name = posixpath.split(clean)
        above = self.base.resolve(folder)
        return f"{above.rstrip('/')}/{name}" if isinstance(above, str) else clean

    def _kept(self, path: str) -> FileValue | Absent | None:
        return self.files.get(self._place(path))
