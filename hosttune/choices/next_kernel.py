"""The packages that bring the nvidia module of the installed driver to the kernel that starts at the next boot."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Any

from hosttune.choices.other_build import newer_build, other_branch_build
from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.gpu.package_roles import DKMS_PROVIDED, PREBUILT, PackageRole, parse_package, role_of
from hosttune.facts.gpu.strangers import home_of
from hosttune.facts.kernel.kernel import flavour_of, headers_for, is_ubuntus, metapackages
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
    from hosttune.choices.dpkg_stop import bring_module, try_find_stop  # which itself asks for `prebuilt_instead`

    stop = try_find_stop(facts)
    return NextKernel(bring_module(facts, stop, kernel) if stop else commands(facts, kernel), others)


def commands(facts: Facts, kernel: str) -> str:
    """What brings the module to a kernel that has none, or an old one. Where it is compiled here and a build of it
    failed, the prebuilt one goes first: the same build fails again.
    """
    driver = facts.driver
    headers = f"sudo apt-get install {quote(headers_for(kernel))}"
    if driver.runfile and not driver.branch:
        again = f"run the installer that brought the driver again, with --dkms --kernel-name={quote(kernel)}"
        if any(one.name.startswith("nvidia") and not one.failed for one in _builds(facts)):
            again = f"sudo dkms autoinstall -k {quote(kernel)}"  # the installer left its source there
        return f"{headers}; {again}{or_boot(facts, kernel)}"
    if not driver.branch:
        return f"bring the module for {kernel} in the way this driver came{or_boot(facts, kernel)}"
    log = failed_log(facts, kernel)
    ready = prebuilt_instead(facts, kernel) if log or driver.module_for(kernel) else prebuilt(facts, kernel)
    if not is_compiled(facts):
        return ready or f"install a driver that builds its module for {kernel}{or_boot(facts, kernel)}"
    if dkms_packages(facts):
        build = f"{headers} && sudo dkms autoinstall -k {quote(kernel)}"
    else:
        build = f"{headers} {_dkms_of_nvidia(facts)}"
    fix = f"fix what {log} names, then {build}" if log else build
    if log and (other := newer_build(facts) or other_branch_build(facts)):
        fix = f"{other}; or {fix}"
    return f"{ready} (if apt has none: {fix})" if log and ready else fix


def prebuilt(facts: Facts, kernel: str, *others: str, is_instead: bool = False) -> str:
    """What installs Ubuntu's prebuilt, signed module: the package of this one kernel, and the metapackage where its
    kernel is installed, which brings the modules of later kernels, and names this one only once the archive has it.
    Of `others` those that are missing. `is_instead`: a DKMS package goes, so the metapackage has to come: only it
    provides what nvidia-driver-X depends on. Empty where there is none: for a kernel that is not Ubuntu's, or a driver
    of another archive.
    """
    driver, flavour = facts.driver, flavour_of(kernel)
    if not driver.branch or not is_ubuntus(kernel) or not facts.os.is_ubuntu or is_from_nvidia(facts):
        return ""
    name, *more = (f"linux-modules-nvidia-{driver.name}-{one}" for one in dict.fromkeys((kernel, *others)))
    more = [one for one in more if not facts.packages[one].is_installed]
    if facts.packages[name].is_installed:  # its files are gone, or the module that it makes of them
        return f"sudo apt-get install --reinstall {' '.join(map(quote, (name, *more)))}"
    flavours = metapackages(facts.packages.brought, flavour) or ((flavour,) if is_instead else ())
    more += [f"linux-modules-nvidia-{driver.name}-{one}" for one in flavours]
    return f"sudo apt-get update && sudo apt-get install {' '.join(map(quote, (name, *more)))}"


def prebuilt_instead(facts: Facts, kernel: str) -> str:
    """As `prebuilt`, in the place of what DKMS compiles here: depmod.d(5) puts updates/dkms before it. With its package
    the modules of all kernels go, so the running kernel and the next one get prebuilt ones in the same command.
    """
    if not (dkms := dkms_packages(facts)):
        return prebuilt(facts, kernel)
    install = prebuilt(facts, kernel, *kernels_in_use(facts), is_instead=True)
    return " ".join((install, *(f"{quote(one)}-" for one in dkms))) if install else ""


def kernels_in_use(facts: Facts) -> tuple[str, ...]:
    """The running kernel and the one that starts next, as far as they are known and Ubuntu's."""
    found: list[str] = []
    with suppress(UnknownFact):
        found.append(facts.kernel.release)
    with suppress(UnknownFact):
        found.append(facts.boot.next_kernel)
    return tuple(one for one in dict.fromkeys(found) if flavour_of(one))


