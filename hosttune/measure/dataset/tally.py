"""Names, counted as they come, and samples of them that are fair at every moment. Pure; memory does
not grow with them.

One reservoir over all names, and a small one for each format, so that ten shards between a million
pictures are seen.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from hosttune.measure.dataset.formats import OTHER, key_of
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SAMPLE: Final = 20_000
OF_EACH: Final = 500
_KEYS: Final = 100  # formats that are kept apart; names made to differ must not take memory
_SUFFIXES: Final = 5_000  # spellings whose format is remembered

_SUFFIX: Final = regex(r"\.([^./]*)/")  # in names joined by what no name holds
_FOREVER: Final = 2.0**60

T = TypeVar("T")


class DirectoryEntry(Protocol):
    """The part of os.DirEntry that is used."""

    @property
    def name(self) -> str: ...

    def inode(self) -> int: ...


class Named(NamedTuple):
    """A file of a sample: its format by name, its path, and its inode number, in whose order disks
    read best. A tuple, because a hundred thousand are made and dropped again.
    """

    key: str
    path: str
    inode: int


class Reservoir(Generic[T]):
    """A uniform sample of `size` things out of all that came by, without looking at those that are
    not taken.

    Algorithm L (Kim-Hung Li, ACM Transactions on Mathematical Software 20(4), 1994): the distance
    to the next one that is taken is drawn, so the cost grows with the logarithm of what comes by.
    """

    def __init__(self, size: int, random: Random) -> None:
        self.size = size
        self.items: list[T] = []
        self.seen = 0
        self._random = random
        self._weight = 1.0
        self._next = size - 1
        self._skip()

    def picks(self, count: int) -> Iterator[tuple[int, int]]:
        """(offset, slot) of each thing to take among the next `count`; the caller calls `put` for
        each at once.
        """
        start, end = self.seen, self.seen + count
        self.seen = end
        for place in range(start, min(end, self.size)):
            yield place - start, place
        while self._next < end:
            yield self._next - start, int(self._random.random() * self.size)
            self._skip()

    def put(self, slot: int, item: T) -> None:
        if slot == len(self.items):
            self.items.append(item)
        else:
            self.items[slot] = item

    def _skip(self) -> None:
        self._weight *= math.exp(math.log(1.0 - self._random.random()) / self.size)
        chance = math.log1p(-self._weight) if self._weight < 1.0 else -math.inf
        drawn = math.log(1.0 - self._random.random())
        # Without a chance the weight has sunk to nothing: after some 1e300 things none is taken any
        # more.
        self._next += 1 + int(min(drawn / chance, _FOREVER)) if chance else int(_FOREVER)


class Tally:
    """What `take` was given: numbers of files by format, and the samples."""

    def __init__(self, *, sample: int = SAMPLE, of_each: int = OF_EACH, seed: int = 1) -> None:
        self._random = Random(seed)  # noqa: S311 - a sample, no secret; the same one on an unchanged data set
        self._of_each = of_each
        self.counts: dict[str, int] = {}
        self.sample: Reservoir[Named] = Reservoir(sample, self._random)
        self.strata: dict[str, Reservoir[Named]] = {}
        self._keys: dict[str, str] = {}

    @property
    def files(self) -> int:
        return self.sample.seen

    def take(self, folder: str, entries: Sequence[DirectoryEntry]) -> str:
        """Files of one folder, by name. Returns their format where all have the same, else
        nothing.
        """
        names = [entry.name for entry in entries]
        suffixes = _SUFFIX.findall("/".join(names) + "/")
        found = {self._key(""): rest} if (rest := len(names) - len(suffixes)) else {}
        for suffix, count in Counter(suffixes).items():
            key = self._key(suffix)
            found[key] = found.get(key, 0) + count

        def make_named(offset: int) -> Named:
            name = names[offset]
            return Named(self.key_of_name(name), f"{folder}/{name}", entries[offset].inode())

        for offset, slot in self.sample.picks(len(names)):
            self.sample.put(slot, make_named(offset))
        for key, count in found.items():
            self.counts[key] += count
            stratum = self.strata.setdefault(key, Reservoir(self._of_each, self._random))
            # The list of a mixed folder is made only if the reservoir takes something: most chunks
            # give it nothing.
            places: Sequence[int] | None = range(len(names)) if len(found) == 1 else None
            for offset, slot in stratum.picks(count):
                if places is None:
                    places = [
                        place for place, name in enumerate(names) if self.key_of_name(name) == key
                    ]
                stratum.put(slot, make_named(places[offset]))
        return next(iter(found)) if len(found) == 1 else ""

    def key_of_name(self, name: str) -> str:
        """The format of a file by its name."""
        last = name.rpartition(".")[2]
        return self._key(last if last != name else "")

    def _key(self, suffix: str) -> str:
        key = self._keys.get(suffix)
        if key is None:
            key = key_of(suffix)
            # Names are chosen by users: a million suffixes would be a million counters and
            # reservoirs.
            if key not in self.counts and key.startswith(".") and len(self.counts) >= _KEYS:
                key = OTHER
            self.counts.setdefault(key, 0)
            if len(self._keys) < _SUFFIXES:
                self._keys[suffix] = key
        return key
