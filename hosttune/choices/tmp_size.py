"""Whether /tmp belongs into memory on this host, and how large it should be there.

It was meant for builds on a machine without flash, and pays there. Elsewhere it takes memory from
jobs and gives training nothing. So there it is made only if the policy selects the rule, and the
advice is a folder on a larger disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact, attempt, get_raw
from hosttune.facts.storage.places import find_renamer
from hosttune.facts.storage.temporary import age_of, user_limit
from hosttune.frozen import frozen
from hosttune.numbers import say_gib
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts.storage.mounts import Mount

_GIB = 1 << 30
_ARRANGED = frozenset({"fstab", "usr-unit", "etc-unit"})  # homes that mount a tmpfs
_SCHEDULERS = frozenset(
    {"slurm", "kubelet", "lsf", "pbs", "gridengine", "htcondor", "ray", "spark"}
)
SLOW_DISK = "slow-disk"  # the value of `where` that needs a reason
_SHARE_ON_SLOW_DISK = 0.1  # of RAM, at most
_MOST_ON_SLOW_DISK = 64 * _GIB
_ALL_THE_SAME = "select: [storage-tmp-tmpfs] in the policy has it in memory all the same"


@frozen
class TmpCase:
    """What the decision hangs on. A figure that could not be read is Unreadable, and matters only
    where it decides.
    """

    ram_bytes: int  # as sold, without the memory of GPUs
    is_kubelet: bool = False
    spills: tuple[str, ...] = ()  # sentences: who is configured to put much there
    has_tmpfs: bool = False  # a tmpfs is there, or comes at the next boot
    # the size of a disk that is mounted at /tmp; 0 where it is a folder of a larger file system
    own_bytes: int = 0
    used_bytes: int | Unreadable = 0  # what was counted in it
    is_complete: bool | Unreadable = True  # the count saw everything
    # what is used of the whole file system: no less than what is in /tmp
    most_bytes: int | Unreadable = 0
    disks: tuple[str, ...] = ()  # local flash with room for more: /data (3.4 TiB)
    user_limit_bytes: int = 0  # what one user may fill of a tmpfs that is there; 0 without quotas
    decision: str = ""  # of an administrator, with its file: a mask, a drop-in, a unit, a disk
    scheduler: str = ""  # the one that runs: slurmd.service runs
    slow_disk: str = ""  # what /tmp is on, if that is slow: a hard disk, a network file system
    place: str = ""  # the file system that /tmp is on: / (ext4)
    age: str = ""  # what removes its files by age: 10d (/etc/tmpfiles.d/tmp.conf:1)
    has_tmpdir: bool = False  # files of the system name another folder for temporary files
    notes: tuple[str, ...] = ()  # what else a tmpfs means on this host


@frozen
class TmpLimits:
    """The parameters of the rule."""

    min_ram_bytes: int
    ram_share: float
    min_bytes: int
    max_ram_share: float
    used_share: float
    where: str = "anywhere"


@frozen
class TmpSize(Fact):
    """A size in whole GiB, or why /tmp stays as it is."""

    size_bytes: int  # 0 where it stays
    leave: str  # the sentence why it stays; empty where it should be in memory, or there is advice
    evidence: tuple[str, ...] = ()
    advice: str = ""  # which disk is the better place for temporary files
    disk: str = ""  # the folder where that disk is mounted
    way_out: str = ""  # what to do before, as other users can rename what is in that folder


def decide(case: TmpCase, limits: TmpLimits) -> TmpSize:
    """The decision, from the first reason to leave it alone to the size. Pure; raises UnknownFact
    where what decides was not read.
    """
    size = _choose_size(case.ram_bytes, limits)
    is_default = limits.where == SLOW_DISK
    reason = _why_not(case, limits)
    if (
        is_default
        and not reason
        and (reason := _why_not_by_default(case))
        and _helps_elsewhere(case)
    ):
        what = f"temporary files go to {case.place}, although {case.disks[0]} has more room"
        return TmpSize(0, "", advice=what, disk=case.disks[0].partition(" ")[0])
    if is_default:
        size = min(int(case.ram_bytes * _SHARE_ON_SLOW_DISK) // _GIB * _GIB, _MOST_ON_SLOW_DISK)
    if reason := reason or _too_full(case, limits, size):
        return TmpSize(0, reason)
    if is_default:
        bounds = (
            f"{_SHARE_ON_SLOW_DISK:.0%} of {say_gib(case.ram_bytes)} RAM, at most "
            f"{say_gib(_MOST_ON_SLOW_DISK)}"
        )
        return TmpSize(
            size, "", (f"/tmp is on {case.slow_disk}; {say_gib(size)} is {bounds}", *case.notes)
        )
    share = f"{limits.ram_share:.0%} of {say_gib(case.ram_bytes)} RAM"
    evidence: tuple[str, ...] = (
        (
            f"{say_gib(size)} is {share} (at least {say_gib(limits.min_bytes)}, at most "
            f"{limits.max_ram_share:.0%})"
        ),
        *case.notes,
    )
    if case.user_limit_bytes:
        evidence = (*evidence, _limit(case))
    if case.disks and not case.has_tmpfs:
        first = (
            f"large temporary files belong on {', '.join(case.disks)} first (TMPDIR, see "
            "storage-scratch-variables)"
        )
        evidence = (first, *evidence)
    return TmpSize(size, "", evidence)


def _why_not(case: TmpCase, limits: TmpLimits) -> str:
    """The reasons that need no count."""
    size = _choose_size(case.ram_bytes, limits)
    if case.is_kubelet:
        return (
            "a Kubernetes node: no pod accounts for memory that /tmp takes, and the kubelet evicts "
            "pods for it"
        )
    if case.spills:
        return "; ".join(case.spills)
    if case.decision:
        return case.decision
    if case.has_tmpfs:
        least = limits.min_ram_bytes // 2
        limit = f"; {_limit(case)}" if case.user_limit_bytes else ""
        small = f"{_say_ram(case)}, below the {say_gib(least)} from which it is grown{limit}"
        return "" if case.ram_bytes >= least and size else small
    if case.own_bytes >= size > 0:
        return (
            f"/tmp is a file system of its own with {say_gib(case.own_bytes)}, more than it could "
            "have in memory"
        )
    if case.ram_bytes < limits.min_ram_bytes:
        floor = say_gib(limits.min_ram_bytes)
        return (
            f"{_say_ram(case)}, below the {floor} from which /tmp in memory takes nothing from jobs"
        )
    return "" if size else f"{_say_ram(case)} leave no whole GiB for /tmp"


def _helps_elsewhere(case: TmpCase) -> bool:
    """A larger disk is there, and temporary files do not go to it yet."""
    return bool(case.disks) and not case.has_tmpfs and not case.has_tmpdir


def _why_not_by_default(case: TmpCase) -> str:
    """Why it is not planned where no policy selects it."""
    if case.has_tmpfs:
        return (
            "/tmp is in memory already (select: [storage-tmp-tmpfs] in the policy makes it larger "
            "if it is small)"
        )
    if case.scheduler:
        return (
            f"{case.scheduler}: files that jobs put into a tmpfs count as memory of the jobs "
            f"({_ALL_THE_SAME})"
        )
    if not case.slow_disk:
        where = (
            f"/tmp is on {case.place}, not known to be a hard disk"
            if case.place
            else "the disk of /tmp is not known"
        )
        return f"{where}, and training gains nothing ({_ALL_THE_SAME})"
    if case.disks:
        return f"{case.disks[0]} is the better place for temporary files ({_ALL_THE_SAME})"
    if case.age:
        return (
            f"files in /tmp are kept for a time ({case.age}), and memory loses them at each boot "
            f"({_ALL_THE_SAME})"
        )
    return ""


def _too_full(case: TmpCase, limits: TmpLimits, size: int) -> str:
    """The reason that needs a count; a tmpfs holds what it holds in memory already."""
    if case.has_tmpfs:
        return ""
    of_ram = int(case.ram_bytes * limits.used_share)
    most = min(of_ram, size // 4) if limits.where == SLOW_DISK else of_ram
    used = _know_or_none(case.used_bytes)
    if used > most:
        at_least = "" if _know_or_none(case.is_complete) else "at least "
        what = (
            f"{limits.used_share:.0%} of {_say_ram(case)}"
            if most == of_ram
            else f"a quarter of {say_gib(size)}"
        )
        return f"{at_least}{say_gib(used)} are in /tmp, more than {what}"
    if not _know_or_none(case.is_complete) and _know_or_none(case.most_bytes) > most:
        reason = (
            "not all of /tmp could be counted: too many files, or folders of others (needs root)"
        )
        raise UnknownFact(reason)
    return ""


def _choose_size(ram_bytes: int, limits: TmpLimits) -> int:
    wanted = max(int(ram_bytes * limits.ram_share), limits.min_bytes)
    return min(-(-wanted // _GIB), int(ram_bytes * limits.max_ram_share) // _GIB) * _GIB


def _know_or_none(value: Any) -> Any:
    if isinstance(value, Unreadable):
        raise UnknownFact(value.reason)
    return value


def _limit(case: TmpCase) -> str:
    return (
        f"one user may fill {say_gib(case.user_limit_bytes)} of it (usrquota): then writes fail "
        "with EDQUOT"
    )


def _say_ram(case: TmpCase) -> str:
    return f"{say_gib(case.ram_bytes)} of RAM"


def choose(facts: Facts, params: Mapping[str, Any]) -> TmpSize:
    """The decision for this host, with the parameters of the rule. Memory that is too small in
    every case decides, whatever else is not known.
    """
    limits = TmpLimits(**params)
    try:
        return _choose_size_or_reason(facts, limits)
    except UnknownFact:
        ram, least = facts.memory.sold_bytes, limits.min_ram_bytes // 2
        if ram >= least:
            raise
        return TmpSize(
            0, f"{say_gib(ram)} of RAM, below the {say_gib(least)} from which it is looked at"
        )


def _choose_size_or_reason(facts: Facts, limits: TmpLimits) -> TmpSize:
    tmp = facts.tmp
    is_disk = tmp.is_mount and not tmp.is_tmpfs
    is_default = limits.where == SLOW_DISK
    case = TmpCase(
        ram_bytes=facts.memory.sold_bytes,
        is_kubelet=facts.managers.kubelet,
        spills=tuple(one.evidence for one in facts.spills.all),
        has_tmpfs=tmp.is_tmpfs or tmp.home in _ARRANGED,
        own_bytes=tmp.disk_bytes if is_disk else 0,
        decision=tmp.decision,
        user_limit_bytes=user_limit(facts.mounts.at["/tmp"]) if tmp.is_tmpfs else 0,
        disks=_roomy_disks(facts, _choose_size(facts.memory.sold_bytes, limits)),
    )
    # counted only where that decides: it walks the disk
    if not case.has_tmpfs and not _why_not(case, limits):
        counted: dict[str, Any] = {
            name: get_raw(facts.filling, name) for name in ("used_bytes", "is_complete")
        }
        most: Any = get_raw(tmp, "disk_used_bytes")
        case = replace(case, **counted, most_bytes=most)
    if is_default and not _why_not(case, limits):
        case = _with_reasons(case, facts)
    if not case.has_tmpfs:
        case = replace(case, notes=_list_notes(facts, case))
    found = decide(case, limits)
    return replace(found, way_out=find_renamer(facts.reader, found.disk)) if found.disk else found


def _with_reasons(case: TmpCase, facts: Facts) -> TmpCase:
    """What the default hangs on besides. Raises UnknownFact."""
    mount = (
        None
        if facts.reader.persistent_only
        else facts.mounts.at.get("/tmp") or facts.mounts.at.get("/")
    )
    if mount is None:
        return replace(case, disks=())
    slow = f"{mount.target}, a hard disk" if mount.is_rotational else ""
    slow = f"{mount.target}, a network file system" if mount.is_network else slow
    case = replace(
        case,
        slow_disk=slow,
        place=f"{mount.target} ({mount.fstype})",
        disks=tuple(
            f"{one.target} ({say_gib(one.total_bytes)})" for one in _larger_flash(facts, mount)
        ),
        has_tmpdir=any(one.name == "TMPDIR" for one in facts.environment.all),
    )
    if not slow or case.disks:
        return case  # which is reason enough, and the rest is many files
    runs = next((one.evidence for one in facts.managers.present if one.name in _SCHEDULERS), "")
    return replace(case, scheduler=runs, age=_describe_age(facts))


def _describe_age(facts: Facts) -> str:
    """What the site, and not a package's default, removes from /tmp by age."""
    age = age_of("/tmp", facts)
    return "" if "(/usr/lib/tmpfiles.d/" in age else age


