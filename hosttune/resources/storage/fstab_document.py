"""Edits of an fstab as bytes: replace one span, add or remove one line. Pure.

Before new bytes leave this module they are proven: both readers (`fstab_readers`) must see exactly
the intended difference, and every other byte must be equal. What cannot be edited without guessing
is refused, with the line and the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_lines import (
    LONGEST_LINE,
    PATH,
    FstabLine,
    FstabText,
    LineKind,
    Problem,
    clean_path,
    line_problem,
    parse,
    read_line,
    split_lines,
)
from hosttune.facts.storage.fstab_options import encode, split_items
from hosttune.facts.storage.fstab_readers import (
    STALE,
    decode_getmntent,
    decode_libmount,
    options_span,
)
from hosttune.regex import regex
from hosttune.resources.line_ends import line_end

__all__ = [
    "LONGEST_LINE",
    "PATH",
    "Edit",
    "FstabLine",
    "FstabText",
    "LineKind",
    "Problem",
    "clean_path",
    "edit_line",
    "edit_lines",
    "edit_options",
    "entry_text",
    "insert_line",
    "line_problem",
    "options_of",
    "parse",
    "remove_line",
    "splice_edits",
]  # fmt: skip
_UNFIT = regex(rb"[ \t\n\r\0]")
# all that both readers decode
_ESCAPES = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}


def options_of(document: FstabText, target: str) -> str | None:
    """The options text of the one line of `target`, None without a line. Raises Refused where it is
    not edited.
    """
    lines = document.at(target)
    if not lines:
        return None
    problem = line_problem(document, lines[0])
    if problem:
        raise problem.refusal()
    return lines[0].options


def edit_options(document: FstabText, target: str, transform: Callable[[str], str]) -> bytes:
    """The file with the options of `target` replaced by what `transform` makes of them; all else
    byte for byte.

    A line of three fields gets a fourth, and empty options take a fourth and last one away again.
    Raises Refused.
    """
    options = options_of(document, target)
    if options is None:
        raise Refused(
            f"{document.path} has no line for {target}", hint="add one, or mount it by a unit"
        )
    return edit_lines(document, {document.at(target)[0].number: transform(options)})


def edit_lines(document: FstabText, options: Mapping[int, str]) -> bytes:
    """The file with other options in the lines of these numbers. Raises Refused when one of them
    cannot be edited.
    """
    edits: dict[int, Edit] = {}
    for number, new in options.items():
        line = document.lines[number - 1]
        problem = line_problem(document, line)
        if problem:
            raise problem.refusal()
        if new != line.options:
            edits[number] = edit_line(document, line, new)
    return splice_edits(document, edits)


class Edit(NamedTuple):
    """What a line becomes."""

    options: bytes
    text: bytes


def edit_line(document: FstabText, line: FstabLine, new: str) -> Edit:
    """A line that can be edited, with other options. Raises Refused."""
    options = encode(new)
    if _UNFIT.search(options):
        raise document.problem(
            line.number, "options cannot hold blanks", "write a blank as \\040"
        ).refusal()
    span = options_span(line.text) if new else None
    text = (
        line.text[: span[0]] + options + line.text[span[1] :]
        if span
        else _with_fourth_field(document, line, options)
    )
    if len(text) > LONGEST_LINE:
        problem = f"the line would be longer than {LONGEST_LINE} bytes"
        raise document.problem(line.number, problem, "shorten it").refusal()
    return Edit(options, text)


def _with_fourth_field(document: FstabText, line: FstabLine, options: bytes) -> bytes:
    """The text of a line that has no options and gets some, or that loses the ones it has."""
    spans = line.spans
    separator = line.text[spans[1][1] : spans[2][0]]
    # It ends the line: behind blanks and without a line feed getmntent(3) would lose the two
    # numbers.
    if len(spans) == 3 and options:
        return line.text + separator + options
    if len(spans) == 4 and not options:
        start = max(spans[2][1], spans[3][0] - len(separator))
        return line.text[:start] + line.text[spans[3][1] :]
    problem = "the options cannot be empty before a fifth field"
    raise document.problem(line.number, problem, "write `defaults`").refusal()


def splice_edits(document: FstabText, edits: Mapping[int, Edit]) -> bytes:
    """The file with these lines, by number; proven: both readers see these options there, and all
    else is the same.

    How a line is read depends on that line alone (`read_line`), so lines of equal bytes need not be
    read again.
    """
    if not edits:
        return document.data
    numbers = sorted(edits)
    pieces = document.data.split(b"\n")
    for number in numbers:
        pieces[number - 1] = edits[number].text + document.lines[number - 1].ending[:-1]
    new = b"\n".join(pieces)
    pairs = zip(document.data.split(b"\n"), new.split(b"\n"), strict=True)
    if [number for number, (before, after) in enumerate(pairs, 1) if before != after] != numbers:
        raise _make_unproven(document, numbers[0])
    ending = document.lines[numbers[-1] - 1].ending[-1:]
    after = parse(b"\n".join([pieces[number - 1] for number in numbers]) + ending)
    for number, now in zip(numbers, after.lines, strict=True):
        if not _is_as_meant(document.lines[number - 1], edits[number], now):
            raise _make_unproven(document, number)
    return new


def _is_as_meant(before: FstabLine, edit: Edit, now: FstabLine) -> bool:
    """Whether both readers see the entry of `before` with other options, and nothing else."""
    old, also_old = before.libmount, before.getmntent
    if old is None or also_old is None or now.kind is not LineKind.ENTRY or now.text != edit.text:
        return False
    if now.libmount != (*old[:3], decode_libmount(edit.options), *old[4:]) or _has_open_quote(now):
        return False
    return now.getmntent == (*also_old[:3], decode_getmntent(edit.options), *also_old[4:])


def entry_text(source: str, target: str, fstype: str, options: str, *, separator: str = " ") -> str:
    """A new line, without ending: blanks and backslashes as both readers decode them; freq and
    passno are 0.

    With passno 0 no fsck of a missing disk can stop a boot. Options are text as it is in a line.
    """
    names = (
        "".join(_ESCAPES.get(char, char) for char in name) for name in (source, target, fstype)
    )
    return separator.join((*names, options, "0", "0"))


def insert_line(document: FstabText, line: str) -> bytes:
    """The file with `line` at its end, with the line end of its neighbour. Raises Refused.

    Where the last line has no line end, it gets one and the new line has none: so taking it away
    gives the old bytes.
    """
    if document.problems:
        raise document.problems[0].refusal()
    text = encode(line)
    ending = line_end(document.data)
    if document.lines and not document.lines[-1].ending:
        new = document.data + _find_line_end(document, ending) + text
    else:
        new = document.data + text + ending
    number = len(document.lines) + 1
    after = split_lines(new)
    added = read_line(number, *after[-1]) if len(after) == number else None
    old = [other.text for other in document.lines]
    is_entry = added is not None and added.text == text and added.kind is LineKind.ENTRY
    if not is_entry or [one for one, _ in after[:-1]] != old or not new.startswith(document.data):
        raise _make_unproven(document, number)
    assert added is not None  # noqa: S101 - is_entry says so
    if len(text) > LONGEST_LINE or document.at(added.target) or _has_open_quote(added):
        raise _make_unproven(document, number)
    return new


def _find_line_end(document: FstabText, ending: bytes) -> bytes:
    """The line end for a last line that has none, with which both readers see it as they did.
    Raises Refused.

    A CR behind options that no number follows would become part of them (getmntent(3)).
    """
    last = document.lines[-1]
    known = last.getmntent
    if known and known.freq == STALE:
        # the line feed gives it the numbers that libmount reads already
        known = known._replace(freq=0, passno=0)
    for one in (ending, b"\n"):
        ended = read_line(last.number, last.text, one)
        if (ended.libmount, ended.getmntent) == (last.libmount, known):
            return one
    problem = (
        "with a line below it this last line, which has no line end, would be read in another way"
    )
    raise document.problem(
        last.number, problem, "end it with two plain numbers, 0 0, and a line feed"
    ).refusal()


def remove_line(document: FstabText, line: str) -> bytes:
    """The file without the one line whose text is exactly `line`. Raises Refused when there is
    none, or more.
    """
    text = encode(line)
    found = [index for index, other in enumerate(document.lines) if other.text == text]
    # A second line of the same text may be a copy of someone: which one is ours is not known.
    if len(found) != 1:
        many = len(found) or "no"
        hint = "somebody changed it: remove it by hand"
        raise Refused(f"{document.path} has {many} lines like: {line}", hint=hint)
    index = found[0]
    pieces = [other.text + other.ending for other in document.lines]
    # The line before it becomes the last one, and loses the line end that `insert_line` gave it.
    if not document.lines[index].ending and index:
        pieces[index - 1] = document.lines[index - 1].text
    new = b"".join(pieces[:index] + pieces[index + 1 :])
    left = [other.text for other in document.lines if other.number != index + 1]
    if [one for one, _ in split_lines(new)] != left:
        raise _make_unproven(document, index + 1)
    return new


def _has_open_quote(line: FstabLine) -> bool:
    if b'"' not in line.text:
        return False
    try:
        split_items(line.options)
    except Refused:
        return True
    return False


def _make_unproven(document: FstabText, number: int) -> Refused:
    return document.problem(
        number, "the edited line would not read as intended", "edit it by hand"
    ).refusal()
