"""What Slurm's files say: slurm.conf, gres.conf and cgroup.conf have one grammar. Pure but for `read`.

slurm.conf(5): keys in any case, several `key=value` on a line, a value in quotes or without blanks, `#` to the end of
the line, a backslash at its end goes on with the next, `Include FILE` in place (relative to the folder of the first
file; %c is the name of the cluster), and lists of hosts such as gpu[01-04,07]. A `NodeName=DEFAULT` counts for the
lines below it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIGLESS = ("/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")  # what the controller handed out
SLURM_CONF = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf",
    *reversed(CONFIGLESS),
)  # fmt: skip
_MOST_FILES = 100
_MOST_HOSTS = 65536  # of one list: MAX_SLURM_NODES of slurm.h
_ABOUT_SOME = frozenset({"nodename", "partitionname", "nodeset", "downnodes"})
_COMMENT = regex(r"(?<!\\)#.*")
_INCLUDE = regex(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_PAIR = regex(r"(?<![\w.])([\w.]+)\s*[-+*/]?=\s*(?:\"([^\"]*)\"|(\S+))")
_BETWEEN_HOSTS = regex(r",(?![^\[]*\])")
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
    """The lines of a file, and of all that it includes where it does; each file once, what is absent reads as empty."""
    return _rows(main, posixpath.dirname(main), read, {main}, {})


def slurm_files(main: str, read: Callable[[str], str]) -> Iterable[tuple[str, str]]:
    """(path, content) of a file and of all that it includes."""
    found: dict[str, str] = {}

    def keep(path: str) -> str:
        found[path] = read(path)
        return found[path]

    for _ in slurm_rows(main, keep):
        pass
    return found.items()


def _rows(
    path: str, folder: str, read: Callable[[str], str], seen: set[str], cluster: dict[str, str]
) -> Iterator[SlurmRow]:
    for line, text in _joined(read(path)):
        if include := _INCLUDE.fullmatch(text):
            inner = posixpath.join(folder, include[1].replace("%c", cluster.get("clustername", "%c")))
            if inner not in seen and len(seen) < _MOST_FILES:
                seen.add(inner)
                yield from _rows(inner, folder, read, seen, cluster)
        elif values := {key.lower(): quoted or plain for key, quoted, plain in _PAIR.findall(text)}:
            cluster |= {key: value for key, value in values.items() if key == "clustername"}
            yield SlurmRow(path, line, values)


def _joined(content: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text without comments) of each line, joined where a backslash says so."""
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
    """What a file sets for all: the last of each key, of the lines that are not about some nodes."""
    return {key: value for row in rows if not _ABOUT_SOME & row.values.keys() for key, value in row.values.items()}


def with_defaults(rows: Iterable[SlurmRow], kind: str) -> Iterator[SlurmRow]:
    """The lines that begin with a kind of thing (`nodename`), each with what the DEFAULT lines above it say."""
    defaults: dict[str, str] = {}
    for row in rows:
        if kind in row.values and row.values[kind].upper() == "DEFAULT":
            defaults |= row.values
        elif kind in row.values:
            yield SlurmRow(row.path, row.line, {**defaults, **row.values})


def hosts_in(expression: str) -> tuple[str, ...]:
    """gpu[01-03],head -> gpu01, gpu02, gpu03, head. Raises ValueError for what is no list, or too long."""
    return tuple(host for part in _BETWEEN_HOSTS.split(expression) if part for host in _expanded(part))


def names_host(expression: str, host: str) -> bool:
    """Whether a list names a host; only what begins like it is written out. Raises ValueError as `hosts_in` does."""
    parts = (part for part in _BETWEEN_HOSTS.split(expression) if host.startswith(part.partition("[")[0]))
    return any(host in _expanded(part) for part in parts)


def _expanded(part: str) -> list[str]:
    match = _RANGE.fullmatch(part.strip())
    if match is None:
        if "[" in part or "]" in part:
            raise ValueError(f"{part[:40]!r} is no list of hosts")
        return [part.strip()]
    numbers: list[str] = []
    for word in match[2].split(","):
        first, dash, last = (one.strip() for one in word.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part[:40]!r} is no list of hosts")
        count = int(last) - int(first) + 1 if dash else 1
        if len(numbers) + count > _MOST_HOSTS:
            raise ValueError(f"{part[:40]!r} names more than {_MOST_HOSTS} hosts")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(first) + count)]
    rest = _expanded(match[3]) if match[3] else [""]
    if len(numbers) * len(rest) > _MOST_HOSTS:
        raise ValueError(f"{part[:40]!r} names more than {_MOST_HOSTS} hosts")
    return [f"{match[1]}{number}{end}" for number in numbers for end in rest]
