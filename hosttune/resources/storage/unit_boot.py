"""What the next boot makes of unit files that mount or swap: as `fstab_boot.py` of the lines of
fstab.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.storage.fstab_lines import parse
from hosttune.facts.storage.fstab_options import encode
from hosttune.facts.storage.sources import sources_of
from hosttune.host.known.unit_folders import ADMIN
from hosttune.quoting import quote
from hosttune.resources.storage.fstab_boot import (
    HARMLESS,
    MAY_FAIL,
    BootLine,
    BootNeed,
    look_at_source,
    look_at_swap,
    mounted_targets,
    next_kernel,
)
from hosttune.resources.storage.fstab_lint import LineErrors
from hosttune.values import join_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.facts.storage.mount_units import MountUnit
    from hosttune.resources.storage.fstab_remark import ShownRemark

# Words that only the generator of fstab understands; mount(8) passes over them.
_OF_FSTAB = frozenset(
    {"auto", "noauto", "nofail", "fail", "x-systemd.automount", "comment=systemd.automount"}
)
# A blank in a value would be a separator in a line of fstab, and a # at its beginning a comment.
_BLANKS = str.maketrans({"\\": r"\134", " ": r"\040", "\t": r"\011", "\n": r"\012", "#": r"\043"})


def look_at_units(facts: Facts) -> Iterator[BootLine]:
    """What a boot starts of them, and what is mounted now and no boot would mount. Raises
    UnknownFact.
    """
    lines = {one.path: one for one in facts.fstab.at_boot}
    swaps = {one.source for one in facts.fstab.entries if one.is_swap}
    mounted = mounted_targets(facts) if facts.mount_units.all else frozenset()
    for unit in facts.mount_units.all:
        entry = unit.entry
        is_mounted = bool({entry.target, entry.path} & mounted)
        # A condition may leave the unit out of each boot, so nothing about it is certain.
        if unit.is_conditional or (entry.is_swap and (unit.is_masked or entry.source in swaps)):
            continue
        if unit.is_masked:
            if line := lines.get(entry.path):
                yield _explain_mask(unit, line, is_mounted=is_mounted)
        elif unit.is_started and entry.is_swap:
            yield from look_at_swap(facts, sources_of(facts), entry)
        elif unit.is_started:
            yield _look_at_mount(facts, unit, is_mounted=is_mounted)
        elif is_mounted and unit.can_be_enabled and not unit.is_automounted and not entry.is_swap:
            note = (
                f"{entry.file} mounts it, and no unit of a boot wants {unit.name}: the next boot "
                "mounts nothing there"
            )
            todo = f"sudo systemctl enable {quote(unit.name)}, if a boot is to mount it"
            yield BootLine(
                entry.target, entry.line, way_out=todo, is_mounted=True, note=note, file=entry.file
            )


def _explain_mask(unit: MountUnit, line: FstabEntry, *, is_mounted: bool) -> BootLine:
    """A mask is a decision; what is mounted in spite of it is lost with the next boot."""
    note = (
        f"{line.where} does not count: {unit.name} is masked ({unit.entry.file}), and the next "
        "boot does not mount it"
    )
    todo = (
        "an administrator's decision: if it stays, write noauto into the line, so that both say "
        "the same"
    )
    remark = BootLine(line.target, line.line, is_mounted=is_mounted)
    return replace(remark, note=note, way_out=todo) if is_mounted else remark


def _look_at_mount(facts: Facts, unit: MountUnit, *, is_mounted: bool) -> BootLine:
    entry = unit.entry
    let = "\nor add nofail to its Options=, with which a boot goes on without it"
    need = BootNeed(unit.is_required, unit.is_awaited, unit.needed_by, let)
    remark = None if unit.refusal else find_error(unit, next_kernel(facts))
    place = BootLine(
        entry.target, entry.line, is_mounted=is_mounted, file=entry.file,
        is_absent=not is_mounted and not facts.reader.persistent_only,
    )  # fmt: skip
    if remark:
        sentence, todo = f"{entry.where}: {remark.message}", str(remark.todo)
    elif unit.refusal:
        sentence = (
            f"{entry.file} {unit.refusal}: systemd does not load it, and the next boot mounts "
            "nothing there"
        )
        todo = way_out_of_refusal(unit)
    else:
        return look_at_source(facts, sources_of(facts), entry, need)
    # A unit that is not loaded is left out, whatever requires it; tried with systemd 252.
    is_fault = is_mounted or (need.is_required and not unit.refusal)
    return replace(
        place, way_out=todo, fault=sentence if is_fault else "", note="" if is_fault else sentence
    )


def way_out_of_refusal(unit: MountUnit) -> str:
    folder, _, name = unit.entry.file.rpartition("/")
    # a package's file is not renamed
    if not unit.meant_name or folder != ADMIN or name != unit.name:
        look = f"see whether it is loaded: sudo systemctl status {quote(unit.name)}"
        return join_steps(
            (
                f"correct {quote(unit.entry.file)}",
                "have it read: sudo systemctl daemon-reload",
                look,
            )
        )
    return join_steps(
        (
            f"remove its links: sudo systemctl disable {quote(unit.name)}"
            if unit.can_be_enabled
            else "",
            (
                f"name the file by what it mounts: sudo mv -n {quote(unit.entry.file)} "
                f"{quote(f'{ADMIN}/{unit.meant_name}')}"
            ),
            "have it read: sudo systemctl daemon-reload",
            f"let each boot start it: sudo systemctl enable {quote(unit.meant_name)}"
            if unit.can_be_enabled
            else "",
        )
    )


def find_error(unit: MountUnit, kernel: tuple[int, ...]) -> ShownRemark | None:
    """What is wrong with its text, as if it were a line of fstab."""
    entry = unit.entry
    # Whether a boot needs the mount is known from the links of the unit. `nofail` puts the same
    # into the words that the linter reads.
    words = [one for one in entry.options if one not in _OF_FSTAB] + ["nofail"] * (
        not unit.is_required
    )
    fields = (entry.source, entry.target, entry.fstype, ",".join(words) or "defaults")
    text = " ".join(one.translate(_BLANKS) for one in fields)
    document = parse(encode(f"{text} 0 0\n"), entry.file)
    errors = LineErrors(document)
    found = next((errors.failure(line, kernel) for line in document.lines), None)
    return found if found and found.code not in HARMLESS | MAY_FAIL else None
