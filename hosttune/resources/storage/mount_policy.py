"""Which atime modes are ours to change: what is in fstab, what is mounted, and who decided about
it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune import quoting
from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.fstab_options import ATIME_WORDS, has_secret
from hosttune.facts.storage.fstab_words import USER_WORDS
from hosttune.facts.storage.mounts import LOCAL_TYPES, NETWORK_TYPES, atime_of
from hosttune.frozen import frozen
from hosttune.host.reading.mountinfo import folders_above
from hosttune.resources.storage.fstab_document import PATH, clean_path
from hosttune.values import ABSENT, Hold, HoldKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.facts.storage.mounts import Mount
    from hosttune.resources.base import Context, Wish
    from hosttune.values import Value

_DECISIONS = frozenset({"strictatime", "atime", "norelatime"})  # no one's default: someone wrote it
# what leaves the kernel's default, relatime
_DEFAULTS = frozenset({"relatime", "nostrictatime", "atime"})
_FLAGS = frozenset({"ro", "nosuid", "nodev", "noexec", "nosymfollow", "nodiratime"})
_IMPLIED = {word: {f"no{flag}" for flag in off} for word, off in USER_WORDS.items()}
_NO_EFFECT = {
    "zfs": "a ZFS dataset has properties of its own for this: zfs set atime=off DATASET",
    "nfs": "the atime options have no effect on an NFS client (nfs(5))",
    "nfs4": "the atime options have no effect on an NFS client (nfs(5))",
    "overlay": "the layers below an overlay keep their own access times",
    "tmpfs": "a tmpfs writes no access times to a disk",
    "ramfs": "a ramfs writes no access times to a disk",
}
_READ_MOSTLY = frozenset(
    {"vfat", "msdos", "exfat", "iso9660", "udf", "squashfs", "erofs", "ntfs", "ntfs3", "ntfs-3g"}
)
OF_THE_KERNEL = frozenset({
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "efivarfs", "securityfs", "debugfs",
    "tracefs", "bpf", "hugetlbfs", "mqueue", "configfs", "autofs", "swap", "selinuxfs", "pstore",
    "binfmt_misc", "rpc_pipefs", "nfsd", "fusectl",
})  # fmt: skip
_READ = "read it; if it deletes nothing by access times, name it in the parameter harmless_jobs"
_KEEP = "nothing to do; without access times it would delete files that are in use"


def remount(target: str, atime: str) -> str:
    """The command that sets the atime flag alone: a bind remount that names every live flag and
    does not look into fstab. A plain one takes off `nosuid`, `nodev` and a read-only state that
    stand in no line there.
    """
    place = quoting.quote(target)
    flags = f"findmnt -nro VFS-OPTIONS --mountpoint {place} | sed -E '$!d; s/,(no|rel)atime//'"
    return f'mount --options-source disable -o "remount,bind,$({flags}),{atime}" {place}'


@frozen
class View:
    """One target: what is wanted, its line, its mount."""

    target: str
    wanted: str
    entry: FstabEntry | None
    mount: Mount | None  # None: not mounted, or no kernel runs here
    options: str | None  # of the line as written; None where there is no line or it is not edited
    live: Value  # ABSENT where not mounted
    is_running: bool  # a kernel runs under these files
    path: str = PATH  # of the fstab

    @property
    def place(self) -> str:
        return f"{self.path} line {self.entry.line}" if self.entry else self.path

    @property
    def words(self) -> frozenset[str]:
        return (
            frozenset(self.entry.options).intersection(ATIME_WORDS) if self.entry else frozenset()
        )

    @property
    def is_live_ok(self) -> bool:
        return self.live in (ABSENT, self.wanted)

    @property
    def is_boot_ok(self) -> bool:
        if self.entry is None:
            return self.live == self.wanted
        if self.wanted == "relatime":
            return self.words <= _DEFAULTS
        return self.words == {self.wanted}

    @property
    def fstype(self) -> str:
        return self.mount.fstype if self.mount else self.entry.fstype if self.entry else ""


_MOST_AT_A_TARGET = 64  # mounts, each of which is looked for at all the others


@frozen
class Aged:
    """Who deletes by access time on a mount, and what could not be looked at."""

    by: tuple[str, ...] = ()
    unknown: str = ""
    unread: str = ""  # the same of jobs of users: any user may have one that is not read


def find_aged(target: str, wish: Wish, facts: Facts) -> Aged:
    """Who deletes files below a target, wherever else its file system is mounted, by their access
    time.
    """
    if wish.fields["atime"] != "noatime":
        return Aged()
    mounted = facts.mounts.all
    is_image = facts.reader.persistent_only
    mounts = (
        _planned_trees(mounted)
        if is_image
        else [_Tree(one.device, one.root, one.target) for one in mounted]
    )
    own = [mount for mount in mounts if mount.target == target]
    if len(own) > _MOST_AT_A_TARGET:
        return Aged(unknown=f"more than {_MOST_AT_A_TARGET} file systems are mounted at {target}")
    places = {
        target,
        *(place for mount in mounts for one in own if (place := _shown_at(one, mount))),
    }
    harmless = {clean_path(path) for path in wish.fields.get("harmless_jobs", ())}
    found = [
        rule.source
        for rule in facts.ageing.rules
        if rule.uses_atime
        and rule.source.rpartition(":")[0] not in harmless
        and _meets_places(rule.path, places)
    ]
    trees = (clean_path(tree) for tree in wish.fields.get("purged_trees", ()))
    found += [
        f"the purge of {tree} that the policy declares"
        for tree in trees
        if _meets_places(tree, places)
    ]
    hidden = [one for one in facts.ageing.hidden if one.path not in harmless]
    unknown, unread = (
        "; ".join(one.reason for one in hidden if one.is_of_user is is_it)
        for is_it in (False, True)
    )
    return Aged(tuple(dict.fromkeys(found)), unknown, unread)


@frozen
class _Tree:
    """Which folder (`root`) of which file system (`device`) is mounted at `target`."""

    device: str
    root: str
    target: str


def _planned_trees(mounts: Iterable[Mount]) -> list[_Tree]:
    """As the fstab of an image names them: a file system by its source, a subvolume by `subvol=`.
    Without that word btrfs mounts the default subvolume, which is not known here: it counts as the
    whole file system.
    """
    found: dict[str, _Tree] = {"/": _Tree("", "/", "/")}
    trees = []
    for mount in mounts:
        device, root = mount.source, "/"
        if mount.is_bind:
            place = clean_path(mount.source)
            holder = next(
                found[folder]
                for folder in (place, *reversed(folders_above(place)))
                if folder in found
            )
            rest = place.removeprefix(holder.target.rstrip("/"))
            device, root = holder.device, f"{holder.root.rstrip('/')}{rest}" or "/"
        elif mount.fstype == "btrfs":
            subvolume = next((word[7:] for word in mount.options if word.startswith("subvol=")), "")
            root = f"/{subvolume.strip('/')}"
        trees.append(_Tree(device, root, mount.target))
        found[mount.target] = trees[-1]
    return trees


def _shown_at(own: _Tree, other: _Tree) -> str:
    """Where another mount shows files of this one; empty for nowhere, as of two subvolumes of one
    btrfs.
    """
    if own.device != other.device:
        return ""
    inner, outer = f"{own.root.rstrip('/')}/", f"{other.root.rstrip('/')}/"
    if outer.startswith(inner):
        return other.target
    return (
        clean_path(f"{other.target}/{inner.removeprefix(outer)}") if inner.startswith(outer) else ""
    )


def _meets_places(tree: str, places: Iterable[str]) -> bool:
    """Whether a folder is on or above one of the targets, or holds it."""
    inner = tree.rstrip("/") + "/"
    return any(
        inner.startswith(outer) or outer.startswith(inner)
        for outer in (f"{p.rstrip('/')}/" for p in places)
    )


def find_obstacle(view: View, wish: Wish, context: Context) -> tuple[Hold, str]:
    """Why this difference is left alone, and the way out; an empty hold where it is ours to
    change.
    """
    purged = find_aged(view.target, wish, context.facts)
    if purged.by:
        return Hold(
            HoldKind.OWNED, f"what ages files there by access time: {', '.join(purged.by)}"
        ), _KEEP
    if purged.unknown:
        raise UnknownFact(
            f"not known whether a job deletes files there by access time ({purged.unknown})"
        )
    if purged.unread:
        return Hold(
            HoldKind.OWNED,
            f"a job of a user that may age files there by access time: {purged.unread}",
        ), _READ
    host = context.facts.host
    if host.is_wsl:
        return Hold(
            HoldKind.REFUSED, "under WSL Windows mounts the disks"
        ), "set it in /etc/wsl.conf"
    if view.is_running and not host.shares_init_mounts:
        detail = "hosttune runs in a mount namespace of its own and cannot reach the host's mounts"
        return Hold(
            HoldKind.REFUSED, detail
        ), "run it in the host's namespace: nsenter -t 1 -m hosttune"
    if view.entry and view.mount and view.mount.unit:
        return _leave_to_unit(view, view.mount.unit)  # a unit file in /etc comes before the line
    return (
        written_obstacle(view)
        if view.entry or _why_senseless(view)
        else _explain_unlisted(view, context)
    )


def written_obstacle(view: View) -> tuple[Hold, str]:
    """As `find_obstacle`, by the file system and by its line alone."""
    senseless = _why_senseless(view)
    return (Hold(HoldKind.REFUSED, senseless), "") if senseless else _find_owner(view)


def _explain_unlisted(view: View, context: Context) -> tuple[Hold, str]:
    misread = next(
        (line for line in context.facts.fstab.misread if line.target == view.target), None
    )
    if misread:
        return Hold(HoldKind.REFUSED, misread.refusal), misread.way_out
    unit = view.mount.unit if view.mount else ""
    if unit:
        return _leave_to_unit(view, unit)
    todo = f"add a line for {view.target} to {PATH}, or {view.wanted} to what mounts it"
    return Hold(HoldKind.OWNED, f"what mounts it, which is not {PATH}"), todo


def _leave_to_unit(view: View, unit: str) -> tuple[Hold, str]:
    todo = f"add {view.wanted} to Options= in a drop-in of {unit.rpartition('/')[2]}"
    return Hold(HoldKind.OWNED, f"the unit {unit}"), todo


def _find_owner(view: View) -> tuple[Hold, str]:
    entry = view.entry
    assert entry is not None  # noqa: S101 - the caller looked
    if entry.owner:
        todo = f"change it in the configuration of {entry.owner}, which writes this line again"
        return Hold(HoldKind.OWNED, f"{entry.owner} ({view.place})"), todo
    if entry.refusal:
        return Hold(HoldKind.REFUSED, entry.refusal), entry.way_out
    if view.mount and entry.fstype not in {view.mount.fstype, "auto"} and "," not in entry.fstype:
        detail = f"{view.place} names {entry.fstype}, but {view.mount.fstype} is mounted there"
        return Hold(HoldKind.REFUSED, detail), "find out what mounts it"
    if has_secret(view.options or ""):
        return Hold(
            HoldKind.REFUSED, f"{view.place} holds a password"
        ), "move it to a credentials file"
    decided = sorted(view.words & _DECISIONS)
    if decided:
        todo = (
            f"if no job needs it, take it out of {view.path}; else ignore it for {view.target} in "
            "the policy"
        )
        return Hold(HoldKind.OWNED, f"an explicit `{decided[0]}` in {view.place}"), todo
    if view.live == "strictatime":
        todo = f"ask who did it; to undo it: sudo {remount(view.target, 'relatime')}"
        return Hold(HoldKind.OWNED, f"someone who mounted {view.target} strictatime by hand"), todo
    return Hold(), ""


def _why_senseless(view: View) -> str:
    """Why an atime mode has no use on this file system; empty where it has."""
    fstype = view.fstype
    if (view.mount and view.mount.is_bind) or (
        view.entry and {"bind", "rbind", "move"} & set(view.entry.options)
    ):
        return "a bind mount shows a file system that is mounted elsewhere, with a flag of its own"
    if fstype in LOCAL_TYPES:
        if (view.mount and view.mount.is_read_only) or (view.entry and "ro" in view.entry.options):
            return "it is mounted read-only: no access times are written"
        return ""
    if fstype in _NO_EFFECT:
        return _NO_EFFECT[fstype]
    if fstype in NETWORK_TYPES or fstype.startswith("fuse"):
        return f"with {fstype} the server or its helper decides about access times"
    if fstype in _READ_MOSTLY:
        return f"on {fstype} it saves no writes"
    if fstype == "auto" or "," in fstype:
        return f"{view.place} leaves the type open, and it is not mounted"
    unknown = (
        f"hosttune does not know whether noatime is safe and of use on {fstype or 'this type'}"
    )
    return f"{fstype} is no file system on a disk" if fstype in OF_THE_KERNEL else unknown


def list_evidence(view: View) -> tuple[str, ...]:
    """What was seen; also where line and mount differed before us, which is shown and never
    repaired.
    """
    lines = []
    if view.is_running:
        lines.append(f"now {view.live}" if view.mount else "not mounted now")
    if view.entry is None:
        return (*lines, f"no line in {PATH}")
    lines.append(f"{view.place}: {','.join(view.entry.options) or 'no options'}")
    if view.mount is None:
        return tuple(lines)
    meant = atime_of(view.entry.options)
    if meant != view.live and view.live in ("noatime", "relatime", "strictatime"):
        lines.append(
            f"the line means {meant}, the mount is {view.live}: changed since it was mounted"
        )
    implied = set().union(*(_IMPLIED.get(option, set()) for option in view.entry.options))
    written = _FLAGS & (set(view.entry.options) | implied)
    live = _FLAGS & set(view.mount.options)
    if extra := sorted(live - written):
        lines.append(f"live only: {', '.join(extra)}")
    if missing := sorted(written - live - implied):
        lines.append(f"in the line, not live: {', '.join(missing)}")
    return tuple(lines)


def find_other_mounts(view: View, facts: Facts) -> tuple[str, ...]:
    """Where else the same folder of the disk is mounted: each place has a flag of its own, which
    stays as it is.
    """
    mount = view.mount
    if mount is None:
        return ()
    found = []
    binds = [
        m.target
        for m in facts.mounts.visible
        if (m.device, m.root) == (mount.device, mount.root) and m.id != mount.id
    ]
    if binds:
        found.append(f"also mounted at {', '.join(binds)}, with a flag of its own")
    try:
        others = facts.namespaces.mounts
    except UnknownFact:
        return tuple(found)  # only root may know
    held = [
        m
        for m in others
        if (m.device, m.root) == (mount.device, mount.root) and m.atime != view.wanted
    ]
    holders = list(dict.fromkeys(other.holder for other in held))
    if holders:
        more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
        names = ", ".join(holders[:3]) + more
        found.append(
            f"{names}: keep {held[0].atime} until restarted, in a mount namespace of their own"
        )
    return tuple(found)
