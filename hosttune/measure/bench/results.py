"""What `bench read` found, kept for `bench list`, and for `dataset`, which starts with the workers
that were tried.

One JSON file for each file system, kernel and folder, with decoding and without: the newest answer;
and beside it one that is newer and inconclusive, which does not take its place. Reading is
distrustful (state.py), and what cannot be read, or is of a bench that is gone (atime, tmp), counts
as not there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from types import MappingProxyType
from typing import Any

from hosttune import __version__
from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.measure.bench import state
from hosttune.measure.bench.place import Place
from hosttune.regex import regex

MOST_FOLDERS = 64
KIND = "read"
INCONCLUSIVE = "inconclusive"
_UNSAFE = regex(r"[^A-Za-z0-9._-]")


@frozen
class BenchResult:
    """A bench that came to its end.

    `figures` are numbers with their units in their names; `words` short texts: what limits, why,
    with which Python.
    """

    kind: str  # KIND
    measured_at: str  # UTC, ISO 8601
    kernel: str
    uuid: str  # of the file system
    fstype: str
    target: str  # where it was mounted
    path: str
    seed: int
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tool_version: str = __version__

    @property
    def is_answer(self) -> bool:
        """Whether it says something."""
        return self.words.get("limit", INCONCLUSIVE) != INCONCLUSIVE


def new_result(
    place: Place, seed: int, *, figures: Mapping[str, float | None], words: Mapping[str, str]
) -> BenchResult:
    """A result of this moment and this kernel. Figures that are None are left out."""
    from datetime import datetime, timezone

    return BenchResult(
        kind=KIND,
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        kernel=os.uname().release,
        uuid=place.uuid,
        fstype=place.fstype,
        target=place.target,
        path=place.path,
        seed=seed,
        figures={name: float(value) for name, value in figures.items() if value is not None},
        words=words,
    )


def save(result: BenchResult, where: str = "") -> None:
    """Keep it as the newest of its folder and kernel; one that says nothing beside an answer. The
    last MOST_FOLDERS are kept. Raises HosttuneError.
    """
    from hosttune.codec import dump_json

    name = _name(result)
    beside = name.removesuffix(".json") + ".inconclusive.json"
    # A bench on a busy day must not take the place of an answer that `dataset` starts from.
    if not result.is_answer and (older := from_json(state.load(name, where))) and older.is_answer:
        name = beside
    state.save(name, dump_json(to_json(result)).encode(), where)
    if name != beside:
        state.remove(beside, where)
    kept = [
        (name, one)
        for name in state.list_names(f"{KIND}-", where)
        if (one := from_json(state.load(name, where)))
    ]
    # By the time that the result holds, not by that of the file: a restored backup has new times
    # for old results.
    for old, _ in sorted(kept, key=lambda one: one[1].measured_at, reverse=True)[MOST_FOLDERS:]:
        state.remove(old, where)


def find_latest(
    uuid: str,
    kernel: str = "",
    where: str = "",
    wanted: Callable[[BenchResult], bool] = lambda _: True,
) -> BenchResult | None:
    """The newest answer for a file system, or what there is else; for one kernel alone, where it is
    named.
    """
    prefix = _UNSAFE.sub("_", f"{KIND}-{uuid}-")
    every = [from_json(state.load(name, where)) for name in state.list_names(prefix, where)]
    found = [
        one
        for one in every
        # The prefix of the name is not proof: unsafe characters are replaced in it, so two file
        # systems can share one.
        if one and one.uuid == uuid and one.kernel == (kernel or one.kernel) and wanted(one)
    ]
    return max(found, key=lambda one: (one.is_answer, one.measured_at), default=None)


def list_stored(where: str = "") -> tuple[BenchResult, ...]:
    """All that is kept, the newest first."""
    found = [from_json(state.load(name, where)) for name in state.list_names("", where)]
    return tuple(
        sorted((one for one in found if one), key=lambda one: one.measured_at, reverse=True)
    )


def to_json(result: BenchResult) -> dict[str, Any]:
    """The document of a result."""
    from hosttune.codec import make_document

    return make_document(result)


def from_json(content: bytes | None) -> BenchResult | None:
    """The result in a document; None for anything else, such as the note of a scratch folder."""
    from hosttune.codec import read_document

    with suppress(HosttuneError):
        found = read_document(BenchResult, content or b"", "")
        return (
            found
            # JSON of Python reads NaN and Infinity, with which no comparison or format below would
            # be true.
            if found.kind == KIND and all(map(math.isfinite, found.figures.values()))
            else None
        )
    return None


def _name(result: BenchResult) -> str:
    """Another folder of the same file system has another answer, and reading alone tells nothing of
    decoding.
    """
    from hashlib import sha256

    how = "decoded" if "python" in result.words else "read"
    folder = f"-{how}-{sha256(os.fsencode(result.path)).hexdigest()[:16]}"
    return _UNSAFE.sub("_", f"{result.kind}-{result.uuid}-{result.kernel}{folder}") + ".json"
