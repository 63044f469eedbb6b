"""Where container images lie, and on what file system: Docker's data-root and the root of
containerd.

A place is better only where it is larger, no slower, and lasts: not on a cloud's own disk of the
instance, and not on several disks of which each takes all with it (RAID0, as vendors make it of
data disks, or stripes of LVM or btrfs). Sources: kernel: Documentation/admin-guide/md.rst
(md/level); Azure's temporary disk: /dev/disk/azure/resource, which cloud-init mounts at /mnt and
the Azure agent at /mnt/resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.reading import read_line
from hosttune.facts.storage.mounts import mount_below
from hosttune.facts.storage.nfs import is_way_of_root
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_WITH_COPIES = frozenset({"raid1", "raid4", "raid5", "raid6", "raid10"})
_RESOURCE_TARGETS = frozenset({"/mnt", "/mnt/resource"})


@frozen
class Store(Fact):
    """The folders on one mount that grow with every image and container."""

    name: str  # docker | containerd; docker for both
    path: str  # links resolved: /var/lib/docker, or /var/lib/docker and /var/lib/containerd
    is_shared: bool  # Docker and containerd have a folder each here
    mount: str  # the target of the mount that it is on
    fstype: str  # of that mount
    is_network: bool  # other machines serve it
    is_rotational: bool  # a hard disk is below it
    available_bytes: int  # to an ordinary user
    # where it shares the system's disk: a local data disk that lasts, no slower, with twice its
    # space
    better: str


@frozen
class Stores(Subject):
    """The stores of the engines that are installed, by mount."""

    # docker before containerd
    all: tuple[Store, ...] = read_with(lambda self: tuple(_find_stores(self.reader, self.facts)))


def _find_stores(reader: Reader, facts: Facts) -> Iterable[Store]:
    mounts, ways = facts.mounts.at, Ways(reader, facts)
    found: dict[str, list[tuple[str, str]]] = {}
    for name, path in _list_paths(facts):
        far, is_far = ways.way(path)
        real = far if is_far else reader.resolve(path)
        place = real if isinstance(real, str) else path
        if mount := mount_below(facts, place):
            found.setdefault(mount.target, []).append((name, place))
    for target, places in found.items():
        yield _store(places, mounts[target], reader, facts)


def _list_paths(facts: Facts) -> Iterable[tuple[str, str]]:
    docker = facts.docker
    if docker.is_installed:
        yield "docker", docker.data_root
    engines = facts.containers.engines
    has_containerd = any(name.startswith("containerd") for name in engines)
    if has_containerd and (
        not docker.is_installed or docker.images != "docker" or facts.managers.kubelet
    ):
        yield "containerd", facts.containers.containerd_root


def _store(places: Sequence[tuple[str, str]], mount: Mount, reader: Reader, facts: Facts) -> Store:
    return Store(
        name=places[0][0],
        path=" and ".join(path for _, path in places),
        is_shared=len(places) > 1,
        mount=mount.target,
        fstype=mount.fstype,
        is_network=mount.is_network,
        is_rotational=lazy(lambda: mount.is_rotational),
        available_bytes=lazy(lambda: mount.available_bytes),
        better=lazy(_find_better, reader, facts, mount),
    )


def _find_better(reader: Reader, facts: Facts, mount: Mount) -> str:
    if mount.target not in {"/", "/var", "/var/lib"}:
        return ""
    found = [
        one
        for one in facts.mounts.local_data
        if one.available_bytes > 2 * mount.available_bytes
        and one.is_rotational <= mount.is_rotational
        and _keeps_content(reader, facts, one)
        and is_way_of_root(
            reader, one.target
        )  # who can rename an engine's folder, or make it first, is root
    ]
    return max(found, key=lambda one: one.available_bytes).target if found else ""


def _keeps_content(reader: Reader, facts: Facts, mount: Mount) -> bool:
    """Whether what is written there is there after a stop of the machine, and after the loss of one
    disk of several.
    """
    disks = [facts.disks.by_name[name] for name in mount.disks]
    if any(disk.is_ephemeral for disk in disks) or (
        facts.host.cloud == "azure" and mount.target in _RESOURCE_TARGETS
    ):
        return False
    return len(disks) == 1 or _has_copies(reader, facts, mount)


def _has_copies(reader: Reader, facts: Facts, mount: Mount) -> bool:
    """Whether an md device with redundancy is below it."""
    waiting = [facts.disks.by_device[mount.device]] if mount.device in facts.disks.by_device else []
    while waiting:
        disk = waiting.pop()
        if (
            disk.kind == "md"
            and read_line(reader, f"/sys/block/{disk.name}/md/level") in _WITH_COPIES
        ):
            return True
        waiting += [
            facts.disks.by_name[name] for name in disk.parents if name in facts.disks.by_name
        ]
    return False
