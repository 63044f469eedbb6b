"""One remark about one line of an fstab."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class RemarkLevel(str, Enum):
    """How bad it is."""

    ERROR = "error"  # it is misread, or the mount or the boot fails
    WARNING = "warning"  # it does something else than it seems to, or it will fail one day
    NOTE = "note"  # good to know


class Remark(NamedTuple):
    """One thing about one line: what it is and why it matters, and what a person should do. Line 0 is the file."""

    line: int
    level: RemarkLevel
    code: str  # stable, for programs
    message: str
    todo: str
    is_misread: bool = False  # the readings of the line belong to it
    is_sure: bool = False  # the mount fails for certain, also where a boot goes on without it
