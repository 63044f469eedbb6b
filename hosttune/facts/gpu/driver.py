"""The NVIDIA driver as it is: loaded module, libraries, packages, module files; all of it readable
without root.

Sources: /proc/driver/nvidia/version (NVIDIA's README, chapter on the /proc interface), /sys/module
(kernel: Documentation/ABI/stable/sysfs-module), modules.dep(5), Ubuntu's packaging
(github.com/canonical/nvidia-graphics-drivers).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, any_known, attempt, get_raw
from hosttune.facts.gpu.build_log import BuildError, error_in
from hosttune.facts.gpu.driver_modules import (
    PASSES_ORPHANS,
    DkmsBuild,
    DriverModule,
    ModuleFolder,
    config_of,
    dkms_builds,
    failed_others,
    has_module_for_next,
    kernels_of_interest,
    modules_of,
    orphans_in,
)
from hosttune.facts.gpu.gpu_holders import GpuHolder, find_holders
from hosttune.facts.gpu.package_roles import (
    BRINGS_MODULES,
    MOST_PACKAGES,
    PREBUILT,
    PackageName,
    PackageRole,
    is_driver_package,
    is_fabric_manager,
    parse_package,
    role_of,
)
from hosttune.facts.packages import INTERRUPTED, is_unfinished
from hosttune.facts.reading import (
    all_sure,
    is_there,
    read_line,
    read_text,
    require_known,
    require_sure,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import compare_versions, sorted_versions, upstream_of
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

__all__ = [
    "DkmsBuild",
    "Driver",
    "DriverModule",
    "DriverPackage",
    "branch_and_flavour",
    "find_transitional",
    "is_driver_package",
    "library_version",
    "parse_loaded",
]  # fmt: skip

_VERSION = r"(\d{2,}\.\d+(?:\.\d+)*)"
_LOADED = regex(
    rf"^NVRM version:.*?\bKernel Module\b(?: for \S+)?\s+{_VERSION}(?:\s|$)", re.MULTILINE
)
_LIBRARY = regex(rf"/lib(?:nvidia-ml|cuda)\.so\.{_VERSION}$")
# Ubuntu names the branch in these, and they are never empty steps to another one, as
# nvidia-driver-570 became.
_REAL = frozenset({
    "nvidia-kernel-common", "nvidia-utils", "nvidia-compute-utils", "nvidia-dkms",
    "nvidia-headless-no-dkms",
})  # fmt: skip
# These differ between open and closed.
_OF_A_KIND = frozenset({
    "nvidia-driver", "nvidia-headless", "nvidia-headless-no-dkms", "nvidia-dkms",
    "nvidia-kernel-source", "linux-modules-nvidia",
})  # fmt: skip
# Debian's own names, and those of NVIDIA's archive from 590 on: the branch shows in the version
# only.
_UNNUMBERED = (
    "nvidia-kernel-common", "nvidia-kernel-dkms", "nvidia-open-kernel-dkms",
    "nvidia-kernel-open-dkms", "nvidia-dkms", "nvidia-dkms-open", "nvidia-driver",
)  # fmt: skip
_NUMBERED = _REAL | _OF_A_KIND - {"linux-modules-nvidia"}
_LIBRARIES = ("libnvidia-ml.so.1", "libcuda.so.1")
# missing from some packages since 560 (leptonai/gpud pull 415, nvidia_oc issue 23)
_PLAIN_NVML = "libnvidia-ml.so"
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64", "/usr/lib",
)  # fmt: skip
_TRIGGERED = ("initramfs-tools", "dracut", "libc-bin")
INSTALLER_LOG = "/var/log/nvidia-installer.log"
_INSTALLER_SAYS = regex(r"^ERROR: ([^\n]{1,200}?)(?:\. {1,4}[A-Z]|\.?$)", re.MULTILINE)
_RUNFILE = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
# libcuda makes the device itself for root; for others it starts nvidia-modprobe, which is setuid
# (nvidia-modprobe(1)).
_UVM, NVIDIA_MODPROBE = "/dev/nvidia-uvm", "/usr/bin/nvidia-modprobe"
_SETUID = 0o4000
# Of the host driver of vGPUs, by runfile or .deb (docs.nvidia.com/vgpu; names as in
# NVIDIA/gpu-operator issue 554).
_VGPU_MANAGER = (
    "/usr/bin/nvidia-vgpu-mgr",
    "/usr/bin/nvidia-vgpud",
    "/sys/module/nvidia_vgpu_vfio",
)


@frozen
class DriverPackage(Fact):
    """One installed package of the driver, or one that dpkg left half-way."""

    name: str  # of the package
    version: str  # as dpkg knows it
    is_held: bool  # apt-mark hold
    status: str  # as Package.status: installed, half-configured ...


@frozen
class Driver(Subject):
    """What is installed, what is loaded, and whether they agree."""

    @fact
    def loaded_version(self) -> str:
        """Of the module in the kernel: 580.95.05; empty when none is loaded."""
        return self._loaded[0]

    @fact
    def is_open(self) -> bool:
        """The loaded module is the open one."""
        return self._loaded[1]

    @fact
    def userspace_version(self) -> str:
        """Of libnvidia-ml, or libcuda; empty when there is none."""
        for name in _LIBRARIES:
            for folder in _LIBRARY_FOLDERS:
                # The link is followed, and the folder not listed: an old file beside the new one is
                # not what a program loads.
                found = require_sure(self.reader.resolve(f"{folder}/{name}"))
                if isinstance(found, str) and (version := library_version(found)):
                    return version
        return ""

    @fact
    def has_plain_nvml(self) -> bool:
        """libnvidia-ml.so, the name that Slurm before 24.05.5 loads, and that drivers from 560 on
        may lack.
        """
        return any(is_there(self.reader, f"{folder}/{_PLAIN_NVML}") for folder in _LIBRARY_FOLDERS)

    @fact
    def packages(self) -> tuple[DriverPackage, ...]:
        names = [name for name in self.facts.packages.entries if is_driver_package(name)]
        if len(names) > MOST_PACKAGES:
            raise UnknownFact(f"dpkg lists more than {MOST_PACKAGES:,} packages of a driver")
        known = [self.facts.packages[name] for name in sorted(names)]
        return tuple(
            DriverPackage(p.name, p.version, p.is_held, p.status)
            for p in known
            if p.status != "config-files"
        )

    @fact
    def branch(self) -> str:
        """580, from the packages that really bring it; empty without packages."""
        return self._named[0]

    @fact
    def flavour(self) -> str:
        """Of the packages: empty (the plain closed one), open, server, server-open."""
        return self._named[1]

    @fact
    def has_module_for_running_kernel(self) -> bool:
        """`modprobe` finds nvidia.ko for uname -r."""
        return self._folder.has(self.facts.kernel.release)

    @fact
    def kernels_with_module(self) -> tuple[str, ...]:
        """The kernels in /lib/modules that have an nvidia.ko."""
        return self._folder.with_module

    # nouveau holds a GPU
    nouveau_bound: bool = read_with(lambda self: "nouveau" in self.facts.gpus.drivers)

    @fact
    def runfile(self) -> bool:
        """NVIDIA's own installer put a driver here, outside of dpkg."""
        stats = [self.reader.stat(path) for path in _RUNFILE]
        # One file that is there proves the installer, whatever of the other one cannot be seen.
        # That neither is there needs both answers.
        return any(isinstance(stat, Stat) for stat in stats) or any(
            require_sure(stat) is not ABSENT for stat in stats
        )

    @fact
    def modules(self) -> tuple[DriverModule, ...]:
        """Of the running kernel and of the one that starts next, where they have one."""
        return modules_of(self.reader, self._folder, kernels_of_interest(self.facts))

    @fact
    def has_module_for_next_kernel(self) -> bool:
        """`modprobe` will find nvidia.ko for boot.next_kernel."""
        return has_module_for_next(self.facts, lambda: self._folder)

    @fact
    def dkms(self) -> tuple[DkmsBuild, ...]:
        """What DKMS built of the driver, and what it could not."""
        return dkms_builds(self.reader, lambda: self._folder)

    @fact
    def failed_others(self) -> tuple[DkmsBuild, ...]:
        """What DKMS could not build besides the driver."""
        return failed_others(self.reader, lambda: self._folder)

    @fact
    def dkms_orphans(self) -> tuple[str, ...]:
        """NAME/VERSION of modules in the tree of DKMS whose source is gone from /usr/src, also of
        other makers; none where the installed dkms passes over them."""
        version = self.facts.packages["dkms"].version
        if not version or compare_versions(version, PASSES_ORPHANS) >= 0:
            return ()
        return orphans_in(self.reader)

    @fact
    def half_way(self) -> str:
        """With what of it dpkg stopped half-way, a phrase; empty where all is whole."""
        return _half_way(self.packages, self.facts)

    # other kernel drivers that hold GPUs: nouveau, NovaCore, pci-stub ...
    holders: tuple[GpuHolder, ...] = read_with(lambda self: find_holders(self.reader, self.facts))

    @fact
    def is_vgpu_manager(self) -> bool:
        """It shares the GPUs among virtual machines; no archive has such a driver.

        Whether a file of NVIDIA's vGPU manager is there; False if that cannot be read, as few hosts
        have one.
        """
        return any(isinstance(self.reader.stat(path), Stat) for path in _VGPU_MANAGER)

    @fact
    def lacks_uvm(self) -> bool:
        """/dev/nvidia-uvm, which CUDA needs, is missing, and no nvidia-modprobe makes it for
        users.
        """
        return not is_there(self.reader, _UVM) and _read_modprobe(self.reader) is not True

    @fact
    def installer_error(self) -> str:
        """Why the last run of NVIDIA's installer failed; empty where it did not, or is not known.

        The first error that the installer itself says.
        """
        match = _INSTALLER_SAYS.search(_failed_installer(self.reader))
        return match[1] if match else ""

    @fact
    def installer_build(self) -> BuildError:
        """Why its build failed, where that is what ended the last run.

        The installer builds for the running kernel, unless another one is given.
        """
        return error_in(
            _failed_installer(self.reader),
            lambda: config_of(self.reader, self.facts.kernel.release),
        )

    # nvidia-modprobe is here, and does not run as root when a user starts it
    has_plain_modprobe: bool = read_with(lambda self: _read_modprobe(self.reader) is False)

    @fact
    def _loaded(self) -> tuple[str, bool]:
        """Version and openness of the loaded module. A proprietary one taints the kernel, and
        itself says P.
        """
        content = attempt(read_text, self.reader, "/proc/driver/nvidia/version")
        if isinstance(content, str) and (found := parse_loaded(content))[0]:
            return found
        version = attempt(read_line, self.reader, "/sys/module/nvidia/version")
        if isinstance(version, str):
            taint = read_line(self.reader, "/sys/module/nvidia/taint")
            return version, isinstance(taint, str) and "P" not in taint
        # Neither file has a version. That no module is loaded is proven only if both were seen to
        # be absent.
        all_sure((content, version))
        if self.reader.stat("/sys/module") is ABSENT:
            raise UnknownFact("/sys is not mounted")
        return "", False

    @fact
    def _folder(self) -> ModuleFolder:
        return ModuleFolder(self.reader, self.facts)

    @fact
    def _named(self) -> tuple[str, str]:
        """(branch, flavour)."""
        there = [(one.name, one.version) for one in self.packages]
        return branch_and_flavour(there, attempt(_built_open, self.facts))

    @property
    def is_loaded(self) -> bool:
        """Whether the kernel has loaded NVIDIA's module."""
        return bool(self.loaded_version)

    @property
    def is_installed(self) -> bool:
        """Whether a driver is there, by packages, by NVIDIA's installer or from somewhere else."""
        return bool(self.branch) or self.runfile or self.is_foreign

    @property
    def is_foreign(self) -> bool:
        """No package that is known and no installer of NVIDIA's brought it, and it is whole: its
        libraries are here, and a module of some kernel or DKMS's source of one, as of a cloud's
        vGPU driver (nvidia-vgpu-kmod).
        """
        if self.branch or self.runfile or not self.userspace_version:
            return False
        return bool(self.kernels_with_module or self.dkms)

    @property
    def is_present(self) -> bool:
        """There is a driver, from wherever: installed, or only loaded (from a container, from an
        image).
        """
        return any_known(lambda name: bool(getattr(self, name)), ("is_installed", "is_loaded"))

    @property
    def is_on_disk(self) -> bool:
        """It is installed; or it is loaded, and its module is in /lib/modules, though no one knows
        who brought it.
        """
        return self.is_installed or (self.is_loaded and bool(self.kernels_with_module))

    @property
    def name(self) -> str:
        """580-server-open; empty without packages."""
        return "-".join(part for part in (self.branch, self.flavour) if part)

    @property
    def is_mismatched(self) -> bool:
        """Loaded module and libraries have different versions: NVML and CUDA refuse to start."""
        return (
            bool(self.loaded_version and self.userspace_version)
            and self.loaded_version != self.userspace_version
        )

    @property
    def is_in_use(self) -> bool:
        """What is installed is what runs: the module is loaded, in the version of the libraries,
        and the open one where the module files are of the open one.
        """
        if not self.is_loaded or self.is_mismatched:
            return False
        try:
            return not self.modules or any(
                module.is_open == self.is_open for module in self.modules
            )
        except UnknownFact:  # modinfo does not tell
            return True

    @property
    def transitional(self) -> tuple[str, ...]:
        """Empty steps to another branch: nvidia-driver-570 at version 580.x."""
        return find_transitional((package.name, package.version) for package in self.packages)

    @property
    def fabricmanager_version(self) -> str:
        """Of the installed Fabric Manager, as the driver spells its own: 580.126.20; empty without
        one.
        """
        found = [upstream_of(one.version) for one in self.packages if is_fabric_manager(one.name)]
        return sorted_versions(found)[-1] if found else ""

    @property
    def persistenced(self) -> bool:
        """A package of the driver brings nvidia-persistenced (Ubuntu: nvidia-compute-utils-N)."""
        bases = {parse_package(package.name).base for package in self.packages}
        return bool(bases & {"nvidia-compute-utils", "nvidia-persistenced"})

    @property
    def is_gone(self) -> bool:
        """The module is loaded still, and on no disk: of its packages remains are left, and none
        that brings it.
        """
        if not self.is_loaded or not self.packages or self.runfile or self.kernels_with_module:
            return False
        return not any(role_of(package.name) in BRINGS_MODULES for package in self.packages)

    def module_for(self, kernel: str) -> DriverModule | None:
        """The module of the running or the next kernel; None where that kernel has none, or is
        another one.
        """
        return next((module for module in self.modules if module.kernel == kernel), None)

    @property
    def held(self) -> tuple[str, ...]:
        """The names of its packages that apt holds back."""
        return tuple(package.name for package in self.packages if package.is_held)


