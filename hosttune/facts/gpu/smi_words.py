"""The words that nvidia-smi has in the place of a value, for every reader of its output; pure.

Sources: the texts of nvmlErrorString for nvmlReturn_t (NVML API reference; nvidia-ml-py,
NVMLError), which nvidia-smi prints in brackets in CSV and bare elsewhere; ERR! in its table and of
a lost GPU; `GPU requires reset` is how newer drivers spell `GPU requires restart`. A driver may
spell others: what is in brackets is a word, whatever it says.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from hosttune.regex import regex


class SmiWord(Enum):
    """What is in a place where a value belongs."""

    VALUE = "value"
    ABSENT = "absent"  # this GPU has no such thing, or this driver does not show it
    DENIED = "denied"  # this user, or this control group, may not ask
    LOST = "lost"  # the driver cannot reach the GPU any more
    RESET = "reset"  # the GPU answers again after a reset
    ERROR = "error"  # the driver failed to answer, and does not say what that means


BROKEN = frozenset({SmiWord.LOST, SmiWord.RESET})
_ABSENT = frozenset({
    "n/a", "not supported", "deprecated", "requested functionality has been deprecated",
    "the requested functionality has been deprecated",
})  # fmt: skip
_DENIED = frozenset({"insufficient permissions", "the operating system has blocked the request"})
_ERRORS = frozenset({
    "err!", "unknown error", "uninitialized", "invalid argument", "already initialized",
    "not found", "insufficient size", "insufficient external power", "driver not loaded", "timeout",
    "interrupt request issue", "nvml shared library not found", "function not found",
    "corrupted inforom", "rm has detected an nvml/rm version mismatch",
    "driver/library version mismatch", "in use by another client", "insufficient memory", "no data",
    "insufficient resources", "frequency not supported", "argument version mismatch", "not ready",
    "the system is not ready for the request", "gpu not found", "no gpus were found",
    "invalid state", "reset type not supported", "unknown internal error", "internal error",
})  # fmt: skip
_LOST = regex(r"gpu (?:is|has been) lost\b|fallen off the bus")
_RESET = regex(r"requires? (?:a )?(?:reset|restart)\b|reset (?:is )?required")


def word_of(spelled: str) -> SmiWord:
    """What a cell of nvidia-smi holds."""
    bare = spelled.strip()
    is_in_brackets = bare.startswith("[") and bare.endswith("]")
    # CSV output puts the words of an error in brackets, other output does not: one table serves
    # both.
    words = " ".join(bare.strip("[]").lower().split()).rstrip(".")
    if words in _ABSENT:
        return SmiWord.ABSENT
    if words in _DENIED:
        return SmiWord.DENIED
    if _LOST.match(words):
        return SmiWord.LOST
    if words.startswith("gpu ") and _RESET.search(words):
        return SmiWord.RESET
    return SmiWord.ERROR if is_in_brackets or words in _ERRORS else SmiWord.VALUE


def is_supported(spelled: str) -> bool:
    """False for [N/A] and its like: this GPU has no such thing. An error is no such answer."""
    return word_of(spelled) is not SmiWord.ABSENT


def worst_of(cells: Iterable[str]) -> str:
    """Of the cells of a row the one that says most of why there is no value; empty where each holds
    one, or tells that there is none.
    """
    order = (SmiWord.LOST, SmiWord.RESET, SmiWord.ERROR, SmiWord.DENIED)
    found = [(order.index(word), cell) for cell in cells if (word := word_of(cell)) in order]
    return min(found, key=lambda pair: pair[0])[1] if found else ""


def says_lost(sentence: str) -> bool:
    """A sentence of nvidia-smi's says that a GPU is lost."""
    return _LOST.search(sentence.lower()) is not None


def asks_for_reset(sentence: str) -> bool:
    """A sentence of nvidia-smi's says that a GPU answers again after a reset."""
    return _RESET.search(sentence.lower()) is not None


def is_denied(sentence: str) -> bool:
    """A sentence of nvidia-smi's says that this user may not ask."""
    return any(words in sentence.lower() for words in _DENIED)
