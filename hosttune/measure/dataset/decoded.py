"""What the files become when a program holds them decoded, from the headers of a sample. Pure.

K is decoded bytes over bytes on disk. Where no header tells, nothing is guessed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure.dataset.estimate import Pair, combined_ratio, half_interval
from hosttune.measure.dataset.formats import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hosttune.measure.dataset.header import Header

_TRIFLE: Final = 0.01  # a share of the bytes that is not worth a word: a list of labels
_PARTS: Final = 15  # of a shard, at least, that make its standard error
_CLOSE: Final = 0.05  # of the decoded bytes
_MOST: Final = {"text": 3, "video": 1_000}  # times its size is what a trifle may become
_ANY: Final = 100  # of any other: flat pictures come to that


@frozen
class Looked:
    """One header that was read: the format by the file's name, its size, and what the header says.
    `run` is its stratum in that format (negative: it was looked into for certain), `part` the share
    of this name where a file has several.
    """

    key: str
    size: int
    header: Header | None
    run: int = 0
    part: float = 1.0

    @property
    def is_known(self) -> bool:
        return self.header is not None and self.header.native_bytes is not None

    @property
    def headers(self) -> int:
        """How many were read: of a container those of its members that tell."""
        return 1 if self.header is None else self.header.headers

    def pair(self, *, is_float32: bool = False) -> Pair:
        """What no header tells of counts as nothing."""
        header = self.header
        if header is None or header.native_bytes is None or not header.of_bytes:
            return Pair(self.size * self.part, 0.0)
        scale = self.size * self.part / header.of_bytes
        value = (header.float32_bytes or 0) if is_float32 else header.native_bytes
        return Pair(self.size * self.part, value * scale, header.error_bytes * scale)


@frozen
class Drawn:
    """How the headers of a format were drawn: its files in the data set, and how many of those
    whose sizes were taken are in each stratum. `is_known`: so are the bytes of all of them.
    """

    files: int
    runs: tuple[int, ...]
    is_known: bool = False


@frozen
class Decoded:
    """`native_bytes` is in the types that files store, `float32_bytes` with four bytes a number;
    both for that part of the bytes of which headers tell (`told_share`, 0 to 1). `k` is their ratio
    to the bytes on disk. `untold` are the formats of the rest. `margin_bytes` is half of the 95 %
    interval of `native_bytes`, None where too little was looked at to tell; `trifle_bytes` the most
    that may come on top for what is not worth a word.
    """

    headers: int
    told: int
    told_share: float
    k: float
    k_float32: float
    native_bytes: int
    float32_bytes: int
    untold: tuple[str, ...]
    margin_bytes: int | None = 0
    trifle_bytes: int = 0
    is_exact: bool = False

    def bounds(self) -> tuple[int, int | None]:
        """The 95 % interval of all decoded bytes; no upper end if a part is not known."""
        margin = self.margin_bytes
        low = 0 if margin is None else max(0, self.native_bytes - margin)
        return (
            low,
            None
            if margin is None or self.untold
            else self.native_bytes + margin + self.trifle_bytes,
        )


def is_close(decoded: Decoded) -> bool:
    """Whether more headers would tell little more."""
    margin = decoded.margin_bytes
    return margin is not None and margin <= _CLOSE * decoded.native_bytes


def decode(
    looked: Iterable[Looked],
    by_format: Mapping[str, int],
    drawn: Mapping[str, Drawn] | None = None,
    *,
    margin_bytes: int | None = 0,
) -> Decoded:
    """`by_format` is the bytes of each format in the whole data set, `margin_bytes` that of their
    sum.
    """
    groups: dict[str, list[Looked]] = {}
    for one in looked:
        groups.setdefault(one.key, []).append(one)
    total = sum(by_format.values())
    native = float32 = known_bytes = trifles = 0.0
    variances: list[float | None] = []
    unknown = []
    looks = 0
    # The largest first, so that `untold` names what matters most before what a report cuts off.
    for key, size in sorted(by_format.items(), key=lambda one: -one[1]):
        found = groups.get(key, [])
        share = _known_share(found)
        if share:
            strata = (drawn or {}).get(key) or Drawn(len(found), (len(found),))
            narrow, wide, part = (
                _estimate_total(found, strata, size, what)
                for what in ("native", "float32", "known")
            )
            native += narrow[0]
            float32 += wide[0]
            known_bytes += part[0]
            share = part[0] / size if size else 0.0
            variances.append(narrow[1])
            # a file that is judged by some of its parts brings as many looks
            looks += len(found) + _PARTS * sum(
                one.header is not None and one.header.error_bytes > 0 for one in found
            )
        rest = size * (1 - share)
        # A few labels beside terabytes of pictures must not take the answer away; the most that
        # they may become goes into the upper end instead.
        if rest > _TRIFLE * total:
            unknown.append(key)
        else:
            trifles += rest * _MOST.get(kind_of(key), _ANY)
    known = [one for one in variances if one is not None]
    # One format without a variance makes the whole interval unknown: a sum of the others would look
    # surer than it is.
    is_known = len(known) == len(variances) and margin_bytes is not None
    return Decoded(
        headers=sum(one.headers for group in groups.values() for one in group),
        told=sum(one.headers for group in groups.values() for one in group if one.is_known),
        told_share=known_bytes / total if total else 0.0,
        k=native / known_bytes if known_bytes else 0.0,
        k_float32=float32 / known_bytes if known_bytes else 0.0,
        native_bytes=round(native),
        float32_bytes=round(float32),
        untold=tuple(unknown),
        margin_bytes=round(half_interval(math.fsum(known), looks)) if is_known else None,
        trifle_bytes=round(trifles),
    )


def _estimate_total(
    found: Sequence[Looked], drawn: Drawn, size: int, what: str
) -> tuple[float, float | None]:
    """Bytes and variance: of those that were looked into for certain their sum, of the rest by the
    sample of it.
    """
    strata: list[tuple[int, list[Pair]]] = [(count, []) for count in drawn.runs]
    certain: list[Pair] = []
    for one in found:
        pair = one.pair(is_float32=what == "float32")
        if what == "known":
            pair = Pair(pair.size, pair.size * one.is_known)
        (certain if one.run < 0 else strata[one.run][1]).append(pair)
    rest = max(0.0, size - math.fsum(one.size for one in certain))
    sampled = combined_ratio(strata, drawn.files, rest, is_known=drawn.is_known)
    own = math.fsum(one.error**2 for one in certain)
    whole = sampled.ratio * rest + math.fsum(one.decoded for one in certain)
    return whole, None if sampled.variance is None else sampled.variance + own


def _known_share(looked: Iterable[Looked]) -> float:
    """The part of a format's bytes of which headers tell."""
    looked = tuple(looked)
    whole = sum(one.size for one in looked)
    return sum(one.size for one in looked if one.is_known) / whole if whole else 0.0


def formats_found(looked: Iterable[Looked]) -> dict[str, dict[str, int]]:
    """Format by name -> format by header -> files, where the two differ."""
    odd: dict[str, dict[str, int]] = {}
    for one in looked:
        if one.header and kind_of(one.key) and one.header.format != one.key:
            counts = odd.setdefault(one.key, {})
            counts[one.header.format] = counts.get(one.header.format, 0) + 1
    return odd
