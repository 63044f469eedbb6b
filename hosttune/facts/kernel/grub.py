"""Which kernel GRUB starts next, from the files that it reads; pure.

Source: GRUB's manual ("Simple configuration handling", "Writing full configuration files directly",
"The GRUB environment block"), and the grub.cfg that grub-mkconfig of Debian and Ubuntu writes.
"""

from __future__ import annotations

import re

from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

_SETTING = regex(
    r"^[ \t]*(?:export[ \t]+)?(GRUB_\w+)=(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s;#]*))", re.MULTILINE
)
_OPENS = regex(r"(menuentry|submenu)\s+((?:\S.*)?)\{$")
_WORD = regex(r"'((?:[^']|'\\'')*)'|\"((?:[^\"\\]|\\.)*)\"|(\S+)")
_KERNEL = regex(r"linux(?:efi|16)?\s+\S*/vmlinu[xz]-(\S+)")
_ID_OPTIONS = ("$menuentry_id_option", "--id")


@frozen
class MenuEntry:
    """One entry of GRUB's menu, or a submenu with its own entries."""

    title: str
    id: str
    kernel: str  # the release that it starts; empty where the text does not tell
    is_conditional: bool  # it is in an `if`, so whether it is in the menu is decided at boot
    is_submenu: bool
    entries: tuple[MenuEntry, ...] = ()
    options: str = ""  # the line that opens it, behind the word, as written
    body: tuple[str, ...] = ()  # the lines between its braces, stripped; of a submenu none

    def is_called(self, word: str) -> bool:
        return word in {self.title, self.id} - {""}


def settings_of(text: str) -> dict[str, str]:
    """The GRUB_* settings of /etc/default/grub (a shell script of assignments); the last of a name
    counts.
    """
    return {
        match[1]: next((part for part in match.groups()[1:] if part), "")
        for match in _SETTING.finditer(text)
    }


def environment_of(grubenv: str) -> dict[str, str]:
    """The variables of an environment block: NAME=VALUE lines, filled up with `#`."""
    pairs = (line.partition("=") for line in grubenv.splitlines() if not line.startswith("#"))
    return {name: value for name, equals, value in pairs if equals}


def parse_menu(grub_cfg: str) -> tuple[MenuEntry, ...]:
    """The menu in a grub.cfg, top level first; what no menuentry or submenu opens is left out."""
    top = _Block("", "", "", is_conditional=False, is_submenu=True)
    stack = [top]
    plain = [0]  # of each block, how many functions and other braces are open in it
    conditions = 0
    for line in map(str.strip, grub_cfg.splitlines()):
        holder = stack[-1]
        match = _OPENS.fullmatch(line)
        if match:
            title, name = _parse_title(match[2])
            is_submenu = match[1] == "submenu"
            stack.append(
                _Block(title, name, match[2], is_conditional=conditions > 0, is_submenu=is_submenu)
            )
            plain.append(0)
            continue
        if line and not holder.is_submenu and not (line == "}" and not plain[-1]):
            holder.body.append(line)
        if line.endswith("{"):
            plain[-1] += 1
        elif line == "}" and plain[-1]:
            plain[-1] -= 1
        elif line == "}" and len(stack) > 1:
            block = stack.pop()
            plain.pop()
            stack[-1].entries.append(block.entry())
        elif kernel := _KERNEL.match(line):
            holder.kernel = holder.kernel or kernel[1]
        elif holder.is_submenu:  # an `if` inside of an entry says nothing of the menu
            conditions = max(0, conditions + _count_opened(line))
    return tuple(top.entries)


def _count_opened(line: str) -> int:
    """How many `if` this line opens, less those it closes."""
    words = line.replace(";", " ; ").split()
    return words.count("if") - words.count("fi")


class _Block:
    """A menu entry that is still being read."""

    def __init__(
        self, title: str, name: str, options: str, *, is_conditional: bool, is_submenu: bool
    ) -> None:
        self.title, self.name, self.options = title, name, options
        self.is_conditional, self.is_submenu = is_conditional, is_submenu
        self.kernel = ""
        self.entries: list[MenuEntry] = []
        self.body: list[str] = []

    def entry(self) -> MenuEntry:
        entries, body = tuple(self.entries), tuple(self.body)
        return MenuEntry(
            self.title,
            self.name,
            self.kernel,
            self.is_conditional,
            self.is_submenu,
            entries,
            self.options,
            body,
        )


def _parse_title(spelled: str) -> tuple[str, str]:
    """(title, id) of a menuentry line, its quotes taken off."""
    words = [
        match[1].replace("'\\''", "'")
        if match[1] is not None
        else match[2]
        if match[2] is not None
        else match[3]
        for match in _WORD.finditer(spelled)
    ]
    title = words[0] if words else ""
    for number, option in enumerate(words[:-1]):
        if option in _ID_OPTIONS:
            return title, words[number + 1]
    return title, next((word[5:] for word in words if word.startswith("--id=")), "")


def kernel_at(menu: tuple[MenuEntry, ...], default: str) -> str:
    """The release that GRUB starts for a `default`. Raises ValueError, with a sentence, where that
    is not clear.
    """
    return entry_at(menu, default).kernel


def has_entry(menu: tuple[MenuEntry, ...], default: str) -> bool:
    """Whether each level of a default is there by its title or id, or is a number."""
    level = menu
    for word in map(str.strip, default.split(">")):
        named = [entry for entry in level if entry.is_called(word)]
        if not named:
            return word.isdigit()
        level = tuple(entry for one in named for entry in one.entries)
    return True


def entry_at(menu: tuple[MenuEntry, ...], default: str) -> MenuEntry:
    """The entry that GRUB takes for a `default`: a title, an id, or a number, with `>` between the
    levels. Raises ValueError, with a sentence, where that is not clear, or which kernel it starts.
    """
    level: tuple[MenuEntry, ...] = menu
    found: MenuEntry | None = None
    for word in default.split(">"):
        try:
            found = _choose(level, word.strip())
        except ValueError as error:
            message = f"GRUB's default is {default!r}, and {error}"
            raise ValueError(message) from None
        level = found.entries
    # GRUB opens it, and its first entry is the default there
    while found is not None and found.is_submenu:
        if not found.entries or found.entries[0].is_conditional:
            message = f"GRUB's default {default!r} is a submenu whose first entry is not clear"
            raise ValueError(message)
        found = found.entries[0]
    if found is None or not found.kernel:
        message = (
            f"GRUB's default is {default!r}, and grub.cfg does not tell which kernel that starts"
        )
        raise ValueError(message)
    return found


def _choose(level: tuple[MenuEntry, ...], word: str) -> MenuEntry:
    named = [entry for entry in level if entry.is_called(word)]
    # GRUB takes the first entry of a name. Several of one kernel are no doubt, as after a
    # regeneration that left a copy.
    if len({entry.kernel for entry in named}) == 1:
        return named[0]
    number = parse_digits(word, -1)
    before = level[: number + 1]
    if named:
        message = f"{len(named)} entries of grub.cfg are called so"
    elif number < 0:
        message = "no entry of grub.cfg is called so"
    elif len(before) <= number:
        message = f"grub.cfg has {len(level)} entries there"
    # GRUB numbers only the entries that it shows, so one conditional entry moves the numbers of all
    # that follow.
    elif any(entry.is_conditional for entry in before):
        message = "which entry has this number is decided at boot"
    else:
        return before[-1]
    raise ValueError(message)
