"""What the files of apt's configuration say, with the line, in the order in which apt reads them.

Source: apt.conf(5): the files of apt.conf.d by name, with no suffix or `.conf`, then apt.conf;
names nest by `{ }` or `::`, whatever their case; `NAME:: "value";` and `NAME { "value"; };` append
to a list, `NAME "value";` sets a value; `#clear NAME;` takes all below NAME away.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.placed import Placed
from hosttune.facts.reading import names_in
from hosttune.host.reading.effort import EFFORT
from hosttune.lines import LineNumbers
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.host.door import Reader

FOLDER = "/etc/apt/apt.conf.d"
LAST = "/etc/apt/apt.conf"
CLEAR = "#clear"
MOST = 1 << 20  # characters of all files: each name and value takes some hundred bytes
_NAME = regex(r"[\w-]+|[\w.-]*[\w-]\.conf")
_PART = regex(
    r'//[^\n]*|/\*(?:(?!\*/).)*(?:\*/)?|#clear\b|#[^\n]*|"(?:\\.|[^"\\\n])*"|("(?:\\.|[^"\\\n])*)'
    r'|[{};]|[^\s{};"]+',
    re.DOTALL,
)  # group 1: a quote without its end


def list_files(reader: Reader) -> tuple[str, ...]:
    """The files that apt reads, in its order, apt.conf last, whether that is there or not."""
    return (*(f"{FOLDER}/{one}" for one in names_in(reader, FOLDER) if _NAME.fullmatch(one)), LAST)


class _Scope:
    """One name, with the names below it. Each knows its last part only: no text of a file is kept
    once a level.
    """

    __slots__ = ("below", "clears", "values")

    def __init__(self) -> None:
        self.below: dict[str, _Scope] = {}
        self.clears: list[int] = []  # as places in AptNames.lines, ascending; so are the values
        self.values: list[int] = []

    def at(self, parts: Iterable[str]) -> _Scope:
        scope = self
        for part in parts:
            found = scope.below.get(part)
            if found is None:
                found = scope.below[part] = _Scope()
            scope = found
        return scope


class AptNames:
    """All names of these files, (path, content) in their order. Each file is read once, in time
    that grows linearly.
    """

    def __init__(self, contents: Iterable[tuple[str, str]]) -> None:
        self._root = _Scope()
        self._lines: list[Placed] = []
        left = MOST
        for path, content in contents:
            left -= len(content)
            if left < 0:
                raise UnknownFact(
                    f"the files of apt's configuration have more than {MOST >> 20} MiB"
                )
            self._read(path, content)

    def lines(self, name: str) -> Iterator[Placed]:
        """The lines that give a list its values; of those that empty it the last before each value,
        as `#clear`.
        """
        passed: list[int] = []
        scope = self._root
        for part in _split_name(name):
            if part not in scope.below:
                break
            scope = scope.below[part]
            passed += scope.clears
        else:
            yield from self._merge(scope.values, sorted(passed))
            return
        yield from self._merge([], sorted(passed))

    def _merge(self, values: list[int], clears: list[int]) -> Iterator[Placed]:
        EFFORT.spent += len(values) + len(clears)
        before = -1
        for at in (*values, len(self._lines)):
            end = bisect_left(clears, at)
            cleared = clears[end - 1] if end else -1
            if cleared > before:
                yield self._lines[cleared]
            if at < len(self._lines):
                yield self._lines[at]
            before = at

    def _read(self, path: str, content: str) -> None:
        scopes: list[_Scope | None] = []  # None: braces without a name, outside of all scopes
        words: list[str] = []
        line = LineNumbers(content).at
        for found in _PART.finditer(content):
            part = found[0] if found[1] is None else found[1][1:]
            if part.startswith(("//", "/*")) or (part.startswith("#") and part != CLEAR):
                continue
            if part == "{":
                inner = "::".join(words[:1])
                around = (scopes[-1] if scopes else None) or (self._root if inner else None)
                scopes.append(around.at(_parse_name(words[:1])) if around and inner else around)
            elif part == "}":
                del scopes[-1:]
            elif part != ";":
                words.append(part)
                continue
            elif words[:1] == [CLEAR]:
                for name in dict.fromkeys(words[1:]):
                    self._root.at(_split_name(name)).clears.append(len(self._lines))
                self._lines.append(Placed(CLEAR, path, line(found.start())))
            elif words and words[-1].startswith('"'):
                scope = scopes[-1] if scopes else self._root
                if scope is not None:
                    scope.at(_parse_name(words[:-1])).values.append(len(self._lines))
                    self._lines.append(Placed(words[-1][1:-1], path, line(found.start())))
            words = []


def _split_name(name: str) -> list[str]:
    return name.lower().split("::")


def _parse_name(words: list[str]) -> list[str]:
    """The parts of a name in a file: of `NAME::`, which appends, those of NAME."""
    parts = _split_name("::".join(words)) if words else []
    return parts[:-1] if parts[-1:] == [""] else parts
