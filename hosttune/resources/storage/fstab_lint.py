"""What is wrong, or will be one day, with an fstab: line by line, with the reason and the way out.
Pure, and offline.

Nothing is asked of a host, so a file of any machine can be looked at on any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_lines import (
    LONGEST_LINE,
    MOST_LINES,
    FstabLine,
    FstabText,
    LineKind,
    Problem,
    others_of,
)
from hosttune.facts.storage.fstab_options import decode, is_automount, split_items
from hosttune.facts.storage.fstab_readers import GETMNTENT_LIMIT, Fields
from hosttune.facts.storage.fstab_reasons import explain_disagreement, false_blank
from hosttune.facts.storage.fstab_types import (
    LATELY_REMOTE,
    OF_HYPERVISORS,
    ON_DISK,
    is_known,
    is_remote_to_systemd,
    needs_network,
)
from hosttune.facts.storage.mounts import (
    LOCAL_TYPES,
    NETWORK_TYPES,
    is_network,
    is_system,
    name_effective_type,
)
from hosttune.facts.storage.sources import ZRAM, is_zram
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.resources.storage.fstab_cycles import find_above, find_circles, find_waiting
from hosttune.resources.storage.fstab_lint_fields import field_faults
from hosttune.resources.storage.fstab_lint_names import is_odd_target, is_of_bsd, target_faults
from hosttune.resources.storage.fstab_lint_options import (
    is_required,
    judge_failure,
    option_remarks,
    refused_by,
)
from hosttune.resources.storage.fstab_lint_places import PLACES, place_remarks
from hosttune.resources.storage.fstab_needs import need_remarks
from hosttune.resources.storage.fstab_remark import Remark, RemarkLevel, ShownRemark

__all__ = ["LineErrors", "Remark", "RemarkLevel", "ShownRemark", "in_order", "is_failing", "lint"]
_TAG = regex(r'([A-Za-z]+)=("?)([^"]*)\2')
_TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID")
_PLAIN_UUID = regex(rb"UUID=[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PLAIN_NFS = regex(rb"[A-Za-z0-9.-]{1,253}:/[A-Za-z0-9./_-]*")
_PLAIN_SOURCES = {**dict.fromkeys(LOCAL_TYPES, _PLAIN_UUID), "nfs": _PLAIN_NFS, "nfs4": _PLAIN_NFS}
_KERNEL_NAME = regex(
    rb"/dev/(?:[sh]d[a-z]+[0-9]*|nvme[0-9]+n[0-9]+(?:p[0-9]+)?|dm-[0-9]+|"
    rb"(?P<md>md(?:_d)?12[0-7](?:p[0-9]+)?))"
)
_ODD = regex(rb"[\v\f\x80-\xff]|\\\Z")
_NUMBERED = (b"/dev/sd", b"/dev/hd", b"/dev/nvme")
_DEVICES = (b"/dev/", b"UUID=", b"LABEL=", b"PARTUUID=", b"PARTLABEL=")
# by tmpfiles.d/home.conf, provision.conf and logins
_TOUCHED_EARLY = frozenset({"/home", "/srv", "/root"})
_A_DISK = regex(
    rb"(?:UUID|LABEL|PARTUUID|PARTLABEL)=.+|/dev/(?:disk|mapper)/.+|/dev/(?:[sh]d[a-z]|nvme[0-9]).*"
)
_MADE = frozenset({"tmpfs", "ramfs", "overlay", "hugetlbfs"})  # what has no device
_REMOVABLE = ("/media/", "/run/media/")
_BIND = frozenset({"bind", "rbind", "move"})
_ON_DISK = ON_DISK | {"swap", "auto"}
_UNCHECKED = NETWORK_TYPES | {
    "tmpfs",
    "ramfs",
    "overlay",
    "zfs",
    "swap",
    "squashfs",
    "erofs",
    "iso9660",
    "udf",
    "proc",
    "sysfs",
    "devpts",
    "devtmpfs",
    "cgroup",
    "cgroup2",
    "debugfs",
    "tracefs",
    "hugetlbfs",
    "securityfs",
    "configfs",
    "efivarfs",
}
_GONE = {"reiserfs": "6.13", "usbfs": "3.5", "devfs": "2.6.18"}  # the Linux that no longer has it
_SHIFTED = frozenset({"late-comment", "blank-in-name", "shifted", "swapped"})
_NOTHING = Fields(b"", b"", b"")
_MOST_NAMED = 16  # lines of a circle
_ORDER = {RemarkLevel.ERROR: 0, RemarkLevel.WARNING: 1, RemarkLevel.NOTE: 2}


def lint(document: FstabText) -> tuple[ShownRemark, ...]:
    """All remarks, the worst first, then by line."""
    found = [*_file_remarks(document), *_ending_remarks(document)]
    bsd = next((line for line in document.entries if _is_of_bsd(line)), None)
    if bsd:
        why = (
            "this line is one of BSD, by its type and its disk: the file is of another system than "
            "Linux"
        )
        found.append(
            Remark(
                bsd.number,
                RemarkLevel.WARNING,
                "of-bsd",
                why,
                "look whether this is the right file",
            )
        )
    swaps: dict[bytes, int] = {}
    for line in document.lines if not bsd else ():
        if line.kind is LineKind.ENTRY:
            found += _entry_remarks(document, line)
            if line.libmount and line.libmount.fstype == b"swap":
                found += _swap_remarks(line.number, line.libmount, swaps)
        elif line.kind is LineKind.BROKEN:
            found += _broken_remarks(line)
    found += [*_circle_remarks(document), *_waiting_remarks(document), *need_remarks(document)]
    return in_order(_without_secrets(document, one) for one in found)


def _is_of_bsd(line: FstabLine) -> bool:
    fields = line.libmount
    return (
        fields is not None
        and fields.fstype[1:] == b"fs"
        and is_of_bsd(decode(fields.source), decode(fields.fstype))
    )


def _without_secrets(document: FstabText, one: Remark) -> ShownRemark:
    message, todo = document.hide(one.line, one.message), document.hide(one.line, one.todo)
    return ShownRemark(one.line, one.level, one.code, message, todo, one.is_misread, one.is_sure)


def in_order(remarks: Iterable[ShownRemark]) -> tuple[ShownRemark, ...]:
    """The worst first, then by line."""
    return tuple(sorted(remarks, key=lambda one: (_ORDER[one.level], one.line)))


class LineErrors:
    """What `lint` calls an error of one line by itself: such a line is left for a person to mend,
    never built upon.

    Two lines of one target, and lines that wait for each other, are no error of either
    (`line_problem` has the former).
    """

    def __init__(self, document: FstabText) -> None:
        self.document = document

    def failure(self, line: FstabLine, kernel: tuple[int, ...] = ()) -> ShownRemark | None:
        """With what the mount of an entry fails for certain, by this kernel (major, minor) where
        that is known.
        """
        fields = line.fields
        if line.kind is not LineKind.ENTRY or fields is None:
            return None
        remarks = _entry_remarks(self.document, line)
        found = next((one for one in remarks if one.code != "duplicate" and is_failing(one)), None)
        if found or not kernel or fields.fstype == b"swap":
            return _without_secrets(self.document, found) if found else None
        options = _split_options(fields.fstype, fields.options, is_root=line.target == "/")
        refused = refused_by(options.fstype, options.words, kernel, is_root=line.target == "/")
        return (
            _without_secrets(self.document, refused._replace(line=line.number)) if refused else None
        )

    def of(self, line: FstabLine) -> Problem | None:
        """The first error of an entry, with the way out."""
        remarks = _entry_remarks(self.document, line) if line.kind is LineKind.ENTRY else []
        for one in remarks:
            if one.level is RemarkLevel.ERROR and one.code != "duplicate":
                return self.document.problem(one.line, one.message, one.todo)
        return None


def is_failing(remark: Remark | ShownRemark) -> bool:
    """Whether it is an error, or would be one without nofail."""
    return remark.level is RemarkLevel.ERROR or remark.is_sure


def _file_remarks(document: FstabText) -> Iterator[Remark]:
    for problem in document.problems:
        level = RemarkLevel.ERROR if problem.line else RemarkLevel.WARNING
        code = next(code for word, code in _FILE_CODES.items() if word in problem.message)
        yield Remark(problem.line, level, code, problem.message, problem.hint)
    if document.manager:
        why = (
            f"{document.manager.name} says that it manages this file, so edits by others are "
            "overwritten"
        )
        yield Remark(
            document.manager.line,
            RemarkLevel.NOTE,
            "managed",
            why,
            "change it where that tool takes it from",
        )


_FILE_CODES = {
    "byte order mark": "byte-order-mark",
    "NUL": "nul",
    "carriage return": "lone-cr",
    "larger": "too-large",
}


def _ending_remarks(document: FstabText) -> Iterator[Remark]:
    dos = [line for line in document.lines if line.ending == b"\r\n"]
    if dos:
        where = dos[0].number
        todo = "give the file plain line ends (sed -i 's/\\r$//')"
        empty = next((line for line in dos if line.kind is LineKind.BLANK and line.getmntent), None)
        many = "1 line ends" if len(dos) == 1 else f"{len(dos)} lines end"
        if empty:
            why = f"{many} in CR LF; systemd before 259 takes a blank one for an entry of nothing"
            yield Remark(empty.number, RemarkLevel.WARNING, "cr-lf", why, todo, is_misread=True)
        else:
            why = f"{many} in CR LF, harmless as long as two numbers end each entry"
            yield Remark(where, RemarkLevel.NOTE, "cr-lf", why, todo)
    last = document.lines[-1] if document.lines else None
    if last and not last.ending:
        why = "the last line has no line end: what someone appends with >> is glued to it"
        yield Remark(
            last.number, RemarkLevel.NOTE, "no-final-newline", why, "end it with a line feed"
        )


class _Options:
    """What the checks of a line ask of its options; made once for all lines that have the same."""

    def __init__(self, field: str, options: bytes, *, is_root: bool) -> None:
        has_comma = "," in field
        # libmount skips empty names
        self.fstype = fstype = (field.strip(",") or field) if has_comma else field
        self.problem: Refused | None = None
        try:
            self.words = split_items(decode(options))
        except Refused as refused:
            self.problem = refused
            self.words = ()
        self.is_required = is_required(self.words, fstype)
        self.is_on_disk = fstype in _ON_DISK
        self.has_no_fsck = fstype in _UNCHECKED or fstype.startswith("fuse")
        self.is_bind = not _BIND.isdisjoint(self.words)
        is_usual = not options.isdigit() and not self.is_bind
        self.plain_source = _PLAIN_SOURCES.get(fstype) if is_usual else None
        self.is_odd = self.problem is not None or fstype in _GONE or has_comma
        self.remarks = option_remarks(fstype, self.words, is_root=is_root)


@lru_cache(maxsize=MOST_LINES)  # the lines of a host are judged several times
def _split_options(fstype: bytes, options: bytes, *, is_root: bool) -> _Options:
    return _Options(decode(fstype), options, is_root=is_root)


def _entry_remarks(document: FstabText, line: FstabLine) -> list[Remark]:
    fields = line.libmount
    assert fields is not None  # noqa: S101 - what Kind.ENTRY means
    target = line.target
    options = _split_options(fields.fstype, fields.options, is_root=target == "/")
    number = line.number
    found = [remark._replace(line=number) for remark in options.remarks] if options.remarks else []
    plain = options.plain_source
    if not (plain and plain.fullmatch(fields.source) and target.startswith("/")):
        found += _source_remarks(number, fields, options)
        found += _field_remarks(number, fields, target, options)
    if fields.passno and (options.has_no_fsck or options.is_bind):
        found.append(_passno_remark(number, fields, options))
    if target:
        if len(document.index[target]) > 1:
            found.append(_duplicate_remark(document, line))
        if target[0] != "/" and not any(one.code in _SHIFTED for one in found):
            found.append(_relative_remark(number, target))
        found += _order_remarks(document, line)
        if target in PLACES and not options.is_bind:
            found += place_remarks(number, target, options.fstype, options.words, fields.passno)
        if is_odd_target(fields.target):
            faults = target_faults(decode(fields.target))
            found += [
                Remark(number, RemarkLevel.WARNING, one.code, one.message, one.todo)
                for one in faults
            ]
        if not options.is_bind and not is_system(target) and target[0] == "/":
            found += _boot_remarks(number, fields, target, options)
    if options.is_odd or line.owner or len(line.text) > LONGEST_LINE or _ODD.search(line.text):
        found += _odd_remarks(line, options)
    return found


def _odd_remarks(line: FstabLine, options: _Options) -> Iterator[Remark]:
    """What few lines have."""
    number = line.number
    if options.problem:
        yield Remark(
            number, RemarkLevel.ERROR, "open-quote", options.problem.message, options.problem.hint
        )
    if len(line.text) > LONGEST_LINE:
        why = (
            f"the line has {len(line.text)} bytes; systemd before 259 loses what is beyond "
            f"{GETMNTENT_LIMIT - 1}"
        )
        yield Remark(number, RemarkLevel.WARNING, "long-line", why, "shorten it")
    if line.owner:
        why = f"{line.owner} rewrites this line, so edits by others are lost"
        yield Remark(
            number,
            RemarkLevel.NOTE,
            "managed-line",
            why,
            f"change it where {line.owner} takes it from",
        )
    if options.fstype in _GONE:
        why = f"Linux {_GONE[options.fstype]} and later have no {options.fstype}"
        todo = (
            "move to another file system before an upgrade"
            if options.fstype == "reiserfs"
            else "take the line out"
        )
        yield Remark(number, RemarkLevel.WARNING, "type-gone", why, todo)
    field = decode(line.libmount.fstype) if line.libmount else ""
    if "," in field and line.libmount and line.libmount.passno and options.is_on_disk:
        why = (
            f"systemd looks for a program `fsck.{field}`, so it checks this file system at no boot"
        )
        yield Remark(number, RemarkLevel.NOTE, "type-list", why, "name one type, without a comma")
    blank = false_blank(line.text)
    if blank:
        why = f"{blank} is no blank: it is part of the field that it stands in"
        yield Remark(
            number, RemarkLevel.WARNING, "false-blank", why, "type the blanks of this line anew"
        )
    if line.text[-1:] == b"\\":
        why = "a backslash at the end of a line continues nothing"
        yield Remark(
            number, RemarkLevel.WARNING, "continuation", why, "write the entry on one line"
        )


def _broken_remarks(line: FstabLine) -> Iterator[Remark]:
    message, hint = explain_disagreement(
        line.text, line.libmount, line.getmntent, has_cr=line.ending == b"\r\n"
    )
    level = RemarkLevel.NOTE if line.getmntent is None and line.libmount else RemarkLevel.ERROR
    yield Remark(line.number, level, "misread", message, hint, is_misread=True)


def _circle_remarks(document: FstabText) -> Iterator[Remark]:
    for circle in find_circles(document):
        numbers = [str(line.number) for line in circle]
        for line in circle:
            near = [number for number in numbers[: _MOST_NAMED + 1] if number != str(line.number)][
                :_MOST_NAMED
            ]
            more = (
                f" and {len(numbers) - 1 - len(near)} more" if len(near) < len(numbers) - 1 else ""
            )
            others = ", ".join(near) + more
            why = (
                f"this line and line {others} wait for each other: systemd mounts none of them, or "
                "not all"
            )
            yield Remark(
                line.number,
                RemarkLevel.ERROR,
                "circle",
                why,
                "bind from a folder that none of them mounts",
            )


def _waiting_remarks(document: FstabText) -> Iterator[Remark]:
    """What waits for the network: mounts that systemd counts among the disks
    (systemd/systemd#1258), and automounts of folders that are used before there is one
    (systemd/systemd#39177).
    """
    remote = [line for line in document.entries if line.fields and _is_remote(line.fields)]
    waiting = find_waiting(document, remote)
    for line in document.entries:
        fields, first = line.fields, waiting.get(line.number)
        if fields is None or first is None or fields.fstype == b"swap":
            continue
        words = tuple(decode(fields.options).split(","))
        if line.target in _TOUCHED_EARLY and is_automount(words):
            why = (
                f"from systemd 258 on (Ubuntu 26.04) an automount of the network on {line.target} "
                "can hang the boot: systemd-tmpfiles and others look there before there is a "
                "network"
            )
            todo = (
                "mount it at boot: _netdev,nofail in place of noauto and x-systemd.automount; or "
                "let autofs mount it"
            )
            yield Remark(line.number, RemarkLevel.NOTE, "early-automount", why, todo)
        if is_automount(words) and (above := find_above(document, line, remote)):
            why = (
                f"a boot makes its automount early, and it is below {above.target} (line "
                f"{above.number}), which waits for the network: systemd may leave the network or "
                "other parts out of the boot (ordering cycle)"
            )
            todo = (
                "mount it at boot: _netdev,nofail in place of noauto and x-systemd.automount; or "
                f"move it out of {above.target}"
            )
            yield Remark(line.number, RemarkLevel.WARNING, "waits-for-network", why, todo)
            continue
        if first is line or _is_remote(fields) or not is_required(words, decode(fields.fstype)):
            continue
        why = (
            f"systemd counts this line among the disks, and it waits for {first.target} (line "
            f"{first.number}), which waits for the network: systemd may leave the network or other "
            "parts out of the boot (ordering cycle), and without that server the boot ends in the "
            "emergency shell"
        )
        todo = (
            "add _netdev (nofail, if the host is of use without it); x-systemd.requires-mounts-for "
            "does not help"
        )
        yield Remark(line.number, RemarkLevel.WARNING, "waits-for-network", why, todo)


def _is_remote(fields: Fields) -> bool:
    fstype = name_effective_type(decode(fields.fstype), decode(fields.source))
    return is_remote_to_systemd(fstype, frozenset(decode(fields.options).split(",")))


def _relative_remark(number: int, target: str) -> Remark:
    if target in ("none", "-"):
        why = (
            f"nothing mounts this line: systemd skips the target `{target}`, and mount(8) finds no "
            "such folder"
        )
        return Remark(
            number,
            RemarkLevel.ERROR,
            "relative-target",
            why,
            "name the folder, or take the line out",
        )
    why = (
        f"`{target}` is no absolute path: systemd skips the line, or starts the path from another "
        "folder"
    )
    return Remark(number, RemarkLevel.ERROR, "relative-target", why, "write the whole path")


def _field_remarks(number: int, fields: Fields, target: str, options: _Options) -> Iterator[Remark]:
    """What is mistyped in the first three fields, and what comes of it."""
    source, where = decode(fields.source), decode(fields.target)
    level, consequence = judge_failure(options.fstype, options.words, is_root=target == "/")
    # of a path or a bare word a remount succeeds, of a tag it fails (2.38)
    if target == "/" and "=" not in source:
        consequence = "what looks / up by this line, such as fsck, does not find its disk"
    for fault in field_faults(source, where, options.fstype, decode(fields.options), options.words):
        worst = level if fault.is_sure and target != "/" else RemarkLevel.WARNING
        if options.fstype == "swap":
            # systemd refuses others (What= of systemd.swap(5))
            is_awaited = source.startswith("/") or "=" in source
            worst, consequence = (
                RemarkLevel.WARNING,
                "it is not used" + ", and a boot waits for it" * is_awaited,
            )
        # what a source leads to, devices say
        is_sure = fault.is_sure and fault.code == "unknown-type"
        yield Remark(
            number,
            worst,
            fault.code,
            f"{fault.message}: {consequence}",
            fault.todo,
            is_sure=is_sure,
        )


def _swap_remarks(number: int, fields: Fields, seen: dict[bytes, int]) -> Iterator[Remark]:
    first = seen.setdefault(fields.source, number)
    if first != number:
        why = (
            f"line {first} names the same swap: systemd reports this line as a duplicate, and "
            "skips it"
        )
        yield Remark(
            number, RemarkLevel.WARNING, "duplicate-swap", why, "take one of the lines out"
        )
    if is_zram(decode(fields.source), decode(fields.options).split(",")):
        why = (
            f"{decode(fields.source)} is made later in a boot by a service: the boot waits 90 s "
            "for it at this line"
        )
        yield Remark(number, RemarkLevel.WARNING, "zram-swap", why, ZRAM)


def _source_remarks(number: int, fields: Fields, options: _Options) -> Iterator[Remark]:
    source = decode(fields.source)
    tag = _TAG.fullmatch(source) if options.fstype in _ON_DISK and not options.is_bind else None
    level = RemarkLevel.ERROR if options.is_required else RemarkLevel.WARNING
    if tag and tag[1] == "ID":
        why = "systemd does not resolve ID= and waits for a device of that name"
        yield Remark(
            number,
            level,
            "id-tag",
            why,
            "name it by UUID=, or by its path in /dev/disk/by-id",
            is_sure=True,
        )
    elif tag and tag[1] not in _TAGS:
        meant = tag[1].upper() if tag[1].upper() in _TAGS else ""
        todo = f"write it as {meant}=" if meant else f"name it by one of {', '.join(_TAGS[:4])}"
        yield Remark(
            number, level, "unknown-tag", f"no program resolves {tag[1]}=", todo, is_sure=True
        )
    elif (
        (match := _KERNEL_NAME.fullmatch(fields.source))
        and not options.is_bind
        and options.fstype not in _MADE
    ):
        if "comment=cloudconfig" in options.words:
            # cloud-init writes its lines anew, and such a disk may come back with another UUID
            return
        why = (
            f"{source} can be another disk after the next boot: the kernel numbers disks as it "
            "finds them"
        )
        if match["md"]:
            why = (
                f"{source} can be another array after the next boot: mdadm counts down from 127 "
                "without mdadm.conf"
            )
        yield Remark(
            number,
            RemarkLevel.WARNING,
            "kernel-name",
            why,
            f"name it by UUID: blkid -s UUID {source}",
        )
    elif options.fstype in _MADE and fields.target != b"/" and _A_DISK.fullmatch(fields.source):
        why = (
            f"{options.fstype} is on no disk, yet a boot waits for {source}, and mounts it only if "
            "that is there"
        )
        yield Remark(
            number,
            RemarkLevel.WARNING,
            "needless-disk",
            why,
            f"write {options.fstype} as the first field",
        )


def _passno_remark(number: int, fields: Fields, options: _Options) -> Remark:
    what = "a bind mount" if options.is_bind else options.fstype
    why = (
        f"the sixth field is {fields.passno}, but there is no fsck of {what}: some systems wait or "
        "complain"
    )
    return Remark(number, RemarkLevel.WARNING, "passno", why, "write 0")


def _duplicate_remark(document: FstabText, line: FstabLine) -> Remark:
    same = document.index[line.target]
    places = others_of(line, same)
    active = [
        other
        for other in same[:99]
        if b"noauto" not in (other.libmount or other.getmntent or _NOTHING).options
    ]
    if len(active) < 2:
        why = (
            f"{line.target} is in line {places} too; `mount {quote(line.target)}` takes the first "
            "of them"
        )
        return Remark(line.number, RemarkLevel.NOTE, "duplicate", why, "nothing, if that is meant")
    if len({(other.libmount or other.getmntent or _NOTHING).source for other in active}) == 1:
        # mount(8) skips what is mounted at that place (mnt_context_is_fs_mounted() of libmount).
        why = (
            f"{line.target} is in line {places} too, of the same source: only the first line counts"
        )
        return Remark(
            line.number, RemarkLevel.WARNING, "duplicate", why, "leave one line for each target"
        )
    why = (
        f"{line.target} is in line {places} too: systemd mounts the first, `mount -a` may mount "
        "them all"
    )
    return Remark(
        line.number, RemarkLevel.ERROR, "duplicate", why, "leave one line for each target"
    )


def _order_remarks(document: FstabText, line: FstabLine) -> tuple[Remark, ...]:
    above = line.target.rpartition("/")[0]
    while above:
        lines = document.index.get(above)
        if lines and lines[-1].number > line.number:
            why = (
                f"{above} is mounted by a later line (line {lines[-1].number}): `mount -a` then "
                f"hides {line.target}"
            )
            return (
                Remark(
                    line.number, RemarkLevel.WARNING, "order", why, "move this line below that one"
                ),
            )
        above = above.rpartition("/")[0]
    return ()


def _boot_remarks(number: int, fields: Fields, target: str, options: _Options) -> Iterator[Remark]:
    """What a boot does where the mount fails."""
    source = decode(fields.source)
    fstype = name_effective_type(options.fstype, source)
    if needs_network(fstype) or is_network(fstype, source) or "_netdev" in options.words:
        yield from _network_remarks(number, fstype, target, options)
    elif not options.is_required:
        return
    elif (
        target.startswith(_REMOVABLE) and _is_disk(fields, options)
    ) or b"/by-id/usb-" in fields.source:
        why = "a removable disk without nofail: a boot without it ends in the emergency shell"
        yield Remark(number, RemarkLevel.WARNING, "no-nofail", why, "add nofail")
    elif fstype.startswith("fuse") and not _is_disk(fields, options):
        program = fstype.partition(".")[2] or "its program"
        why = f"without nofail a boot on which {program} fails ends in the emergency shell"
        yield Remark(
            number,
            RemarkLevel.NOTE,
            "no-nofail",
            why,
            "add nofail, if the host is of use without it",
        )
    elif _is_disk(fields, options):
        why = "without nofail a boot that does not find this disk ends in the emergency shell"
        yield Remark(
            number,
            RemarkLevel.NOTE,
            "no-nofail",
            why,
            "add nofail, if the host is of use without it",
        )


def _is_disk(fields: Fields, options: _Options) -> bool:
    _, mark, source = fields.source.partition(b"#")
    is_device = (source if mark and options.fstype == "fuse" else fields.source).startswith(
        _DEVICES
    )
    return options.is_on_disk or (
        is_device and (options.fstype.startswith("fuse") or not is_known(options.fstype))
    )


def _network_remarks(number: int, fstype: str, target: str, options: _Options) -> Iterator[Remark]:
    """Systemd knows only some types of the network: others it mounts with the disks, before there
    is a network.
    """
    words = frozenset(options.words)
    if fstype == "drvfs" or "delay_connect" in words:
        return  # WSL mounts it, or it connects when it is looked at
    if is_remote_to_systemd(options.fstype, words):
        if options.is_required:
            why = "without nofail a boot waits for its server, 90 seconds or more"
            todo = (
                "add nofail" if target in _TOUCHED_EARLY else "add nofail, or x-systemd.automount"
            )
            yield Remark(number, RemarkLevel.NOTE, "no-nofail", why, todo)
        if fstype.removeprefix("fuse.") in LATELY_REMOTE and "_netdev" not in words:
            why = (
                f"systemd before 252 may take {fstype} for a disk and mount it before there is a "
                "network"
            )
            yield Remark(number, RemarkLevel.NOTE, "late-netdev", why, "add _netdev")
    elif options.is_required and fstype in OF_HYPERVISORS:
        why = (
            f"systemd counts {fstype} among the disks: a boot that does not get it ends in the "
            "emergency shell"
        )
        yield Remark(
            number,
            RemarkLevel.WARNING,
            "no-netdev",
            why,
            "add nofail; and _netdev, where a network serves it",
        )
    elif options.is_required:
        why = (
            f"systemd takes {fstype} for a disk and mounts it before there is a network: when that "
            "fails, the boot"
        )
        yield Remark(
            number,
            RemarkLevel.ERROR,
            "no-netdev",
            f"{why} ends in the emergency shell",
            "add _netdev",
        )
    elif words.isdisjoint(("noauto", "x-systemd.automount")) and fstype not in OF_HYPERVISORS:
        why = (
            f"systemd takes {fstype} for a disk and mounts it before there is a network: a boot "
            "may go on without it"
        )
        yield Remark(number, RemarkLevel.NOTE, "no-netdev", why, "add _netdev")
