"""The kernel arguments that GRUB's settings add up to, each with the file and line it comes from,
and those that the entries of grub.cfg pass.

grub-mkconfig sources /etc/default/grub and then /etc/default/grub.d/*.cfg in a shell. Only plain
assignments are worked out here; where a shell decides (a substitution, a condition), the answer is
that no one can tell.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.placed import Placed
from hosttune.facts.reading import if_absent, names_in, parse_or_unknown, read_text, read_texts
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.host.door import Reader

FILE = "/etc/default/grub"
FOLDER = "/etc/default/grub.d"
MENU = "/boot/grub/grub.cfg"
DEFAULT = "GRUB_CMDLINE_LINUX_DEFAULT"
EVERY = "GRUB_CMDLINE_LINUX"
_ASSIGNMENT = regex(rf"\s*(?:export\s+)?({DEFAULT}|{EVERY})=(.*)")
_VALUE = regex(r"""((?:"(?:[^"\\`]|\\.)*"|'[^']*'|[^\s"'\\;#&|`()<>]|\\.)*)\s*(?:[;#].*)?""")
_PIECE = regex(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|((?:[^'"\\]|\\.)+)""")
_LINUX = regex(r"\s*linux(?:efi|16)?\s+\S*/vmlinu[xz]\S*(.*)")
_SECTION = regex(r"### (BEGIN|END) /etc/grub\.d/(\S+) ###")
# words of 10_linux on Ubuntu and Debian: it leaves the default out there
_RECOVERY = frozenset({"recovery", "single"})
_VARIABLE = regex(r"\$(?:\{(\w+)\}|(\w+))")


_APART = regex(r"\s*(?:export\s+)?(GRUB_\w{1,64})(?:\s+=|=\s+[^\s#;&|])")
_TWO_WORDS = regex(r"\s*(?:export\s+)?(GRUB_\w{1,64})=[^\s\"'\\;#&|<>()`$]+\s+[^\s#;&|]")


@frozen
class Arguments(Fact):
    """What the settings add up to."""

    default: tuple[Placed, ...]  # of GRUB_CMDLINE_LINUX_DEFAULT: normal entries
    every: tuple[Placed, ...]  # of GRUB_CMDLINE_LINUX: normal entries and those for recovery
    afresh: tuple[Placed, ...]  # each assignment to the first that drops what was there before it

    @property
    def all(self) -> tuple[Placed, ...]:
        """In the order in which they stand on the command line (grub-mkconfig's 10_linux)."""
        return (*self.every, *self.default)


@frozen
class KernelEntry(Fact):
    """One line of grub.cfg that starts a kernel of this system, not for recovery."""

    number: int  # of its line in grub.cfg, from 1
    arguments: tuple[str, ...]  # of its kernel, in order


@frozen
class GrubArguments(Subject):
    """The arguments of the kernel that GRUB knows."""

    settings: Arguments = read_with(lambda self: arguments_of(self.reader))

    @fact
    def entries(self) -> tuple[KernelEntry, ...]:
        """The normal ones of the menu as it is there; empty without one."""
        return parse_entries(if_absent(read_text(self.reader, MENU), ""))


def arguments_of(reader: Reader) -> Arguments:
    """What the settings of this host add up to."""
    return parse_or_unknown(add_up_arguments, read_files(reader))


def read_files(reader: Reader) -> tuple[tuple[str, str], ...]:
    """(path, text) of the settings in the order in which grub-mkconfig reads them; raises
    UnknownFact where one cannot be read.
    """
    names = (
        name
        for name in names_in(reader, FOLDER)
        if name.endswith(".cfg") and not name.startswith(".")
    )
    return tuple(read_texts(reader, (FILE, *(f"{FOLDER}/{name}" for name in names))))


def add_up_arguments(texts: Iterable[tuple[str, str]]) -> Arguments:
    """What these settings add up to. Raises ValueError, with a sentence, where it takes a shell to
    tell.
    """
    values: dict[str, tuple[Placed, ...]] = {DEFAULT: (), EVERY: ()}
    afresh: list[Placed] = []
    for path, text in texts:
        for number, row in enumerate(text.splitlines(), 1):
            if row.lstrip().startswith("#") or not re.search(
                rf"\b(?:{EVERY}|{DEFAULT})\b\+?=", row
            ):
                continue
            place = Placed(row.strip(), path, number)
            match = _ASSIGNMENT.fullmatch(row)
            words = _worked_out(match[2], values, place) if match else None
            if match is None or words is None:
                message = f"{place.place}: a shell works it out: {place.value}"
                raise ValueError(message)
            if match[1] == DEFAULT and not _keeps_before(match[2], values[DEFAULT]):
                afresh.append(place)
            values[match[1]] = words
    return Arguments(values[DEFAULT], values[EVERY], tuple(afresh))


def find_shell_fault(text: str) -> tuple[int, str]:
    """(line, what is wrong) where sh(1) cannot read such a file, so that grub-mkconfig (`set -e`)
    fails; (0, "") if it can. A here-document is not looked at.
    """
    quote, opened = "", 0
    for number, row in enumerate(() if "<<" in text else text.splitlines(), 1):
        if not quote and (match := _APART.match(row) or _TWO_WORDS.match(row)):
            return (
                number,
                (
                    f"has a blank in the value of {match[1]} or beside its =, and sh takes what "
                    "follows for a command"
                ),
            )
        quote = _quote_after(row, quote)
        opened = (opened or number) if quote else 0
    return (opened, f"opens a quote ({quote}) that is not closed") if quote else (0, "")


def _quote_after(row: str, quote: str) -> str:
    """The quote that is open at the end of a line of sh(1), of one that begins inside `quote`."""
    is_escaped, before = False, " "
    for letter in row:
        if is_escaped:
            is_escaped = False
        elif letter == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote = "" if letter == quote else quote
        elif letter == "#" and before in " \t;":
            break
        elif letter in "'\"":
            quote = letter
        before = letter
    return quote


def _keeps_before(written: str, before: tuple[Placed, ...]) -> bool:
    return not before or any(DEFAULT in match.groups() for match in _VARIABLE.finditer(written))


def _worked_out(
    written: str, values: dict[str, tuple[Placed, ...]], place: Placed
) -> tuple[Placed, ...] | None:
    """The arguments of the right side of an assignment; None where it takes a shell to tell."""
    whole = _VALUE.fullmatch(written.rstrip())
    if whole is None:
        return None
    text = ""
    for single, double, bare in (match.groups() for match in _PIECE.finditer(whole[1])):
        if single is not None:
            # A dollar in single quotes, or behind a backslash, is a letter. It is hidden from the
            # search for variables below, and comes back at the end.
            text += single.replace("$", "\0")
        else:
            text += (double if double is not None else bare).replace("\\$", "\0")
    found: list[Placed] = []
    for word in text.split():
        match = _VARIABLE.fullmatch(word)
        if match:
            known = values.get(match[1] or match[2])
            if known is None:
                return None
            found += known
        elif "$" in word:
            return None
        else:
            found.append(replace(place, value=word.replace("\0", "$").replace('\\"', '"')))
    return tuple(found)


def parse_entries(grub_cfg: str) -> tuple[KernelEntry, ...]:
    """The normal entries that 10_linux wrote; all of the file where no section says who wrote
    it.
    """
    rows = grub_cfg.splitlines()
    has_sections = any(
        (match := _SECTION.match(row)) and match[2].startswith("10_linux") for row in rows
    )
    here = not has_sections
    found = []
    for number, row in enumerate(rows, 1):
        section = _SECTION.match(row)
        if section and has_sections:
            here = section[1] == "BEGIN" and section[2].startswith("10_linux")
        match = _LINUX.fullmatch(row) if here else None
        words = tuple(match[1].split()) if match else ()
        if match and not _RECOVERY.intersection(words):
            found.append(KernelEntry(number, words))
    return tuple(found)


def regenerate(grub_cfg: str, before: Arguments, after: Arguments) -> str:
    """grub.cfg as grub-mkconfig would write it once the settings are `after` instead of `before`:
    the arguments of the normal entries change, and nothing else.
    """
    old, new = ([one.value for one in settings.all] for settings in (before, after))
    if old == new:
        return grub_cfg
    rows = grub_cfg.split("\n")
    for entry in parse_entries(grub_cfg):
        row = rows[entry.number - 1]
        kept = [word for word in entry.arguments if word not in old and not word.startswith("$")]
        last = [word for word in entry.arguments if word.startswith("$")]  # Ubuntu's $vt_handoff
        match = _LINUX.fullmatch(row)
        start = row[: match.start(1)] if match else row
        rows[entry.number - 1] = " ".join([start, *kept, *new, *last])
    return "\n".join(rows)
