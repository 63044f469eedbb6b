"""What in an fstab makes the next boot of this host fail, or leaves out what is mounted now.

The one list whose findings are faults, keep hosttune from every reboot, and keep it from editing such a line. It knows
the text of the file and the kernel of the next boot; what other sources tell joins it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.storage.fstab_lines import PATH, LineKind, clean_path
from hosttune.facts.storage.fstab_options import decode
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.storage.fstab import document_of
from hosttune.resources.storage.fstab_lint import LineErrors, RemarkLevel, is_failing, lint
from hosttune.resources.storage.fstab_lint_options import is_required, option_remarks, refused_by
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab_lines import FstabText
    from hosttune.facts.storage.fstab_readers import Fields
    from hosttune.resources.storage.fstab_lint import Remark

_NUMBER = regex(r"\d{1,4}")
_RELEASE = regex(r"(\d{1,4})\.(\d{1,4})")
_ON_DEMAND = frozenset({"noauto", "x-systemd.automount", "comment=systemd.automount"})
# Errors with which a boot goes on, and mounts what it mounted before.
_HARMLESS = frozenset({"duplicate", "relative-target"})
# What fails on some boots: a line by which something is mounted now has shown that it need not.
_MAY_FAIL = frozenset({"no-netdev"})


@frozen
class BootLine(Fact):
    """A line of fstab that the next boot mounts, or should."""

    target: str  # the folder; `line 3` of one without
    line: int  # from 1
    fault: str = ""  # what is wrong with it, a sentence with what comes of it; empty for nothing
    way_out: str = ""
    is_mounted: bool = False  # something is mounted there now, so a boot loses it


def next_kernel(facts: Facts) -> tuple[int, ...]:
    """(major, minor) of the kernel of the next boot; empty where that is not known."""
    try:
        release = facts.boot.next_kernel or facts.kernel.release
    except UnknownFact:
        return ()
    match = _RELEASE.match(release)
    return tuple(map(int, match.groups())) if match else ()


def look_at_boot_lines(facts: Facts) -> tuple[BootLine, ...]:
    """All of them, in the order of the file. Raises UnknownFact where fstab cannot be read."""
    document = document_of(facts.reader)
    if document is ABSENT:
        return ()
    if isinstance(document, Unreadable):
        raise UnknownFact(f"{PATH}: {document.reason}")
    mounted = frozenset() if facts.reader.persistent_only else frozenset(facts.mounts.at)
    return tuple(_lines(facts, document, mounted))


def _lines(facts: Facts, document: FstabText, mounted: frozenset[str]) -> Iterator[BootLine]:
    errors, kernel, has_libmount = LineErrors(document), next_kernel(facts), _reads_with_libmount(facts)
    told: dict[int, Remark] = {}
    for one in lint(document):
        if one.line and is_failing(one) and one.code not in _HARMLESS:
            told.setdefault(one.line, one)
    paths = {entry.line: entry.path for entry in facts.fstab.entries}
    for line in document.lines:
        fields = line.libmount or line.getmntent
        if line.kind is LineKind.BLANK or fields is None or fields.fstype == b"swap":
            continue
        reading = line.libmount if has_libmount else line.getmntent
        if _ON_DEMAND.intersection(_words(fields)):
            continue
        target = line.target or f"line {line.number}"
        remark = told.get(line.number) or errors.failure(line, kernel)
        is_mounted = bool({line.target, paths.get(line.number, "")} & mounted)
        if line.kind is LineKind.BROKEN:
            fails = remark is not None and _is_misread(reading, kernel, mounted if is_mounted else None)
        elif is_mounted:
            fails = remark is not None and remark.code not in _MAY_FAIL
        else:
            fails = remark is not None and remark.level is RemarkLevel.ERROR and _is_needed(fields)
        if remark is None or not fails or remark.code in _HARMLESS:
            yield BootLine(target, line.number, is_mounted=is_mounted)
        else:
            fault = f"line {line.number} of {PATH}: {remark.message}"
            yield BootLine(target, line.number, fault, remark.todo, is_mounted)


def _is_misread(reading: Fields | None, kernel: tuple[int, ...], mounted: frozenset[str] | None) -> bool:
    """Whether the boot makes something else of a line that its readers do not agree on than what is mounted there now;
    `mounted`: None where nothing is, so that only a boot that stops there counts.
    """
    if mounted is None or reading is None:
        is_mount = reading is not None and reading.target.startswith(b"/")  # systemd skips all others
        return mounted is not None or (is_mount and reading is not None and _is_needed(reading))
    words, fstype, is_root = _words(reading), decode(reading.fstype), reading.target == b"/"
    is_refused = any(map(is_failing, option_remarks(fstype, words, is_root=is_root)))
    is_refused = is_refused or bool(kernel and refused_by(fstype, words, kernel, is_root=is_root))
    return is_refused or clean_path(decode(reading.target)) not in mounted


def _is_needed(fields: Fields) -> bool:
    return is_required(_words(fields), decode(fields.fstype))


def _words(fields: Fields) -> tuple[str, ...]:
    return tuple(decode(fields.options).split(","))


def _reads_with_libmount(facts: Facts) -> bool:
    """How systemd reads fstab at a boot: from 259 on as mount(8) does, before with getmntent(3). The stricter way where
    its version is not known.
    """
    try:
        match = _NUMBER.match(facts.packages["systemd"].version)
    except UnknownFact:
        return True
    return match is None or int(match[0]) >= 259


__all__ = ["BootLine", "look_at_boot_lines", "next_kernel"]
