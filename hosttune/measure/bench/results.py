"""What benches found, kept so that others can quote it: "measured here 2 days ago: 4.4 %".

One JSON file for each kind of bench, file system and kernel: the newest result. Reading is distrustful (state.py), and
what cannot be read counts as not there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, fields
from types import MappingProxyType
from typing import Any

from hosttune import __version__
from hosttune.frozen import frozen
from hosttune.measure.bench import state
from hosttune.measure.bench.pairs import Comparison, Pairs
from hosttune.measure.bench.place import Place
from hosttune.measure.bench.statistics import Answer, Interval
from hosttune.regex import regex

FORMAT_VERSION = 1
COMPARING = ("atime", "tmp")  # kinds that have findings
_UNSAFE = regex(r"[^A-Za-z0-9._-]")


@frozen
class Finding:
    """One comparison: B against A."""

    name: str  # read, unpack, delete, compile ...
    answer: Answer
    effect: Interval  # B/A
    control: Interval  # A'/A
    pairs: int
    noise_floor: float
    reason: str  # why it is inconclusive
    ratios: tuple[float, ...] = ()
    controls: tuple[float, ...] = ()


@frozen
class Result:
    """A bench that came to its end.

    `figures` are numbers with their units in their names; `words` short texts: what A and B were, how it was done.
    """

    kind: str  # atime, tmp, read
    measured_at: str  # UTC, ISO 8601
    kernel: str
    uuid: str  # of the file system
    fstype: str
    target: str  # where it was mounted
    path: str
    seed: int
    findings: tuple[Finding, ...]
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tool_version: str = __version__

    def figure(self, name: str) -> float | None:
        return self.figures.get(name)

    def finding(self, name: str) -> Finding | None:
        return next((one for one in self.findings if one.name == name), None)


_TEXTS = tuple(one.name for one in fields(Result) if one.name not in {"seed", "findings", "figures", "words"})


def new_result(
    kind: str, place: Place, seed: int, comparisons: tuple[Comparison, ...], *,
    figures: Mapping[str, float | None], words: Mapping[str, str],
) -> Result:  # fmt: skip
    """A result of this moment and this kernel. Figures that are None are left out: nobody counted them."""
    import os
    from datetime import datetime, timezone

    return Result(
        kind=kind,
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        kernel=os.uname().release,
        uuid=place.uuid,
        fstype=place.fstype,
        target=place.target,
        path=place.path,
        seed=seed,
        findings=tuple(finding_of(one) for one in comparisons),
        figures={name: float(value) for name, value in figures.items() if value is not None},
        words=words,
    )


def finding_of(one: Comparison) -> Finding:
    """What is kept of a comparison."""
    said = one.judgement
    return Finding(
        one.name, said.answer, said.effect, said.control, said.pairs, said.noise_floor, said.reason, one.effects,
        one.controls,
    )  # fmt: skip


def noise_figures(pairs: Pairs) -> dict[str, float | None]:
    """What every result tells of its run."""
    return {"skipped_chunks": float(pairs.skipped), "measured_s": round(pairs.seconds, 1)}


def save(result: Result, where: str = "") -> None:
    """Keep it as the newest of its kind for this file system and kernel. Raises HosttuneError."""
    from hosttune.codec import dumps

    state.save(_name(result.kind, result.uuid, result.kernel), dumps(to_json(result)).encode(), where)


def latest(kind: str, uuid: str, kernel: str = "", where: str = "") -> Result | None:
    """The newest result of this kind for a file system; for one kernel alone, where it is named."""
    if kernel:
        return from_json(state.load(_name(kind, uuid, kernel), where))
    prefix = _UNSAFE.sub("_", f"{kind}-{uuid}-")
    found = [from_json(state.load(name, where)) for name in state.names(prefix, where)]
    return max((one for one in found if one), key=lambda one: one.measured_at, default=None)


def stored(where: str = "") -> tuple[Result, ...]:
    """All that is kept, the newest first."""
    found = [from_json(state.load(name, where)) for name in state.names("", where)]
    return tuple(sorted((one for one in found if one), key=lambda one: one.measured_at, reverse=True))


def to_json(result: Result) -> dict[str, Any]:
    """The document of a result, raw ratios included."""
    from hosttune.codec import to_json as encoded

    return {"format_version": FORMAT_VERSION, **encoded(result)}


def from_json(content: bytes | None) -> Result | None:
    """The result in a document; None for anything else, such as the note of a scratch folder."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        data = json.loads(content or b"")
        if data.pop("format_version") != FORMAT_VERSION:
            return None
        findings = tuple(_finding(one) for one in data.pop("findings"))
        if not findings and data["kind"] in COMPARING:
            return None
        figures = {str(name): float(value) for name, value in data.pop("figures").items()}
        if not all(map(math.isfinite, (*figures.values(), *(one.noise_floor for one in findings)))):
            return None
        words = {str(name): str(value) for name, value in data.pop("words").items()}
        texts = {name: str(data[name]) for name in _TEXTS if name in data}
        return Result(**texts, seed=int(data["seed"]), findings=findings, figures=figures, words=words)
    return None


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(
        name=str(data["name"]),
        answer=Answer(data["answer"]),
        effect=_interval(data["effect"]),
        control=_interval(data["control"]),
        pairs=int(data["pairs"]),
        noise_floor=float(data["noise_floor"]),
        reason=str(data["reason"]),
        ratios=tuple(map(float, data["ratios"])),
        controls=tuple(map(float, data["controls"])),
    )


def _interval(data: dict[str, Any]) -> Interval:
    found = Interval(float(data["estimate"]), float(data["low"]), float(data["high"]))
    if not all(0 < one < math.inf for one in (found.estimate, found.low, found.high)):
        raise ValueError("no interval of a ratio")
    return found


def _name(kind: str, uuid: str, kernel: str) -> str:
    return _UNSAFE.sub("_", f"{kind}-{uuid}-{kernel}") + ".json"
