"""Text for a terminal: width, colour, wrapping.

Colour only repeats what a word or a symbol says already.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.views.step_commands import find_command

NARROWEST = 40
ROOM = 32  # columns that a text needs beside the others; with less it goes below them
UNBROKEN = 1 << 30
WIDEST = 100  # longer lines of prose are hard to read; commands, paths and diffs are never broken

_STEP = regex(r"do: | *[2-9]\. ")  # how a step of a way out begins in a row
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@frozen
class Screen:
    """Where text goes: its columns, 0 where no line is to be broken, whether it may be coloured,
    and whether a person sees it at once, a screen at a time.
    """

    width: int = 80
    colour: bool = False
    is_terminal: bool = False

    @property
    def columns(self) -> int:
        # A terminal can claim a column or two, in which no text can be read; 0 means that no line
        # is broken.
        return max(NARROWEST, min(self.width, WIDEST)) if self.width else UNBROKEN

    @property
    def edge(self) -> int:
        """The column to align to on the right."""
        return min(self.columns, WIDEST)

    def paint(self, text: str, *styles: str) -> str:
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"


def width_of(text: str) -> int:
    """The columns that text takes: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0
        if unicodedata.combining(char)
        else 2
        if unicodedata.east_asian_width(char) in {"W", "F"}
        else 1
        for char in text
    )


def pad_text(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width_of(text))


def wrap_text(text: str, columns: int, *, first: str = "", rest: str = "") -> list[str]:
    """`text` in lines of at most `columns`, the first behind `first`, the others behind `rest`.

    Breaks at blanks alone: a path, an option or a command stays in one piece, even where it is too
    long.
    """
    lines: list[str] = []
    words: list[str] = []  # of one line: where nothing is wrapped a line may be long
    indent, width = first, width_of(first)
    for word in text.split():
        more = width_of(word)
        if words and width + 1 + more > columns:
            lines.append(indent + " ".join(words))
            words, indent, width = [], rest, width_of(rest)
        width += more + (1 if words else 0)
        words.append(word)
    return [*lines, indent + " ".join(words)] if words or first.strip() else lines


def wrap_step(text: str, columns: int, *, first: str = "", rest: str = "") -> list[str]:
    """A step of a way out in lines; its command is one line, also where that is too long: it is to
    be copied.
    """
    lines = wrap_text(text, columns, first=first, rest=rest)
    if len(lines) < 2:
        return lines
    head = text[: len(text) - len(text.lstrip())] + (
        "do: " if text.lstrip().startswith("do: ") else ""
    )
    place = find_command(text[len(head) :])
    if place is None:
        return lines
    begin, end = (number + len(head) for number in place)
    if not text[:begin].strip() or width_of(first) + width_of(text[:end].lstrip()) <= columns:
        lines = [f"{first}{text[:end].lstrip()}"]
    else:
        has_room = width_of(rest) + width_of(text[begin:end]) <= columns
        lines = [line.rstrip() for line in wrap_text(text[:begin], columns, first=first, rest=rest)]
        lines.append(f"{rest if has_room else '    '}{text[begin:end]}")
    return [*lines, *wrap_text(text[end:].removeprefix(","), columns, first=rest, rest=rest)]


def align_columns(
    rows: list[tuple[str, ...]], screen: Screen, *, indent: int = 0, first: int = 0
) -> list[str]:
    """Rows as aligned columns; the last one takes the rest of the line and wraps under itself, or
    goes below where the others leave too little room for it or for one of its words. A row whose
    other cells are empty goes on with the one above. `first` is the least width of the first
    column.
    """
    if not rows:
        return []
    widths = [max(width_of(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    widths[0] = max(widths[0], first)
    room = screen.columns - indent - sum(width + 2 for width in widths)
    below = " " * (indent + 4)
    lines: list[str] = []
    is_below = False
    for number, row in enumerate(rows):
        wrap = wrap_step if _STEP.match(row[-1]) else wrap_text
        head = " " * indent + "".join(
            pad_text(cell, width) + "  " for cell, width in zip(row, widths, strict=False)
        )
        # Decided once for a row and those that go on with it, so that one point is not laid out in
        # two ways.
        if head.strip() or not number:
            is_below = room < max(ROOM, _longest_word(rows, number))
        if is_below:
            above = [head.rstrip()] if head.strip() else []
            lines += [*above, *wrap(row[-1], screen.columns, first=below, rest=below)]
        else:
            lines += wrap(row[-1], screen.columns, first=head, rest=" " * width_of(head)) or [
                head.rstrip()
            ]
    return [line.rstrip() for line in lines]


def _longest_word(rows: list[tuple[str, ...]], number: int) -> int:
    """The columns of the longest word in the last cell of a row and of those that go on with it."""
    after = takewhile(
        lambda row: not any(row[:-1]), map(rows.__getitem__, range(number + 1, len(rows)))
    )
    return max(
        (width_of(word) for row in (rows[number], *after) for word in row[-1].split()), default=0
    )


def join_words(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return (
        items[0]
        if len(items) == 1
        else ", ".join(items[:-1]) + f" and {items[-1]}"
        if items
        else ""
    )
