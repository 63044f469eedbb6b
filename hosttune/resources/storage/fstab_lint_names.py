"""What is wrong with the names in an fstab line: quotes, escapes, `..`, folders that udev does not
make, BSD's. Pure.

Tried with the generator of systemd 252 and with mount(8) of util-linux 2.38.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hosttune.facts.storage.fstab_lines import clean_path
from hosttune.facts.storage.fstab_typing import ESCAPED
from hosttune.regex import regex
from hosttune.resources.storage.fstab_lint_words import find_nearest

_QUOTES = "'\""
_TAG = regex(r"([A-Za-z]+)=(.*)")
_QUOTED = regex(r"(['\"]).*\1")
# How systemd, udev, a shell and people write a blank; fstab(5) has \040 only.
_BLANK_ESCAPE = regex(r"\\(?:x20|040|40|s)(?![0-9])")
# What links below /dev/disk are made of: udev has `\x20` in their names, and LABEL= is encoded
# anew.
_HEX_ESCAPE = regex(r"\\(?:x[0-9a-fA-F]{2}|[0-7]{1,2}(?![0-7]))")
_BACKSLASH = regex(r"\\(?:x[0-9a-fA-F]{2}|[0-7]{1,2}|.)?")
# The folders of udev(7)'s 60-persistent-storage.rules. Sites have others (by-dname, by-partsets,
# cloud), which are not so near to one of these.
_UDEV_FOLDERS = (
    "by-id",
    "by-uuid",
    "by-label",
    "by-partuuid",
    "by-partlabel",
    "by-path",
    "by-diskseq",
)
_PATH = regex(r"/dev/(?:([^/]+)/)?([^/]+)/([^/]+)")
_BSD_TYPES = frozenset({"ufs", "ffs"})
_BSD_DISK = regex(
    r"/dev/(?:(?:ada|da|vtbd|nvd|nda|ad|mfid|vd|wd|sd)[0-9]+(?:[ps][0-9]+)?[a-p]?|"
    r"(?:gpt|ufs|ufsid|mirror|label|gptid|diskid)/.+)|[0-9a-f]{16}\.[a-p]"
)


class FieldFault(NamedTuple):
    """What is wrong, why, and the way out; whether it stops a mount, or only may."""

    code: str
    message: str
    todo: str
    is_sure: bool = True


def is_of_bsd(source: str, fstype: str) -> bool:
    """Whether a line is one of FreeBSD, OpenBSD or NetBSD, by its type and the name of its disk
    together.
    """
    return fstype in _BSD_TYPES and bool(_BSD_DISK.fullmatch(source))


def is_odd_target(target: bytes) -> bool:
    """Whether `target_faults` may find something in a target that is decoded; quick, for many
    lines.
    """
    return b"\\" in target or b"/.." in target


def target_faults(target: str) -> Iterator[FieldFault]:
    """What is wrong with a decoded target. systemd names no unit for a path with `..`
    (unit_name_from_path() of src/basic/unit-name.c), unless it can follow the path first; of
    escapes it decodes those of fstab(5) alone.
    """
    if ".." in target.split("/"):
        why = (
            f"a boot does not mount `{target}` if a folder before its `..` is not there: systemd "
            "makes no unit then"
        )
        yield FieldFault("target-dots", why, f"write {clean_path(target)}", is_sure=False)
    elif found := _BACKSLASH.search(target):
        plain = _BLANK_ESCAPE.sub(lambda _: ESCAPED, target)
        why = f"`{found[0]}` is no escape of fstab(5), so the folder has a backslash in its name"
        todo = (
            f"write {plain}, if a blank is meant" if plain != target else "write a blank as \\040"
        )
        yield FieldFault("target-escape", why, todo, is_sure=False)


def source_name_faults(source: str) -> Iterator[FieldFault]:
    """What is wrong with the decoded name of a device, so that none can have it."""
    yield from _quote_faults(source)
    yield from _folder_faults(source)
    if source.startswith(("LABEL=", "PARTLABEL=")) and _HEX_ESCAPE.search(source):
        plain = _BLANK_ESCAPE.sub(lambda _: ESCAPED, source)
        why = f"`{source}` is read with its backslash: only \\040 is a blank in fstab(5)"
        yield FieldFault("source-escape", why, f"write {plain}", is_sure=plain != source)


def _quote_faults(source: str) -> Iterator[FieldFault]:
    """Quotes are taken away where they stand around the whole value of a tag, and nowhere else
    (libblkid: blkid_parse_tag_string(); systemd: fstab_node_to_udev_node()). A label may have one
    inside.
    """
    tag = _TAG.fullmatch(source)
    name = tag[2] if tag else source
    is_open = (
        name[:1] in _QUOTES if tag and tag[1].endswith("LABEL") else bool({*_QUOTES} & {*name})
    )
    if not name or not is_open or (tag and _QUOTED.fullmatch(name)):
        return
    plain = "".join(one for one in name if one not in _QUOTES)
    why = f"no device has the quote in `{source}` in its name"
    yield FieldFault("quoted-source", why, f"write {tag[1]}={plain}" if tag else f"write {plain}")


def _folder_faults(source: str) -> Iterator[FieldFault]:
    """A path below a folder that is nearly one of udev's."""
    path = _PATH.fullmatch(source)
    if not path or (path[1] == "disk" and path[2] in _UDEV_FOLDERS):
        return
    is_below_disk = path[1] is None or path[1].startswith("dis")
    near = find_nearest(path[2].lower().replace("_", "-"), _UDEV_FOLDERS) if is_below_disk else ""
    if near:
        why = f"udev makes no folder {source.rpartition('/')[0]}"
        yield FieldFault("no-such-folder", why, f"is /dev/disk/{near}/{path[3]} meant?")
