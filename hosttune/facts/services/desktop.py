"""A graphical session and suspend: what a machine that was installed as a desktop does on its own.

Sources: systemd.special(7) (default.target), systemd-sleep.conf(5), logind.conf(5) (IdleAction); display servers that
hold a GPU are found by the programs of their processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.processes import program_of
from hosttune.facts.reading import require_known, require_sure
from hosttune.facts.services.systemd_config import read_settings
from hosttune.facts.work import is_display
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import ADMIN, LASTING
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_NO_SERVERS = frozenset({"sddm", "gdm-x-session", "gdm-wayland-ses", "lightdm"})  # they start one
_NEVER = frozenset({"no", "false", "off", "0", "n", "f"})  # systemd.syntax(7), booleans
_IDLE_ACTIONS = frozenset({"suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate", "poweroff", "halt"})


@frozen
class Desktop(Fact):
    """What starts with the machine, and what may stop it."""

    default_target: str  # graphical.target, multi-user.target ...
    display_servers: tuple[str, ...]  # those that hold an NVIDIA GPU now: "Xorg (1234)"
    may_suspend: bool  # neither sleep.conf nor a masked unit forbids it
    idle_action: str  # what logind does when everybody is idle: "suspend (/etc/systemd/logind.conf)"; empty for nothing


def collect(reader: Reader, facts: Facts) -> Desktop:  # noqa: ARG001 - the interface of all subjects
    return Desktop(
        default_target=lazy(_default_target, reader),
        display_servers=lazy(_find_servers, reader),
        may_suspend=lazy(_may_suspend, reader),
        idle_action=lazy(_idle_action, reader),
    )


def _default_target(reader: Reader) -> str:
    for folder in LASTING:
        target = require_sure(reader.link(f"{folder}/default.target"))
        if target is not ABSENT:
            return target.rpartition("/")[2]
    return "graphical.target"  # systemd.special(7): what an installation without a link has


def _find_servers(reader: Reader) -> tuple[str, ...]:
    if reader.persistent_only:
        return ()
    found = require_known(reader.processes(), "the list of processes")
    if not reader.is_privileged:
        raise UnknownFact("needs root: the open devices of other users' processes are hidden")
    return tuple(
        f"{one.name} ({one.pid})"
        for one in found
        if is_display(one)
        and program_of(one) not in _NO_SERVERS
        and any(device.startswith("/dev/nvidia") for device in one.devices)
    )


def _may_suspend(reader: Reader) -> bool:
    if read_settings(reader, "sleep.conf", "Sleep").get("AllowSuspend", ("yes", ""))[0].lower() in _NEVER:
        return False
    links = [require_sure(reader.link(f"{ADMIN}/{name}")) for name in ("sleep.target", "suspend.target")]
    return "/dev/null" not in links


def _idle_action(reader: Reader) -> str:
    action, path = read_settings(reader, "logind.conf", "Login").get("IdleAction", ("ignore", ""))
    return f"{action} ({path})" if action in _IDLE_ACTIONS else ""
