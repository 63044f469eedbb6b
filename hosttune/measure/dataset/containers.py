"""Containers: what HDF5, Parquet, Arrow and TFRecord hold is asked of the user's own Python, with its own libraries.

One process answers file by file, as the user and bounded (`read_crew.py`); what it says is a user's word, and goes
through the same doubt as a header. Where no library answers, nothing is told.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hosttune.errors import HosttuneError, Refused
from hosttune.frozen import frozen
from hosttune.measure.bench.read_crew import Crew, positive
from hosttune.measure.bench.read_python import user_python
from hosttune.measure.dataset.header import Header, Source, believed, read_member

if TYPE_CHECKING:
    from hosttune.measure.dataset.patience import Phase
    from hosttune.measure.dataset.sample import Container, Sample

_MEMORY: Final = 2 << 30  # bytes, that a library may take
_ANSWER_S: Final = 20.0  # for a file, with the library that is loaded for the first one
_MOST_VALUES: Final = 4096  # of one file, before its sums
_TRIFLE: Final = 0.01


@frozen
class Asked:
    """Which Python was asked (its path and user id) and which libraries answered; `missing`: format -> why nothing was
    told of any file. `reason` says why nobody could be asked (`python` is empty then), or why it ended early."""

    python: str
    uid: int
    libraries: tuple[str, ...]
    missing: Mapping[str, str]
    reason: str = ""


def ask(sample: Sample, folder: str, python: str | None, phase: Phase, tell: Callable[[str], None]) -> Asked | None:
    """Put what the libraries tell into `sample.looked`. None where no container was sampled. Raises Refused where a
    Python was named and cannot be used."""
    if not sample.containers:
        return None
    try:
        found = user_python(python, folder)
    except Refused as error:
        if python:
            raise
        return Asked("", 0, (), {}, str(error))
    libraries: dict[str, None] = {}
    missing: dict[str, str] = {}
    told: set[str] = set()
    reason = ""
    try:
        with Crew(found.command, found.environment, 1, most=0, memory=_MEMORY) as crew:
            crew.load([os.path.realpath(one.path) for one in sample.containers])
            for number, one in enumerate(sample.containers):
                if not phase.has_time(for_stats=False):
                    break
                if is_lacking(missing.get(one.kind, "")):
                    continue
                if number % 50 == 0:
                    tell(f"{number:,} of {len(sample.containers):,} containers")
                said = _answer(crew, number, one)
                if said.error:
                    missing.setdefault(one.kind, said.error)
                    continue
                told.add(one.kind)
                libraries[said.library] = None
                sample.moved += said.has_moved
                looked = sample.looked[one.place]
                sample.looked[one.place] = replace(looked, header=believed(said.header, looked.size))
    except HosttuneError as error:  # it died, or said what is no answer: what was told before stays
        reason = str(error)
    missing = {kind: why for kind, why in missing.items() if kind not in told}
    return Asked(found.path, found.uid, tuple(libraries), missing, reason)


def is_lacking(error: str) -> bool:
    """Whether a library is not there at all: the next file would get the same answer."""
    return error.startswith(("ModuleNotFoundError", "ImportError"))


@frozen
class _Answer:
    header: Header
    library: str = ""
    has_moved: bool = False
    error: str = ""


def _answer(crew: Any, number: int, one: Container) -> _Answer:
    values: list[Mapping[str, Any]] = []
    for told in crew.held(number, one.kind, is_dropped=one.is_cold, timeout_s=_ANSWER_S):
        if "file" not in told:
            values.append(told)
            if len(values) > _MOST_VALUES:
                raise HosttuneError("a library tells more values than were asked for")
            continue
        if told.get("error"):
            return _Answer(Header(one.kind), error=str(told["error"])[:200])
        sums = [positive(told, name) for name in ("native", "float32", "of")]
        header = header_of(one.kind, sums, values)
        return _Answer(header, str(told.get("by", ""))[:60], told.get("moved") is True)
    raise HosttuneError("a library gave no answer")


def header_of(kind: str, sums: Sequence[float], values: Sequence[Mapping[str, Any]]) -> Header:
    """Sums of what the library knows and of the values that tell their size by a header of their own. Nothing is told
    where more than a trifle is in values that no header of ours knows. Pure."""
    native, float32, of_bytes = sums
    hidden = 0.0
    for one in values:
        try:
            head = base64.b64decode(str(one.get("value", "")), validate=True)
        except ValueError:
            raise HosttuneError("a library said what is no value") from None
        size, times = int(positive(one, "size")), positive(one, "times")
        found = read_member(_source(head, size), with_containers=False)
        if found is None or found.native_bytes is None:
            hidden += size * times
            continue
        native += found.native_bytes * times
        float32 += (found.float32_bytes or 0) * times
    if not native or hidden > _TRIFLE * of_bytes:
        return Header(kind)
    return Header(kind, round(native), round(float32), round(of_bytes))


def _source(head: bytes, size: int) -> Source:
    return Source(size, lambda offset, length: head[offset : offset + length])
