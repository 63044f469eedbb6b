"""What unattended-upgrades does by itself: whether it reboots the host.

Sources: unattended-upgrade(8) and its 50unattended-upgrades (Automatic-Reboot, Automatic-Reboot-WithUsers,
Automatic-Reboot-Time), apt.conf(5) (a later file has the last word on a single value).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_KEY = "Unattended-Upgrade::Automatic-Reboot"
_TRUE = frozenset({"yes", "true", "with", "on", "enable"})  # StringToBool of apt (apt-pkg/contrib/strutl.cc)


@frozen
class Upgrades(Fact):
    """The settings of apt that count, and where they stand."""

    reboots: bool  # the host is rebooted after an upgrade that asks for it
    reboots_by: str  # /etc/apt/apt.conf.d/50unattended-upgrades:93; empty where no file says anything
    reboots_with_users: bool  # also while people are logged in
    reboot_time: str  # now, or 02:00


def is_true(value: str) -> bool:
    """As apt reads a boolean; what it does not know is false here, which is the default of these."""
    return value.lower() in _TRUE or parse_digits(value, 0) != 0


def collect(reader: Reader, facts: Facts) -> Upgrades:  # noqa: ARG001 - the interface of all subjects
    def last(name: str) -> str:
        found = facts.apt[name].last
        return found.value if found else ""

    def place() -> str:
        found = facts.apt[_KEY].last
        return found.place if found else ""

    return Upgrades(
        reboots=lazy(lambda: is_true(last(_KEY))),
        reboots_by=lazy(place),
        reboots_with_users=lazy(lambda: is_true(last(f"{_KEY}-WithUsers") or "true")),
        reboot_time=lazy(lambda: last(f"{_KEY}-Time") or "now"),
    )
