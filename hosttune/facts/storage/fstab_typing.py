"""How people mistype a line: what a word processor puts in place of a sign, and blanks in names.
Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from hosttune.facts.storage.fstab_types import is_known
from hosttune.facts.storage.fstab_words import GENERIC

ESCAPED = "\\040"  # a blank, as both readers decode it
# words of people, too
_VAGUE = frozenset({"none", "auto", "mount", "systemd", "crypt", "swap", "fuse"})
_TYPED = {
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
    "\u00ab": '"', "\u00bb": '"', "\uff0c": ",", "\uff1d": "=", "\uff0f": "/", "\u2026": "...",
    "\u2212": "-",
}  # fmt: skip


def find_typographic(text: str) -> tuple[str, str]:
    """The first character that a word processor put in place of a dash or a quote, by name, and the
    text as it was meant; empty where there is none.
    """
    if text.isascii():
        return "", ""
    plain = "".join(
        "-" if unicodedata.category(one) == "Pd" else _TYPED.get(one, one) for one in text
    )
    odd = next((one for one, other in zip(text, plain, strict=False) if one != other), "")
    return (
        (f"{odd} (U+{ord(odd):04X}, {unicodedata.name(odd, 'unnamed').lower()})", plain)
        if odd
        else ("", "")
    )


def blank_in_name(fields: Sequence[str]) -> str:
    """The name that blanks cut in two, as it has to be written; empty where none is to be seen.

    The type tells: it is further behind than it should, and the folder or the source takes all the
    fields before.
    """
    if len(fields) < 4 or is_known(fields[2]):
        return ""
    end = next((place for place, field in enumerate(fields) if field.startswith("#")), len(fields))
    place = next(
        (at for at in range(3, end) if is_known(fields[at]) and fields[at] not in _VAGUE), 0
    )
    start = next((at for at in range(1, place) if fields[at].startswith("/")), 0)
    if not place or not start:
        return ""
    if any(field in GENERIC or "=" in field for field in fields[2:place]):
        return ""  # type and options are swapped
    parts = fields[:start] if start > 1 else fields[start:place]
    return ESCAPED.join(part.rstrip("\\").replace('"', "") for part in parts)
