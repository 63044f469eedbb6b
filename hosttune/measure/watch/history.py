"""The run over time in bounded memory: at most 2,048 points, each twice as long once they are full.

An hour at one tick a second keeps every other tick; a week keeps five minutes a point. Change
points and the picture of a run are made of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hosttune.frozen import frozen
from hosttune.measure.watch.states import State
from hosttune.measure.watch.tick import (
    Tick,
    find_pressure,
    gpu_percent,
    power_percent,
    room_percent,
)

CAPACITY = 2048
LONG_ENOUGH_S = 30.0  # either side of a change point; of a short watch a quarter
SHORTEST_S = 5.0
HOLDS = 0.6  # of its side


@frozen
class Point:
    """What went on in `seconds` up to `at_s`; means over it, None where nothing was known. `states`
    tells how many seconds each state took, `counted_s` how many of them the verdict counts (no
    warm-up).
    """

    at_s: float
    seconds: float
    states: tuple[tuple[State, float], ...]
    counted_s: float
    gpu_low: float | None = None  # the least that one GPU showed in one tick
    gpu_high: float | None = None  # the most
    gpu_percent: float | None = None
    power_percent: float | None = None
    room_percent: float | None = None
    tree_cores: float | None = None
    busy_cores: float | None = None  # of the whole host
    cpus: float | None = None  # that the job may use
    cpu_some: float | None = None
    io_some: float | None = None
    io_full: float | None = None
    memory_some: float | None = None
    read_bytes: float | None = None  # a second, by the job's processes
    device_bytes: float | None = None  # a second, of those from a device
    disk_bytes: float | None = None  # a second, read from all disks
    swapped_in_pages: float | None = None  # a second, of the whole host
    swapped_out_pages: float | None = None


@frozen
class Segment:
    """A part of the counted time in which one state held sway, in seconds since the watch began."""

    state: State
    begin_s: float
    end_s: float
    share: float  # of the counted seconds in it, 0 to 1
    device_bytes: float | None = None  # a second, mean


def point(tick: Tick, state: State, *, is_counted: bool) -> Point:
    """One tick as a point."""
    seen = find_pressure(tick)
    busy = [
        gpu.util_percent for gpu in tick.gpus or () if not gpu.lost and gpu.util_percent is not None
    ]
    return Point(
        at_s=tick.at_s,
        seconds=tick.seconds,
        states=((state, tick.seconds),),
        counted_s=tick.seconds if is_counted else 0.0,
        gpu_low=min(busy, default=None),
        gpu_high=max(busy, default=None),
        gpu_percent=gpu_percent(tick),
        power_percent=power_percent(tick),
        room_percent=room_percent(tick),
        tree_cores=tick.tree.cores if tick.tree else None,
        busy_cores=tick.host.busy_cores if tick.host else None,
        cpus=tick.cpus,
        cpu_some=seen.cpu_some if seen else None,
        io_some=seen.io_some if seen else None,
        io_full=seen.io_full if seen else None,
        memory_some=seen.memory_some if seen else None,
        read_bytes=tick.tree.read_bytes if tick.tree else None,
        device_bytes=tick.tree.device_bytes if tick.tree else None,
        disk_bytes=None if tick.disks is None else sum(disk.read_bytes for disk in tick.disks),
        swapped_in_pages=tick.host.swapped_in_pages if tick.host else None,
        swapped_out_pages=tick.host.swapped_out_pages if tick.host else None,
    )


_MEANS = Point.__slots__[Point.__slots__.index("gpu_percent") :]  # type: ignore[attr-defined]


def join_points(first: Point, second: Point) -> Point:
    """Two neighbours as one."""
    states = dict(first.states)
    for state, seconds in second.states:
        states[state] = states.get(state, 0.0) + seconds
    means = {name: _compute_mean(first, second, name) for name in _MEANS}
    return Point(
        second.at_s,
        first.seconds + second.seconds,
        tuple(states.items()),
        first.counted_s + second.counted_s,
        min((one.gpu_low for one in (first, second) if one.gpu_low is not None), default=None),
        max((one.gpu_high for one in (first, second) if one.gpu_high is not None), default=None),
        **means,
    )


def _compute_mean(first: Point, second: Point, name: str) -> float | None:
    one, two = getattr(first, name), getattr(second, name)
    if one is None or two is None:
        return two if one is None else one  # type: ignore[no-any-return]
    return (one * first.seconds + two * second.seconds) / (first.seconds + second.seconds)  # type: ignore[no-any-return]


class History:
    """The points of a run."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.points: list[Point] = []
        self._stride = 1  # ticks in a full point
        self._filled = 0  # of the last point

    def add(self, new: Point) -> None:
        if self._filled:
            self.points[-1] = join_points(self.points[-1], new)
        else:
            self.points.append(new)
        self._filled = (self._filled + 1) % self._stride
        # Only with a full last point, so that all have the same length and pairs are even.
        if len(self.points) == self.capacity and not self._filled:
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [join_points(*pair) for pair in pairs]
            self._stride *= 2


