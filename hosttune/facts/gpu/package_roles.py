"""What each package of an NVIDIA driver is for: the one place that reads a role from a name.

Names as Ubuntu (github.com/canonical/nvidia-graphics-drivers), Debian
(salsa.debian.org/nvidia-team) and NVIDIA's archive form them. `tests/unit/nvidia_package_names.tsv`
holds the names that were seen, with their roles. Where a name says nothing, the virtual package
that Ubuntu's DKMS packages provide decides (`Provides:`, deb-control(5)).
"""

from __future__ import annotations

from enum import Enum

from hosttune.frozen import frozen
from hosttune.regex import regex


class PackageRole(str, Enum):
    """What a package brings."""

    NONE = "none"  # no part of a driver: container tools, CUDA, GPUDirect Storage ...
    METAPACKAGE = "metapackage"  # what a person names to get a driver
    # a metapackage that leaves the module to another package
    HEADLESS_WITHOUT_MODULE = "headless without module"
    DKMS = "dkms"  # compiles the module on this host
    SOURCE = "source"  # the source of the module; compiles nothing by itself
    MODULES = "modules"  # prebuilt modules of one kernel
    # empty; brings the prebuilt modules of each new kernel of a flavour
    MODULES_OF_FLAVOUR = "modules of flavour"
    FIRMWARE = "firmware"
    # modprobe.d, udev rules, the hook that rebuilds the initial RAM disk
    KERNEL_COMMON = "kernel common"
    LIBRARY = "library"
    PROGRAM = "program"  # nvidia-smi and what comes with it
    FABRIC = "fabric"  # Fabric Manager, its library, IMEX, the subnet manager
    BESIDE = "beside"  # settings and daemons that fit a driver of any origin
    PART = "part"  # another part of a driver

    def __str__(self) -> str:
        return str(self.value)


# of a driver, prebuilt modules of all kernels included: each is held against all others
MOST_PACKAGES = 1000
PREBUILT = (PackageRole.MODULES, PackageRole.MODULES_OF_FLAVOUR)
BRINGS_MODULES = (*PREBUILT, PackageRole.DKMS, PackageRole.SOURCE)
METAPACKAGES = (PackageRole.METAPACKAGE, PackageRole.HEADLESS_WITHOUT_MODULE)


@frozen
class PackageName:
    """A package name, taken apart."""

    role: PackageRole
    base: str  # without branch, kind and version: nvidia-firmware of nvidia-firmware-590-590.48.01
    branch: str = ""  # 580; empty if the name has none
    is_server: bool = False
    is_open: bool = False
    kernel: str = ""  # of prebuilt modules: the kernel release or the flavour


