"""Arrays of the kernel's own RAID, those that LVM makes too: what members they miss, and whether
one is being rebuilt.

/proc/mdstat, readable by all (md(4); drivers/md/md.c, md_seq_show, and each level's status
function): an array with its members, of levels with redundancy `[wanted/working]`, and a line of
progress while members are synchronised. An array that has lost data is `broken` once the kernel has
met that, there or in its array_state (Linux 5.4 and newer, MD_BROKEN: of raid0 and linear, later of
raid1 and raid10); every write to it fails. One that misses more members than its level has to spare
is still called active: raid4 and 5 spare one, raid6 two, raid1 all but one, raid10 of each block
all copies but one (`2 near-copies`, which lie on neighbours: md(4)).

/sys/block/md*/md/mismatch_cnt counts the sectors that the last check found different (kernel:
admin-guide/md.rst). For raid1 and raid10 it cannot be interpreted reliably (md(4), SCRUBBING AND
MISMATCHES: what changes while it is written, swap for example, leaves copies that differ and that
no one reads), so there it is not looked at.

LVM's RAID (lvmraid(7)) is the same code below the device mapper, and /proc/mdstat has none of it.
The kernel's own words, for root alone, are a line of `dmsetup status` (kernel:
admin-guide/device-mapper/dm-raid.rst; raid_status in drivers/md/dm-raid.c): a letter for each
member, A in step, a alive and not in step, D failed, - none; how far it is in step; the sync
action; and what differed, counted by a check alone. lvs says "partial" and "refresh needed" of D,
and reads all disks for it, which waits for a dead one. A disk that was pulled is A until something
is written, of raid0 for ever; its name is left among the slaves of the member, and no device has it
any more.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared, make_unread
from hosttune.facts.reading import (
    if_absent,
    names_in,
    parse_or_unknown,
    read_integer,
    read_line,
    read_text,
    require_sure,
    run_looking,
)
from hosttune.facts.storage.disks import find_health_commands
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.masking.command_secrets import MASK
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

MDSTAT = "/proc/mdstat"
VOLUMES = ("dmsetup", "status", "--noflush", "--target", "raid")
_ARRAY = regex(
    r"(md\S*) : (active|inactive|broken)(?: \((?:auto-)?read-only\))?"
    r"(?: ((?:raid|linear|multipath|faulty)[^\s\[]*))?((?: [^\s\[]+\[\d+\]\S*)*) *"
)
_MEMBER = regex(r"(?<!\S)([^\s\[]+)\[\d+\]((?:\([A-Z]\))*)")
_WORKING = regex(r"\[(\d+)/(\d+)\] \[([U_]+)\]")
_COPIES = regex(r"\b(\d+) (near|far|offset)-copies")
_SPARES = {"raid4": 1, "raid5": 1, "raid6": 2}
_IN_CONTAINER = regex(r" super external:/(md[^/\s]{1,64})/")
_CONTAINER = regex(r" super external:[^/\s]")  # one of its arrays has `external:/md127/0`
_WITHOUT_SPARE = frozenset({"raid0", "linear"})
_WITH_PARITY = frozenset({"raid4", "raid5", "raid6"})
_BLOCK = "/sys/block"
_CLASS = "/sys/class/block"
_CONF = "/etc/mdadm/mdadm.conf"
_BY_HAND = regex(r"md\d{1,2}")
# a member, which no one else may name so (lvm(8), reserved names)
_IMAGE = regex(r"(.+)_rimage_(\d+)")
# volume group and volume, a hyphen in them doubled
_MAPPED = regex(r"((?:[^-]|--)+)-(?!-)((?:[^-]|--)+)")
_VOLUME = regex(
    r"(.+): \d+ \d+ raid (raid\d+)((?:[^\s\d]\S*)?) \d+ ([AaD-]+) (\d+)/(\d+)(?: ([a-z]+) (\d+)"
    r"(?: .*)?)?",
    re.DOTALL,
)
_ACTIONS = {"recover": "recovery", "resync": "resync", "reshape": "reshape"}
_PROGRESS = regex(r"(recovery|resync|reshape|check) *= *(?:([0-9.]+)%|DELAYED|PENDING|REMOTE)")


@frozen
class Array(Fact):
    """One array."""

    name: str  # md0; of LVM vg0/home
    level: str  # raid1; empty for one that is not started
    is_active: bool  # it can be read and written
    wanted: int  # members that it is made of; 0 where the level has none to spare (raid0, linear)
    missing: int  # of these, how many do not work
    failed: tuple[str, ...]  # members that the kernel threw out and that are still listed
    # of arrays of firmware RAID (IMSM, DDF), which are listed by themselves; never active
    is_container: bool
    sync: str  # recovery, resync or reshape while that goes on; empty for none; a check is no fault
    percent: float  # of that; -1 where it waits or none goes on
    is_lost: bool = False  # it misses more members than its level has to spare
    is_broken: bool = False  # the kernel says that it has lost data, and fails every write to it
    members: tuple[str, ...] = ()  # the devices that it is made of, as /proc/mdstat has them: sda1
    # of raid0 and linear: members that the kernel has no device of any more
    gone: tuple[str, ...] = ()
    # of raid4, 5 and 6: sectors that the last check found not to agree with their parity
    mismatches: int = 0
    kind: str = "md"  # md | LVM
    # mdadm.conf has no line of it: the next boot may bring it up by another name, md127
    is_unlisted: bool = False
    # of firmware RAID: the container, which takes new disks for it (mdadm refuses to add them to
    # a member array); else empty
    container: str = ""
    health_commands: str = (
        # the commands that show how its disks are: of those that failed, else of all
        "sudo hosttune disks"
    )


@frozen
class Raid(Subject):
    """All arrays of the kernel's own RAID, those of LVM last; none of files that a user
    attached.
    """

    @fact
    def arrays(self) -> tuple[Array, ...]:
        return (
            *_read_arrays(self.reader, self.facts, self._find_attached),
            *_find_volumes(self.reader, self._find_attached),
        )

    def _find_attached(self) -> frozenset[str]:
        names = attempt(lambda: self.facts.disks.attached)
        return frozenset() if isinstance(names, Unreadable) else names


def _read_arrays(
    reader: Reader, facts: Facts, attached: Callable[[], frozenset[str]]
) -> tuple[Array, ...]:
    # Most hosts have no array, and a support file may lack /proc/mdstat: without this line they
    # would be unknown.
    if not any(name.startswith("md") for name in names_in(reader, _BLOCK)):
        return ()
    content = read_text(reader, MDSTAT)
    arrays = () if content is ABSENT else parse_or_unknown(parse_mdstat, str(content))
    of_users = attached() if arrays else frozenset()
    return tuple(
        replace(
            array,
            is_broken=lazy(_is_broken, reader, array),
            gone=lazy(_find_gone, reader, array),
            mismatches=lazy(_count_mismatches, reader, array),
            is_unlisted=lazy(_is_unlisted, reader, array, arrays),
            health_commands=lazy(find_health_commands, facts, array.failed or array.members),
        )
        for array in arrays
        # An array without members is kept: an empty set is a part of each set.
        if not array.members or not of_users.issuperset(array.members)
    )


def _is_unlisted(reader: Reader, array: Array, arrays: tuple[Array, ...]) -> bool:
    """Whether an array is called by hand (md0, md3), and mdadm.conf has no line of it
    (mdadm.conf(5), ARRAY): the initial RAM disk knows no name of the host, takes it for one of
    another host, and counts down from md127. A line may have another name of an array, so there
    have to be fewer lines than arrays, too.
    """
    # People call an array md0 to md99; from md127 down is what a boot calls one without a line.
    content = (
        read_text(reader, _CONF) if array.is_active and _BY_HAND.fullmatch(array.name) else ABSENT
    )
    # Files in mdadm.conf.d are not read here, and any of them may have the line.
    if content is ABSENT or names_in(reader, f"{_CONF}.d"):
        return False
    rows = [row.split() for row in str(content).splitlines()]
    lines = [row for row in rows if len(row) > 1 and row[0].lower() == "array"]
    listed = {
        f"md{row[1].removeprefix('/dev/').removeprefix('md/').removeprefix('md')}" for row in lines
    }
    return len(lines) < len(arrays) and array.name not in listed


def _is_broken(reader: Reader, array: Array) -> bool:
    return (
        array.is_broken
        or if_absent(read_line(reader, f"{_BLOCK}/{array.name}/md/array_state"), "") == "broken"
    )


def _find_gone(reader: Reader, array: Array) -> tuple[str, ...]:
    if array.level not in _WITHOUT_SPARE:
        return ()
    there = require_sure(reader.list(_CLASS))
    return () if there is ABSENT else tuple(name for name in array.members if name not in there)


def _count_mismatches(reader: Reader, array: Array) -> int:
    """0 also where the last that went over the array was no check: building one counts as well."""
    folder = f"{_BLOCK}/{array.name}/md"
    if (
        array.level not in _WITH_PARITY
        or if_absent(read_line(reader, f"{folder}/last_sync_action"), "") != "check"
    ):
        return 0
    return if_absent(read_integer(reader, f"{folder}/mismatch_cnt"), 0)


def parse_mdstat(content: str) -> tuple[Array, ...]:
    """The arrays of /proc/mdstat. Raises ValueError for a line of an array that is none."""
    found = []
    for block in f"\n{content}".split("\nmd")[1:]:
        head, _, rest = f"md{block}".partition("\n")
        match = _ARRAY.fullmatch(head)
        if not match:
            raise ValueError(f"{MDSTAT} says {head[:80]!r}, which is no array")
        members = _MEMBER.findall(match[4])
        working, progress = _WORKING.search(rest), _PROGRESS.search(rest)
        wanted, there = (int(working[1]), int(working[2])) if working else (0, 0)
        is_syncing = progress is not None and progress[1] != "check"
        container = _IN_CONTAINER.search(rest)
        found.append(
            Array(
                name=match[1],
                level=match[3] or "",
                is_active=match[2] == "active",
                wanted=wanted,
                missing=max(0, wanted - there),
                is_lost=working is not None and _is_lost(match[3] or "", working[3], rest),
                failed=tuple(name for name, flags in members if "(F)" in flags),
                is_container=bool(_CONTAINER.search(rest)),
                sync=progress[1] if progress and is_syncing else "",
                percent=float(progress[2]) if progress and is_syncing and progress[2] else -1.0,
                is_broken=match[2] == "broken",
                members=tuple(sorted(name for name, _ in members)),
                container=container[1] if container else "",
            )
        )
    return tuple(sorted(found, key=lambda array: array.name))


def _is_lost(level: str, members: str, layout: str) -> bool:
    """`members` is U for each member that works, in their order, and _ for each that does not."""
    if level in _SPARES:
        return members.count("_") > _SPARES[level]
    if level == "raid1":
        return "U" not in members
    copies = {kind: int(many) for many, kind in _COPIES.findall(layout)}
    # the number is text of a program
    gap = "_" * min(max(copies.values(), default=2), 2 * len(members) + 1)
    # With near and far copies at once the layout is not worked out here, so only an array without
    # any member is lost for certain.
    if level != "raid10" or len(copies) > 1:
        return level == "raid10" and "U" not in members
    if "near" in copies and len(members) % len(gap) == 0:
        return gap in (members[at : at + len(gap)] for at in range(0, len(members), len(gap)))
    # The copies of the last member are on the first one.
    return gap in members + members[: len(gap) - 1]


def _find_volumes(reader: Reader, attached: Callable[[], frozenset[str]]) -> tuple[Array, ...]:
    """Those of LVM: everybody sees that they are there, and root how they are."""
    # as the device mapper calls the volume -> number of the member -> device
    images: dict[str, dict[int, str]] = {}
    for device in names_in(reader, _BLOCK):
        name = (
            if_absent(read_line(reader, f"{_BLOCK}/{device}/dm/name"), "")
            if device.startswith("dm-")
            else ""
        )
        if (match := _IMAGE.fullmatch(name)) and _is_of_lvm(reader, device):
            images.setdefault(match[1], {})[int(match[2])] = device
    arrays = make_shared(_read_status, reader, images)
    of_users = attached() if images else frozenset()
    return tuple(
        _make_volume(name, arrays)
        for name in sorted(images)
        if not of_users.issuperset(images[name].values())
    )


def _is_of_lvm(reader: Reader, device: str) -> bool:
    """Older records mask all that is there, and keep the name."""
    return if_absent(read_line(reader, f"{_BLOCK}/{device}/dm/uuid"), "").startswith(("LVM-", MASK))


def _make_volume(mapped: str, arrays: Callable[[], Mapping[str, Array]]) -> Array:
    try:
        return replace(arrays()[mapped], name=name_volume(mapped))
    except UnknownFact as unknown:
        reason = unknown.reason
    except KeyError:
        reason = f"dmsetup tells nothing of {mapped}"
    hidden = make_unread(reason)
    return Array(
        name_volume(mapped),
        hidden,
        is_active=True,
        wanted=hidden,
        missing=hidden,
        failed=hidden,
        is_container=False,
        sync=hidden,
        percent=hidden,
        is_lost=hidden,
        gone=hidden,
        mismatches=hidden,
        kind="LVM",
    )


def name_volume(mapped: str) -> str:
    """`vg0-a--b` of the device mapper -> vg0/a-b, as lvm(8) calls it."""
    parts = _MAPPED.fullmatch(mapped)
    return "/".join(part.replace("--", "-") for part in parts.groups()) if parts else mapped


def _read_status(reader: Reader, images: Mapping[str, Mapping[int, str]]) -> Mapping[str, Array]:
    if not reader.is_privileged:
        raise UnknownFact("needs root: how the RAID volumes of LVM are")
    pulled = {name: _find_pulled(reader, members) for name, members in images.items()}
    return parse_or_unknown(parse_volumes, run_looking(reader, VOLUMES).text, pulled)


def _find_pulled(reader: Reader, members: Mapping[int, str]) -> frozenset[int]:
    """The members below which a device is gone, which the kernel's RAID may not have met yet."""
    there = require_sure(reader.list(_CLASS))
    below = {
        number: names_in(reader, f"{_BLOCK}/{device}/slaves") for number, device in members.items()
    }
    return (
        frozenset()
        if there is ABSENT
        else frozenset(one for one in below if not set(below[one]) <= set(there))
    )


