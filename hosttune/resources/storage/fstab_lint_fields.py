"""What is wrong with the source, the target and the type of an fstab line, by themselves and
together. Pure.

What a person types wrong here no program says before the boot: systemd waits for a device that can
never come, or the kernel has no such type, and either ends in the emergency shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from hosttune.facts.storage.fstab_types import (
    GONE_TYPES,
    KNOWN,
    MOVES,
    NO_TYPE,
    ON_DISK,
    PROPAGATION,
    is_known,
)
from hosttune.facts.storage.fstab_typing import ESCAPED, blank_in_name, find_typographic
from hosttune.facts.storage.fstab_words import GENERIC
from hosttune.facts.storage.mounts import LOCAL_TYPES
from hosttune.regex import regex
from hosttune.resources.storage.fstab_lint_names import FieldFault, source_name_faults

_LONG = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHORT = r"[0-9A-F]{4}-[0-9A-F]{4}"
_NTFS = r"[0-9A-F]{16}"
_DISC = r"[0-9]{4}(?:-[0-9]{2}){6}"
_SHAPES = {  # the UUIDs that blkid(8) shows of a type
    **dict.fromkeys(
        LOCAL_TYPES | {"swap", "nilfs2", "reiserfs", "ocfs2", "hfsplus"},
        (_LONG, "8-4-4-4-12 digits"),
    ),
    **dict.fromkeys(("vfat", "msdos", "exfat"), (_SHORT, "XXXX-XXXX")),
    **dict.fromkeys(("ntfs", "ntfs3", "ntfs-3g", "lowntfs-3g"), (_NTFS, "16 digits")),
}
_ANY_UUID = (
    f"{_LONG}|{_SHORT}|{_NTFS}|[0-9a-f]{{16}}|{_DISC}",
    "8-4-4-4-12 digits, or XXXX-XXXX of a FAT",
)
_PARTUUID = (f"{_LONG}|[0-9a-f]{{8}}-[0-9a-f]{{2,}}", "8-4-4-4-12 digits, or 8-2 of an MBR")
_TAG = regex(r'(UUID|PARTUUID)="?([^"]*)"?|/dev/disk/by-(uuid|partuuid)/(.+)')
_NOT_TAG = regex(r"(UUID|LABEL|PARTUUID|PARTLABEL)[:;,._ -]+=?(.+)", re.IGNORECASE | re.DOTALL)
_DEVICE = regex(
    r"(?:[shv]d[a-z]+|xvd[a-z]+|ubd[a-z]+)[0-9]*|nvme[0-9]+n[0-9]+(?:p[0-9]+)?|(?:mmcblk|nbd"
    r"|pmem)[0-9]+(?:p[0-9]+)?"
)
_MISTYPED = regex(r"(?:[shv]d[0-9a-z]|xvd[a-z]|nvme|mmcblk)[0-9A-Za-z]*", re.IGNORECASE)
# cc_mounts (MicrosoftDocs/azure-docs#77391)
_OF_CLOUD_INIT = regex(r"ephemeral[0-9]{1,3}(?:\.[0-9]{1,3})?")
_LOOKALIKE = str.maketrans("OoQlI", "00011")
# types that are words of options as well
_ALSO_OPTIONS = frozenset({"auto", "none", "swap", "bind"})
_USUAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "ntfs", "nfs", "nfs4", "cifs", "tmpfs", "swap"}
)


def field_faults(
    source: str, target: str, fstype: str, options: str, words: tuple[str, ...]
) -> Iterator[FieldFault]:
    """The faults of an entry whose fields are decoded; `words` are the items of its options."""
    shifted = next(_find_shifted(source, target, fstype, options), None)
    if shifted:
        yield shifted
    if shifted or (not target.startswith("/") and not is_known(fstype)):
        return  # no line of an fstab at all: more remarks would not help
    yield from type_faults(fstype, options, words)
    yield from _typed_faults(source, target)
    if MOVES.isdisjoint(words) and fstype not in NO_TYPE:
        fault = (
            next(source_name_faults(source), None) if fstype in ON_DISK | {"auto", "swap"} else None
        )
        if fstype in ON_DISK and source in ("/", target) and target != "/" and not _has_loop(words):
            todo = "name the device; or, to mount a folder, write `none bind`"
            fault = FieldFault(
                "source-is-folder", f"`{source}` is a folder, and {fstype} needs a device", todo
            )
        yield from (fault,) if fault else _source_faults(source, fstype)


def _has_loop(words: tuple[str, ...]) -> bool:
    return any(word.partition("=")[0] == "loop" for word in words)


def _find_shifted(source: str, target: str, fstype: str, options: str) -> Iterator[FieldFault]:
    """Fields that stand where others belong."""
    cut = blank_in_name((source, target, fstype, options))
    if "#" in source[1:] and not is_known(fstype):
        yield FieldFault(
            "late-comment",
            f"a # after `{source.partition('#')[0]}` begins no comment: this is read as a line",
            "put the # in front of the line",
        )
    elif cut:
        yield FieldFault(
            "blank-in-name",
            f"the blank in `{cut.replace(ESCAPED, ' ')}` cuts it in two",
            f"write it as {cut}",
        )
    elif fstype.startswith("/") and source.startswith(("/dev/", "UUID=", "LABEL=", "PART", "//")):
        yield FieldFault("shifted", f"`{fstype}` is a path, and is where the type belongs",
                    "write the fields as: SOURCE TARGET TYPE OPTIONS 0 0")  # fmt: skip
    elif (
        source.startswith("/")
        and not source.startswith("/dev/")
        and _is_device(target)
        and fstype in ON_DISK
    ):
        yield FieldFault("swapped", f"`{target}` is a device, and is where the folder belongs",
                    f"write {target} first, then {source}")  # fmt: skip
    elif (
        target.startswith("/")
        and not is_known(fstype)
        and _is_option(fstype)
        and not _is_list(fstype)
    ):
        if is_known(options):
            yield FieldFault("swapped", f"type and options are swapped: `{fstype}` is no type",
                        f"write `{options} {fstype}`")  # fmt: skip
        else:
            words = fstype.split(",")
            inside = next(
                (word for word in words if is_known(word) and word not in _ALSO_OPTIONS), ""
            )
            rest = ",".join(word for word in words if word != inside)
            meant = inside or ("cifs" if source.startswith("//") else "")
            yield FieldFault(
                "shifted",
                f"`{fstype}` is an option, and is where the type belongs",
                f"write `{meant} {rest}`" if meant else "write the type in front of it",
            )
    elif target.startswith("/") and fstype.isdigit():
        yield FieldFault(
            "shifted",
            f"`{fstype}` is where the type belongs",
            "write type and options in front of it",
        )


def _is_option(word: str) -> bool:
    first = word.partition(",")[0]
    return first in GENERIC - MOVES or "=" in first[1:]


def _is_device(text: str) -> bool:
    return text.startswith("/dev/") or bool(re.match(r"(?:PART)?(?:UUID|LABEL)=", text))


def type_faults(fstype: str, options: str, words: tuple[str, ...]) -> Iterator[FieldFault]:
    """What is wrong with the type, by itself and with its options."""
    if options.isdigit() and fstype not in ("swap", *NO_TYPE):
        yield FieldFault(
            "no-options",
            f"`{options}` is where the options belong, and {fstype} has no such option",
            f"write `defaults` in front of it: {fstype} defaults {options}",
        )
    if fstype in NO_TYPE and not (MOVES | PROPAGATION).intersection(words):
        need = "bind" if fstype in ("none", "move") else fstype
        yield FieldFault(
            "no-bind",
            f"`{fstype}` is no file system, and without the option `{need}` no bind mount",
            f"write `none {need}`, or the type of the file system",
        )
        return
    if MOVES.isdisjoint(words) and not _is_list(fstype):
        for one in filter(None, fstype.split(",")):  # of `ext4,` libmount tries ext4
            yield from _one_type(one)


def _is_list(fstype: str) -> bool:
    """Whether mount(8) can mount by a list, which it tries in turn: words that are no types do not
    stop it. `auto` is an option as well, so it makes no list (raspibolt/raspibolt#434).
    """
    return "," in fstype and not ON_DISK.isdisjoint(fstype.split(","))


def _one_type(fstype: str) -> Iterator[FieldFault]:
    if fstype in GONE_TYPES:
        since, instead = GONE_TYPES[fstype]
        todo = f"write {instead}" if instead else "take the line out"
        yield FieldFault("unknown-type", f"Linux {since} and later have no type `{fstype}`", todo)
        return
    if is_known(fstype) or fstype in NO_TYPE:
        return
    small = fstype.lower()
    odd, plain = find_typographic(fstype)
    if odd:
        yield FieldFault("typography", f"{odd} in the type", f"write {plain}")
    elif small in KNOWN:
        yield FieldFault(
            "unknown-type", f"types are case-sensitive, and `{fstype}` is none", f"write {small}"
        )
    else:
        meant = _guess_type(small)
        why = f"neither Linux nor a mount helper known here has a type `{fstype}`"
        transposed = sorted(meant) == sorted(small)
        todo = (
            f"is {meant} meant?"
            if meant
            else f"look for it: /sbin/mount.{fstype}, /proc/filesystems"
        )
        yield FieldFault("unknown-type", why, todo, is_sure=bool(meant) and transposed)


@lru_cache(maxsize=1 << 14)
def _guess_type(fstype: str) -> str:
    same = next((one for one in sorted(_USUAL) if sorted(one) == sorted(fstype)), "")
    if same:
        return same
    from difflib import get_close_matches

    return next(iter(get_close_matches(fstype, sorted(_USUAL | LOCAL_TYPES), 1, 0.74)), "")


def _typed_faults(source: str, target: str) -> Iterator[FieldFault]:
    """Names may hold any character, numbers and what is around them may not."""
    for what, text in (("source", source), ("target", target)):
        odd, plain = find_typographic(text)
        is_name = text.startswith("/") and not text.startswith("/dev/")
        is_label = text.startswith(("LABEL=", "PARTLABEL=")) and plain.partition("=")[2][
            :1
        ] not in ("'", '"')
        if odd and not is_name and not is_label:
            yield FieldFault(
                "typography", f"{odd} in the {what} is no plain dash or quote", f"write {plain}"
            )


def _source_faults(source: str, fstype: str) -> Iterator[FieldFault]:
    if find_typographic(source)[0]:
        return
    mark = _NOT_TAG.fullmatch(source)
    if mark and fstype in ON_DISK | {"auto", "swap"}:
        yield FieldFault(
            "no-tag",
            f"`{source}` is no tag: an = belongs between {mark[1]} and its value",
            f"write {mark[1].upper()}={mark[2]}",
        )
        return
    tag = _TAG.fullmatch(source)
    if re.fullmatch(r"(?:PART)?(?:UUID|LABEL)=(?:\"\")?", source):
        key = source.partition("=")[0]
        todo = f"write it behind the =: lsblk -o NAME,FSTYPE,{key}"
        yield FieldFault("no-tag", f"`{source}` names nothing", todo)
    elif tag and fstype in ON_DISK | {"auto", "swap"}:
        yield from _uuid_faults(tag, fstype)
    elif source.startswith("/dev/"):
        yield from _device_faults(source)
    elif fstype in (ON_DISK - {"fuseblk"}) | {"auto", "swap"} and (
        fault := find_relative_fault(source, fstype)
    ):
        yield fault
    elif fstype in ("nfs", "nfs4") and ":" not in source:
        yield FieldFault(
            "no-server",
            f"`{source}` is no source of {fstype}: a colon parts server and folder",
            "write SERVER:/FOLDER",
        )
    elif fstype in ("cifs", "smb3", "smbfs") and not source.startswith(("//", "\\\\")):
        yield FieldFault(
            "no-server", f"`{source}` is no source of {fstype}", "write //SERVER/SHARE"
        )


def _uuid_faults(tag: re.Match[str], fstype: str) -> Iterator[FieldFault]:
    kind, value = (tag[1] or tag[3]).upper(), tag[2] if tag[1] else tag[4]
    shape, words = _PARTUUID if kind == "PARTUUID" else _SHAPES.get(fstype, _ANY_UUID)
    if re.fullmatch(shape, value):
        return
    if re.fullmatch(shape, value.lower()) or re.fullmatch(shape, value.upper()):
        right = value.lower() if re.fullmatch(shape, value.lower()) else value.upper()
        case, other = ("lower", "upper") if right == value.lower() else ("upper", "lower")
        yield FieldFault(
            "uuid-case",
            f"udev names this {kind} in {case} case, and {other} case does not match",
            f"write {tag[0].replace(value, right)}",
        )
        return
    what = "a partition" if kind == "PARTUUID" else fstype if fstype in _SHAPES else "a file system"
    is_meant = (
        re.fullmatch(r"[0-9A-Fa-f=-]+", value.translate(_LOOKALIKE)) is not None
    )  # else a template is to be filled
    yield FieldFault("uuid-shape", f"`{value}` is no {kind} of {what}, which has {words}",
                f"look it up: lsblk -o NAME,FSTYPE,{kind}", is_sure=is_meant)  # fmt: skip


def _device_faults(source: str) -> Iterator[FieldFault]:
    name = source.removeprefix("/dev/")
    if "/" in name or _DEVICE.fullmatch(name) or not _MISTYPED.fullmatch(name):
        return
    meant = name.translate(_LOOKALIKE)
    for one in (
        meant,
        name.lower(),
        meant.lower(),
        re.sub(r"^([shv]d)([0-9]+)([a-z])$", r"\1\3\2", name),
    ):
        if one != name and _DEVICE.fullmatch(one):
            yield FieldFault(
                "no-device", f"no kernel names a disk {source}", f"is /dev/{one} meant?"
            )
            return
    if re.fullmatch(r"nvme[0-9]+(?:p[0-9]+)?", name):
        why = f"{source} is the controller, not a disk: its disks are called nvme0n1 and so on"
        yield FieldFault("no-device", why, "look it up: lsblk")


def find_relative_fault(source: str, fstype: str) -> FieldFault | None:
    """Why a source is neither a path nor a tag, so that no disk and no file is meant; None if it
    may be of its type.
    """
    if source.startswith("/") or "=" in source:
        return None
    bare = source.removeprefix("dev/")
    if _OF_CLOUD_INIT.fullmatch(source):
        what = (
            f"`{source}` names no disk: cloud-init could not tell which disk that is, and left its "
            "own name"
        )
        todo = (
            "name the disk in the cloud-config, with nofail,x-systemd.requires=cloud-init.service"
        )
        return FieldFault(
            "no-device", what, f"{todo} (of Azure: /dev/disk/cloud/azure_resource-part1 and so on)"
        )
    if _DEVICE.fullmatch(bare):
        return FieldFault(
            "no-device",
            f"`{source}` is no device: its path begins with /dev/",
            f"write /dev/{bare}",
        )
    if fstype != "auto" and (
        source in ("none", fstype) or re.fullmatch(r"[0-9A-Fa-f-]{9,36}", source)
    ):
        todo = (
            f"write UUID={source}"
            if "-" in source
            else "name it by UUID: lsblk -o NAME,FSTYPE,UUID"
        )
        return FieldFault("no-device", f"`{source}` names no disk", todo)
    if fstype == "swap" and re.fullmatch(r"[\w./-]+", source):  # else a template is to be filled
        todo = f"write the whole path (/{source}), or LABEL={source}"
        return FieldFault("no-device", f"`{source}` is no whole path, as systemd wants it", todo)
    return None
