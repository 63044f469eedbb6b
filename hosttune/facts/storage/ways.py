"""Where a path leads, found out without asking another machine: a dead server holds whoever looks there."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.mounts import is_served, mount_of

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
        """(path, False), or where a path leads once a link or folder on its way lies on another machine, with True.
        Only links on this machine are asked.
        """
        if not self._has_remote:
            return path, False
        waiting = [part for part in path.split("/") if part]
        here, hops = "/", 0
        while waiting:
            part = waiting.pop(0)
            here = posixpath.normpath(posixpath.join(here, part))
            mount = mount_of(self.mounts, here)
            if mount is not None and is_served(mount):
                return posixpath.normpath(posixpath.join(here, *waiting)), True
            target = self._reader.link(here)
            if isinstance(target, str) and hops < _MOST_LINKS:
                hops += 1
                here = posixpath.dirname(here)
                here = "/" if target.startswith("/") else here
                waiting = [part for part in target.split("/") if part] + waiting
        return path, False

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        """Those that a path reaches; none where they are not known."""
        try:
            return self._facts.mounts.visible
        except UnknownFact:
            return ()

    @cached_property
    def _has_remote(self) -> bool:
        return any(map(is_served, self.mounts))
