"""Whether /tmp belongs into memory on this host, and how large it should be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact, raw
from hosttune.facts.storage.temporary import user_limit
from hosttune.frozen import frozen
from hosttune.values import Unreadable

_GIB = 1 << 30
_ARRANGED = frozenset({"fstab", "usr-unit", "etc-unit"})  # homes that mount a tmpfs


@frozen
class TmpCase:
    """What the decision hangs on. A figure that could not be read is Unreadable, and matters only where it decides."""

    ram_bytes: int  # as sold, without the memory of GPUs
    is_kubelet: bool = False
    spills: tuple[str, ...] = ()  # sentences: who is configured to put much there
    has_tmpfs: bool = False  # a tmpfs is there, or comes at the next boot
    own_bytes: int = 0  # the size of a disk that is mounted at /tmp; 0 where it is a folder of a larger file system
    used_bytes: int | Unreadable = 0  # what was counted in it
    is_complete: bool | Unreadable = True  # the count saw everything
    most_bytes: int | Unreadable = 0  # what is used of the whole file system: no less than what lies in /tmp
    disks: tuple[str, ...] = ()  # local NVMe with room for more: /data (3.4 TiB)
    user_limit_bytes: int = 0  # what one user may fill of a tmpfs that is there; 0 without quotas
    decision: str = ""  # of an administrator, with its file: a mask, a drop-in, a unit, a disk


@frozen
class TmpLimits:
    """The parameters of the rule."""

    min_ram_bytes: int
    ram_share: float
    min_bytes: int
    max_ram_share: float
    used_share: float


@frozen
class TmpSize(Fact):
    """A size in whole GiB, or why /tmp stays as it is."""

    size_bytes: int  # 0 where it stays
    leave: str  # the sentence why it stays; empty where it should be in memory
    evidence: tuple[str, ...] = ()


def decide(case: TmpCase, limits: TmpLimits) -> TmpSize:
    """The decision, from the first reason to leave it alone to the size. Pure; raises UnknownFact where what decides
    was not read.
    """
    size = _size(case.ram_bytes, limits)
    if reason := _why_not(case, limits) or _too_full(case, limits):
        return TmpSize(0, reason)
    share = f"{limits.ram_share:.0%} of {_text(case.ram_bytes)} RAM"
    evidence: tuple[str, ...] = (
        f"{_text(size)} is {share} (at least {_text(limits.min_bytes)}, at most {limits.max_ram_share:.0%})",
    )
    if case.user_limit_bytes:
        evidence = (*evidence, _limit(case))
    if case.disks and not case.has_tmpfs:
        first = f"large temporary files belong on {', '.join(case.disks)} first (TMPDIR, see storage-scratch-variables)"
        evidence = (first, *evidence)
    return TmpSize(size, "", evidence)


def _why_not(case: TmpCase, limits: TmpLimits) -> str:
    """The reasons that need no count."""
    size = _size(case.ram_bytes, limits)
    if case.is_kubelet:
        return "a Kubernetes node: no pod accounts for memory that /tmp takes, and the kubelet evicts pods for it"
    if case.spills:
        return "; ".join(case.spills)
    if case.decision:
        return case.decision
    if case.has_tmpfs:
        least = limits.min_ram_bytes // 2
        limit = f"; {_limit(case)}" if case.user_limit_bytes else ""
        small = f"{_ram(case)}, below the {_text(least)} from which it is grown{limit}"
        return "" if case.ram_bytes >= least and size else small
    if case.own_bytes >= size > 0:
        return f"/tmp is a file system of its own with {_text(case.own_bytes)}, more than it could have in memory"
    if case.ram_bytes < limits.min_ram_bytes:
        return (
            f"{_ram(case)}, below the {_text(limits.min_ram_bytes)} from which /tmp in memory takes nothing from jobs"
        )
    return "" if size else f"{_ram(case)} leave no whole GiB for /tmp"


def _too_full(case: TmpCase, limits: TmpLimits) -> str:
    """The reason that needs a count; a tmpfs holds what it holds in memory already."""
    if case.has_tmpfs:
        return ""
    most = int(case.ram_bytes * limits.used_share)
    used = _known(case.used_bytes)
    if used > most:
        at_least = "" if _known(case.is_complete) else "at least "
        return f"{at_least}{_text(used)} lie in /tmp, more than {limits.used_share:.0%} of {_ram(case)}"
    if not _known(case.is_complete) and _known(case.most_bytes) > most:
        reason = "not all of /tmp could be counted: too many files, or folders of others (needs root)"
        raise UnknownFact(reason)
    return ""


def _size(ram_bytes: int, limits: TmpLimits) -> int:
    wanted = max(int(ram_bytes * limits.ram_share), limits.min_bytes)
    return min(-(-wanted // _GIB), int(ram_bytes * limits.max_ram_share) // _GIB) * _GIB


def _known(value: Any) -> Any:
    if isinstance(value, Unreadable):
        raise UnknownFact(value.reason)
    return value


def _limit(case: TmpCase) -> str:
    return f"one user may fill {_text(case.user_limit_bytes)} of it (usrquota): then writes fail with EDQUOT"


def _ram(case: TmpCase) -> str:
    return f"{_text(case.ram_bytes)} of RAM"


def choose(facts: Facts, params: Mapping[str, Any]) -> TmpSize:
    """The decision for this host, with the parameters of the rule."""
    tmp, limits = facts.tmp, TmpLimits(**params)
    is_disk = tmp.is_mount and not tmp.is_tmpfs
    case = TmpCase(
        ram_bytes=facts.memory.sold_bytes,
        is_kubelet=facts.managers.kubelet,
        spills=tuple(one.evidence for one in facts.spills.all),
        has_tmpfs=tmp.is_tmpfs or tmp.home in _ARRANGED,
        own_bytes=tmp.disk_bytes if is_disk else 0,
        decision=tmp.decision,
        user_limit_bytes=user_limit(facts.mounts.at["/tmp"]) if tmp.is_tmpfs else 0,
        disks=_roomy_disks(facts, _size(facts.memory.sold_bytes, limits)),
    )
    if not case.has_tmpfs and not _why_not(case, limits):  # counted only where that decides: it walks the disk
        counted: dict[str, Any] = {name: raw(facts.filling, name) for name in ("used_bytes", "is_complete")}
        most: Any = raw(tmp, "disk_used_bytes")
        case = replace(case, **counted, most_bytes=most)
    return decide(case, limits)


def _roomy_disks(facts: Facts, size: int) -> tuple[str, ...]:
    """Local NVMe with more room than /tmp would have in memory; none where that is unknown: it only adds a sentence."""
    try:
        mounts = [mount for mount in facts.mounts.local_data if any(disk.startswith("nvme") for disk in mount.disks)]
        return tuple(f"{one.target} ({_text(one.total_bytes)})" for one in mounts if one.total_bytes > size)
    except UnknownFact:
        return ()


def _text(size: int) -> str:
    tib = size / (1 << 40)
    return f"{tib:.1f} TiB" if tib >= 2 else f"{size / _GIB:.1f}".removesuffix(".0") + " GiB"
