"""What the folders and devices of the host say of lines of fstab with which a boot goes on all the
same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.storage.fstab_options import is_on_demand
from hosttune.facts.storage.fstab_types import MOVES
from hosttune.facts.storage.mounts import is_network
from hosttune.facts.storage.sources import sources_of
from hosttune.facts.storage.ways import ways_of
from hosttune.quoting import quote
from hosttune.resources.storage.fstab_remark import RemarkLevel, shown_remark
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.resources.storage.fstab_remark import ShownRemark


def look_at_places(facts: Facts) -> Iterator[ShownRemark]:
    """Folders that are not there or lie behind a link, and devices that are not there and may come
    later.
    """
    reader, ways, sources = facts.reader, ways_of(facts), sources_of(facts)
    for entry in facts.fstab.at_boot:
        if ways.way(entry.target)[1] or is_on_demand(entry.options):
            continue
        if entry.path != entry.target and not is_network(entry.fstype, entry.source):
            why = f"{entry.target} leads to {entry.path} by a symbolic link, where it is mounted"
            yield shown_remark(
                entry.line, RemarkLevel.NOTE, "target-link", why, f"write {entry.path}"
            )
        elif reader.stat(entry.target) is ABSENT:
            why = f"{entry.target} is not there: a boot makes the folder, `mount -a` does not"
            yield shown_remark(
                entry.line,
                RemarkLevel.NOTE,
                "no-target",
                why,
                f"sudo mkdir -p {quote(entry.target)}",
            )
        # A device that is missing for certain is a finding of `fstab_boot.py`; here are those that
        # a program may make later.
        is_device = entry.source.startswith("/dev/") and MOVES.isdisjoint(entry.options)
        if is_device and sources.find(entry.source) is None and reader.stat(entry.source) is ABSENT:
            why = f"{entry.source} is not there now; a boot waits for it"
            todo = "see what makes it, or take the line out"
            yield shown_remark(entry.line, RemarkLevel.WARNING, "no-source", why, todo)
