"""Packages beside the driver: Fabric Manager in the driver's own version, and what apt cannot see because a component
of Ubuntu's archive is off.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from hosttune.choices.drivers.switches import SERVICE
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import branch_in
from hosttune.facts.gpu.components import turn_on
from hosttune.facts.gpu.package_roles import is_fabric_manager
from hosttune.facts.versions import upstream_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts

_OF_DRIVERS = ("restricted", "multiverse")
_UNNUMBERED = "nvidia-fabricmanager"
_FIRST_UNNUMBERED = 590


def where_off(facts: Facts, *names: str) -> str:
    """What to do about a package that apt does not know while one of these components is off (by default all that
    NVIDIA's packages are in); empty where none is, or nobody knows."""
    try:
        missing = tuple(one for one in facts.components.off if one in (names or _OF_DRIVERS))
    except UnknownFact:
        return ""
    return turn_on(missing) if missing else ""


def unknown_to_apt(facts: Facts, name: str) -> str:
    """What to do before apt can install this Fabric Manager; empty where it can, or nobody knows."""
    told = facts.packaging
    if told.problem or name in told.packages:
        return ""
    return where_off(facts) or "sudo apt-get update, and look again"


def managers(facts: Facts) -> Mapping[str, str]:
    """The installed Fabric Managers: package -> version."""
    return {name: facts.packages[name].version for name in facts.packages.brought if is_fabric_manager(name)}


def fabric_packages(facts: Facts) -> tuple[str, str] | None:
    """What of the packages keeps Fabric Manager from running beside this driver, and the command: another version than
    the driver's, or none, or no subnet manager; None where all is there, or the driver did not come in packages.
    """
    driver = facts.driver
    if not driver.branch:
        return None
    wanted = driver.userspace_version or driver.loaded_version
    installed = managers(facts)
    if not installed or (wanted and all(upstream_of(version) != wanted for version in installed.values())):
        package = f"nvidia-fabricmanager{_branch_in_name(facts)}"
        told = ", ".join(f"{name} is {upstream_of(version)}" for name, version in installed.items())
        told = told or f"{package} is not installed"
        return f"{told}, and the driver is {wanted}: they must be one version" if wanted else told, _in_version(
            facts, package, wanted
        )
    if not facts.gpus.nvswitches and not facts.packages["nvlsm"].is_installed:
        return (
            "the NVLink Subnet Manager (nvlsm) is not installed, which HGX B200 and newer need",
            "sudo apt-get install nvlsm (from NVIDIA's archive where yours has none)",
        )
    return None


def _in_version(facts: Facts, package: str, wanted: str) -> str:
    """Installs Fabric Manager and its library in the driver's version. Archives keep the newest versions: where apt
    offers another one, the driver may have to go first."""
    library, which = package.replace("nvidia-fabricmanager", "libnvidia-nscq"), f"={wanted}*" if wanted else ""
    first = unknown_to_apt(facts, package) if package != _UNNUMBERED else ""
    command = f"sudo apt-get install {quote(package + which)} {quote(library + which)}"
    offered = facts.packaging.packages.get(package)
    is_update = offered is not None and branch_in(offered.version) == branch_in(wanted)  # another branch is none
    if wanted and offered and is_update and upstream_of(offered.version) != wanted:
        command += (
            f"; where apt has that version no more (it offers {upstream_of(offered.version)}), update: true for "
            "gpu-driver in the policy first"
        )
    if package == _UNNUMBERED and int(facts.driver.branch) < _FIRST_UNNUMBERED:
        # Its name keeps no branch, so the next upgrade would bring the newest one again.
        command += f" && sudo apt-mark hold {quote(package)} {quote(library)} && sudo systemctl restart {SERVICE}"
    return "; then ".join(part for part in (first, command) if part)


def _branch_in_name(facts: Facts) -> str:
    """-580; empty for NVIDIA's own archive, which leaves the branch out of the names from 590 on. An older driver can
    have Fabric Manager of that archive under the name without a branch, in the driver's version, too."""
    names = (_UNNUMBERED, "nvidia-driver", "nvidia-driver-cuda", "nvidia-open")
    branch = facts.driver.branch
    if _UNNUMBERED in managers(facts):
        return ""
    return (
        ""
        if int(branch) >= _FIRST_UNNUMBERED and any(facts.packages[one].is_installed for one in names)
        else f"-{branch}"
    )
