"""The picture of a watch: lanes over time, the states under them, the verdict as text.

One HTML file that loads nothing and runs nothing, or an SVG of the same lanes. A line has a gap
where a value is unknown. What is drawn are the points of history.py.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Sequence

from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.measure.views import chart
from hosttune.measure.views.chart import AxisLabel, Scale, Value
from hosttune.measure.watch.history import Point
from hosttune.measure.watch.states import State
from hosttune.rendering import render

_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
STATE_WORDS = {
    State.MEM: "memory is short", State.COLD_GPU: "GPU busy, but cold", State.GPU: "GPU busy",
    State.DISK: "the disk", State.CPU: "the CPUs", State.FOREIGN: "other jobs' CPU use",
    State.WORKERS: "too few loader processes", State.LIMIT: "a limit on its CPUs",
    State.IDLE: "nothing to do", State.WAIT: "network, locks, sync", State.UNKNOWN: "not known",
}  # fmt: skip


@frozen
class Picture:
    """What is drawn. `report` are the lines of the verdict as a terminal shows them; `marks_s` the
    seconds at which another state took over; `gpu_gap` says why no GPU is seen, where none is.
    """

    title: str
    headline: str
    report: tuple[str, ...]
    points: Sequence[Point]
    marks_s: tuple[float, ...] = ()
    gpu_gap: str = ""


@frozen
class PlotLine:
    """A line of a lane: `style` is its class in plot.css; `most` is empty where it is no more than
    the mean.
    """

    style: str
    name: str
    mean: str
    most: str
    path: str


@frozen
class Lane:
    """A strip of the picture. Without lines `gap` says why."""

    title: str
    unit: str
    lines: tuple[PlotLine, ...]
    areas: tuple[tuple[str, str], ...]  # class, path
    labels: tuple[AxisLabel, ...]
    gap: str = ""


@frozen
class Stretch:
    """Time in one state, in percent of the run; `is_counted` is False for the warm-up and while the
    job idles.
    """

    place: float
    width: float
    state: State
    is_counted: bool


def render_plot(picture: Picture) -> str:
    """The HTML file."""
    # The policy of the page allows this one style by its hash, and nothing else, wherever the file
    # is opened.
    style = render("plot.css")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return render(
        "plot.html.j2", style=style, style_hash=f"sha256-{digest}", **_list_values(picture)
    )


def render_svg(picture: Picture) -> str:
    """The lanes alone as an SVG file of 960 units' width."""
    return render("plot.svg.html.j2", style=render("plot.css"), **_list_values(picture))


def _list_values(picture: Picture) -> dict[str, object]:
    points = tuple(picture.points)
    scale = _make_scale(points)
    return {
        "title": clean(picture.title),
        "headline": clean(picture.headline),
        "report": [clean(line) for line in picture.report],
        "lanes": _make_lanes(points, clean(picture.gpu_gap)),
        "times": chart.make_times(scale),
        "stretches": _make_stretches(points, scale),
        "shares": _make_shares(points),
        "marks": [scale.x(seconds) / chart.WIDTH * 100 for seconds in picture.marks_s],
        "long": chart.format_clock(scale.end_s - scale.begin_s),
    }


def _make_scale(points: Sequence[Point], top: float = 100.0) -> Scale:
    if not points:
        return Scale(0.0, 1.0, top)
    return Scale(points[0].at_s - points[0].seconds, points[-1].at_s, top)


# Two clocks that are read one after the other make 2.05 cores of 2: no reason for an axis that ends
# at 5.
JITTER = 0.03


def _make_lanes(points: Sequence[Point], gpu_gap: str) -> list[Lane]:
    unit, name = _rate_unit(points)
    return [
        _make_lane(
            points,
            "GPU",
            "%",
            (("a", "busy", "gpu_percent"), ("b dashed", "power of its limit", "power_percent")),
            top=100.0,
            band=("gpu_low", "gpu_high"),
            gap=gpu_gap or "no GPU reports how busy it is",
        ),
        _make_lane(
            points,
            "CPU",
            "cores",
            (
                ("c", "whole host", "busy_cores"),
                ("a", "the job", "tree_cores"),
                ("limit", "the job may use", "cpus"),
            ),
            jitter=JITTER,
        ),
        _make_lane(
            points,
            "Stalled on",
            "% of time (PSI)",
            (
                ("c", "CPU", "cpu_some"),
                ("a", "disk", "io_some"),
                ("b dashed", "disk, all tasks", "io_full"),
                ("d", "memory", "memory_some"),
            ),
            top=100.0,
            gap="this kernel does not show it (no PSI)",
        ),
        _make_lane(
            points,
            "Reading",
            name,
            (
                ("c", "the job, cache included", "read_bytes"),
                ("a", "the job, from a device", "device_bytes"),
                ("b dashed", "all disks", "disk_bytes"),
            ),
            unit=unit,
        ),
        _make_lane(
            points,
            "Swapping",
            "pages/s",
            (
                ("d", "in, whole host", "swapped_in_pages"),
                ("c dashed", "out, whole host", "swapped_out_pages"),
            ),
        ),
    ]


