"""Whether other programs see in an edited fstab what was meant, and nothing else. Pure.

Each is compared before against after, never taken as an absolute: findmnt --verify also complains
about harmless lines, does not look at options at all, and the one of util-linux 2.41 crashes on a
line that it cannot parse (util-linux/util-linux#4130). A program that crashed or is missing gives
no answer, and then its proof is left out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hosttune.facts.storage.fstab_options import decode, size_bytes
from hosttune.facts.storage.mount_units import device_path
from hosttune.facts.storage.mounts import unit_name
from hosttune.host.reading.mountinfo import parse as parse_mounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.host.door import Completed, FstabReading, Rehearsal, Trial
    from hosttune.resources.storage.fstab_document import FstabLine, FstabText

_LARGEST_PAGE = 1 << 16  # the kernel rounds a size up to whole pages


def trials_of(document: FstabText, target: str) -> tuple[str, ...]:
    """The tmpfs options to mount for trial: those of the target's line, where it is one."""
    lines = [line for line in document.at(target) if line.fields and line.fields.fstype == b"tmpfs"]
    return tuple(line.options for line in lines if line.options)


def find_complaint(rehearsal: Rehearsal, before: FstabText, after: FstabText, target: str) -> str:
    """What speaks against the edit of the one line of `target`, with the program that found it;
    empty for nothing.
    """
    return (
        _verify(rehearsal.before, rehearsal.after, target)
        or _compare_generator(rehearsal.before, rehearsal.after, before, after, target)
        or next((problem for one in rehearsal.trials if (problem := _describe_trial(one))), "")
    )


def _verify(before: FstabReading, after: FstabReading, target: str) -> str:
    if not _has_answered(before.verify) or not _has_answered(after.verify):
        return ""
    new = _count_errors(after.verify, target) - _count_errors(before.verify, target)
    return f"findmnt --verify says: {next(iter(new))}" if new else ""


def _has_answered(done: Completed | None) -> bool:
    # A program that a signal ended has a negative status here, or one of 128 and more from a shell.
    return done is not None and 0 <= done.status < 128


def _count_errors(done: Completed | None, target: str) -> Counter[str]:
    """Its errors, with the target that each is below; lines have moved, so their numbers do not
    count.
    """
    found: Counter[str] = Counter()
    heading = ""
    for line in done.text.splitlines() if done else ():
        word = line.strip()
        if not line.startswith(" "):
            heading = word
        # whether the device and the folder of our own line are there is looked at where the line is
        # made
        elif word.startswith("[E]") and not (heading == target and "unreachable" in word):
            found[f"{heading}: {word[3:].strip()}"] += 1
    found["a line that it cannot parse"] = (
        sum("parse error at line" in line for line in done.errors.splitlines()) if done else 0
    )
    return found


def _compare_generator(
    before: FstabReading, after: FstabReading, old: FstabText, new: FstabText, target: str
) -> str:
    if not _has_answered(before.generator) or not _has_answered(after.generator):
        return ""
    complaints = Counter(_list_words(after.generator)) - Counter(_list_words(before.generator))
    if complaints:
        return f"systemd's fstab generator says: {next(iter(complaints))}"
    units, now = dict(before.units), dict(after.units)
    own = _own_names(old, target) | _own_names(new, target)
    if unit_name(target) not in {**units, **now}:
        own |= _behind_links({**units, **now}, (*old.at(target), *new.at(target)))
    other = [
        name
        for name in sorted({*units, *now})
        if units.get(name) != now.get(name) and not _is_own(name, own)
    ]
    if other:
        return f"systemd would change {other[0]} as well"
    unit = unit_name(target)
    if unit in units and new.at(target) and unit not in now:
        return f"systemd would no longer mount {target}"
    return ""


def _list_words(done: Completed | None) -> list[str]:
    return [line.strip() for line in done.errors.splitlines() if line.strip()] if done else []


def _own_names(document: FstabText, target: str) -> set[str]:
    """The beginnings of the names of the units that a line of `target` makes: the mount, the
    device's time-out.
    """
    names = {unit_name(target).removesuffix(".mount") + "."}
    for line in document.at(target):
        if line.fields:
            names.add(unit_name(device_path(decode(line.fields.source)), "device"))
    return names


def _behind_links(units: Mapping[str, str], lines: Iterable[FstabLine]) -> set[str]:
    """As `_own_names` where the target is a symbolic link, for which the generator names the unit
    by where it leads: the mounts of the same device.
    """
    devices = {f"What={device_path(decode(line.fields.source))}" for line in lines if line.fields}
    mounts = {name: text for name, text in units.items() if name.endswith(".mount")}
    return {
        f"{name[:-5]}" for name, text in mounts.items() if not devices.isdisjoint(text.splitlines())
    }


def _is_own(name: str, own: set[str]) -> bool:
    return any(part.startswith(tuple(own)) for part in name.split("/"))


def _describe_trial(trial: Trial) -> str:
    if trial.mount is None:
        return ""
    if trial.mount.status != 0:
        lines = trial.mount.errors.strip().splitlines()
        return (
            f"a trial mount of a tmpfs with {trial.options} fails: "
            f"{lines[0] if lines else trial.mount.status}"
        )
    mounts = parse_mounts(trial.mountinfo.encode("utf-8", "surrogateescape"))
    shown = next(
        (word for mount in mounts for word in mount.super_options if word.startswith("size=")), ""
    )
    wanted, got = size_bytes(trial.options, 0), size_bytes(shown, 0)
    if shown and wanted and got is not None and not wanted <= got < wanted + _LARGEST_PAGE:
        return f"a trial mount of a tmpfs with {trial.options} is {got} bytes large, not {wanted}"
    return ""
