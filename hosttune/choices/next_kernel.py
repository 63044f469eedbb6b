"""The packages that bring the nvidia module of the installed driver to the kernel that starts at the next boot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.gpu.strangers import home_of
from hosttune.facts.kernel.kernel import flavour_of, metapackages
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts.gpu.driver_modules import DkmsBuild, DriverModule


@frozen
class NextKernel(Fact):
    """What to type where that module is missing; both are empty where it is there."""

    commands: str
    others: tuple[str, ...]  # kernels with a module, which would do until then


def choose(facts: Facts, params: Mapping[str, Any]) -> NextKernel:  # noqa: ARG001 - the interface of all choices
    driver, kernel = facts.driver, facts.boot.next_kernel
    if driver.has_module_for_next_kernel:
        return NextKernel("", ())
    others = tuple(one for one in driver.kernels_with_module if one != kernel and one in facts.boot.kernels)
    return NextKernel(commands(facts, kernel), others)


def commands(facts: Facts, kernel: str) -> str:
    """What brings the module to a kernel that has none, or an old one. Where it is compiled here and a build of it
    failed, the prebuilt one goes first: the same build fails again.
    """
    driver = facts.driver
    if driver.runfile and not driver.branch:
        again = f"run the installer that brought the driver again, with --dkms --kernel-name={quote(kernel)}"
        return f"{again}{_or_boot(facts, kernel)}"
    if not driver.branch:
        return f"bring the module for {kernel} in the way this driver came{_or_boot(facts, kernel)}"
    ready = prebuilt_instead(facts, kernel) if driver.module_for(kernel) else prebuilt(facts, kernel)
    if not is_compiled(facts):
        return ready or f"install a driver that builds its module for {kernel}{_or_boot(facts, kernel)}"
    if _dkms_package(facts):
        build = f"sudo apt-get install linux-headers-{quote(kernel)} && sudo dkms autoinstall -k {quote(kernel)}"
    else:
        build = f"sudo apt-get install linux-headers-{quote(kernel)} {_dkms_of_nvidia(facts)}"
    log = _failed_log(facts, kernel)
    mend = f"mend what {log} names, then {build}" if log else build
    return f"{ready} (where apt has none: {mend})" if log and ready else mend


def prebuilt(facts: Facts, kernel: str) -> str:
    """What installs Ubuntu's prebuilt, signed module: the package of this one kernel, and the metapackage where its
    kernel is installed, which brings the modules of later kernels, and names this one only once the archive has it.
    Empty where there is none: for a kernel that is not Ubuntu's, or a driver of another archive.
    """
    driver, flavour = facts.driver, flavour_of(kernel)
    if not driver.branch or not flavour or not facts.os.is_ubuntu or home_of(facts) == "NVIDIA":
        return ""
    names = [f"linux-modules-nvidia-{driver.name}-{kernel}"]
    if facts.packages[names[0]].is_installed:  # its files are gone, or the module that it makes of them
        return f"sudo apt-get install --reinstall {quote(names[0])}"
    names += [f"linux-modules-nvidia-{driver.name}-{one}" for one in metapackages(facts.packages.names, flavour)]
    return f"sudo apt-get update && sudo apt-get install {' '.join(map(quote, names))}"


def prebuilt_instead(facts: Facts, kernel: str) -> str:
    """As `prebuilt`, in the place of what DKMS compiles here: depmod.d(5) puts updates/dkms before it."""
    install, dkms = prebuilt(facts, kernel), _dkms_package(facts)
    return f"{install} {quote(dkms)}-" if install and dkms else install


def suggest_replacement(facts: Facts, module: DriverModule) -> str:
    """What puts the module of the installed packages in the place of this one, which is another version or kind."""
    kernel, path = module.kernel, f"/lib/modules/{module.kernel}/{module.path}"
    if not facts.driver.branch or _failed_log(facts, kernel):
        return commands(facts, kernel)
    if is_compiled(facts):
        dkms = _dkms_package(facts)
        is_same = module.version == facts.driver.userspace_version  # DKMS takes it for built
        return (
            f"sudo apt-get install --reinstall {quote(dkms)}"
            if is_same and dkms
            else f"sudo dkms autoinstall -k {quote(kernel)}"
        )
    install = f"sudo apt-get install --reinstall linux-modules-nvidia-{quote(facts.driver.name)}-{quote(kernel)}"
    if module.source == "prebuilt":
        return install
    built = [one for one in _builds(facts) if module.source == "dkms" and one.is_installed and one.kernel == kernel]
    if built:
        return f"sudo dkms remove {quote(built[0].name)}/{quote(built[0].version)} -k {quote(kernel)}; {install}"
    return f"move {path} away (dpkg -S says whether a package has it); {install}; sudo depmod {quote(kernel)}"


def is_compiled(facts: Facts) -> bool:
    """The driver's modules are compiled here: as NVIDIA's archive has no others, or by a DKMS package where none is
    prebuilt. Modules that Ubuntu prebuilt beside a driver of NVIDIA's archive are not that driver's."""
    if home_of(facts) == "NVIDIA":
        return True
    names = facts.packages.names
    if any(name.startswith(("linux-modules-nvidia-", "linux-objects-nvidia-")) for name in names):
        return False
    return bool(_dkms_package(facts))


def _dkms_package(facts: Facts) -> str:
    """nvidia-dkms-580-open, nvidia-kernel-dkms; empty where none is installed."""
    found = (name for name in facts.packages.names if re.match(r"nvidia-(?!fs-)(?:[a-z0-9-]+-)?dkms", name))
    return next(found, "")


def _dkms_of_nvidia(facts: Facts) -> str:
    """As NVIDIA's own archive calls it, which leaves the branch out from 590 on."""
    branch, kind = facts.driver.branch, "-open" if "open" in facts.driver.flavour else ""
    return f"nvidia-dkms{kind}" if int(branch) >= 590 else f"nvidia-dkms-{branch}{kind}"


def _or_boot(facts: Facts, kernel: str) -> str:
    """A kernel that could be booted instead: one in /boot whose module is there, and is of the libraries' version where
    the module of this one is not."""
    driver = facts.driver
    others = [one for one in driver.kernels_with_module if one != kernel and one in facts.boot.kernels]
    if driver.module_for(kernel):
        known = {one: driver.module_for(one) for one in others}
        others = [one for one, module in known.items() if module and module.version == driver.userspace_version]
    return f", or boot {others[-1]}, which has one" if others else ""


def _builds(facts: Facts) -> tuple[DkmsBuild, ...]:
    try:
        return facts.driver.dkms
    except UnknownFact:
        return ()


def _failed_log(facts: Facts, kernel: str) -> str:
    return next((one.log for one in _builds(facts) if one.failed and one.kernel in ("", kernel)), "")
