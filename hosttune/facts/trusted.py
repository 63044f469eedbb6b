"""Files that steer what root does, and that facts read: only root may have written them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.host.door import Stat
from hosttune.quoting import quote
from hosttune.values import ABSENT, Unreadable, is_unrecorded

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Absent

_MAX_LINKS = 40  # as the kernel follows


def find_stranger(reader: Reader, place: str) -> str:
    """Who besides root could have written a file, or put another in its place, as a sentence; empty
    for no one.

    `place` is canonical (Reader.resolve).
    """
    while True:
        info = reader.stat(place)
        if not isinstance(info, Stat):
            return f"{place}: {why_no_answer(info)}"
        if info.uid != 0:
            return (
                f"{place} belongs to uid {info.uid}, not to root (sudo chown root: {quote(place)})"
            )
        if info.mode & 0o022:
            return f"others than root can write {place} (sudo chmod go-w {quote(place)})"
        if place == "/":
            return ""
        place = posixpath.dirname(place)


def link_stranger(reader: Reader, path: str) -> str:
    """As `find_stranger`, of a path that may be a link or lead over links: only root can lead it
    elsewhere.
    """
    for _ in range(_MAX_LINKS):
        above = posixpath.dirname(path)
        folder = reader.resolve(above)
        if not isinstance(folder, str):
            return f"{above}: {why_no_answer(folder)}"
        # The folder was reached over a link. Who can change that link can put another file in the
        # place of this one.
        if folder != posixpath.normpath(above) and (who := link_stranger(reader, above)):
            return who
        place = posixpath.join(folder, posixpath.basename(path))
        target = reader.link(place)
        if not isinstance(target, str):
            return find_stranger(reader, place)
        own = reader.stat(place, follow=False)
        if not isinstance(own, Stat) or own.uid != 0:
            return f"the link {place} is not root's"
        if who := find_stranger(reader, folder):
            return who
        path = posixpath.join(folder, target)
    return f"{path} is a link to a link, and so on"


def of_root(reader: Reader, path: str, most: int) -> bytes | Absent:
    """A file that root alone can have written; unknown where someone else could have, or above
    `most` bytes. An old record that does not hold it is without it.
    """
    place = reader.resolve(path)
    if place is ABSENT or is_unrecorded(place):
        return ABSENT
    if not isinstance(place, str):
        raise UnknownFact(f"{path} cannot be read: {place.reason}")
    if who := link_stranger(reader, path):
        way_out = (
            "" if "(sudo" in who else f": sudo install -m 644 -o root -g root FILE {quote(path)}"
        )
        raise UnknownFact(f"{path} is not followed, because {who}{way_out}")
    content = reader.read(place)
    if not isinstance(content, bytes):
        raise UnknownFact(f"{path} cannot be read: {why_no_answer(content)}")
    if len(content) > most:
        raise UnknownFact(
            f"{path} has {len(content)} bytes, more than {most}: take out what does not belong "
            "there"
        )
    return content


def why_no_answer(answer: object) -> str:
    """Why a path has no answer."""
    return answer.reason if isinstance(answer, Unreadable) else "it leads nowhere"
