"""Where systemd finds the units of the system (systemd.unit(5), "Unit File Load Path"); no
generator's.
"""

from __future__ import annotations

CONTROL = "/etc/systemd/system.control"  # what `systemctl set-property` keeps
_CONTROL_RUNTIME = "/run/systemd/system.control"
_TRANSIENT = "/run/systemd/transient"
ADMIN = "/etc/systemd/system"
RUNTIME = "/run/systemd/system"
LOCAL = "/usr/local/lib/systemd/system"
PACKAGES = "/usr/lib/systemd/system"
SPLIT = "/lib/systemd/system"  # of packages where /usr is not merged; elsewhere a way to PACKAGES
VENDOR = (LOCAL, PACKAGES)
# The first that has a unit counts.
LASTING = (ADMIN, *VENDOR, SPLIT)  # what a boot keeps
OF_ADMINISTRATORS = (CONTROL, _CONTROL_RUNTIME, _TRANSIENT, ADMIN, RUNTIME)
LOAD_PATH = (*OF_ADMINISTRATORS, *VENDOR, SPLIT)
# Names of before systemd, to which links of old instructions lead (systemd.special(7)).
_RUNLEVELS = {
    **dict.fromkeys(
        ("runlevel2.target", "runlevel3.target", "runlevel4.target"), "multi-user.target"
    ),
    "runlevel5.target": "graphical.target",
}


def target_of(link: str) -> str:
    """The target that a link such as default.target leads to: graphical.target."""
    name = link.rpartition("/")[2]
    return _RUNLEVELS.get(name, name)
