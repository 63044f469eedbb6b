"""The file systems on which a job's files lie, with their devices and servers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from hosttune.host.reading.bounded import MOST_OPEN_FILES, names_in, process_ids
from hosttune.host.reading.mountinfo import parse
from hosttune.measure.watch.kept import content_in_time, own_mounts
from hosttune.measure.watch.tick import Mounted

MOST = 8
_MOST_PROCESSES, _MOST_FILES, _MOST_WORDS = 8, 64, 16
# Where programs and their libraries lie is not where a job's data lie.
_STREAMS = frozenset({"0", "1", "2"})
_PROGRAMS = ("/usr/", "/bin/", "/lib", "/opt/", "/etc/")


class MountTable:
    """`proc` is where /proc is, for tests."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._servers: dict[str, str] = {}  # of each FUSE mount, looked up once

    def of(self, pids: Iterable[int]) -> tuple[Mounted, ...]:
        """Those of open files, most of them first; where none is open, of files that the command
        line names, which may be the program's own; else of the working folder.
        """
        table = parse(own_mounts(self._proc))
        # the later one is above
        mounts = {mount.target.rstrip("/") + "/": mount for mount in table}
        counts: dict[str, int] = {}
        members = list(pids)[:_MOST_PROCESSES]
        paths = (
            [path for pid in members for path in self.list_opened(pid, has_streams=False)]
            or [path for pid in members for path in self.list_opened(pid)]
            or [path for pid in members for path in self._list_named(pid)]
            or [self._folder(pid) for pid in members]
        )
        for path in paths:
            fitting = [target for target in mounts if path.startswith(target)]
            if fitting:
                target = max(fitting, key=len)
                counts[target] = counts.get(target, 0) + 1
        ordered = sorted(counts, key=lambda target: -counts[target])[:MOST]
        return tuple(
            Mounted(
                mounts[target].target,
                mounts[target].fstype,
                mounts[target].source,
                self._server(mounts[target].fstype, mounts[target].target),
            )
            for target in ordered
        )

    def list_opened(self, pid: int, *, has_streams: bool = True) -> list[str]:
        """Absolute paths; none where this user may not see them. Not `has_streams`: without the
        files that the standard streams were sent to, a log being no data.
        """
        found = []
        folder = f"{self._proc}/{pid}/fd"
        with suppress(OSError):
            for name in names_in(folder, _MOST_FILES)[0]:
                if not has_streams and name in _STREAMS:
                    continue
                with suppress(OSError):
                    found.append(os.readlink(f"{folder}/{name}"))
        return _select_data(found)

    def _list_named(self, pid: int) -> list[str]:
        words = (
            (content_in_time(f"{self._proc}/{pid}/cmdline") or b"")
            .decode("utf-8", "surrogateescape")
            .split("\0")
        )
        return _select_data([word.rpartition("=")[2] + "/" for word in words[1:_MOST_WORDS]])

    def _folder(self, pid: int) -> str:
        with suppress(OSError):
            return os.readlink(f"{self._proc}/{pid}/cwd") + "/"
        return ""

    def _server(self, fstype: str, target: str) -> str:
        """The process that serves a FUSE file system: it holds /dev/fuse, and its command line
        names the folder.
        """
        if not fstype.startswith("fuse"):
            return ""
        if target not in self._servers:
            self._servers[target] = self._find_server(target)
        return self._servers[target]

    def _find_server(self, target: str) -> str:
        holders = []
        left = MOST_OPEN_FILES
        for name in process_ids(self._proc)[0]:
            left, has_fuse = self._has_fuse(name, left)
            if left <= 0:
                return ""
            if has_fuse:
                words = (content_in_time(f"{self._proc}/{name}/cmdline") or b"").split(b"\0")
                text = f"{os.path.basename(words[0]).decode('utf-8', 'replace')} (process {name})"
                # The mount point as a word of its own: a part of a word would also fit /data of
                # /data2.
                if os.fsencode(target) in words:
                    return text
                holders.append(text)
        # With several servers and no word that decides, any of them would be a guess.
        return holders[0] if len(holders) == 1 else ""

    def _has_fuse(self, pid: int, left: int) -> tuple[int, bool]:
        """What is left of the open files to look at, and whether one of this process is
        /dev/fuse.
        """
        with suppress(OSError), os.scandir(f"{self._proc}/{pid}/fd") as entries:
            for entry in islice(entries, left):
                left -= 1
                with suppress(OSError):
                    if os.readlink(entry.path) == "/dev/fuse":
                        return left, True
        return left, False


def _select_data(paths: list[str]) -> list[str]:
    """Without devices, the kernel's own, and where programs lie."""
    return [
        path
        for path in paths
        if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/sys/", *_PROGRAMS))
    ]
