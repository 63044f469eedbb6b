"""Whose work a bench may slow down: large processes of others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from hosttune.host.processes.proc_fields import process_fields

# A drop of the caches costs smaller ones little, and shells and daemons of every host would fill
# the sentence.
_LARGE = 256 << 20
_MOST = 4


def list_bystanders(processes: Iterable[Mapping[str, Any]] | None = None) -> tuple[str, ...]:
    """`python of alice (pid 4711)`, the largest first: processes of more than 256 MiB that are not
    this one's kin. Raises HosttuneError where they are too many to be listed.
    """
    running = tuple(process_fields() if processes is None else processes)
    above = {one["pid"]: one["ppid"] for one in running}
    # of root: the command, the process outside of it, and who started that
    own = {os.getpid(), os.getppid(), above.get(os.getppid())}
    found = [one for one in running if one["rss_bytes"] > _LARGE and one["pid"] not in own]
    found.sort(key=lambda one: -int(one["rss_bytes"]))
    return tuple(f"{one['name']} of {one['username']} (pid {one['pid']})" for one in found[:_MOST])
