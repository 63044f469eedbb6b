"""A data disk mounted where the site wants it: the folder, the line in fstab, the live mount.

Nothing is ever formatted or partitioned, and nothing is unmounted but what a run mounted itself, on
undo, while no one uses it. The line names the file system by UUID, because /dev/sdb may be another
disk after a reboot, and carries the words with which a missing disk costs the mount, not the boot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune import quoting
from hosttune.errors import Conflict, Refused
from hosttune.facts.base import UnknownFact, get_raw
from hosttune.facts.storage.filesystems import look
from hosttune.facts.storage.mounts import LOCAL_TYPES, MOUNTINFO, unit_name
from hosttune.facts.storage.written_below import describe_rescue, describe_writers, find_writers
from hosttune.host.door import Stat
from hosttune.host.known.unit_folders import ADMIN, VENDOR
from hosttune.host.reading.mountinfo import parse, topmost_at
from hosttune.regex import regex
from hosttune.resources.base import AddressKind, FieldSpec, WishKind, in_general
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.resources.storage.folder import FOLDER
from hosttune.resources.storage.fstab import addition_diff, entry_error
from hosttune.resources.storage.fstab_document import PATH, clean_path, entry_text
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
    from collections.abc import Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.filesystems import Filesystem, Filesystems
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Value

# A disk that is gone costs its mount and 30 seconds, not the boot; one that is there is mounted
# before services start (systemd.mount(5): nofail, x-systemd.device-timeout=, x-systemd.before=).
BELT = ("nofail", "x-systemd.device-timeout=30s", "x-systemd.before=local-fs.target")
_SYSTEM = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin",
    "/sys", "/tmp", "/usr", "/var", "/home",
})  # fmt: skip
_LOOP = regex(r"/dev/loop\d+(?:p\d+)?")  # of a file: what the policy names so is meant
_SYSTEM_TREES = ("/boot/", "/dev/", "/etc/", "/proc/", "/run/", "/sys/", "/usr/")


class DataMountAddress(AddressKind):
    """`data-mount:/target`: `ext4 UUID=...`, what is mounted there, or ABSENT. What is to be
    mounted also names the options, those of its line in fstab: `ext4 UUID=... noatime,nofail`.
    """

    kind = "data-mount"

    def describe(self, name: str) -> str:
        return f"mount of {name}"

    def read(self, reader: Reader, name: str) -> Value:
        data = reader.read(MOUNTINFO)
        if not isinstance(data, bytes):
            return data
        mount = topmost_at(parse(data), name)
        if mount is None:
            return ABSENT
        try:
            found = look(reader).by_path.get(_resolve_device(reader, mount.source))
        except UnknownFact as unknown:
            return Unreadable(unknown.reason)
        return _spell_value(mount.fstype, found.uuid if found else mount.source)

    def write(self, writer: Writer, change: Change) -> None:
        target = change.address.name
        if not self.same(self.read(writer, target), change.before):
            raise Conflict(
                f"what is mounted at {target} is no longer as in the plan",
                hint="run the plan again",
            )
        if change.after is ABSENT:
            writer.unmount(target)
            return
        _, tag, options = str(change.after).split(" ")
        device = _choose(writer, tag, change)
        if device is None:
            raise Refused(f"no device is {tag} any more", hint="see: hosttune disks")
        # The line was written just before, by the same run. If it differs now, someone else edits
        # the file.
        if _options_of(writer, target) != options:
            raise Conflict(
                f"{PATH}: the options of {target} are no longer {options}",
                hint="run the plan again",
            )
        writer.mount(device.path, target, device.fstype, options)

    def same(self, one: Value, other: Value) -> bool:
        # The kernel adds words of its own to the options of a live mount, so only type and UUID are
        # compared.
        if isinstance(one, str) and isinstance(other, str):
            return one.split(" ")[:2] == other.split(" ")[:2]
        return one == other

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(list_steps(changes, _mount_step))


def _choose(writer: Writer, tag: str, change: Change) -> Filesystem | None:
    """The one device that has a tag. A loop device only if it is the one that was planned: a user
    can have attached another with the UUID of a disk that is gone since.
    """
    from hosttune.facts import Facts

    found = [one for one in look(writer).all if tag in one.tags]
    attached = Facts(writer).disks.attached_paths if found else frozenset()
    own = [
        one for one in found if one.path not in attached or change.reason == _describe_reason(one)
    ]
    return own[0] if len(own) == 1 else None


def _describe_reason(device: Filesystem) -> str:
    return f"mounts {device.path}"


def _mount_step(change: Change) -> CommandLine:
    """The line in fstab, which comes before, says the rest."""
    return CommandLine(
        f"{'umount' if change.after is ABSENT else 'mount'} {quoting.quote(change.address.name)}"
    )


def _resolve_device(reader: Reader, source: str) -> str:
    """The path of a device as lsblk names it; of a link below /dev/disk the place that it leads
    to.
    """
    if not source.startswith("/dev/") or source.startswith("/dev/mapper/"):
        return source
    path = reader.resolve(source)
    return path if isinstance(path, str) else source


def _spell_value(fstype: str, uuid: str) -> str:
    return f"{fstype} UUID={uuid}"


def _options_of(reader: Reader, target: str) -> str:
    """The options of the target's line, which is written before the disk is mounted."""
    from hosttune.resources.storage.fstab import FstabAddress

    options = FstabAddress().read(reader, target)
    if isinstance(options, str):
        return options
    raise Refused(f"{PATH} has no line for {target} that could be used")


