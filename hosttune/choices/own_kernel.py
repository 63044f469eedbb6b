"""The distribution's own kernel, where the driver does not build for one of another archive, or for
one built by hand.

xanmod, liquorix, mainline builds and kernels of one's own are newer, patched or built by another
compiler than what the packages of the driver are tested with (xanmod/linux issue 292,
M-Bab/linux-kernel-amdgpu-binaries issue 101). DKMS leaves out a kernel without headers, so that
packages become whole once those of the other kernel are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.apt_commands import has_all, lacks_package
from hosttune.facts.base import attempt
from hosttune.facts.kernel.kernel import (
    HEADERS,
    headers_for,
    is_of_distribution,
    is_of_proxmox,
    is_realtime,
)
from hosttune.quoting import join, quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts

OF_KERNEL = regex(
    r"(?:linux-(?:image|headers|modules)(?:-unsigned|-extra)?|proxmox-(?:kernel"
    r"|headers))-(\d\S*?)(?:-signed)?"
)
_FROM_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
_OF_CLOUDS = ("aws", "azure", "gcp", "oracle", "ibm")  # of which Ubuntu has a kernel of that name
_PROXMOX = ("proxmox-default-kernel", "proxmox-default-headers")


def suggest_own_kernel(facts: Facts, kernel: str) -> str:
    """The steps to a kernel of the distribution, in the place of this one, for which there is no
    module; empty where this one is of the distribution, or apt has no other.
    """
    if is_of_proxmox(kernel):
        return _default_of_proxmox(facts, kernel)
    if _is_built_for(kernel):
        return ""
    own = _find_own(facts, kernel)
    metas = () if own else _name_metapackages(facts)
    # A kernel that apt is known to lack is no way out. If that is unknown it is named, and
    # `check_commands` adds the doubt.
    if metas and lacks_package(facts, *metas):
        return ""
    gone = packages_of_kernels(facts, kernel)
    is_running = kernel == facts.kernel.release
    if is_running:  # its image goes in the other kernel
        left = [one for one in gone if not one.startswith(HEADERS)]
        gone = tuple(one for one in gone if one not in left)
    lacks_headers = own and not _has_module(facts, own) and not are_headers_here(facts, own)
    wanted = [*metas, *([headers_for(own)] if lacks_headers else [])]
    steps = [f"{_say_unfit(facts, kernel)}; {_describe_own(facts, own)}"]
    if wanted:
        operands = [*wanted, *(f"{one}-" for one in gone)]
        steps[0] += f": sudo apt-get update && sudo apt-get install {join(operands)}"
    elif gone:
        steps[0] += f": sudo apt-get remove {' '.join(map(quote, gone))}"
    if is_running:
        remove = (
            f", and remove {kernel} there: sudo apt-get remove {' '.join(map(quote, left))}"
            if left
            else ""
        )
        steps.append(f"boot {own or 'that kernel'} (Advanced options in GRUB's menu){remove}")
    elif not gone:
        steps.append(
            f"let {own or 'that kernel'} boot: choose it in GRUB's menu, and remove {kernel} in "
            "the way it came"
        )
    return "\n".join(steps)


def _is_built_for(kernel: str) -> bool:
    """Whether the driver of the distribution is made for this kernel: NVIDIA leaves real-time ones
    out (conftest.sh of its kernel modules; NVIDIA/open-gpu-kernel-modules issue 1240)."""
    return is_of_distribution(kernel) and not is_realtime(kernel)


def _say_unfit(facts: Facts, kernel: str) -> str:
    if is_realtime(kernel):
        return f"NVIDIA's driver is not made for {kernel}, a real-time kernel"
    return f"{kernel} is not a kernel of {_name_archive(facts)}"


def _default_of_proxmox(facts: Facts, kernel: str) -> str:
    """Kernels that Proxmox VE only offers besides its default one (its administration guide, "Host
    System Administration") have no module where a driver is older than they are.
    """
    has_other = any(is_of_proxmox(one) and _has_module(facts, one) for one in _list_kernels(facts))
    if has_other or not has_all(facts, *_PROXMOX):
        return ""
    is_here = facts.packages[_PROXMOX[0]].is_installed
    needs = facts.packages.depends[_PROXMOX[0]] if is_here else ()
    if any(
        kernel.startswith(f"{one.partition(' ')[0].removeprefix('proxmox-kernel-')}.")
        for one in needs
    ):
        return ""
    install = f"sudo apt-get update && sudo apt-get install {' '.join(_PROXMOX)}"
    return (
        f"take Proxmox VE's default kernel, if {kernel} is a newer one that it offers besides: "
        f"{install}\n"
        "boot it: sudo proxmox-boot-tool kernel list, and pin it with: sudo proxmox-boot-tool "
        "kernel pin VERSION"
    )


def _find_own(facts: Facts, kernel: str) -> str:
    """The newest kernel of the distribution in /boot, of those with a module where there are such;
    before one without, the running kernel, if it is another than this one and has a module; empty
    for none.
    """
    own = [one for one in _list_kernels(facts) if _is_built_for(one)]
    ready = [one for one in own if _has_module(facts, one)]
    running = facts.kernel.release
    if not ready and running != kernel and _has_module(facts, running):
        # it may be one that this machine needs (t2linux/T2-Debian-and-Ubuntu-Kernel issue 173)
        return running
    return (ready or own or [""])[-1]


def _list_kernels(facts: Facts) -> tuple[str, ...]:
    kernels = attempt(lambda: facts.boot.kernels)
    return kernels if isinstance(kernels, tuple) else ()


def _has_module(facts: Facts, kernel: str) -> bool:
    return attempt(lambda: kernel in facts.driver.kernels_with_module) is True


def _describe_own(facts: Facts, own: str) -> str:
    if not own:
        return "take one that is"
    return f"use {own}{', which has a module' if _has_module(facts, own) else ''}"


def _name_archive(facts: Facts) -> str:
    return "Ubuntu's archive" if facts.os.is_ubuntu else "the distribution's archive"


def _name_metapackages(facts: Facts) -> tuple[str, ...]:
    """What brings kernels of the distribution and their headers, as they come to this kind of
    machine.
    """
    if facts.os.is_ubuntu:
        cloud = attempt(lambda: facts.host.cloud)
        flavour = cloud if isinstance(cloud, str) and cloud in _OF_CLOUDS else "generic"
    else:
        flavour = _FROM_DEBIAN.get(str(attempt(lambda: facts.kernel.architecture)), "amd64")
    return f"linux-image-{flavour}", f"{HEADERS}-{flavour}"


def packages_of_kernels(facts: Facts, *kernels: str) -> tuple[str, ...]:
    """The packages of these kernels, in their order. Of Proxmox's kernels the headers only, without
    which DKMS builds nothing for them: with the kernel itself `proxmox-ve` would go.
    """
    found: dict[str, list[str]] = {}
    for name in facts.packages.brought:
        if (match := OF_KERNEL.fullmatch(name)) and not name.startswith("proxmox-kernel-"):
            found.setdefault(match[1], []).append(name)
    return tuple(name for kernel in kernels for name in found.get(kernel, ()))


def are_headers_here(facts: Facts, kernel: str) -> bool:
    """Also those of a half-way package, whose script waits for a build itself."""
    package = facts.packages[headers_for(kernel)]
    return package.is_installed or package.status in ("half-configured", "unpacked")
