"""Slow targets of writes: network file systems and hard disks, with the place below /sys where the
kernel limits each.

Every file system or disk with a backing device of its own has /sys/class/bdi/NAME (kernel:
Documentation/ABI/testing/sysfs-class-bdi): an NFS mount under the number of its superblock
(fs/nfs/super.c), SMB mounts as cifs-1, cifs-2 ... in the order of mounting (fs/super.c,
super_setup_bdi), a disk under /sys/block/NAME/bdi. /proc/fs/nfsfs/volumes (fs/nfs/client.c,
nfs_volume_list_show) has server, port, superblock and the server's own number of the exported file
system: what makes out the same export after the next boot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.containers.kubernetes import is_of_pods
from hosttune.facts.reading import if_absent, read_text
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_NFS = frozenset({"nfs", "nfs4"})
_RDMA = frozenset({"proto=rdma", "proto=rdma6"})
_SMB = frozenset({"cifs", "smb3"})
_VOLUMES = "/proc/fs/nfsfs/volumes"
_VOLUME = regex(r"(?m)^v\d+ ([0-9a-f]+) +[0-9a-f]+ +(\d+:\d+) +([0-9a-f]+:[0-9a-f]+) ")
_IS_EXPORT = (
    "PROGRAM==\"/bin/grep -qE '^v[0-9]+ {0} +[0-9a-f]+ +$kernel +{1} ' /proc/fs/nfsfs/volumes\""
)


@frozen
class SlowTarget(Fact):
    """One backing device. Mounts that share it are one."""

    target: str  # where it is mounted first
    bdi: str  # its folder below /sys; of SMB, where shares cannot be kept apart, a pattern for all
    match: str  # what udev knows exactly this one by
    # NFS by several connections to its server (nfs(5), nconnect)
    has_more_connections: bool = False


@frozen
class Writeback(Subject):
    """What slow targets are written to, and how much may wait for all targets together."""

    # network file systems, and hard disks with data
    slow: tuple[SlowTarget, ...] = read_with(
        lambda self: tuple(_find_slow(self.reader, self.facts))
    )
    # where programs that write are made to wait: dirty_bytes, or dirty_ratio percent of memory
    limit_bytes: int = read_with(lambda self: _limit(self.facts))


def _limit(facts: Facts) -> int:
    """Of all memory: the kernel takes the percentage of what is free or holds files, which is less
    and moves.
    """
    reclaim = facts.reclaim
    return reclaim.dirty_bytes or facts.memory.total_bytes * reclaim.dirty_ratio // 100


def _find_slow(reader: Reader, facts: Facts) -> Iterator[SlowTarget]:
    found: dict[str, SlowTarget] = {}
    for mount in facts.mounts.visible:
        if (
            not (mount.is_read_only or mount.is_of_user)
            and not is_of_pods(mount.target)
            and (one := _find_remote(reader, facts, mount))
        ):
            found.setdefault(one.bdi, one)
    yield from found.values()
    data = {mount.target: mount for mount in facts.mounts.local_data}
    for queue in facts.queues.all:
        targets = [target for target in queue.targets if data[target].is_rotational]
        if targets:
            yield SlowTarget(
                targets[0],
                f"/sys/block/{queue.name}/bdi",
                f'{queue.match}, ATTR{{queue/rotational}}=="1"',
            )


def _find_remote(reader: Reader, facts: Facts, mount: Mount) -> SlowTarget | None:
    if mount.fstype in _NFS and not _RDMA.isdisjoint(mount.super_options):
        return None  # over RDMA servers take more than any figure that is assumed here
    if mount.fstype in _NFS:
        has_more = any(
            one.startswith("nconnect=") and one != "nconnect=1" for one in mount.super_options
        )
        return SlowTarget(
            mount.target,
            f"/sys/class/bdi/{mount.device}",
            lazy(_make_export_match, reader, mount.device),
            has_more,
        )
    if mount.fstype in _SMB and not facts.managers.kubelet:  # there a share may be a pod's
        return SlowTarget(
            mount.target, f"/sys/class/bdi/{mount.fstype}-*", f'KERNEL=="{mount.fstype}-*"'
        )
    return None


def _make_export_match(reader: Reader, device: str) -> str:
    """The udev match on the export behind a superblock: its server and number, whatever superblock
    it gets then.
    """
    rows = _VOLUME.findall(if_absent(read_text(reader, _VOLUMES), ""))
    found = next(
        ((server, number) for server, superblock, number in rows if superblock == device), None
    )
    if found is None:
        raise UnknownFact(f"{_VOLUMES} does not list {device}")
    return _IS_EXPORT.format(*found)
