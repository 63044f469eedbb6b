"""NVIDIA's Data Center GPU Manager, which watches and tests GPUs: its version, and how many of its
host engines run.

Source: DCGM user guide (packages datacenter-gpu-manager of version 3,
datacenter-gpu-manager-4-core; the host engine nv-hostengine, of which one on a host is enough:
monitoring of two disturbs each other); its release notes (which GPUs and drivers version 4 is for).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import sorted_versions, upstream_of
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts

_PACKAGE = regex(r"datacenter-gpu-manager(?:-4-core)?")
_ENGINE = "nv-hostengine"
_FIRST_FOR_4 = 570


@frozen
class Dcgm(Subject):
    """DCGM on this host; what runs in containers shows as processes alone."""

    # of its packages: 4.2.3; empty where none is installed
    version: str = read_with(lambda self: _read_version(self.facts))
    # nv-hostengine processes, those of containers included
    engines: int = read_with(lambda self: len(self.facts.processes[_ENGINE].commands))

    @fact
    def is_too_old(self) -> bool:
        """Version 3 or older, with a driver or GPUs that only version 4 knows."""
        major = self.version.partition(".")[0]
        # No version, or one that is not a number, counts as new: nothing is claimed without one.
        if parse_digits(major, 4) >= 4:
            return False
        # The loaded module is what the host engine speaks to. A newer package may only wait for a
        # reboot.
        branch = (self.facts.driver.loaded_version or self.facts.driver.branch).partition(".")[0]
        is_new = parse_digits(branch, 0) >= _FIRST_FOR_4
        return is_new or "blackwell" in self.facts.gpus.generations


def _read_version(facts: Facts) -> str:
    found = [
        upstream_of(facts.packages[name].version)
        for name in facts.packages.names
        if _PACKAGE.fullmatch(name)
    ]
    return sorted_versions(found)[-1] if found else ""
