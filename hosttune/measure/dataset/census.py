"""Sizes of all files, and with `--exact` their headers, summed up as they come: memory grows with
nothing but the hard links that wait for their other names.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hosttune.measure.dataset.decoded import Decoded, Looked, decode
from hosttune.measure.dataset.estimate import SMALL, Sizes
from hosttune.measure.dataset.sample import whole_size
from hosttune.measure.page_cache import PAGE

if TYPE_CHECKING:
    import os

    from hosttune.measure.dataset.sample import Held
    from hosttune.measure.dataset.tally import Named

LARGEST: Final = 100  # files that are looked into for certain
# Each file whose other names are still to come is kept: backups made of hard links have millions of
# them.
_MOST_WAITING: Final = 500_000


class Census:
    """What `take` and `look` were given. `ended` says why it was given up; then nothing here is of
    all files. `is_exact` has all headers read, too.
    """

    def __init__(self, *, is_exact: bool = False, held: Held = whole_size) -> None:
        self.is_exact = is_exact
        self.held = held
        self.ended = ""  # time | links | rights
        self.bytes: dict[str, int] = {}  # by format
        self.files = self.small = self.pages = self.largest = self.denied = self.moved = 0
        self._large: list[tuple[int, Named]] = []  # a heap
        # (device, inode) -> names that are still to come
        self._waiting: dict[tuple[int, int], int] = {}
        # what symbolic links led to, outside of the data set
        self._seen: set[tuple[int, int]] = set()
        self._sums: dict[str, _Sums] = {}

    @property
    def is_whole(self) -> bool:
        return not self.ended and not self.denied

    def is_new(self, info: os.stat_result, *, is_link: bool) -> bool:
        """Whether no other name of this file came before. `is_link`: a symbolic link led to it,
        from outside.
        """
        inode = info.st_dev, info.st_ino
        if is_link:
            is_known = inode in self._seen or inode in self._waiting
            self._seen.add(inode)
            return not is_known
        if info.st_nlink < 2:
            return True
        left = self._waiting.pop(inode, 0)
        # The entry goes with the last name: what stays in the end has names outside of the data
        # set.
        if left != 1:
            self._waiting[inode] = (left or info.st_nlink) - 1
            if len(self._waiting) > _MOST_WAITING and not self.is_exact:
                self.ended = "links"
        # A symbolic link may have brought the file before its own name came.
        return not left and inode not in self._seen

    def names_below(self, device: int, inode: int, links: int) -> int:
        """How many of the hard links of a file were met, once all names were."""
        return links - self._waiting.get((device, inode), 0)

    def is_large(self, size: int) -> bool:
        """Whether `keep` has to know of it."""
        return len(self._large) < LARGEST or size > self._large[0][0]

    def keep(self, size: int, named: Named) -> None:
        if len(self._large) < LARGEST:
            heapq.heappush(self._large, (size, named))
        else:
            heapq.heappushpop(self._large, (size, named))

    def large(self) -> list[Named]:
        """The largest files: a sample may miss them, and they may be the data set."""
        return [named for _, named in sorted(self._large)]

    def take(self, key: str, sizes: list[int]) -> None:
        """Files of a format, each in bytes."""
        self.bytes[key] = self.bytes.get(key, 0) + sum(sizes)
        self.files += len(sizes)
        self.small += sum([size < SMALL for size in sizes])
        self.pages += sum([-(-size // PAGE) for size in sizes])
        self.largest = max(self.largest, *sizes)

    def look(self, looked: Looked) -> None:
        """A file whose header was read."""
        self._sums.setdefault(looked.key, _Sums()).add(looked)

    def correct_sizes(self, sizes: Sizes | None) -> Sizes | None:
        """An estimate with what is known exactly instead; the median stays that of the sample."""
        if sizes is None or not self.files or not self.is_whole:
            return sizes
        return replace(
            sizes,
            looked_at=self.files,
            is_exact=True,
            total_bytes=sum(self.bytes.values()),
            margin_bytes=0,
            page_bytes=self.pages * PAGE,
            largest_bytes=self.largest,
            small_share=self.small / self.files,
            linked_bytes=0,
        )

    def sum_decoded(self, sampled: Decoded) -> Decoded:
        """The sum of all headers."""
        if not self._sums:
            return sampled
        found = decode(
            [one for key, sums in self._sums.items() for one in sums.as_looked(key)], self.bytes
        )
        return replace(
            found,
            headers=sum(sums.headers for sums in self._sums.values()),
            told=sum(sums.known for sums in self._sums.values()),
            is_exact=not found.margin_bytes and not found.untold,
        )


class _Sums:
    """Of one format: bytes with and without a header that tells, and what they become."""

    def __init__(self) -> None:
        self.headers = self.known = self.size = self.rest = 0
        self.native = self.float32 = self.error = 0.0
        self.format = ""

    def add(self, looked: Looked) -> None:
        self.headers += looked.headers
        if not looked.is_known or looked.header is None:
            self.rest += looked.size
            return
        self.known += looked.headers
        self.size += looked.size
        self.format = looked.header.format
        pair = looked.pair()
        self.native += pair.decoded
        self.float32 += looked.pair(is_float32=True).decoded
        self.error += pair.error**2

    def as_looked(self, key: str) -> list[Looked]:
        """Two files, of which one holds all that is known."""
        from hosttune.measure.dataset.header import Header

        header = Header(
            self.format, round(self.native), round(self.float32), self.size, round(self.error**0.5)
        )
        return [
            *([Looked(key, self.size, header)] if self.known else []),
            *([Looked(key, self.rest, None)] if self.rest else []),
        ]
