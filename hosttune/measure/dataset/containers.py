"""Containers: what HDF5, Parquet, Arrow and TFRecord hold is asked of the user's own Python, with its own libraries.

One process answers file by file, as the user and bounded (`read_crew.py`); what it says is a user's word, and goes
through the same doubt as a header. Where no library answers, nothing is told.
"""

from __future__ import annotations

import base64
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hosttune.errors import HosttuneError, Refused
from hosttune.frozen import frozen
from hosttune.measure.bench.read_crew import Crew, positive
from hosttune.measure.bench.read_python import user_python
from hosttune.measure.dataset.header import Header, Source, believed, read_member

if TYPE_CHECKING:
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


def ask(
    sample: Sample,
    folder: str,
    python: str | None,
    has_time: Callable[[], bool],
    tell: Callable[[str], None],
    *,
    is_whole: bool = False,
) -> Asked | None:
    """Put what the libraries tell into `sample.looked`; `is_whole` asks for all rows and records, instead of some. None
    where no container was sampled. Raises Refused where a Python was named and cannot be used."""
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
    left: set[int] = set()  # places of those for which there was no time: a smaller sample, not one that tells nothing
    reason = ""
    try:
        with Crew(found.command, found.environment, 1, most=0, memory=_MEMORY) as crew:
            crew.load([os.path.realpath(one.path) for one in sample.containers])
            for number, one in enumerate(sample.containers):
                if not has_time():
                    left = {later.place for later in sample.containers[number:] if later.kind in told}
                    break
                if is_lacking(missing.get(one.kind, "")):
                    continue
                if number % 50 == 0:
                    tell(f"{number:,} of {len(sample.containers):,} containers")
                said = _answer(crew, number, one, has_time if is_whole else None)
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
    if not is_whole:
        sample.looked = [one for place, one in enumerate(sample.looked) if place not in left]
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


def _answer(crew: Any, number: int, one: Container, goes_on: Callable[[], bool] | None) -> _Answer:
    """`goes_on` has all of it told, as long as it says so."""
    values = Values()
    is_whole = goes_on is not None
    for told in crew.held(number, one.kind, is_dropped=one.is_cold, is_whole=is_whole, timeout_s=_ANSWER_S):
        if "file" not in told:
            values.add(told)
            if values.count > _MOST_VALUES and not is_whole:
                raise HosttuneError("a library tells more values than were asked for")
            if goes_on and not goes_on():
                raise HosttuneError("it was interrupted")
            continue
        if told.get("error"):
            return _Answer(Header(one.kind), error=str(told["error"])[:200])
        sums = [positive(told, name) for name in ("native", "float32", "of", "err")]
        header = header_of(one.kind, sums, values)
        return _Answer(header, str(told.get("by", ""))[:60], told.get("moved") is True)
    raise HosttuneError("a library gave no answer")


class Values:
    """What byte strings become that tell their size by a header of their own, added up as they come. Pure."""

    def __init__(self) -> None:
        self.count = 0
        self.native = self.float32 = self.hidden = 0.0
        self.sampled: list[float] = []  # of those that stand for others, too

    def add(self, one: Mapping[str, Any]) -> None:
        """Raises HosttuneError for what is no value."""
        self.count += 1
        try:
            head = base64.b64decode(str(one.get("value", "")), validate=True)
        except ValueError:
            raise HosttuneError("a library said what is no value") from None
        size, times = int(positive(one, "size")), positive(one, "times")
        found = read_member(_source(head, size), with_containers=False)
        if found is None or found.native_bytes is None:
            self.hidden += size * times
            return
        self.native += found.native_bytes * times
        self.float32 += (found.float32_bytes or 0) * times
        if times > 1:
            self.sampled.append(found.native_bytes * times)


def header_of(kind: str, sums: Sequence[float], values: Values) -> Header:
    """Sums of what the library knows and of the values. Nothing is told where more than a trifle is in values that no
    header of ours knows. Pure."""
    native, float32, of_bytes, known_error = sums
    native += values.native
    float32 += values.float32
    if not native or values.hidden > _TRIFLE * of_bytes:
        return Header(kind)
    spread = statistics.variance(values.sampled) if len(values.sampled) > 1 else 0.0
    error = math.sqrt(len(values.sampled) * spread)
    return Header(kind, round(native), round(float32), round(of_bytes), round(math.hypot(error, known_error)))


def _source(head: bytes, size: int) -> Source:
    return Source(size, lambda offset, length: head[offset : offset + length])
