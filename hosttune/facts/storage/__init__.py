"""Disks, file systems, mounts, and what is on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.storage.ageing import Ageing
    from hosttune.facts.storage.disks import Disks
    from hosttune.facts.storage.filesystems import Filesystems
    from hosttune.facts.storage.filling import Filling
    from hosttune.facts.storage.fstab import Fstab
    from hosttune.facts.storage.fuse import Fuse
    from hosttune.facts.storage.mount_units import MountUnits
    from hosttune.facts.storage.mounts import Mounts
    from hosttune.facts.storage.multipath import Multipath
    from hosttune.facts.storage.namespaces import Namespaces
    from hosttune.facts.storage.nfs import Nfs
    from hosttune.facts.storage.nvme import Nvme
    from hosttune.facts.storage.places import Places
    from hosttune.facts.storage.pools import Pools
    from hosttune.facts.storage.queues import Queues
    from hosttune.facts.storage.raid import Raid
    from hosttune.facts.storage.smart import Smart
    from hosttune.facts.storage.spare import Spare
    from hosttune.facts.storage.spills import Spills
    from hosttune.facts.storage.stopped import Stopped
    from hosttune.facts.storage.storage_log import StorageLog
    from hosttune.facts.storage.temporary import Temporary
    from hosttune.facts.storage.tmp import Tmp


class StorageFacts:
    """The subjects in this folder."""

    ageing: Ageing
    disks: Disks
    filesystems: Filesystems
    filling: Filling
    fstab: Fstab
    fuse: Fuse
    mount_units: MountUnits
    mounts: Mounts
    multipath: Multipath
    namespaces: Namespaces
    nfs: Nfs
    nvme: Nvme
    places: Places
    pools: Pools
    queues: Queues
    raid: Raid
    smart: Smart
    spare: Spare
    spills: Spills
    stopped: Stopped
    storage_log: StorageLog
    temporary: Temporary
    tmp: Tmp
