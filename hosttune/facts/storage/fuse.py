"""FUSE file systems whose program has ended: they stay mounted, and each access fails with
ENOTCONN.

A look at one could wait for a program that is alive and silent, where no signal ends that wait, so
none is touched. The kernel serves a FUSE file system only while a process has its /dev/fuse open
(Documentation/filesystems/fuse, fuse_dev_release() in fs/fuse/dev.c). Which process is of which
mount is told by the mount point on its command line. A process that names none may be of any mount,
so that only what is certain is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.containers.kubernetes import is_of_pods
from hosttune.facts.reading import require_known
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import FIRST_PERSON
from hosttune.host.reading.bounded import CUT
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Process

_DEVICE = "/dev/fuse"


@frozen
class DeadFuse(Fact):
    """A file system whose program has ended."""

    target: str  # where it is mounted
    source: str  # what it shows
    fstype: str  # fuse.sshfs, fuse ...
    is_in_fstab: bool = True  # a line of fstab mounts it

    @property
    def way_out(self) -> str:
        """How it is mounted anew."""
        unmount = f"sudo umount -l {quote(self.target)}"
        if self.is_in_fstab:
            return f"{unmount} && sudo mount {quote(self.target)}"
        return f"{unmount}, and start what mounted it (no line of fstab has it)"


@frozen
class Fuse(Subject):
    """File systems that a program in user space serves."""

    @fact
    def dead(self) -> tuple[DeadFuse, ...]:
        """Those of root, without pods, that no process serves any more."""
        mounts = (
            () if self.reader.persistent_only else tuple(filter(_is_fuse, self.facts.mounts.all))
        )
        of_host = [
            one for one in mounts if not (one.is_of_user or one.is_bind or is_of_pods(one.target))
        ]
        if not of_host:
            return ()
        running = require_known(self.reader.processes(), "the list of processes")
        if not self.reader.is_privileged:
            raise UnknownFact("needs root: the open devices of other users' processes are hidden")
        unserved = _list_unserved(mounts, running)
        return tuple(_describe(self.facts, one) for one in of_host if one.device in unserved)


def _is_fuse(mount: Mount) -> bool:
    return mount.fstype in ("fuse", "fuseblk") or mount.fstype.startswith("fuse.")


def _list_unserved(mounts: Iterable[Mount], running: Iterable[Process]) -> frozenset[str]:
    """The devices of the mounts that no process serves; none where one could be of any of them.
    A process of a person that names no folder is of a mount of that person.
    """
    targets: dict[str, set[str]] = {}
    for one in mounts:
        targets.setdefault(one.device, set()).add(one.target)
    named: list[set[str]] = []
    for process in running:
        words = {word.rstrip("/") for word in process.command}
        # CUT: it has more files open than were looked at
        if not {_DEVICE, CUT}.isdisjoint(process.devices):
            if process.uid < FIRST_PERSON and all(words.isdisjoint(at) for at in targets.values()):
                return frozenset()
            named.append(words)
    return frozenset(
        device for device, at in targets.items() if all(words.isdisjoint(at) for words in named)
    )


def _describe(facts: Facts, mount: Mount) -> DeadFuse:
    is_named = lazy(
        lambda: any(mount.target in (one.target, one.path) for one in facts.fstab.entries)
    )
    return DeadFuse(mount.target, mount.source, mount.fstype, is_named)
