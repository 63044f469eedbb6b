"""Files that steer what root does, and that facts read: only root may have written them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.host.door import Stat
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader


def stranger(reader: Reader, place: str) -> str:
    """Who besides root could have written a file, or put another in its place, as a sentence; empty for nobody.

    `place` is canonical (Reader.resolve)."""
    while True:
        info = reader.stat(place)
        if not isinstance(info, Stat):
            return f"{place}: {why(info)}"
        if info.uid != 0:
            return f"{place} belongs to uid {info.uid}, not to root"
        if info.mode & 0o022:
            return f"others than root can write {place} (sudo chmod go-w {place})"
        if place == "/":
            return ""
        place = posixpath.dirname(place)


def why(answer: object) -> str:
    """Why a path has no answer."""
    return answer.reason if isinstance(answer, Unreadable) else "it leads nowhere"
