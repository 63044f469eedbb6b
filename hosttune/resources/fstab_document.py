"""An fstab as bytes: parse, print the same bytes again, replace one span, add or remove one line. Pure.

Nothing is normalised. Before new bytes leave this module they are proven: both readers (`fstab_readers`) must see
exactly the intended difference, and every other byte must be equal. What cannot be edited without guessing is refused,
with the line and the way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from hosttune.errors import Refused, Where
from hosttune.resources.fstab_options import decode, encode, items
from hosttune.resources.fstab_readers import (
    BLANKS,
    Fields,
    is_comment,
    read_getmntent,
    read_libmount,
    words,
)

PATH = "/etc/fstab"
LONGEST_LINE = 4000  # bytes; getmntent(3) loses what is beyond 4095
_LINE = re.compile(rb"([^\n]*?)(\r?\n|\Z)")
_MANAGED = re.compile(
    rb"ansible[_ ]managed|managed by (?:ansible|puppet|chef|salt|cfengine|terraform)|"
    rb"(?:puppet|chef|salt|ansible|cfengine)\b.*(?:do not|don't) edit|this file is (?:managed|controlled) by",
    re.IGNORECASE,
)
_BLOCKS = (  # an owner that rewrites what stands between two comments
    (b"#VAGRANT-BEGIN", b"#VAGRANT-END", "Vagrant"),
    (b"# >>> [openmediavault]", b"# <<< [openmediavault]", "OpenMediaVault"),
    (b"# BEGIN ANSIBLE MANAGED", b"# END ANSIBLE MANAGED", "Ansible"),
)


class Kind(str, Enum):
    """What a line is to us."""

    BLANK = "blank"
    COMMENT = "comment"
    ENTRY = "entry"
    BROKEN = "broken"  # not an entry to libmount, or another one to getmntent


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `text + ending` are its bytes. `fields` is what both readers agree on, None unless it is an entry."""

    number: int  # from 1
    text: bytes
    ending: bytes  # LF, CR LF, or nothing at the end of the file
    kind: Kind
    libmount: Fields | None
    getmntent: Fields | None
    owner: str = ""  # who rewrites this line: cloud-init, Vagrant ...

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where the fields stand in `text`, a trailing comment included."""
        return words(self.text)

    @property
    def fields(self) -> Fields | None:
        return self.libmount if self.kind is Kind.ENTRY else None

    @property
    def target(self) -> str:
        """The target, decoded and cleaned of doubled slashes and dots; empty for swap and for what is no entry."""
        fields = self.libmount or self.getmntent
        if self.kind in (Kind.BLANK, Kind.COMMENT) or fields is None or fields.fstype == b"swap":
            return ""
        return clean_path(decode(fields.target))

    @property
    def options(self) -> str:
        """The options as they stand in the line, not decoded; empty where there is no fourth field."""
        spans = self.spans
        return decode(self.text[slice(*spans[3])]) if len(spans) > 3 else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file or a line is not edited: where, what, and the way out."""

    line: int
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{Where(PATH, self.line)}: {self.message}"

    def refusal(self) -> Refused:
        return Refused(str(self), hint=self.hint)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed fstab. `problems` forbid every edit; `manager` is who says in a comment that the file is theirs."""

    data: bytes
    lines: tuple[Line, ...]
    problems: tuple[Problem, ...] = ()
    manager: str = ""

    def __bytes__(self) -> bytes:
        return b"".join(line.text + line.ending for line in self.lines)

    @property
    def entries(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.kind is Kind.ENTRY)

    def at(self, target: str) -> tuple[Line, ...]:
        """The lines of a target, broken ones included; never those of swap."""
        path = clean_path(target)
        return tuple(line for line in self.lines if path and line.target == path)


def clean_path(path: str) -> str:
    """An absolute path without doubled slashes, `.`, `..` and a slash at the end; others (`none`) as they are."""
    if not path.startswith("/"):
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def parse(data: bytes) -> Document:
    """Parse any bytes; never fails. What is wrong stands in the lines and in `problems`."""
    lines: list[Line] = []
    block = ""
    manager = ""
    for number, (text, ending) in enumerate(_split(data), 1):
        for begin, end, owner in _BLOCKS:
            block = owner if text.startswith(begin) else "" if text.startswith(end) else block
        line = _line(number, text, ending, block)
        lines.append(line)
        if line.kind is Kind.COMMENT and not manager and _MANAGED.search(text):
            manager = decode(text.strip(b"# \t\r"))
    return Document(data, tuple(lines), _problems(data), manager)


def _split(data: bytes) -> list[tuple[bytes, bytes]]:
    found = [(match[1], match[2]) for match in _LINE.finditer(data)]
    return [pair for pair in found if pair != (b"", b"")]


def _line(number: int, text: bytes, ending: bytes, block: str) -> Line:
    whole = text + ending.removesuffix(b"\n")
    # to getmntent a blank line with CR is an entry, of nothing
    getmntent = None if is_comment(whole) else read_getmntent(whole)
    if is_comment(text.rstrip(b"\r")):
        kind = Kind.COMMENT if text.strip(BLANKS + b"\r") else Kind.BLANK
        return Line(number, text, ending, kind, None, getmntent)
    libmount = read_libmount(text)
    kind = Kind.ENTRY if libmount is not None and libmount == getmntent else Kind.BROKEN
    owner = block
    if libmount is not None and b"comment=cloudconfig" in libmount.options.split(b","):
        owner = "cloud-init"
    return Line(number, text, ending, kind, libmount, getmntent, owner)


def _problems(data: bytes) -> tuple[Problem, ...]:
    found = []
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        found.append(Problem(1, "a byte order mark, which spoils the first line", "save the file as plain text"))
    if b"\0" in data:
        number = data[: data.index(b"\0")].count(b"\n") + 1
        found.append(Problem(number, "a NUL byte: what follows it in the line is lost", "remove it in an editor"))
    lone = re.search(rb"\r(?!\n)", data)
    if lone:
        number = data[: lone.start()].count(b"\n") + 1
        found.append(Problem(number, "a carriage return without a line feed", "give every line one kind of line end"))
    return tuple(found)


def line_problem(document: Document, line: Line) -> Problem | None:
    """Why this line is not edited, or None."""
    if document.problems:
        return document.problems[0]
    if len(line.text) > LONGEST_LINE:
        return Problem(line.number, f"the line is longer than {LONGEST_LINE} bytes", "shorten it")
    if line.kind is Kind.BROKEN:
        return Problem(line.number, _disagreement(line), "repair it: six fields, comments on lines of their own")
    others = [other.number for other in document.at(line.target) if other.number != line.number]
    if others:
        places = ", ".join(map(str, others))
        return Problem(
            line.number,
            f"{line.target} stands in line {places} too: which line counts depends on who mounts",
            "leave one line for each target",
        )
    try:
        items(line.options)
    except Refused as refused:
        return Problem(line.number, refused.message, refused.hint)
    return None


def _disagreement(line: Line) -> str:
    if line.libmount is None:
        return "mount(8) drops this line (fields missing, or text where a number belongs)"
    return "mount(8) and systemd before 259 read this line differently (escapes, a comment after field 4, or CR LF)"


def options_of(document: Document, target: str) -> str | None:
    """The options text of the one line of `target`, None without a line. Raises Refused where it is not edited."""
    lines = document.at(target)
    if not lines:
        return None
    problem = line_problem(document, lines[0])
    if problem:
        raise problem.refusal()
    return lines[0].options


def edit_options(document: Document, target: str, transform: Callable[[str], str]) -> bytes:
    """The file with the options of `target` replaced by what `transform` makes of them; all else byte for byte.

    A line of three fields gets a fourth, and empty options take a fourth and last one away again. Raises Refused.
    """
    options = options_of(document, target)
    if options is None:
        raise Refused(f"{PATH} has no line for {target}", hint="add one, or mount it by a unit")
    new = transform(options)
    if new == options:
        return document.data
    line = document.at(target)[0]
    text = _with_options(line, encode(new))
    if len(text) > LONGEST_LINE:
        raise Problem(line.number, f"the line would be longer than {LONGEST_LINE} bytes", "shorten it").refusal()
    lines = [(text if other is line else other.text) + other.ending for other in document.lines]
    edited = b"".join(lines)
    _prove(document, edited, line.number, removed=1, added=1, options=encode(new))
    return edited


def _with_options(line: Line, options: bytes) -> bytes:
    spans = line.spans
    if any(byte in options for byte in b" \t\n\r\0"):
        raise Problem(line.number, "options cannot hold blanks", "write a blank as \\040").refusal()
    if len(spans) > 3 and options:
        return line.text[: spans[3][0]] + options + line.text[spans[3][1] :]
    if len(spans) == 3 and options:
        separator = line.text[spans[1][1] : spans[2][0]]
        return line.text[: spans[2][1]] + separator + options + line.text[spans[2][1] :]
    if len(spans) == 4 and not options:
        return line.text[: spans[2][1]] + line.text[spans[3][1] :]
    raise Problem(line.number, "the options cannot be empty before a fifth field", "write `defaults`").refusal()


def insert_line(document: Document, line: str) -> bytes:
    """The file with `line` at its end, with the line end of its neighbour. Raises Refused.

    Where the last line has no line end, it gets one and the new line has none: so taking it away gives the old bytes.
    """
    if document.problems:
        raise document.problems[0].refusal()
    text = encode(line)
    endings = [other.ending for other in document.lines if other.ending]
    ending = endings[-1] if endings else b"\n"
    if document.lines and not document.lines[-1].ending:
        new = document.data + ending + text
    else:
        new = document.data + text + ending
    _prove(document, new, len(document.lines) + 1, removed=0, added=1)
    return new


def remove_line(document: Document, line: str) -> bytes:
    """The file without the one line whose text is exactly `line`. Raises Refused when there is none, or more."""
    text = encode(line)
    found = [index for index, other in enumerate(document.lines) if other.text == text]
    if len(found) != 1:
        raise Refused(
            f"{PATH} has {len(found) or 'no'} lines like: {line}", hint="somebody changed it: remove it by hand"
        )
    index = found[0]
    pieces = [other.text + other.ending for other in document.lines]
    if not document.lines[index].ending and index:
        pieces[index - 1] = document.lines[index - 1].text
    new = b"".join(pieces[:index] + pieces[index + 1 :])
    _prove(document, new, index + 1, removed=1, added=0)
    return new


def _prove(
    document: Document, new: bytes, number: int, *, removed: int, added: int, options: bytes | None = None
) -> None:
    """Raise Refused unless both readers see exactly the intended difference in `new`."""
    after = parse(new)
    old, now = document.lines, after.lines
    place = number - 1
    same = (
        bytes(after) == new
        and [_seen(line) for line in old[:place]] == [_seen(line) for line in now[:place]]
        and [_seen(line) for line in old[place + removed :]] == [_seen(line) for line in now[place + added :]]
    )
    if same and added:
        line = now[place]
        same = line.kind is Kind.ENTRY and line_problem(after, line) is None
        if options is not None and same:
            same = encode(line.options) == options and _rest(old[place]) == _rest(line)
    if not same:
        raise Problem(number, "the edited line would not read as intended", "edit it by hand").refusal()


def _seen(line: Line) -> tuple[bytes, Fields | None, Fields | None]:
    return line.text, line.libmount, line.getmntent


def _rest(line: Line) -> Fields | None:
    """The fields without the options."""
    return replace(line.fields, options=b"") if line.fields else None
