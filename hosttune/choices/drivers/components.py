"""Packages beside the driver: Fabric Manager in the driver's own version, and what apt cannot see
because a component of Ubuntu's archive is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.apt_commands import has_all, lacks_package
from hosttune.choices.driver_states.state import ByPolicy, StateText, switch
from hosttune.choices.drivers.branch_offers import offers_within
from hosttune.choices.drivers.nvidia_archive import is_of_nvidia
from hosttune.choices.drivers.switches import (
    SERVICE,
    count_switches,
    has_switches,
    is_manager_running,
    way_into_fabric,
)
from hosttune.facts.apt_decisions import pin_on
from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.gpu.archives import branch_in
from hosttune.facts.gpu.components import turn_on
from hosttune.facts.gpu.package_roles import is_fabric_manager
from hosttune.facts.gpu.strangers import home_of
from hosttune.facts.versions import upstream_of
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts

_OF_DRIVERS = ("restricted", "multiverse")
_UNNUMBERED = "nvidia-fabricmanager"
_FIRST_UNNUMBERED = 590
_STARTING_MINUTES = 5  # after the boot, in which the driver's pod comes up


def where_off(facts: Facts, *names: str) -> str:
    """What to do about a package that apt does not know while one of these components is off (by
    default all that NVIDIA's packages are in); empty where none is, or no one knows.
    """
    try:
        missing = tuple(one for one in facts.components.off if one in (names or _OF_DRIVERS))
    except UnknownFact:
        return ""
    return turn_on(missing) if missing else ""


def unknown_to_apt(facts: Facts, name: str) -> str:
    """What to do before apt can install this Fabric Manager; empty where it can, or no one
    knows.
    """
    packaging = facts.packaging
    if packaging.problem or name in packaging.packages:
        return ""
    return pin_on(facts, name) or where_off(facts) or "sudo apt-get update, and look again"


def list_managers(facts: Facts) -> Mapping[str, str]:
    """The installed Fabric Managers: package -> version."""
    return {
        name: facts.packages[name].version
        for name in facts.packages.brought
        if is_fabric_manager(name)
    }


def fabric_packages(facts: Facts) -> StateText | None:
    """What of the packages keeps Fabric Manager from running beside this driver, and the command:
    another version than the driver's, or none, or no subnet manager; None where all is there.
    Beside a driver that came in no packages one that is installed is judged by its version only:
    another way may have brought it, unless a GPU waits for it.
    """
    driver = facts.driver
    wanted = driver.userspace_version or driver.loaded_version
    installed = list_managers(facts)
    if not driver.branch and not (driver.runfile and wanted and (installed or _is_awaited(facts))):
        return None
    if not installed or (
        wanted and all(upstream_of(version) != wanted for version in installed.values())
    ):
        package = f"nvidia-fabricmanager{_branch_in_name(facts)}"
        evidence = ", ".join(
            f"{name} is {upstream_of(version)}" for name, version in installed.items()
        )
        evidence = evidence or f"{package} is not installed"
        return (
            f"{evidence}, and the driver is {wanted}: both must have the same version"
            if wanted
            else evidence,
            _in_version(facts, package, wanted),
        )
    if (
        driver.branch
        and attempt(lambda: facts.gpus.nvswitches) == 0
        and not facts.packages["nvlsm"].is_installed
    ):
        return (
            "the NVLink Subnet Manager (nvlsm) is not installed, which HGX B200 and newer need",
            "sudo apt-get install nvlsm (from NVIDIA's archive where yours has none)",
        )
    return None


def fabric_beside_pod(facts: Facts) -> StateText | None:
    """Of a driver that a container loaded, beside NVSwitches on the PCI bus: no Fabric Manager
    runs, neither the container's nor one of this host's packages, which starts only in the driver's
    version (canonical/microk8s issue 2119, NVIDIA/gpu-operator issues 163 and 286). GPUs that tell
    of their fabric (Hopper and newer) need no such look: gpu-nvlink reports one that waits for it.
    """
    count, wanted = count_switches(facts), facts.driver.loaded_version
    if not count or not wanted or facts.driver.is_installed or not facts.managers.gpu_operator:
        return None
    if attempt(lambda: facts.pressure.uptime_days * 1440 < _STARTING_MINUTES) is True:
        return None
    tells = attempt(lambda: any(gpu.fabric_state for gpu in facts.nvlink.gpus))
    if tells is True or is_manager_running(facts):
        return None
    installed = list_managers(facts)
    evidence = "no Fabric Manager runs, neither that of the driver's container nor one of this host"
    way = way_into_fabric(facts, is_run_here=False)
    if installed:
        named = ", ".join(
            f"{name} is {upstream_of(version)}" for name, version in installed.items()
        )
        evidence += f" ({named}, and the driver is {wanted}: both must have the same version)"
        package = next(iter(installed))
        if not lacks_package(facts, f"{package}={wanted}*"):
            way += (
                "\n"
                "if the image of the driver has no Fabric Manager, take this host's instead: sudo "
                f"apt-get install --allow-downgrades {quote(f'{package}={wanted}*')}\n"
                f"sudo systemctl enable {SERVICE} && sudo systemctl restart {SERVICE}"
            )
    return f"{evidence}; with {count} NVSwitches CUDA does not start (error 802)", way


def _is_awaited(facts: Facts) -> bool:
    """Whether a GPU waits for its fabric, and the service of Fabric Manager is missing: nothing
    else brought one.
    """
    return not facts.units[SERVICE].exists and any(gpu.awaits_fabric for gpu in facts.nvlink.gpus)


def _in_version(facts: Facts, package: str, wanted: str) -> str | ByPolicy:
    """Installs Fabric Manager and its library in the driver's version. Archives keep the newest
    versions: where apt has another one only, the driver has to go there.
    """
    library, which = (
        package.replace("nvidia-fabricmanager", "libnvidia-nscq"),
        f"={wanted}*" if wanted else "",
    )
    first = unknown_to_apt(facts, package) if package != _UNNUMBERED else ""
    operands: tuple[str, ...] = (package + which, library + which)
    if lacks_package(facts, operands[1]) and not lacks_package(facts, operands[0]):
        operands = operands[:1]  # CUDA needs the manager; the library is for DCGM
    command = f"sudo apt-get install {' '.join(map(quote, operands))}"
    if wanted and not first and lacks_package(facts, *operands):
        return _driver_to_manager(facts, package, wanted)
    offered = facts.packaging.packages.get(package)
    # another branch is none
    is_update = offered is not None and branch_in(offered.version) == branch_in(wanted)
    note = ""
    if (
        wanted
        and offered
        and is_update
        and upstream_of(offered.version) != wanted
        and not has_all(facts, *operands)
    ):
        note = (
            f"if apt has that version no more (it offers {upstream_of(offered.version)}), "
            "params: {gpu-driver: {update: true}} in the policy first"
        )
    if package == _UNNUMBERED and _branch_of(facts) < _FIRST_UNNUMBERED:
        # Its name keeps no branch, so the next upgrade would bring the newest one again. apt-mark
        # fails (100) when it does not know one of the names, and the restart behind && is then not
        # run.
        names = {operand.partition("=")[0] for operand in operands}
        held = [
            one for one in (package, library) if one in names or facts.packages[one].is_installed
        ]
        command += f" && sudo apt-mark hold {' '.join(map(quote, held))}"
        command += f" && sudo systemctl restart {SERVICE}"
    return "\n".join(part for part in (first, command, note) if part)


def _driver_to_manager(facts: Facts, package: str, wanted: str) -> str | ByPolicy:
    """Where no list of apt has Fabric Manager in the driver's version: the driver in the version
    that it has.
    """
    if why_server(facts):
        return switch(
            facts, "the -server driver, which Fabric Manager goes with", when="at a maintenance"
        )
    offered = _find_offered(facts, package)
    if offered and any(upstream_of(one.candidate) == offered for one in offers_within(facts)):
        how = "params: {gpu-driver: {update: true}} in the policy"
        return ByPolicy(
            f"driver and Fabric Manager {offered}", how, "apply at a maintenance", {"update": True}
        )
    sentence = f"no list of apt has {package} in {wanted}"
    sentence += f", but {offered}" if offered else ""
    again = f"{sentence}: sudo apt-get update, and look again"
    if not facts.driver.branch:
        return (
            f"{again}\nor, at a maintenance, run NVIDIA's installer of {offered}\nreboot"
            if offered
            else again
        )
    if is_of_nvidia(facts):
        return again
    return f"{again}\nor take driver and Fabric Manager both from NVIDIA's archive"


def why_server(facts: Facts) -> str:
    """Why this driver has to become the -server one of its branch: Ubuntu's Fabric Manager follows
    that one, and apt has none in the version of the plain driver. Empty where it may stay, or that
    is not known.
    """
    driver = facts.driver
    is_plain = driver.branch and "server" not in driver.flavour and home_of(facts) == "Ubuntu"
    if not is_plain or not has_switches(facts):
        return ""
    package, wanted = (
        f"nvidia-fabricmanager-{driver.branch}",
        driver.userspace_version or driver.loaded_version,
    )
    offered = _find_offered(facts, package)
    if not offered or offered == wanted or not lacks_package(facts, f"{package}={wanted}*"):
        return ""
    named = (f"nvidia-driver-{driver.branch}-server{kind}" for kind in ("", "-open"))
    servers = [facts.packaging.packages[one] for one in named if one in facts.packaging.packages]
    if not any(upstream_of(one.version) == offered for one in servers):
        return ""
    return (
        f"Fabric Manager of branch {driver.branch} is {offered} like the -server driver, and "
        f"{driver.name} is {wanted}"
    )


def _find_offered(facts: Facts, package: str) -> str:
    """The version of Fabric Manager that apt would install, as the driver spells its own; empty
    where none is known.
    """
    try:
        offer = facts.archives.offers_of([package]).get(package)
    except UnknownFact:
        return ""
    return upstream_of(offer.newest or offer.candidate) if offer else ""


def _branch_in_name(facts: Facts) -> str:
    """-580; empty for NVIDIA's own archive, which leaves the branch out of the names from 590 on.
    An older driver can have Fabric Manager of that archive under the name without a branch, in the
    driver's version, too.
    """
    names = (_UNNUMBERED, "nvidia-driver", "nvidia-driver-cuda", "nvidia-open")
    branch = _branch_of(facts)
    if _UNNUMBERED in list_managers(facts):
        return ""
    return (
        ""
        if branch >= _FIRST_UNNUMBERED and any(facts.packages[one].is_installed for one in names)
        else f"-{branch}"
    )


def _branch_of(facts: Facts) -> int:
    """Of the packages; of a driver that came in none, by its version."""
    driver = facts.driver
    return (
        int(driver.branch)
        if driver.branch
        else branch_in(driver.userspace_version or driver.loaded_version)
    )
