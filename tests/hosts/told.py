"""A record in which other processes run and programs answer otherwise, for the cases of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hosttune.host.record.record import RecordReader

PROCESS = {
    "user": "alice", "command": ["python", "train.py"], "rss_bytes": 1 << 30, "swap_bytes": 0, "devices": ["/dev/nvidia0"],
    "cgroup": "/user.slice/user-1000.slice/session-3.scope", "started_at": 1_779_990_000.0, "uid": 1000,
}  # fmt: skip


def daemons_of(running: Mapping[str, str]) -> list[dict[str, Any]]:
    """Processes of root's, as in a record: of each name its command lines, which begin with the
    path of the program.
    """
    rows = [row for text in running.values() for row in text.splitlines()]
    return [
        {
            "pid": 800 + number, "name": row.split()[0].rpartition("/")[2][:15], "user": "root", "uid": 0,
            "command": row.split(), "program": row.split()[0], "rss_bytes": 1 << 24, "swap_bytes": 0, "devices": [],
            "cgroup": "/system.slice", "started_at": 1_779_990_000.0,
        }
        for number, row in enumerate(rows)
    ]  # fmt: skip


def _make_answer(text: str | Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": 0,
        "stdout": "",
        "stderr": "",
        **({"stdout": text} if isinstance(text, str) else text),
    }


def telling(
    record: RecordReader,
    processes: Sequence[Mapping[str, Any]],
    answers: Mapping[str, str | Mapping[str, Any] | None],
    spaces: Mapping[str, Sequence[int]] | None = None,
    usages: Mapping[str, Sequence[int]] | None = None,
    unreadable: Mapping[str, str] | None = None,
    daemons: Mapping[str, str] | None = None,
) -> RecordReader:
    """`processes`: what is not said of one is as in PROCESS. `answers`: a command line to what it
    prints, None where there is no such program; a mapping has its status and stderr. `spaces`: a
    mount to its bytes, bytes left, inodes, inodes left. `usages`: a folder to the bytes and files
    that lie in it, and whether all of it was counted. `unreadable`: a path of the record to why
    nobody can look there. `daemons`: a name to the command lines of root's processes that run
    there, in place of those of the record.
    """
    if not any((processes, answers, spaces, usages, unreadable, daemons)):
        return record
    told = {tuple(line.split()): text for line, text in answers.items()}
    kept = [one for one in record.data["queries"] if tuple(one["argv"]) not in told]
    more = [
        {"argv": list(argv), **({"absent": True} if text is None else _make_answer(text))}
        for argv, text in told.items()
    ]
    running = [
        {**PROCESS, "pid": 4711 + number, "name": "python", **one}
        for number, one in enumerate(processes)
    ]
    others = {name[:15] for name in daemons or {}}
    kept_processes = [
        one for one in record.data["processes"] if one["name"] not in others
    ] + daemons_of(daemons or {})
    data = {**record.data, "queries": [*kept, *more], "processes": [*kept_processes, *running]}
    data["spaces"] = {**record.data["spaces"], **(spaces or {})}
    data["usages"] = {**record.data.get("usages", {}), **(usages or {})}
    for table in ("files", "links", "listings", "stats", "paths") if unreadable else ():
        data[table] = {
            **data.get(table, {}),
            **{path: {"unreadable": why} for path, why in unreadable.items()},
        }
    return RecordReader(data, record.file)