def parse_loaded(version: str) -> tuple[str, bool]:
    """(version, whether it is the open module) of /proc/driver/nvidia/version; ("", False) where it
    says neither.
    """
    match = _LOADED.search(version)
    return (match[1], "Open Kernel Module" in match[0]) if match else ("", False)


def library_version(path: str) -> str:
    """The version that a library's own file name carries: libnvidia-ml.so.580.95.05."""
    match = _LIBRARY.search(path)
    return match[1] if match else ""


def branch_and_flavour(
    packages: Iterable[tuple[str, str]], is_open: object = None
) -> tuple[str, str]:
    """(branch, flavour) of (name, version) pairs of installed packages; ("", "") where none of them
    is a driver. Where they are of both kinds `is_open` decides: whether the module that is built or
    loaded is the open one.
    """
    versions = dict(packages)
    names = [parse_package(name) for name in versions]
    real = sorted(
        {(int(one.branch), one.is_server) for one in names if one.branch and one.base in _REAL}
    )
    if real:
        # Remains of an older branch can stay after an upgrade, so the newest one counts.
        branch, is_server = real[-1]
        kinds = _find_kinds((str(branch), is_server), names)
        opened = bool(kinds) and (kinds == {True} or (len(kinds) > 1 and is_open is True))
        return str(branch), "-".join(
            word for word in ("server" if is_server else "", "open" if opened else "") if word
        )
    for name in _UNNUMBERED:
        if match := re.match(r"(?:\d+:)?(\d{3,})\.", versions.get(name, "")):
            return match[1], "open" if any(
                one.role is PackageRole.DKMS and one.is_open for one in names
            ) else ""
    return "", ""


