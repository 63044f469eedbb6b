"""How long a look may take, and whether someone has lost patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SAMPLE_S: Final = 10.0  # for the sample, where no budget is given
_NAMES_SHARE: Final = 0.7  # of a budget
SIZES_S: Final = 30.0  # for the sizes of all files, while names are read
_SIZES_SHARE: Final = 0.5  # of a budget's part for names
_STATS_SHARE: Final = 0.6  # of what is left for the sample
_AFTER_STOP_S: Final = 1.0  # for the sizes of names that were seen before


class Patience:
    """`stop` may be called from a signal handler. Without a budget names are read to their end."""

    def __init__(
        self, budget_s: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._budget_s = budget_s
        self._start = now()
        self._end = float("inf") if budget_s is None else self._start + budget_s * _NAMES_SHARE
        self.sizes_s = (
            SIZES_S if budget_s is None else min(SIZES_S, budget_s * _NAMES_SHARE * _SIZES_SHARE)
        )
        self.stopped = ""  # interrupted | budget

    @property
    def seconds(self) -> float:
        return self._now() - self._start

    def stop(self) -> None:
        self.stopped = "interrupted"

    def is_over(self) -> bool:
        """Whether the present phase has to end; the reason is kept. Asked between small steps."""
        # The first reason stays: a budget that ends after Ctrl-C does not hide it.
        if not self.stopped and self._now() >= self._end:
            self.stopped = "budget"
        return bool(self.stopped)

    def sample(self) -> SamplePhase:
        """The phase of the sample; it may also run, shortly, when the names were cut short."""
        now = self._now()
        whole = SAMPLE_S if self._budget_s is None else max(0.0, self._start + self._budget_s - now)
        # Without any sizes the names alone would answer nothing, so a moment is spent on them even
        # after Ctrl-C.
        whole = min(whole, _AFTER_STOP_S) if self.stopped == "interrupted" else whole
        return SamplePhase(self, now + whole * _STATS_SHARE, now + whole)


class SamplePhase:
    """The time for a sample: until `stats_end` sizes, until `end` headers. Its own limit is no
    reason to call a report partial: the sample is only smaller.
    """

    def __init__(self, patience: Patience, stats_end: float, end: float) -> None:
        self._patience = patience
        self._was = patience.stopped
        self._stats_end = stats_end
        self._end = end

    def has_time(self, *, for_stats: bool) -> bool:
        if self._patience.stopped != self._was:  # a first Ctrl-C, or one more
            return False
        return self._patience._now() < (self._stats_end if for_stats else self._end)  # noqa: SLF001 - its own part
