"""Lines over time as SVG paths: scales, gaps, and thousands of values in a few hundred columns.
Pure.

Coordinates are `WIDTH` by `HEIGHT` units, stretched to whatever room there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from hosttune.frozen import frozen

WIDTH = 1000.0
HEIGHT = 100.0
COLUMNS = 250
MOST_VALUES = 2 * COLUMNS  # of a line; of more only the columns' mean, least and greatest are drawn
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800,
)  # fmt: skip
_MOST_TIMES = 7


@frozen
class Value:
    """What held from `begin_s` to `end_s`; None where it is unknown."""

    begin_s: float
    end_s: float
    value: float | None

    @property
    def middle_s(self) -> float:
        return (self.begin_s + self.end_s) / 2


@frozen
class Scale:
    """Where values and seconds lie."""

    begin_s: float
    end_s: float
    top: float

    def x(self, seconds: float) -> float:
        return WIDTH * (seconds - self.begin_s) / ((self.end_s - self.begin_s) or 1.0)

    def y(self, value: float) -> float:
        return HEIGHT * (1 - min(max(value / (self.top or 1.0), 0.0), 1.0))


@frozen
class AxisLabel:
    """A label on an axis; `place` is percent of the axis from the left or the top."""

    place: float
    text: str


def known_runs(values: Sequence[Value]) -> Iterator[list[tuple[float, float]]]:
    """The stretches without a gap, as (seconds, value): one ends where a value is unknown or time
    is missing.
    """
    run: list[tuple[float, float]] = []
    last: Value | None = None
    for one in values:
        # Half an interval: ticks are never quite on time, and a lost look is a whole one.
        is_apart = last is not None and one.begin_s - last.end_s > 0.5 * max(
            one.end_s - one.begin_s, 0.1
        )
        if run and (one.value is None or is_apart):
            yield run
            run = []
        if one.value is not None:
            run.append((one.middle_s, one.value))
        last = one
    if run:
        yield run


def draw_line(values: Sequence[Value], scale: Scale) -> str:
    """The path of a line, with a gap where nothing is known; a value between two gaps is a dot.

    Of too many values it is the mean of each column.
    """
    parts = []
    for run in known_runs(values):
        spots = [
            _draw_spot(seconds, value, scale)
            for seconds, value in _thin_columns(run, values, scale, fmean)
        ]
        parts.append(f"M{'L'.join(spots)}" if len(spots) > 1 else f"M{spots[0]}h.1")
    return "".join(parts)


def draw_spread(values: Sequence[Value], scale: Scale) -> str:
    """The path of what the means of a line leave out: from the least to the greatest value of each
    column. Empty where the line leaves nothing out.
    """
    return draw_between(values, values, scale) if len(values) > MOST_VALUES else ""


def draw_between(low: Sequence[Value], high: Sequence[Value], scale: Scale) -> str:
    """The path of the area between two lines that are known at the same times."""
    parts = []
    for under, over in zip(known_runs(low), known_runs(high), strict=True):
        upper = _thin_columns(over, high, scale, max)
        lower = _thin_columns(under, low, scale, min)
        spots = [_draw_spot(seconds, value, scale) for seconds, value in (*upper, *reversed(lower))]
        parts.append(f"M{'L'.join(spots)}Z")
    return "".join(parts)


def _draw_spot(seconds: float, value: float, scale: Scale) -> str:
    return f"{scale.x(seconds):.1f} {scale.y(value):.1f}"


def _thin_columns(
    run: Sequence[tuple[float, float]],
    values: Sequence[Value],
    scale: Scale,
    choose: Callable[[Iterable[float]], float],
) -> list[tuple[float, float]]:
    """A stretch as it is, or one value for each column where there are too many for the eye."""
    if len(values) <= MOST_VALUES:
        return list(run)
    width = (scale.end_s - scale.begin_s) / COLUMNS or 1.0
    found: dict[float, list[tuple[float, float]]] = {}
    for one in run:
        found.setdefault((one[0] - scale.begin_s) // width, []).append(one)
    return [
        (fmean(at for at, _ in column), choose(value for _, value in column))
        for column in found.values()
    ]


def top_of(greatest: float) -> float:
    """The end of an axis that holds this: 1, 2, 5, 10, 20 ..."""
    power = 10.0 ** math.floor(math.log10(greatest)) if greatest > 0 else 1.0
    return next(step * power for step in (1, 2, 5, 10) if step * power >= greatest)


def make_times(scale: Scale) -> tuple[AxisLabel, ...]:
    """The labels of a time axis: seconds, minutes or hours since its begin."""
    span = scale.end_s - scale.begin_s
    step: float = next((step for step in _STEPS_S if span / step <= _MOST_TIMES), 0)
    step = step or top_of(span / _MOST_TIMES)
    count = int(span // step)
    return tuple(
        AxisLabel(100 * number * step / (span or 1.0), format_clock(number * step))
        for number in range(count + 1)
    )


def format_clock(seconds: float) -> str:
    """`45 s`, `1:30 min`, `2 h`, `3.5 days`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _format_part(whole, "min")
    return _format_part(whole // 60, "h") if whole < 172800 else f"{whole / 86400:.3g} days"


def _format_part(number: int, unit: str) -> str:
    return f"{number // 60}:{number % 60:02} {unit}" if number % 60 else f"{number // 60} {unit}"
