"""/etc/fstab as both of its readers agree on it (fstab(5)); what they do not agree on is a problem, not an entry.

The byte model and the edits are `resources/fstab_document.py`; here is what rules and comparisons look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.facts.base import Fact, unread
from hosttune.facts.mounts import is_network
from hosttune.resources.fstab_document import PATH, Document, Kind, Line, line_problem, parse
from hosttune.resources.fstab_options import decode, items, masked_line
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader


@dataclass(frozen=True, slots=True)
class FstabEntry(Fact):
    """One entry, fields decoded, passwords masked."""

    line: int  # from 1
    source: str
    target: str  # clean: no doubled slash, none at the end
    fstype: str
    options: tuple[str, ...]  # as written, escapes included; empty without a fourth field
    freq: int
    passno: int
    is_swap: bool
    path: str = ""  # the target with symbolic links resolved, as the kernel will show it
    owner: str = ""  # who rewrites this line: cloud-init, Vagrant ...; empty: the administrator
    refusal: str = ""  # why hosttune does not edit this line, as a sentence; empty: it may
    way_out: str = ""  # what a person can do about the refusal
    text: str = ""  # the whole line as it stands


@dataclass(frozen=True, slots=True)
class Misread(Fact):
    """A line that is no entry to one of the readers, or a different one."""

    line: int
    target: str  # as the one that takes it reads it
    refusal: str
    way_out: str


@dataclass(frozen=True, slots=True)
class Fstab(Fact):
    """The entries in file order. `problems` are sentences about the file and about lines that a boot may misread."""

    entries: tuple[FstabEntry, ...]
    problems: tuple[str, ...] = ()
    manager: str = ""  # the comment in which a tool says that it manages the whole file
    misread: tuple[Misread, ...] = ()
    refusal: str = ""  # why hosttune edits nothing in this file, as a sentence; empty: it may
    way_out: str = ""
    lines: int = 0
    exists: bool = True

    @property
    def at(self) -> Mapping[str, FstabEntry]:
        """The first entry of each target; mount(8) takes the first of several."""
        found: dict[str, FstabEntry] = {}
        for entry in self.entries:
            if not entry.is_swap:
                found.setdefault(entry.target, entry)
        return MappingProxyType(found)

    @property
    def by_path(self) -> Mapping[str, FstabEntry]:
        """The first entry of each target after symbolic links."""
        found: dict[str, FstabEntry] = {}
        for entry in self.entries:
            if not entry.is_swap:
                found.setdefault(entry.path or entry.target, entry)
        return MappingProxyType(found)


def collect(reader: Reader, facts: Facts) -> Fstab:  # noqa: ARG001 - every subject is collected alike
    data = reader.read(PATH)
    if isinstance(data, Unreadable):
        return Fstab(unread(f"{PATH}: {data.reason}"), unread(f"{PATH}: {data.reason}"))
    if data is ABSENT:
        return Fstab((), exists=False)
    document = parse(data)
    return Fstab(
        tuple(_entry(document, line, reader) for line in document.lines if line.kind is Kind.ENTRY),
        tuple(_problems(document)),
        document.manager,
        tuple(_misread(document, line) for line in document.lines if line.kind is Kind.BROKEN),
        str(document.problems[0]) if document.problems else "",
        document.problems[0].hint if document.problems else "",
        len(document.lines),
    )


def _misread(document: Document, line: Line) -> Misread:
    problem = line_problem(document, line)
    return Misread(line.number, line.target, str(problem or ""), problem.hint if problem else "")


def _entry(document: Document, line: Line, reader: Reader) -> FstabEntry:
    fields = line.fields
    assert fields is not None  # noqa: S101 - what Kind.ENTRY means
    problem = line_problem(document, line)
    is_swap = fields.fstype == b"swap"
    target = decode(fields.target) if is_swap else line.target
    # looking at a target whose server is gone, or that an automount waits on, would hang
    is_safe = not is_network(decode(fields.fstype), decode(fields.source)) and b"automount" not in fields.options
    path = reader.resolve(target) if target.startswith("/") and not is_swap and is_safe else ABSENT
    text = masked_line(decode(line.text))
    return FstabEntry(
        line=line.number,
        source=decode(fields.source),
        target=target,
        fstype=decode(fields.fstype),
        options=_options(text),
        freq=fields.freq,
        passno=fields.passno,
        is_swap=is_swap,
        path=path if isinstance(path, str) else target,
        owner=line.owner,
        refusal=str(problem) if problem else "",
        way_out=problem.hint if problem else "",
        text=text,
    )


def _options(text: str) -> tuple[str, ...]:
    fields = text.replace("\t", " ").split(" ")
    written = [field for field in fields if field]
    if len(written) < 4:
        return ()
    try:
        return items(written[3])
    except Refused:
        return tuple(written[3].split(","))


def _problems(document: Document) -> list[str]:
    found = [str(problem) for problem in document.problems]
    for line in document.lines:
        if line.kind in (Kind.ENTRY, Kind.BROKEN):
            problem = line_problem(document, line)
            if problem and str(problem) not in found:
                found.append(str(problem))
    return found
