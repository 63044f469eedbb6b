"""The model of an fstab: any bytes become lines, and the lines are the same bytes again. Pure.

Nothing is normalised. Each line knows its own ending and how both readers (`fstab_readers`) take
it; what forbids an edit is reported with the line and the way out.
`resources/storage/fstab_document.py` makes the edits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from hosttune.errors import Refused, Where
from hosttune.facts.storage.fstab_options import (
    Shown,
    decode,
    hide_secrets,
    masked_line,
    split_items,
)
from hosttune.facts.storage.fstab_readers import (
    BLANKS,
    GETMNTENT_LIMIT,
    Fields,
    find_words,
    is_comment,
    options_span,
    read_getmntent,
    read_libmount,
    scan,
)
from hosttune.frozen import frozen
from hosttune.lines import LineNumbers
from hosttune.regex import regex

PATH = "/etc/fstab"
LONGEST_LINE = 4000  # bytes; getmntent(3) loses what is beyond 4095
LARGEST_FILE = 1 << 20  # bytes; no fstab of people is near it
MOST_LINES = 10_000
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_TOOLS = rb"ansible|puppet|chef|salt|cfengine|terraform|cobbler|juju|landscape"
# compiled only where a comment may say it: that takes longer than all the rest of a usual file
_MANAGED = (
    rb"(ansible)[_ ]managed|managed by ("
    + _TOOLS
    + rb")|("
    + _TOOLS
    + rb")\b.{0,200}(?:do not|don't) edit|"
    rb"this file is (?:managed|controlled) by[ ]*([\w.-]*)"
)
_BLOCKS = (  # an owner that rewrites what is between two comments
    (b"#VAGRANT-BEGIN", b"#VAGRANT-END", "Vagrant"),
    (b"# >>> [openmediavault]", b"# <<< [openmediavault]", "OpenMediaVault"),
    (b"# BEGIN ANSIBLE MANAGED", b"# END ANSIBLE MANAGED", "Ansible"),
)
_BOUNDS = tuple(mark for begin, end, _ in _BLOCKS for mark in (begin, end))
_new = tuple.__new__  # half the time of calling the class
_UNCLEAN = regex(r"//|/\.\.?(?:/|\Z)|./\Z")


class LineKind(str, Enum):
    """What a line is to us."""

    BLANK = "blank"
    COMMENT = "comment"
    ENTRY = "entry"
    BROKEN = "broken"  # not an entry to libmount, or another one to getmntent


class FstabLine(NamedTuple):
    """One line; `text + ending` are its bytes. A NamedTuple for the reason that `Fields` is one."""

    number: int  # from 1
    text: bytes
    ending: bytes  # LF, CR LF, or nothing at the end of the file
    kind: LineKind
    libmount: Fields | None
    getmntent: Fields | None
    # decoded, without doubled slashes and dots; empty for swap and for what is no entry
    target: str = ""
    owner: str = ""  # who rewrites this line: cloud-init, Vagrant ...

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where the fields stand in `text`, a trailing comment included."""
        return find_words(self.text)

    @property
    def fields(self) -> Fields | None:
        """What both readers agree on; None unless it is an entry."""
        return self.libmount if self.kind is LineKind.ENTRY else None

    @property
    def options(self) -> str:
        """The options as they stand in the line, not decoded; empty where there is no fourth
        field.
        """
        # as `_read_lines` has it: nothing in it is escaped
        if self.libmount is self.getmntent and self.libmount:
            return decode(self.libmount.options)
        span = options_span(self.text)
        return decode(self.text[slice(*span)]) if span else ""


@frozen
class Problem:
    """Why a file (line 0) or a line is not edited: where, what, and the way out."""

    line: int
    message: Shown
    hint: Shown
    path: str = PATH

    def __str__(self) -> str:
        return f"{Where(self.path, self.line)}: {self.message}"

    def refusal(self) -> Refused:
        return Refused(str(self), hint=self.hint)


@frozen
class FstabManager:
    """Who says in a comment that the whole file is theirs."""

    line: int
    name: str  # Ansible, Puppet ...; "another tool" where the comment does not say
    comment: Shown


