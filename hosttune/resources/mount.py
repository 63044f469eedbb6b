"""The atime mode of a mount: of the running one, and of its line in fstab for the next boot.

The live mode is set with mount_setattr(2), never by a remount: `mount -o remount` reads fstab again, makes a mount that
is `ro` by hand writable and clears `nosuid` and `nodev` that stand in no line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts.base import UnknownFact
from hosttune.facts.mounts import LOCAL_TYPES, MOUNTINFO, NETWORK_TYPES, atime_of
from hosttune.host.mountinfo import parse, topmost_at
from hosttune.resources.base import FieldSpec, action_between, inverted
from hosttune.resources.fstab import options_diff
from hosttune.resources.fstab_document import PATH, clean_path
from hosttune.resources.fstab_options import atime_words, has_secret, set_atime
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Finding,
    Hold,
    HoldKind,
    Trigger,
    Unreadable,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.fstab import FstabEntry
    from hosttune.facts.mounts import Mount
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Value

_DECISIONS = frozenset({"strictatime", "atime", "norelatime"})  # nobody's default: somebody wrote it
_DEFAULTS = frozenset({"relatime", "nostrictatime", "atime"})  # what leaves the kernel's default, relatime
_FLAGS = frozenset({"ro", "nosuid", "nodev", "noexec", "nosymfollow", "nodiratime"})
_IMPLIED = {"user": {"nosuid", "nodev", "noexec"}, "users": {"nosuid", "nodev", "noexec"}}
_IMPLIED |= {"owner": {"nosuid", "nodev"}, "group": {"nosuid", "nodev"}}
_NO_EFFECT = {
    "zfs": "a ZFS dataset has properties of its own for this: zfs set atime=off DATASET",
    "nfs": "the atime options have no effect on an NFS client (nfs(5))",
    "nfs4": "the atime options have no effect on an NFS client (nfs(5))",
    "overlay": "the layers below an overlay keep their own access times",
    "tmpfs": "a tmpfs writes no access times to a disk",
    "ramfs": "a ramfs writes no access times to a disk",
}
_READ_MOSTLY = frozenset({"vfat", "exfat", "iso9660", "udf", "squashfs", "erofs", "ntfs", "ntfs3"})


class MountAddress:
    """`mount:TARGET`: noatime, relatime or strictatime of the mount that a path through TARGET reaches, or ABSENT."""

    kind = "mount"

    def read(self, reader: Reader, name: str) -> Value:
        data = reader.read(MOUNTINFO)
        if not isinstance(data, bytes):
            return data
        mount = topmost_at(parse(data), name)
        return mount.atime if mount else ABSENT

    def write(self, writer: Writer, change: Change) -> None:
        target, wanted = change.address.name, str(change.after)
        present = self.read(writer, target)
        if present != change.before:
            raise Conflict(f"{target} is mounted {present}, no longer {change.before}", hint="run the plan again")
        writer.set_atime(target, wanted)
        if self.read(writer, target) != wanted:
            raise HosttuneError(f"the kernel took {wanted} for {target}, but {MOUNTINFO} does not show it")

    def same(self, one: Value, other: Value) -> bool:
        return one == other

    def invert(self, change: Change) -> Change | None:
        return inverted(change)


class MountWish:
    """`- mount: TARGET` with `atime: noatime` or `relatime`: the options in fstab and the flag of the live mount."""

    kind = "mount"
    fields: Mapping[str, FieldSpec] = {
        "atime": FieldSpec(
            str, required=True, choices=("noatime", "relatime"), help="When reads write access times"
        ),
    }  # fmt: skip
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW, Activation.REMOUNT, Activation.REBOOT)

    def needs(self) -> frozenset[str]:
        return frozenset({"fstab", "host", "mounts"})

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        target = clean_path(wish.name)
        try:
            entry = _entry(facts, target)
        except UnknownFact:
            entry = None
        live = () if facts.reader.persistent_only else (Address("mount", target),)
        return (Address("fstab", entry.target if entry else target), *live)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        findings = []
        for wish in wishes:
            try:
                findings.append(_compare(wish, context))
            except UnknownFact as unknown:
                findings.append(Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=str(unknown)))
        return tuple(findings)


@dataclass(frozen=True, slots=True)
class _View:
    """One target: what is wanted, its line, its mount."""

    target: str
    wanted: str
    entry: FstabEntry | None
    mount: Mount | None  # None: not mounted, or no kernel runs here
    options: str | None  # of the line as written; None where there is no line or it is not edited
    live: Value  # ABSENT where not mounted
    is_running: bool  # a kernel runs under these files

    @property
    def place(self) -> str:
        return f"{PATH} line {self.entry.line}" if self.entry else PATH

    @property
    def words(self) -> frozenset[str]:
        return frozenset(atime_words(",".join(self.entry.options))) if self.entry else frozenset()

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


def _entry(facts: Facts, target: str) -> FstabEntry | None:
    return facts.fstab.by_path.get(target) or facts.fstab.at.get(target)


def _compare(wish: Wish, context: Context) -> Finding:
    facts = context.facts
    if facts.host.is_container:
        reason = "in a container the mounts belong to the host"
        return Finding(wish.rule, wish.subject, Verdict.NOT_APPLICABLE, reason=reason)
    target = clean_path(wish.name)
    entry = _entry(facts, target)
    running = not facts.reader.persistent_only
    mount = facts.mounts.at.get(target) if running else None
    if entry is None and mount is None:
        reason = f"nothing is mounted at {target}, and {PATH} has no line for it"
        return Finding(wish.rule, wish.subject, Verdict.NOT_APPLICABLE, reason=reason)
    live = context.state[Address("mount", target)] if running else ABSENT
    written = context.state[Address("fstab", entry.target if entry else target)]
    for value in (live, written):
        if isinstance(value, Unreadable) and not (entry and entry.refusal):
            return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=value.reason)
    options = written if isinstance(written, str) else None
    view = _View(target, str(wish.fields["atime"]), entry, mount, options, live, running)
    if view.is_live_ok and view.is_boot_ok:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=_evidence(view))
    reason = f"{target} should be mounted {view.wanted}"
    hold, todo = _obstacle(view, context)
    if hold:
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, _evidence(view), todo=todo)
    try:
        changes = _changes(view, wish, context)
    except Refused as refused:
        hold = Hold(HoldKind.REFUSED, f"{view.place}: {refused.message}")
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, _evidence(view), todo=refused.hint)
    return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, _evidence(view), changes)


def _changes(view: _View, wish: Wish, context: Context) -> tuple[Change, ...]:
    changes = []
    host = context.facts.host
    if view.entry and view.options is not None and not view.is_boot_ok:
        after = set_atime(view.options, view.wanted)
        activation = Activation.NOW if view.mount else Activation.REMOUNT if view.is_running else Activation.REBOOT
        changes.append(
            Change(
                Address("fstab", view.entry.target), Action.UPDATE, view.options, after, wish.rule, context.risk,
                context.disturbs, activation, reason=f"{view.place}, for the next boot",
                triggers=(Trigger("daemon-reload"),) if host.has_systemd and view.is_running else (),
                details=options_diff(view.entry, after),
            )
        )  # fmt: skip
    if not view.is_live_ok:
        changes.append(
            Change(
                Address("mount", view.target), action_between(view.live, view.wanted), view.live, view.wanted,
                wish.rule, context.risk, context.disturbs, Activation.NOW, reason="the live mount, its other flags untouched",
            )
        )  # fmt: skip
    return tuple(changes)


def _obstacle(view: _View, context: Context) -> tuple[Hold, str]:
    """Why this difference is left alone, and the way out; an empty hold where it is ours to change."""
    host = context.facts.host
    if host.is_wsl:
        return Hold(HoldKind.REFUSED, "under WSL Windows mounts the disks"), "set it in /etc/wsl.conf"
    if view.is_running and not host.shares_init_mounts:
        detail = "hosttune runs in a mount namespace of its own and cannot reach the host's mounts"
        return Hold(HoldKind.REFUSED, detail), "run it in the host's namespace: nsenter -t 1 -m hosttune"
    senseless = _senseless(view)
    if senseless:
        return Hold(HoldKind.REFUSED, senseless), ""
    return _owner(view) if view.entry else _unlisted(view)


def _unlisted(view: _View) -> tuple[Hold, str]:
    unit = view.mount.unit if view.mount else ""
    if unit:
        todo = f"add {view.wanted} to Options= in a drop-in of {unit.rpartition('/')[2]}"
        return Hold(HoldKind.OWNED, f"the unit {unit}"), todo
    todo = f"add a line for {view.target} to {PATH}, or {view.wanted} to what mounts it"
    return Hold(HoldKind.OWNED, f"what mounts it, which is not {PATH}"), todo


def _owner(view: _View) -> tuple[Hold, str]:
    entry = view.entry
    assert entry is not None  # noqa: S101 - the caller looked
    if entry.owner:
        todo = f"change it where {entry.owner} takes it from; it rewrites this line"
        return Hold(HoldKind.OWNED, f"{entry.owner} ({view.place})"), todo
    if entry.refusal:
        return Hold(HoldKind.REFUSED, entry.refusal), entry.way_out
    if view.mount and entry.fstype not in {view.mount.fstype, "auto"} and "," not in entry.fstype:
        detail = f"{view.place} names {entry.fstype}, but {view.mount.fstype} is mounted there"
        return Hold(HoldKind.REFUSED, detail), "find out what mounts it"
    if has_secret(view.options or ""):
        return Hold(HoldKind.REFUSED, f"{view.place} holds a password"), "move it to a credentials file"
    decided = sorted(view.words & _DECISIONS)
    if decided:
        todo = f"if nobody needs it, take it out of {PATH}; else ignore the rule for {view.target}"
        return Hold(HoldKind.OWNED, f"an explicit `{decided[0]}` in {view.place}"), todo
    if view.live == "strictatime" and atime_of(entry.options) != "strictatime":
        todo = f"ask who did it; to go back: mount -o remount,relatime {view.target}"
        return Hold(HoldKind.OWNED, f"somebody who mounted {view.target} strictatime by hand"), todo
    return Hold(), ""


def _senseless(view: _View) -> str:
    """Why an atime mode has no use on this file system; empty where it has."""
    fstype = view.fstype
    if fstype in LOCAL_TYPES:
        if (view.mount and view.mount.is_bind) or (view.entry and {"bind", "rbind", "move"} & set(view.entry.options)):
            return "a bind mount shows a file system that is mounted elsewhere, with a flag of its own"
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
    return f"{fstype or 'this type'} is no file system on a disk"


def _evidence(view: _View) -> tuple[str, ...]:
    """What was seen; also where line and mount differed before us, which is told and never repaired."""
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
        lines.append(f"the line means {meant}, the mount is {view.live}: changed since it was mounted")
    implied = set().union(*(_IMPLIED.get(option, set()) for option in view.entry.options))
    written = _FLAGS & (set(view.entry.options) | implied)
    live = _FLAGS & set(view.mount.options)
    if extra := sorted(live - written):
        lines.append(f"live only: {', '.join(extra)}")
    if missing := sorted(written - live - implied):
        lines.append(f"in the line, not live: {', '.join(missing)}")
    return tuple(lines)


WISHES = (MountWish(),)
ADDRESSES = (MountAddress(),)
