"""Packages of NVIDIA's that apt cannot see because a component of Ubuntu's archive is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.components import turn_on

if TYPE_CHECKING:
    from hosttune.facts import Facts

_OF_DRIVERS = ("restricted", "multiverse")


def where_off(facts: Facts, *names: str) -> str:
    """What to do about a package that apt does not know while one of these components is off (by default all that
    NVIDIA's packages are in); empty where none is, or nobody knows."""
    try:
        missing = tuple(one for one in facts.components.off if one in (names or _OF_DRIVERS))
    except UnknownFact:
        return ""
    return turn_on(missing) if missing else ""


def unknown_to_apt(facts: Facts, name: str) -> str:
    """What to do before apt can install this Fabric Manager; empty where it can, or nobody knows."""
    told = facts.packaging
    if told.problem or name in told.packages:
        return ""
    return where_off(facts) or "sudo apt-get update, and look again"