@frozen
class FstabText:
    """A parsed fstab. `problems` forbid every edit."""

    data: bytes = field(repr=False)
    lines: tuple[FstabLine, ...]
    problems: tuple[Problem, ...] = ()
    manager: FstabManager | None = None
    path: str = PATH
    # by target
    index: Mapping[str, Sequence[FstabLine]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __bytes__(self) -> bytes:
        return b"".join(line.text + line.ending for line in self.lines)

    @property
    def entries(self) -> tuple[FstabLine, ...]:
        return tuple(line for line in self.lines if line.kind is LineKind.ENTRY)

    def at(self, target: str) -> tuple[FstabLine, ...]:
        """The lines of a target, broken ones included; never those of swap."""
        return tuple(self.index.get(clean_path(target), ()))

    def problem(self, line: int, message: str, hint: str) -> Problem:
        return Problem(line, self.hide(line, message), self.hide(line, hint), self.path)

    def hide(self, line: int, text: str) -> Shown:
        """A sentence about a line without its passwords; line 0 is the file."""
        return (
            hide_secrets(self.lines[line - 1].text, text)
            if 0 < line <= len(self.lines)
            else masked_line(text)
        )


def describe_place(line: int, file: str) -> str:
    """`line 3 of /etc/fstab`; the file without a line (0)."""
    return f"line {line} of {file}" if line else file


def clean_path(path: str) -> str:
    """An absolute path without doubled slashes, `.`, `..` and a slash at the end; others (`none`)
    as they are.
    """
    if not path.startswith("/") or not _UNCLEAN.search(path):
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def excess_of(data: bytes) -> str:
    """That a file is larger than any fstab, so that it is not read; empty if it is not."""
    if len(data) <= LARGEST_FILE and data.count(b"\n") <= MOST_LINES:
        return ""
    return f"larger than {LARGEST_FILE >> 20} MiB or {MOST_LINES:,} lines, which no fstab is"


def parse(data: bytes, path: str = PATH) -> FstabText:
    """Parse any bytes; never fails. What is wrong is in the lines and in `problems`. `path` is for
    messages.
    """
    lines = tuple(_read_lines(data))
    index: dict[str, list[FstabLine]] = {}
    for line in lines:
        if line.target:
            index.setdefault(line.target, []).append(line)
    return FstabText(
        data, lines, _find_problems(data, path), _find_manager(data, lines), path, index
    )


def _read_lines(data: bytes) -> list[FstabLine]:
    """The lines, read quickly where both readers cannot but agree: files may have many thousand of
    them.
    """
    lines: list[FstabLine] = []
    block = ""
    last = data[data.rfind(b"\n") + 1 :]
    for number, row in enumerate(scan(data[: len(data) - len(last)]), 1):
        text, source, target, fstype, options, freq, passno, cr, rest = row
        is_plain = source and (freq or not cr) and fstype != b"autofs" and b",=" not in options
        if is_plain and not block and len(text) < GETMNTENT_LIMIT and b"comment=" not in options:
            fields = _new(
                Fields, (source, target, fstype, options, int(freq or 0), int(passno or 0))
            )
            path = "" if fstype == b"swap" else decode(target)
            if b"//" in target or b"/." in target or target[-1:] == b"/":
                path = clean_path(path)
            lines.append(
                _new(
                    FstabLine,
                    (
                        number,
                        text,
                        b"\r\n" if cr else b"\n",
                        LineKind.ENTRY,
                        fields,
                        fields,
                        path,
                        "",
                    ),
                )
            )
            continue
        text = text + cr if source else rest
        ending = b"\n"
        if text[-1:] == b"\r":
            text, ending = text[:-1], b"\r\n"
        if text[:1] == b"#":
            lines.append(
                _new(FstabLine, (number, text, ending, LineKind.COMMENT, None, None, "", ""))
            )
            if text.startswith(_BOUNDS):
                block = next((owner for begin, _, owner in _BLOCKS if text.startswith(begin)), "")
        else:
            lines.append(read_line(number, text, ending, block))
    if last:
        lines.append(read_line(len(lines) + 1, last, b"", block))
    return lines


def split_lines(data: bytes) -> list[tuple[bytes, bytes]]:
    """The text of each line and its ending: LF, CR LF, or nothing."""
    *whole, last = data.split(b"\n")
    found = [(text[:-1], b"\r\n") if text[-1:] == b"\r" else (text, b"\n") for text in whole]
    return [*found, (last, b"")] if last else found


def read_line(number: int, text: bytes, ending: bytes, block: str = "") -> FstabLine:
    """One line, as both readers take it; it depends on no other but by `block`, the owner of the
    lines around it.
    """
    has_cr = ending == b"\r\n"
    if text[:1] in b"#\r \t" and is_comment(text.rstrip(b"\r")):
        # to getmntent a blank line with CR is an entry, of nothing
        whole = text + b"\r" if has_cr else text
        getmntent = None if is_comment(whole) else read_getmntent(whole)
        kind = LineKind.COMMENT if text.strip(BLANKS + b"\r") else LineKind.BLANK
        return FstabLine(number, text, ending, kind, None, getmntent)
    libmount = read_libmount(text)
    getmntent = read_getmntent(text + b"\r" if has_cr else text, is_ended=ending != b"")
    owner = block
    if (
        b"comment=cloudconfig" in text
        and libmount
        and b"comment=cloudconfig" in libmount.options.split(b",")
    ):
        owner = "cloud-init"
    kind = LineKind.ENTRY if libmount is not None and libmount == getmntent else LineKind.BROKEN
    # A line that only one of the two takes still has a target there: another line of this target is
    # a duplicate for that one.
    seen = libmount or getmntent
    target = "" if seen is None or seen.fstype == b"swap" else clean_path(decode(seen.target))
    return FstabLine(number, text, ending, kind, libmount, getmntent, target, owner)


def _find_manager(data: bytes, lines: tuple[FstabLine, ...]) -> FstabManager | None:
    # One pass over the whole file costs less than the pattern at each comment.
    small = data.lower()
    if not any(word in small for word in (b"managed", b"controlled", b"edit")):
        return None
    for line in lines:
        match = (
            re.search(_MANAGED, line.text, re.IGNORECASE) if line.kind is LineKind.COMMENT else None
        )
        if match:
            name = next((group for group in match.groups() if group), b"")
            known = name.capitalize() if re.fullmatch(_TOOLS, name, re.IGNORECASE) else name
            return FstabManager(
                line.number,
                decode(known) or "another tool",
                masked_line(decode(line.text.strip(b"# \t\r"))),
            )
    return None


def _find_problems(data: bytes, path: str) -> tuple[Problem, ...]:
    found: list[Problem] = []

    def add(line: int, message: str, hint: str) -> None:
        found.append(Problem(line, masked_line(message), masked_line(hint), path))

    if len(data) > LARGEST_FILE:
        hint = "look whether this is the right file"
        add(0, f"larger than {LARGEST_FILE >> 20} MiB, which no fstab is", hint)
    if data.startswith(_MARKS):
        hint = "save it as plain UTF-8 text without a byte order mark"
        add(1, "a byte order mark, which spoils the first line", hint)
    if b"\0" in data:
        number = LineNumbers(data).at(data.index(b"\0"))
        hint = "remove it in an editor"
        add(number, "a NUL byte: what follows it in the line is lost", hint)
    lone = re.search(rb"\r(?!\n)", data)
    if lone:
        number = LineNumbers(data).at(lone.start())
        hint = "give every line one kind of line end"
        add(number, "a carriage return without a line feed", hint)
    return tuple(found)


def line_problem(document: FstabText, line: FstabLine) -> Problem | None:
    """Why this line is not edited, or None."""
    if document.problems:
        return document.problems[0]
    if len(line.text) > LONGEST_LINE:
        return document.problem(
            line.number, f"the line is longer than {LONGEST_LINE} bytes", "shorten it"
        )
    if line.kind is LineKind.BROKEN:
        from hosttune.facts.storage.fstab_reasons import explain_disagreement

        message, hint = explain_disagreement(
            line.text, line.libmount, line.getmntent, has_cr=line.ending == b"\r\n"
        )
        return document.problem(line.number, message, hint)
    # mount(8) and systemd take the first of several lines, and `mount -a` tries all of them: an
    # edit of one may change nothing.
    same = document.index.get(line.target, ())
    if len(same) > 1:
        places = others_of(line, same)
        message = f"{line.target} is in line {places} too: which line counts depends on who mounts"
        return document.problem(line.number, message, "leave one line for each target")
    if b'"' in line.text:
        try:
            split_items(line.options)
        except Refused as refused:
            return document.problem(line.number, refused.message, refused.hint)
    return None


def others_of(line: FstabLine, same: Sequence[FstabLine]) -> str:
    """The numbers of the other lines in `same`, as words; many are counted."""
    others = [str(other.number) for other in same[:4] if other.number != line.number][:3]
    more = len(same) - 1 - len(others)
    return ", ".join(others) + (f" and {more} more" if more else "")


def separator_of(document: FstabText) -> str:
    """What is between the fields of a new line: a tab where the entry before it has nothing else,
    or a blank.
    """
    for line in reversed(document.lines):
        if line.kind is LineKind.ENTRY:
            spans = line.spans[:6]
            between = {line.text[one[1] : two[0]] for one, two in pairwise(spans)}
            return "\t" if all(set(blanks) == set(b"\t") for blanks in between) else " "
    return " "
