"""What Slurm's files say: slurm.conf, gres.conf and cgroup.conf have one grammar. Pure but for
`read`.

slurm.conf(5): keys in any case, several `key=value` on a line, a value in quotes or without blanks,
`#` to the end of the line, a backslash at its end goes on with the next, `Include FILE` in place
(relative to the folder of the first file; %c is the name of the cluster), and lists of hosts such
as gpu[01-04,07]. A `NodeName=DEFAULT` counts for the lines below it.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from hosttune.frozen import frozen
from hosttune.ranges import parse_ranges
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# what the controller handed out
CONFIGLESS = ("/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")
SLURM_CONF = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf", *reversed(CONFIGLESS),
)  # fmt: skip
_MOST_FILES = 100
_MOST_HOSTS = 65536  # of one list: MAX_SLURM_NODES of slurm.h
_LONGEST_HOST = 255  # hostname(7)
_MOST_BRACKETS = 4  # of one name
_DIGITS = 18  # of one number in it
_ABOUT_SOME = frozenset({"nodename", "partitionname", "nodeset", "downnodes"})
_COMMENT = regex(r"(?<!\\)#.*")
_INCLUDE = regex(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_PAIR = regex(r"(?<![\w.])([\w.]+)\s*[-+*/]?=\s*(?:\"([^\"]*)\"|(\S+))")
_HOSTS = regex(r"(?:[^,\[]|\[[^\]]*\]?)+")  # a comma in brackets ends none
_RANGE = regex(r"([^\[\]]*)\[([\d,\s-]+)\](.*)")


@frozen
class SlurmRow:
    """One line that sets something: its keys in lower case."""

    path: str
    line: int  # from 1, the first of those that a backslash joins
    values: Mapping[str, str]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def slurm_rows(main: str, read: Callable[[str], str]) -> Iterator[SlurmRow]:
    """The lines of a file, and of all that it includes where it does; each file once, what is
    absent reads as empty.
    """
    return _read_rows(main, posixpath.dirname(main), read, {main}, {})


def slurm_files(main: str, read: Callable[[str], str]) -> Iterable[tuple[str, str]]:
    """(path, content) of a file and of all that it includes."""
    found: dict[str, str] = {}

    def keep(path: str) -> str:
        found[path] = read(path)
        return found[path]

    for _ in slurm_rows(main, keep):
        pass
    return found.items()


def _read_rows(
    path: str, folder: str, read: Callable[[str], str], seen: set[str], cluster: dict[str, str]
) -> Iterator[SlurmRow]:
    for line, text in _join_lines(read(path)):
        if include := _INCLUDE.fullmatch(text):
            inner = posixpath.join(
                folder, include[1].replace("%c", cluster.get("clustername", "%c"))
            )
            # Each file once: two files that include each other would else never end.
            if inner not in seen and len(seen) < _MOST_FILES:
                seen.add(inner)
                yield from _read_rows(inner, folder, read, seen, cluster)
        elif values := {key.lower(): quoted or plain for key, quoted, plain in _PAIR.findall(text)}:
            cluster |= {key: value for key, value in values.items() if key == "clustername"}
            yield SlurmRow(path, line, values)


def _join_lines(content: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text without comments) of each line, joined where a backslash says
    so.
    """
    first, kept = 0, ""
    for number, raw in enumerate(content.splitlines(), 1):
        text = _COMMENT.sub("", raw)
        first = first or number
        if text.endswith("\\"):
            kept += f"{text[:-1]} "
            continue
        yield first, kept + text
        first, kept = 0, ""
    if kept:
        yield first, kept


def settings_of(rows: Iterable[SlurmRow]) -> dict[str, str]:
    """What a file sets for all: the last of each key, of the lines that are not about some
    nodes.
    """
    return {
        key: value
        for row in rows
        if not _ABOUT_SOME & row.values.keys()
        for key, value in row.values.items()
    }


