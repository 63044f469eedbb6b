"""GPU looks through one long-lived nvidia-smi that prints a line for each GPU every second."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hosttune.measure.gpu.program import Program, answer
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.gpu.smi_rows import FIELDS, OLDER, SmiTable, instances_in, pids_in

OPENING_S: Final = 10.0
STALE_S: Final = 3.0  # a GPU that was not spoken of for so long: its values are unknown
HUNG_S: Final = 15.0  # nothing at all was printed for so long: it is ended and started again
MOST_STARTS: Final = 3  # after the first one, in the life of a sampler
PIDS_EVERY_S: Final = 10.0
_LIST_S: Final = 5.0


class NoSmi(Exception):
    """nvidia-smi is of no use here; the text says why."""


class SmiSampler:
    """Asks `program`, the path of nvidia-smi, through `wrapper`, a program before it that unbuffers
    its output.

    Raises NoSmi where it shows no GPU within `opening_s`.
    """

    source = "nvidia-smi"

    def __init__(
        self,
        program: str,
        wrapper: tuple[str, ...] = (),
        *,
        opening_s: float = OPENING_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reason = ""
        self._program = program
        self._wrapper = wrapper
        self._clock = clock
        self._fields = list(FIELDS)
        self._starts = 0
        self._table = SmiTable()
        self._child: Program | None = None
        self._asking: Program | None = None
        self._answered: list[str] = []
        self._asked_at = float("-inf")
        self._pids: dict[str, tuple[int, ...]] | None = None
        self._heard_at: dict[int, float] = {}
        self._last_heard = clock()
        try:
            self._start()
            self._await_first(opening_s)
        except BaseException:
            self.close()
            raise
        on = any(row.is_mig_on for row in self._table.rows.values())
        listed = answer((*wrapper, program, "-L"), _LIST_S) if on else None
        self._instances = instances_in(listed or "")

    def read(self) -> tuple[GpuSample, ...]:
        now = self._clock()
        self._hear(now)
        if self._child is None or self._child.is_over or now - self._last_heard > HUNG_S:
            self._again(now)
        self._ask_pids(now)
        samples = []
        for index in sorted(self._table.rows):
            samples.append(self._sample(index, now))
            samples += self._instances.get(index, ())
        return tuple(samples)

    def close(self) -> None:
        for child in (self._child, self._asking):
            if child is not None:
                child.stop()
        self._child = self._asking = None
        self._starts = MOST_STARTS  # a look after the end starts nothing

    def _start(self) -> None:
        query = f"--query-gpu={','.join(self._fields)}"
        try:
            self._child = Program(
                (*self._wrapper, self._program, query, "--format=csv,nounits", "-lms", "1000")
            )
        except OSError as error:
            raise NoSmi(f"nvidia-smi could not be started: {error.strerror}") from None

    def _await_first(self, seconds: float) -> None:
        """Until a GPU shows, a field at a time given up where this nvidia-smi does not know it."""
        until = self._clock() + seconds
        while not self._table.rows or not self._heard_at:
            if self._child is None or self._child.is_over:
                if not self._without_refused():
                    raise NoSmi(f"nvidia-smi: {self._table.message or 'it printed nothing'}")
                self._start()
            left = until - self._clock()
            if left <= 0:
                raise NoSmi(f"nvidia-smi showed no GPU within {seconds:g} s")
            if self._child is not None:
                self._child.wait(left)
            self._hear(self._clock())

    def _without_refused(self) -> bool:
        """Take the refused field by its older name, or leave it out. False where none was
        refused.
        """
        refused, self._table.refused = self._table.refused, None
        if refused not in self._fields:
            return False
        place = self._fields.index(refused)
        self._fields[place : place + 1] = [OLDER[refused]] if refused in OLDER else []
        if self._child is not None:
            self._child.stop()
        return len(self._fields) > 1

    def _hear(self, now: float) -> None:
        lines = self._child.lines() if self._child is not None else []
        for line in lines:
            index = self._table.feed(line)
            if index is not None:
                self._heard_at[index] = now
        if lines:
            self._last_heard = now

    def _again(self, now: float) -> None:
        """Start it once more, a few times only."""
        if self._starts >= MOST_STARTS:
            return
        self._starts += 1
        self._last_heard = now
        if self._child is not None and not self._child.stop():
            self._starts = MOST_STARTS  # it hangs in the driver, and so would the next one
            self.reason = "nvidia-smi hangs in the driver, and cannot be ended"
            return
        times = "once" if self._starts == 1 else f"{self._starts} times"
        self.reason = (
            f"nvidia-smi was started again {times} ({self._table.message or 'it stopped printing'})"
        )
        try:
            self._start()
        except NoSmi as error:
            self._child = None
            self.reason = str(error)

    def _ask_pids(self, now: float) -> None:
        """Ask for the processes now and then, and take the answer when it is there."""
        if self._asking is None:
            if now - self._asked_at >= PIDS_EVERY_S and self._starts < MOST_STARTS:
                self._asked_at, self._answered = now, []
                with suppress(OSError):
                    self._asking = Program(
                        (
                            *self._wrapper,
                            self._program,
                            "--query-compute-apps=gpu_uuid,pid",
                            "--format=csv,noheader",
                        )
                    )
            return
        self._answered += self._asking.lines()
        if self._asking.is_over:
            self._pids = pids_in("\n".join(self._answered)) if self._asking.status == 0 else None
        elif now - self._asked_at > PIDS_EVERY_S:
            self._pids = None
        else:
            return
        if not self._asking.stop():
            self._asked_at = float("inf")  # it hangs in the driver: no more of them
        self._asking = None

    def _sample(self, index: int, now: float) -> GpuSample:
        seen = self._table.rows[index].sample
        if seen.lost:
            return seen
        # A line of another GPU shows that nvidia-smi works, not that this one still answers.
        if now - self._heard_at.get(index, float("-inf")) > STALE_S:
            return GpuSample(index, seen.uuid, seen.name)
        pids = None if self._pids is None else self._pids.get(seen.uuid, ())
        return GpuSample(
            index,
            seen.uuid,
            seen.name,
            seen.util_percent,
            seen.memory_used_bytes,
            seen.memory_total_bytes,
            seen.power_w,
            seen.power_limit_w,
            seen.sm_clock_mhz,
            seen.reasons,
            pids,
        )
