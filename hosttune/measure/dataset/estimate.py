"""From a sample of sizes to the whole, with how far that can be off. Pure.

Each format is a stratum whose number of files is known exactly; the total is the sum of its parts, and its margin the
95 % interval of a stratified mean with finite population correction (Cochran, Sampling Techniques, chapter 5).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SMALL: Final = 64 << 10  # below it, opening a file costs more than reading it
_Z: Final = 1.96


@frozen
class Stratum:
    """One format: how many files it has, and the sizes in bytes of those that were looked at."""

    key: str
    files: int
    sizes: tuple[int, ...]

    @property
    def mean(self) -> float:
        return sum(self.sizes) / len(self.sizes) if self.sizes else 0.0

    @property
    def is_whole(self) -> bool:
        return len(self.sizes) >= self.files

    def total(self) -> float:
        return float(sum(self.sizes)) if self.is_whole else self.mean * self.files


@frozen
class Sizes:
    """`margin_bytes` is half of the 95 % interval, None where too few files of a format were looked at to tell.
    `page_bytes` is what the page cache takes, which holds whole pages. Shares are from 0 to 1."""

    looked_at: int
    is_exact: bool
    total_bytes: int
    margin_bytes: int | None
    page_bytes: int
    median_bytes: int
    largest_bytes: int  # of those that were looked at
    small_share: float  # of the files, below 64 KiB


def estimate(strata: Sequence[Stratum], page: int) -> Sizes | None:
    """None where no file was looked at. A format of which nothing was looked at counts with the mean of the others."""
    known = [one for one in strata if one.sizes]
    if not known:
        return None
    looked_at = sum(len(one.sizes) for one in known)
    files = sum(one.files for one in strata)
    scale = files / sum(one.files for one in known)
    total = sum(one.total() for one in known) * scale
    pages = sum(_pages(one, page) for one in known) * scale
    variances = [_variance(one) for one in known]
    margin = None if None in variances or scale > 1 else _Z * math.sqrt(math.fsum(v for v in variances if v))
    weights = [(size, max(1.0, one.files / len(one.sizes))) for one in known for size in one.sizes]
    return Sizes(
        looked_at=looked_at,
        is_exact=all(one.is_whole for one in strata),
        total_bytes=round(total),
        margin_bytes=None if margin is None else round(margin),
        page_bytes=round(pages),
        median_bytes=_median(weights),
        largest_bytes=max(max(one.sizes) for one in known),
        small_share=sum(weight for size, weight in weights if size < SMALL) / sum(weight for _, weight in weights),
    )


def bytes_of(strata: Iterable[Stratum]) -> Mapping[str, int]:
    """Format -> bytes, as estimated."""
    return {one.key: round(one.total()) for one in strata}


def _pages(one: Stratum, page: int) -> float:
    rounded = sum(-(-size // page) * page for size in one.sizes)
    return float(rounded) if one.is_whole else rounded / len(one.sizes) * one.files


def _variance(one: Stratum) -> float | None:
    """Of the estimated total of a stratum; None for one file looked at out of several."""
    count = len(one.sizes)
    if one.is_whole:
        return 0.0
    if count < 2:
        return None
    mean = one.mean
    spread = math.fsum((size - mean) ** 2 for size in one.sizes) / (count - 1)
    return one.files**2 * (1 - count / one.files) * spread / count


def _median(weighted: list[tuple[int, float]]) -> int:
    weighted.sort()
    half = sum(weight for _, weight in weighted) / 2
    passed = 0.0
    for size, weight in weighted:
        passed += weight
        if passed >= half:
            return size
    return weighted[-1][0]
