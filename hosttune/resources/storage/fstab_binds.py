"""What a boot makes of a bind mount whose source, or a line whose folder, is on what it mounts
later, or not there.

Sources: systemd.mount(5) (a bind mount is started after the mount units that hold its source;
x-systemd.requires=), systemd, src/core/mount.c (mount_enter_mounting makes a source that is
missing), zfs-mount-generator(8), and https://github.com/amazonlinux/amazon-linux-2023/issues/468.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hosttune.facts.base import attempt
from hosttune.facts.globs import fits_glob, glob_fault
from hosttune.facts.reading import names_in
from hosttune.facts.storage.fstab_types import ON_DISK, is_remote_to_systemd
from hosttune.facts.storage.fstab_typing import ESCAPED
from hosttune.facts.storage.mounts import mount_below, name_effective_type, unit_name
from hosttune.facts.storage.sources import sources_of
from hosttune.facts.storage.unions import GLOB, branches_of, union_type
from hosttune.facts.storage.ways import ways_of
from hosttune.host.reading.mountinfo import folders_above
from hosttune.host.reading.paths import PATH_MAX
from hosttune.quoting import quote
from hosttune.resources.storage.fstab_needs import find_waited
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.facts.storage.mounts import Mount

_BINDS = frozenset({"bind", "rbind"})
_ORDERED = (
    "x-systemd.requires=",
    "x-systemd.after=",
    "x-systemd.requisite=",
    "x-systemd.binds-to=",
    "_netdev",
)
_MOST_BRANCHES = 32  # that are looked for
# Folders below /run/systemd, by systemd.generator(7).
_GENERATED = ("generator", "generator.early", "generator.late")
_MADE_AT_BOOT = ("/run/", "/dev/", "/proc/", "/sys/", "/tmp/", "/var/run/")


class BindFault(NamedTuple):
    """What is wrong with a bind mount; all empty for nothing."""

    sentence: str = ""  # what follows `line 7 of /etc/fstab`
    way_out: str = ""
    is_shown_wrong: bool = False  # it shows another file system now than its source is on


def find_bind_fault(facts: Facts, entry: FstabEntry, here: Sequence[Mount]) -> BindFault:
    """`here`: what is mounted at its target now."""
    source, reader = entry.source.rstrip("/"), facts.reader
    is_bind = (
        not _BINDS.isdisjoint(entry.options) and source.startswith("/") and len(source) < PATH_MAX
    )
    if not is_bind or reader.persistent_only:
        return BindFault()
    path, is_far = ways_of(facts).follow(source)  # of what is far nothing is asked
    if linked := _explain_link(facts, entry, source, path):
        return linked
    if not is_far and reader.stat(path) is ABSENT:
        return _explain_missing(facts, entry, source)
    mount = mount_below(facts, path)
    if mount is None or mount.is_of_user or not _is_late(facts, mount):
        return BindFault()
    if any(word.startswith(_ORDERED) for word in entry.options):
        return BindFault()
    kept = [one for one in here if not one.is_of_user]
    shown = kept[-1] if kept else None
    is_wrong = shown is not None and shown.device != mount.device and shown.fstype != mount.fstype
    now = f", as it does now ({shown.source}, {shown.fstype})" if shown and is_wrong else ""
    sentence = (
        f"binds {source}, which is on {mount.target} ({mount.fstype}); no line of fstab and no "
        f"unit file mounts that, so a boot can come before it, and shows the folder below{now}"
    )
    is_zfs = mount.fstype == "zfs"
    unit = "zfs-mount.service" if is_zfs else f"UNIT, the unit that mounts {mount.target}"
    again = (
        f"; when nothing uses it: sudo umount {quote(entry.target)} && sudo mount "
        f"{quote(entry.target)}"
    )
    return BindFault(
        sentence, f"add x-systemd.requires={unit}{again if is_wrong else ''}", is_wrong
    )


def find_nesting_fault(facts: Facts, entry: FstabEntry) -> BindFault:
    """What a boot makes of a line below something that no line and no unit mounts, as a dataset of
    ZFS.
    """
    parent = entry.path.rpartition("/")[0]
    is_after_disks = is_remote_to_systemd(
        name_effective_type(entry.fstype, entry.source), frozenset(entry.options)
    )
    if facts.reader.persistent_only or not parent or len(parent) >= PATH_MAX or is_after_disks:
        return BindFault()
    mount = mount_below(facts, parent)
    if mount is None or mount.is_of_user or not _is_late(facts, mount):
        return BindFault()
    if any(word.startswith(_ORDERED) for word in entry.options):
        return BindFault()
    sentence = (
        f"mounts below {mount.target} ({mount.fstype}), which no line of fstab and no unit file "
        "mounts: a boot can come before that, which then hides it"
    )
    unit = (
        "zfs-mount.service"
        if mount.fstype == "zfs"
        else f"UNIT, the unit that mounts {mount.target}"
    )
    return BindFault(sentence, f"add x-systemd.requires={unit}")


def find_union_fault(facts: Facts, entry: FstabEntry) -> BindFault:
    """What comes of a union in which no branch is there: mergerfs mounts it all the same, and
    nothing in it works (https://github.com/trapexit/mergerfs/issues/1360).
    """
    if (
        facts.reader.persistent_only
        or "lay" in (kind := union_type(entry.fstype, entry.source))
        or not kind
    ):
        return BindFault()  # the kernel refuses an overlay of what is not there
    branches = branches_of(entry.fstype, entry.source, entry.options)[:_MOST_BRANCHES]
    if not branches or any(_may_be_there(facts, one) for one in branches):
        return BindFault()
    named = ", ".join(branches[:3]) + (" ..." if len(branches) > 3 else "")
    sentence = (
        f"has no branch, for nothing is there that fits {named}: it is mounted all the same, and "
        "no file can be made"
    )
    return BindFault(sentence, f"make the folders, or name those that are meant for {entry.target}")


def _may_be_there(facts: Facts, branch: str) -> bool:
    """Whether a folder of this name, or one that fits the wildcards in the last part of it, is
    there, or may be.
    """
    ways, (parent, _, last) = ways_of(facts), branch.rpartition("/")
    if sources_of(facts).is_below_unmounted(branch) or GLOB.search(parent):
        return True
    if not GLOB.search(last):
        path, is_far = ways.follow(branch)
        return is_far or facts.reader.stat(path) is not ABSENT
    path, is_far = ways.follow(parent or "/")
    if is_far or glob_fault(last):
        return True
    names = attempt(names_in, facts.reader, path)
    # A folder that cannot be listed may hold a branch.
    return not isinstance(names, tuple) or any(fits_glob(name, last) for name in names)


def _explain_link(facts: Facts, entry: FstabEntry, source: str, path: str) -> BindFault | None:
    """What comes of a source that a link leads to another mount: systemd waits for the mounts of
    the path as it is written (https://github.com/systemd/systemd/issues/6010).
    """
    above = (
        {path, *folders_above(path)} - {source, *folders_above(source), entry.path}
        if path != source
        else ()
    )
    lines = facts.fstab.by_path
    # Of several mounts on the way the deepest one holds the source.
    on = max(
        (one for one in above if one in lines or one in facts.mount_units.by_path),
        key=len,
        default="",
    )
    waited = find_waited(entry.options)
    line = lines.get(on)
    is_far = line is not None and is_remote_to_systemd(
        name_effective_type(line.fstype, line.source), frozenset(line.options)
    )
    is_after_disks = "_netdev" in entry.options
    if not on or waited is None or on in waited or (is_after_disks and not is_far):
        return None
    where = f"{on} ({line.where})" if line else on
    sentence = (
        f"binds {source}, which a link leads to {where}: systemd does not wait for that mount, so "
        "a boot can come before it, and shows an empty folder or fails"
    )
    todo = (
        f"write {path.replace(' ', ESCAPED)} as its source, or add "
        f"x-systemd.requires-mounts-for={on}"
    )
    # Else systemd counts it among the disks, which the network comes after (ordering cycle).
    return BindFault(sentence, f"{todo}\nadd _netdev" if is_far and not is_after_disks else todo)


def _explain_missing(facts: Facts, entry: FstabEntry, source: str) -> BindFault:
    if f"{source}/".startswith(_MADE_AT_BOOT) or sources_of(facts).is_below_unmounted(source):
        return BindFault()
    sentence = (
        f"binds {source}, which is not there: a boot makes an empty folder of that name, and shows "
        "it"
    )
    return BindFault(
        sentence, f"name the folder that is meant for {entry.target}, or take the line out"
    )


def _is_late(facts: Facts, mount: Mount) -> bool:
    """Whether systemd knows of no unit of it when a boot begins. A generator may have made one,
    which is in /run.
    """
    is_data = (
        mount.fstype in ON_DISK | {"zfs"} or mount.fstype.startswith("fuse") or mount.is_network
    )
    if mount.target == "/" or not is_data:
        return False
    if mount.target in facts.fstab.by_path or mount.target in facts.mount_units.by_path:
        return False
    name = unit_name(mount.target)
    return all(
        facts.reader.stat(f"/run/systemd/{folder}/{name}") is ABSENT for folder in _GENERATED
    )
