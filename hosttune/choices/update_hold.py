"""What unattended-upgrades must not upgrade while GPU work runs, as patterns for the beginnings of
package names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hosttune.choices.night_upgrade import OWN, look_at_night
from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.gpu.package_roles import PREBUILT, parse_package, role_of
from hosttune.frozen import frozen
from hosttune.regex import regex

# Driver, CUDA, fabric. The container toolkit is no part of a driver, and has had holes: its fixes
# still come. So does the key of NVIDIA's archive.
DRIVER = (
    "^nvidia-(?!container|docker)",
    "^libnvidia-(?!container)",
    "^linux-(modules|objects|signatures)-nvidia-",
    "^xserver-xorg-video-nvidia",
    "^libcuda",
    "^cuda-(?!keyring)",
    "^libnvsdm",
    "^nvlsm",
)
_IMAGE = regex(r"linux-image-([a-z].*)")
_NAMED = 8  # packages that a report lists by name


@frozen
class UpdateHold(Fact):
    """The patterns, and sentences about what they match here."""

    patterns: tuple[str, ...]
    evidence: tuple[str, ...]
    # those of the driver that wait: nvidia-utils-580 580.95.05-1 -> 580.126.20-1
    updates: tuple[str, ...]
    why_not: str = (
        # a sentence: why unattended-upgrades leaves the driver alone without this; empty where it
        # does not
        ""
    )


def choose(facts: Facts, params: Mapping[str, Any]) -> UpdateHold:
    """`params`: kernel (auto | hold | float)."""
    names = facts.packages.brought
    flavours = kernel_flavours(names) if params["kernel"] != "float" else ()
    is_prebuilt = any(role_of(name) in PREBUILT for name in names)
    kernel = (
        tuple(map(_kernel_pattern, flavours)) if is_prebuilt or params["kernel"] == "hold" else ()
    )
    patterns = (*DRIVER, *kernel)
    held_back = tuple(
        name for name in names if any(re.match(pattern, name) for pattern in patterns)
    )
    evidence = [f"concerns {_join_listed(held_back, facts)}"] if held_back else []
    if kernel:
        evidence.append(
            "the kernel waits too: its next version might have no prebuilt nvidia module yet"
            if is_prebuilt
            else "the kernel waits too, as the policy says"
        )
    else:
        why = (
            "no kernel metapackage is installed"
            if is_prebuilt
            else "no prebuilt nvidia modules depend on it"
        )
        evidence.append(
            "the kernel is upgraded as before "
            f"({'as the policy says' if params['kernel'] == 'float' else why})"
        )
    if facts.driver.held:
        evidence.append(f"held by apt-mark, which stays so: {', '.join(facts.driver.held)}")
    updates, unknown = _list_updates(facts, patterns)
    # Without the file of this rule: with it the answer would always be that nothing can happen, and
    # the rule would want its own file gone.
    why_not, unjudged = _why_not(facts)
    return UpdateHold(patterns, (*evidence, *unknown, *unjudged), updates, why_not)


def _why_not(facts: Facts) -> tuple[str, tuple[str, ...]]:
    """(why no upgrade of the driver can happen, a sentence where that is not known), without what
    this rule wrote.
    """
    try:
        return look_at_night(facts, without=OWN).why_not, ()
    except UnknownFact as unknown:
        return "", (
            f"whether unattended-upgrades may upgrade the driver is not known: {unknown.reason}",
        )


def _list_updates(
    facts: Facts, patterns: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the driver's updates that these patterns hold back, a sentence where it is not known which
    there are).
    """
    try:
        offers = facts.archives.updates
    except UnknownFact as unknown:
        return (), (f"which updates wait is not known: {unknown.reason}",)
    held = (one for one in offers if any(re.match(pattern, one.name) for pattern in patterns))
    return tuple(f"{one.name} {one.installed} -> {one.candidate}" for one in held), ()


def kernel_flavours(names: tuple[str, ...]) -> tuple[str, ...]:
    """Of the kernel metapackages among these installed packages: generic, generic-hwe-24.04, azure
    ... Ubuntu's names of single kernels have their number where these have a word.
    """
    found = {match[1] for name in names if (match := _IMAGE.fullmatch(name))}
    found |= {one.kernel for one in map(parse_package, names) if one.role in PREBUILT}
    return tuple(
        sorted(
            one for one in found if one[0].isalpha() and not one.startswith(("unsigned-", "extra-"))
        )
    )


def _kernel_pattern(flavour: str) -> str:
    return (
        rf"^linux-((image|headers|modules-extra|tools|cloud-tools)-)?{re.escape(flavour)}$".replace(
            r"\-", "-"
        )
    )


def _join_listed(names: tuple[str, ...], facts: Facts) -> str:
    shown = ", ".join(f"{name} {facts.packages[name].version}" for name in names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
