"""What the files become when a program holds them decoded, from the headers of a sample. Pure.

K is decoded bytes over bytes on disk. Where no header tells, two to three is a rule of thumb for objects of a program,
and is shown as the guess that it is; decoded video takes far more, and nothing is guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure.dataset.formats import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.measure.dataset.header import Header

GUESS: Final = (2, 3)
_TRIFLE: Final = 0.01  # a share of the bytes that is not worth a word: a list of labels


@frozen
class Looked:
    """One header that was read: the format by the file's name, its size, and what the header says."""

    key: str
    size: int
    header: Header | None


@frozen
class Decoded:
    """`native_bytes` is in the types that files store, `float32_bytes` with four bytes a number; both for that part of
    the bytes of which headers tell (`told_share`, 0 to 1). `k` is their ratio to the bytes on disk. `guess_low_bytes`
    to `guess_high_bytes` is for the rest; 0 where there is none, or nothing can be guessed (`untold`: its formats)."""

    headers: int
    told: int
    told_share: float
    k: float
    k_float32: float
    native_bytes: int
    float32_bytes: int
    guess_low_bytes: int
    guess_high_bytes: int
    untold: tuple[str, ...]

    @property
    def least_bytes(self) -> int:
        """What a cache of decoded data takes at least."""
        return self.native_bytes + self.guess_low_bytes


def decode(looked: Iterable[Looked], by_format: Mapping[str, int]) -> Decoded:
    """`by_format` is the bytes of each format in the whole data set."""
    groups: dict[str, list[Looked]] = {}
    for one in looked:
        groups.setdefault(one.key, []).append(one)
    total = sum(by_format.values())
    native = float32 = told_bytes = guessed = 0.0
    untold = []
    for key, size in sorted(by_format.items(), key=lambda one: -one[1]):
        told = [one for one in groups.get(key, ()) if one.header and one.header.native_bytes is not None]
        share = _told_share(groups.get(key, ()), told)
        of_bytes = sum(one.header.of_bytes for one in told if one.header)
        if of_bytes:
            native += size * share * sum(one.header.native_bytes or 0 for one in told if one.header) / of_bytes
            float32 += size * share * sum(one.header.float32_bytes or 0 for one in told if one.header) / of_bytes
            told_bytes += size * share
        rest = size * (1 - share)
        if rest > _TRIFLE * total:
            untold.append(key)
            guessed += 0 if kind_of(key) == "video" else rest
    return Decoded(
        headers=sum(len(group) for group in groups.values()),
        told=sum(one.header is not None and one.header.native_bytes is not None for g in groups.values() for one in g),
        told_share=told_bytes / total if total else 0.0,
        k=native / told_bytes if told_bytes else 0.0,
        k_float32=float32 / told_bytes if told_bytes else 0.0,
        native_bytes=round(native),
        float32_bytes=round(float32),
        guess_low_bytes=round(guessed * GUESS[0]),
        guess_high_bytes=round(guessed * GUESS[1]),
        untold=tuple(untold),
    )


def _told_share(looked: Iterable[Looked], told: list[Looked]) -> float:
    """The part of a format's bytes of which headers tell."""
    whole = sum(one.size for one in looked)
    return sum(one.size for one in told) / whole if whole else 0.0


def formats_found(looked: Iterable[Looked]) -> dict[str, dict[str, int]]:
    """Format by name -> format by header -> files, where the two differ."""
    odd: dict[str, dict[str, int]] = {}
    for one in looked:
        if one.header and kind_of(one.key) and one.header.format != one.key:
            counts = odd.setdefault(one.key, {})
            counts[one.header.format] = counts.get(one.header.format, 0) + 1
    return odd
