"""A YAML file as plain data that still knows its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.errors import Where
from hosttune.frozen import frozen


@frozen
class YamlFile:
    """A YAML file as plain JSON types, and the line on which each field is.

    `lines` maps dotted paths (`params.percent.default`, `want[0].sysctl`) to line numbers from 1.
    """

    data: Any
    lines: Mapping[str, int]
    name: str
    # of a compiled rule: the subjects and units it uses
    asks: Mapping[str, tuple[str, ...]] | None = None
    tells_health: bool | None = None  # of a compiled rule: whether `hosttune health` asks it

    def where(self, path: str = "") -> Where:
        """The place of a field; of a missing one, the line of what it is missing from."""
        known = path
        while known and known not in self.lines:
            # One step up at a time: the nearest thing that is there is where the missing one has to
            # be written.
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        return Where(self.name, self.lines.get(known, 1), path)
