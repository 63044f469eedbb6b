"""What in an fstab or a unit file makes the next boot of this host fail, or leaves out what is
mounted now.

The one list whose findings are faults, keep hosttune from every reboot, and keep it from editing
such a line. It knows the text of the file, the kernel of the next boot and the devices that are
there; of unit files `unit_boot.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, make_shared
from hosttune.facts.containers.kubelet_swap import refuses_swap
from hosttune.facts.kernel.kernel import is_switched_off
from hosttune.facts.services.systemd_config import find_systemd_version
from hosttune.facts.services.unit_files import mask_of
from hosttune.facts.services.units import read_last_words
from hosttune.facts.signs import failed_by_itself
from hosttune.facts.storage.btrfs_ready import find_incomplete
from hosttune.facts.storage.fstab_lines import PATH, LineKind, clean_path, describe_place, parse
from hosttune.facts.storage.fstab_options import decode, encode, is_on_demand
from hosttune.facts.storage.fstab_reasons import NEW_LINE, false_blank
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.kernel_types import find_lacking_kernel, find_lock, is_older_than_boot
from hosttune.facts.storage.mount_units import LOCAL, device_path, device_wait, find_late
from hosttune.facts.storage.mounts import asks_read_only, mount_below, unit_name
from hosttune.facts.storage.sources import (
    EPHEMERAL,
    ZRAM,
    SourceKind,
    Sources,
    find_fault,
    is_zram,
    names_device,
    sources_of,
)
from hosttune.facts.storage.ways import ways_of
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.resources.storage.fstab import document_of
from hosttune.resources.storage.fstab_binds import (
    find_bind_fault,
    find_nesting_fault,
    find_union_fault,
)
from hosttune.resources.storage.fstab_lint import LineErrors, RemarkLevel, is_failing, lint
from hosttune.resources.storage.fstab_lint_fields import find_relative_fault
from hosttune.resources.storage.fstab_lint_options import is_required, option_remarks, refused_by
from hosttune.resources.storage.fstab_needs import find_needs
from hosttune.values import ABSENT, Unreadable, join_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.facts.storage.fstab_lines import FstabText
    from hosttune.facts.storage.fstab_readers import Fields
    from hosttune.facts.storage.mounts import Mount
    from hosttune.resources.storage.fstab_lint import ShownRemark

# btrfs(5), SWAPFILE SUPPORT; zpoolconcepts(7) of OpenZFS names only volumes for swap.
_SWAP_ON = {
    "btrfs": (
        (
            "btrfs takes a swap file only on one disk, without copy-on-write, compression and "
            "snapshots of its subvolume"
        ),
        (
            "make it anew in its own subvolume (btrfs-progs 6.1): sudo btrfs filesystem "
            "mkswapfile\n"
            "sudo dmesg says why"
        ),
    ),
    "zfs": ("ZFS takes no swap files", "use a partition, or a file on another file system"),
}
_SWAP_AGAIN = (
    "let each boot make it: swap: of cloud-init, or ResourceDisk.EnableSwap of WALinuxAgent; then "
    "take the line out\n"
    "or keep it on the disk of /, and name that file in the line"
)
# fs/ntfs3/super.c of Linux 6.9 and newer: `ntfs` is its legacy mode, and mount.ntfs of ntfs-3g
# comes before the kernel (https://github.com/util-linux/util-linux/pull/3618,
# https://github.com/CachyOS/wiki/issues/302).
_NTFS = "write ntfs3 in its place, or install ntfs-3g; if read-only is meant, add ro"
_RELEASE = regex(r"(\d{1,4})\.(\d{1,4})")
# Errors with which a boot goes on, and mounts what it mounted before.
HARMLESS = frozenset({"duplicate", "relative-target"})
# What fails on some boots: a line by which something is mounted now has shown that it need not.
MAY_FAIL = frozenset({"no-netdev"})
# What may go well at one boot and not at the next, by the order in which systemd takes things.
_NOTED = frozenset({
    "waits-for-network", "early-automount", "false-blank", "needs-nofail", "union-order",
    "root-remount", "root-quota", "noexec-packages", "hidepid",
})  # fmt: skip
_AFTER = "x-systemd.after"
# with which local-fs.target does not wait
_OF_OTHERS = ("x-systemd.wanted-by=", "x-systemd.required-by=")
# which order as well (systemd.mount(5))
_PULLS = frozenset({"x-systemd.requires", "x-systemd.wants"})
# copied to a second disk on purpose, so that each of them starts the host
_MIRRORED = frozenset({"/boot/efi", "/efi"})
_COPIES = (
    "see which of them is the copy (sudo lsblk -o NAME,SERIAL,UUID,PARTUUID,MOUNTPOINTS)\n"
    "detach it, or give it a name of its own while it is not mounted (tune2fs -U random, xfs_admin "
    "-U generate, sgdisk -G)"
)
_OF_SYSTEM = frozenset({"/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "/home"})
_ZVOL = regex(r"/dev/(?:zvol/.+|zd\d{1,5}(?:p\d{1,3})?)")
_FAMILY = regex(r"/dev/(?:nvme|[a-z]*d(?=[a-z]))")
_KERNEL_NAME = regex(r"/dev/(?:(?:x?v|s|h)d[a-z]{1,3}\d{0,3}|nvme\d{1,3}n\d{1,3}(?:p\d{1,3})?)")
_KNOWS_DAVFS_FROM = 252
_HANGS_FROM, _UBUNTU_HANGS_FROM = 258, (26, 4)  # systemd/systemd#39177, open in November 2026


@frozen
class BootLine(Fact):
    """A line of fstab that the next boot mounts, or should."""

    target: str  # the folder; `line 3` of one without
    line: int  # from 1
    fault: str = ""  # what is wrong with it, a sentence with what comes of it; empty for nothing
    way_out: str = ""
    is_mounted: bool = False  # something is mounted there now, so a boot loses it
    note: str = ""  # what is wrong with it and no fault: a boot only waits, or has no swap of it
    is_of_device: bool = False  # the devices say so, not the text
    file: str = PATH  # or a unit file of systemd
    remark: str = ""  # what is wrong with it, though a boot goes on as it does now
    is_absent: bool = False  # nothing is mounted there, so that its data is missing already
    is_lost: bool = False  # and the devices say that a boot mounts nothing there
    risk: str = ""  # what a boot ends with if a data disk that works now is missing one day
    cause: str = ""  # where the cause is, if not in the line itself: a file, or a line of it

    @property
    def where(self) -> str:
        """`line 3 of /etc/fstab`; a file that lacks the line by itself."""
        return describe_place(self.line, self.file)

    @property
    def way_out_of_fault(self) -> str:
        """What is done about a fault before the next boot."""
        look = (
            "see how the line is read: hosttune fstab"
            if self.file == PATH and not self.cause
            else ""
        )
        return join_steps(
            (f"do not reboot before {self.cause or self.where} is correct", self.way_out, look)
        )

    @property
    def sentence(self) -> str:
        """The fault or note without the place in front of it."""
        return (self.fault or self.note or self.remark).removeprefix(f"{self.where} ")


@frozen
class BootNeed:
    """What a boot makes of a mount that fails (systemd.mount(5))."""

    is_required: bool  # it ends in the emergency shell
    is_awaited: bool = False  # it waits for a device that is not there
    needed_by: tuple[str, ...] = ()  # units that do not start then
    way_out: str = "\nor add nofail, with which a boot goes on without it"  # what lets a boot go on

    @property
    def end(self) -> str:
        """What comes after the failure, as the end of a sentence."""
        if self.is_required:
            return "ends in the emergency shell"
        return f"does not start {', '.join(self.needed_by)}" if self.needed_by else ""


def next_kernel(facts: Facts) -> tuple[int, ...]:
    """(major, minor) of the kernel of the next boot; empty where that is not known."""
    try:
        release = facts.boot.next_kernel or facts.kernel.release
    except UnknownFact:
        return ()
    return parse_release(release)


def parse_release(release: object) -> tuple[int, ...]:
    """(major, minor) of `6.8.0-60-generic`; empty where it is not known."""
    match = _RELEASE.match(release) if isinstance(release, str) else None
    return tuple(map(int, match.groups())) if match else ()


def look_at_boot_lines(facts: Facts) -> tuple[BootLine, ...]:
    """All of them, fstab in its order, then unit files. Raises UnknownFact where one of them cannot
    be read.
    """
    from hosttune.resources.storage.crypt_boot import look_at_crypttab
    from hosttune.resources.storage.failed_boot import look_at_failed_units
    from hosttune.resources.storage.in_use import (
        add_old_units,
        look_at_shutdown,
        look_at_swap_in_use,
    )
    from hosttune.resources.storage.resume_boot import (
        look_at_resume,
        look_at_root,
        look_at_root_line,
        look_at_subvolume,
    )
    from hosttune.resources.storage.unit_boot import look_at_units

    document = document_of(facts.reader)
    if isinstance(document, Unreadable):
        raise UnknownFact(f"{PATH}: {document.reason}")
    lines = () if document is ABSENT else tuple(_look_at_lines(facts, document))
    lines = tuple(add_old_units(facts, _add_docker(facts, _add_failures(facts, lines))))
    found = (
        *lines,
        *look_at_units(facts),
        *look_at_crypttab(facts),
        *look_at_root(facts),
        *look_at_resume(facts),
    )
    found = (*found, *look_at_root_line(facts), *look_at_subvolume(facts))
    found = (*found, *look_at_failed_units(facts, found))
    return (*found, *look_at_swap_in_use(facts, found), *look_at_shutdown(facts))


def _look_at_lines(facts: Facts, document: FstabText) -> Iterator[BootLine]:
    remarks = lint(document)
    found = {
        one.line: one for one in _resolve_lines(facts, document, remarks, mounted_targets(facts))
    }
    for remark in remarks:
        may_fail = remark.code in MAY_FAIL and remark.level is RemarkLevel.ERROR
        may_fail = may_fail or (
            remark.code == "no-device" and document.lines[remark.line - 1].target == "/"
        )
        may_fail = may_fail or remark.todo == NEW_LINE  # `>>` to a file without a final line feed
        if may_fail or (remark.code in _NOTED and _counts_here(facts, remark)):
            if remark.code == "false-blank" and _is_meant(
                facts, document.lines[remark.line - 1].target
            ):
                continue
            line = found.get(remark.line) or BootLine(
                document.lines[remark.line - 1].target, remark.line
            )
            if not line.fault and not line.note:
                note = f"line {remark.line} of {PATH}: {remark.message}"
                found[remark.line] = replace(line, note=note, way_out=remark.todo)
    for of, on, relation in find_needs(document):
        lost, needing = found.get(on.number), found.get(of.number)
        if lost and lost.is_lost and needing and not needing.fault:
            found[of.number] = _explain_need(needing, lost, relation)
    yield from (found[number] for number in sorted(found))


def _add_failures(facts: Facts, lines: Sequence[BootLine]) -> Iterator[BootLine]:
    """What this boot could not mount, as the kernel log says, the next one cannot either."""
    from hosttune.resources.storage.mount_causes import MountCauses

    causes = make_shared(MountCauses, facts)
    for line in lines:
        if line.fault or line.note or line.remark or not line.is_absent:
            yield line
            continue
        cause = causes().find_failure(line.file, line.line)
        if not cause.sentence or not causes().ends_boot(line.file, line.line):
            yield line
            continue
        end = "the mount failed, and a boot that fails so ends in the emergency shell"
        todo = f"{cause.way_out}\nor add nofail, with which a boot goes on without it"
        yield replace(
            line, is_of_device=True, fault=f"{line.where} {cause.sentence}: {end}", way_out=todo
        )


def _add_docker(facts: Facts, lines: Iterable[BootLine]) -> Iterator[BootLine]:
    """What Docker unmounts when it stops: the folder of its driver overlay2
    (https://github.com/moby/moby/issues/39267).
    """
    root = attempt(lambda: facts.docker.data_root)
    for line in lines:
        if not line.target.endswith("/overlay2") or line.fault or line.note or line.remark:
            yield line
            continue
        if isinstance(root, Unreadable):
            raise UnknownFact(root.reason)
        if line.target != f"{root}/overlay2":
            yield line
            continue
        note = (
            f"{line.where} mounts at {line.target}, which Docker unmounts when it stops: it starts "
            "without its images"
        )
        todo = f"stop Docker, copy all of {root} to this disk, and mount it at {root} instead"
        yield replace(line, note=note, way_out=todo)


def _explain_need(line: BootLine, lost: BootLine, relation: str) -> BootLine:
    fault = (
        f"{line.where} has no nofail, and {relation} {lost.target} ({lost.where}), which the next "
        "boot does not mount: it ends in the emergency shell"
    )
    todo = f"add nofail to this line as well\nof {lost.target}: {lost.way_out}"
    return replace(line, is_of_device=True, fault=fault, note="", way_out=todo)


def mounted_targets(facts: Facts) -> frozenset[str]:
    """Where something is mounted now; nowhere in an image."""
    return frozenset() if facts.reader.persistent_only else frozenset(facts.mounts.at)


def _is_meant(facts: Facts, target: str) -> bool:
    """Whether a folder has what looks like a blank in its name, as something is mounted there
    now.
    """
    return false_blank(
        target.encode("utf-8", "surrogateescape")
    ) != "" and target in mounted_targets(facts)


def is_of_older_systemd(facts: Facts, remark: ShownRemark) -> bool:
    """Whether a remark is about types that the systemd of this host knows."""
    return remark.code == "late-netdev" and find_systemd_version(facts) >= _KNOWS_DAVFS_FROM


def _counts_here(facts: Facts, remark: ShownRemark) -> bool:
    if remark.code in {"root-remount", "root-quota"}:
        return not _has_root_option(facts, remark)
    if remark.code != "early-automount" or find_systemd_version(facts) >= _HANGS_FROM:
        return True
    try:  # a release upgrade may not have unpacked systemd yet
        release = facts.os.version_id if facts.os.is_ubuntu else ""
    except UnknownFact:
        return False
    match = _RELEASE.match(release)
    return match is not None and tuple(map(int, match.groups())) >= _UBUNTU_HANGS_FROM


def _has_root_option(facts: Facts, remark: ShownRemark) -> bool:
    """Whether / gets an option of its line from the start: the next boot passes it, or this one
    took the line as it is, and / is writable; tune2fs(8) can make it a default of the disk.
    """
    words = attempt(lambda: (*facts.kernel.command_line, *facts.cmdline.added))
    passed = (
        [word for word in words if word.startswith("rootflags=")]
        if isinstance(words, tuple)
        else []
    )
    if any(
        flag and flag in remark.todo
        for word in passed
        for flag in word.removeprefix("rootflags=").split(",")
    ):
        return True
    root = facts.mounts.at.get("/") if "/" in mounted_targets(facts) else None
    has_booted = root is not None and "rw" in root.options and is_older_than_boot(facts, PATH)
    return has_booted and remark.code == "root-remount"


def _resolve_lines(
    facts: Facts, document: FstabText, remarks: Sequence[ShownRemark], mounted: frozenset[str]
) -> Iterator[BootLine]:
    errors, kernel, has_libmount = (
        LineErrors(document),
        next_kernel(facts),
        _reads_with_libmount(facts),
    )
    failures = _find_failures(remarks)
    entries = {entry.line: entry for entry in facts.fstab.entries}
    paths = {number: entry.path for number, entry in entries.items()}
    sources = sources_of(facts)
    units = facts.mount_units.by_path  # one in /etc comes before the line of its target
    done: set[str] = set()
    for line in document.lines:
        fields = line.libmount or line.getmntent
        if line.kind is LineKind.BLANK or fields is None:
            continue
        abort = failures.get(line.number)
        # also of swap, and of what is mounted on demand
        if abort is not None and abort.code == "systemd-abort":
            fault = f"line {line.number} of {PATH}: {abort.message}"
            yield BootLine(line.target or f"line {line.number}", line.number, fault, abort.todo)
            continue
        if is_on_demand(_decode_words(fields)):
            continue
        if fields.fstype == b"swap" or paths.get(line.number) in units:
            if line.number in entries and fields.fstype == b"swap":
                yield from look_at_swap(facts, sources, entries[line.number])
            continue
        reading = line.libmount if has_libmount else line.getmntent
        target = line.target or f"line {line.number}"
        remark = failures.get(line.number) or errors.failure(line, kernel)
        remark = None if _has_device(sources, remark, entries.get(line.number)) else remark
        is_mounted = bool({line.target, paths.get(line.number, "")} & mounted)
        if line.kind is LineKind.BROKEN:
            fails = remark is not None and _is_misread(
                reading, kernel, mounted if is_mounted else None
            )
        elif is_mounted:
            fails = remark is not None and remark.code not in MAY_FAIL
        else:
            fails = remark is not None and remark.level is RemarkLevel.ERROR and _is_needed(fields)
        entry = entries.get(line.number)
        if remark is not None and fails and remark.code not in HARMLESS:
            fault = f"line {line.number} of {PATH}: {remark.message}"
            is_absent = not is_mounted and not facts.reader.persistent_only
            yield BootLine(target, line.number, fault, remark.todo, is_mounted, is_absent=is_absent)
        elif entry and target.startswith("/") and entry.path not in done:
            done.add(entry.path)  # of two lines of one target systemd takes the first
            yield _look_at_source(facts, sources, entry, fields)
        else:
            yield BootLine(target, line.number, is_mounted=is_mounted)


def _has_device(sources: Sources, remark: ShownRemark | None, entry: FstabEntry | None) -> bool:
    """Whether a device has a UUID that is none of the type of its line: then the type is wrong, and
    it says so.
    """
    is_of_shape = remark is not None and remark.code == "uuid-shape"
    return is_of_shape and entry is not None and bool(sources.find(entry.source))


def _find_failures(remarks: Sequence[ShownRemark]) -> dict[int, ShownRemark]:
    """By line, the first remark with which its mount fails."""
    found: dict[int, ShownRemark] = {}
    for one in remarks:
        if one.line and is_failing(one) and one.code not in HARMLESS:
            found.setdefault(one.line, one)
    return found


def _look_at_source(facts: Facts, sources: Sources, entry: FstabEntry, fields: Fields) -> BootLine:
    """What the devices of this host say of a line whose text is right."""
    is_required = _is_needed(fields) and not is_remote_to_systemd(
        entry.fstype, frozenset(_decode_words(fields))
    )
    return look_at_source(facts, sources, entry, BootNeed(is_required, is_awaited=is_required))


def look_at_source(facts: Facts, sources: Sources, entry: FstabEntry, need: BootNeed) -> BootLine:
    """What the devices of this host say of a line of fstab or of a unit file."""
    here = [] if facts.reader.persistent_only else _mounted_at(facts, entry)
    line = BootLine(
        entry.target, entry.line, is_mounted=bool(here), file=entry.file,
        is_absent=not here and not facts.reader.persistent_only,
    )  # fmt: skip
    if lacking := _look_at_type(facts, line, entry, need):
        return lacking
    fault = find_fault(sources, entry, here)
    found = fault or find_incomplete(facts, sources, entry, here)
    if fault is None and found and entry.target == "/":
        end = (
            "the next boot does not mount it without rootflags=degraded on the kernel command line"
        )
        return replace(
            line,
            is_of_device=True,
            fault=f"{entry.where} {found.sentence}: {end}",
            way_out=found.way_out,
        )
    if found is None:
        noted = _note_circle(facts, line, entry, need)
        noted = noted or _note_source(
            facts, sources, line, entry, here, is_required=need.is_required
        )
        if not noted and need.is_required and any(one in facts.mounts.local_data for one in here):
            noted = _note_data_disk(sources, line, entry)
        elif (
            not noted
            and here
            and entry.file == PATH
            and (not need.is_required or entry.target in _OF_SYSTEM)
        ):
            noted = _note_kernel_name(facts, sources, line, entry, is_required=need.is_required)
        return noted or line
    if "comment=cloudconfig" in entry.options and not here:
        return line  # of cloud-init's own disks not every size of instance has each
    is_lost = found.kind in {SourceKind.MISSING, SourceKind.TYPE} or (
        found.kind is SourceKind.HIDDEN and sources.is_locked
    )
    if not here and is_lost:
        line = replace(line, is_lost=line.is_absent)
    sentence = f"{entry.where} {found.sentence}: {_tell_end(facts, entry, found.kind, need)}"
    lets_go_on = (
        need.way_out
        if need.end and found.kind is SourceKind.MISSING and entry.target != "/"
        else ""
    )
    goes_on = entry.target == "/" and not _is_left_read_only(facts, entry, found.kind)
    if goes_on or (found.kind is SourceKind.HIDDEN and need.is_required):
        return replace(line, is_of_device=True, note=sentence, way_out=found.way_out)
    if line.is_mounted or need.is_required:
        return replace(
            line, is_of_device=True, fault=sentence, way_out=f"{found.way_out}{lets_go_on}"
        )
    if need.is_awaited or need.needed_by:
        return replace(
            line, is_of_device=True, note=sentence, way_out=f"{found.way_out}{lets_go_on}"
        )
    return replace(line, is_of_device=True, remark=sentence, way_out=found.way_out)


def _is_left_read_only(facts: Facts, entry: FstabEntry, kind: SourceKind) -> bool:
    """Whether / comes up read-only, and the remount fails: mount(8) of util-linux 2.38 ends with 1
    where no device has the tag of the line, and does not look at a path.
    """
    words = attempt(lambda: facts.kernel.command_line)
    known = [one for one in words if one in {"ro", "rw"}] if isinstance(words, tuple) else ["rw"]
    is_tag = "=" in entry.source and not entry.source.startswith("/")
    return is_tag and kind is SourceKind.MISSING and known[-1:] == ["ro"]


def _look_at_type(
    facts: Facts, line: BootLine, entry: FstabEntry, need: BootNeed
) -> BootLine | None:
    """Whether the kernel of the next boot has no such type; None where it has, or that is not
    known.
    """
    release = find_lacking_kernel(facts, entry.fstype)
    lock = None if release else find_lock(facts, entry.fstype, is_mounted=line.is_mounted)
    if not (release or lock) or ("comment=cloudconfig" in entry.options and not line.is_mounted):
        return None
    end = "the mount fails" + (f", and the boot {need.end}" if need.end else "")
    if lock:
        line, why, todo = replace(line, cause=lock.place), lock.why, lock.way_out
    else:
        why = f"which the kernel of the next boot ({release}) does not have"
        todo = (
            f"install what brings it (Ubuntu: linux-modules-extra-{release}; of ZFS and others: "
            "dkms status), or boot another kernel"
        )
    sentence, todo = (
        f"{entry.where} needs {entry.fstype}, {why}: {end}",
        todo + need.way_out * bool(need.end),
    )
    if line.is_mounted or need.is_required:
        return replace(line, is_of_device=True, fault=sentence, way_out=todo)
    return replace(line, is_of_device=True, remark=sentence, way_out=todo)


def _note_circle(
    facts: Facts, line: BootLine, entry: FstabEntry, need: BootNeed
) -> BootLine | None:
    """A mount that comes before local-fs.target, and is to wait for what comes after that."""
    if not (need.is_awaited or need.is_required) or any(
        one.startswith(_OF_OTHERS) for one in entry.options
    ):
        return None
    unit = facts.mount_units.find(entry)
    pairs = (
        []
        if unit
        else [one.partition("=")[::2] for one in entry.options if one.startswith("x-systemd.")]
    )
    pulled = find_late(facts, (value for key, value in pairs if key in _PULLS), are_started=True)
    after = unit.ordered_after if unit else tuple(value for key, value in pairs if key == _AFTER)
    late = pulled or find_late(facts, after, are_started=False)
    if not late:
        return None
    key = next((key for key, value in pairs if value == late and key in {_AFTER, *_PULLS}), "After")
    why = "" if late == LOCAL else f" comes after {LOCAL}, which"
    note = (
        f"{entry.where} has {key}={late}, which{why} waits for this mount: that is a circle, and "
        "systemd takes one of them out of the boot, so that nothing is mounted here, or other "
        "parts do not start"
    )
    todo = (
        f"take {quote(f'{key}={late}')} out of {entry.file if unit else entry.where}\n"
        "or, if it has to come that late, add nofail to its options: then no boot waits for it"
    )
    return replace(line, note=note, way_out=todo)


def _note_source(
    facts: Facts,
    sources: Sources,
    line: BootLine,
    entry: FstabEntry,
    here: Sequence[Mount],
    *,
    is_required: bool,
) -> BootLine | None:
    """What may go wrong at a boot though a source is there and right; None for nothing."""
    bind = find_bind_fault(facts, entry, here)
    if not bind.sentence:
        bind = find_nesting_fault(facts, entry)
    if not bind.sentence:
        bind = find_union_fault(facts, entry)
    if bind.sentence:
        is_absent = line.is_absent or bind.is_shown_wrong
        note = f"{entry.where} {bind.sentence}"
        return replace(
            line, is_of_device=True, note=note, way_out=bind.way_out, is_absent=is_absent
        )
    is_legacy = entry.fstype == "ntfs" and any(
        one.fstype == "ntfs" and one.is_read_only for one in here
    )
    if is_legacy and not asks_read_only(entry.options):
        note = (
            f"{entry.where} has the type ntfs, by which this kernel mounts it read-only, whatever "
            "the options say"
        )
        return replace(line, is_of_device=True, note=note, way_out=_NTFS)
    is_made = "x-systemd.makefs" in entry.options
    on = (sources.find(entry.source) or ()) if is_required and not is_made and here else ()
    if any(map(sources.is_ephemeral, on)):
        end = (
            "a boot after a stop of the instance finds an empty disk without it, and ends in the "
            "emergency shell"
        )
        return replace(
            line,
            is_of_device=True,
            note=f"{entry.where} names {entry.source}: {end}",
            way_out=EPHEMERAL,
        )
    if is_required and any(map(sources.is_of_network, sources.find(entry.source) or ())):
        end = "a boot waits for it before there is a network, and ends in the emergency shell"
        note = (
            f"{entry.where} names a disk of the network ({entry.source}), and has no _netdev: {end}"
        )
        return replace(line, is_of_device=True, is_absent=False, note=note, way_out="add _netdev")
    if entry.target in _MIRRORED or not names_device(entry.source):
        return None
    if copies := sources.find_copies(entry.source):
        names = ", ".join(map(sources.describe, copies[:3]))
        note = (
            f"{entry.where} names {entry.source}, which {len(copies)} devices have ({names}): "
            "which of them a boot"
        )
        note = f"{note} mounts is chance"
        # That the folder is empty is storage-mounted's: a copied disk itself takes nothing from a
        # node.
        return replace(line, is_of_device=True, is_absent=False, note=note, way_out=_COPIES)
    if volumes := sources.find_snapshots(entry.source):
        names = ", ".join(map(sources.describe, volumes[:3]))
        remark = (
            f"{entry.where} names {entry.source}, which {len(volumes)} volumes have ({names}), as "
            "a snapshot has"
        )
        todo = (
            "name it by its path, /dev/VG/LV: then no boot can mount a snapshot (lvmteam/lvm2#146)"
        )
        return replace(
            line,
            is_of_device=True,
            remark=f"{remark}: udev prefers the origin, if both are there",
            way_out=todo,
        )
    return None


def _note_data_disk(sources: Sources, line: BootLine, entry: FstabEntry) -> BootLine:
    """A data disk that a boot waits for, and ends without: the host is lost with the disk. Of fstab
    only: units of a site have their requirements on purpose.
    """
    if entry.file != PATH:
        return line
    todo = f"if the host is of use without {entry.target}: add nofail to {entry.where}"
    name = ""
    if _KERNEL_NAME.fullmatch(entry.source) and "comment=cloudconfig" not in entry.options:
        name = f" names {entry.source}, which may be another disk after the next boot, and"
        (device, *_) = sources.find(entry.source) or (entry.source.rpartition("/")[2],)
        todo = join_steps(
            (
                (
                    f"in {entry.where} write {sources.name_like('UUID=', device)}, which stays the "
                    "same"
                ),
                todo,
            )
        )
    risk = (
        f"{entry.where}{name} has no nofail: a boot that does not find this disk ends in the "
        "emergency shell"
    )
    return replace(line, risk=risk, way_out=todo)


def _note_kernel_name(
    facts: Facts, sources: Sources, line: BootLine, entry: FstabEntry, *, is_required: bool
) -> BootLine | None:
    """A name of the kernel, while there are several disks that may take it."""
    match = _KERNEL_NAME.fullmatch(entry.source)
    family = _FAMILY.match(entry.source)
    disks = attempt(lambda: facts.disks.all)
    if (
        match is None
        or family is None
        or not isinstance(disks, tuple)
        or "comment=cloudconfig" in entry.options
    ):
        return None  # cloud-init writes its lines anew at each boot
    alike = [
        one for one in disks if one.kind == "disk" and f"/dev/{one.name}".startswith(family[0])
    ]
    (device, *_) = sources.find(entry.source) or ("",)
    if len(alike) < 2 or not device:
        return None
    if entry.target == "/":
        end = "fsck and mount options go to that one"
    elif is_required:
        end = "the boot mounts that one, or ends in the emergency shell"
    else:
        end = "the boot mounts that one, or nothing"
    risk = (
        f"{entry.where} names {entry.source}, which may be another disk after the next boot: then "
        f"{end}"
    )
    todo = f"in {entry.where} write {sources.name_like('UUID=', device)}, which stays the same"
    return replace(line, risk=risk, way_out=todo)


def _mounted_at(facts: Facts, entry: FstabEntry) -> list[Mount]:
    """All that is mounted at a target, one upon the other."""
    places = _by_target(facts)
    return [
        one
        for target in dict.fromkeys((entry.target, entry.path))
        for one in places.get(target, ())
    ]


@lru_cache(maxsize=1)
def _by_target(facts: Facts) -> Mapping[str, Sequence[Mount]]:
    found: dict[str, list[Mount]] = {}
    for one in facts.mounts.all:
        found.setdefault(one.target, []).append(one)
    return found


def _tell_end(facts: Facts, entry: FstabEntry, kind: SourceKind, need: BootNeed) -> str:
    """What the next boot makes of such a line (systemd.mount(5))."""
    if entry.target == "/" and _is_left_read_only(facts, entry, kind):
        return "systemd-remount-fs fails at the next boot, and the root file system stays read-only"
    if entry.target == "/":
        return (
            "a boot mounts / by the root= of the kernel command line, and fsck and remounts go by "
            "this line"
        )
    if kind is SourceKind.OTHER:
        return "the next boot mounts that one"
    if kind is SourceKind.TYPE:
        return f"the mount fails{', and the boot ' + need.end if need.end else ''}"
    if need.is_awaited:
        return (
            f"the next boot waits {wait_of(facts, entry)} for it, and "
            f"{need.end or 'mounts nothing at ' + entry.target}"
        )
    return f"the next boot {need.end or 'mounts nothing at ' + entry.target}"


def wait_of(facts: Facts, entry: FstabEntry) -> str:
    """How long a boot waits for a device: what the line says, or how the system is set."""
    own = [
        one.partition("=")[2]
        for one in entry.options
        if one.startswith("x-systemd.device-timeout=")
    ]
    if entry.file == PATH and own and own[-1]:
        return own[-1]
    wait = attempt(device_wait, facts, entry.source)
    return wait if isinstance(wait, str) else "some time"


def look_at_swap(facts: Facts, sources: Sources, entry: FstabEntry) -> Iterator[BootLine]:
    """What a boot makes of a swap: it goes on without one, after it has waited for its device."""
    from hosttune.resources.storage.in_use import refuse_swap

    if attempt(_is_swap_off, facts, entry) is True:
        return
    found = list(_find_missing_swap(facts, sources, entry))
    yield from found
    place = BootLine(f"swap {entry.source}", entry.line, file=entry.file, is_of_device=True)
    if not found and attempt(refuses_swap, facts) is True:
        yield refuse_swap(place, entry.source)
    elif not found and (risk := _find_swap_risk(facts, entry.source)):
        yield replace(place, note=f"{entry.where} names {entry.source}, {risk[0]}", way_out=risk[1])


def _find_swap_risk(facts: Facts, path: str) -> tuple[str, str] | None:
    """Why a swap that works is none to keep, as what follows its name, and the way out; None for
    nothing. Sources: https://github.com/openzfs/zfs/issues/7734 and 18200 (swap on a zvol);
    swapon(8) (mode of a swap file).
    """
    if _ZVOL.fullmatch(path):
        why = (
            "a volume of ZFS: ZFS takes memory to write to it, so that the host can hang when "
            "memory is short"
        )
        return (
            why,
            (
                f"switch it off while memory is free: sudo swapoff {quote(path)}\n"
                "put the swap on a partition instead"
            ),
        )
    if not path.startswith("/") or path.startswith("/dev/") or ways_of(facts).way(path)[1]:
        return None
    stat = facts.reader.stat(path)
    mode = getattr(stat, "mode", 0) if getattr(stat, "type", "") == "file" else 0
    owner = 0 if facts.reader.persistent_only else getattr(stat, "uid", 0)
    if mode and owner:
        why = (
            f"a file of uid {owner}: this user may read and change the memory of programs that is "
            "written there"
        )
        off = f"switch it off while memory is free: sudo swapoff {quote(path)}"
        return why, f"{off}\nmake another one in a folder that only root can write"
    if not mode & 0o077:
        return None
    does = "change" if mode & 0o022 else "read"
    why = (
        f"a file of mode {mode:04o}: other users may {does} the memory of programs that is written "
        "there"
    )
    return why, f"sudo chmod 600 {quote(path)}"


def _is_swap_off(facts: Facts, entry: FstabEntry) -> bool:
    """Whether a boot leaves a swap out by a mask, or one of fstab by the kernel command line
    (systemd.swap= of systemd-fstab-generator(8)). Raises UnknownFact.
    """
    if any(
        mask_of(facts.reader, one)
        for one in ("swap.target", unit_name(device_path(entry.source), "swap"))
    ):
        return True
    return entry.file == PATH and is_switched_off(facts.kernel.command_line, "systemd.swap")


def _find_missing_swap(facts: Facts, sources: Sources, entry: FstabEntry) -> Iterator[BootLine]:
    used = frozenset() if facts.reader.persistent_only else sources.swapped
    where = entry.where
    place = BootLine(f"swap {entry.source}", entry.line, file=entry.file, is_of_device=True)
    if is_zram(entry.source, entry.options):
        wait = wait_of(facts, entry)
        note = (
            f"{where} names {entry.source}, which a service makes later: each boot waits {wait} "
            "for it"
        )
        # the text of the line says so
        yield replace(place, way_out=ZRAM, note=note, is_of_device=False)
        return
    if (
        "nofail" in entry.options
        or used is None
        or used.intersection((entry.source, *(sources.find(entry.source) or ())))
    ):
        return
    is_device = names_device(entry.source)
    if (
        is_device
        and (found := find_fault(sources, entry, ()))
        and found.kind is not SourceKind.HIDDEN
    ):
        is_there = found.kind is SourceKind.TYPE
        end = (
            "swapon fails at each boot"
            if is_there
            else f"each boot waits {wait_of(facts, entry)} for it, and goes on without"
        )
        todo = found.way_out if is_there else f"{found.way_out}\nor add nofail"
        yield replace(place, way_out=todo, note=f"{where} {found.sentence}: {end}")
    elif not is_device and (fault := find_relative_fault(entry.source, "swap")):
        note = f"{where}: {fault.message}: it is never used"
        yield replace(place, way_out=fault.todo, note=note, is_of_device=False)
    elif not is_device and (hint := _find_swap_hint(facts, entry.source)):
        note = f"{where} names {entry.source}, which is there and not in use: {hint[0]}"
        yield replace(place, way_out=hint[1], note=note)
    elif not is_device and entry.source.startswith("/") and _is_file_missing(facts, entry.source):
        above = mount_below(facts, entry.source)
        on = above.target if above else "/"
        hidden = f"; it may lie below the mount of {on}, which hides it" if on != "/" else ""
        note = (
            f"{where} names {entry.source}, which is not there{hidden}: its swap fails at each boot"
        )
        seen = (
            ", and look below the mount: sudo mount --bind / /mnt, if that is free"
            if hidden
            else ""
        )
        todo = f"make the file again (mkswap(8)), or take the line out{seen}"
        if hidden and above and _is_of_instance(facts, sources, above):
            note, todo = (
                f"{note}; {on} is a disk of this instance, and comes back empty after each stop",
                _SWAP_AGAIN,
            )
        yield replace(place, way_out=todo, note=note)


def _is_of_instance(facts: Facts, sources: Sources, mount: Mount) -> bool:
    """Whether a mount is of a disk that a cloud gives to one instance, by its model or a line of
    cloud-init.
    """
    lines = (one for one in facts.fstab.entries if mount.target in {one.target, one.path})
    return any("comment=cloudconfig" in one.options for one in lines) or any(
        map(sources.is_ephemeral, mount.disks)
    )


def _find_swap_hint(facts: Facts, path: str) -> tuple[str, str] | None:
    """Why a swap file that is there cannot be used on its file system, and the way out; None for
    nothing.
    """
    if facts.reader.persistent_only or not path.startswith("/") or ways_of(facts).way(path)[1]:
        return None
    mount = mount_below(facts, path)
    known = _SWAP_ON.get(mount.fstype) if mount else None
    known = known or _find_refusal(facts, path)
    return known if known and getattr(facts.reader.stat(path), "type", "") == "file" else None


def _find_refusal(facts: Facts, path: str) -> tuple[str, str] | None:
    """What the kernel said when it did not take a swap file. Older words name no file: then of the
    only one.
    """
    errors = attempt(lambda: facts.storage_log.mount_errors)
    files = {
        one.source for one in facts.fstab.entries if one.is_swap and one.source.startswith("/")
    }
    for one in errors if isinstance(errors, tuple) else ():
        is_ours = one.words.startswith(f"file {path} ") or (
            one.words.startswith("swapfile ") and len(files) < 2
        )
        if one.name == "swapon" and is_ours:
            size = getattr(facts.reader.stat(path), "size", 0) >> 20
            fill = (
                f"sudo dd if=/dev/zero of={quote(path)} bs=1M oflag=nofollow "
                f"count={quote(str(max(size, 1)))}"
            )
            todo = f"fill it: {fill}\nthen: sudo mkswap {quote(path)} && sudo swapon {quote(path)}"
            return f"the kernel did not take it in this boot ({one.words})", todo
    words = (
        read_last_words(facts.reader, unit_name(path, "swap")) if _has_failed(facts, path) else ()
    )
    if any("read swap header failed" in one for one in words):
        make = f"sudo mkswap {quote(path)} && sudo swapon {quote(path)}"
        return (
            "it was never made a swap (mkswap), so that swapon fails at each boot",
            f"make it one: {make}",
        )
    return None


def _has_failed(facts: Facts, path: str) -> bool:
    """Whether a swap file was to be used in this boot, and systemd holds that to have failed."""
    failed = attempt(failed_by_itself, facts.reader)
    return isinstance(failed, Mapping) and unit_name(path, "swap") in failed


def _is_file_missing(facts: Facts, path: str) -> bool:
    return not ways_of(facts).way(path)[1] and facts.reader.stat(path) is ABSENT


def find_source_fault(facts: Facts, entry: FstabEntry) -> BootLine | None:
    """What the devices of this host say against a line with an entry of its own; None for
    nothing.
    """
    fields = parse(encode(entry.text)).lines[0].fields
    line = _look_at_source(facts, sources_of(facts), entry, fields) if fields else None
    return line if line and line.fault else None


def _is_misread(
    reading: Fields | None, kernel: tuple[int, ...], mounted: frozenset[str] | None
) -> bool:
    """Whether the boot makes something else of a line that its readers do not agree on than what is
    mounted there now; `mounted`: None where nothing is, so that only a boot that stops there
    counts.
    """
    if mounted is None or reading is None:
        # systemd skips all others
        is_mount = reading is not None and reading.target.startswith(b"/")
        return mounted is not None or (is_mount and reading is not None and _is_needed(reading))
    words, fstype, is_root = _decode_words(reading), decode(reading.fstype), reading.target == b"/"
    is_refused = any(map(is_failing, option_remarks(fstype, words, is_root=is_root)))
    is_refused = is_refused or bool(kernel and refused_by(fstype, words, kernel, is_root=is_root))
    return is_refused or clean_path(decode(reading.target)) not in mounted


def _is_needed(fields: Fields) -> bool:
    return is_required(_decode_words(fields), decode(fields.fstype))


def _decode_words(fields: Fields) -> tuple[str, ...]:
    return tuple(decode(fields.options).split(","))


def _reads_with_libmount(facts: Facts) -> bool:
    """How systemd reads fstab at a boot: from 259 on as mount(8) does, before with getmntent(3).
    The stricter way where its version is not known.
    """
    version = find_systemd_version(facts)
    return version == 0 or version >= 259


__all__ = [
    "HARMLESS", "MAY_FAIL", "BootLine", "BootNeed", "is_of_older_systemd", "look_at_boot_lines",
    "look_at_source", "look_at_swap", "mounted_targets", "next_kernel", "wait_of",
]  # fmt: skip
