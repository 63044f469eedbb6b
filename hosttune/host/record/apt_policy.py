"""The answers of `apt-cache policy NAME...` in a record, by name: the choices of today ask for
other packages together than those of the day on which the record was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_POLICY = ("apt-cache", "policy")


def policy_of_names(
    queries: Mapping[tuple[str, ...], Mapping[str, Any]], argv: Sequence[str]
) -> dict[str, Any] | None:
    """The answer to a policy that was not asked so, made of the blocks of others; None where one of
    the names was in no question. A name that was asked for, and is in no answer, apt does not know.
    """
    wanted = tuple(argv[2:])
    if tuple(argv[:2]) != _POLICY or not wanted:
        return None
    asked: set[str] = set()
    blocks: dict[str, str] = {}
    for recorded, entry in queries.items():
        output = entry.get("stdout")
        if recorded[:2] == _POLICY and isinstance(output, str) and entry.get("status") == 0:
            asked.update(recorded[2:])
            blocks |= _split_blocks(output) if recorded[2:] else {}
    if not asked.issuperset(wanted):
        return None
    text = "".join(blocks.get(name, "") for name in wanted)
    return {"argv": list(argv), "status": 0, "stdout": text, "stderr": ""}


def _split_blocks(output: str) -> dict[str, str]:
    """What is shown of each package: a line with its name, and those that are indented behind
    it.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in output.splitlines(keepends=True):
        if line[:1].strip() and line.rstrip().endswith(":"):
            lines = found.setdefault(line.rstrip()[:-1], [])
        lines.append(line)
    return {name: "".join(rows) for name, rows in found.items()}