def _list_folders(target: str) -> tuple[str, ...]:
    """The folders on the way to a target, and itself: `/mnt`, `/mnt/data`."""
    parts = target.strip("/").split("/")
    return tuple("/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1))


class DataMountWish(WishKind):
    """`- data-mount: /data` with `source: UUID=...`: the folder, a line in fstab and the mount."""

    kind = "data-mount"
    fields: Mapping[str, FieldSpec] = {
        "source": FieldSpec(
            str, required=True, help="The device: UUID=, LABEL=, PARTUUID=, PARTLABEL= or a path"
        ),
        "fstype": FieldSpec(str, help="Refuse a device with anything else on it"),
        "options": FieldSpec(list, help="Mount options"),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        target = clean_path(wish.name)
        boot = (
            *(Address("folder", path) for path in _list_folders(target)),
            Address("fstab-line", target),
        )
        return boot if facts.reader.persistent_only else (*boot, Address("data-mount", target))

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        findings = []
        taken: dict[str, str] = {}  # what an earlier wish mounts, and where
        for wish in wishes:
            try:
                findings.append(_DataMountComparison(wish, context, taken).finding())
            except UnknownFact as unknown:
                findings.append(
                    Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=unknown.reason)
                )
        return tuple(findings)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(change for wish in wishes for change in _list_writes(wish))


def _list_writes(wish: Wish) -> tuple[Change, ...]:
    target, source = clean_path(wish.name), str(wish.fields["source"])
    fstype, options = str(wish.fields.get("fstype") or "FSTYPE"), _line_options(wish)
    line = entry_text(
        source if source.startswith("UUID=") else "UUID=UUID", target, fstype, options
    )
    return (
        in_general(wish, Address("folder", target), FOLDER),
        in_general(wish, Address("fstab-line", target), line),
        in_general(wish, Address("data-mount", target), f"{fstype} {source} {options}"),
    )


def _line_options(wish: Wish) -> str:
    """The options of a line that is added. The policy may give another device timeout."""
    own = tuple(wish.fields.get("options", ()))
    # of which a line may have several
    given = {word.partition("=")[0] for word in own} - {"x-systemd.before"}
    return ",".join(
        dict.fromkeys((*own, *(word for word in BELT if word.partition("=")[0] not in given)))
    )


class _Obstacle(Exception):
    """Ends a comparison: why the disk is not mounted, and the way out."""

    def __init__(self, hold: Hold, todo: str = "") -> None:
        super().__init__(str(hold))
        self.hold = hold
        self.todo = todo


def _refuse(detail: str, todo: str = "") -> _Obstacle:
    return _Obstacle(Hold(HoldKind.REFUSED, detail), todo)


class _DataMountComparison:
    """One wanted mount against the disks, fstab and the live mounts."""

    def __init__(self, wish: Wish, context: Context, taken: dict[str, str]) -> None:
        self.wish = wish
        self.context = context
        self.taken = taken
        self.facts = context.facts
        self.target = clean_path(wish.name)
        self.source = str(wish.fields["source"])
        self.running = not context.facts.reader.persistent_only

    def finding(self) -> Finding:
        values = [
            self.context.state[one] for one in DataMountWish().addresses(self.wish, self.facts)
        ]
        if unreadable := next((value for value in values if isinstance(value, Unreadable)), None):
            return self._make_finding(Verdict.UNKNOWN, reason=unreadable.reason)
        reason = f"{self.source} should be mounted at {self.target}"
        try:
            device = self._find_filesystem(self.facts.filesystems)
            entry = self._entry(device)
            live = self._live(device)
            if entry is not None and live:
                evidence = (
                    f"{device.path} ({device.fstype}) is mounted there",
                    f"{PATH} line {entry.line} names it",
                )
                return self._make_finding(Verdict.OK, evidence=evidence)
            self._check_target(is_mounted=live)
            if not live:
                self._check_device(device)
            changes = self._changes(device, entry, live)
            if other := self.taken.get(device.path):
                what = (
                    f"{self.source} is {device.path}, which data_mounts of the policy mounts at "
                    f"{other} too"
                )
                raise _refuse(what, "leave one target for each disk")
            self.taken[device.path] = self.target
        except _Obstacle as obstacle:
            return self._make_finding(Verdict.DIFFERS, obstacle.hold, reason, todo=obstacle.todo)
        seen = (f"{device.path}: {' '.join((device.fstype, *device.tags[:-1]))}",)
        return self._make_finding(Verdict.DIFFERS, reason=reason, evidence=seen, changes=changes)

    def _make_finding(
        self, verdict: Verdict, hold: Hold = Hold(), reason: str = "", evidence: tuple[str,
        ...] = (),
        changes: tuple[Change, ...] = (), todo: str = "",
    ) -> Finding:  # fmt: skip
        return Finding(
            self.wish.rule, self.wish.subject, verdict, hold, reason, evidence, changes, todo
        )

    def _find_filesystem(self, filesystems: Filesystems) -> Filesystem:
        named = [one for one in filesystems.all if self.source in one.tags]
        if not named and self.source.startswith("/dev/"):
            place = _resolve_device(self.facts.reader, self.source)
            named = [one for one in filesystems.all if one.path == place]
        attached = self._find_attached()
        if not _LOOP.fullmatch(self.source):
            of_users, named = (
                [one for one in named if one.path in attached],
                [one for one in named if one.path not in attached],
            )
            if of_users and not named:
                what = (
                    f"no disk is {self.source}, only {of_users[0].path}: a file that a user can "
                    "attach"
                )
                raise _refuse(
                    what,
                    "find the disk; a file of yours is mounted by a line of fstab that you write",
                )
        if len(named) > 1:
            raise _refuse(
                f"{', '.join(one.path for one in named)} are all {self.source}",
                "name one of them by UUID",
            )
        if not named or not named[0].fstype:
            what = (
                f"no device is {self.source}"
                if not named
                else f"{named[0].path} holds no file system"
            )
            raise _refuse(what, "see `hosttune disks`; hosttune never makes a file system")
        device = named[0]
        wanted = str(self.wish.fields.get("fstype") or device.fstype)
        if device.fstype != wanted:
            raise _refuse(
                f"{device.path} holds {device.fstype}, not {wanted}",
                "correct data_mounts in the policy",
            )
        if device.is_member or device.fstype not in LOCAL_TYPES:
            todo = f"name a device with one of {', '.join(sorted(LOCAL_TYPES))}"
            raise _refuse(
                f"{device.path} holds {device.fstype}, which is not mounted by hosttune", todo
            )
        if not device.uuid:
            raise _refuse(
                f"the file system on {device.path} has no UUID",
                "give it one, or write the line by hand",
            )
        # XFS refuses a second mount of one UUID; of other types a boot may mount the copy.
        same = [one for one in filesystems.all if one.uuid == device.uuid]
        if len(same) > 1 and (
            device.path in attached
            or any(one.path not in attached for one in same if one != device)
        ):
            raise _refuse(
                f"several devices have UUID={device.uuid} (a copy, a snapshot)",
                "make them distinct",
            )
        return device

    def _find_attached(self) -> frozenset[str]:
        """What any user can have attached, but for what is mounted at the target already."""
        disks, mounts = self.facts.disks, (self.facts.mounts.all if self.running else ())
        here = {
            mount.device for mount in mounts if mount.target == self.target and not mount.is_of_user
        }
        own = {
            path
            for one in disks.all
            if get_raw(one, "device") in here
            for path in (one.path, f"/dev/{one.name}")
        }
        return disks.attached_paths - own

    def _entry(self, device: Filesystem) -> FstabEntry | None:
        """The line for this device and target; anything else that names one of them is in the
        way.
        """
        fstab = self.facts.fstab
        if not fstab.exists:
            raise _refuse(f"there is no {PATH}", f"create an empty {PATH}")
        if fstab.refusal:
            raise _refuse(fstab.refusal, fstab.way_out)
        if misread := next((line for line in fstab.misread if line.target == self.target), None):
            raise _refuse(misread.refusal, misread.way_out)
        entry = fstab.by_path.get(self.target) or fstab.at.get(self.target)
        if entry is not None and entry.source.replace('"', "") not in device.tags:
            detail = f"{PATH} line {entry.line} mounts {entry.source} there"
            raise _refuse(detail, "change that line, or data_mounts in the policy")
        if entry is not None:
            self._check_entry(entry, device)
        other = next(
            (
                e
                for e in fstab.entries
                if e is not entry and e.source.replace('"', "") in device.tags
            ),
            None,
        )
        if entry is None and fstab.manager:
            raise _Obstacle(
                Hold(HoldKind.OWNED, f"the author of {PATH} ({fstab.manager})"),
                "add the line there",
            )
        if other is not None and not {"bind", "rbind"} & set(other.options):
            raise _refuse(
                f"{PATH} line {other.line} mounts it at {other.target}", "leave one of the two"
            )
        return entry

    def _check_entry(self, entry: FstabEntry, device: Filesystem) -> None:
        """Obstacle where the line that is there would not mount this device at a boot."""
        place = f"{PATH} line {entry.line}"
        if entry.refusal:
            raise _refuse(entry.refusal, entry.way_out)
        if "noauto" in entry.options:
            raise _refuse(
                f"{place} says noauto: no boot mounts it",
                "take noauto out, or the disk out of data_mounts",
            )
        if entry.fstype not in {device.fstype, "auto"}:
            raise _refuse(
                f"{place} says {entry.fstype}, and {device.path} holds {device.fstype}",
                "correct the line",
            )
        if error := entry_error(entry, self.facts):
            raise _refuse(str(error), error.hint)

    def _live(self, device: Filesystem) -> bool:
        """Whether this very device is mounted there; Obstacle where another one is."""
        present = self.context.state[Address("data-mount", self.target)] if self.running else ABSENT
        if present is ABSENT:
            return False
        if present != _spell_value(device.fstype, device.uuid):
            raise _refuse(
                f"{present} is mounted at {self.target}", "unmount it, or choose another target"
            )
        return True

    def _check_target(self, *, is_mounted: bool) -> None:
        target, reader = self.target, self.facts.reader
        if target in _SYSTEM or target.startswith(_SYSTEM_TREES):
            raise _refuse(
                f"{target} belongs to the system", "choose a folder of its own, such as /data"
            )
        unit = self._unit()
        if unit:
            raise _Obstacle(Hold(HoldKind.OWNED, f"the unit {unit}"), "change it there")
        if self.running and not self.facts.host.shares_init_mounts:
            detail = (
                "hosttune runs in a mount namespace of its own and cannot reach the host's mounts"
            )
            raise _refuse(detail, "run it in the host's namespace: nsenter -t 1 -m hosttune")
        if is_mounted:
            return
        # A service that writes there now would go on below the mount, out of sight, and miss its
        # data after the next start.
        if self.running and (writers := find_writers(self.facts, (target,))):
            step = "run this again"
            raise _refuse(
                f"{describe_writers(writers)}: the mount would hide it",
                describe_rescue(writers, target, step),
            )
        if self.context.state[Address("folder", target)] is ABSENT:
            return
        place = reader.resolve(target)
        if isinstance(place, str) and place != target:
            raise _refuse(f"{target} is a link to {place}", f"name {place} in the policy")
        names = reader.list(target)
        if not isinstance(names, tuple) or names:
            what = f"{target} cannot be looked into"
            if isinstance(names, tuple):
                some = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
                what = f"{target} is not empty ({some})"
            raise _refuse(what, "move what is in it: it would be hidden below the mount")

    def _unit(self) -> str:
        name = unit_name(self.target)
        for folder in (ADMIN, *VENDOR):
            if isinstance(self.facts.reader.stat(f"{folder}/{name}"), Stat):
                return f"{folder}/{name}"
        return ""

    def _check_device(self, device: Filesystem) -> None:
        """Refuse a disk that something uses."""
        disks = self.facts.disks
        disk = next(
            (one for one in disks.all if device.path in (one.path, f"/dev/{one.name}")), None
        )
        if disk is None:
            raise _refuse(f"the kernel has no device {device.path} now")
        users = [one.name for one in disks.all if disk.name in one.parents]
        if users:
            raise _refuse(f"{device.path} is part of {', '.join(users)}", "mount that instead")
        elsewhere = [
            m.target
            for m in self.facts.mounts.all
            if m.device == disk.device or m.source == device.path
        ]
        if elsewhere:
            raise _refuse(
                f"{device.path} is mounted at {elsewhere[0]}",
                "unmount it there, or name that target",
            )
        if any(swap.path == device.path for swap in self.facts.memory.swaps):
            raise _refuse(f"{device.path} is used as swap")

    def _changes(
        self,
        device: Filesystem,
        entry: FstabEntry | None,
        live: bool,  # noqa: FBT001
    ) -> tuple[Change, ...]:
        missing = [
            path
            for path in _list_folders(self.target)
            if self.context.state[Address("folder", path)] is ABSENT
        ]
        changes = [self._change("folder", path, FOLDER, "for the mount point") for path in missing]
        options = ",".join(entry.options) if entry else ""
        if entry is None:
            options = self._new_options(device)
            separator = self.facts.fstab.separator
            line = entry_text(
                f"UUID={device.uuid}", self.target, device.fstype, options, separator=separator
            )
            details = addition_diff(self.facts.fstab, line)
            changes.append(
                self._change("fstab-line", self.target, line, f"{PATH}, for every boot", details)
            )
        if self.running and not live:
            after = f"{_spell_value(device.fstype, device.uuid)} {options}"
            changes.append(self._change("data-mount", self.target, after, _describe_reason(device)))
        return tuple(changes)

    def _new_options(self, device: Filesystem) -> str:
        """The options of a line that is added; Obstacle where one of them would fail the mount."""
        from hosttune.resources.storage.fstab_lint_options import find_untaken

        remark = find_untaken(device.fstype, tuple(self.wish.fields.get("options", ())))
        if remark:
            raise _refuse(
                remark.message,
                f"{remark.todo} (options of {self.target} in data_mounts of the policy)",
            )
        return _line_options(self.wish)

    def _change(
        self, kind: str, name: str, after: str, reason: str, details: tuple[str, ...] = ()
    ) -> Change:
        needs_reload = kind == "fstab-line" and self.running and self.facts.host.has_systemd
        reversible = "yes, while no one uses it" if kind == "data-mount" else "yes"
        return Change(
            Address(kind, name), Action.CREATE, ABSENT, after, self.wish.rule, self.context.risk,
            self.context.disturbs, Activation.NOW, reversible=reversible, reason=reason,
            triggers=(Trigger("daemon-reload"),) if needs_reload else (), details=details,
        )  # fmt: skip


WISH = DataMountWish()
ADDRESS = DataMountAddress()
