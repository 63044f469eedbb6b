"""/etc/fstab as both of its readers agree on it (fstab(5)); what they do not agree on is a problem,
not an entry.

The byte model is `fstab_lines.py`, the edits `resources/storage/fstab_document.py`; here is what
rules and comparisons look at.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.errors import Refused, Where
from hosttune.facts.base import Fact, keep_last, make_unread
from hosttune.facts.storage.fstab_lines import (
    PATH,
    FstabLine,
    FstabText,
    LineKind,
    describe_place,
    excess_of,
    line_problem,
    parse,
    separator_of,
)  # fmt: skip
from hosttune.facts.storage.fstab_options import (
    decode,
    is_automount,
    is_on_demand,
    masked_field,
    masked_line,
    split_items,
)
from hosttune.facts.storage.mounts import is_network
from hosttune.frozen import frozen
from hosttune.host.reading.mountinfo import folders_above
from hosttune.host.reading.mountinfo import parse as parse_mounts
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.values import Answer


@frozen
class FstabEntry(Fact):
    """One entry, fields decoded, passwords masked."""

    line: int  # from 1
    source: str  # the first field
    target: str  # clean: no doubled slash, none at the end
    fstype: str  # the third field
    options: tuple[str, ...]  # as written, escapes included; empty without a fourth field
    freq: int  # the fifth field, for dump(8)
    passno: int  # the sixth field: the order of fsck(8) at boot; 0: never
    is_swap: bool  # a swap area
    path: str = ""  # the target with symbolic links resolved, as the kernel will show it
    owner: str = ""  # who rewrites this line: cloud-init, Vagrant ...; empty: the administrator
    refusal: str = ""  # why hosttune does not edit this line, as a sentence; empty: it may
    way_out: str = ""  # what a person can do about the refusal
    text: str = ""  # the whole line as it is
    file: str = PATH  # or a unit file, where the line is that of its What=

    @property
    def where(self) -> str:
        """`line 3 of /etc/fstab`; a file that lacks the line by itself."""
        return describe_place(self.line, self.file)


@frozen
class Misread(Fact):
    """A line that is no entry to one of the readers, or a different one."""

    line: int  # its number
    target: str  # as the one that takes it reads it
    refusal: str  # why it is not edited
    way_out: str  # the line as it should be, or what to do
    is_swap: bool = False  # so that one reads it
    options: tuple[str, ...] = ()  # and these
    source: str = ""  # and this


@frozen
class Fstab(Fact):
    """The entries in file order. `problems` are sentences about the file and about lines that a
    boot may misread.
    """

    entries: tuple[FstabEntry, ...]  # the lines that mount something or are swap, in their order
    problems: tuple[str, ...] = ()  # what is wrong with the file as a whole, a sentence each
    manager: str = ""  # the comment in which a tool says that it manages the whole file
    # lines that one of the programs that read fstab takes for something else
    misread: tuple[Misread, ...] = ()
    refusal: str = ""  # why hosttune edits nothing in this file, as a sentence; empty: it may
    way_out: str = ""  # what to do about that; empty where nothing is
    lines: int = 0  # of the file, all of them
    exists: bool = True  # whether the file is there
    separator: str = " "  # what is between the fields of a new line, in this file's style
    # programs that cannot try an edit of it here, each with the reason
    untried_by: tuple[str, ...] = ()

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Fstab:  # noqa: ARG003 - as of all subjects
        data = read_file(reader)
        if isinstance(data, Unreadable):
            return cls(make_unread(data.reason), make_unread(data.reason))
        if data is ABSENT:
            return cls((), exists=False)
        document = parse(data)
        problem = document.problems[0] if document.problems else None
        of_users = _mounts_of_users(reader)
        entries = [
            entry_of(document, line, _resolve_target(line, reader, of_users))
            for line in document.entries
        ]
        return cls(
            tuple(_drop_doubles(entries)),
            tuple(_list_problems(document)),
            document.manager.comment if document.manager else "",
            tuple(
                _make_misread(document, line)
                for line in document.lines
                if line.kind is LineKind.BROKEN
            ),
            str(problem or ""),
            problem.hint if problem else "",
            len(document.lines),
            separator=separator_of(document),
            untried_by=reader.fstab_untried_by(),
        )

    @property
    @keep_last
    def at(self) -> Mapping[str, FstabEntry]:
        """The first entry of each target; mount(8) takes the first of several."""
        found: dict[str, FstabEntry] = {}
        for entry in self.entries:
            if not entry.is_swap:
                found.setdefault(entry.target, entry)
        return MappingProxyType(found)

    @property
    @keep_last
    def by_path(self) -> Mapping[str, FstabEntry]:
        """The first entry of each target after symbolic links."""
        found: dict[str, FstabEntry] = {}
        for entry in self.entries:
            if not entry.is_swap:
                found.setdefault(entry.path or entry.target, entry)
        return MappingProxyType(found)

    @property
    @keep_last
    def at_boot(self) -> tuple[FstabEntry, ...]:
        """What a boot mounts, or makes an automount for (systemd.mount(5): also with noauto)."""
        wanted = (one for one in self.entries if one.target.startswith("/") and not one.is_swap)
        return tuple(
            one for one in wanted if is_automount(one.options) or not is_on_demand(one.options)
        )


def read_file(reader: Reader) -> Answer[bytes]:
    """Its bytes, Unreadable where they are more than any fstab has: each line costs up to a
    millisecond.
    """
    data = reader.read(PATH)
    return Unreadable(excess) if isinstance(data, bytes) and (excess := excess_of(data)) else data


def _make_misread(document: FstabText, line: FstabLine) -> Misread:
    problem = line_problem(document, line)
    seen = line.libmount or line.getmntent
    return Misread(
        line.number, line.target, str(problem or ""), problem.hint if problem else "",
        is_swap=seen is not None and seen.fstype == b"swap",
        options=tuple(masked_field(line.text, seen.options).split(",")) if seen else (),
        source=masked_field(line.text, seen.source) if seen else "",
    )  # fmt: skip


def _mounts_of_users(reader: Reader) -> frozenset[str]:
    """Where users mounted FUSE file systems: fusermount3(1) lets them do that at each folder that
    they own.
    """
    table = ABSENT if reader.persistent_only else reader.read("/proc/self/mountinfo")
    lines = parse_mounts(table) if isinstance(table, bytes) else ()
    return frozenset(one.target for one in lines if one.fuse_user > 0)


def _resolve_target(line: FstabLine, reader: Reader, of_users: frozenset[str]) -> str:
    """Where the target of a line leads, symbolic links resolved; empty where that is not to be
    asked.
    """
    fields = line.fields
    if fields is None or not fields.target.startswith(b"/") or not line.target:
        return ""
    # looking at a target whose server is gone, or that an automount waits on, would hang
    if is_network(decode(fields.fstype), decode(fields.source)) or b"automount" in fields.options:
        return ""
    target = posixpath.normpath(line.target)
    if not of_users.isdisjoint((target, *folders_above(target))):
        return ""  # nor does it have to answer what a user mounted there, or on the way
    path = reader.resolve(line.target)
    return path if isinstance(path, str) else ""


def entry_of(document: FstabText, line: FstabLine, path: str = "") -> FstabEntry:
    """The entry of a line that is one; `path` is its target with symbolic links resolved, where
    that is known.
    """
    fields = line.fields
    assert fields is not None  # noqa: S101 - what Kind.ENTRY means
    problem = line_problem(document, line)
    is_swap = fields.fstype == b"swap"
    # Of swap the second field is a word such as `none` or `0`, which is not cleaned as a path.
    target = decode(fields.target) if is_swap else line.target
    text = masked_line(decode(line.text))
    return FstabEntry(
        line=line.number,
        source=masked_field(line.text, fields.source),
        target=target,
        fstype=decode(fields.fstype),
        options=_split_options(text),
        freq=fields.freq,
        passno=fields.passno,
        is_swap=is_swap,
        path=path or target,
        owner=line.owner or (document.manager.name if document.manager else ""),
        refusal=str(problem) if problem else "",
        way_out=problem.hint if problem else "",
        text=text,
    )


def _drop_doubles(entries: list[FstabEntry]) -> list[FstabEntry]:
    """The entries, those refused that a symbolic link leads to the target of another one."""
    places: dict[str, dict[str, FstabEntry]] = {}  # by path, then by target
    for entry in entries:
        if not entry.is_swap and entry.path.startswith("/"):
            places.setdefault(entry.path, {}).setdefault(entry.target, entry)
    found = []
    for entry in entries:
        others = [
            other for target, other in places.get(entry.path, {}).items() if target != entry.target
        ]
        if others and not entry.refusal and not entry.is_swap:
            other = others[0]
            detail = (
                f"{entry.target} and {other.target} (line {other.line}) are one folder, by a "
                "symbolic link"
            )
            where = Where(PATH, entry.line)
            entry = replace(  # noqa: PLW2901
                entry, refusal=f"{where}: {detail}", way_out="leave one line for each folder"
            )
        found.append(entry)
    return found


def _split_options(text: str) -> tuple[str, ...]:
    # str.split() would also part at a no-break space or a form feed, which both readers take for
    # data.
    fields = text.replace("\t", " ").split(" ")
    written = [field for field in fields if field]
    if len(written) < 4:
        return ()
    try:
        return split_items(written[3])
    except Refused:
        # An open quote forbids every edit of the line. For rules that only read, the plain words
        # are near enough.
        return tuple(written[3].split(","))


def _list_problems(document: FstabText) -> list[str]:
    found = dict.fromkeys(str(problem) for problem in document.problems)
    for line in document.lines:
        if line.kind in (LineKind.ENTRY, LineKind.BROKEN):
            problem = line_problem(document, line)
            if problem:
                found.setdefault(str(problem))
    return list(found)
