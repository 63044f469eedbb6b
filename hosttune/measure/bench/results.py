"""What benches found, kept so that others can quote it: "measured here 2 days ago: 4.4 %".

One JSON file for each kind of bench, file system and kernel, of `bench read` also for each folder, with decoding and
without: the newest answer; and beside it one that is newer and inconclusive, which does not take its place. Reading is
distrustful (state.py), and what cannot be read counts as not there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, fields
from types import MappingProxyType
from typing import Any

from hosttune import __version__
from hosttune.frozen import frozen
from hosttune.measure.bench import state
from hosttune.measure.bench.pairs import Pairs, WorkComparison
from hosttune.measure.bench.place import Place
from hosttune.measure.bench.statistics import Answer, Interval
from hosttune.regex import regex

FORMAT_VERSION = 1
MOST_FOLDERS = 64
COMPARING = ("atime", "tmp")  # kinds that have findings
INCONCLUSIVE = Answer.INCONCLUSIVE.value
_UNSAFE = regex(r"[^A-Za-z0-9._-]")


@frozen
class BenchFinding:
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
class BenchResult:
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
    findings: tuple[BenchFinding, ...]
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tool_version: str = __version__

    def figure(self, name: str) -> float | None:
        return self.figures.get(name)

    def finding(self, name: str) -> BenchFinding | None:
        return next((one for one in self.findings if one.name == name), None)

    @property
    def is_answer(self) -> bool:
        """Whether it says something."""
        if self.kind in COMPARING:
            return any(one.answer is not Answer.INCONCLUSIVE for one in self.findings)
        return self.words.get("limit", INCONCLUSIVE) != INCONCLUSIVE


_TEXTS = tuple(one.name for one in fields(BenchResult) if one.name not in {"seed", "findings", "figures", "words"})


def new_result(
    kind: str, place: Place, seed: int, comparisons: tuple[WorkComparison, ...], *,
    figures: Mapping[str, float | None], words: Mapping[str, str],
) -> BenchResult:  # fmt: skip
    """A result of this moment and this kernel. Figures that are None are left out: nobody counted them."""
    from datetime import datetime, timezone

    return BenchResult(
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


def finding_of(one: WorkComparison) -> BenchFinding:
    """What is kept of a comparison."""
    said = one.judgement
    return BenchFinding(
        one.name, said.answer, said.effect, said.control, said.pairs, said.noise_floor, said.reason, one.effects,
        one.controls,
    )  # fmt: skip


def noise_figures(pairs: Pairs) -> dict[str, float | None]:
    """What every result tells of its run."""
    return {"skipped_chunks": float(pairs.skipped), "measured_s": round(pairs.seconds, 1)}


def save(result: BenchResult, where: str = "") -> None:
    """Keep it as the newest of its kind for this file system and kernel; one that says nothing beside an answer. Of
    folders that were read, the last MOST_FOLDERS are kept. Raises HosttuneError."""
    from hosttune.codec import dumps

    name = _name(result.kind, result.uuid, result.kernel, _folder(result))
    beside = _beside(name)
    if not result.is_answer and (older := from_json(state.load(name, where))) and older.is_answer:
        name = beside
    state.save(name, dumps(to_json(result)).encode(), where)
    if name != beside:
        state.remove(beside, where)
    if result.kind == "read":
        kept = [(name, one) for name in state.names("read-", where) if (one := from_json(state.load(name, where)))]
        for old, _ in sorted(kept, key=lambda one: one[1].measured_at, reverse=True)[MOST_FOLDERS:]:
            state.remove(old, where)


def latest(
    kind: str,
    uuid: str,
    kernel: str = "",
    where: str = "",
    wanted: Callable[[BenchResult], bool] = lambda _: True,
) -> BenchResult | None:
    """The newest answer of this kind for a file system, or what there is else; for one kernel alone, where it is
    named."""
    prefix = _UNSAFE.sub("_", f"{kind}-{uuid}-")
    every = [from_json(state.load(name, where)) for name in state.names(prefix, where)]
    found = [one for one in every if one and one.uuid == uuid and one.kernel == (kernel or one.kernel) and wanted(one)]
    return max(found, key=lambda one: (one.is_answer, one.measured_at), default=None)


def stored(where: str = "") -> tuple[BenchResult, ...]:
    """All that is kept, the newest first."""
    found = [from_json(state.load(name, where)) for name in state.names("", where)]
    return tuple(sorted((one for one in found if one), key=lambda one: one.measured_at, reverse=True))


def to_json(result: BenchResult) -> dict[str, Any]:
    """The document of a result, raw ratios included."""
    from hosttune.codec import to_json as encoded

    return {"format_version": FORMAT_VERSION, **encoded(result)}


def from_json(content: bytes | None) -> BenchResult | None:
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
        return BenchResult(**texts, seed=int(data["seed"]), findings=findings, figures=figures, words=words)
    return None


def _finding(data: dict[str, Any]) -> BenchFinding:
    return BenchFinding(
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


def _name(kind: str, uuid: str, kernel: str, folder: str) -> str:
    return _UNSAFE.sub("_", f"{kind}-{uuid}-{kernel}{folder}") + ".json"


def _folder(result: BenchResult) -> str:
    """What tells one folder that was read from the others of its file system: another data set has another answer, and
    reading alone tells nothing of decoding."""
    if result.kind != "read":
        return ""
    from hashlib import sha256

    how = "decoded" if "python" in result.words else "read"
    return f"-{how}-{sha256(os.fsencode(result.path)).hexdigest()[:16]}"


def _beside(name: str) -> str:
    return name.removesuffix(".json") + ".inconclusive.json"
