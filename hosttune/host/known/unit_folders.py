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