def parse_volumes(output: str, pulled: Mapping[str, frozenset[int]]) -> Mapping[str, Array]:
    """Name -> array, of `dmsetup status`. `pulled`: each volume there is, with the members that are
    known to be gone. Raises ValueError for a line that is none.
    """
    found = {}
    for row in filter(None, output.splitlines()):
        match = _VOLUME.fullmatch(row.strip())
        if not match:
            message = f"dmsetup printed {row[:80]!r}, which is no RAID volume"
            raise ValueError(message)
        name, level, layout, letters, done, whole, action, mismatches = match.groups()
        # of a volume that has a snapshot, the array is below it and is called so (lvm2:
        # build_dm_uuid, "real")
        volume = name if name in pulled else name.removesuffix("-real")
        gone = pulled.get(volume, frozenset())
        dead = {at for at, letter in enumerate(letters) if letter in "D-" or at in gone}
        late = {at for at, letter in enumerate(letters) if letter == "a"} - dead
        # While the whole array is brought in step, all are late; else those that are do not hold
        # what the others do.
        missing = dead | (late if len(late | dead) < len(letters) else set())
        is_plain = level in _WITHOUT_SPARE
        sync = _ACTIONS.get(action or "", "")
        found[volume] = Array(
            name=volume,
            level=level,
            is_active=True,
            wanted=0 if is_plain else len(letters),
            missing=0 if is_plain else len(missing),
            failed=() if is_plain else _name_images(volume, dead),
            is_container=False,
            sync=sync,
            percent=round(100 * int(done) / max(1, int(whole)), 1) if sync else -1.0,
            is_lost=_is_lost(
                level,
                "".join("_" if at in dead else "U" for at in range(len(letters))),
                "2 near-copies" if layout in {"", "_near"} else "",
            ),
            gone=_name_images(volume, dead) if is_plain else (),
            mismatches=int(mismatches or 0) if level in _WITH_PARITY else 0,
            kind="LVM",
        )
    return found


def _name_images(volume: str, numbers: set[int]) -> tuple[str, ...]:
    return tuple(f"{volume}_rimage_{number}" for number in sorted(numbers))
