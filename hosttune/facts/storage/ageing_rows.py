"""Command lines of crontabs, units and scripts, and the commands of one line. Pure; one pass over each line.

Sources: crontab(5), anacrontab(5), systemd.service(5), systemd.syntax(7), sh(1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.host.masking.command_secrets import mask_documents
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 16 << 10  # of a line; what is longer is not looked through
IN_UNIT = regex(r"\s*(?:Exec\w+|Environment)\s*=")
_USER = regex(r"^\s*(?:@\w+|(?:[\d*,/a-zA-Z-]+\s+){4}[\d*,/a-zA-Z-]+)\s+\S+\s+")
_WHEN = regex(r"^\s*(?:@\w+|(?:[\d*,/-]\S*\s+){4}[\d*,/a-zA-Z-]+)\s+")
_ANACRON = regex(r"^\s*(?:\d+|@\w+)\s+\d+\s+\S+\s+")
_FIELDS = {"table": _USER, "crontab": _WHEN, "anacrontab": _ANACRON}
_TOKEN = regex(
    r"(?P<blank>\s+)|(?P<op>\|\||&&|[;|&()`])|(?P<word>(?:\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s;|&()`'\"\\]|['\"\\])+)",
    re.DOTALL,
)
_PIECE = regex(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_IN_DOUBLE = regex(r"\\([\"\\$`])")


@frozen
class CommandRow:
    """One command line: continued lines are one."""

    number: int  # of its first line
    text: str


@frozen
class ShellCommand:
    """The words of one command, without quotes, and the operator behind it."""

    words: tuple[str, ...]
    after: str


def rows_of(content: str, kind: str = "script") -> tuple[CommandRow, ...]:
    """The command lines of a `script`, a user's `crontab`, a `table` of the system, whose sixth field is a user, an
    `anacrontab`, or a `unit`, of which those of Exec*= and Environment=; no comments, and no password that a script has
    in a here-document: it would be taken for the name of a program, and looked for."""
    rows: list[CommandRow] = []
    kept: list[str] = []
    number = 0
    content = mask_documents(content) if kind == "script" else content
    for count, physical in enumerate(content.splitlines(), start=1):
        # In a unit a comment may stand between continued lines (systemd.syntax(7)).
        if (not kept or kind == "unit") and physical.lstrip().startswith(("#", ";")):
            continue
        number = number if kept else count
        kept.append(physical.removesuffix("\\"))
        if not physical.endswith("\\"):
            rows.append(CommandRow(number, " ".join(kept)))
            kept = []
    rows += [CommandRow(number, " ".join(kept))] * bool(kept)
    if fields := _FIELDS.get(kind):
        rows = [
            CommandRow(row.number, row.text if len(row.text) > LONGEST else fields.sub("", row.text)) for row in rows
        ]
    return tuple(row for row in rows if row.text.strip() and (kind != "unit" or IN_UNIT.match(row.text)))


def told_of(row: CommandRow) -> str:
    """What a row starts: of `ExecStart=-/usr/bin/x` the command."""
    return row.text.partition("=")[2].lstrip(" -@:+!|") if IN_UNIT.match(row.text) else row.text


def commands_of(text: str) -> Iterator[ShellCommand]:
    """The commands of a line."""
    words: list[str] = []
    for token in _TOKEN.finditer(text):
        if token["word"]:
            words.append(plain_word(token["word"]))
        elif operator := token["op"]:
            if words:
                yield ShellCommand(tuple(words), operator)
            words = []
    if words:
        yield ShellCommand(tuple(words), "")


def plain_word(word: str) -> str:
    """A word without its quotes; a quote that does not end on this line goes, too."""
    return _PIECE.sub(_remove_quotes, word).strip("\"'")


def _remove_quotes(match: re.Match[str]) -> str:
    single, double, escaped = match.groups()
    if double is not None:
        return _IN_DOUBLE.sub(r"\1", double)
    return single if single is not None else escaped