_OF_KERNELS = regex(
    r"(linux-(?:modules|objects|signatures)-nvidia)-(?!fs-)(?:(\d{3})(-server)?(-open)?-)?"
    r"(\d[\d.]*-.+|[a-z].*)"
)
# Debian puts the series between: nvidia-tesla-470-kernel-dkms, libnvidia-legacy-390xx-cfg1,
# firmware-nvidia-tesla-gsp.
_SERIES = regex(
    r"^((?:lib|firmware-|xserver-xorg-video-)?nvidia)-(?:tesla(?:-(\d{3}))?|legacy-(\d{3})xx)(?=-"
    r"|$)"
)
_TAIL = regex(r"^(.+?)(?:-(\d{3}))?(-server)?(-open)?(?:-\d{3}\.[\d.]+)?$")
_DRIVER = regex(
    r"(?:lib)?nvidia-|xserver-xorg-video-nvidia|cuda-drivers|nvlsm"
    r"|firmware-nvidia-(?:tesla-(?:\d{3}-)?)?gsp$|libnvsdm"
)
# Called nvidia too, and no part of a driver.
_NOT_DRIVER = regex(
    r"(?:lib)?nvidia-(?:container|docker|cuda-|cudnn|profiler|visual-profiler|prime|egl-|fs\b"
    r"|gds\b|dcgm|nsight|nvshmem|"
    r"openjdk|opencl-dev|ml-dev|vaapi|texture-tools|cg-|mlnx|peermem|peer-memory|mig-manager"
    r"|system-|driver-pinning)"
)
_ROLES = {
    PackageRole.METAPACKAGE: (
        "nvidia",
        "nvidia-driver",
        "nvidia-driver-full",
        "nvidia-driver-cuda",
        "nvidia-headless",
        "nvidia-open",
        "cuda-drivers",
    ),
    PackageRole.HEADLESS_WITHOUT_MODULE: ("nvidia-headless-no-dkms",),
    PackageRole.DKMS: (
        "nvidia-dkms",
        "nvidia-kernel-dkms",
        "nvidia-open-kernel-dkms",
        "nvidia-kernel-open-dkms",
    ),
    PackageRole.SOURCE: (
        "nvidia-source",
        "nvidia-kernel-source",
        "nvidia-open-kernel-source",
        "nvidia-kernel-open-source",
    ),
    PackageRole.FIRMWARE: ("nvidia-firmware", "firmware-nvidia-gsp"),
    PackageRole.KERNEL_COMMON: (
        "nvidia-kernel-common",
        "nvidia-kernel-support",
        "nvidia-open-kernel-support",
    ),
    PackageRole.PROGRAM: ("nvidia-utils", "nvidia-compute-utils", "nvidia-smi"),
    PackageRole.FABRIC: (
        "nvidia-fabricmanager",
        "nvidia-fabricmanager-dev",
        "nvidia-fabric-manager",
        "libnvidia-nscq",
        "nvidia-imex",
        "nvlsm",
        "libnvsdm",
    ),
    PackageRole.BESIDE: (
        "nvidia-modprobe",
        "nvidia-settings",
        "nvidia-settings-tesla",
        "nvidia-xconfig",
        "nvidia-persistenced",
        "nvidia-powerd",
    ),
}
_BY_BASE = {base: role for role, bases in _ROLES.items() for base in bases}
# What Ubuntu's DKMS packages provide, whatever they are called (nvidia-graphics-drivers,
# debian/control; from memory).
DKMS_PROVIDED = "nvidia-dkms-kernel"
_OF_DKMS = regex(r"(?:^|-)dkms(?:$|-)")
_OPEN = regex(r"nvidia-(?:open-kernel|kernel-open)-|nvidia-open$")


def parse_package(name: str) -> PackageName:
    """The parts of a package name; an architecture behind it does not count."""
    name = name.partition(":")[0]
    if match := _OF_KERNELS.fullmatch(name):
        role = PackageRole.MODULES if match[5][0].isdigit() else PackageRole.MODULES_OF_FLAVOUR
        return PackageName(role, match[1], match[2] or "", bool(match[3]), bool(match[4]), match[5])
    if not _DRIVER.match(name) or _NOT_DRIVER.match(name):
        return PackageName(PackageRole.NONE, name)
    series = _SERIES.match(name)
    plain = f"{series[1]}{name[series.end() :]}" if series else name
    tail = _TAIL.match(plain)
    base, branch = (tail[1], tail[2] or "") if tail else (plain, "")
    is_server, is_open = (bool(tail[3]), bool(tail[4])) if tail else (False, False)
    if base == "nvidia" and is_open:
        base = "nvidia-open"  # NVIDIA's metapackage, nvidia-open or nvidia-open-580
    role = _BY_BASE.get(base) or (
        PackageRole.LIBRARY if base.startswith(("lib", "xserver-")) else PackageRole.PART
    )
    found = branch or (series and (series[2] or series[3])) or ""
    return PackageName(role, base, found, is_server, is_open or bool(_OPEN.match(base)))


def role_of(name: str) -> PackageRole:
    return parse_package(name).role


def is_driver_package(name: str) -> bool:
    return role_of(name) is not PackageRole.NONE


def is_fabric_manager(name: str) -> bool:
    return parse_package(name).base == "nvidia-fabricmanager"


def compiles_modules(name: str) -> bool:
    """Whether installing this package compiles kernel modules on the host, also those of other
    makers: zfs-dkms.
    """
    role = role_of(name)
    return role is PackageRole.DKMS or (
        role is PackageRole.NONE and _OF_DKMS.search(name) is not None
    )
