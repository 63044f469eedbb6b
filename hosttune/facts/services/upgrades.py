"""What unattended-upgrades does by itself: whether it reboots the host.

Sources: unattended-upgrade(8) and its 50unattended-upgrades (Automatic-Reboot, Automatic-Reboot-WithUsers,
Automatic-Reboot-Time), apt.conf(5) (a later file has the last word on a single value).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.apt_conf import CLEAR, files, settings_of
from hosttune.facts.base import Fact, unread
from hosttune.facts.reading import text
from hosttune.frozen import frozen
from hosttune.values import Unreadable

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
    return value.lower() in _TRUE or (value.isdecimal() and int(value) != 0)


def collect(reader: Reader, facts: Facts) -> Upgrades:  # noqa: ARG001 - the interface of all subjects
    paths = files(reader)
    contents = {path: text(reader, path) for path in paths} if isinstance(paths, tuple) else {}
    hidden = next((one for one in (paths, *contents.values()) if isinstance(one, Unreadable)), None)
    if hidden is not None:
        gone: Any = unread(hidden.reason)
        return Upgrades(gone, gone, gone, gone)

    def last(name: str) -> tuple[str, str]:
        found = ("", "")
        for path, content in contents.items():
            for value, line in settings_of(content, name) if isinstance(content, str) else ():
                found = ("", "") if value == CLEAR else (value, f"{path}:{line}")
        return found

    reboots, place = last(_KEY)
    with_users, time = last(f"{_KEY}-WithUsers")[0], last(f"{_KEY}-Time")[0]
    return Upgrades(is_true(reboots), place, is_true(with_users or "true"), time or "now")
