"""What the files of apt's configuration say, with the line, in the order in which apt reads them.

Source: apt.conf(5): the files of apt.conf.d by name, with no suffix or `.conf`, then apt.conf; names nest by `{ }` or
`::`, whatever their case; `NAME:: "value";` and `NAME { "value"; };` append to a list, `NAME "value";` sets a value;
`#clear NAME;` takes all below NAME away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.reading import names_in
from hosttune.lines import LineNumbers
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

FOLDER = "/etc/apt/apt.conf.d"
LAST = "/etc/apt/apt.conf"
CLEAR = "#clear"
_NAME = regex(r"[\w-]+|[\w.-]*[\w-]\.conf")
_PART = regex(
    r'//[^\n]*|/\*(?:(?!\*/).)*(?:\*/)?|#clear\b|#[^\n]*|"(?:\\.|[^"\\\n])*"|("(?:\\.|[^"\\\n])*)|[{};]|[^\s{};"]+',
    re.DOTALL,
)  # group 1: a quote without its end


def files(reader: Reader) -> tuple[str, ...]:
    """The files that apt reads, in its order, apt.conf last, whether that is there or not."""
    return (*(f"{FOLDER}/{one}" for one in names_in(reader, FOLDER) if _NAME.fullmatch(one)), LAST)


def settings_of(content: str, name: str) -> Iterator[tuple[str, int]]:
    """(value, line from 1) of what one file adds to the list, `#clear` where it empties it."""
    wanted = name.lower()
    scopes: list[str] = []
    words: list[str] = []
    line = LineNumbers(content).at
    for found in _PART.finditer(content):
        part = found[0] if found[1] is None else found[1][1:]
        if part.startswith(("//", "/*")) or (part.startswith("#") and part != CLEAR):
            continue
        if part == "{":
            scopes.append("::".join(filter(None, (*scopes[-1:], *words[:1]))))
        elif part == "}":
            del scopes[-1:]
        elif part != ";":
            words.append(part)
            continue
        elif words[:1] == [CLEAR]:
            if any(wanted == one.lower() or wanted.startswith(f"{one.lower()}::") for one in words[1:]):
                yield CLEAR, line(found.start())
        elif words and words[-1].startswith('"'):
            tag = "::".join((*scopes[-1:], *words[:-1]))
            if tag.removesuffix("::").lower() == wanted:
                yield words[-1][1:-1], line(found.start())
        words = []
