r"""Names as words of a command that is to be typed. Pure.

shlex.quote leaves a line break in its quotes as it is, and what is shown as steps begins a new one
there: a mount point in someone's fstab (`/mnt/a\012sudo\040...`) then writes a step of its own.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = regex(r"[A-Za-z0-9/_.,:=@%+-]")


def quote(word: str) -> str:
    r"""A word as a shell takes it, on one line. One with characters that cannot be shown is as
    bash(1), zsh(1) and newer sh have it, `$'a\x0ab'`, with nothing in it that a shell acts on.
    """
    if word.replace("\t", "").isprintable():
        return shlex.quote(word)
    octets = word.encode("utf-8", "surrogateescape")
    return (
        "$'"
        + "".join(chr(one) if _PLAIN.match(chr(one)) else f"\\x{one:02x}" for one in octets)
        + "'"
    )


def join(words: Iterable[str]) -> str:
    """The words of a command, each quoted."""
    return " ".join(map(quote, words))
