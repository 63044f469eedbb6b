"""What a disk with a volatile cache may hold after a power cut, from a log of its writes.

Everything before a flush is there. Of the blocks written since the last flush any may be there and
any may be lost, in every combination: a disk promises no order before the next flush. A sector is
written whole or not at all.

Two blocks stay whole beyond that, because half of one stops ext4 itself, whoever wrote: its
superblock, and the commit record of its journal, after half of which Linux 6.1 refuses to mount
("journal transaction is corrupt"; 6.18 mounts).
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from tests.vm.blklog import Entry, Flag, Log

BLOCK = 4096
SECTOR = 512
SEED = 20261121
# Up to so many blocks between two flushes every combination is tried, above it each block lost
# alone, each kept alone, every prefix, and so many drawn ones.
EXHAUSTIVE = 8
DRAWN = 24
TORN = 2

COMMIT = bytes.fromhex(
    "c03b399800000002"
)  # magic and type of a commit record: Documentation/filesystems/ext4/journal.rst

Piece = tuple[int, int, int]  # entry, first byte in its data, number of bytes


@dataclass(frozen=True, slots=True)
class Epoch:
    """The writes between two flushes, as pieces of one block of the disk at most."""

    first: int  # every entry before this one is on the disk
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class State:
    """All writes before entry `first`, and of those after it only these pieces, in their order."""

    first: int
    kept: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """How a report calls it: the number of the entry after the last flush, and the pieces kept
        since.
        """
        pieces = " ".join(f"{entry}[{start}:{start + size}]" for entry, start, size in self.kept)
        return f"entry {self.first}" + (f" + {pieces}" if pieces else "")


def epochs(entries: Sequence[Entry], start: int, stop: int) -> list[Epoch]:
    """The epochs of the entries from `start` to `stop`, the first beginning at `start`: sync before
    you mark it.

    Raises ValueError for a log with writes that are durable by themselves (FUA): the model does not
    have them, and qemu's virtio disks do not offer them.
    """
    found: list[Epoch] = []
    pieces: list[Piece] = []
    first = start
    for number in range(start, stop):
        entry = entries[number]
        if entry.flags & Flag.FUA:
            raise ValueError(
                f"entry {number} is durable by itself: such logs cannot be reordered here"
            )
        if entry.flags & Flag.FLUSH:
            found.append(Epoch(first, tuple(pieces)))
            first, pieces = number, []
        if entry.is_write:
            pieces += _pieces(number, entry)
    return [*found, Epoch(first, tuple(pieces))]


def _pieces(number: int, entry: Entry) -> Iterator[Piece]:
    start = 0
    while start < entry.size:
        size = min(BLOCK - (entry.offset + start) % BLOCK, entry.size - start)
        yield number, start, size
        start += size


def untorn(log: Log, found: Sequence[Epoch]) -> frozenset[Piece]:
    """The pieces that are written whole or not at all."""
    return frozenset(
        piece
        for epoch in found
        for piece in epoch.pieces
        if log.entries[piece[0]].offset + piece[1] == 0
        or log.data(log.entries[piece[0]], piece[1], len(COMMIT)) == COMMIT
    )


def states(
    found: Sequence[Epoch], limit: int | None = None, whole: Collection[Piece] = ()
) -> list[State]:
    """Every state of these epochs, or all flush boundaries and drawn others up to `limit`. Always
    the same ones.
    """
    boundaries = [State(epoch.first, ()) for epoch in found]
    between = [
        state
        for number, epoch in enumerate(found)
        for state in _between(epoch, whole, is_last=number + 1 == len(found))
    ]
    if limit is not None:
        drawn = max(0, limit - len(boundaries))
        between = random.Random(SEED).sample(between, min(drawn, len(between)))  # noqa: S311 (no secret)
    return sorted((*boundaries, *between), key=lambda state: state.first)


def _between(epoch: Epoch, whole: Collection[Piece], *, is_last: bool) -> list[State]:
    """The states that lie inside an epoch. Nothing kept is its own boundary, all kept is that of
    the next epoch.
    """
    drawer = random.Random(f"{SEED} {epoch.first}")  # noqa: S311 (no secret)
    kept = dict.fromkeys((*_choices(epoch.pieces, drawer), *_torn(epoch.pieces, whole, drawer)))
    kept.pop((), None)
    if not is_last:
        kept.pop(epoch.pieces, None)
    return [State(epoch.first, pieces) for pieces in kept]


def _choices(pieces: tuple[Piece, ...], drawer: random.Random) -> Iterator[tuple[Piece, ...]]:
    number = len(pieces)
    if number <= EXHAUSTIVE:
        for size in range(number + 1):
            yield from combinations(pieces, size)
        return
    for at in range(number):
        yield pieces[: at + 1]
        yield pieces[at : at + 1]
        yield pieces[:at] + pieces[at + 1 :]
    for _ in range(DRAWN):
        yield tuple(piece for piece in pieces if drawer.random() < 0.5)


def _torn(
    pieces: tuple[Piece, ...], whole: Collection[Piece], drawer: random.Random
) -> Iterator[tuple[Piece, ...]]:
    """Some pieces, and of one more only its first sectors."""
    for _ in range(TORN if pieces else 0):
        at = drawer.randrange(len(pieces))
        entry, start, size = pieces[at]
        if size > SECTOR and pieces[at] not in whole:
            part = (entry, start, SECTOR * drawer.randrange(1, size // SECTOR))
            yield (*(piece for piece in pieces[:at] if drawer.random() < 0.5), part)
