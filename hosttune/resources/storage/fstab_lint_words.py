"""What is wrong with the words that systemd and swapon(8) read in the options of an fstab line.
Pure.

Neither fails because of a word that it does not know: it goes on as if the word were not there.
Sources: systemd.mount(5), systemd.time(7), swapon(8); the generator of systemd 252, tried word by
word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from hosttune.facts.storage.fstab_options import is_automount
from hosttune.facts.storage.fstab_words import GENERIC, SYSTEMD
from hosttune.regex import regex
from hosttune.resources.storage.fstab_remark import RemarkLevel

# of difflib's ratio: `noatim`, `erors` and `defualts` are above it, other real words below
_LIKE = 0.8
Found = Iterator[tuple[RemarkLevel, str, str, str]]
_UNIT = (
    r"(?:us|usec|ms|msec|s|sec|seconds?|m|min|minutes?|h|hr|hours?|d|days?|w|weeks?|M|months?|y"
    r"|years?)"
)
_SPAN = regex(rf"infinity|[0-9.]{{1,20}}(?:{_UNIT}[0-9.]{{1,20}}){{0,8}}{_UNIT}?")
_IDLE = "x-systemd.idle-timeout"
_TIMEOUTS = {  # what counts without them
    "x-systemd.device-timeout": "a boot waits 90 s for the device",
    "x-systemd.mount-timeout": "the mount may take 90 s",
    _IDLE: "it is never unmounted",
}
_OLD_TIMEOUT = "comment=systemd.device-timeout"
_UNITS = frozenset(
    f"x-systemd.{name}" for name in ("requires", "before", "after", "wanted-by", "required-by")
)
_PATHS = frozenset({"x-systemd.requires-mounts-for", "x-systemd.wants-mounts-for"})
_OF_SWAP = frozenset({"nofail", "noauto", "discard", "pri"})
_HARMLESS = GENERIC | {"sw", "swap"}
_PRIORITY = regex(r"-?[0-9]{1,9}")
_POLICIES = frozenset({"once", "pages"})


def systemd_words(words: tuple[str, ...]) -> Found:
    """Words that begin with x-systemd: misspelt, without the value that they need, or with one that
    is none.
    """
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith(_OLD_TIMEOUT):
            name, equals, value = word.replace("comment=", "x-", 1).partition("=")
        if name.startswith("X-systemd."):
            yield (
                RemarkLevel.WARNING,
                "systemd-word",
                f"systemd ignores `{name}`",
                f"write it as `{name.lower()}`",
            )
        elif name.startswith("x-systemd.") and name not in SYSTEMD:
            meant = find_nearest(name, SYSTEMD)
            todo = f"is `{meant}` meant?" if meant else "look it up: man systemd.mount"
            yield (
                RemarkLevel.WARNING,
                "systemd-word",
                f"systemd.mount(5) has no `{name}`, and others ignore it",
                todo,
            )
        elif name in _TIMEOUTS and not equals and (name != _IDLE or is_automount(words)):
            # parse_sec_fix_0() of src/basic/time-util.c asserts that there is one
            why = (
                f"`{word}` has no value: systemd's generator aborts, and mounts neither this line "
                "nor those below it"
            )
            yield RemarkLevel.ERROR, "systemd-abort", why, f"write `{name}=30s`, or take it out"
        elif name in _TIMEOUTS and equals and not _SPAN.fullmatch(value):
            why = f"systemd ignores `{word}`, whose value is no time span: {_TIMEOUTS[name]}"
            yield (
                RemarkLevel.WARNING,
                "systemd-value",
                why,
                f"write `{name}=30s` (man systemd.time)",
            )
        elif name in _UNITS and equals and not value:
            why = (
                f"`{word}` names no unit: systemd's generator gives this line up, so no boot "
                "mounts it"
            )
            yield RemarkLevel.ERROR, "systemd-unit", why, f"write `{name}=UNIT`, or take it out"
        elif name in _UNITS and not equals:
            todo = f"write `{name}=UNIT`, or take it out"
            yield (
                RemarkLevel.WARNING,
                "systemd-value",
                f"systemd ignores `{word}`, which names no unit",
                todo,
            )
        elif name in _PATHS and not value.startswith("/"):
            todo = f"write `{name}=/FOLDER`, or take it out"
            yield (
                RemarkLevel.WARNING,
                "systemd-value",
                f"systemd ignores `{word}`, which names no absolute path",
                todo,
            )


def swap_words(words: tuple[str, ...]) -> Found:
    """Words of a swap line: swapon(8) reads four of them, and skips all others."""
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _OF_SWAP:
            meant = (
                ""
                if name in _HARMLESS
                else "pri"
                if name.startswith("pri")
                else find_nearest(name.lower(), _OF_SWAP)
            )
            lost = ": each boot waits for this swap if it is not there" if meant == "nofail" else ""
            if meant:
                why = f"swap has no option `{name}`, and it is ignored{lost}"
                yield RemarkLevel.WARNING, "misspelt", why, f"is `{meant}` meant?"
        elif name == "pri" and not _PRIORITY.fullmatch(value):
            why = f"`{word}` is ignored: the priority of a swap is a number from -1 to 32767"
            yield RemarkLevel.WARNING, "swap-priority", why, "write pri=10, or take it out"
        elif name == "discard" and equals and value not in _POLICIES:
            why = f"`{word}` is ignored: swapon(8) has no such policy"
            yield (
                RemarkLevel.WARNING,
                "swap-discard",
                why,
                "write discard, discard=once or discard=pages",
            )


def find_nearest(name: str, known: Iterable[str]) -> str:
    """The known word that may be meant; empty for none."""
    return _find_nearest(name, frozenset(known))


# Thousands of lines can have wrong words, each of which takes difflib 1 ms; a host's lines are
# judged several times.
@lru_cache(maxsize=1 << 15)
def _find_nearest(name: str, known: frozenset[str]) -> str:
    from difflib import get_close_matches

    # A first look that costs little: a host can have thousands of such words.
    alike = [
        one
        for one in known
        if (one[:1] == name[:1] or one[-1:] == name[-1:]) and _most_alike(one, name) >= _LIKE
    ]
    return next(iter(get_close_matches(name, sorted(alike), 1, _LIKE)), "")


def _most_alike(one: str, other: str) -> float:
    """What difflib's ratio of two words is at most: each letter that the other lacks is no part of
    a match.
    """
    a, b = frozenset(one), frozenset(other)
    return 2.0 * min(len(one) - len(a - b), len(other) - len(b - a)) / (len(one) + len(other) or 1)
