"""The packages that bring the nvidia module of the installed driver to the kernel that starts at
the next boot.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hosttune.choices.apt_commands import check_commands, has_all, lacks_package
from hosttune.choices.dkms_orphans import free_dkms
from hosttune.choices.drivers.bringer import guest_way
from hosttune.choices.other_build import other_build
from hosttune.choices.own_kernel import are_headers_here, packages_of_kernels, suggest_own_kernel
from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact, attempt, read_or_default
from hosttune.facts.gpu.build_log import (
    CRASHED,
    FULL,
    KILLED,
    NEWER_RELEASE,
    NO_HEADERS,
    NO_KEY,
    NO_SOURCES,
    NO_TOOL,
    OLD_COMPILER,
    REALTIME,
    BuildError,
)
from hosttune.facts.gpu.driver import INSTALLER_LOG
from hosttune.facts.gpu.package_roles import (
    DKMS_PROVIDED,
    PREBUILT,
    PackageRole,
    parse_package,
    role_of,
)
from hosttune.facts.gpu.strangers import home_of
from hosttune.facts.kernel.kernel import (
    HEADERS,
    flavour_of,
    headers_for,
    is_of_proxmox,
    is_ubuntus,
    select_metapackages,
)
from hosttune.facts.storage.kernel_types import LOCK, find_shut, is_loaded_first
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.values import join_steps

if TYPE_CHECKING:
    from hosttune.facts.gpu.driver_modules import DkmsBuild, DriverModule


@frozen
class NextKernel(Fact):
    """What to type where that module is missing; both are empty where it is there."""

    commands: str
    others: tuple[str, ...]  # kernels with a module, which would do until then
    # FILE:LINE that has the next boot load no modules before it comes to that one
    shut_by: str = ""
    way_to_open: str = ""  # what to do about that

    @property
    def way_out(self) -> str:
        """What to type, and that it comes before the boot; empty where nothing is to be typed."""
        return f"do not reboot before: {self.commands}" if self.commands else ""


def _find_lock(facts: Facts) -> NextKernel:
    """What keeps the module from being loaded though it is there: udev asks for it after
    systemd-sysctl.service.
    """
    is_loaded = attempt(lambda: bool(facts.driver.loaded_version))
    # unknown, not "none", where its files cannot be read
    is_set = facts.sysctl_at_boot[LOCK].is_set
    if not is_set or is_loaded_first(facts, "nvidia"):
        return NextKernel("", ())
    lock = find_shut(facts, works=is_loaded is True)
    way = f"do not reboot before this is done\n{lock.way_out}" if lock else ""
    return NextKernel("", (), lock.place if lock else "", way)


def choose(facts: Facts, params: Mapping[str, Any]) -> NextKernel:  # noqa: ARG001 - the interface of all choices
    driver, kernel = facts.driver, facts.boot.next_kernel
    if driver.has_module_for_next_kernel:
        return _find_lock(facts)
    others = tuple(
        one for one in driver.kernels_with_module if one != kernel and one in facts.boot.kernels
    )
    # which itself asks for `prebuilt_instead`
    from hosttune.choices.dpkg_stop import bring_module, try_find_stop

    stop = try_find_stop(facts)
    way = bring_module(facts, stop, kernel) if stop else make_module_commands(facts, kernel)
    return NextKernel(check_commands(facts, way)[0], others)


def make_module_commands(facts: Facts, kernel: str) -> str:
    """What brings the module to a kernel that has none, or an old one. Where it is compiled here
    and a build of it failed, the prebuilt one goes first: the same build fails again.
    """
    driver = facts.driver
    if not driver.branch:
        return _without_packages(facts, kernel)
    log = failed_log(facts, kernel)
    # A kernel that already has a module of DKMS would go on to load that one, as depmod prefers it.
    # Then the DKMS package has to go in the same command.
    ready = (
        prebuilt_instead(facts, kernel)
        if log or driver.module_for(kernel)
        else install_prebuilt(facts, kernel)
    )
    if not is_compiled(facts):
        return ready or _without_prebuilt(facts, kernel)
    if not has_headers(facts, kernel):
        return ready or say_no_headers(facts, kernel)
    dkms = dkms_packages(facts)
    # the package that brings them builds for each kernel with headers
    # `dkms autoinstall` builds nothing without the source, whatever it ends with: only the package
    # brings that back.
    if dkms and (gone := _sources_gone(facts)):
        again = (
            f"sudo apt-get install --reinstall {' '.join(map(quote, gone))} (what DKMS compiles is "
            "gone from /usr/src)"
        )
        build = _with_headers(facts, kernel, again)
    elif dkms:
        build = _with_headers(facts, kernel, f"sudo dkms autoinstall -k {quote(kernel)}")
    else:
        build = _with_headers(
            facts, kernel, f"sudo apt-get install {quote(_dkms_of_archive(facts))}"
        )
    fix = f"{repair_build(facts, kernel)}\n{build}" if log else build
    if log and not error_of_build(facts, kernel).is_of_host and (other := other_build(facts)):
        fix = f"{other}\nor {fix}"
    # before the log that a person has to solve
    if log and (own := suggest_own_kernel(facts, kernel)):
        fix = (
            f"{own}\nor {fix}"
            if not error_of_build(facts, kernel).is_of_host
            else f"{fix}\nor {own}"
        )
    return f"{ready}\nif apt has none: {fix}" if log and ready else fix


def _without_packages(facts: Facts, kernel: str) -> str:
    """The same for a driver that no known package brought: by NVIDIA's installer, or by DKMS of
    another archive.
    """
    is_built = any(
        one.name.startswith("nvidia") and not one.failed for one in _list_builds(facts)
    )  # its source is there
    if not is_built and not facts.driver.runfile:
        again = f"bring the module for {kernel} in the way this driver came{or_boot(facts, kernel)}"
        if attempt(lambda: facts.managers.kubelet and facts.host.cloud != "") is True:
            return (
                "replace this node by one of a newer node image, where the image brought the "
                "driver\n"
                f"if not, {again}"
            )
        return again
    if not has_headers(facts, kernel):
        return say_no_headers(facts, kernel)
    if failed_log(facts, kernel):
        return _without_failed_build(facts, kernel)
    again = (
        "run the installer that brought the driver again, with --dkms "
        f"--kernel-name={quote(kernel)}"
    )
    if newer := _newer_installer(facts):  # an old release may not build for a new kernel
        again += f" (where that does not build, {newer})"
    again = (
        f"sudo dkms autoinstall -k {quote(kernel)}"
        if is_built
        else _after_failed_installer(facts, kernel, again)
    )
    built = _with_headers(facts, kernel, again, "\n")
    return f"{built}{or_boot(facts, kernel)}"


def _after_failed_installer(facts: Facts, kernel: str, again: str) -> str:
    """What to do where the last run of NVIDIA's installer failed at its build, which is for the
    running kernel; else `again`. Only what this host is the cause of leaves the same release a
    chance.
    """
    driver = facts.driver
    if (
        not driver.runfile
        or kernel != facts.kernel.release
        or not (build := driver.installer_build).words
    ):
        return again
    if repair := repair_of_host(build, kernel):
        return f"{repair}\n{again}"
    newer = (
        _newer_installer(facts) or "a newer release of the driver that came with NVIDIA's installer"
    )
    return f"{newer}, as the last run of the installer failed ({INSTALLER_LOG}: {build.words})"


def _without_failed_build(facts: Facts, kernel: str) -> str:
    """A driver without packages whose build failed: the same build fails again."""
    other = other_kernel(facts, kernel)
    newer = _newer_installer(facts) or "a newer version of it"
    fix = f"{repair_build(facts, kernel)}\n{_autoinstall(facts, kernel)}"
    if error_of_build(facts, kernel).is_of_host:
        return fix
    fix = "\nor ".join(part for part in (newer, suggest_own_kernel(facts, kernel), fix) if part)
    return f"boot {other}, which has a module\nor {fix}" if other else fix


def _newer_installer(facts: Facts) -> str:
    """What has a newer driver than that of the installer; empty where it came in another way. The
    one of a vGPU comes in the release of its hypervisor.
    """
    if attempt(lambda: facts.nvidia.is_vgpu) is True:
        return guest_way(facts)
    if not facts.driver.runfile or facts.driver.is_vgpu_manager:
        return ""
    return "NVIDIA's installer of a newer version (nvidia.com/drivers), with --dkms"


def has_headers(facts: Facts, kernel: str) -> bool:
    """Whether the headers of a kernel are installed, or apt may have them."""
    return are_headers_here(facts, kernel) or not lacks_package(facts, headers_for(kernel))


def _with_headers(facts: Facts, kernel: str, build: str, then: str = " && ") -> str:
    """A build, after the headers of the kernel where those are not here."""
    first, rest = free_dkms(facts), _bring_headers(facts, kernel, build, then)
    return join_steps((first, rest))


def _bring_headers(facts: Facts, kernel: str, build: str, then: str) -> str:
    if are_headers_here(facts, kernel):
        return build
    names = " ".join(map(quote, (headers_for(kernel), *_headers_to_come(facts, kernel))))
    install = "sudo apt-get install "
    if build.startswith(install) and "--reinstall" not in build:  # one run of apt
        return f"{install}{names} {build.removeprefix(install)}"
    return f"{install}{names}{then}{build}"


def _autoinstall(facts: Facts, kernel: str) -> str:
    return join_steps((free_dkms(facts), f"sudo dkms autoinstall -k {quote(kernel)}"))


def _headers_to_come(facts: Facts, kernel: str) -> list[str]:
    """What brings the headers of later kernels, where the metapackage of the kernels is here and
    that of their headers is not: else the next kernel has no module again.
    """
    flavours = select_metapackages(facts.packages.brought, flavour_of(kernel))
    names = [f"{HEADERS}-{one}" for one in flavours]
    return [one for one in names if not facts.packages[one].is_installed and has_all(facts, one)]


def _sources_gone(facts: Facts) -> tuple[str, ...]:
    """The packages that bring what DKMS compiles, where that is gone from /usr/src; none where it
    is there.
    """
    wanted = facts.driver.userspace_version
    # Entries of earlier versions lose their source with their package, which is right. Only the
    # version in use has to have one.
    builds = [one for one in _list_builds(facts) if one.version == wanted]
    if not builds or any(one.has_source for one in builds):
        return ()
    names = [name for name in facts.packages.brought if role_of(name) is PackageRole.SOURCE]
    return (*dkms_packages(facts), *names)


def say_no_headers(facts: Facts, kernel: str) -> str:
    """The archives keep headers of the newest kernels only, so that a kernel goes together with its
    headers.
    """
    flavour, sentence = flavour_of(kernel), f"no list of apt has {headers_for(kernel)}"
    newer = (f"linux-image-{flavour}", f"{HEADERS}-{flavour}") if flavour else ()
    if is_of_proxmox(kernel):
        newer = ("proxmox-default-kernel", "proxmox-default-headers")
    ways = []
    if newer and has_all(facts, *newer):
        ways.append(
            f"sudo apt-get update && sudo apt-get install {' '.join(map(quote, newer))}, and boot "
            "that kernel"
        )
    if other := other_kernel(facts, kernel):
        ways.append(f"boot {other}, which has a module")
    if not other and (own := suggest_own_kernel(facts, kernel)):
        ways.append(own)
    return f"{sentence}: {'; or '.join(ways) or 'sudo apt-get update, and look again'}"


def _without_prebuilt(facts: Facts, kernel: str) -> str:
    """Where apt has no module for this kernel: another kernel, or the module compiled here, where
    apt has that.
    """
    driver, ways = facts.driver, list[str]()
    if other := other_kernel(facts, kernel):
        unused = [*map(quote, removable_packages(facts, kernel))]
        remove = (
            f", and remove {kernel} until there is a module for it: sudo apt-get remove "
            f"{' '.join(unused)}"
        )
        ways.append(
            f"let {other} boot, which has one{remove if unused else ' (choose it in GRUB)'}"
        )
    compiled = (f"nvidia-dkms-{driver.name}", headers_for(kernel))
    if has_all(facts, *compiled):
        ways.append(f"compile it here: sudo apt-get install {' '.join(map(quote, compiled))}")
    if not ways and (own := suggest_own_kernel(facts, kernel)):
        ways.append(own)
    ready = f"linux-modules-nvidia-{driver.name}-{kernel}"
    if lacks_package(facts, ready):
        sentence = f"no list of apt has {ready}: "
        return sentence + (
            "; or ".join(ways) or "sudo apt-get update, and look again, or boot another kernel"
        )
    return "; or ".join(ways) or f"install a driver that builds its module for {kernel}"


def removable_packages(facts: Facts, *kernels: str) -> tuple[str, ...]:
    """The packages of those kernels that can go: they do not run, and another one in /boot has a
    module.
    """
    try:
        there = set(facts.driver.kernels_with_module) & set(facts.boot.kernels)
        idle = [
            # The last kernel with a module is never one of them, so that no advice leaves a host
            # without a kernel on which its GPUs work.
            one
            for one in kernels
            if one != facts.kernel.release and len(there) > (one in there)
        ]
    except UnknownFact:
        return ()
    return packages_of_kernels(facts, *idle)


def install_prebuilt(facts: Facts, kernel: str, *others: str, is_instead: bool = False) -> str:
    """What installs Ubuntu's prebuilt, signed module: the package of this one kernel, and the
    metapackage where its kernel is installed, which brings the modules of later kernels, and names
    this one only once the archive has it. Of `others` those that are missing. `is_instead`: a DKMS
    package goes, so the metapackage has to come: only it provides what nvidia-driver-X depends on.
    Empty where there is none: for a kernel that is not Ubuntu's, or a driver of another archive.
    """
    driver, flavour = facts.driver, flavour_of(kernel)
    if (
        not driver.branch
        or not is_ubuntus(kernel)
        or not facts.os.is_ubuntu
        or is_from_nvidia(facts)
    ):
        return ""
    name, *more = (
        f"linux-modules-nvidia-{driver.name}-{one}" for one in dict.fromkeys((kernel, *others))
    )
    more = [one for one in more if not facts.packages[one].is_installed]
    if facts.packages[name].is_installed:  # its files are gone, or the module that it makes of them
        return f"sudo apt-get install --reinstall {' '.join(map(quote, (name, *more)))}"
    if lacks_package(facts, name):
        return ""
    flavours = select_metapackages(facts.packages.brought, flavour) or (
        (flavour,) if is_instead else ()
    )
    meta = [
        one
        for flavour in flavours
        if not lacks_package(facts, one := f"linux-modules-nvidia-{driver.name}-{flavour}")
    ]
    # apt would remove nvidia-driver-X together with the DKMS package, as nothing else provides what
    # it depends on.
    if is_instead and not meta:
        return ""
    more = [*(one for one in more if not lacks_package(facts, one)), *meta]
    return f"sudo apt-get update && sudo apt-get install {' '.join(map(quote, (name, *more)))}"


def prebuilt_instead(facts: Facts, kernel: str) -> str:
    """As `install_prebuilt`, in the place of what DKMS compiles here: depmod.d(5) puts updates/dkms
    before it. With its package the modules of all kernels go: the running kernel and the next one
    get prebuilt ones in the same command.
    """
    if not (dkms := dkms_packages(facts)):
        return install_prebuilt(facts, kernel)
    install = install_prebuilt(facts, kernel, *kernels_in_use(facts), is_instead=True)
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
    """What puts the module of the installed packages in the place of this one, which is another
    version or kind.
    """
    kernel = module.kernel
    if not facts.driver.branch or failed_log(facts, kernel):
        return make_module_commands(facts, kernel)
    if facts.driver.runfile and module.source != "prebuilt":
        return _without_installer(facts, kernel)
    if is_compiled(facts):
        if gone := _sources_gone(facts):
            return f"sudo apt-get install --reinstall {' '.join(map(quote, gone))}"
        dkms = next(iter(dkms_packages(facts)), "")
        # a module that was built by hand: DKMS knows of no source
        if not dkms and not _list_builds(facts):
            name = _dkms_of_archive(facts, is_open=module.is_open is True)
            return _with_headers(facts, kernel, f"sudo apt-get install {quote(name)}")
        is_same = module.version == facts.driver.userspace_version  # DKMS takes it for built
        return (
            f"sudo apt-get install --reinstall {quote(dkms)}"
            if is_same and dkms
            else _autoinstall(facts, kernel)
        )
    install = (
        "sudo apt-get install --reinstall "
        f"linux-modules-nvidia-{quote(facts.driver.name)}-{quote(kernel)}"
    )
    if module.source == "prebuilt":
        return install
    away, is_by_dkms = _take_away(facts, module)
    return f"{away}\n{install}" if is_by_dkms else f"{away}\n{install}\nsudo depmod {quote(kernel)}"


def _without_installer(facts: Facts, kernel: str) -> str:
    """NVIDIA's installer put its driver over the packages: what takes it away as a whole, its
    modules, their builds by DKMS and its libraries, and brings back what it replaced.
    """
    name = f"linux-modules-nvidia-{facts.driver.name}-{kernel}"
    again = f"sudo apt-get install --reinstall {quote(name)}"
    if not facts.packages[name].is_installed:
        again = (
            f"sudo dkms autoinstall -k {quote(kernel)}"
            if is_compiled(facts)
            else make_module_commands(facts, kernel)
        )
    return f"sudo nvidia-uninstall\n{again}\nsudo depmod {quote(kernel)}\nsudo ldconfig"


def is_leftover(facts: Facts, module: DriverModule) -> bool:
    """Whether a module is what nothing installed brings any more, in the place of the prebuilt one
    of this driver.
    """
    return module.source != "prebuilt" and not dkms_packages(facts) and not is_compiled(facts)


def replace_leftover(facts: Facts, module: DriverModule) -> str:
    """What takes a leftover module away and loads the prebuilt one. No package is removed."""
    kernel = quote(module.kernel)
    install = (
        f"sudo apt-get install --reinstall linux-modules-nvidia-{quote(facts.driver.name)}-{kernel}"
    )
    away, _ = _take_away(facts, module)
    return (
        f"{away}\n"
        f"{install}\n"
        f"sudo depmod {kernel} && sudo update-initramfs -u -k {kernel}\n"
        "sudo modprobe nvidia"
    )


def _take_away(facts: Facts, module: DriverModule) -> tuple[str, bool]:
    """(what takes a module away that no package brings, whether DKMS does it)."""
    kernel, path = module.kernel, f"/lib/modules/{module.kernel}/{module.path}"
    built = [one for one in _list_builds(facts) if one.is_installed and one.kernel == kernel]
    if built and module.source == "dkms":
        return (
            f"sudo dkms remove {quote(f'{built[0].name}/{built[0].version}')} -k {quote(kernel)}",
            True,
        )
    # Of the driver only: nvidia-fs of another package can be in the same folder.
    folder, kept = quote(path.rpartition("/")[0]), quote(f"/root/nvidia-modules-{kernel}")
    name = path.rpartition("/")[2].partition(".ko")[0]
    # The files are moved and not deleted: if the prebuilt module does not load, they are the only
    # way back.
    files = quote(rf".*/{name}\(-uvm\|-modeset\|-drm\|-peermem\)?\.ko\(\.[a-z0-9]+\)?")
    return (
        f"sudo mkdir -p {kept} && sudo find {folder} -regex {files} -exec mv -t {kept} {{}} +",
        False,
    )


def is_compiled(facts: Facts) -> bool:
    """The driver's modules are compiled here: as NVIDIA's archive has no others, or by a DKMS
    package where no package has prebuilt ones. What dpkg left half-way counts as here.
    """
    if is_from_nvidia(facts):
        return True
    # A DKMS package beside prebuilt modules is often a leftover of an earlier install. The prebuilt
    # ones decide, as their kernels come with them.
    if any(role_of(name) in PREBUILT for name in facts.packages.brought):
        return False
    return bool(dkms_packages(facts))


def dkms_packages(facts: Facts) -> tuple[str, ...]:
    """nvidia-dkms-580-open, nvidia-kernel-dkms: installed, or half-way. Empty if there is none."""
    packages = facts.packages
    provides = {owner for owner, _ in packages.provided.get(DKMS_PROVIDED, ())}
    return tuple(
        name for name in packages.brought if role_of(name) is PackageRole.DKMS or name in provides
    )


def has_prebuilt(facts: Facts, kernel: str) -> bool:
    """Whether a prebuilt module is here for this kernel: its file where that is known, else its
    package.
    """
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


def _dkms_of_archive(facts: Facts, *, is_open: bool = False) -> str:
    """As the driver's own archive calls it: NVIDIA's for Ubuntu leaves the branch out from 590 on,
    those for Debian have names of their own. `is_open`: even if no package of the driver tells it.
    """
    branch, is_open = facts.driver.branch, is_open or "open" in facts.driver.flavour
    kind = "-open" if is_open else ""
    names = (f"nvidia-dkms{kind}", f"nvidia-dkms-{branch}{kind}")
    names = names if int(branch) >= 590 else names[::-1]
    names = (
        *names,
        *(
            ("nvidia-kernel-open-dkms", "nvidia-open-kernel-dkms")
            if is_open
            else ("nvidia-kernel-dkms",)
        ),
    )
    return next((one for one in names if has_all(facts, one)), names[0])


def or_boot(facts: Facts, kernel: str) -> str:
    """The words for a kernel that could be booted instead; empty for none."""
    other = other_kernel(facts, kernel)
    return f", or boot {other}, which has one" if other else ""


def other_kernel(facts: Facts, kernel: str) -> str:
    """A kernel that could be booted instead: one in /boot whose module is there, and is of the
    libraries' version where the module of this one is not. Empty for none.
    """
    driver = facts.driver
    others = [
        one for one in driver.kernels_with_module if one != kernel and one in facts.boot.kernels
    ]
    if driver.module_for(kernel):
        known = {one: driver.module_for(one) for one in others}
        others = [
            one
            for one, module in known.items()
            if module and module.version == driver.userspace_version
        ]
    return others[-1] if others else ""


def _list_builds(facts: Facts) -> tuple[DkmsBuild, ...]:
    return read_or_default(lambda: facts.driver.dkms, ())


def failed_log(facts: Facts, kernel: str) -> str:
    """The log of the build of the driver that failed for this kernel; empty if none failed."""
    build = _failed_build(facts, kernel)
    return build.log if build else ""


def error_of_build(facts: Facts, kernel: str) -> BuildError:
    """Why a build of the driver for this kernel failed; an empty one if none failed, or its log
    does not tell.
    """
    build = _failed_build(facts, kernel)
    return build.error if build else BuildError()


def repair_build(facts: Facts, kernel: str) -> str:
    """What removes the cause of the build that failed for this kernel; empty if none failed."""
    build = _failed_build(facts, kernel)
    return (build and (repair_of_host(build.error, kernel) or f"fix what {build.log} names")) or ""


def repair_of_host(error: BuildError, kernel: str) -> str:
    """What removes the cause of a build for this kernel that failed as this host is; empty for
    another cause. The build takes /usr/bin/gcc, so that the compiler of the kernel has to be that
    one.
    """
    if not error.is_of_host:
        return ""
    if error.cause != OLD_COMPILER:
        return _repair_of_cause(error, kernel)
    if not error.compiler:
        named = f"grep CC_VERSION_TEXT {quote(f'/boot/config-{kernel}')}"
        return (
            f"make the compiler that built the kernel /usr/bin/gcc, as this one is older: {named} "
            "shows which"
        )
    gcc, number = error.compiler, error.compiler.removeprefix("gcc-")
    link = f"sudo update-alternatives --install /usr/bin/gcc gcc /usr/bin/{gcc} {number}"
    return f"bring {gcc}, which built the kernel: sudo apt-get install {gcc}\n{link}"


def _repair_of_cause(error: BuildError, kernel: str) -> str:
    again = f"sudo apt-get install --reinstall {quote(headers_for(kernel))}"
    ways = {
        CRASHED: "the compiler crashed, as where memory or processor fail: take back overclocking "
        "(XMP, EXPO), and test the memory (memtest86+)\n"
        "see what the kernel says: sudo dmesg | grep -iE 'hardware error|segfault'",
        KILLED: "the compiler was killed, mostly as memory ran out: sudo dmesg | grep -i 'out of "
        "memory'\n"
        "end what uses the memory, or add swap",
        FULL: "make room where it is missing: df -h /var /tmp",
        NO_HEADERS: f"bring the kernel's headers back whole: {again}",
        NO_SOURCES: "bring the kernel's headers: "
        f"sudo apt-get install {quote(headers_for(kernel))}",
        NEWER_RELEASE: f"the headers of {kernel} are made for a newer release than this one: boot "
        "a kernel of this release's own archive, and remove that one with its headers",
        REALTIME: f"boot a kernel without PREEMPT_RT: NVIDIA's driver is not made for {kernel}",
        # Ubuntu's shim-signed; elsewhere DKMS makes its own key (dkms(8)).
        NO_KEY: "make the key that modules are signed with: "
        + (
            "sudo update-secureboot-policy --new-key"
            if "shim-signed" in error.words
            else "sudo dkms generate_mok\nsudo mokutil --import /var/lib/dkms/mok.pub"
        ),
        NO_TOOL: f"bring what builds it: sudo apt-get install {quote(_package_of(error.compiler))}",
    }
    return ways[error.cause]


def _package_of(program: str) -> str:
    """The package with a program that a build misses: plain names of compiler, linker and make are
    of one set.
    """
    name = program.rpartition("-linux-gnu-")[2]
    return (
        "build-essential"
        if name in ("cc", "gcc", "ld", "make")
        else "dwarves"
        if name == "pahole"
        else name
    )


def _failed_build(facts: Facts, kernel: str) -> DkmsBuild | None:
    return next(
        (one for one in _list_builds(facts) if one.failed and one.kernel in ("", kernel)), None
    )