def with_defaults(rows: Iterable[SlurmRow], kind: str) -> Iterator[SlurmRow]:
    """The lines that begin with a kind of thing (`nodename`), each with what the DEFAULT lines
    above it say. The values of a line hold until the next one is asked for: a copy for each would
    grow with the lines times the keys.
    """
    defaults: dict[str, str] = {}
    for row in rows:
        if kind in row.values and row.values[kind].upper() == "DEFAULT":
            defaults |= row.values
        elif kind in row.values:
            yield SlurmRow(row.path, row.line, ChainMap({**row.values}, defaults))


def hosts_in(expression: str) -> tuple[str, ...]:
    """gpu[01-03],head -> gpu01, gpu02, gpu03, head. Raises ValueError for what is no list, or too
    long.
    """
    hosts: list[str] = []
    for part in _HOSTS.findall(expression):
        hosts += _expand_pieces(_split_pieces(part), part)
        if len(hosts) > _MOST_HOSTS:
            raise _too_long(expression)
    return tuple(hosts)


def names_host(expression: str, host: str) -> bool:
    """Whether a list names a host. The list is not expanded. Raises ValueError if it is not a
    list.
    """
    parts = [part for part in _HOSTS.findall(expression) if host.startswith(part.partition("[")[0])]
    return any(_matches_host(_split_pieces(part), host) for part in parts)


# A text, or what brackets hold: (first, last, width) of each range, where 01 is two digits wide.
_Piece: TypeAlias = "str | tuple[tuple[int, int, int], ...]"


def _split_pieces(part: str) -> list[_Piece]:
    """a[01-03]b -> "a", ((1, 3, 2),), "b". Raises ValueError if it is not a list."""
    pieces: list[_Piece] = []
    rest = part.strip()
    while match := _RANGE.fullmatch(rest):
        try:
            words = [word.strip() for word in match[2].split(",")]
            listed = tuple(
                (*parse_ranges(word)[0], len(word.partition("-")[0].strip()))
                for word in words
                if word
            )
        except ValueError:
            raise ValueError(f"{part[:40]!r} is not a list of hosts") from None
        pieces += [match[1], listed]
        rest = match[3]
        if len(pieces) > 2 * _MOST_BRACKETS or not listed:
            raise ValueError(f"{part[:40]!r} is not a list of hosts")
    if "[" in rest or "]" in rest:
        raise ValueError(f"{part[:40]!r} is not a list of hosts")
    return [*pieces, rest]


def _expand_pieces(pieces: list[_Piece], part: str) -> list[str]:
    numbers = [
        sum(last - first + 1 for first, last, _ in piece)
        for piece in pieces
        if not isinstance(piece, str)
    ]
    longest = sum(len(piece) if isinstance(piece, str) else 20 for piece in pieces)
    # Counted before it is made: four brackets of five digits name more hosts than memory holds.
    if math.prod(numbers) > _MOST_HOSTS or (numbers and longest > _LONGEST_HOST):
        raise _too_long(part)
    found = [""]
    for piece in pieces:
        if isinstance(piece, str):
            found = [f"{begin}{piece}" for begin in found]
        else:
            ends = [
                str(one).zfill(width)
                for first, last, width in piece
                for one in range(first, last + 1)
            ]
            found = [f"{begin}{end}" for begin in found for end in ends]
    return found


def _matches_host(pieces: Sequence[_Piece], host: str) -> bool:
    if not pieces:
        return not host
    piece, rest = pieces[0], pieces[1:]
    if isinstance(piece, str):
        return host.startswith(piece) and _matches_host(rest, host[len(piece) :])
    for size in range(1, min(len(host), _DIGITS) + 1):
        digits = host[:size]
        if not (digits.isascii() and digits.isdecimal()):
            return False
        fits = any(
            first <= int(digits) <= last and str(int(digits)).zfill(width) == digits
            for first, last, width in piece
        )
        if fits and _matches_host(rest, host[size:]):
            return True
    return False


def _too_long(expression: str) -> ValueError:
    return ValueError(f"{expression[:40]!r} names more than {_MOST_HOSTS} hosts")