def _larger_flash(facts: Facts, tmp: Mount) -> list[Mount]:
    """The data file systems on flash of other disks that are larger than the one of /tmp, the
    largest first. A disk of a virtual machine counts if it is NVMe: what the others are made of is
    not known.
    """
    disks = facts.disks.by_name
    found = [
        one
        for one in facts.mounts.local_data
        if one.total_bytes > tmp.total_bytes
        and not set(one.disks) & set(tmp.disks)
        and one.disks
        and all(
            name.startswith("nvme") or not (disks[name].is_rotational or disks[name].is_virtual)
            for name in one.disks
            if name in disks
        )
    ]
    return sorted(found, key=lambda one: -one.total_bytes)


def _list_notes(facts: Facts, case: TmpCase) -> tuple[str, ...]:
    """What else memory is for on this host, and what a mount over /tmp hides; nothing of what is
    not known.
    """
    notes = []
    if attempt(lambda: facts.arc.is_there) is True:
        most = attempt(lambda: facts.arc.max_bytes)
        size = f" up to {say_gib(most)}" if isinstance(most, int) else ""
        notes.append(f"ZFS keeps its cache{size} in the same memory (zfs_arc_max)")
    if isinstance(gpu_bytes := attempt(lambda: facts.memory.gpu_bytes), int) and gpu_bytes:
        notes.append(
            "memory of GPUs is NUMA nodes here, and a tmpfs may fill it: mpol=prefer:0 keeps it "
            "off them"
        )
    swaps = attempt(lambda: facts.memory.swaps)
    if isinstance(swaps, tuple) and any(not one.is_zram for one in swaps):
        notes.append("what is in it can be swapped out to disk")
    if isinstance(case.used_bytes, int) and case.used_bytes >= _GIB:
        notes.append(
            f"{say_gib(case.used_bytes)} in /tmp stay on the disk, hidden below the mount: remove "
            "them before"
        )
    return tuple(notes)


def _roomy_disks(facts: Facts, size: int) -> tuple[str, ...]:
    """Local NVMe with more room than /tmp would have in memory; none where that is unknown: it only
    adds a sentence.
    """
    try:
        mounts = [
            mount
            for mount in facts.mounts.local_data
            if any(disk.startswith("nvme") for disk in mount.disks)
        ]
        return tuple(
            f"{one.target} ({say_gib(one.total_bytes)})" for one in mounts if one.total_bytes > size
        )
    except UnknownFact:
        return ()
