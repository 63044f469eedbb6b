"""The answers of `systemctl show` in a record, by unit: the rules of today ask for other units
together than those of the day on which the record was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SHOW = ("systemctl", "show")


def assemble_answer(
    queries: Mapping[tuple[str, ...], Mapping[str, Any]], argv: Sequence[str]
) -> Mapping[str, Any] | None:
    """The answer to a `systemctl show` that was not asked so, made of the paragraphs of others with
    the same options; None where none of the units is in one.
    """
    asked = tuple(argv)
    if asked[:2] != _SHOW or "--" not in asked:
        return None
    options, wanted = _part_words(asked)
    known: dict[str, str] = {}
    for recorded, entry in queries.items():
        if recorded[:2] == _SHOW and "--" in recorded and _part_words(recorded)[0] == options:
            # The first answer counts: the same unit may have changed before a later one.
            known = {**_by_name(entry.get("stdout"), _part_words(recorded)[1]), **known}
    found = [known[name] for name in wanted if name in known]
    return {"status": 0, "stdout": "\n\n".join(found) + "\n", "stderr": ""} if found else None


def _part_words(argv: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    end = argv.index("--")
    return argv[:end], argv[end + 1 :]


def _by_name(output: object, names: Iterable[str]) -> dict[str, str]:
    """A paragraph for each unit that was asked for, under its own name or one of its others."""
    wanted = frozenset(names)
    found = {}
    for paragraph in str(output).split("\n\n") if isinstance(output, str) else ():
        values = dict(row.partition("=")[::2] for row in paragraph.splitlines() if "=" in row)
        for name in wanted & {values.get("Id", ""), *values.get("Names", "").split()}:
            found[name] = paragraph.strip("\n")
    return found
