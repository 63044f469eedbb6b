"""What the choice of a driver can be: the value, and those that every part makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.choices.driver_states.state import read_log_fact
from hosttune.facts.base import Fact
from hosttune.facts.gpu.nvidia_tables import is_older
from hosttune.facts.gpu.package_roles import METAPACKAGES, parse_package
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.driver import Driver


# Of gpu-driver's parameters, for who asks without a policy.
DEFAULTS: Mapping[str, Any] = {
    "track": "lts", "branch": "", "bringer": "auto", "use": "auto", "update": False,
    "switch_branch": False, "allow_third_party": False, "allow_dkms": False,
}  # fmt: skip
CHANGES = frozenset({"install", "update", "switch"})


@frozen
class DriverChoice(Fact):
    """What to do about the driver, and why in words."""

    # keep | install | update | switch | none (not ours to do) | refuse (not possible as things are)
    action: str
    # to have installed: the set to install, or the main packages of the driver that is kept
    packages: tuple[str, ...]
    clauses: tuple[str, ...]  # why, in clauses, each of which a state of the driver may say, too
    branch: str = ""  # 580
    flavour: str = ""  # open, server, server-open, or empty for the plain closed driver
    needs_dkms: bool = False  # its modules are compiled here
    # packages that must have the same version (the driver and its fabric manager)
    one_version: tuple[str, ...] = ()
    # of an update: "name=version", what apt offers within the branch
    versions: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()  # of a switch: the packages of the old branch or flavour
    # how the packages begin of which the kernel that boots next needs one; empty where none changes
    modules: str = ""
    # of a refusal, or of what keeps it from use or from an update: what a person does about it
    way_out: str = ""
    asks: str = ""  # of a refusal: the parameter of gpu-driver that would let it go on
    # why the driver that is kept is not in use, where no boot brings it into use; else empty
    unused: str = ""

    @property
    def reason(self) -> str:
        """Why, as one sentence."""
        return "; ".join(self.clauses)

    @property
    def obstacle(self) -> str:
        """Of a refusal: the clause that says what is in the way, without the GPUs that are named
        with it.
        """
        return re.sub(r"^no driver fits .*?: ", "", self.clauses[-1])

    @property
    def name(self) -> str:
        """580-server-open."""
        return "-".join(part for part in (self.branch, self.flavour) if part)


def refuse(
    *clauses: str, way_out: str, driver: Driver | None = None, asks: str = ""
) -> DriverChoice:
    """`driver`: the one that stays; `asks`: as in DriverChoice."""
    branch, flavour = (driver.branch, driver.flavour) if driver else ("", "")
    return DriverChoice("refuse", (), clauses, branch, flavour, way_out=way_out, asks=asks)


def keep_driver(facts: Facts, *clauses: str) -> DriverChoice:
    driver = facts.driver
    main = tuple(
        one.name for one in driver.packages if _is_main(one.name) and one.status == "installed"
    )
    return DriverChoice("keep", main, clauses, driver.branch, driver.flavour)


def _is_main(name: str) -> bool:
    """Packages that someone names to get a driver, not what comes with them or belongs to one
    kernel.
    """
    found = parse_package(name)
    return found.role in METAPACKAGES or found.base in ("nvidia-utils", "nvidia-fabricmanager")


def open_alone(facts: Facts) -> tuple[str, ...]:
    """What here works only with the open kernel module: what has no closed one, and what the kernel
    log of the driver that is there says so of.
    """
    return facts.gpus.open_alone or _by_log(facts, "needs_open")


def closed_alone(facts: Facts) -> tuple[str, ...]:
    """As `open_alone`, of the closed kernel module: what is older than Turing."""
    old = tuple(one for one in facts.gpus.generations if is_older(one, "turing"))
    # Of a known GPU from Turing on the same sentence tells of a state: `GPU refused` says so.
    return old or (_by_log(facts, "not_for_open") if "unknown" in facts.gpus.generations else ())


def _by_log(facts: Facts, name: str) -> tuple[str, ...]:
    return ("a GPU here",) if facts.driver.is_present and read_log_fact(facts, name) else ()


def module_kind(facts: Facts) -> str | DriverChoice:
    """`open` or `closed` where the GPUs can use only that kernel module, else `either`; or the
    refusal. A GPU of an unknown generation is newer than our table, so it is `either`: open is
    preferred where it is offered.

    Open modules need the GPU System Processor, which Turing brought; Blackwell and Grace Hopper
    have no closed ones (NVIDIA's open-gpu-kernel-modules, and the driver installation guide,
    "Kernel Modules").
    """
    generations = facts.gpus.generations
    if "fermi" in generations:
        return refuse(
            f"Fermi and older GPUs have had no driver for years ({facts.gpus.summary})",
            way_out="take the card out, or leave it to nouveau, which drives a screen (bringer: "
            "external in the policy)",
        )
    old, only_open = closed_alone(facts), open_alone(facts)
    if old and only_open:
        return refuse(
            f"no driver drives all GPUs: {', '.join(only_open)} needs the open kernel module, and "
            f"{', '.join(old)} cannot use it ({facts.gpus.summary})",
            way_out="put them into different machines, or give one kind to virtual machines "
            "(vfio-pci)",
        )
    if any(is_older(one, "turing") for one in generations) and "unknown" in generations:
        return refuse(
            f"{', '.join(old)} cannot use the open kernel module, and it is not known whether the "
            f"GPU of unknown generation needs it ({facts.gpus.summary})",
            way_out="install the driver by hand, as the guide of the newer GPU says, and set "
            "bringer: external in the policy",
        )
    return "closed" if old else "open" if only_open else "either"
