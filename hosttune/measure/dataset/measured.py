"""What `bench read --decode` found for this very folder: workers that were tried, instead of a
figure to start from.
"""

from __future__ import annotations

import os
from contextlib import suppress

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.results import find_latest


@frozen
class Measured:
    """`workers` of all training processes together, and when that was found (UTC, ISO 8601)."""

    workers: int
    measured_at: str


def measured_before(folder: str, where: str = "") -> Measured | None:
    """The newest result for this folder on this file system and kernel; None where there is none
    that says something.

    Without `--decode` the workers only read, and say little about a loader's. `where` is the state
    folder.
    """
    with suppress(HosttuneError, OSError):
        place = look_at(folder)
        found = find_latest(
            place.uuid,
            # Another kernel may have another read-ahead and scheduler, so its figures are not taken
            # over.
            os.uname().release,
            where,
            lambda one: one.path == place.path and "python" in one.words,
        )
        if found:
            workers = int(found.figures.get("workers") or 0)
            if workers > 0 and found.words.get("limit", "inconclusive") != "inconclusive":
                return Measured(workers, found.measured_at)
    return None
