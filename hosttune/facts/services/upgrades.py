"""What unattended-upgrades does by itself: whether it reboots the host.

Sources: unattended-upgrade(8) and its 50unattended-upgrades (Automatic-Reboot,
Automatic-Reboot-WithUsers, Automatic-Reboot-Time), apt.conf(5) (a later file has the last word on a
single value).
"""

from __future__ import annotations

from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

_KEY = "Unattended-Upgrade::Automatic-Reboot"
# StringToBool of apt (apt-pkg/contrib/strutl.cc)
_TRUE = frozenset({"yes", "true", "with", "on", "enable"})
_FALSE = frozenset({"no", "false", "without", "off", "disable"})


@frozen
class Upgrades(Subject):
    """The settings of apt that count, and where they stand."""

    @fact
    def reboots(self) -> bool:
        """The host is rebooted after an upgrade that asks for it."""
        return is_true(self._last(_KEY))

    @fact
    def reboots_by(self) -> str:
        """/etc/apt/apt.conf.d/50unattended-upgrades:93; empty where no file says anything."""
        found = self.facts.apt[_KEY].last
        return found.place if found else ""

    @fact
    def reboots_with_users(self) -> bool:
        """Also while people are logged in."""
        return is_true(self._last(f"{_KEY}-WithUsers"), otherwise=True)

    @fact
    def reboot_time(self) -> str:
        """`now`, or 02:00."""
        return self._last(f"{_KEY}-Time") or "now"

    def _last(self, name: str) -> str:
        found = self.facts.apt[name].last
        return found.value if found else ""


def is_true(value: str, *, otherwise: bool = False) -> bool:
    """As apt reads a boolean; `otherwise`, the default of the setting, where apt does not know the
    word.
    """
    word = value.lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    number = parse_digits(word, -1)
    return number == 1 if number in {0, 1} else otherwise
