"""The picture of a watch: what is unknown is a gap, what is too much is thinned without losing its
peaks.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hosttune.measure.views import chart
from hosttune.measure.views.chart import Scale, Value
from hosttune.measure.views.watch_plot import STATE_WORDS, Picture, render_plot, render_svg
from hosttune.measure.watch.history import Point
from hosttune.measure.watch.states import State

BUSY = Point(
    1.0, 1.0, ((State.GPU, 1.0),), 1.0, 90.0, 90.0, 90.0, 60.0, 40.0, 3.0, 4.0, 8.0, 1.0, 2.0, 1.0, 0.0, 4e8, 2e6, 3e6, 0.0, 0.0,
)  # fmt: skip
REPORT = ("verdict: GPU", "  -> nothing on the host to gain")


def run(*points: Point) -> tuple[Point, ...]:
    return tuple(replace(one, at_s=number + 1.0) for number, one in enumerate(points))


def picture(*points: Point, **other) -> Picture:
    return Picture(
        **{
            "title": "python train.py",
            "headline": "GPU",
            "report": REPORT,
            "points": run(*points),
            **other,
        }
    )


def values(*found: float | None) -> list[Value]:
    return [Value(float(number), number + 1.0, value) for number, value in enumerate(found)]


class Page(HTMLParser):
    """The tags that are open, and every tag and attribute that was met."""

    VOID = ("meta", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_line_where_a_value_is_unknown_has_a_gap():
    path = chart.draw_line(values(10, 20, None, 30, 40), Scale(0, 5, 100))
    assert path == "M100.0 90.0L300.0 80.0M700.0 70.0L900.0 60.0"


def test_line_where_time_is_missing_has_a_gap():
    found = [Value(0, 1, 10.0), Value(1, 2, 10.0), Value(5, 6, 10.0), Value(6, 7, 10.0)]
    assert chart.draw_line(found, Scale(0, 7, 100)).count("M") == 2


def test_line_of_one_value_between_gaps_is_a_dot():
    assert chart.draw_line(values(None, 50, None), Scale(0, 3, 100)) == "M500.0 50.0h.1"


def test_line_of_unknown_values_is_empty():
    assert chart.draw_line(values(None, None), Scale(0, 2, 100)) == ""


def test_line_of_thousands_of_values_is_a_mean_and_keeps_the_peaks_beside_it():
    many = values(*(100.0 if number == 3001 else 0.0 for number in range(5000)))
    scale = Scale(0, 5000, 100)
    assert chart.draw_line(many, scale).count("L") < chart.COLUMNS
    spread = chart.draw_spread(many, scale)
    assert spread.count("L") < 2 * chart.COLUMNS
    assert re.search(r" 0\.0L", spread)  # the one value of 100 stands at the top
    assert chart.draw_spread(values(1, 2, 3), scale) == ""


@pytest.mark.parametrize(
    ("greatest", "top"), [(0.03, 0.05), (1, 1), (1.01, 2), (8, 10), (243, 500), (0, 1)]
)
def test_axis_ends_at_a_round_figure(greatest, top):
    assert chart.top_of(greatest) == pytest.approx(top)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (90, "1:30 min"),
        (900, "15 min"),
        (4500, "1:15 h"),
        (86400, "24 h"),
        (302400, "3.5 days"),
    ],
)
def test_clock_is_short(seconds, text):
    assert chart.format_clock(seconds) == text


@pytest.mark.parametrize("span", [0.0, 0.4, 3, 59, 240, 3600, 86400 * 9])
def test_times_are_few_and_on_the_axis(span):
    marks = chart.make_times(Scale(0, span, 1))
    assert 1 <= len(marks) <= 15
    assert all(0 <= mark.place <= 100 for mark in marks)


def test_plot_is_whole_html_that_loads_and_runs_nothing():
    page = Page(render_plot(picture(*[BUSY] * 5)))
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"src", "href", "xlink:href", "style"} & names
    assert not [name for name in names if name.startswith("on")]


def test_plot_shows_the_lanes_the_states_and_the_report():
    text = render_plot(picture(*[BUSY] * 5))
    for words in (
        "GPU",
        "CPU",
        "Stalled on",
        "Reading",
        "MB/s",
        "What the job waited for",
        "verdict: GPU",
    ):
        assert words in text
    assert "GPU busy, 100 %" in text


def test_plot_text_from_outside_is_escaped():
    text = render_plot(
        picture(
            BUSY,
            title="python </code><script>x</script>\x1b[31m",
            report=("<b>", "a & b"),
            headline="<i>",
        )
    )
    assert "<script>x" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert "\x1b" not in text
    assert "a &amp; b" in text


def test_plot_without_a_gpu_says_why():
    blind = replace(BUSY, gpu_low=None, gpu_high=None, gpu_percent=None, power_percent=None)
    assert "libnvidia-ml.so.1 is not installed" in render_plot(
        picture(*[blind] * 3, gpu_gap="libnvidia-ml.so.1 is not installed")
    )
    assert "no GPU reports how busy it is" in render_plot(picture(*[blind] * 3))


def test_plot_of_nothing_known_is_a_page():
    empty = Point(1.0, 1.0, ((State.UNKNOWN, 1.0),), 0.0)
    assert "not known in this run" in render_plot(picture(empty, empty))
    assert Page(render_plot(picture())).open == []


def test_plot_of_lanes_without_swap_says_none():
    assert "none in this run" in render_plot(picture(*[BUSY] * 3))
    swapping = replace(BUSY, swapped_in_pages=4000.0)
    assert "in, whole host" in render_plot(picture(*[swapping] * 3))


def test_plot_marks_where_another_state_took_over():
    disk = replace(BUSY, states=((State.DISK, 1.0),))
    text = render_plot(picture(*[disk] * 50, *[BUSY] * 50, marks_s=(50.0,)))
    assert 'class="mark" x1="50.00%"' in text
    assert len(re.findall(r'<rect class="s (\w+)" x=', text)) == 2


def test_plot_warm_up_is_pale():
    text = render_plot(picture(replace(BUSY, counted_s=0.0), BUSY, BUSY, BUSY))
    assert text.count('class="s GPU uncounted" x="0.000%" width="25.000%"') == 1


def test_plot_of_states_that_flicker_for_hours_stays_small():
    states = (State.DISK, State.CPU, State.WAIT)
    points = [
        replace(BUSY, states=((states[number % 3], 1.0),), io_some=float(number % 97))
        for number in range(20_000)
    ]
    assert len(render_plot(picture(*points))) < 400_000


def test_svg_is_well_formed_and_holds_the_same():
    text = render_svg(picture(*[BUSY] * 5, title="a & b", report=("<b>",)))
    tree = ET.fromstring(text)  # noqa: S314 - our own
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [
        one for one in tree.iter() if one.tag.endswith(("script", "image", "foreignObject"))
    ]
    assert "&lt;b&gt;" in text


def test_time_axis_of_any_length_has_few_labels():
    for span in (86400.0 * 365, 1e12, 1e18):
        assert 2 <= len(chart.make_times(Scale(0, span, 1))) <= 9


def test_every_state_has_its_words_in_a_picture():
    assert STATE_WORDS.keys() == set(State)
