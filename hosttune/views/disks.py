"""The disks of a host: what `lsblk -fm` and `df -h` would show together, and what training asks of
them.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.facts.base import UnknownFact, get_raw
from hosttune.facts.storage.fstab_lines import PATH
from hosttune.facts.storage.mounts import is_network
from hosttune.facts.storage.sources import names_device, plain_source, sources_of
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count, say_size
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.resources.storage.mount_causes import MountCauses
from hosttune.views.terminal import width_of, wrap_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.storage.disks import Disk
    from hosttune.facts.storage.filesystems import Filesystem, IdleGroup
    from hosttune.facts.storage.fstab import FstabEntry, Misread
    from hosttune.facts.storage.mounts import Mount
    from hosttune.views.page import Page

T = TypeVar("T")
# shown when something on a disk's file system is mounted from it
_SMALL = frozenset({"loop", "ram", "zram", "cdrom"})
_IDLE = {
    "ZFS": "a disk of the ZFS pool{}, which is not imported: sudo zpool import",
    "LVM": "a part of a volume group of LVM of which no volume is active: sudo vgs, sudo vgchange "
    "-ay",
    "RAID": "a part of the array{}, which is not assembled: cat /proc/mdstat, sudo mdadm --examine",
}


@frozen
class DiskRow:
    """One block device, what it holds, where that is mounted, and the lines of fstab that name
    it.
    """

    disk: Disk
    holds: Filesystem | None
    mounts: tuple[Mount, ...]
    lines: tuple[FstabEntry, ...]  # and unit files that mount
    children: tuple[str, ...]  # names of the devices made of it
    is_swap: bool
    # the pool, volume group or array of which it is a part, and which is not up
    idle: IdleGroup | None = None
    # lines that name it, and that not all programs take for an entry
    misread: tuple[Misread, ...] = ()
    # why nothing is mounted, by `line 3 of /etc/fstab`
    causes: Mapping[str, str] = field(default_factory=dict)
    # where those of these unit files are that no boot starts
    unwanted: frozenset[str] = frozenset()
    # lines whose source leads to no known device, and that mount where it is
    by_target: tuple[FstabEntry, ...] = ()
    # where its lines are by which another device of that name is mounted
    elsewhere: frozenset[str] = frozenset()
    unused_bytes: int = 0  # of a disk with partitions, what is in none of them


@frozen
class DiskTree:
    """The rows in the order of a tree, and what could not be found out."""

    rows: tuple[DiskRow, ...]
    missing: tuple[FstabEntry, ...]  # lines of fstab whose device is not there
    unresolved: tuple[FstabEntry, ...]  # and those of which it is not known what device they name
    unknown: tuple[str, ...]
    # what /etc/crypttab and the kernel command line have a boot stop or wait at
    next_boot: tuple[str, ...] = ()


def disks_of(facts: Facts) -> DiskTree:
    """Join the facts about disks, file systems, mounts, swap and fstab. Raises UnknownFact without
    any disks.
    """
    unknown: list[str] = []

    def ask_or_none(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except UnknownFact as missing:
            unknown.append(str(missing))
            return ()

    disks = facts.disks.all
    held = {one.path: one for one in ask_or_none(lambda: facts.filesystems.all)}
    mounts = [mount for mount in ask_or_none(lambda: facts.mounts.all) if not mount.is_bind]
    misread = ask_or_none(lambda: facts.fstab.misread)
    expected = ask_or_none(lambda: facts.mounts.expected)
    why = MountCauses(facts) if any(not one.is_mounted for one in expected) else None
    absent = [(one.file, one.line) for one in expected if not one.is_mounted]
    causes = {place: why.find(*place).sentence for place in absent if why}
    idle = {
        path: group for group in ask_or_none(lambda: facts.filesystems.idle) for path in group.paths
    }
    sources = sources_of(facts)
    units = ask_or_none(lambda: facts.mount_units.all)
    unwanted = {one.entry.where for one in units if not (one.is_started or one.is_automounted)}
    entries = ask_or_none(lambda: sources.entries)
    swaps = {swap.path for swap in ask_or_none(lambda: facts.memory.swaps)}
    found = {entry.where: sources.find(entry.source) for entry in entries}
    # A record may have thousands of each.
    by_device = _group_by_names(
        range(len(mounts)), lambda place: (get_raw(mounts[place], "device"),)
    )
    by_source = _group_by_names(range(len(mounts)), lambda place: (mounts[place].source,))
    by_name = _group_by_names(entries, lambda entry: found[entry.where] or ())
    by_target = _group_by_names(
        (one for one in entries if found[one.where] is None),
        lambda entry: (entry.target, entry.path),
    )
    by_parent = _group_by_names(disks, _list_parents)
    odd_by_name = _group_by_names(misread, lambda line: sources.find(line.source) or ())
    rows = []
    for disk in disks:
        holds = held.get(disk.path)
        tags = {disk.path, f"/dev/{disk.name}", *(holds.tags if holds else ())}
        places = {
            *by_device.get(get_raw(disk, "device"), ()),
            *(one for tag in tags for one in by_source.get(tag, ())),
        }
        here = tuple(mounts[place] for place in sorted(places))
        lines = tuple(by_name.get(disk.name, ()))
        made = by_parent.get(disk.name, ())
        children = tuple(child.name for child in made)
        odd = tuple(odd_by_name.get(disk.name, ()))
        own = {line.where: causes.get((line.file, line.line), "") for line in lines}
        rows.append(
            DiskRow(
                disk,
                holds,
                here,
                lines,
                children,
                bool(swaps & tags),
                idle.get(disk.path),
                odd,
                own,
                frozenset(line.where for line in lines) & unwanted,
                tuple(one for mount in here for one in by_target.get(mount.target, ())),
                unused_bytes=_count_unused(disk, made),
            )
        )
    shown = {(mount.target, row.disk.name) for row in rows for mount in row.mounts}
    served = {
        one.where
        for one in entries
        if any(
            (target, name) in shown
            for name in found[one.where] or ()
            for target in (one.target, one.path)
        )
    }
    rows = [
        replace(row, elsewhere=frozenset(line.where for line in row.lines) & served) for row in rows
    ]
    missing = tuple(entry for entry in entries if found[entry.where] == ())
    unresolved = (one for one in entries if found[one.where] is None and names_device(one.source))
    local = tuple(one for one in unresolved if not is_network(one.fstype, one.source))
    files = {PATH, *(entry.file for entry in entries)}
    boot = () if facts.reader.persistent_only else ask_or_none(lambda: look_at_boot_lines(facts))
    others = tuple(
        one.fault or one.note for one in boot if one.file not in files and (one.fault or one.note)
    )
    return DiskTree(tuple(_sort_rows(rows)), missing, local, tuple(dict.fromkeys(unknown)), others)


def _count_unused(disk: Disk, made: Iterable[Disk]) -> int:
    """Bytes in no partition, as where nothing grew the last one; 0 for less than a fiftieth of the
    disk.
    """
    parts = [get_raw(one, "size_bytes") for one in made if get_raw(one, "kind") == "partition"]
    known = [one for one in parts if isinstance(one, int)]
    size = get_raw(disk, "size_bytes")
    if not known or not isinstance(size, int) or len(known) < len(parts):
        return 0
    left = size - sum(known)
    return left if left > max(1 << 30, size // 50) else 0


def _group_by_names(
    things: Iterable[T], names_of: Callable[[T], Iterable[Any]]
) -> dict[Any, list[T]]:
    found: dict[Any, list[T]] = {}
    for thing in things:
        for name in dict.fromkeys(names_of(thing)):
            found.setdefault(name, []).append(thing)
    return found


def _list_parents(disk: Disk) -> tuple[str, ...]:
    parents = get_raw(disk, "parents")
    return parents if isinstance(parents, tuple) else ()


def _sort_rows(rows: list[DiskRow]) -> Iterable[DiskRow]:
    """Each device after the first of those that it is made of."""
    by_name = {row.disk.name: row for row in rows}
    done: set[str] = set()

    def below(top: DiskRow) -> Iterable[DiskRow]:
        waiting = [top]
        while waiting:
            row = waiting.pop()
            if row.disk.name not in done:
                done.add(row.disk.name)
                yield row
                waiting += (by_name[name] for name in reversed(row.children))

    for row in rows:
        if not any(parent in by_name for parent in _list_parents(row.disk)):
            yield from below(row)


def disks_json(disks: DiskTree) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "devices": [
            {
                "device": to_json(row.disk),
                "filesystem": to_json(row.holds) if row.holds else None,
                "mounts": [to_json(mount) for mount in row.mounts],
                "fstab": [to_json(entry) for entry in row.lines],
                "is_swap": row.is_swap,
                "unused_bytes": row.unused_bytes,
                "misread": [to_json(line) for line in row.misread],
                "causes": {where: cause for where, cause in row.causes.items() if cause},
            }
            for row in disks.rows
        ],
        "missing": [to_json(entry) for entry in disks.missing],
        "unresolved": [to_json(entry) for entry in disks.unresolved],
        "next_boot": list(disks.next_boot),
        "unknown": list(disks.unknown),
    }


def disks_text(disks: DiskTree, page: Page) -> str:
    depth: dict[str, int] = {}
    lines: list[str] = []
    hidden = 0
    for row in disks.rows:
        depth[row.disk.name] = 1 + max(
            (depth.get(parent, -1) for parent in _list_parents(row.disk)), default=-1
        )
        if (
            row.disk.kind in _SMALL
            and not (row.mounts and row.holds)
            and not row.is_swap
            and not page.is_verbose
        ):
            hidden += 1
            continue
        lines += _render_row(row, page, "  " * depth[row.disk.name])
    lines += _list_notes(disks, page, hidden)
    number = sum(row.disk.kind == "disk" for row in disks.rows)
    mounts = say_count(sum(len(row.mounts) for row in disks.rows), "mount")
    lines += ["", f"{say_count(number, 'disk')}, {mounts}.", "", "Next"]
    lines.append(f"  {page.todo('hosttune fstab')}  checks each line of {PATH}")
    return "\n".join(lines) + "\n"


def _render_row(row: DiskRow, page: Page, indent: str) -> list[str]:
    disk = row.disk
    parts = [page.screen.paint(clean(disk.name), "bold"), size_text(get_raw(disk, "size_bytes"))]
    if disk.kind == "disk":
        parts += [_describe_medium(disk), clean(str(get_raw(disk, "model")))]
    elif disk.kind != "partition":
        parts.append(
            f"{disk.kind} on {', '.join(_list_parents(disk))}" if _list_parents(disk) else disk.kind
        )
    if row.holds:
        parts += [row.holds.fstype or "no file system", *_list_names(row.holds)]
    elif row.mounts:
        parts.append(row.mounts[0].fstype)
    inner = indent + "    "
    lines = _join_parts([part for part in parts if part], page.screen.columns, indent, inner)
    for mount in row.mounts:
        lines += wrap_text(
            _describe_mount(mount), page.screen.columns, first=inner, rest=inner + "  "
        )
    lines += [f"{inner}swap, in use"] * row.is_swap
    lines += [f"{inner}{size_text(row.unused_bytes)} in no partition"] * bool(row.unused_bytes)
    lines += wrap_text(_describe_state(row), page.screen.columns, first=inner, rest=inner + "  ")
    return lines


def _join_parts(parts: list[str], columns: int, first: str, rest: str) -> list[str]:
    """The parts with two blanks between them, each in one piece, in lines of that width."""
    lines = [first + parts[0]]
    for part in parts[1:]:
        if width_of(f"{lines[-1]}  {part}") <= columns:
            lines[-1] += f"  {part}"
        else:
            lines.append(rest + part)
    return lines


def _describe_medium(disk: Disk) -> str:
    """Flash or rotating, as the kernel says; a virtual disk often says rotating whatever is behind
    it.
    """
    rotational = get_raw(disk, "is_rotational")
    transport = get_raw(disk, "transport")
    words = [transport] if isinstance(transport, str) and transport else []
    if isinstance(rotational, bool):
        is_sure = get_raw(disk, "is_virtual") is False
        words.append(
            ("rotates" if is_sure else "virtual disk, reports that it rotates")
            if rotational
            else "flash"
        )
    return ", ".join(words)


def _list_names(holds: Filesystem) -> list[str]:
    label = [f"label {clean(holds.label)}"] if holds.label else []
    return [*label, *([f"UUID={clean(holds.uuid)}"] if holds.uuid else [])]


def _describe_mount(mount: Mount) -> str:
    parts = [f"{clean(mount.target)}:", mount.atime + (", read-only" if mount.is_read_only else "")]
    total, available = get_raw(mount, "total_bytes"), get_raw(mount, "available_bytes")
    if isinstance(total, int) and isinstance(available, int) and total:
        parts.append(
            f"{size_text(available)} free of {size_text(total)} "
            f"({_format_share(total - available, total)} used);"
        )
        inodes, left = get_raw(mount, "total_inodes"), get_raw(mount, "available_inodes")
        if isinstance(inodes, int) and isinstance(left, int) and inodes:
            parts.append(f"inodes {_format_share(inodes - left, inodes)} used")
        else:
            parts.append("inodes as needed")
    return " ".join(parts)


def _format_share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _describe_state(row: DiskRow) -> str:
    """Whether fstab knows it, and what is odd about that."""
    if row.lines or row.misread:
        clauses = [
            _describe_line(entry) + ("; no boot starts it" if entry.where in row.unwanted else "")
            for entry in row.lines
        ]
        clauses += [
            f"fstab line {line.line}, misread (see: hosttune fstab)" for line in row.misread
        ]
        mounted = {mount.target for mount in row.mounts}
        away = [one for one in row.lines if not one.is_swap and one.target not in mounted]
        absent = [one for one in away if one.where not in row.elsewhere]
        reasons = dict.fromkeys(cause for entry in absent if (cause := row.causes.get(entry.where)))
        why = f": the line {clean(', and '.join(reasons))}" if reasons else ""
        if away and not absent:
            return "; ".join(clauses) + "; another device of that name is mounted there"
        return "; ".join(clauses) + (f"; not mounted now{why}" if absent else "")
    if row.mounts and row.by_target:
        unsure = "; whether that is this device is not known"
        return "; ".join(
            _describe_line(one) + unsure * names_device(one.source) for one in row.by_target
        )
    if row.mounts:
        is_root = any(mount.target == "/" for mount in row.mounts)
        return "no line in fstab" + ("" if is_root else ": the next boot may not mount it")
    if row.idle:
        return _IDLE[row.idle.kind].format(f" {clean(row.idle.name)}" if row.idle.name else "")
    if row.holds and not row.children and not row.is_swap:
        return (
            f"a part of something else ({row.holds.fstype})"
            if row.holds.is_member
            else "not mounted, no line in fstab"
        )
    return ""


def _describe_line(entry: FstabEntry) -> str:
    place = "fstab" if entry.file == PATH else clean(entry.file)
    where = "as swap" if entry.is_swap else f"on {clean(entry.target)}"
    return f"{place} line {entry.line}: {clean(plain_source(entry.source))} {where}"


def _list_notes(disks: DiskTree, page: Page, hidden: int) -> list[str]:
    notes = [f"{_describe_line(entry)}: no device has that name" for entry in disks.missing]
    notes += [f"{_describe_line(entry)}: its device is not known" for entry in disks.unresolved]
    notes += [f"next boot: {clean(sentence)}" for sentence in disks.next_boot]
    notes += [f"unknown: {clean(reason)}" for reason in disks.unknown]
    if hidden:
        notes.append(
            f"{say_count(hidden, 'loop, RAM or optical device')} not shown (-v lists them)"
        )
    if not disks.rows:
        notes.append("no block device")
    return [line for note in notes for line in wrap_text(note, page.screen.columns, rest="  ")]


def size_text(size: object) -> str:
    """`1.7 TiB`; `?` where it could not be read."""
    return say_size(size) if isinstance(size, int) else "?"
