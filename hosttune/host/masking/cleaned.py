"""Text as it may leave hosttune: on one line, nothing in it steers a terminal, and passwords are
masked.

Any local user chooses the name of a process (prctl(2), PR_SET_NAME), and with it what a sentence
about it holds. So a sentence is cleaned where it is made, and what writes to logins, logs and hooks
takes nothing but `Cleaned`. The journal keeps the true bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.host.masking.secrets import mask_sentence
from hosttune.regex import regex

if TYPE_CHECKING:
    from typing_extensions import Self


# What str.isprintable() takes for letters and marks, and what no font shows: fillers and variation
# selectors (Unicode, DerivedCoreProperties.txt: Default_Ignorable_Code_Point), and the Braille
# blank.
_INVISIBLE = regex(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class _Seal:
    """Who has it may make cleaned text: this module."""


_SEAL: Final = _Seal()


class Cleaned(str):
    """Text without secrets and without control, bidirectional or invisible characters. Only `clean`
    makes one.
    """

    __slots__ = ()

    def __new__(cls, text: str, seal: _Seal) -> Self:
        if seal is not _SEAL:
            raise TypeError("only clean() makes cleaned text")
        return super().__new__(cls, text)

    @staticmethod
    def of_text(text: str) -> Cleaned:
        """As `clean`, for what reads documents by their types."""
        return clean(text)


def clean(text: str) -> Cleaned:
    """Text from outside, escaped and masked. What is clean already stays as it is."""
    return text if isinstance(text, Cleaned) else Cleaned(make_safe(mask_sentence(text)), _SEAL)


def make_safe(text: str) -> str:
    """Text from outside, on one line: control, bidirectional, invisible and unassigned characters
    as escapes.
    """
    if text.isprintable() and not _INVISIBLE.search(text):
        return text
    return "".join(
        char if char.isprintable() and not _INVISIBLE.match(char) else _escape_character(char)
        for char in text
    )


def _escape_character(char: str) -> str:
    code = ord(char)
    if char in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[char]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as Python's surrogateescape carries it
        return f"\\x{code - 0xDC00:02x}"
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
