"""The lines of fstab and the unit files that a boot mounts, whether they are mounted now, and if
not, why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact, lazy, make_shared
from hosttune.facts.storage.mounts import WRITTEN
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.resources.storage.mount_causes import MountCauses
from hosttune.values import join_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts.storage.mounts import ExpectedMount

_END = "; without nofail a boot that does not mount it ends in the emergency shell"


@frozen
class FstabMount(Fact):
    """A line or a unit file that a boot mounts, as the fact `mounts` has it, with the cause if it
    is not mounted.
    """

    target: str  # `line 7` where a misread line has none
    source: str  # empty of a misread line
    line: int  # from 1
    # any user may unmount it, or cloud-init wrote the line of a disk that not every instance has
    is_optional: bool
    is_mounted: bool
    # why the line is no entry, or a different one, to a program that reads it; empty for none
    misread: str
    # nothing can be written there, no line asks for that, and no error stopped it
    is_read_only: bool
    # why nothing is mounted, as far as this host tells: `names UUID=..., which no device has`
    cause: str
    # what a boot that does not mount it ends with, as the end of a sentence; empty if it goes on
    end: str
    way_out: str  # what to do if nothing is mounted, and nothing was written there
    writers: str  # as in the fact, like those below
    rescue: str
    below: str
    unguarded: str
    guard: str
    where: str  # `line 3 of fstab`, `line 4 of /etc/systemd/system/data.mount`


@frozen
class FstabMounts(Fact):
    """All of them, fstab in its order, then unit files."""

    lines: tuple[FstabMount, ...]


def choose(facts: Facts, params: Mapping[str, Any]) -> FstabMounts:  # noqa: ARG001 - the interface of all choices
    causes = make_shared(MountCauses, facts)
    return FstabMounts(
        tuple(
            FstabMount(
                one.target, one.source, one.line, one.is_optional, one.is_mounted, one.misread,
                cause=lazy(_find_cause, causes, one), end=lazy(_find_end, causes, one),
                way_out=lazy(_find_way_out, causes, one),
                **{name: lazy(getattr, one, name) for name in ("is_read_only", *WRITTEN)},
                where=one.where,
            )
            for one in facts.mounts.expected
        )
    )  # fmt: skip


def _find_cause(causes: Callable[[], MountCauses], one: ExpectedMount) -> str:
    return causes().find(one.file, one.line).sentence


def _find_end(causes: Callable[[], MountCauses], one: ExpectedMount) -> str:
    """Without the line of a disk that not every instance has."""
    return "" if one.is_optional or not causes().ends_boot(one.file, one.line) else _END


def _find_way_out(causes: Callable[[], MountCauses], one: ExpectedMount) -> str:
    hidden = (
        f"look at what is in that folder now ({quote(one.below)}), because the mount hides it"
        if one.below
        else ""
    )
    return join_steps(
        (
            hidden,
            causes().find(one.file, one.line).way_out
            or f'see why: sudo hosttune fstab, journalctl -b -u "$(systemd-escape -p '
            f"--suffix=mount "
            f'{quote(one.target)})"\n'
            f"mount it: sudo mount {quote(one.target)}\nif the line is no longer needed, take it "
            f"out "
            f"of /etc/fstab",
            f"before the next boot: mount {quote(one.target)}, or add nofail"
            * bool(_find_end(causes, one)),
        )
    )
