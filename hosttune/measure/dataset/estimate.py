"""From a sample to the whole, with how far that can be off. Pure.

Sizes: each format is a stratum whose number of files is known exactly; the total is the sum of its
parts, and its margin the 95 % interval of a stratified mean with finite population correction
(Cochran, Sampling Techniques, 3rd edition 1977, theorem 5.3: v = sum of N_h^2 (1 - f_h) s_h^2 /
n_h).

Decoded sizes: of the files whose sizes were taken, headers are read in a second sample, drawn at
random in strata by folder and size (`split_in_runs`), and brought to the whole by the combined
ratio estimate (section 6.11: R = sum of N_h y_h / sum of N_h x_h, v = sum of N_h^2 (1 - f_h) / n_h
times the variance of y - R x in the stratum) of double sampling (chapter 12).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

SMALL: Final = 64 << 10  # below it, opening a file costs more than reading it
_Z: Final = 1.96
_MOST_UNSEEN: Final = 2.0  # times what the sample makes of the bytes

T = TypeVar("T")


@frozen
class Stratum:
    """One format: how many names it has, and the sizes in bytes of those that were looked at.
    `weights` is the part of each that this name counts for: a half for each of two hard links to
    one file; none are all ones.
    """

    key: str
    files: int
    sizes: tuple[int, ...]
    weights: tuple[float, ...] = ()

    @property
    def is_whole(self) -> bool:
        return len(self.sizes) >= self.files

    @property
    def scale(self) -> float:
        """How many names each of those that were looked at counts for."""
        return 1.0 if self.is_whole else self.files / len(self.sizes)

    def values(self) -> Sequence[float]:
        return (
            [size * weight for size, weight in zip(self.sizes, self.weights, strict=True)]
            if self.weights
            else self.sizes
        )

    def total(self) -> float:
        return math.fsum(self.values()) * self.scale if self.sizes else 0.0


@frozen
class Sizes:
    """`margin_bytes` is half of the 95 % interval, None where too few files of a format were looked
    at to tell. `page_bytes` is what the page cache takes, which holds whole pages. `linked_bytes`
    comes on top where other names of the same files lie elsewhere, which only `--exact` tells of a
    large set. Shares are from 0 to 1.
    """

    looked_at: int
    is_exact: bool
    total_bytes: int
    margin_bytes: int | None
    page_bytes: int
    median_bytes: int
    largest_bytes: int  # of those that were looked at
    small_share: float  # of the files, below 64 KiB
    linked_bytes: int = 0


def estimate(strata: Sequence[Stratum], page: int) -> Sizes | None:
    """None where no file was looked at. A format of which nothing was looked at counts with the
    mean of the others.
    """
    known = [one for one in strata if one.sizes]
    if not known:
        return None
    looked_at = sum(len(one.sizes) for one in known)
    files = sum(one.files for one in strata)
    # A format without any look is assumed to be like the others, which is why the margin is then
    # not known.
    scale = files / sum(one.files for one in known)
    total = math.fsum(one.total() for one in known) * scale
    pages = math.fsum(_count_pages(one, page) for one in known) * scale
    variances = [compute_variance(one.values(), one.files) for one in known]
    margin = (
        None
        if None in variances or scale > 1
        else _Z * math.sqrt(math.fsum(v for v in variances if v))
    )
    weights = [(size, one.scale) for one in known for size in one.sizes]
    linked = math.fsum(
        # Of all names it is known which ones lead to one file; a sample cannot see the other names
        # of its files.
        0.0 if one.is_whole else (sum(one.sizes) - sum(one.values())) * one.scale
        for one in known
    )
    return Sizes(
        looked_at=looked_at,
        is_exact=all(one.is_whole for one in strata),
        total_bytes=round(total),
        margin_bytes=None if margin is None else round(margin),
        page_bytes=round(pages),
        median_bytes=_compute_median(weights),
        largest_bytes=max(max(one.sizes) for one in known),
        small_share=sum(weight for size, weight in weights if size < SMALL)
        / sum(weight for _, weight in weights),
        linked_bytes=round(linked * scale),
    )


def bytes_of(strata: Iterable[Stratum]) -> Mapping[str, int]:
    """Format -> bytes, as estimated."""
    return {one.key: round(one.total()) for one in strata}


def _count_pages(one: Stratum, page: int) -> float:
    weights = one.weights or (1.0,) * len(one.sizes)
    return (
        math.fsum(
            -(-size // page) * page * part for size, part in zip(one.sizes, weights, strict=True)
        )
        * one.scale
    )


def compute_variance(values: Sequence[float], files: int) -> float | None:
    """Of the estimated total of a stratum of so many files; None for one file looked at out of
    several.
    """
    count = len(values)
    if count >= files:
        return 0.0
    # One value has no spread: a variance of zero would claim that all files are alike.
    if count < 2:
        return None
    return files**2 * (1 - count / files) * _compute_spread(values) / count


def _compute_spread(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _compute_median(weighted: list[tuple[int, float]]) -> int:
    weighted.sort()
    half = sum(weight for _, weight in weighted) / 2
    passed = 0.0
    for size, weight in weighted:
        passed += weight
        if passed >= half:
            return size
    return weighted[-1][0]


def split_in_runs(
    items: Sequence[T], count: int, where: Callable[[T], tuple[str, int]]
) -> list[list[T]]:
    """`items` in at most `count` strata: in order of folder and size, cut where each has about the
    same bytes and number of files together, so that neither many small ones nor a few large ones
    share one; best where a folder ends, because a folder often is a kind. `where` gives folder and
    size of one.
    """
    ordered = sorted(items, key=where)
    mean = sum(where(one)[1] for one in ordered) / max(1, len(ordered))
    share = 2 * mean * len(ordered) / max(1, count)
    found: list[list[T]] = []
    passed, last = 0.0, ""
    for one in ordered:
        folder, size = where(one)
        least = len(found) - (0.5 if folder != last and len(found) < count else 0.0)
        if not found or passed >= share * least:
            found.append([])
        found[-1].append(one)
        # The mean is added to each size, so that a stratum ends by number as well as by bytes.
        passed, last = passed + size + mean, folder
    return found


@frozen
class Pair:
    """A file of a stratum: its size, what it becomes, and the standard error of that where it is an
    estimate itself, all in bytes.
    """

    size: float
    decoded: float
    error: float = 0.0


@frozen
class Ratio:
    """Decoded bytes for each byte on disk, and the variance of the total (bytes squared; None: not
    known).
    """

    ratio: float
    variance: float | None


def combined_ratio(
    groups: Sequence[tuple[int, Sequence[Pair]]],
    files: int,
    total: float,
    *,
    is_known: bool = False,
) -> Ratio:
    """`groups` are the strata of one format, each with its number of files (of the first sample)
    and those that were looked at in it; `files` and `total` (bytes) are those of the format in the
    whole data set. `is_known`: the total is exact, not of the same sample, so what it becomes is as
    uncertain as the ratio alone; and where the sample makes less than half of it, nothing is known
    of the files that make the rest.

    The variance is that of the first sample for its part, of the second within the strata, and of
    what files tell of themselves. A stratum with one look out of several borrows the spread of all.
    """
    seen = [(count, pairs) for count, pairs in groups if pairs]
    # Strata without a look are spread over the seen ones: leaving them out would count their files
    # as nothing.
    lifted = sum(count for count, _ in groups) / max(1, sum(count for count, _ in seen))
    weighed = [(count / len(pairs) * lifted, pair) for count, pairs in seen for pair in pairs]
    whole = math.fsum(weight * pair.size for weight, pair in weighed)
    if not whole:
        return Ratio(0.0, 0.0)
    ratio = math.fsum(weight * pair.decoded for weight, pair in weighed) / whole
    first = sum(count for count, _ in groups)
    residuals = [pair.decoded - ratio * pair.size for _, pair in weighed]
    of_all = _compute_spread(residuals) if len(residuals) > 1 else None
    within = math.fsum(weight**2 * pair.error**2 for weight, pair in weighed)
    for count, pairs in seen:
        # A stratum that was read to its end has no sampling error.
        if len(pairs) >= count and lifted == 1:
            continue
        rest = [pair.decoded - ratio * pair.size for pair in pairs]
        spread = _compute_spread(rest) if len(rest) > 1 else of_all
        if spread is None:
            return Ratio(ratio, None)
        within += (count * lifted) ** 2 * (1 - len(pairs) / (count * lifted)) * spread / len(pairs)
    scale = files / first if first else 1.0
    across = 0.0
    if first < files:
        if is_known:
            spread = (
                math.fsum(
                    weight * rest**2 for (weight, _), rest in zip(weighed, residuals, strict=True)
                )
                / first
            )
        else:
            mean = math.fsum(weight * pair.decoded for weight, pair in weighed) / first
            spread = (
                math.fsum(weight * (pair.decoded - mean) ** 2 for weight, pair in weighed) / first
            )
        across = files**2 * (1 / first - 1 / files) * spread
    # Calibrated on the bytes that are known better than the second sample alone would tell.
    known = total / (whole * scale) if scale else 1.0
    # The sample missed most of the bytes: the files that it did not meet are of another kind, so no
    # ratio is brought to them.
    if is_known and known > _MOST_UNSEEN:
        return Ratio(ratio, None)
    return Ratio(ratio, (within * scale**2 + across) * known**2)


def half_interval(variance: float, looks: int) -> float:
    """Half of the 95 % interval; with few looks Student's t (Abramowitz and Stegun, 26.7.5) instead
    of the normal.
    """
    # Few looks make the normal interval too narrow, which would turn an unknown into a "fits".
    freedom = max(1, looks - 1)
    z = _Z
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return t * math.sqrt(variance)
