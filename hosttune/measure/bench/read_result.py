"""A `bench read` as it is kept, and as its whole document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.measure.bench.results import KIND, new_result
from hosttune.measure.bench.results import BenchResult as Kept

if TYPE_CHECKING:
    from hosttune.measure.bench.read import ReadResult
    from hosttune.measure.bench.reading import Measure


def make_kept(result: ReadResult, answer: str) -> Kept:
    """What is stored: `answer` is the finding in one line."""
    found, figures = result.conclusion, result.figures
    numbers: dict[str, float | None] = {
        "knee": found.knee,
        "workers": found.workers,
        "wait_ratio": found.wait_ratio,
        "files": len(result.sample.paths),
        "bytes": result.sample.bytes,
        "skipped_chunks": float(result.skipped),
        "measured_s": round(result.seconds, 1),
    }
    # Names of figures are an interface: `bench list --format json` and stored results of older
    # versions have them.
    for name, measure in _list_measures(result):
        numbers[f"{name}_files_per_s"] = measure.rate.estimate
        numbers[f"{name}_files_per_s_low"] = measure.rate.low
        numbers[f"{name}_files_per_s_high"] = measure.rate.high
        numbers[f"{name}_device_bytes_per_byte"] = measure.device_share
    words = {
        "limit": found.limit.value,
        "reason": found.reason,
        "answer": answer,
        "mounted": result.place.atime,
    }
    if figures.decode and result.decoder:
        words["python"] = result.decoder.python
    return new_result(result.place, result.seed, figures=numbers, words=words)


def make_document(result: ReadResult) -> dict[str, Any]:
    """All of it, the rate of every pass included."""
    from hosttune.codec import to_json

    sample = {
        "names": result.sample.names,
        "is_whole": result.sample.is_whole,
        "files": len(result.sample.paths),
        "bytes": result.sample.bytes,
        "passed_over": result.sample.others,
        "unreadable": result.sample.unreadable,
    }
    parts = (
        "place",
        "figures",
        "conclusion",
        "decoder",
        "notes",
        "skipped",
        "seconds",
        "seed",
        "is_metadata_cold",
    )
    return {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "sample": sample,
        **{name: to_json(getattr(result, name)) for name in parts},
    }


def _list_measures(result: ReadResult) -> list[tuple[str, Measure]]:
    figures = result.figures
    single = (
        ("cold", figures.cold),
        ("warm", figures.warm),
        ("packed", figures.packed),
        ("decode", figures.decode),
        ("handed", figures.handed),
    )
    levels = ((f"workers_{one.workers}", one) for one in figures.sweep)
    return [*((name, measure) for name, measure in single if measure), *levels]
