"""How the two programs that decide a boot read one line of an fstab. Pure, on bytes.

mount(8) and swapon(8) use libmount, as systemd does from 259 on; systemd up to 255 uses glibc's
getmntent(3). The two disagree on real files, so a line is edited only where both read the same
(util-linux libmount/src/tab_parse.c and lib/mangle.c; glibc misc/mntent_r.c;
systemd/systemd#38929).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hosttune.regex import regex

BLANKS = b" \t"  # the only separators: NBSP, form feed and vertical tab are data
STALE = -1 << 31  # in place of a number that getmntent(3) leaves as it found it
_C_SPACE = b" \t\n\v\f\r"
GETMNTENT_LIMIT = 4096  # glibc's line buffer; the rest of a longer line is lost
_WORD = regex(rb"[^ \t]+")
_OPTIONS = regex(rb"[ \t]*[^ \t]+[ \t]+[^ \t]+[ \t]+[^ \t]+[ \t]+([^ \t]+)")
_LIBMOUNT_ESCAPE = regex(rb"\\([0-7]{3})")
_GETMNTENT_ESCAPE = regex(rb"\\(040|011|012|134|\\)")
_STRTOL = regex(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_SCANF = regex(rb"\s*([+-]?[0-9]+)")
_FIELD = rb"[^ \t\\\r\n\0]"
# Each line, as the groups of `scan`: four to six fields in which nothing can be read in two ways,
# or all the rest.
_SCAN = regex(
    rb"(?m)^(?:([ \t]*((?!#)" + _FIELD + rb"+)[ \t]+(" + _FIELD + rb"+)[ \t]+(" + _FIELD + rb"+)"
    rb"[ \t]+((?!=)" + _FIELD + rb"+)"
    rb"(?:[ \t]+([0-9]{1,9})(?:[ \t]+([0-9]{1,9})(?:[ \t][^\r\n\0]*)?|[ \t]*)|[ "
    rb"\t]*))(\r?)\n|([^\n]*)\n)"
)


class Fields(NamedTuple):
    """The six fields of an entry, escapes decoded; options are empty where the line has none.

    No dataclass: it is made for each line of a file, and a frozen dataclass takes five times as
    long to make.
    """

    source: bytes
    target: bytes
    fstype: bytes
    options: bytes = b""
    freq: int = 0
    passno: int = 0


def scan(lines: bytes) -> list[tuple[bytes, ...]]:
    """Of each line, LF included: text, source, target, type, options, freq, passno, CR; or all
    empty, and the text.

    The first eight stand only where both readers see these six fields, whatever follows the sixth.
    A line with CR and without numbers is left to them, and so are `autofs`, options with `,=`, and
    lines longer than getmntent's buffer.
    """
    return _SCAN.findall(lines)


def find_words(text: bytes) -> tuple[tuple[int, int], ...]:
    """The spans of the blank-separated words of a line."""
    return tuple(match.span() for match in _WORD.finditer(text))


def options_span(text: bytes) -> tuple[int, int] | None:
    """Where the fourth field is, None where there is none."""
    match = _OPTIONS.match(text)
    return match.span(1) if match else None


def is_comment(text: bytes) -> bool:
    """Whether both readers skip this line as a comment or as blank."""
    start = text.lstrip(BLANKS)
    return not start or start.startswith(b"#")


def decode_libmount(field: bytes) -> bytes:
    """Three octal digits after a backslash are a byte; a doubled backslash stays two."""
    if b"\\" not in field:
        return field
    return _LIBMOUNT_ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)


def decode_getmntent(field: bytes) -> bytes:
    """Only 040, 011, 012 and 134 after a backslash are a byte; a doubled backslash is one."""
    if b"\\" not in field:
        return field
    return _GETMNTENT_ESCAPE.sub(
        lambda match: b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)]), field
    )


def split_options(options: bytes, *, is_written: bool = False) -> tuple[tuple[bytes, ...], bool]:
    r"""The items of an option list, empty ones included, and whether its quotes are balanced.

    A comma inside double quotes or after a backslash does not separate (util-linux,
    `ul_optstr_next`); a quote after a backslash is no quote. With `is_written` it is the text of a
    line, where `\134` is a backslash too: escapes are decoded before options are split.
    `b",".join(items)` is the list again, byte for byte.
    """
    if b'"' not in options and b"\\" not in options:
        return tuple(options.split(b",")), True
    items: list[bytes] = []
    start = 0
    quoted = False
    for place in range(len(options)):
        character = options[place : place + 1]
        if options.endswith((b"\\", b"\\134") if is_written else b"\\", 0, place):
            continue
        if character == b'"':
            quoted = not quoted
        elif character == b"," and not quoted:
            items.append(options[start:place])
            start = place + 1
    items.append(options[start:])
    return tuple(items), not quoted


def read_libmount(text: bytes) -> Fields | None:
    """The entry that libmount makes of a line (without its ending); None where it drops the
    line.
    """
    text = text.removesuffix(b"\r")
    spans = find_words(text)
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
        numbers.append(_as_c(match[1]))
        rest = rest[match.end() :].lstrip(BLANKS)
    return Fields(*found, *numbers)  # type: ignore[arg-type]


def read_getmntent(text: bytes, *, is_ended: bool = True) -> Fields | None:
    """The entry that getmntent(3) makes of a line (without LF, with CR); None where it hides the
    line.

    It takes any line for an entry: missing fields are empty, numbers that are none are 0. Where
    only white space is after the options (before a CR, or at the end of a file without LF),
    sscanf(3) returns EOF, which it does not expect: both numbers are then STALE.
    """
    # fgets(3) leaves one byte of the buffer for the NUL at its end.
    rest = text[: GETMNTENT_LIMIT - 1].lstrip(BLANKS)
    if is_ended and len(text) < GETMNTENT_LIMIT - 1:  # it takes blanks away before the LF alone
        rest = rest.rstrip(BLANKS)
    found: list[bytes] = []
    while len(found) < 4:
        match = re.match(rb"([^ \t]*)([ \t]?)[ \t]*", rest)
        assert match is not None  # noqa: S101 - it matches the empty text too
        found.append(decode_getmntent(match[1]))
        if len(found) == 4 and match[2] and not rest[match.end() :].strip(_C_SPACE):
            is_hidden = found[2] == b"autofs" and b"ignore" in found[3].split(b",")
            return (
                None if is_hidden else Fields(found[0], found[1], found[2], found[3], STALE, STALE)
            )
        rest = rest[match.end() :]
    if found[2] == b"autofs" and b"ignore" in found[3].split(b","):
        return None
    numbers: list[int] = []
    # sscanf(3) stops at the first text that is not a number, and what follows is not looked at.
    # libmount drops such a line.
    while len(numbers) < 2 and (number := _SCANF.match(rest)):
        numbers.append(_as_c(number[1]))
        rest = rest[number.end() :]
    return Fields(found[0], found[1], found[2], found[3], *numbers)


def _as_c(digits: bytes) -> int:
    """A number as strtol(3) stores it in an int: cut off at 64 bits, then folded into 32."""
    sign, digits = digits[:1], digits.lstrip(b"+-").lstrip(b"0")
    size = int(digits or b"0") if len(digits) < 20 else 1 << 63
    number = max(-size, -1 << 63) if sign == b"-" else min(size, (1 << 63) - 1)
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
