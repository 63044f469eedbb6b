"""A driver of NVIDIA's own archive: a way that is supported, and whose packages are updated and switched there.

Source: NVIDIA's driver installation guide, "Kernel Modules", "Version locking" and "Ubuntu 590 and later packages":
from 590 on the names have no branch, an upgrade takes the newest one, and nvidia-driver-pinning-N keeps a branch.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from hosttune.facts.gpu.nvidia_tables import is_older
from hosttune.facts.gpu.package_roles import METAPACKAGES, PackageRole, parse_package
from hosttune.facts.gpu.strangers import home_of, strangers_of

if TYPE_CHECKING:
    from hosttune.facts import Facts


def is_of_nvidia(facts: Facts) -> bool:
    return bool(facts.driver.branch) and home_of(facts) == "NVIDIA"


def tell_updates(facts: Facts) -> tuple[str, ...]:
    """Who updates a driver of NVIDIA's archive, and what keeps its branch, as clauses; none for another driver."""
    if not is_of_nvidia(facts) or strangers_of(facts):
        return ()
    pinning = f"nvidia-driver-pinning-{facts.driver.branch}"
    who = "it is of NVIDIA's archive: apt upgrade updates it, hosttune with update: true and allow_dkms: true"
    if facts.packages[pinning].is_installed:
        return who, f"{pinning} keeps the branch"
    # cuda-drivers and nvidia-open without a branch bring the newest one, whatever the other names say.
    names = [parse_package(one.name) for one in facts.driver.packages]
    if all(one.branch for one in names if one.role in (*METAPACKAGES, PackageRole.KERNEL_COMMON, PackageRole.DKMS)):
        return who, "the names of its packages keep the branch"
    return who, f"apt upgrade takes newer branches, too: sudo apt-get install {quote(pinning)} keeps this one"


def switch_within_archive(facts: Facts) -> str:
    """The commands for another branch or kind of module of NVIDIA's archive."""
    number = _next_branch(facts)
    old = any(is_older(one, "turing") for one in facts.gpus.generations)
    packages = [*([f"nvidia-driver-pinning-{number}"] if number else []), "cuda-drivers" if old else "nvidia-open"]
    steps = ["sudo apt-get update", *(f"sudo apt-get install {quote(one)}" for one in packages)]
    return f"from NVIDIA's archive: {' && '.join(steps)}; then drain the host and reboot"


def swap_kind(facts: Facts, *, is_open: bool) -> str:
    """The commands for the other kind of module in the installed version: the packages of one kind give way to those of
    the same names of the other; empty where no package of such a name is here, or the branch is none to keep."""
    branch = facts.driver.branch
    if _next_branch(facts) != int(branch):
        return ""
    install, remove = [], []
    for one in facts.driver.packages:
        found = parse_package(one.name)
        # Debian's nvidia-driver fits both kinds.
        if found.role is PackageRole.DKMS or (found.base == "nvidia-driver" and found.branch):
            twin = _twin(one.name, is_open=is_open)
            if found.is_open != is_open and twin:
                install.append(f"{twin}={one.version}")
                remove += [f"{one.name}-"] if found.role is PackageRole.DKMS else []
    if not remove:
        return ""
    names = " ".join(map(quote, (*install, *remove)))
    return f"from NVIDIA's archive: sudo apt-get update && sudo apt-get install {names}; then drain the host and reboot"


def _twin(name: str, *, is_open: bool) -> str:
    """The name of the same package for the other kind: nvidia-kernel-open-dkms, nvidia-dkms-580-open."""
    if "kernel" in name:
        pair = ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms")
        return pair[is_open] if name in pair else ""
    if not parse_package(name).branch:
        return ""  # from 590 on: the metapackage would go with it
    return f"{name}-open" if is_open else name.removesuffix("-open")


def _next_branch(facts: Facts) -> int:
    """The branch that is there, where it may stay; else the next newer long-term or production one that drives all
    GPUs, else the newest older one; 0 where none is known."""
    installed, month = int(facts.driver.branch), facts.branches.month(facts.reader.now())
    fit = sorted(
        number
        for number, row in facts.branches.rows.items()
        if not row.is_over(month)
        and (number == installed or row.kind in ("lts", "production"))
        and all(row.drives(generation) for generation in facts.gpus.generations)
    )
    return next((one for one in fit if one >= installed), fit[-1] if fit else 0)
