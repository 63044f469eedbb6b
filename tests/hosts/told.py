"""A record in which other processes run and programs answer otherwise, for the cases of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hosttune.host.record import RecordReader

PROCESS = {
    "user": "alice", "command": ["python", "train.py"], "rss_bytes": 1 << 30, "swap_bytes": 0, "devices": ["/dev/nvidia0"],
    "cgroup": "/user.slice/user-1000.slice/session-3.scope", "started_at": 1_779_990_000.0,
}  # fmt: skip


def telling(
    record: RecordReader,
    processes: Sequence[Mapping[str, Any]],
    answers: Mapping[str, str | None],
    spaces: Mapping[str, Sequence[int]] | None = None,
    usages: Mapping[str, Sequence[int]] | None = None,
    unreadable: Mapping[str, str] | None = None,
) -> RecordReader:
    """`processes`: what is not said of one is as in PROCESS. `answers`: a command line to what it prints, None where there
    is no such program. `spaces`: a
    mount to its bytes, bytes left, inodes, inodes left. `usages`: a folder to the bytes and files that lie in it, and
    whether all of it was counted. `unreadable`: a path of the record to why nobody can look there.
    """
    if not processes and not answers and not spaces and not usages and not unreadable:
        return record
    told = {tuple(line.split()): text for line, text in answers.items()}
    kept = [one for one in record.data["queries"] if tuple(one["argv"]) not in told]
    more = [
        {"argv": list(argv), **({"absent": True} if text is None else {"status": 0, "stdout": text, "stderr": ""})}
        for argv, text in told.items()
    ]
    running = [{**PROCESS, "pid": 4711 + number, "name": "python", **one} for number, one in enumerate(processes)]
    data = {**record.data, "queries": [*kept, *more], "processes": [*record.data["processes"], *running]}
    data["spaces"] = {**record.data["spaces"], **(spaces or {})}
    data["usages"] = {**record.data.get("usages", {}), **(usages or {})}
    for table in ("files", "links", "listings", "stats", "paths") if unreadable else ():
        data[table] = {**data.get(table, {}), **{path: {"unreadable": why} for path, why in unreadable.items()}}
    return RecordReader(data, record.file)
