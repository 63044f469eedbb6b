"""Swap that systemd switches on by the type of its partition, without a line of fstab:
systemd-gpt-auto-generator(8).

Sources: src/gpt-auto-generator/gpt-auto-generator.c (partitions of the disk of /, not where fstab
has any swap), the Discoverable Partitions Specification (type and the no-auto flag), udev's
database (ID_PART_ENTRY_TYPE, _FLAGS).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt, get_raw
from hosttune.facts.kernel.kernel import is_switched_off
from hosttune.facts.reading import read_text
from hosttune.facts.storage.mounts import unit_name
from hosttune.facts.storage.sources import sources_of
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts

_SWAP_TYPE = "E:ID_PART_ENTRY_TYPE=0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"
_FLAGS = regex(r"(?m)^E:ID_PART_ENTRY_FLAGS=0x([0-9a-fA-F]{1,16})$")
_NO_AUTO = 1 << 63
_SWITCHES = ("systemd.gpt_auto", "systemd.swap")
_MASK = "/etc/systemd/system-generators/systemd-gpt-auto-generator"


def find_auto_swaps(facts: Facts) -> tuple[str, ...]:
    """The paths of the partitions that the next boot swaps on by their type."""
    reader, sources = facts.reader, sources_of(facts)
    words = attempt(lambda: facts.kernel.command_line)
    if reader.persistent_only or any(one.is_swap for one in facts.fstab.entries):
        return ()
    if (
        not isinstance(words, tuple)
        or any(is_switched_off(words, one) for one in _SWITCHES)
        or reader.link(_MASK) == "/dev/null"
    ):
        return ()
    # The generator looks only at the disk of /, so a swap partition on a data disk stays off.
    roots = {
        name for one in facts.mounts.visible if one.target == "/" for name in sources.below(one)
    }
    parents = {parent for name in roots for parent in sources.whole_of(name)}
    found = []
    for disk in facts.disks.all:
        held = sources.holds(disk.name)
        if (
            disk.kind != "partition"
            or held is None
            or held.fstype != "swap"
            or parents.isdisjoint(disk.parents)
        ):
            continue
        known = attempt(read_text, reader, f"/run/udev/data/b{get_raw(disk, 'device')}")
        # A partition with a swap area in it may have any type: only this type is switched on.
        if not isinstance(known, str) or _SWAP_TYPE not in known.split("\n"):
            continue
        flags = _FLAGS.search(known)
        if flags and int(flags[1], 16) & _NO_AUTO:
            continue
        if reader.link(f"/etc/systemd/system/{unit_name(disk.path, 'swap')}") != "/dev/null":
            found.append(disk.path)
    return tuple(found)
