"""What lines of fstab need of others: the disk below a folder, and the branches of a union. Pure.

Sources: systemd.mount(5) (implicit dependencies: RequiresMountsFor= on the folder above and on the
source of a bind or loop mount, on no other path), systemd, src/core/mount.c; mergerfs(1),
branches-mount-timeout; https://github.com/trapexit/mergerfs/issues/1300.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hosttune.facts.globs import fits_glob, glob_fault
from hosttune.facts.storage.fstab_lines import clean_path
from hosttune.facts.storage.fstab_options import decode, is_automount, is_on_demand
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.mounts import name_effective_type, target_of
from hosttune.facts.storage.unions import GLOB, branches_of, union_type
from hosttune.host.reading.mountinfo import folders_above
from hosttune.host.reading.paths import PATH_MAX
from hosttune.resources.storage.fstab_cycles import paths_needed
from hosttune.resources.storage.fstab_lint_options import is_required
from hosttune.resources.storage.fstab_remark import Remark, RemarkLevel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts.storage.fstab_lines import FstabLine, FstabText

_REQUIRED_PATHS = ("x-systemd.requires-mounts-for=", "x-systemd.wants-mounts-for=")
_REQUIRED_UNITS = (
    "x-systemd.requires=",
    "x-systemd.after=",
    "x-systemd.wants=",
    "x-systemd.bindsto=",
)
# without which a mount fails (systemd.unit(5))
_FATAL_UNITS = ("x-systemd.requires=", "x-systemd.bindsto=")
_REQUIRES = "requires"
_WAITS = ("branches-mount-timeout=",)  # mergerfs itself, from 2.35 on
_MOST_NAMED = 3
_MOST_GLOBS = 32  # of a file: each is held against all targets


class Need(NamedTuple):
    """A line that a boot cannot do without, and the one that it is on, without which a boot goes
    on.
    """

    line: FstabLine
    on: FstabLine
    relation: str = "is on"  # of the one to the other, as a verb


def need_remarks(document: FstabText) -> Iterator[Remark]:
    """What is wrong with the order and the nofail of lines that are on others."""
    last = None
    for line, on, relation in find_needs(document):
        if line is last:
            continue
        last = line
        why = (
            f"without nofail, and {relation.removeprefix('is ')} {on.target} (line {on.number}), "
            "which a boot may go on without: where that disk is missing, the boot ends in the "
            "emergency shell all the same"
        )
        yield Remark(
            line.number, RemarkLevel.WARNING, "needs-nofail", why, "add nofail here as well"
        )
    yield from _union_remarks(document)


def find_needs(document: FstabText) -> Iterator[Need]:
    """All such pairs, in the order of the lines."""
    for line in document.entries:
        words, fstype = _list_words(line), _decode_type(line)
        if (
            not line.target.startswith("/")
            or line.target == "/"
            or fstype == "swap"
            or _is_remote(line, words)
        ):
            continue
        if not is_required(words, fstype):
            continue
        relations = dict.fromkeys(paths_needed(line), "is on")
        if line.fields and (b"x-systemd." in line.fields.options or b"lay" in line.fields.fstype):
            relations |= dict(_find_more(line, words))
        for path, relation in relations.items():
            on = _find_line(document, path, line)
            # x-systemd.requires= names one mount, and not the one that its folder is on.
            if on and _can_be_missing(on) and (relation != _REQUIRES or on.target == path):
                yield Need(line, on, relation)


def _find_more(line: FstabLine, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Other paths without whose mounts the mount of a line fails, each with how it needs them."""
    for word in words:
        if word.startswith(_FATAL_UNITS):
            value = word.partition("=")[2]
            yield _path_of(value), _REQUIRES
    fstype, source = _decode_type(line), decode(line.fields.source) if line.fields else ""
    # fails by a folder that is not there; mergerfs and its like go on without
    if "lay" in union_type(fstype, source):
        for path in branches_of(fstype, source, words):
            # a mount point itself is a folder without the disk, too
            yield path.rpartition("/")[0], "has a branch on"


def _can_be_missing(line: FstabLine) -> bool:
    """Whether a boot goes on without a disk. What noauto leaves out is mounted for the sake of what
    is on it.
    """
    words, fstype = _list_words(line), _decode_type(line)
    if fstype in {"tmpfs", "none"} or _is_remote(line, words) or is_automount(words):
        return False
    return not is_required(words, fstype)


