"""One remark about one line of an fstab: as a check makes it, and as it may be shown."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from hosttune.facts.storage.fstab_options import Shown, masked_line


class RemarkLevel(str, Enum):
    """How bad it is."""

    ERROR = "error"  # it is misread, or the mount or the boot fails
    WARNING = "warning"  # it does something else than it seems to, or it will fail one day
    NOTE = "note"  # good to know


class Remark(NamedTuple):
    """One thing about one line: what it is and why it matters, and what a person should do. Line 0
    is the file. It may quote a secret.
    """

    line: int
    level: RemarkLevel
    code: str  # stable, for programs
    message: str
    todo: str
    is_misread: bool = False  # the readings of the line belong to it
    is_sure: bool = False  # the mount fails for certain, also where a boot goes on without it


class ShownRemark(NamedTuple):
    """The same without the secrets of its line."""

    line: int
    level: RemarkLevel
    code: str
    message: Shown
    todo: Shown
    is_misread: bool = False
    is_sure: bool = False


def shown_remark(line: int, level: RemarkLevel, code: str, message: str, todo: str) -> ShownRemark:
    """A remark that quotes no line but in parts that are masked already."""
    return ShownRemark(line, level, code, masked_line(message), masked_line(todo))