def _make_lane(
    points: Sequence[Point],
    title: str,
    unit_name: str,
    series: Sequence[tuple[str, str, str]],
    *,
    top: float = 0.0,
    unit: float = 1.0,
    jitter: float = 0.0,
    band: tuple[str, str] | None = None,
    gap: str = "not known in this run",
) -> Lane:
    known = {field: _values_of(points, field, unit) for _, _, field in series}
    greatest = max(
        (one.value for values in known.values() for one in values if one.value is not None),
        default=None,
    )
    if greatest is None:
        return Lane(title, unit_name, (), (), (), gap)
    # A line at zero would look like a measurement that failed.
    if greatest == 0 and not top:
        return Lane(title, unit_name, (), (), (), "none in this run")
    scale = _make_scale(points, top or chart.top_of(greatest * (1 - jitter)))
    lines = tuple(
        PlotLine(style, name, *_sum_up_values(known[field]), chart.draw_line(known[field], scale))
        for style, name, field in series
        if any(one.value is not None for one in known[field])
    )
    areas = [(style, chart.draw_spread(known[field], scale)) for style, _, field in series]
    if band:
        low, high = (_values_of(points, field, unit) for field in band)
        areas[0] = (series[0][0], chart.draw_between(low, high, scale) if low != high else "")
    labels = (
        AxisLabel(0.0, _format_figure(scale.top)),
        AxisLabel(50.0, _format_figure(scale.top / 2)),
    )
    return Lane(title, unit_name, lines, tuple(area for area in areas if area[1]), labels)


def _values_of(points: Sequence[Point], field: str, unit: float) -> list[Value]:
    read: Callable[[Point], float | None] = lambda point: getattr(point, field)  # noqa: E731
    return [
        Value(
            one.at_s - one.seconds, one.at_s, None if (value := read(one)) is None else value / unit
        )
        for one in points
    ]


def _sum_up_values(values: Sequence[Value]) -> tuple[str, str]:
    """The mean over time and the greatest value."""
    known = [(one.value, one.end_s - one.begin_s) for one in values if one.value is not None]
    total = sum(seconds for _, seconds in known) or 1.0
    mean = _format_figure(sum(value * seconds for value, seconds in known) / total)
    most = _format_figure(max(value for value, _ in known))
    return mean, "" if most == mean else most


def _format_figure(value: float) -> str:
    """Three digits, no exponent: 0.04, 1.5, 38, 12,400."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 or value == 0 else "under 0.01"


def _rate_unit(points: Sequence[Point]) -> tuple[float, str]:
    fields = ("read_bytes", "device_bytes", "disk_bytes")
    greatest = max((getattr(one, field) or 0.0 for one in points for field in fields), default=0.0)
    return next((unit for unit in _UNITS if greatest >= unit[0]), _UNITS[1])


def _find_leading(point: Point) -> State:
    return max(point.states, key=lambda one: one[1])[0] if point.states else State.UNKNOWN


def _make_stretches(points: Sequence[Point], scale: Scale) -> list[Stretch]:
    """Neighbours in one state as one; what is narrower than a column of the picture goes to its
    neighbour.
    """
    found: list[Stretch] = []
    least = 100.0 / chart.COLUMNS
    for one in points:
        begin = scale.x(one.at_s - one.seconds) / chart.WIDTH * 100
        end = scale.x(one.at_s) / chart.WIDTH * 100
        state, is_counted = _find_leading(one), one.counted_s > 0
        last = found[-1] if found else None
        joins = last is not None and (
            (last.state is state and last.is_counted == is_counted)
            or end - begin < least > last.width
        )
        if last is not None and joins and begin - (last.place + last.width) < least:
            found[-1] = Stretch(last.place, end - last.place, last.state, last.is_counted)
        else:
            found.append(Stretch(begin, end - begin, state, is_counted))
    return found


def _make_shares(points: Sequence[Point]) -> list[tuple[State, str, str]]:
    """Each state with its words and its part of the whole time, the largest first."""
    sums: dict[State, float] = {}
    for one in points:
        for state, seconds in one.states:
            sums[state] = sums.get(state, 0.0) + seconds
    total = sum(sums.values()) or 1.0
    ordered = sorted(sums, key=lambda state: -sums[state])
    return [(state, STATE_WORDS[state], f"{100 * sums[state] / total:.0f} %") for state in ordered]