def _union_remarks(document: FstabText) -> Iterator[Remark]:
    globs = 0
    for line in document.entries:
        words = _list_words(line)
        fstype, source = _decode_type(line), decode(line.fields.source) if line.fields else ""
        if not union_type(fstype, source) or is_on_demand(words):
            continue
        if any(word.startswith(_WAITS) and word.strip("0")[-1:] != "=" for word in words):
            continue
        waited = find_waited(words)
        if waited is None:
            continue
        plain = [one for one in branches_of(fstype, source, words) if not GLOB.search(one)]
        patterns = [
            one
            for one in branches_of(fstype, source, words)
            if GLOB.search(one) and not glob_fault(one)
        ]
        patterns = patterns[: max(0, _MOST_GLOBS - globs)]
        globs += len(patterns)
        on = {
            one.number: one
            for path in plain
            if (one := _find_line(document, path, line)) and path != source
        }
        on |= {one.number: one for path in patterns for one in _find_matching(document, path, line)}
        late = [on[number] for number in sorted(on) if _is_late(on[number], waited)]
        if "_netdev" in words:  # after all disks, and in no order with other mounts of the network
            late = [one for one in late if _is_remote(one, _list_words(one))]
        if late:
            yield _union_remark(line, late, is_overlay="lay" in union_type(fstype, source))


def _union_remark(line: FstabLine, late: list[FstabLine], *, is_overlay: bool) -> Remark:
    named = ", ".join(f"{one.target} (line {one.number})" for one in late[:_MOST_NAMED])
    more = f" and {len(late) - _MOST_NAMED} more" if len(late) > _MOST_NAMED else ""
    end = (
        "the mount fails, or shows the folders below them"
        if is_overlay
        else "it shows the folders below them"
    )
    why = (
        f"systemd does not wait for its branches {named}{more}: where it comes first, {end}, and "
        "what is written goes to the disk below"
    )
    can_all = all(is_required(_list_words(one), _decode_type(one)) for one in late)
    word = "x-systemd.requires-mounts-for" if can_all else "x-systemd.after"
    todo = (
        "add "
        + ",".join(f"{word}={one.target}" for one in late[:_MOST_NAMED])
        + (", and so on" if more else "")
    )
    if any(_is_remote(one, _list_words(one)) for one in late) and not _is_remote(
        line, _list_words(line)
    ):
        # Else systemd counts it among the disks, which the network comes after (ordering cycle).
        todo = todo.replace("add ", "add _netdev,", 1)
    return Remark(line.number, RemarkLevel.WARNING, "union-order", why, todo)


def find_waited(words: Iterable[str]) -> frozenset[str] | None:
    """The folders whose mounts a line waits for by its options; None where it waits for another
    unit, which may be after all of them.
    """
    found: set[str] = set()
    for word in words:
        key, equals, value = word.partition("=")
        if f"{key}{equals}" in _REQUIRED_PATHS:
            found.update(
                (
                    clean_path(value),
                    *(folders_above(clean_path(value)) if len(value) < PATH_MAX else ()),
                )
            )
        elif f"{key}{equals}" in _REQUIRED_UNITS:
            if not value.startswith("/") and not value.endswith(".mount"):
                return None
            found.add(_path_of(value))
    return frozenset(found)


def _path_of(value: str) -> str:
    """The folder of a path or of the name of a mount unit; empty for another unit."""
    if value.startswith("/"):
        return clean_path(value)
    return target_of(value.replace("\\\\", "\\")) if value.endswith(".mount") else ""


def _is_late(line: FstabLine, waited: frozenset[str]) -> bool:
    return line.target not in waited and not is_on_demand(_list_words(line)) and line.target != "/"


def _find_line(document: FstabText, path: str, of: FstabLine) -> FstabLine | None:
    """The line that a path is on; None for what is on /."""
    above = path if len(path) < PATH_MAX else ""
    while above:
        for one in document.index.get(above, ())[:1]:
            if one.number != of.number and one.fields is not None:
                return one
        above = above.rpartition("/")[0]
    return None


def _find_matching(document: FstabText, pattern: str, of: FstabLine) -> Iterator[FstabLine]:
    """The lines whose targets have a wildcard of the pattern, or what is below one:
    `/mnt/disk*`.
    """
    parts = pattern.split("/")
    first = next(count for count, part in enumerate(parts) if GLOB.search(part))
    begin = "/".join(parts[:first]) + "/"
    for target, lines in document.index.items():
        if not target.startswith(begin) or target == of.target or lines[0].fields is None:
            continue
        names = target.split("/")
        pairs = zip(names[first:], parts[first:], strict=False)
        if len(names) <= len(parts) and all(fits_glob(name, part) for name, part in pairs):
            yield lines[0]


def _list_words(line: FstabLine) -> tuple[str, ...]:
    return tuple(decode(line.fields.options).split(",")) if line.fields else ()


def _decode_type(line: FstabLine) -> str:
    return decode(line.fields.fstype) if line.fields else ""


def _is_remote(line: FstabLine, words: tuple[str, ...]) -> bool:
    source = decode(line.fields.source) if line.fields else ""
    return is_remote_to_systemd(name_effective_type(_decode_type(line), source), frozenset(words))
