"""The state in which apt's settings keep updates of the driver away: a pin, or an archive that is
switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.driver_states.state import StateText
from hosttune.facts.apt_decisions import change_pin, nvidia_switched_off, nvidia_without_list
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import branch_in

if TYPE_CHECKING:
    from hosttune.facts import Facts

_MOST_LOOKED_FOR = 100  # packages whose pin is looked for: each is held against all


def kept_back(facts: Facts) -> StateText | None:
    return (_tell_of_pin(facts) or _without_archive(facts)) if facts.driver.branch else None


def _tell_of_pin(facts: Facts) -> StateText | None:
    """A pin that keeps the driver out of another branch does what it is for, and is not
    reported.
    """
    waiting = [
        one for one in facts.archives.kept_back if branch_in(one.newest) == int(facts.driver.branch)
    ]
    del waiting[_MOST_LOOKED_FOR:]
    try:
        pins = [pin for pin in facts.apt.pins if not pin.is_general]
        fitting = (
            (one, pin)
            for one in waiting
            for pin in pins
            if pin.names(one.name) and not pin.wants(one.newest)
        )
        found = next(fitting, None)
    except UnknownFact:  # preferences that cannot be read explain nothing
        return None
    if found is None:
        return None
    offer, pin = found
    return (
        (
            f"{pin.place} keeps {offer.name} at {offer.installed}, and an archive has "
            f"{offer.newest} ({pin.words})"
        ),
        f"{change_pin(pin)}\nsudo apt-get update",
    )


def _without_archive(facts: Facts) -> StateText | None:
    """Packages as NVIDIA's archive has them, whose archive a person has switched off, or of which
    apt has no list: no fixes come any more.
    """
    left = facts.archives.without_origin
    if not left or "NVIDIA" in facts.archives.origins:
        return None
    decided = nvidia_without_list(facts) or nvidia_switched_off(facts)
    if decided is None:
        return None
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return f"no archive has the installed version of {left[0]}{more}: {decided.what}", decided.undo
