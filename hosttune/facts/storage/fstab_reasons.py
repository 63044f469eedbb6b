"""Why the two readers take a line differently, in words. Pure."""

from __future__ import annotations

from hosttune.facts.storage.fstab_options import decode
from hosttune.facts.storage.fstab_readers import (
    GETMNTENT_LIMIT,
    STALE,
    Fields,
    find_words,
    split_options,
)
from hosttune.facts.storage.fstab_typing import ESCAPED, blank_in_name
from hosttune.regex import regex

NEW_LINE = "begin a new line there"
_NUMBER = regex(rb"[+-]?[0-9]+")
_ESCAPE = regex(rb"\\(?:[0-7]{3}|\\)")
_WRITTEN = frozenset({b"\\040", b"\\011", b"\\012", b"\\134"})
# What looks like a blank and is none: vertical tab, form feed, NEL, no-break and other spaces, zero
# width, BOM.
_FALSE_BLANK = regex(
    rb"[\v\f]|\xc2[\x85\xa0]|\xe2\x80[\x80-\x8f\xa8\xa9\xaf]|\xe2\x81[\x9f\xa0]|\xe3\x80\x80|"
    rb"\xef\xbb\xbf"
)


def false_blank(text: bytes) -> str:
    """The first character of a line that only looks like a blank, by name; empty where there is
    none.
    """
    match = _FALSE_BLANK.search(text)
    return f"U+{ord(match[0].decode()):04X}" if match else ""


def explain_disagreement(
    text: bytes, libmount: Fields | None, getmntent: Fields | None, *, has_cr: bool
) -> tuple[str, str]:
    """Why a broken line is one, as a sentence, and what a person should do about it."""
    if libmount is None:
        why, hint = _explain_dropped(text)
        return f"mount(8) drops this line: {why}", hint
    if getmntent is None:
        return (
            "systemd before 259 hides this line: it is of type autofs with `ignore`",
            "leave it to autofs",
        )
    both = "mount(8) and systemd before 259 read this line differently: "
    # A line that is cut differs in its numbers and its escapes as well, so this cause comes before
    # those.
    if len(text) >= GETMNTENT_LIMIT:
        return f"{both}getmntent(3) loses what is beyond {GETMNTENT_LIMIT - 1} bytes", "shorten it"
    if has_cr and getmntent.options.endswith(b"\r"):
        hint = "write `0 0` after the options, or give the file plain line ends (sed -i 's/\\r$//')"
        return f"{both}the carriage return at its end becomes part of the options", hint
    if getmntent.freq == STALE:
        hint = "write `0 0` after the options, and a line feed at the end"
        return f"{both}getmntent(3) takes the two numbers at its end from stale memory", hint
    escapes = [found for found in _ESCAPE.findall(text) if found not in _WRITTEN]
    if escapes:
        hint = (
            "of the escapes write \\040, \\011, \\012 and \\134 alone, and every other character "
            "as it is"
        )
        return f"{both}the escape {escapes[0].decode()}", hint
    return f"{both}the numbers at its end", "end it with two plain numbers: 0 0"


def _explain_dropped(text: bytes) -> tuple[str, str]:
    """Why libmount finds no entry, and the way out."""
    text = text.removesuffix(b"\r")
    found = [text[start:end] for start, end in find_words(text)]
    blank = false_blank(text)
    if len(found) < 3:
        many = ("no field", "one field", "two fields")[len(found)]
        if blank:
            return f"{many}, because {blank} is no blank", "type the blanks of this line anew"
        return (
            f"it has {many}, and an entry has at least three",
            "complete it, or put a # in front of it",
        )
    texts = [decode(field) for field in found]
    # A blank in a name pushes all other fields to the right. The stray words behind it are only
    # what comes of that.
    if cut := blank_in_name(texts):
        return f"the blank in `{cut.replace(ESCAPED, ' ')}` cuts it in two", f"write it as {cut}"
    if texts[0][1:].endswith("#"):
        return f"a # after `{texts[0][:-1]}` begins no comment", "put the # in front of the line"
    if len(found) > 3 and any(item.startswith(b"=") for item in split_options(found[3])[0]):
        return "an option without a name", "remove the `=`, or write the name in front of it"
    return _explain_stray(text, found, blank)


def _explain_stray(text: bytes, found: list[bytes], blank: str) -> tuple[str, str]:
    """What is where one of the two numbers belongs."""
    place = next(
        (place for place, field in enumerate(found[4:6], 5) if not _NUMBER.fullmatch(field)), 5
    )
    field = found[place - 1] if len(found) >= place else b""
    if field.startswith(b"#"):
        return (
            f"a comment after field {place - 1}",
            "put the comment on a line of its own, or write `0 0` before it",
        )
    if found[3].endswith(b",") or field.startswith(b","):
        return "a blank among the options", "write the options without blanks"
    if digits := _NUMBER.match(field):
        rest = text[text.rindex(field) + digits.end() :]
        if len(find_words(rest)) > 2:
            return (
                (
                    f"text is glued to the number in field {place}, a line of its own that nothing "
                    "reads"
                ),
                NEW_LINE,
            )
        return f"text is glued to the number in field {place}", "put a blank there"
    if blank:
        return f"{blank} is no blank", "type the blanks of this line anew"
    if place == 5:
        hint = "join options by commas, without blanks; put a comment on a line of its own"
        return "text is where the first number belongs", hint
    return "text is where the second number belongs", "end it with two plain numbers: 0 0"
