"""What the lines of a script leave for later lines: variables that can be told, and the folder that it is in. Pure.

Known is a name that one line alone gives a value, a literal path, outside of any condition; known is a folder that `cd`
names as surely. All else is unknown.
"""

from __future__ import annotations

import posixpath
import re
from itertools import chain, islice, product
from typing import TYPE_CHECKING

from hosttune.host.paths import PATH_MAX
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts.storage.ageing_rows import CommandRow, ShellCommand

USE = regex(r"\$(?:(\w+)|\{(\w+)\})")
_ASSIGNMENT = regex(r"(\w+)=(/[^$`]*)", re.DOTALL)
_TARGET = regex(
    r"(?<![\w$.-])(\w+)(?:\[[^\]\n]{0,80}\])?\+?=|\$\{(\w+):?=|\bfor\s+(\w+)\s|"
    r"\b(?:read|mapfile|readarray|unset|local|declare|typeset|getopts|printf\s+-v)\s+([^;|&\n]{1,200})"
)
_OPENING = frozenset({"if", "while", "until", "for", "case", "select", "{"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_BETWEEN = frozenset({"then", "do", "else", "elif", "!", "time"})
_SAFE_END = frozenset({"", ";", "&&"})
_MOST = 64  # values of one word; more are not told apart
# A word that is used n times multiplies its length, so what comes out of one file is bounded, in characters.
MOST_JOINED = 1 << 20


def targets(text: str) -> Iterator[str]:
    """The names that a line may give a value to."""
    for match in _TARGET.finditer(text):
        for part in match.groups():
            yield from re.findall(r"\w+", part or "")


class Shell:
    """Follows the commands of a file."""

    def __init__(self, rows: Iterable[CommandRow]) -> None:
        counted: dict[str, int] = {}
        for row in rows:
            for name in targets(row.text):
                counted[name] = counted.get(name, 0) + 1
        self._once = {name for name, count in counted.items() if count == 1}
        self.variables: dict[str, tuple[str, ...]] = {}
        self.here = ""  # empty: unknown
        self._blocks = 0
        self._is_fragile = False  # this `cd` was made under a condition: it holds while && follows
        self._left = MOST_JOINED

    def reset(self) -> None:
        """A row that another process runs: of crontabs and units."""
        self.here, self._blocks, self._is_fragile = "", 0, False

    def take(self, command: ShellCommand) -> list[str]:
        """Follow a command; what is told of it, in words that say the same to another Shell."""
        if self._is_fragile and command.before != "&&":
            self.here, self._is_fragile = "", False
        words = list(command.words)
        told: list[str] = []
        while words and words[0] in _OPENING | _CLOSING | _BETWEEN:
            told += ["if"] * (words[0] in _OPENING) + ["fi"] * (words[0] in _CLOSING)
            self._blocks = max(0, self._blocks + (words[0] in _OPENING) - (words[0] in _CLOSING))
            if words[0] in {"for", "case", "select"}:
                break
            del words[0]
        head = words[0] if words else ""
        is_sure = not self._blocks and not command.depth and command.after in _SAFE_END
        if head == "for" and len(words) > 3 and words[2] == "in":
            return [*told[:-1], *self._loop(words)]
        if head in {"cd", "pushd", "popd"}:
            return told + self._moved(words, command, is_sure=is_sure)
        if head in {".", "source", "eval"}:
            self.variables.clear()
            named = head != "eval" and len(words) > 1
            return [*told, f". {_quoted(words[1])}" if named else "eval"]
        return told + self._assigned(words, is_sure=is_sure and command.before in {"", ";"})

    def _loop(self, words: list[str]) -> list[str]:
        name, values = words[1], words[3:]
        is_known = name in self._once and not any(re.search(r"[$`]", value) for value in values)
        if is_known:
            self.variables[name] = tuple(values)
        return [f"for {name} in {' '.join(map(_quoted, values)) if is_known else '$'}; do"]

    def _moved(self, words: list[str], command: ShellCommand, *, is_sure: bool) -> list[str]:
        place = words[1] if words[0] == "cd" and len(words) == 2 else ""
        is_known = bool(place) and not re.search(r"[$`~]|^-", place) and is_sure
        is_known = is_known and (place.startswith("/") or bool(self.here))
        self.here = self._joined(place) if is_known else ""
        is_known = bool(self.here)
        self._is_fragile = is_known and command.before in {"&&", "||"}
        return [f"cd {_quoted(self.here)}"] if is_known and not self._is_fragile else ["pushd"]

    def _assigned(self, words: list[str], *, is_sure: bool) -> list[str]:
        rest = words[1:] if words and words[0] in {"export", "readonly"} else words
        told: list[str] = []
        for word in rest:
            if not re.match(r"\w+=", word):
                return told
        for word in rest:
            match = _ASSIGNMENT.fullmatch(word)
            if match and is_sure and match[1] in self._once:
                self.variables[match[1]] = (match[2],)
                told.append(f"{match[1]}={_quoted(match[2])}")
        return told

    def places(self, path: str) -> Iterator[str]:
        """What a path means: its variables replaced by what is known of them, from the folder that the script is in. At
        most PATH_MAX characters of each, which is too long for a name; / where there is too much to tell.
        """
        pieces: list[tuple[str, ...]] = []
        position = 0
        for use in USE.finditer(path):
            pieces += [(path[position : use.start()],), self.variables.get(use[1] or use[2], (use[0],))]
            position = use.end()
        count = 1
        for piece in pieces:
            count *= len(piece) or 1
            if count > _MOST:
                yield "/"
                return
        for parts in product(*pieces, (path[position:],)):
            one = "".join(islice(chain.from_iterable(parts), PATH_MAX))
            is_whole = one.startswith("/") or USE.match(one) or not self.here
            if self._left <= 0:
                yield "/"
                return
            self._left -= len(one)
            yield one if is_whole else self._joined(one) or "/"

    def _joined(self, path: str) -> str:
        """A path from the folder that the script is in; empty where that is too long, or too much."""
        self._left -= len(self.here) + len(path)
        is_short = len(self.here) + len(path) < PATH_MAX and self._left > 0
        return posixpath.normpath(posixpath.join(self.here, path)) if is_short else ""


def _quoted(value: str) -> str:
    return f"'{value}'" if re.search(r"[^\w/.*?+:@%-]", value) and "'" not in value else value