def _find_kinds(wanted: tuple[str, bool], names: Iterable[PackageName]) -> set[bool]:
    """Whether packages of the open or the closed module are among these. A metapackage without
    -open whose twin with it is there is an empty step to that one: nvidia-driver-615 depends on
    nvidia-driver-615-open, and of two that bring something each excludes the other. Modules of both
    kinds can lie side by side.
    """
    found = [
        one for one in names if one.base in _OF_A_KIND and (one.branch, one.is_server) == wanted
    ]
    opened = {one.base for one in found if one.is_open and one.role not in PREBUILT}
    return {one.is_open for one in found if one.is_open or one.base not in opened}


def find_transitional(packages: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Of (name, version) pairs of installed packages those whose own number is not the branch that
    they bring: by their version, or because another branch is there, which would exclude them if
    they brought something (nvidia-driver-550-server 550.163.01 leads to 570-server); and for a
    modules metapackage, which is versioned as the kernel, by the modules that came with it.
    """
    versions = dict(packages)
    real, _ = branch_and_flavour(versions.items())
    names = {name: parse_package(name) for name in versions}
    of_kernels = {one.branch for one in names.values() if one.role is PackageRole.MODULES}
    found = [
        name
        for name, one in names.items()
        if one.branch
        and (
            (
                one.base in _NUMBERED
                and (number := upstream_of(versions[name]).partition(".")[0])
                and (number != one.branch or (real and real != one.branch))
            )
            or (
                one.role is PackageRole.MODULES_OF_FLAVOUR
                and real
                and one.branch != real
                and one.branch not in of_kernels
            )
        )
    ]
    return tuple(sorted(found))


def _read_modprobe(reader: Reader) -> bool | None:
    """Whether nvidia-modprobe runs as root when a user starts it; None where there is none."""
    found = reader.stat(NVIDIA_MODPROBE)
    if found is ABSENT:
        return None
    known = require_known(found, NVIDIA_MODPROBE)
    return known.uid == 0 and bool(known.mode & _SETUID)


def _built_open(facts: Facts) -> bool | None:
    """Whether the module that the next boot loads is the open one, or the loaded one where no file
    tells; None where neither is there.
    """
    modules = attempt(lambda: facts.driver.modules)
    built = get_raw(modules[-1], "is_open") if isinstance(modules, tuple) and modules else None
    return (
        built
        if isinstance(built, bool)
        else facts.driver.is_open
        if facts.driver.loaded_version
        else None
    )


def _half_way(packages: tuple[DriverPackage, ...], facts: Facts) -> str:
    """What the driver's packages have triggered belongs to them: without its new initramfs the next
    boot has the old module.
    """
    known = facts.packages
    triggered = [one for one in known.unfinished if one.name in _TRIGGERED] if packages else []
    left = [
        f"{one.name} ({one.status})" for one in (*packages, *triggered) if is_unfinished(one.status)
    ]
    if left:
        return f"dpkg stopped half-way with {', '.join(left)}"
    return INTERRUPTED if known.is_interrupted else ""


def _failed_installer(reader: Reader) -> str:
    """The log of NVIDIA's installer, which each run writes anew, where that run failed; else
    empty.
    """
    log = attempt(read_text, reader, INSTALLER_LOG)
    return log if isinstance(log, str) and "\nERROR: Installation has failed" in log else ""
