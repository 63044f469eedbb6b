"""NVIDIA's driver branches as a table has them: kind, end of support, and the generations that each
drives; pure.

The package's own table, hosttune/tables/driver-branches.tsv, names its sources and date; it is what
counts where apt's lists say nothing (hosttune.facts.gpu.packaging). A file of the site has rows of
the same form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from hosttune.errors import BadInput, Fault, Where
from hosttune.facts.gpu.nvidia_tables import GENERATIONS, is_older
from hosttune.facts.own_tables import read_own_table
from hosttune.frozen import frozen

TABLE: Final = "driver-branches"
# NVIDIA's long-term, production and new-feature branches
KINDS: Final = ("lts", "production", "new")
_FIELDS: Final = (
    "branch",
    "number",
    "kind",
    "end of support",
    "oldest generation",
    "newest generation",
)
_HINT: Final = (
    "a row has six fields: branch 640 lts 2030-06 turing blackwell, with - for what is not known"
)
_NOTHING: Final = "-"
_GONE: Final = "gone"  # support has ended, no one says when
_LINES: Final = 1000  # of a file


@frozen
class Branch:
    """One driver branch. Empty texts are what is not known."""

    number: int  # 580, 570 ...
    kind: str  # lts | production | new
    ends: str  # the month in which NVIDIA's support ends, 2028-06; empty if that is not known
    # NVIDIA's matrix does not name it any more: its support has ended, no one says when
    is_gone: bool
    first: str  # the oldest generation that it drives
    last: str  # the newest
    of: str = ""  # the file of the site that says so; empty for the package's own table

    def is_over(self, month: str) -> bool:
        """Past its end in this month (2026-11), as far as the table knows."""
        # Months of this form compare as text. The month in which support ends still counts as
        # supported.
        return self.is_gone or (bool(self.ends) and self.ends < month)

    def drives(self, generation: str) -> bool | None:
        """Whether it drives this generation; None where that is not known."""
        if generation not in GENERATIONS or not self.first or not self.last:
            return None
        return not is_older(generation, self.first) and not is_older(self.last, generation)


@cache
def own_table() -> tuple[Mapping[int, Branch], str, str]:
    """The package's rows, the day of NVIDIA's support matrix behind them, and the month until which
    they can be expected to be whole. Raises HosttuneError where the package is not whole.
    """
    table = read_own_table(TABLE)
    return parse_rows(table.text, TABLE, is_own=True), table.as_of, table.good_until


def parse_rows(text: str, path: str, *, is_own: bool = False) -> Mapping[int, Branch]:
    """The rows of a table by number; lines that begin with # and empty ones say nothing. Raises
    BadInput with every fault: file, line, field, and what to write instead.
    """
    rows: dict[int, Branch] = {}
    faults: list[Fault] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if number > _LINES:
            faults.append(Fault(Where(path, number), f"it has more than {_LINES} lines", _HINT))
            break
        fault = _find_fault(words)
        if not fault and int(words[1]) in rows:
            fault = ("number", f"branch {words[1]} has a row already", "one row for each branch")
        if fault:
            faults.append(Fault(Where(path, number, fault[0]), *fault[1:]))
        else:
            row = _parse_row(words, "" if is_own else path)
            rows[row.number] = row
    if faults:
        raise BadInput(faults)
    return MappingProxyType(rows)


def _find_fault(words: list[str]) -> tuple[str, str, str] | None:
    """(field, what is wrong, what to write) of a row."""
    if len(words) != len(_FIELDS):
        return "", f"it has {len(words)} fields", _HINT
    kind, number, track, ends, first, last = words
    if kind != "branch":
        return "branch", f"{kind[:40]!r} is no kind of row", "begin the row with branch"
    if not re.fullmatch(r"[1-9][0-9]{2}", number):
        return "number", f"{number[:40]!r} is no branch", "a number of three digits, such as 640"
    if track not in (*KINDS, _NOTHING):
        return (
            "kind",
            f"{track[:40]!r} is no kind of branch",
            f"one of {', '.join(KINDS)}, or - where it is not known",
        )
    if ends not in (_NOTHING, _GONE) and not re.fullmatch(r"20\d\d-(?:0[1-9]|1[0-2])", ends):
        return (
            "end of support",
            f"{ends[:40]!r} is no month",
            f"year and month, such as 2030-06, {_GONE}, or -",
        )
    for name, word in ((_FIELDS[4], first), (_FIELDS[5], last)):
        if word not in (*GENERATIONS, _NOTHING):
            return (
                name,
                f"{word[:40]!r} is no generation of GPUs",
                f"one of {', '.join(GENERATIONS)}, or -",
            )
    if _NOTHING not in (first, last) and is_older(last, first):
        return _FIELDS[5], f"{last} is older than {first}", "the oldest generation first"
    return None


def _parse_row(words: list[str], of: str) -> Branch:
    _, number, kind, ends, first, last = ("" if word == _NOTHING else word for word in words)
    is_gone = ends == _GONE
    return Branch(
        int(number), kind, "" if is_gone else ends, is_gone=is_gone, first=first, last=last, of=of
    )
