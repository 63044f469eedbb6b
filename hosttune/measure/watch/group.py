"""The job's own control group of version 2, and whether the job is alone in it.

Only then does its pressure speak of the job. Sources: cgroups(7), kernel:
Documentation/admin-guide/cgroup-v2.rst, Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

from hosttune.facts.cpu.cpu import parse_groups
from hosttune.host.reading.mountinfo import parse
from hosttune.measure.watch.kept import MOST_BYTES, Kept, content_of, own_mounts
from hosttune.measure.watch.meter import KINDS, Meter
from hosttune.measure.watch.parse import process_stat
from hosttune.measure.watch.tick import Pressure

CHECK_EVERY = 5  # looks
MOST_OUTSIDERS = 32
PASSIVE_CORES = 0.02
_MOST_FOLDERS = 64


def folder_of(groups: bytes, mounts: bytes) -> str:
    """The folder of a process's version 2 group, from its /proc/PID/cgroup and our
    /proc/self/mountinfo; "" where there is none, or it is not mounted here.
    """
    path = parse_groups(groups.decode("utf-8", "surrogateescape")).get("")
    if path is None or path.startswith("/.."):  # outside of this cgroup namespace
        return ""
    for mount in parse(mounts):
        if mount.fstype == "cgroup2":
            root = mount.root.rstrip("/")
            # /jobs is not below /job, though its name begins so
            if f"{path}/".startswith(f"{root}/"):
                return (mount.target + path.removeprefix(root)).rstrip("/")
    return ""


class Group:
    """`reason` says why its pressure is not taken, "" where it is."""

    def __init__(self, pid: int, *, proc: str = "/proc") -> None:
        self._proc = proc
        self._pid = pid
        self.folder = ""
        self.reason = ""
        self._meter = Meter({})
        self._looks = 0
        self._groups: bytes | None = None
        self._seen: dict[int, int] = {}  # clock ticks of those that are not the job's
        self._at_s = 0.0
        self._is_alone = False
        self._find()

    def look(self, seconds: float, members: Iterable[int], now_s: float) -> Pressure | None:
        """The pressure since the last look, where the group holds the job and besides it only what
        does nothing: a shell, ourselves.
        """
        # The list of a group is read at the start, when a job forms, and seldom later: it can have
        # thousands of members.
        if self._looks < 2 or self._looks % CHECK_EVERY == 0:
            self._find()
            if self.folder:
                self._check(frozenset(members), now_s)
        self._looks += 1
        pressure = self._meter.look(seconds)
        if self.folder and self._is_alone and pressure is None and self._looks > 1:
            self.reason = "its control group measures no pressure"
        return pressure if self.folder and self._is_alone else None

    def close(self) -> None:
        self._meter.close()

    def _find(self) -> None:
        """A command that is started in a scope of its own moves there first."""
        groups = content_of(f"{self._proc}/{self._pid}/cgroup")
        if self._looks and (groups is None or groups == self._groups):
            return  # it has just ended, or has not moved
        self._groups = groups
        folder = folder_of(groups or b"", own_mounts(self._proc))
        self._meter.close()
        self.folder, self._seen = folder, {}
        self.reason = "" if folder else "the job is in no control group of version 2"
        self._meter = Meter(
            {kind: Kept(f"{folder}/{kind}.pressure") for kind in KINDS} if folder else {}
        )
        # The first look only notes the counters; its rates would be those since the boot.
        self._meter.look(1.0)

    def _check(self, members: frozenset[int], now_s: float) -> None:
        inside = self._inside()
        if inside is None:
            self._say(f"more than {_MOST_FOLDERS} control groups are in its control group")
            return
        # This process is in the group of a command that it started, and does nothing between its
        # looks.
        outsiders = inside - members - {os.getpid()}
        seconds, self._at_s = now_s - self._at_s, now_s
        # Not all, because members and list are read at two moments.
        if len(members & inside) < 0.9 * len(members):
            self._say("the job is spread over several control groups")
        elif len(outsiders) > MOST_OUTSIDERS:
            self._say(f"its control group holds {len(outsiders)} processes of others")
        else:
            self._say(self._busy_outsider(outsiders, seconds))

    def _busy_outsider(self, outsiders: frozenset[int], seconds: float) -> str:
        hertz = os.sysconf("SC_CLK_TCK")
        was, self._seen = self._seen, {}
        busy = ""
        for pid in outsiders:
            stat = process_stat(content_of(f"{self._proc}/{pid}/stat") or b"")
            if stat is None:
                continue
            self._seen[pid] = stat.own
            used = (stat.own - was.get(pid, stat.own)) / hertz / seconds if seconds > 0 else 0.0
            # One that waits for a disk uses no CPU, and makes pressure all the same.
            if stat.state == "D" or used > PASSIVE_CORES:
                busy = f"{stat.name} ({pid}) works in the same control group"
        return busy

    def _say(self, reason: str) -> None:
        self.reason, self._is_alone = reason, not reason

    def _inside(self) -> frozenset[int] | None:
        """The processes of the group and of those below it; None where those are too many to look
        into.
        """
        found: set[int] = set()
        folders = [self.folder]
        for _ in range(_MOST_FOLDERS):
            if not folders:
                return frozenset(found)
            folder = folders.pop()
            found.update(
                map(int, (content_of(f"{folder}/cgroup.procs", MOST_BYTES) or b"").split())
            )
            try:
                with os.scandir(folder) as entries:
                    below = (entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
                    folders += islice(below, _MOST_FOLDERS)
            except OSError:
                continue
        return None if folders else frozenset(found)
