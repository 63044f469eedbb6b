"""Words in the option list of an fstab line: replace one, keep every other byte. Pure.

Options are text as it is in the line (UTF-8, other bytes as surrogate escapes), never decoded.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NewType

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_readers import split_options
from hosttune.host.masking.secrets import URL_PARAMETER, without_escapes
from hosttune.host.reading.mountinfo import on_one_line
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Text of a line without its secrets. Only the functions below make it, so mypy finds what shows a
# line as it is.
Shown = NewType("Shown", str)
ATIME_WORDS = ("atime", "relatime", "norelatime", "strictatime", "nostrictatime", "noatime")
_AUTOMOUNTS = frozenset({"x-systemd.automount", "comment=systemd.automount"})  # systemd.mount(5)
# In front of the name of an option is whatever people take for a separator. What ends so names a
# secret; `keyfile=` and `credentials=` name a file. A doubled comma is one of the value.
_NAMES = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|key(?:[_-]?id)?|token|psk|credential|bearer"
    r"|auth)\d?"
)
_SECRETS = regex(rf"(^|[^\w.-])([\w.-]*{_NAMES}=)((?:\"[^\"]*\"|\\,|,,|[^,])*)", re.IGNORECASE)
_SECRET_NAME = regex(rf"(?:^|[^\w.-])[\w.-]*{_NAMES}\Z", re.IGNORECASE)
_USER_SECRET = regex(
    r"(^|[^\w-])((?:user|username)=[^,%:]{0,512}(?:%|:(?!\d+(?:,|$))))((?:\\,|,,|[^,])*)",
    re.IGNORECASE,
)
# `https://me:...@host`, `curlftpfs#me:...@host`, `me:...@host`; not the path of
# `nas:/volume@snapshot`.
_URL_SECRET = regex(r"((?:^|[#/])[^/\s:@#,]{1,512}:)([^@\s/][^@\s]{0,511})(@)")
_MAYBE_SECRET = regex(r"pass|pwd|secret|key|token|psk|credential|bearer|auth|user|sig|[@\\\\]")
_MOST_SECRETS = 16  # of one line; more is no line of a person, and would take time for each remark
_OCTAL = regex(r"\\([0-3][0-7]{2})")  # how fstab(5) writes a blank
_SIZE = regex(r"([0-9]{1,24})([kmgtpe%]?)", re.IGNORECASE)


def split_items(options: str) -> tuple[str, ...]:
    """The items of an option list, quotes and protected commas respected. Raises Refused for an
    open quote.
    """
    if '"' not in options and "\\" not in options:
        return tuple(options.split(","))
    found, balanced = split_options(encode(options), is_written=True)
    if not balanced:
        raise Refused(
            "the options have an open quote, which swallows all that follows",
            hint="close it by hand, then run again",
        )
    return tuple(decode(item) for item in found)


def is_automount(options: Iterable[str]) -> bool:
    """Whether a boot makes an automount for it, which mounts it at the first look."""
    return not _AUTOMOUNTS.isdisjoint(options)


def is_on_demand(options: Iterable[str]) -> bool:
    """Whether no boot mounts it by itself; of `auto` and `noauto` the last counts."""
    words = tuple(options)
    return [word for word in words if word in {"auto", "noauto"}][-1:] == [
        "noauto"
    ] or is_automount(words)


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """A field, or a line, as text. A line break in it, which no one means, stays the escape that it
    is in the file: a way out has a step on each line, and no field is to write one of its own.
    """
    text = data.decode("utf-8", "surrogateescape")
    return on_one_line(text) if b"\n" in data else text


def replace_words(options: str, is_one: Callable[[str], bool], new: str) -> str:
    """Put `new` in place of the first item that `is_one`, drop the others, or append it where there
    is none.

    Raises Refused where the result would read differently than meant.
    """
    old = split_items(options)
    places = [index for index, item in enumerate(old) if is_one(item)]
    first = places[0] if places else -1
    kept = [
        new if index == first else item
        for index, item in enumerate(old)
        if index == first or index not in places
    ]
    if not places:
        # After a comma at the end the new word takes the empty place, so that no empty item is left
        # inside the list.
        kept = [*kept[:-1], new] if not kept[-1] else [*kept, new]
    text = ",".join(kept)
    # A backslash at the end of an item protects the comma behind it: the new word would become a
    # part of that item.
    if split_items(text) != tuple(kept):
        raise Refused(
            f"after {kept[-2]!r} a comma does not separate options",
            hint="put the option in by hand",
        )
    return text


def set_atime(options: str, word: str) -> str:
    """The options with `word` as their only atime word.

    Contradicting words mean different things to different builds: `noatime,relatime` is noatime
    through mount(2) and relatime through the fd-based API (the last word wins). `nodiratime`,
    `lazytime`, `defaults` and all else stay. Raises Refused for a word that is one but for its
    case: with it the file system cannot be mounted at all.
    """
    if atime_words(options) == (word,):
        return options
    wrong = next(
        (
            item
            for item in split_items(options)
            if item not in ATIME_WORDS and item.lower() in ATIME_WORDS
        ),
        "",
    )
    if wrong:
        raise Refused(
            f"mount options are case-sensitive: `{wrong}` fails the mount",
            hint=f"write `{wrong.lower()}`",
        )
    return replace_words(options, lambda item: item in ATIME_WORDS, word)


def atime_words(options: str) -> tuple[str, ...]:
    """The atime words of an option list, in order, duplicates included."""
    return tuple(item for item in split_items(options) if item in ATIME_WORDS)


def set_size(options: str, size: str) -> str:
    """The options of a tmpfs line with `size=` as given; of several the last wins, so one is
    left.
    """
    return replace_words(options, lambda item: item.startswith("size="), f"size={size}")


def size_bytes(options: str, ram_bytes: int) -> int | None:
    """The size that a tmpfs with these options gets, in bytes; 0 is no limit; None where the kernel
    rejects the value.

    Without `size=` it is half of RAM; `%` counts RAM; suffixes are those of memparse (mm/shmem.c):
    k m g t p e.
    """
    found = [item[5:] for item in split_items(options) if item.startswith("size=")]
    return tmpfs_bytes(found[-1], ram_bytes) if found else ram_bytes // 2


def tmpfs_bytes(value: str, ram_bytes: int = 0) -> int | None:
    """A size as options of tmpfs have it; None where the kernel rejects it."""
    match = _SIZE.fullmatch(value)
    if match is None:
        return None
    number, suffix = int(match[1]), match[2].lower()
    if suffix == "%":
        return ram_bytes * number // 100
    return int(number << 10 * " kmgtpe".index(suffix or " "))


def _may_hide(text: str) -> bool:
    """Whether it is worth a closer look. Each line and each sentence is searched, which IGNORECASE
    makes slow.
    """
    return _MAYBE_SECRET.search(text.casefold()) is not None


def mask_options(text: str) -> Shown:
    """A line or an option list for people: passwords are stars, the names of credential files
    stay.
    """
    if not _may_hide(text):
        return Shown(text)
    shown = _hide_values(text)
    if (plain := without_escapes(text)) == text:
        return Shown(shown)
    other = _hide_values(plain)  # `pass\167ord=` is an option with a secret, too
    return Shown(other if other.count("***") > shown.count("***") else shown)


def _hide_values(text: str) -> str:
    for pattern in (_SECRETS, _USER_SECRET):
        text = pattern.sub(_hide_value, text)
    return URL_PARAMETER.sub(r"\g<name>***", _URL_SECRET.sub(r"\1***\3", text))


def _hide_value(match: re.Match[str]) -> str:
    """A value that is hidden already stays, with the quote of the sentence behind it."""
    return match[0] if match[3] in ("***", "***`") else f"{match[1]}{match[2]}***"


def masked_line(text: str) -> Shown:
    """A whole line for people: each blank-separated field masked, blanks kept."""
    if not _may_hide(text):
        return Shown(text)
    return Shown(
        "".join(
            part if part.isspace() else mask_options(part) for part in re.split(r"([ \t]+)", text)
        )
    )


def masked_text(text: str) -> Shown:
    """A line of the file as it is written: also what a blank cuts off from a password, as in
    `password= X` and `password=my word`, up to the numbers or the comment behind it.
    """
    if not _may_hide(text):
        return Shown(text)
    parts = re.split(r"([ \t]+)", text)
    is_open = False
    for place, part in enumerate(parts):
        if not part or part.isspace():
            continue
        if is_open and not part.isdigit() and part[0] != "#":
            parts[place] = part if part == "=" else "***"
            continue
        shown = parts[place] = mask_options(part)
        following = parts[place + 2] if place + 2 < len(parts) else ""
        is_open = (shown != part and shown.endswith("***")) or bool(
            following.startswith("=") and _SECRET_NAME.search(part)
        )
    return Shown("".join(parts))


def hide_secrets(line: bytes, text: str) -> Shown:
    """A sentence about a line without the passwords of that line, in whatever form the sentence
    quotes them.
    """
    secrets = _find_secrets(line)
    if len(secrets) > _MOST_SECRETS:
        return Shown(
            "something is wrong with this line, which is not quoted: too much in it looks like a "
            "password"
        )
    whole = text
    for value in secrets:
        text = text.replace(value, "***")
    shown = masked_line(text)
    if shown != whole and any(
        shown.count(quote) != whole.count(quote) for quote in "'\"`"
    ):  # a command would end elsewhere
        return Shown(
            "something is wrong with this line, which is not quoted: a password in it has quotes "
            "around it"
        )
    return shown


def masked_field(line: bytes, field: bytes) -> Shown:
    r"""A field of a line as a program reads it, for people. What it takes for an option may be the
    end of a password, as in `password=a\054b`.
    """
    text = decode(field)
    for value in _find_secrets(line)[:_MOST_SECRETS]:
        text = text.replace(value, "***")
    return masked_line(text)


@lru_cache(maxsize=1)  # a line can have some hundred remarks
def _find_secrets(line: bytes) -> tuple[str, ...]:
    """The passwords of a line as they are written and as they are read, the longest first."""
    text = decode(line)
    values: set[str] = set()
    fields = text.split() if _may_hide(text) else []
    for field in dict.fromkeys((*fields, *map(without_escapes, fields))):
        for pattern, group in (
            (_SECRETS, 3),
            (_USER_SECRET, 3),
            (_URL_SECRET, 2),
            (URL_PARAMETER, 2),
        ):
            values.update(match[group] for match in pattern.finditer(field))
    found = {one for value in values for one in (value, value.strip('"'), _undo_escapes(value))}
    # The longest first, because one value may be a part of another. A value of two letters would be
    # starred in half of the words of a sentence.
    return tuple(sorted((one for one in found if len(one) > 2), key=len, reverse=True))


def _undo_escapes(value: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), value.replace("\\,", ","))


def has_secret(options: str) -> bool:
    return mask_options(options) != options
