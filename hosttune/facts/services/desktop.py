"""A graphical session and suspend: what a machine that was installed as a desktop does on its own.

Sources: systemd.special(7) (default.target), systemd-sleep.conf(5), logind.conf(5) (IdleAction);
display servers that hold a GPU are found by the programs of their processes.
"""

from __future__ import annotations

from hosttune.facts.base import UnknownFact
from hosttune.facts.processes import program_of
from hosttune.facts.reading import require_known, require_sure
from hosttune.facts.services.systemd_config import read_settings
from hosttune.facts.subject import Subject, fact
from hosttune.facts.work import is_display
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import ADMIN, LASTING, target_of
from hosttune.values import ABSENT

_NO_SERVERS = frozenset({"sddm", "gdm-x-session", "gdm-wayland-ses", "lightdm"})  # they start one
_NEVER = frozenset({"no", "false", "off", "0", "n", "f"})  # systemd.syntax(7), booleans
# logind.conf(5), HandlePowerKey=: words of IdleAction= after which no program runs. sleep.conf
# forbids only those that sleep.
_SLEEPS = frozenset({"sleep", "suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate"})
_ENDS = frozenset({"poweroff", "reboot", "halt", "kexec", "soft-reboot", "factory-reset"})


@frozen
class Desktop(Subject):
    """What starts with the machine, and what may stop it."""

    @fact
    def default_target(self) -> str:
        """graphical.target, multi-user.target ..."""
        for folder in LASTING:
            target = require_sure(self.reader.link(f"{folder}/default.target"))
            if target is not ABSENT:
                return target_of(target)
        return "graphical.target"  # systemd.special(7): what an installation without a link has

    @fact
    def display_servers(self) -> tuple[str, ...]:
        """Those that hold an NVIDIA GPU now: "Xorg (1234)"."""
        if self.reader.persistent_only:
            return ()
        found = require_known(self.reader.processes(), "the list of processes")
        # Without root an empty list would claim that no display server holds a GPU.
        if not self.reader.is_privileged:
            raise UnknownFact("needs root: the open devices of other users' processes are hidden")
        return tuple(
            f"{one.name} ({one.pid})"
            for one in found
            if is_display(one)
            and program_of(one) not in _NO_SERVERS
            and any(device.startswith("/dev/nvidia") for device in one.devices)
        )

    @fact
    def may_suspend(self) -> bool:
        """Neither sleep.conf nor a masked unit forbids it."""
        if (
            read_settings(self.reader, "sleep.conf", "Sleep")
            .get("AllowSuspend", ("yes", ""))[0]
            .lower()
            in _NEVER
        ):
            return False
        links = [
            require_sure(self.reader.link(f"{ADMIN}/{name}"))
            for name in ("sleep.target", "suspend.target")
        ]
        return "/dev/null" not in links

    @fact
    def idle_action(self) -> str:
        """How logind sends the machine to sleep when no one uses it: "suspend
        (/etc/systemd/logind.conf)"; empty for nothing.
        """
        return self._idle_action if self._idle_action.partition(" ")[0] in _SLEEPS else ""

    @fact
    def idle_end(self) -> str:
        """How logind stops the machine when no one uses it: "poweroff (/etc/systemd/logind.conf)";
        empty for nothing.
        """
        return self._idle_action if self._idle_action.partition(" ")[0] in _ENDS else ""

    @fact
    def _idle_action(self) -> str:
        action, path = read_settings(self.reader, "logind.conf", "Login").get(
            "IdleAction", ("ignore", "")
        )
        return f"{action} ({path})"
