"""Pressure from the three files of a control group, or of the host."""

from __future__ import annotations

from collections.abc import Mapping

from hosttune.measure.watch.kept import Kept
from hosttune.measure.watch.parse import pressure_totals
from hosttune.measure.watch.tick import Pressure

KINDS = ("cpu", "io", "memory")


class Meter:
    """Pressure from the counters of three files."""

    def __init__(self, files: Mapping[str, Kept]) -> None:
        self._files = files
        self._was: dict[str, tuple[int | None, int | None]] = {}

    def look(self, seconds: float) -> Pressure | None:
        """Since the last look; None at the first one, and where there is no such file."""
        now = {
            kind: pressure_totals(content)
            for kind, file in self._files.items()
            if (content := file.read())
        }
        was, self._was = self._was, now
        if not now or not was:
            return None

        def percent(kind: str, place: int) -> float | None:
            old, new = was.get(kind, (None, None))[place], now.get(kind, (None, None))[place]
            return (
                None
                if old is None or new is None
                # Microseconds a second as percent (1e6 / 100). Counter and clock are read one after
                # the other, so a little more than 100 can come out.
                else max(0.0, min(100.0, (new - old) / seconds / 1e4))
            )

        return Pressure(
            percent("cpu", 0),
            percent("io", 0),
            percent("io", 1),
            percent("memory", 0),
            percent("memory", 1),
        )

    def close(self) -> None:
        for file in self._files.values():
            file.close()
