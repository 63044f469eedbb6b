"""What the machine is there for, as far as files show: a screen that someone sits at, an image of a
vendor, network cards that do RDMA. Who hands out the work (the kubelet, slurmd) is in `managers`.

Sources: systemd.special(7) (display-manager.service, which the installed display manager links to
itself), sysfs-class-infiniband (kernel: Documentation/ABI/stable; one folder per RDMA device, EFA
included), SMBIOS 7.4.1 (types of chassis), systemd-logind's state of the seat
(/run/systemd/seats/seat0: UIDS=); Lambda's own installation guide (its packages); the message of
the day of AWS's Deep Learning AMIs (/opt/aws/dlami).
"""

from __future__ import annotations

from hosttune.facts.reading import if_absent, is_there, names_in, read_line, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import target_of
from hosttune.numbers import parse_digits

DISPLAY_MANAGER = "/etc/systemd/system/display-manager.service"
DEFAULT_TARGET = "/etc/systemd/system/default.target"
RDMA = "/sys/class/infiniband"
SEAT = "/run/systemd/seats/seat0"
CHASSIS = "/sys/class/dmi/id/chassis_type"
DLAMI = "/opt/aws/dlami"
_LAMBDA = ("lambda-stack-cuda", "lambda-stack", "lambda-server")
_LAPTOPS = frozenset({"8", "9", "10", "11", "14", "30", "31", "32"})
_DESKTOPS = frozenset({"3", "4", "5", "6", "7", "13", "15", "16", "24", "34", "35", "36"})

# uids of people (adduser.conf(5); systemd's UIDS-GIDS: 60000 and up are made)
_FIRST_USER, _LAST_USER = 1000, 60000


@frozen
class Role(Subject):
    """Signs of what the machine is used for."""

    @fact
    def display_manager(self) -> str:
        """gdm3.service, sddm.service ...; empty where none starts with the machine."""
        target = self.reader.link(DEFAULT_TARGET)
        if isinstance(target, str) and target_of(target) == "multi-user.target":
            return ""  # whatever is installed, the machine starts without it
        name = if_absent(self.reader.link(DISPLAY_MANAGER), "")
        return "" if name == "/dev/null" else name.rpartition("/")[2]

    # laptop | desktop, as the firmware says; empty for a server, and where it does not say
    chassis: str = read_with(
        lambda self: _chassis_of(if_absent(read_line(self.reader, CHASSIS), ""))
    )

    @fact
    def is_seated(self) -> bool:
        """A person is logged in at the screen of the machine now.

        Whether a person has a session at the seat; the user of a login screen is one of the system,
        or made for it.
        """
        rows = "" if self.reader.persistent_only else if_absent(read_text(self.reader, SEAT), "")
        uids = " ".join(
            row.removeprefix("UIDS=") for row in rows.splitlines() if row.startswith("UIDS=")
        ).split()
        return any(_FIRST_USER <= parse_digits(uid, 0) < _LAST_USER for uid in uids)

    @fact
    def vendor_image(self) -> str:
        """DGX OS | Lambda Stack | AWS Deep Learning AMI; empty for the distribution's own."""
        if self.facts.managers.dgx:
            return "DGX OS"
        if any(self.facts.packages[name].is_installed for name in _LAMBDA):
            return "Lambda Stack"
        return "AWS Deep Learning AMI" if is_there(self.reader, DLAMI) else ""

    # mlx5_0, rdmap0s6 (EFA) ...
    rdma_devices: tuple[str, ...] = read_with(lambda self: names_in(self.reader, RDMA))

    @property
    def is_desktop(self) -> bool:
        """A graphical session starts with the machine, and it is a laptop or a desktop, or someone
        sits there.
        """
        return self.display_manager != "" and (self.chassis != "" or self.is_seated)

    @property
    def has_somebody(self) -> bool:
        """It is a desktop that someone has in front of him: a laptop, or one with a session at its
        screen.
        """
        return self.is_desktop and (self.chassis == "laptop" or self.is_seated)


def _chassis_of(kind: str) -> str:
    return "laptop" if kind in _LAPTOPS else "desktop" if kind in _DESKTOPS else ""