def cut_segments(points: Iterable[Point]) -> tuple[Segment, ...]:
    """The counted time, cut where one state took over from another for at least 30 s on either
    side; of a watch below two minutes for a quarter of it.
    """
    counted = [one for one in points if one.counted_s]
    long_enough = min(LONG_ENOUGH_S, max(SHORTEST_S, sum(one.counted_s for one in counted) / 4))
    return (
        tuple(_make_segment(part) for part in _merge_parts(_cut(counted, long_enough)))
        if counted
        else ()
    )


def _cut(points: Sequence[Point], long_enough: float) -> list[Sequence[Point]]:
    """Cuts where the seconds that do not belong to the leading state of their side become
    fewest.
    """
    # A cut has to explain more than noise: half of the shortest segment.
    best, at = _count_strays(points) - long_enough / 2, 0
    total = sum(one.counted_s for one in points)
    left, left_s, right = dict[State, float](), 0.0, _compute_sums(points)
    # The sums of both sides are carried along: making them anew for each place would be quadratic.
    for index, one in enumerate(points[:-1], 1):
        for state, seconds in _list_counted(one):
            left[state] = left.get(state, 0.0) + seconds
            right[state] -= seconds
        left_s += one.counted_s
        if left_s < long_enough or total - left_s < long_enough:
            continue
        strays = left_s - max(left.values()) + total - left_s - max(right.values())
        # A side without a leading state would be a segment that has no name.
        if strays < best and _is_leading(left, left_s) and _is_leading(right, total - left_s):
            best, at = strays, index
    return (
        [points] if not at else [*_cut(points[:at], long_enough), *_cut(points[at:], long_enough)]
    )


def _is_leading(sums: dict[State, float], seconds: float) -> bool:
    return max(sums.values()) >= HOLDS * seconds


def _compute_sums(points: Iterable[Point]) -> dict[State, float]:
    sums: dict[State, float] = {}
    for one in points:
        for state, seconds in _list_counted(one):
            sums[state] = sums.get(state, 0.0) + seconds
    return sums


def _list_counted(one: Point) -> list[tuple[State, float]]:
    """The counted seconds of each state: a point that was joined may hold some of the warm-up."""
    total = sum(seconds for _, seconds in one.states)
    return (
        [(state, seconds * one.counted_s / total) for state, seconds in one.states] if total else []
    )


def _count_strays(points: Sequence[Point]) -> float:
    return sum(one.counted_s for one in points) - max(_compute_sums(points).values())


def _find_leading(points: Sequence[Point]) -> State:
    sums = _compute_sums(points)
    return max(sums, key=lambda state: sums[state])


def _merge_parts(parts: list[Sequence[Point]]) -> list[Sequence[Point]]:
    """Neighbours with the same leading state are one part."""
    joined_parts: list[Sequence[Point]] = []
    for part in parts:
        if joined_parts and _find_leading(joined_parts[-1]) is _find_leading(part):
            joined_parts[-1] = [*joined_parts[-1], *part]
        else:
            joined_parts.append(part)
    return joined_parts


def _make_segment(points: Sequence[Point]) -> Segment:
    state = _find_leading(points)
    total = sum(one.counted_s for one in points)
    known = [(one.device_bytes, one.seconds) for one in points if one.device_bytes is not None]
    seconds = sum(weight for _, weight in known)
    return Segment(
        state,
        points[0].at_s - points[0].seconds,
        points[-1].at_s,
        _compute_sums(points)[state] / total,
        sum(value * weight for value, weight in known) / seconds if seconds else None,
    )
