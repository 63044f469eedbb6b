"""Whether hosttune changed something after a moment: what was started before it does not know the change yet."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.regex import regex
from hosttune.resources.read_only import ReadOnly
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.resources.base import Applied
    from hosttune.values import Value

_RUN = regex(r"(\d{8}-\d{6})-\w+")
_BOOT = regex(rb"^btime (\d+)$", re.MULTILINE)


def applied_since(applied: Applied | None, epoch: float) -> bool:
    """Whether what the journal says was applied after `epoch` (seconds, UTC); the plan in the making always is."""
    if applied is None:
        return False
    run = _RUN.fullmatch(applied.run_id)
    if run is None:
        return True
    return datetime.strptime(run[1], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).timestamp() >= epoch


class StartedAddress(ReadOnly):
    """`started:kernel`, or `started:NAME` of a process: when it was started, in whole seconds since the epoch; of
    several processes the first. ABSENT where none runs (proc(5), /proc/stat).
    """

    kind = "started"

    def read(self, reader: Reader, name: str) -> Value:
        if reader.persistent_only:
            return ABSENT
        if name == "kernel":
            stat = reader.read("/proc/stat")
            match = _BOOT.search(stat) if isinstance(stat, bytes) else None
            if match:
                return int(match[1])
            return stat if isinstance(stat, Unreadable) else Unreadable("/proc/stat does not say when the host booted")
        processes = reader.processes()
        if not isinstance(processes, tuple):
            return processes
        return min((int(one.started_at) for one in processes if one.name == name), default=ABSENT)


WISHES = ()
ADDRESSES = (StartedAddress(),)
