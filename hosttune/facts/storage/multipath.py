"""Disks that are reached over several paths (dm-multipath), and which of the paths are lost.

/sys/block/dm-N/dm/uuid begins with `mpath-`; its slaves are the paths, and device/state of each
tells whether it works (kernel: Documentation/ABI/testing/sysfs-block-dm,
drivers/scsi/scsi_sysfs.c). dm-multipath takes a path out of use by its own word, too, after an I/O
error or a failed check of multipathd: that shows in `dmsetup status` alone, while SCSI still says
running (drivers/md/dm-mpath.c, multipath_status). A path that is gone for good is no slave any
more, so disks are compared with others of their model. Native NVMe multipath shows in `nvme`: its
controllers are not live.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy
from hosttune.facts.reading import (
    if_absent,
    names_in,
    parse_or_unknown,
    read_line,
    run_looking,
)
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

STATUS = ("dmsetup", "status", "--noflush", "--target", "multipath")
_BLOCK = "/sys/block"
_MAP = regex(r"(.{1,127}): \d+ \d+ multipath (.*)")
_PATH = regex(r"(?<!\S)(\d{1,9}:\d{1,9}) ([AF]) \d")  # active or failed
# of SCSI, of NVMe; empty where the driver tells no state
_WORKS = frozenset({"running", "live", ""})


@frozen
class PathedDisk(Fact):
    """One disk with its paths."""

    name: str  # mpatha
    paths: int  # that it has now, lost ones that are still listed included
    lost: tuple[str, ...]  # sdc (offline), sdd (failed)
    sibling_paths: int  # the most paths that a disk of its model has, itself included
    # its only path, of a disk that nothing uses by this name: sdg (Msft Virtual Disk)
    plain: str = ""


@frozen
class Multipath(Subject):
    """All disks that multipathd put together."""

    @fact
    def disks(self) -> tuple[PathedDisk, ...]:
        return _find_disks(self.reader, self.facts, self._maps, lambda: self._failed)

    @fact
    def maps(self) -> tuple[tuple[str, ...], ...]:
        """The disks that are paths, of each."""
        return tuple(self._maps.values())

    @fact
    def _maps(self) -> Mapping[str, tuple[str, ...]]:
        mapped = (name for name in names_in(self.reader, _BLOCK) if name.startswith("dm-"))
        names = [
            name
            for name in mapped
            if if_absent(read_line(self.reader, f"{_BLOCK}/{name}/dm/uuid"), "").startswith(
                "mpath-"
            )
        ]
        return {name: names_in(self.reader, f"{_BLOCK}/{name}/slaves") for name in names}

    @fact
    def _failed(self) -> Mapping[str, frozenset[str]]:
        if not self.reader.is_privileged:
            raise UnknownFact("needs root: which paths dm-multipath does not use")
        return parse_or_unknown(parse_status, run_looking(self.reader, STATUS).text)


def parse_status(output: str) -> Mapping[str, frozenset[str]]:
    """Map -> the device numbers (8:16) of the paths that failed, of `dmsetup status`. Raises
    ValueError for a line that shows no multipath.
    """
    found = {}
    for row in filter(None, output.splitlines()):
        match = _MAP.fullmatch(row.strip())
        if not match and row.strip() != "No devices found":
            message = f"dmsetup printed {row[:80]!r}, which is no multipath"
            raise ValueError(message)
        if match:
            paths = _PATH.findall(match[2])
            found[match[1]] = frozenset(number for number, state in paths if state == "F")
    return found


def _find_disks(
    reader: Reader,
    facts: Facts,
    maps: Mapping[str, tuple[str, ...]],
    failed: Callable[[], Mapping[str, frozenset[str]]],
) -> tuple[PathedDisk, ...]:
    models = {
        name: _read_answer(reader, paths[0], "model") if paths else ""
        for name, paths in maps.items()
    }
    most: dict[str, int] = {}  # paths, by model
    for name, paths in maps.items():
        most[models[name]] = max(len(paths), most.get(models[name], 0))
    # multipathd can also map a disk that has one path. Where no disk of the model has a second one,
    # that is not a lost path.
    plain = {
        name: _is_unused(reader, facts, name)
        for name, paths in maps.items()
        if most[models[name]] == 1 and paths
    }
    return tuple(
        PathedDisk(
            name=if_absent(read_line(reader, f"{_BLOCK}/{name}/dm/name"), name),
            paths=len(paths),
            lost=lazy(_find_lost, reader, name, paths, failed),
            sibling_paths=most[models[name]],
            plain=_describe_plain(reader, paths[0]) if plain.get(name) else "",
        )
        for name, paths in maps.items()
    )


def _find_lost(
    reader: Reader,
    name: str,
    paths: tuple[str, ...],
    failed: Callable[[], Mapping[str, frozenset[str]]],
) -> tuple[str, ...]:
    states = {path: _read_answer(reader, path, "state") for path in paths}
    shown = if_absent(read_line(reader, f"{_BLOCK}/{name}/dm/name"), name)
    given_up = attempt(failed) if paths else {}
    numbers = given_up.get(shown, frozenset()) if isinstance(given_up, Mapping) else frozenset()
    words = {path: state for path, state in states.items() if state not in _WORKS}
    for path in paths:
        if numbers and if_absent(read_line(reader, f"{_BLOCK}/{path}/dev"), "") in numbers:
            words.setdefault(path, "failed")
    # What the kernel says of a path is a proof by itself; that none is lost needs both answers.
    if not words and isinstance(given_up, Unreadable):
        raise UnknownFact(given_up.reason)
    return tuple(f"{path} ({words[path]})" for path in paths if path in words)


def _is_unused(reader: Reader, facts: Facts, name: str) -> bool:
    """Whether nothing is made of a map, mounted from it, or swapped to it, for certain."""
    device = if_absent(read_line(reader, f"{_BLOCK}/{name}/dev"), "")
    mounts, swaps = attempt(lambda: facts.mounts.all), attempt(lambda: facts.memory.swaps)
    # What is not known counts as used.
    if not device or not isinstance(mounts, tuple) or not isinstance(swaps, tuple):
        return False
    is_mounted = any(one.device == device for one in mounts)
    is_swap = any(one.path == f"/dev/{name}" for one in swaps)
    return not is_mounted and not is_swap and not names_in(reader, f"{_BLOCK}/{name}/holders")


def _describe_plain(reader: Reader, path: str) -> str:
    words = " ".join(
        filter(None, (_read_answer(reader, path, what).strip() for what in ("vendor", "model")))
    )
    return f"{path} ({words})" if words else path


def _read_answer(reader: Reader, disk: str, what: str) -> str:
    return if_absent(read_line(reader, f"{_BLOCK}/{disk}/device/{what}"), "")
