"""The lines of fstab that the next boot mounts, and those with which it fails or loses what is
mounted now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact, attempt, known_part
from hosttune.facts.storage.sources import sources_of
from hosttune.frozen import frozen
from hosttune.resources.storage.fstab_boot import BootLine, look_at_boot_lines
from hosttune.values import Unreadable


@frozen
class FstabAtBoot(Fact):
    """What a boot makes of fstab."""

    lines: tuple[BootLine, ...]


def choose(facts: Facts, params: Mapping[str, Any]) -> FstabAtBoot:  # noqa: ARG001 - the interface of all choices
    lines = look_at_boot_lines(facts)
    return FstabAtBoot(known_part(lines, _find_lacking(facts)) if lines else lines)


def _find_lacking(facts: Facts) -> UnknownFact | None:
    """What could not be read, and may prove a line wrong: the devices, or the kernel that the next
    boot takes. Of an image both are another machine's.
    """
    if facts.reader.persistent_only:
        return None
    release = attempt(lambda: facts.boot.next_kernel)
    return sources_of(facts).lacking or (
        UnknownFact(release.reason) if isinstance(release, Unreadable) else None
    )
