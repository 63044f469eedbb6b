"""Whether apt has what a command names. A way out that names a package or a version that no list of
apt has is none.

Archives drop old versions, lack modules for new kernels, and call the same package by another name;
so names that are made by a pattern are asked of apt before they are printed, and what apt was not
asked for is reported as unknown.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hosttune.facts.base import read_or_default
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts

_INSTALL = regex(r"apt-get install ([^;&|(),\n]*)")
_OPERAND = regex(r"[a-z0-9][a-z0-9+.:-]*(?:=\S+)?")
_REINSTALL = "--reinstall"


def find_missing(facts: Facts, operands: Iterable[str]) -> tuple[str, ...] | None:
    """Of operands of `apt-get install` those that no list of apt has; None where that is not
    known.
    """
    return read_or_default(lambda: facts.archives.missing(operands), None)


def lacks_package(facts: Facts, *operands: str) -> bool:
    """Whether apt is known to lack one of them."""
    return bool(find_missing(facts, operands))


def has_all(facts: Facts, *operands: str) -> bool:
    """Whether apt is known to have all of them."""
    return find_missing(facts, operands) == ()


def operands_in(text: str) -> tuple[str, ...]:
    """What the commands in a way out install, in their order, each once. What they reinstall is
    wanted in the version that is installed, and is not among them.
    """
    found: dict[str, None] = {}
    for match in _INSTALL.finditer(text):
        try:
            words = shlex.split(match[1])
        except ValueError:  # a quote of the sentence around it
            continue
        # A name with a minus behind it is one that apt removes in the same run (apt-get(8),
        # install): no list has to offer it.
        if _REINSTALL not in words:
            found |= dict.fromkeys(
                one for one in words if _OPERAND.fullmatch(one) and not one.endswith("-")
            )
    return tuple(found)


def check_commands(facts: Facts, *ways_out: str) -> tuple[str, ...]:
    """Ways out, each step with the packages in its commands that apt lacks, or of which that is not
    known. Apt is asked once for all of them.
    """
    ways = [way.split("\n") for way in ways_out]
    steps = dict.fromkeys(step for way in ways for step in way)
    wanted = {
        step: tuple(one for one in operands_in(step) if _has_to_come(facts, one)) for step in steps
    }
    every = tuple(dict.fromkeys(one for operands in wanted.values() for one in operands))
    missing = find_missing(facts, every)
    return tuple("\n".join(_with_note(step, wanted[step], missing) for step in way) for way in ways)


def _has_to_come(facts: Facts, operand: str) -> bool:
    return read_or_default(
        # A version behind a name is asked of apt even if the package is installed: it can be
        # installed in another version, and archives drop old ones.
        lambda: "=" in operand or not facts.packages[operand].is_installed,
        otherwise=True,
    )


def _with_note(way: str, operands: tuple[str, ...], missing: tuple[str, ...] | None) -> str:
    # Unknown is not missing: a way out that may be right is printed with its doubt, as without it a
    # person would have none.
    if missing is None:
        return (
            f"{way} (if apt has {_join_names(operands)}, which is not known here)"
            if operands
            else way
        )
    lost = [one for one in operands if one in missing]
    return (
        f"{way} (no list of apt has {_join_names(lost)}: sudo apt-get update, and look again)"
        if lost
        else way
    )


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
