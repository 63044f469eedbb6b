"""What a transaction does to the next boot: which kernels it brings, and whether the one that
starts next gets the modules of the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.kernel.kernel import HEADERS
from hosttune.facts.versions import compare_versions, sorted_versions
from hosttune.host.door import Stat
from hosttune.quoting import quote
from hosttune.resources.packages.room import NEW_KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.apt_get import Transaction

_NO_GPU = "after a reboot no GPU would work"


def _new_kernels(would: Transaction) -> tuple[str, ...]:
    """The kernels that it brings, oldest first."""
    names = (NEW_KERNEL.fullmatch(name) for name in would.after if name not in would.before)
    return sorted_versions(match[1] for match in names if match)


def next_kernel(would: Transaction, facts: Facts) -> str:
    """What the next boot starts once it is made: a newer kernel than all that are there where the
    newest one starts now. Empty where that is not known.
    """
    try:
        following, there = facts.boot.next_kernel, facts.boot.kernels
    except UnknownFact:
        return ""
    newest = _new_kernels(would)[-1:]
    # A new kernel boots next only if the newest one does so now. With GRUB set to an older entry it
    # stays with that one.
    is_newer = (
        bool(newest and there)
        and following == there[-1]
        and compare_versions(newest[0], following) > 0
    )
    return newest[0] if is_newer else following


def describe_kernels(would: Transaction, facts: Facts) -> tuple[str, ...]:
    """A line for each kernel that comes along."""
    following = next_kernel(would, facts)
    used = [one for one in dict.fromkeys((_find_running(facts), following)) if one]
    lines = []
    for kernel in _new_kernels(would):
        older = " and ".join(one for one in used if compare_versions(kernel, one) < 0)
        boots = f"{following} boots next" if following else "which kernel boots next is not known"
        boots = (
            "which boots next"
            if kernel == following
            else f"older than {older}: {boots}"
            if older
            else boots
        )
        lines.append(f"brings kernel {kernel}, {boots}")
    return tuple(lines)


def _find_running(facts: Facts) -> str:
    return read_or_default(lambda: facts.kernel.release, "")  # of an image no kernel runs


def find_left_out(modules: str, would: Transaction, facts: Facts) -> tuple[str, str]:
    """Why the kernel that boots next gets no module of the driver, and what to do; both empty where
    it gets one, or where it is not known which it is. `modules`: how the packages that bring it are
    called, without the kernel behind.
    """
    following = next_kernel(would, facts)
    if not modules or not following:
        return "", ""
    served = _list_served(modules, (*would.after, *facts.packages.names))
    if following in served:
        return (
            _describe_unbuilt(following)
            if modules == HEADERS and not _is_built(following, would, facts)
            else ("", "")
        )
    has_own = modules == HEADERS and isinstance(
        facts.reader.stat(f"/lib/modules/{following}/build"), Stat
    )
    if not served or has_own:
        return "", ""
    return _no_module(
        following, f"{modules}-{following}", _list_served(modules, would.after), would, facts
    )


def _list_served(modules: str, names: Iterable[str]) -> tuple[str, ...]:
    """The kernels for which these packages bring modules; a metapackage brings none itself."""
    kernels = (name.removeprefix(f"{modules}-") for name in names if name.startswith(f"{modules}-"))
    return sorted_versions(one for one in kernels if one[:1].isdigit())


def _no_module(
    kernel: str, wanted: str, served: tuple[str, ...], would: Transaction, facts: Facts
) -> tuple[str, str]:
    what = "headers, with which its module is compiled" if wanted.startswith(HEADERS) else "modules"
    brought = f" (it brings those of {', '.join(served)})" if served else ""
    came = [
        f"the older kernel {one}"
        for one in _new_kernels(would)
        if compare_versions(one, kernel) < 0
    ]
    along = f", and {' and '.join(came)} would come along" if came else ""
    sentence = (
        f"the kernel that boots next, {kernel}, gets no {what} from it{brought}{along}: {_NO_GPU}"
    )
    wait = f"wait until apt has {wanted} (sudo apt-get update; apt-cache policy {quote(wanted)})"
    there = [one for one in served if one in facts.boot.kernels]
    missing = [one for one in served if one not in facts.boot.kernels]
    ways = [wait]
    if there:
        ways.append(f"choose {there[-1]} in GRUB, which gets them, and boot it")
    elif missing:
        last = missing[-1]
        image = f"linux-image-{last}"
        ways.append(
            f"sudo apt-get install {quote(image)} (older, without newer fixes), and choose it in "
            "GRUB"
        )
    return sentence, "\n".join(("\nor ".join(ways), "run it again"))


def _is_built(kernel: str, would: Transaction, facts: Facts) -> bool:
    """The script of DKMS builds for the running kernel and the newest one
    (/usr/lib/dkms/common.postinst, 3.0).
    """
    newest = sorted_versions((*facts.boot.kernels, *_new_kernels(would)))[-1:]
    return kernel in {_find_running(facts), *newest} or not _find_running(facts)


def _describe_unbuilt(kernel: str) -> tuple[str, str]:
    sentence = (
        f"DKMS builds for the running kernel and the newest one, and {kernel} boots next: {_NO_GPU}"
    )
    return sentence, f"boot {kernel} first, then run it again"
