"""What one state of the driver is, and what several of them ask or say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from hosttune.choices.drivers.bringer import VENDORS
from hosttune.choices.drivers.nvidia_archive import (
    is_of_nvidia,
    say_switch,
    switch_kind,
    switch_within_archive,
)
from hosttune.facts import Facts
from hosttune.facts.apt_decisions import make_unhold_command
from hosttune.facts.base import Fact, read_or_default
from hosttune.facts.kernel.initramfs import REBUILD
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.quoting import join, quote

UNMET = "unmet dependencies"
REBOOT = "drain the host and reboot"
INITRAMFS = REBUILD
RUNFILE = "NVIDIA's own installer (runfile) put a driver here"
_PLURAL = 515  # the branch since which the installer has --no-kernel-modules


@frozen
class ByPolicy:
    """A way out that is a parameter of gpu-driver. What it would bring, or is in its way,
    `driver_state` asks.
    """

    what: str  # is wanted; empty where it goes without saying
    how: str  # the parameters, as words
    after: str  # what is to be done then
    params: Mapping[str, Any]

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.how}, {self.after}" if self.what else f"{self.how}, {self.after}"
        )


StateText = tuple[str, "str | ByPolicy"]  # evidence, way out
Look = Callable[[Any], "StateText | None"]  # of the facts: what it says where it holds


class BootOutlook(str, Enum):
    """What the next boot does about a state; each text about a reboot asks here
    (`driver_state.before_boot`).
    """

    NOTHING = "nothing"  # it is about something else
    MENDS = "mends"
    USELESS = "useless"  # it is still there afterwards
    HARMS = "harms"  # what works until then does not work after it

    def __str__(self) -> str:
        return str(self.value)


@frozen
class DriverState(Fact):
    """One thing to know about the driver."""

    name: str  # `mismatch`, `module missing`, `current` ...
    is_fault: bool  # something is to be done; False for `current`
    evidence: str  # a sentence
    way_out: str  # what a person does about it; empty for `current`
    rule: str = ""  # the rule that reports it in a check, where that is not gpu-driver-health
    is_dead: bool = False  # not every GPU computes now, or will after the next boot
    boot: BootOutlook = BootOutlook.NOTHING  # what the next boot does about it
    waits_for_reboot: bool = False  # the next boot mends it, and nothing has to be solved before

    @property
    def blocks_reboot(self) -> bool:
        """A boot before it is solved makes it worse."""
        return self.boot is BootOutlook.HARMS

    @property
    def impairs(self) -> bool:
        """The GPUs compute until the next boot, or until apt repairs what it misses: that may
        remove the driver.
        """
        return (
            self.is_dead and self.blocks_reboot and self.name != "broken packages"
        ) or self.name == UNMET


def read_log_fact(facts: Facts, name: str) -> Any:
    """What the kernel log says; it only adds to other evidence, so one that no one may read says
    nothing.
    """
    return read_or_default(lambda: getattr(facts.nvidia, name), "")


def holds_state(look: Callable[[Facts], StateText | None], facts: Facts) -> bool:
    """Whether another state says it already; one that is not known says nothing."""
    return read_or_default(lambda: look(facts) is not None, otherwise=False)


def vendor_of(facts: Facts) -> str:
    return read_or_default(lambda: facts.role.vendor_image, "")


def is_node(facts: Facts) -> bool:
    return read_or_default(lambda: facts.managers.kubelet, otherwise=False)


def installer_steps(facts: Facts, version: str, *options: str) -> tuple[str, str]:
    """The steps that run NVIDIA's installer of a version again. From a folder of a user, or by a
    name in the working folder, root would run whatever another user put there.
    """
    path = f"/root/NVIDIA-Linux-{facts.kernel.architecture}-{version}.run"
    return f"download it from NVIDIA to {quote(path)}, where only root can write", join(
        ["sudo", "sh", path, *options]
    )


def libraries_only(version: str) -> str:
    """The option of NVIDIA's installer for all but the modules. It takes the exact name only, which
    is in the plural since branch 515 (nvidia-installer, option_table.h).
    """
    branch = parse_digits(version.partition(".")[0], 0)
    return "--no-kernel-modules" if branch >= _PLURAL else "--no-kernel-module"


def uninstall(facts: Facts) -> str:
    """What replaces the driver of NVIDIA's installer by packages. A loaded module counts as a
    driver until the boot.
    """
    first = f"sudo nvidia-uninstall\n{REBOOT}\n"
    if facts.os.is_ubuntu:
        return f"{first}sudo hosttune apply --yes --only gpu-driver"
    return f"{first}install the driver of your distribution, or of NVIDIA's archive"


def switch(
    facts: Facts, what: str, *, when: str = "", kind: str = "", **params: str
) -> str | ByPolicy:
    """`what` is wanted instead of the driver that is there, `when`; `kind`: of module, where that
    alone is wrong; `params` of gpu-driver say more of it.
    """
    wanted = f"{what}, {when}" if when else what
    if vendor := vendor_of(facts):
        return f"{wanted}, in the way of {vendor}: {VENDORS[vendor][1]}"
    if is_node(facts):
        return (
            f"{wanted}: by what brings the driver of this Kubernetes node, its image or the GPU "
            "Operator"
        )
    if is_of_nvidia(facts):
        branch = params.get("branch", "")
        way = (
            switch_kind(facts, is_open=kind == "open")
            if kind
            else switch_within_archive(facts, branch=branch)
        )
        # apt puts nothing in the place of what is held (GoogleCloudDataproc/initialization-actions
        # pull 1323).
        is_in_the_way = facts.driver.held and "apt-get install" in way
        first = f"{make_unhold_command(facts.driver.held)}\n" if is_in_the_way else ""
        return f"{first}{say_switch(wanted, way)}"
    if not facts.os.is_ubuntu:  # where gpu-driver installs nothing
        return f"{wanted}: from your distribution, its backports, or NVIDIA's archive\nreboot"
    names = ", ".join(
        [*(f'{name}: "{value}"' for name, value in params.items()), "switch_branch: true"]
    )
    apply = f"apply {when}" if when else "apply"
    how = f"params: {{gpu-driver: {{{names}}}}} in the policy"
    return ByPolicy(what, how, f"{apply}\nreboot", {**params, "switch_branch": True})
