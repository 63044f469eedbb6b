"""The packages that bring the nvidia module of the installed driver to the kernel that starts at the next boot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact
from hosttune.facts.kernel.kernel import flavour_of, metapackages
from hosttune.frozen import frozen


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
    """The metapackage where its kernel is installed, so that the modules of later kernels come, too; and the package of
    this one kernel, which the metapackage names only once the archive has it.
    """
    driver = facts.driver
    if _is_compiled(facts):
        return f"sudo apt-get install linux-headers-{kernel} && sudo dkms autoinstall -k {kernel}"
    if driver.runfile and not driver.branch:
        again = f"run the installer that brought the driver again, with --dkms --kernel-name={kernel}"
        return f"{again}, or boot another kernel"
    flavour = flavour_of(kernel)
    if not driver.branch or not flavour:
        return f"install a driver that builds its module for {kernel}, or boot another kernel"
    names = [f"linux-modules-nvidia-{driver.name}-{kernel}"]
    names += [f"linux-modules-nvidia-{driver.name}-{one}" for one in metapackages(facts.packages.names, flavour)]
    return f"sudo apt-get update && sudo apt-get install {' '.join(names)}"


def _is_compiled(facts: Facts) -> bool:
    """The driver's modules are compiled here: by a DKMS package, and none is prebuilt."""
    names = facts.packages.names
    prebuilt = any(name.startswith(("linux-modules-nvidia-", "linux-objects-nvidia-")) for name in names)
    return not prebuilt and any(re.match(r"nvidia-(?!fs-)(?:[a-z0-9-]+-)?dkms", name) for name in names)
