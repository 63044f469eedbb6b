"""What scripts and units read in: `. FILE` (sh(1)), EnvironmentFile= (systemd.exec(5)). Pure."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.storage.ageing_files import words_of
from hosttune.facts.storage.ageing_jobs import may_be_script, read_in
from hosttune.facts.storage.ageing_rows import LONGEST, CommandRow, commands_of, told_of
from hosttune.frozen import frozen
from hosttune.host.reading.paths import PATH_MAX
from hosttune.lines import LineNumbers
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVIRONMENT_FILE = regex(r"^[ \t]*EnvironmentFile[ \t]*=[ \t]*(?:-[ \t]*)?(/\S+)", re.MULTILINE)
_OWN = regex(r"\s*Environment\s*=")
_VALUE = regex(r"^[ \t]*(?:export[ \t]+)?(\w+)=[\"']?(/[^\s\"'$`*?]+)", re.MULTILINE)
_HOME = regex(r"^(?:\$HOME|\$\{HOME\}|~)(?=/)")
_OWN_FOLDER = regex(
    r"^(?:\$\((?:/usr)?(?:/bin/)?dirname\s+(?:--\s+)?(?:\$0|\$\{?BASH_SOURCE(?:\[0\])?\}?)\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\})(?=/)"
)
_OPEN = regex(r"[$`<~]|[*?\[][^*?\[/]*/")


@frozen
class Script:
    """A file of commands, as far as it tells what it reads in."""

    path: str
    rows: tuple[CommandRow, ...]
    kind: str  # as of rows_of
    home: str  # of the user who runs it; empty where that is not told


def sourced_in(script: Script) -> Iterator[tuple[int, str]]:
    """(line, path or pattern) of what a script reads in; an empty path where that is not known. Not those of the
    distribution, by their place.
    """
    for row in script.rows:
        for command in commands_of(told_of(row)) if len(row.text) <= LONGEST else ():
            for word in read_in(command):
                yield from ((row.number, path) for path in _find_paths(word, script))


def _find_paths(word: str, script: Script) -> Iterator[str]:
    path = _HOME.sub(script.home, word) if script.home else word
    path = _OWN_FOLDER.sub(posixpath.dirname(script.path), path)
    is_long = len(path) >= PATH_MAX  # so it names nothing; a pattern may all the same
    if _OPEN.search(path) or not path.startswith("/") or path == "/" or (is_long and set("*?[") & set(path)):
        yield ""
    elif not is_long:
        whole = posixpath.normpath(path)
        yield from (whole,) if may_be_script(whole) else ()


def environment_files(content: str) -> tuple[tuple[int, str], ...]:
    """(line, path or pattern) of the files that a unit takes variables from; a specifier is anything."""
    line = LineNumbers(content).at
    return tuple((line(one.start(1)), re.sub(r"%.", "*", one[1])) for one in ENVIRONMENT_FILE.finditer(content))


def environment_of(content: str) -> str:
    """What a unit says in Environment=, as such a file would."""
    rows = (row for row in content.splitlines() if _OWN.match(row))
    return "\n".join(word for row in rows for word in words_of(row.partition("=")[2]))


def environment_programs(content: str) -> tuple[str, ...]:
    """The paths that variables name and that may be scripts."""
    return tuple(dict.fromkeys(path for _, path in assigned_paths(content)))


def assigned_paths(content: str) -> tuple[tuple[str, str], ...]:
    """(variable, path) of those."""
    return tuple((name, path) for name, path in _VALUE.findall(content) if may_be_script(path))
