"""What a transaction of packages does to GPU work, because of a driver that the kernel has
loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.driver import is_driver_package
from hosttune.resources.packages.package_set import parse_versions
from hosttune.values import Disturbs

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.values import Change

_REPLACED = (
    (
        "replaces a driver that is loaded: what computes on a GPU goes on with the old module, and "
        "whatever starts later"
    ),
    "fails with a driver/library version mismatch until a reboot, which hosttune leaves to you",
)
# NVIDIA/nvidia-container-toolkit#48
_ADDED = (
    (
        "the scripts of its packages reload systemd or start units: a reload takes the GPUs from "
        "running containers"
    ),
)
_QUIET = "linux-"  # modules, objects, signatures: files and an initramfs, no unit


def describe_disturbance(
    before: Iterable[str], after: Iterable[str], facts: Facts
) -> tuple[str, ...]:
    """What happens to GPU work, in words, when the packages `before` give way to those of `after`;
    empty where nothing does. Raises UnknownFact where it matters whether a driver is loaded, and no
    one can tell.
    """
    replaces = any(map(is_driver_package, before))
    adds = any(is_driver_package(name) and not name.startswith(_QUIET) for name in after)
    # In this order, so that whether a driver is loaded is asked, and can be unknown, only if a
    # package of the driver is touched.
    if not (replaces or adds) or not facts.driver.is_loaded:
        return ()
    return _REPLACED if replaces else _ADDED


def as_of_now(change: Change, facts: Facts) -> Change:
    """A way back as it disturbs now: the driver that it removes may be loaded meanwhile."""
    try:
        details = describe_disturbance(
            parse_versions(change.before), parse_versions(change.after), facts
        )
    except UnknownFact as unknown:
        details = (f"whether a driver is loaded is not known ({unknown.reason})",)
    return (
        replace(change, disturbs=Disturbs.GPU_WORK, details=(*change.details, *details))
        if details
        else change
    )
