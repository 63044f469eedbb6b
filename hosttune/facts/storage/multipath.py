"""Disks that are reached over several paths (dm-multipath), and which of the paths are lost.

/sys/block/dm-N/dm/uuid begins with `mpath-`; its slaves are the paths, and device/state of each
tells whether it works (kernel: Documentation/ABI/testing/sysfs-block-dm,
drivers/scsi/scsi_sysfs.c). A path that is gone for good is no slave any more, so disks are compared
with others of their model. Native NVMe multipath shows in `nvme`: its controllers are not live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt
from hosttune.facts.reading import if_absent, names_in, read_line
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_BLOCK = "/sys/block"
# of SCSI, of NVMe; empty where the driver tells no state
_WORKS = frozenset({"running", "live", ""})


@frozen
class PathedDisk(Fact):
    """One disk with its paths."""

    name: str  # mpatha
    paths: int  # that it has now, lost ones that are still listed included
    lost: tuple[str, ...]  # sdc (offline)
    sibling_paths: int  # the most paths that a disk of its model has, itself included
    # its only path, of a disk that nothing uses by this name: sdg (Msft Virtual Disk)
    plain: str = ""


@frozen
class Multipath(Subject):
    """All disks that multipathd put together."""

    @fact
    def disks(self) -> tuple[PathedDisk, ...]:
        return _find_disks(self.reader, self.facts, self._maps)

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


def _find_disks(
    reader: Reader, facts: Facts, maps: Mapping[str, tuple[str, ...]]
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
            lost=tuple(
                f"{path} ({state})"
                for path in paths
                if (state := _read_answer(reader, path, "state")) not in _WORKS
            ),
            sibling_paths=most[models[name]],
            plain=_describe_plain(reader, paths[0]) if plain.get(name) else "",
        )
        for name, paths in maps.items()
    )


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
