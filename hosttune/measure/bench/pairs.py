"""The runner: one chunk of work after the other under A, B and A', in random order, until it is precise or the budget
is spent. It knows no files and no disks: `measure` does the work and tells the time that it took.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from hosttune.frozen import frozen
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.statistics import LOOKS, Judgement, judge

BASE, OTHER, CONTROL = "base", "other", "control"  # A, B, A'
ARMS = (BASE, OTHER, CONTROL)
MOST_SKIPPED = 0.30
_JUDGED_FROM = 10  # chunks, before it is said that too many are disturbed


@frozen
class Timed:
    """One piece of work: its time, and what it cost. Bytes are None where nothing counts them."""

    seconds: float
    cpu_s: float = 0.0
    read_bytes: int | None = None
    written_bytes: int | None = None

    def plus(self, other: Timed) -> Timed:
        return Timed(
            self.seconds + other.seconds,
            self.cpu_s + other.cpu_s,
            _sum(self.read_bytes, other.read_bytes),
            _sum(self.written_bytes, other.written_bytes),
        )


@frozen
class WorkComparison:
    """One kind of work under the arms: all ratios as they were, and what they say."""

    name: str
    judgement: Judgement
    effects: tuple[float, ...]  # B/A
    controls: tuple[float, ...]  # A'/A
    totals: Mapping[str, Timed]  # arm -> the sum of all chunks that count


@frozen
class Pairs:
    """A whole run, by kind of work in the order of `measure`."""

    comparisons: tuple[WorkComparison, ...]
    skipped: int  # chunks that were disturbed and done again
    seconds: float
    seed: int


class _Series:
    def __init__(self) -> None:
        self.effects: list[float] = []
        self.controls: list[float] = []
        self.totals: dict[str, Timed] = {}

    def add(self, times: Mapping[str, Timed]) -> None:
        self.effects.append(times[OTHER].seconds / times[BASE].seconds)
        self.controls.append(times[CONTROL].seconds / times[BASE].seconds)
        for arm, one in times.items():
            self.totals[arm] = self.totals[arm].plus(one) if arm in self.totals else one


def compare(
    measure: Callable[[str, int], Mapping[str, Timed]],
    *,
    seed: int,
    budget_s: float,
    begin_chunk: Callable[[], Callable[[], tuple[str, ...]]] = lambda: lambda: (),
    spoiled: str = "",
    anyway: bool = False,
    on_progress: Callable[[int, float], None] = lambda _pairs, _share: None,
    clock: Callable[[], float] = time.monotonic,
) -> Pairs:
    """Run pairs until all comparisons are precise at one of the fixed looks, or the budget is spent.

    `measure(arm, chunk)` does one chunk and returns kind of work -> Timed; a kind that one arm lacks is left out of the
    chunk. `begin_chunk()` is called before a chunk and what it returns afterwards: sentences about who disturbed it.
    Such a chunk is done again; where more than 30 % are disturbed, GateClosed is raised, or `anyway` makes that the
    reason for which it is spoiled. With `spoiled`, nothing is done again and nothing better than inconclusive comes
    out. `on_progress` gets the pairs so far and the share of the budget that is spent.
    """
    order = random.Random(seed)  # noqa: S311 - to be repeated from its seed
    begun = clock()
    series: dict[str, _Series] = {}
    done = skipped = 0
    for look in LOOKS:
        while done < look and clock() - begun < budget_s:
            arms = order.sample(ARMS, len(ARMS))
            end_chunk = begin_chunk()
            times = {arm: measure(arm, done) for arm in arms}
            if not spoiled and (noise := end_chunk()):
                skipped += 1
                spoiled = _too_noisy(done, skipped, noise, anyway=anyway)
                continue
            for name in [name for name in times[BASE] if all(name in one for one in times.values())]:
                series.setdefault(name, _Series()).add({arm: times[arm][name] for arm in ARMS})
            done += 1
            on_progress(done, min(1.0, (clock() - begun) / budget_s))
        if done < look:
            break
        judgements = [judge(one.effects, one.controls, seed) for one in series.values()]
        if all(judgement.is_precise for judgement in judgements):
            break
    if not done:
        raise GateClosed(
            "not one pair was finished within the budget", hint="give it more time: --budget SECONDS"
        )  # fmt: skip
    return Pairs(
        tuple(_comparison(name, one, seed, spoiled) for name, one in series.items()), skipped, clock() - begun, seed
    )


def _too_noisy(done: int, skipped: int, noise: tuple[str, ...], *, anyway: bool) -> str:
    """Why nothing can be concluded, once too much was disturbed; raises GateClosed unless it is measured anyway."""
    tried = done + skipped
    if tried < _JUDGED_FROM or skipped <= MOST_SKIPPED * tried:
        return ""
    why = f"{skipped} of {tried} chunks were disturbed, {noise[0]}: nothing can be told from such times"
    if not anyway:
        raise GateClosed(why, hint="wait for the host to be idle, or measure nevertheless with --anyway")
    return why


def _comparison(name: str, one: _Series, seed: int, spoiled: str) -> WorkComparison:
    judgement = judge(one.effects, one.controls, seed, spoiled=spoiled)
    return WorkComparison(name, judgement, tuple(one.effects), tuple(one.controls), one.totals)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
