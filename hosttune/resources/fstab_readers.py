"""How the two programs that decide a boot read one line of an fstab. Pure, on bytes.

mount(8) and swapon(8) use libmount, as systemd does from 259 on; systemd up to 255 uses glibc's getmntent(3). The two
disagree on real files, so a line is edited only where both read the same (util-linux libmount/src/tab_parse.c and
lib/mangle.c; glibc misc/mntent_r.c; systemd/systemd#38929).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BLANKS = b" \t"  # the only separators: NBSP, form feed and vertical tab are data
GETMNTENT_LIMIT = 4096  # glibc's line buffer; the rest of a longer line is lost
_WORD = re.compile(rb"[^ \t]+")
_LIBMOUNT_ESCAPE = re.compile(rb"\\([0-7]{3})")
_GETMNTENT_ESCAPE = re.compile(rb"\\(040|011|012|134|\\)")
_STRTOL = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_SCANF = re.compile(rb"\s*([+-]?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Fields:
    """The six fields of an entry, escapes decoded; options are empty where the line has none."""

    source: bytes
    target: bytes
    fstype: bytes
    options: bytes = b""
    freq: int = 0
    passno: int = 0


def words(text: bytes) -> tuple[tuple[int, int], ...]:
    """The spans of the blank-separated words of a line."""
    return tuple(match.span() for match in _WORD.finditer(text))


def is_comment(text: bytes) -> bool:
    """Whether both readers skip this line as a comment or as blank."""
    start = text.lstrip(BLANKS)
    return not start or start.startswith(b"#")


def decode_libmount(field: bytes) -> bytes:
    """Three octal digits after a backslash are a byte; a doubled backslash stays two."""
    return _LIBMOUNT_ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)


def decode_getmntent(field: bytes) -> bytes:
    """Only 040, 011, 012 and 134 after a backslash are a byte; a doubled backslash is one."""
    return _GETMNTENT_ESCAPE.sub(lambda match: b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)]), field)


def split_options(options: bytes) -> tuple[tuple[bytes, ...], bool]:
    """The items of an option list, empty ones included, and whether its quotes are balanced.

    A comma inside double quotes or after a backslash does not separate (util-linux, `ul_optstr_next`); a quote after a
    backslash is no quote. `b",".join(items)` is the list again, byte for byte.
    """
    items: list[bytes] = []
    start = 0
    quoted = False
    for place in range(len(options)):
        character = options[place : place + 1]
        if place and options[place - 1 : place] == b"\\":
            continue
        if character == b'"':
            quoted = not quoted
        elif character == b"," and not quoted:
            items.append(options[start:place])
            start = place + 1
    items.append(options[start:])
    return tuple(items), not quoted


def read_libmount(text: bytes) -> Fields | None:
    """The entry that libmount makes of a line (without its ending); None where it drops the line."""
    text = text.removesuffix(b"\r")
    spans = words(text)
    if len(spans) < 3:
        return None
    found = [decode_libmount(text[start:end]) for start, end in spans[:4]]
    if len(found) == 4 and any(item.startswith(b"=") for item in split_options(found[3])[0]):
        return None
    numbers: list[int] = []
    rest = text[spans[3][1] :].lstrip(BLANKS) if len(spans) > 3 else b""
    while rest and len(numbers) < 2:
        match = _STRTOL.match(rest)
        if not match or rest[match.end() : match.end() + 1] not in (b"", b" ", b"\t"):
            return None
        numbers.append(int(match[1]))
        rest = rest[match.end() :].lstrip(BLANKS)
    return Fields(*found, *([b""] if len(found) == 3 else []), *numbers)  # type: ignore[arg-type]


def read_getmntent(text: bytes) -> Fields | None:
    """The entry that getmntent(3) makes of a line (without LF, with CR); None where it hides the line.

    It takes any line for an entry: missing fields are empty, numbers that are none are 0.
    """
    rest = text[: GETMNTENT_LIMIT - 1].rstrip(BLANKS).lstrip(BLANKS)
    found: list[bytes] = []
    while len(found) < 4:
        match = re.match(rb"([^ \t]*)[ \t]*", rest)
        found.append(decode_getmntent(match[1] if match else b""))
        rest = rest[match.end() :] if match else b""
    if found[2] == b"autofs" and b"ignore" in found[3].split(b","):
        return None
    numbers: list[int] = []
    while len(numbers) < 2 and (number := _SCANF.match(rest)):
        numbers.append(int(number[1]))
        rest = rest[number.end() :]
    return Fields(found[0], found[1], found[2], found[3], *numbers)
