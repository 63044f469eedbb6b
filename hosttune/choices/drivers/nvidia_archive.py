"""A driver of NVIDIA's own archive: a way that is supported, and whose packages are updated and switched there.

Source: NVIDIA's driver installation guide, "Kernel Modules", "Version locking" and "Ubuntu 590 and later packages":
from 590 on the names have no branch, an upgrade takes the newest one, and nvidia-driver-pinning-N keeps a branch.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from hosttune.facts.gpu.nvidia_tables import is_older
from hosttune.facts.gpu.strangers import home_of, strangers_of
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts

_NUMBERED = regex(r"nvidia-(?:kernel-common|dkms|utils)-\d{3}(?:-.+)?")


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
    if any(_NUMBERED.fullmatch(one.name) for one in facts.driver.packages):
        return who, "the names of its packages keep the branch"
    return who, f"apt upgrade takes newer branches, too: sudo apt-get install {quote(pinning)} keeps this one"


def switch_within_archive(facts: Facts) -> str:
    """The commands for another branch or kind of module of NVIDIA's archive."""
    number = _next_branch(facts)
    old = any(is_older(one, "turing") for one in facts.gpus.generations)
    packages = [*([f"nvidia-driver-pinning-{number}"] if number else []), "cuda-drivers" if old else "nvidia-open"]
    steps = ["sudo apt-get update", *(f"sudo apt-get install {quote(one)}" for one in packages)]
    return f"from NVIDIA's archive: {' && '.join(steps)}; then drain the host and reboot"


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
