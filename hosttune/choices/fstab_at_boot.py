"""The lines of fstab that the next boot mounts, and those with which it fails or loses what is mounted now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact
from hosttune.frozen import frozen
from hosttune.resources.storage.fstab_boot import BootLine, look_at_boot_lines


@frozen
class FstabAtBoot(Fact):
    """What a boot makes of fstab."""

    lines: tuple[BootLine, ...]


def choose(facts: Facts, params: Mapping[str, Any]) -> FstabAtBoot:  # noqa: ARG001 - the interface of all choices
    return FstabAtBoot(look_at_boot_lines(facts))
