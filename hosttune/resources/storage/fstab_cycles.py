"""Mounts that wait for each other, and mounts of the disks that wait for the network. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.storage.fstab_lines import clean_path
from hosttune.facts.storage.fstab_options import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.facts.storage.fstab_lines import FstabLine, FstabText

_BINDS = (b"bind", b"rbind")
# Lines that are looked at for all circles: of a file with a thousand lines each is found, of larger
# ones the first.
_MOST_STEPS = 1_000_000
_NEEDS = b"x-systemd.requires-mounts-for="


def find_circles(document: FstabText) -> tuple[tuple[FstabLine, ...], ...]:
    """The lines that wait for each other, each circle once, the first line of the file first.

    systemd starts a mount after those that hold its target and, of a bind mount, its source
    (systemd.mount(5), RequiresMountsFor=). Where that is a circle, it takes one of them out of the
    boot.
    """
    starts = [line for line in document.entries if _list_sources(line)]
    if len(starts) < 2:
        return ()
    before = _find_held(document)
    found: dict[frozenset[int], tuple[FstabLine, ...]] = {}
    steps = _MOST_STEPS
    for start in starts:
        if start.number not in before or steps < 0:
            continue
        circle, looked = _find_circle(before, start)
        steps -= looked
        if circle:
            lines = tuple(sorted(circle, key=lambda line: line.number))
            found.setdefault(frozenset(line.number for line in lines), lines)
    return tuple(found.values())


def _find_held(document: FstabText) -> Mapping[int, tuple[FstabLine, ...]]:
    """What systemd mounts before each line, without the lines that wait for no circle: of most
    files nothing.
    """
    before = {line.number: tuple(_find_before(document, line)) for line in document.entries}
    after: dict[int, list[int]] = {}
    waits = {number: len(others) for number, others in before.items()}
    for number, others in before.items():
        for other in others:
            after.setdefault(other.number, []).append(number)
    free = [number for number, many in waits.items() if not many]
    for number in free:  # it grows while it is gone through
        del before[number]
        for one in after.get(number, ()):
            waits[one] -= 1
            if not waits[one]:
                free.append(one)
    return before


def find_waiting(document: FstabText, firsts: Iterable[FstabLine]) -> Mapping[int, FstabLine]:
    """The lines that systemd mounts after some others, by their numbers, each with the one of these
    that it waits for; these themselves are among them.
    """
    after: dict[int, list[FstabLine]] = {}
    found = {line.number: line for line in firsts}
    if not found:
        return found
    for line in document.entries:
        for other in _find_before(document, line):
            after.setdefault(other.number, []).append(line)
    waiting = list(found)
    for number in waiting:  # it grows while it is gone through
        for line in after.get(number, ()):
            if line.number not in found:
                found[line.number] = found[number]
                waiting.append(line.number)
    return found


def find_above(
    document: FstabText, line: FstabLine, among: Iterable[FstabLine]
) -> FstabLine | None:
    """The nearest of some lines on whose folder the target of another one is."""
    numbers = {one.number for one in among}
    path = line.target
    while path := path.rpartition("/")[0]:
        for other in document.index.get(path, ()):
            if other.number in numbers:
                return other
    return None


def _find_circle(
    before: Mapping[int, tuple[FstabLine, ...]], start: FstabLine
) -> tuple[tuple[FstabLine, ...], int]:
    """The shortest way from a line to itself, nothing where there is none; and how many lines were
    looked at.
    """
    way_to: dict[int, FstabLine | None] = {start.number: None}
    waiting = [start]
    for line in waiting:  # it grows while it is gone through
        for other in before.get(line.number, ()):
            if other.number == start.number:
                return tuple(_walk_back(way_to, line)), len(waiting)
            if other.number not in way_to and other.number in before:
                way_to[other.number] = line
                waiting.append(other)
    return (), len(waiting)


def _walk_back(way_to: Mapping[int, FstabLine | None], end: FstabLine) -> Iterator[FstabLine]:
    line: FstabLine | None = end
    while line is not None:
        yield line
        line = way_to[line.number]


def _find_before(document: FstabText, line: FstabLine) -> Iterator[FstabLine]:
    """The lines that systemd mounts before this one."""
    for path in paths_needed(line):
        above = path
        while above:
            yield from (
                other for other in document.index.get(above, ())[:1] if other.number != line.number
            )
            above = above.rpartition("/")[0]


def paths_needed(line: FstabLine) -> tuple[str, ...]:
    """The paths whose mounts systemd mounts before a line: above its target, and its source."""
    return (line.target.rpartition("/")[0], *_list_sources(line))


def _list_sources(line: FstabLine) -> tuple[str, ...]:
    """The paths that have to be there before this line can be mounted, its own target aside."""
    fields = line.fields
    if fields is None or not line.target.startswith("/"):
        return ()
    words = fields.options.split(b",")
    found = [decode(word[len(_NEEDS) :]) for word in words if word.startswith(_NEEDS)]
    if any(word in _BINDS for word in words) or (
        b"loop" in words and not fields.source.startswith(b"/dev/")
    ):
        found.append(decode(fields.source))
    return tuple(clean_path(path) for path in found if path.startswith("/"))
