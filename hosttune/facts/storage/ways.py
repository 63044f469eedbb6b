"""Where a path leads, found out without asking another machine: a dead server holds who looks
there.
"""

from __future__ import annotations

import posixpath
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.mounts import is_served
from hosttune.host.reading.paths import PATH_MAX

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_MOST_LINKS = 40  # as the kernel: path_resolution(7)


class Ways:
    """The ways of one host."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self._reader = reader
        self._facts = facts

    def way(self, path: str) -> tuple[str, bool]:
        """(path, False), or where a path leads once a link or folder on its way is on another
        machine, with True. Only links on this machine are asked. A way of more parts than people
        make counts as one to another machine.
        """
        if not self._far or len(path) >= PATH_MAX:
            return path, False
        where, is_far = self._walk(path)
        return (where, True) if is_far else (path, False)

    def follow(self, path: str) -> tuple[str, bool]:
        """The same, with the links of a path that stays here followed, whether it is there or
        not.
        """
        return self._walk(path) if len(path) < PATH_MAX else (path, False)

    def _walk(self, path: str) -> tuple[str, bool]:
        waiting = path.split("/")[::-1]
        here, hops, walked = "/", 0, 0
        while waiting:
            part = waiting.pop()
            if part == "..":
                here = posixpath.dirname(here)
            if part in {"", ".", ".."}:
                continue
            here = posixpath.join(here, part)
            walked += 1
            if here in self._far or walked > PATH_MAX:
                return posixpath.normpath(posixpath.join(here, *reversed(waiting))), True
            target = self._reader.link(here)
            # The kernel gives up at a link beyond this limit (ELOOP), so nothing is mounted or read
            # behind it.
            if isinstance(target, str) and hops < _MOST_LINKS:
                hops += 1
                here = "/" if target.startswith("/") else posixpath.dirname(here)
                waiting += target.split("/")[::-1]
        return here, False

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        """Those that a path reaches, those of users over a place of the host's too; none where they
        are not known.
        """
        try:
            return tuple(one for one in self._facts.mounts.all if one.is_topmost or one.is_of_user)
        except UnknownFact:
            return ()

    @cached_property
    def _far(self) -> frozenset[str]:
        """Where those that wait for a server are."""
        # Asked of the mount table alone: a stat(2) of a mount whose server is gone does not come
        # back.
        return frozenset(mount.target for mount in self.mounts if is_served(mount))


@lru_cache(maxsize=1)  # each line that is not mounted asks
def ways_of(facts: Facts) -> Ways:
    """The ways of the host of these facts."""
    return Ways(facts.reader, facts)
