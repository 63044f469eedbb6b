"""The errors a user meets: what is wrong, where, and the way out.

Only `cli` turns them into text and an exit status; nothing below it prints or exits.
"""

from __future__ import annotations

from hosttune.frozen import frozen

MOST_FAULTS = 100  # reported of one input: to search for the nearest known word takes time


@frozen
class Where:
    """A place in a file someone wrote: `path:line: field`. Line 0 and an empty field mean
    unknown.
    """

    path: str
    line: int = 0
    field: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.field}" if self.field else place


@frozen
class Fault:
    """One thing wrong in an input file. A reader collects all of them before it raises
    `BadInput`.
    """

    where: Where
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f"\n  hint: {self.hint}" if self.hint else "")


class HosttuneError(Exception):
    """The tool could not do its work (exit status 2); `hint` names the way out."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(HosttuneError):
    """An input file has faults; carries them in file order, the first ones where they are too many
    to read.
    """

    def __init__(self, faults: tuple[Fault, ...] | list[Fault]) -> None:
        self.faults = tuple(faults[:MOST_FAULTS])
        if len(faults) > MOST_FAULTS:
            more = f"and {len(faults) - MOST_FAULTS} more faults"
            self.faults += (Fault(Where(faults[-1].where.path, faults[-1].where.line), more),)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class Refused(HosttuneError):
    """An act was refused before anything was touched: the system is as it was."""


class HalfWay(Refused):
    """A set of packages was left neither as before nor as planned. `hint` is for a person;
    `way_out` puts before it who goes on, which only the caller knows.
    """

    def __init__(self, message: str, *, first: str, by_hand: str) -> None:
        super().__init__(message, hint=by_hand)
        self.first = first

    def way_out(self, goes_on: str) -> str:
        by_hand = f"; by hand: {self.hint}" if self.hint else ""
        return f"{self.first}{goes_on}{by_hand}"


class Conflict(Refused):
    """What is there now is not what the plan was made from: someone else changed it in between."""
