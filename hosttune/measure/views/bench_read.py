"""What `bench read` found, as text: the rates with the bytes behind them, the knee, what limits,
what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.host.masking.cleaned import clean
from hosttune.measure.bench.read_result import make_kept
from hosttune.measure.bench.reading import Limit
from hosttune.measure.views.bench import figures_of
from hosttune.numbers import say_count
from hosttune.views.page import Page
from hosttune.views.terminal import pad_text, wrap_text

if TYPE_CHECKING:
    from hosttune.measure.bench.read import Decoder, ReadResult
    from hosttune.measure.bench.reading import Measure, ReadAdvice

_MIB = 1 << 20
_LIMITS = {
    Limit.DECODE: "decoding (CPU)",
    Limit.CPU: "the CPUs",
    Limit.LATENCY: "latency",
    Limit.DISK: "the disk",
    Limit.MEMORY: "no disk at all: files in memory",
    Limit.UNKNOWN: "inconclusive",
}
_HEADS = ("files/s", "95 % interval", "MB/s", "MiB read", "of a device")


def read_text(result: ReadResult, page: Page) -> str:
    """The report of `bench read`."""
    columns = page.screen.columns
    lines = [
        page.screen.paint(line, "bold")
        for line in wrap_text(_make_headline(result), columns, rest="  ")
    ]
    lines += _render_table(result)
    for text in (
        *_render_sweep(result),
        *_describe_decoder(result.decoder),
        *map(clean, result.notes),
    ):
        lines += wrap_text(text, columns, first="  ", rest="    ")
    sentence = f"limit: {_LIMITS[result.conclusion.limit]}; {clean(result.conclusion.reason)}"
    lines += wrap_text(sentence, columns, first="  ", rest="    ")
    if page.is_verbose:
        lines += [f"  {figure}" for figure in figures_of(make_kept(result, ""), page)]
    for advice in result.conclusion.advice:
        lines += wrap_text(_render_advice(advice, page), columns, first="  -> ", rest="     ")
    return "\n".join(lines) + "\n"


def describe_gist(result: ReadResult) -> str:
    """What was found in one line, to be kept. Plain text: a path in it is not escaped."""
    figures, found = result.figures, result.conclusion
    rates = [f"cold {_format_rate(figures.cold)}", f"warm {_format_rate(figures.warm)} files/s"]
    if figures.decode:
        rates.append(f"decoded {_format_rate(figures.decode)} by one worker")
    knee = (
        f"; {say_count(found.knee, 'worker')} at the knee"
        if found.knee and not figures.spoiled
        else ""
    )
    return f"limit: {_LIMITS[found.limit]}; {', '.join(rates)}{knee}"


def _make_headline(result: ReadResult) -> str:
    place, sample = result.place, result.sample
    seen = f"{sample.names:,}{'' if sample.is_whole else ' or more'}"
    again = f", {result.skipped} passes done again" if result.skipped else ""
    files = f"{len(sample.paths):,} of {seen} files, {sample.bytes / _MIB:,.0f} MiB"
    run = f"{result.seconds:.0f} s{again}, seed {result.seed}"
    return f"bench read {clean(place.path)} ({clean(place.fstype)}, {place.atime})  {files}  {run}"


def _render_table(result: ReadResult) -> list[str]:
    figures = result.figures
    metadata = "cold" if result.is_metadata_cold else "warm"
    rows: list[tuple[str, Measure | None]] = [
        (f"cold (metadata {metadata})", figures.cold),
        ("packed, in order", figures.packed),
        ("warm", figures.warm),
        ("warm and decoded", figures.decode),
        ("and handed on", figures.handed),
    ]
    cells = [(name, _make_cells(measure)) for name, measure in rows if measure]
    label = max(len(name) for name, _ in cells)
    widths = [
        max(len(head), *(len(own[place]) for _, own in cells)) for place, head in enumerate(_HEADS)
    ]
    table = [("one worker", _HEADS), *cells]
    return [
        f"  {pad_text(name, label)}  "
        + "  ".join(cell.rjust(width) for cell, width in zip(own, widths, strict=True))
        for name, own in table
    ]


def _make_cells(measure: Measure) -> tuple[str, ...]:
    rate = measure.rate
    return (
        _show(rate.estimate), f"[{_show(rate.low)}, {_show(rate.high)}]",
        _show(measure.bytes_per_s / 1e6), _show(measure.bytes_read / _MIB),
        _show(measure.bytes_device / _MIB),
    )  # fmt: skip


def _render_sweep(result: ReadResult) -> list[str]:
    figures, found = result.figures, result.conclusion
    if not figures.sweep:
        return []
    what = "cold files, decoded" if figures.decode else "cold files"
    levels = "  ".join(f"{one.workers}:{_format_rate(one)}" for one in figures.sweep)
    share = sum(one.bytes_device for one in figures.sweep) / max(
        sum(one.bytes_read for one in figures.sweep), 1
    )
    lines = [f"workers on {what}, files/s:  {levels}"]
    waits = f"one of them waits {found.wait_ratio:.1f} s for each second that it computes"
    device = f"{share:.2f} bytes from the device for each one read"
    # beside other jobs more workers get a larger share of the CPUs: that is no knee
    cpus = f"{round(figures.cpus.usable, 2):g} CPUs"
    knee = "" if figures.spoiled else f"knee at {say_count(found.knee, 'worker')} ({cpus}); "
    lines.append(f"{knee}{waits}; {device}")
    if failed := sum(one.failed for one in figures.sweep):
        lines.append(f"{failed:,} reads failed meanwhile: they are not counted")
    return lines


def _describe_decoder(decoder: Decoder | None) -> list[str]:
    if decoder is None:
        return []
    libraries = ", ".join(clean(name) for name in dict.fromkeys(decoder.libraries.values()))
    who = f"{clean(decoder.python)} (Python {clean(decoder.version)})"
    lines = [f"decoded with {libraries} of {who}, uid {decoder.uid}"]
    lines += [clean(note) for note in decoder.notes]
    if decoder.failed:
        tried = decoder.decoded + decoder.failed
        lines.append(f"{decoder.failed:,} of {tried:,} files were not decoded, and are left out:")
        lines += [f"  {clean(path)}: {clean(why)}" for path, why in decoder.why]
    return lines


def _render_advice(advice: ReadAdvice, page: Page) -> str:
    more = f" ({page.look(f'explain {advice.rule}')})" if advice.rule else ""
    return f"{advice.rule}: {advice.text}{more}" if advice.rule else advice.text


def _format_rate(measure: Measure) -> str:
    return _show(measure.rate.estimate)


def _show(value: float) -> str:
    """Three digits that mean something, at the least."""
    return (
        f"{value:,.0f}"
        if value >= 100 or not value
        else f"{value:.1f}"
        if value >= 1
        else f"{value:.2f}"
    )
