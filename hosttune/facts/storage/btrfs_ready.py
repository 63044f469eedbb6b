"""Whether a boot finds a btrfs on several disks complete. udev calls its devices not ready until
all of them are there.

Sources: systemd, rules.d/64-btrfs.rules (ID_BTRFS_READY, SYSTEMD_READY) and
https://github.com/systemd/systemd/issues/36886 (the option `degraded` does not help); the database
of udev below /run/udev/data (systemd, src/libsystemd/sd-device);
/sys/fs/btrfs/UUID/devinfo/N/missing (fs/btrfs/sysfs.c).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt, get_raw
from hosttune.facts.reading import read_text
from hosttune.facts.storage.sources import SourceFault, SourceKind
from hosttune.facts.storage.stopped import MISSING
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.facts.storage.mounts import Mount
    from hosttune.facts.storage.sources import Sources

_NOT_READY = "E:ID_BTRFS_READY=0"


def find_incomplete(
    facts: Facts, sources: Sources, entry: FstabEntry, mounts: Iterable[Mount]
) -> SourceFault | None:
    """What is wrong with a line whose btrfs lacks a disk; None for nothing, or where that is not
    known.
    """
    found = sources.find(entry.source) or ()
    held = [one for name in found if (one := sources.holds(name))]
    # What is not seen on the disks is unknown, and a device of another type is the finding of
    # `find_fault`.
    if not held or any(one.fstype != "btrfs" for one in held):
        return None
    # rootflags= reaches only the first mount of /. All other mounts wait for a device that udev
    # calls ready.
    if entry.target == "/" and _is_degraded_at_boot(facts):
        return None
    lacking = _find_lacking(facts, {one.target for one in mounts if one.fstype == "btrfs"})
    # The mark of udev is of the moment at which the device came. Of a disk that was pulled later
    # only sysfs knows.
    if not lacking and not all(_is_waiting(facts, name) for name in found):
        return None
    which = f" ({lacking})" if lacking else ""
    still = ", whatever `degraded` says" if "degraded" in entry.options else ""
    what = (
        f"names {entry.source}, a btrfs of which a disk is missing{which}: udev calls it not "
        f"ready{still}"
    )
    todo = (
        f"attach the disk, or mount it by hand: sudo mount -o degraded {quote(entry.source)} "
        f"{quote(entry.target)}\n"
        "put another disk in its place: sudo btrfs replace start DEVID /dev/NEW "
        f"{quote(entry.target)}\n"
        "or take it out, which needs room on the others: sudo btrfs device remove missing "
        f"{quote(entry.target)}"
    )
    return SourceFault(SourceKind.MISSING, what, todo)


def _is_degraded_at_boot(facts: Facts) -> bool:
    words = attempt(lambda: facts.kernel.command_line)
    flags = (
        [word for word in words if word.startswith("rootflags=")]
        if isinstance(words, tuple)
        else []
    )
    return any("degraded" in word.partition("=")[2].split(",") for word in flags)


def _find_lacking(facts: Facts, targets: set[str]) -> str:
    missing = _missing_disks(facts)
    return ", ".join([word for target in sorted(targets) for word in missing.get(target, ())][:3])


@lru_cache(maxsize=1)  # each line asks
def _missing_disks(facts: Facts) -> Mapping[str, list[str]]:
    """Target of a mounted btrfs -> `disk 2 is missing`, as storage-stopped has it."""
    known = attempt(lambda: facts.stopped.filesystems)
    found: dict[str, list[str]] = {}
    for one in known if isinstance(known, tuple) else ():
        words = get_raw(one, "erring") if one.fstype == "btrfs" else ()
        found[one.target] = (
            [word for word in words if word.endswith(MISSING)] if isinstance(words, tuple) else []
        )
    return found


def _is_waiting(facts: Facts, name: str) -> bool:
    """Whether udev waits for other disks of the btrfs that this device is a part of."""
    disk = facts.disks.by_name.get(name)
    number = get_raw(disk, "device") if disk else ""
    rows = (
        attempt(read_text, facts.reader, f"/run/udev/data/b{number}")
        if isinstance(number, str) and number
        else ""
    )
    return isinstance(rows, str) and _NOT_READY in rows.splitlines()