def suggest_replacement(facts: Facts, module: DriverModule) -> str:
    """What puts the module of the installed packages in the place of this one, which is another version or kind."""
    kernel = module.kernel
    if not facts.driver.branch or failed_log(facts, kernel):
        return commands(facts, kernel)
    if is_compiled(facts):
        dkms = next(iter(dkms_packages(facts)), "")
        is_same = module.version == facts.driver.userspace_version  # DKMS takes it for built
        return (
            f"sudo apt-get install --reinstall {quote(dkms)}"
            if is_same and dkms
            else f"sudo dkms autoinstall -k {quote(kernel)}"
        )
    install = f"sudo apt-get install --reinstall linux-modules-nvidia-{quote(facts.driver.name)}-{quote(kernel)}"
    if module.source == "prebuilt":
        return install
    away, is_by_dkms = _take_away(facts, module)
    return f"{away}; {install}" if is_by_dkms else f"{away}; {install}; sudo depmod {quote(kernel)}"


def is_leftover(facts: Facts, module: DriverModule) -> bool:
    """Whether a module is what nothing installed brings any more, in the place of the prebuilt one of this driver."""
    return module.source != "prebuilt" and not dkms_packages(facts) and not is_compiled(facts)


def replace_leftover(facts: Facts, module: DriverModule) -> str:
    """What takes a leftover module away and loads the prebuilt one. No package is removed."""
    kernel = quote(module.kernel)
    install = f"sudo apt-get install --reinstall linux-modules-nvidia-{quote(facts.driver.name)}-{kernel}"
    away, _ = _take_away(facts, module)
    return f"{away}; {install}; sudo depmod {kernel} && sudo update-initramfs -u -k {kernel}; sudo modprobe nvidia"


def _take_away(facts: Facts, module: DriverModule) -> tuple[str, bool]:
    """(what takes a module away that no package brings, whether DKMS does it)."""
    kernel, path = module.kernel, f"/lib/modules/{module.kernel}/{module.path}"
    if module.source != "dkms":
        return f"move {path} away (dpkg -S says whether a package has it)", False
    built = [one for one in _builds(facts) if one.is_installed and one.kernel == kernel]
    if built:
        return f"sudo dkms remove {quote(f'{built[0].name}/{built[0].version}')} -k {quote(kernel)}", True
    # Of the driver only: nvidia-fs of another package can be in the same folder.
    folder, kept = quote(path.rpartition("/")[0]), quote(f"/root/nvidia-modules-{kernel}")
    files = r"'.*/nvidia\(-uvm\|-modeset\|-drm\|-peermem\)?\.ko\(\.[a-z0-9]+\)?'"
    return f"sudo mkdir -p {kept} && sudo find {folder} -regex {files} -exec mv -t {kept} {{}} +", False


def is_compiled(facts: Facts) -> bool:
    """The driver's modules are compiled here: as NVIDIA's archive has no others, or by a DKMS package where no package
    has prebuilt ones. What dpkg left half-way counts as here."""
    if is_from_nvidia(facts):
        return True
    if any(role_of(name) in PREBUILT for name in facts.packages.brought):
        return False
    return bool(dkms_packages(facts))


def dkms_packages(facts: Facts) -> tuple[str, ...]:
    """nvidia-dkms-580-open, nvidia-kernel-dkms: installed, or half-way. Empty if there is none."""
    packages = facts.packages
    provides = {owner for owner, _ in packages.provided.get(DKMS_PROVIDED, ())}
    return tuple(name for name in packages.brought if role_of(name) is PackageRole.DKMS or name in provides)


def has_prebuilt(facts: Facts, kernel: str) -> bool:
    """Whether a prebuilt module is here for this kernel: its file where that is known, else its package."""
    if (module := facts.driver.module_for(kernel)) is not None:
        return module.source == "prebuilt"
    return any(
        (one := parse_package(name)).role is PackageRole.MODULES
        and one.kernel == kernel
        and one.branch == facts.driver.branch
        for name in facts.packages.names
    )


def is_from_nvidia(facts: Facts) -> bool:
    """Whether the driver is from NVIDIA's archive."""
    return home_of(facts) == "NVIDIA"


def _dkms_of_nvidia(facts: Facts) -> str:
    """As NVIDIA's own archive calls it, which leaves the branch out from 590 on."""
    branch, kind = facts.driver.branch, "-open" if "open" in facts.driver.flavour else ""
    return f"nvidia-dkms{kind}" if int(branch) >= 590 else f"nvidia-dkms-{branch}{kind}"


def or_boot(facts: Facts, kernel: str) -> str:
    """The words for a kernel that could be booted instead; empty for none."""
    other = other_kernel(facts, kernel)
    return f", or boot {other}, which has one" if other else ""


def other_kernel(facts: Facts, kernel: str) -> str:
    """A kernel that could be booted instead: one in /boot whose module is there, and is of the libraries' version where
    the module of this one is not. Empty for none."""
    driver = facts.driver
    others = [one for one in driver.kernels_with_module if one != kernel and one in facts.boot.kernels]
    if driver.module_for(kernel):
        known = {one: driver.module_for(one) for one in others}
        others = [one for one, module in known.items() if module and module.version == driver.userspace_version]
    return others[-1] if others else ""


def _builds(facts: Facts) -> tuple[DkmsBuild, ...]:
    try:
        return facts.driver.dkms
    except UnknownFact:
        return ()


def failed_log(facts: Facts, kernel: str) -> str:
    """The log of the build of the driver that failed for this kernel; empty if none failed."""
    return next((one.log for one in _builds(facts) if one.failed and one.kernel in ("", kernel)), "")
