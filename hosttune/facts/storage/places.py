"""Places that fill up: the file systems that hold the system, its logs, temporary files, container
images and data.

Sources: statvfs(3), by way of the mounts; hier(7). Network file systems are not measured: a dead
server would hold who asks. Ubuntu's installer gives / a part of its volume group
(canonical/subiquity: guided LVM, sizing-policy scaled), and cloud-init grows the file system of /
only (https://github.com/canonical/cloud-init/issues/3056); lvextend(8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt, keep_known, lazy
from hosttune.facts.containers.kubelet_eviction import find_least_percent
from hosttune.facts.environment import COMPILED
from hosttune.facts.reading import all_sure, read_line
from hosttune.facts.storage.btrfs_room import find_crowding
from hosttune.facts.storage.mounts import is_measured, mount_below
from hosttune.facts.storage.temporary import age_of, user_limit
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.known.file_systems import IN_MEMORY
from hosttune.quoting import quote
from hosttune.values import Unreadable, is_unrecorded

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader
    from hosttune.values import Answer

_RUN = "/run"
# What lives there, in the words of the report; only those that exist are looked at.
_PATHS = (
    "/", _RUN, "/var", "/var/log", "/tmp", "/var/tmp", "/home", "/dev/shm", "/var/lib/docker",
    "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/enroot", "/var/spool/slurmd",
)  # fmt: skip
# What the kubelet measures there, while --root-dir and the root of containerd are the usual ones.
_MEASURED = {"/var/lib/kubelet": "nodefs", "/var/lib/containerd": "imagefs"}
_LEAST_ROOM = 2 << 30
_OF_TABLES = 0.15  # of a device: more than the tables of a file system take


@frozen
class LocalPlace(Fact):
    """One local file system, and what of the above is on it."""

    target: str  # where it is mounted
    holds: tuple[str, ...]  # /var/lib/docker, /tmp ...
    total_bytes: int  # of the file system
    available_bytes: int  # to an ordinary user
    total_inodes: int  # 0 where the file system makes them as it needs them
    available_inodes: int  # files that can still be made there
    is_memory: bool  # a tmpfs
    # what one user may fill of it; 0 where nothing is known to limit that
    user_limit_bytes: int = 0
    # below it the kubelet ends pods; 0 where it measures nothing here
    pods_least_percent: float = 0.0
    # how it takes room that its volume group or its device has; empty where none is known
    growth: str = ""
    # of btrfs: why no file can be made, whatever df shows; empty where that is not so
    crowding: str = ""

    @property
    def used_bytes(self) -> int:
        """What users cannot have any more."""
        return self.total_bytes - self.available_bytes

    @property
    def free_percent(self) -> float:
        """How much of its bytes is free for users."""
        return (
            round(100 * self.available_bytes / self.total_bytes, 1) if self.total_bytes else 100.0
        )

    @property
    def free_inodes_percent(self) -> float:
        """100 where the file system has no table of inodes."""
        return (
            round(100 * self.available_inodes / self.total_inodes, 1)
            if self.total_inodes
            else 100.0
        )


@frozen
class CacheHome(Fact):
    """A folder for caches or temporary files that a file of the system names."""

    name: str  # TRITON_CACHE_DIR
    path: str  # the folder
    place: str  # the file and line that say so
    exists: bool  # the folder is there
    is_network: bool  # it is on a network file system
    is_memory: bool  # it is on a tmpfs
    removed_after: str = (
        # what removes files there by age: 30d (/usr/lib/tmpfiles.d/tmp.conf:3); not of temporary
        # files
        ""
    )

    @property
    def holds_compiled(self) -> bool:
        """Whether it holds compiled code or temporary files, which are locked, renamed and
        mapped.
        """
        return self.name in COMPILED


@frozen
class Places(Subject):
    """What can be full, and where caches go."""

    all: tuple[LocalPlace, ...] = read_with(lambda self: _read_all(self.reader, self.facts))
    caches: tuple[CacheHome, ...] = read_with(lambda self: _find_caches(self.reader, self.facts))


def _read_all(reader: Reader, facts: Facts) -> tuple[LocalPlace, ...]:
    visible = facts.mounts.visible
    kept = {mount.target for mount in facts.mounts.local_data}
    # one that is mounted there counts, whatever a look at the folder says
    kept |= {one.target for one in visible if one.target in _PATHS and not one.is_of_user}
    ways = Ways(reader, facts)
    answers = {path: reader.stat(path) for path in _PATHS if not ways.way(path)[1]}
    there = [path for path, answer in answers.items() if hasattr(answer, "type")]
    measured = [answers[path] for path in _MEASURED if path in answers]
    held: dict[str, list[str]] = {target: [] for target in kept}
    for path in there:
        if mount := mount_below(facts, path):
            held.setdefault(mount.target, []).extend([path] if path != mount.target else [])

    def make(mount: Mount) -> tuple[LocalPlace, ...]:
        holds = held.get(mount.target)
        return () if holds is None else _make_place(facts, mount, tuple(holds), measured)

    return keep_known(make, visible)


def _make_place(
    facts: Facts, mount: Mount, holds: tuple[str, ...], measured: list[Answer[Stat]]
) -> tuple[LocalPlace, ...]:
    """None for what is not measured (network, read-only images, unknown types)."""
    if mount.is_read_only or not is_measured(mount):
        return ()
    if mount.target == _RUN and is_unrecorded(attempt(lambda: mount.total_bytes)):
        return ()  # a record of before does not have it
    one = LocalPlace(
        mount.target,
        holds,
        mount.total_bytes,
        mount.available_bytes,
        mount.total_inodes,
        mount.available_inodes,
        is_memory=mount.fstype in IN_MEMORY,
        user_limit_bytes=user_limit(mount),
        pods_least_percent=lazy(_find_pods_least, facts, mount, holds, measured),
        growth=lazy(_find_growth, facts, mount),
        crowding=lazy(find_crowding, facts.reader, mount),
    )
    return (one,)


def _find_pods_least(
    facts: Facts, mount: Mount, holds: tuple[str, ...], measured: list[Answer[Stat]]
) -> float:
    signals = [signal for path, signal in _MEASURED.items() if path in (mount.target, *holds)]
    if not facts.managers.kubelet:
        return 0.0
    all_sure(measured)
    return (
        max(find_least_percent(facts, signal, mount.total_bytes) for signal in signals)
        if signals
        else 0.0
    )


def _find_growth(facts: Facts, mount: Mount) -> str:
    """Of ext4 and XFS. The room of a group is counted where each of its volumes is on one and the
    same device.
    """
    known = attempt(lambda: {one.device: one for one in facts.disks.all})
    disk = None if isinstance(known, Unreadable) else known.get(mount.device)
    grow = {"ext4": "sudo resize2fs {device}", "xfs": "sudo xfs_growfs {target}"}.get(mount.fstype)
    if isinstance(known, Unreadable) or disk is None or grow is None:
        return ""
    unused = disk.size_bytes - mount.total_bytes
    if unused > max(_LEAST_ROOM, disk.size_bytes * _OF_TABLES):  # ext4 and XFS keep tables there
        command = grow.format(device=quote(disk.path), target=quote(mount.target))
        return f"its file system is {unused >> 30} GiB smaller than {disk.path}: {command}"
    uuid = (
        attempt(read_line, facts.reader, f"/sys/block/{disk.name}/dm/uuid")
        if disk.kind == "dm"
        else ""
    )
    if not isinstance(uuid, str) or not uuid.startswith("LVM-"):
        return ""
    command = f"sudo lvextend -r -l +100%FREE {quote(disk.path)}"
    below = [one for one in known.values() if one.name in disk.parents]
    made = [
        one for one in known.values() if one.kind == "dm" and set(one.parents) & set(disk.parents)
    ]
    if len(below) != 1 or any(one.parents != disk.parents for one in made):
        return f"see whether its volume group has room: sudo vgs. If it has: {command}"
    room = below[0].size_bytes - sum(one.size_bytes for one in made)
    return (
        f"its volume group has {room >> 30} GiB that no volume uses: {command}"
        if room > _LEAST_ROOM
        else ""
    )


def _find_caches(reader: Reader, facts: Facts) -> tuple[CacheHome, ...]:
    ways = Ways(reader, facts)
    found = []
    for one in facts.environment.caches:
        if "$" in one.value:
            continue  # of each user
        mount = mount_below(facts, one.value)
        is_network = mount is not None and mount.is_network
        found.append(
            CacheHome(
                one.name, one.value, one.place,
                exists=ways.way(one.value)[1] or hasattr(reader.stat(one.value), "type"),
                is_network=is_network, is_memory=mount is not None and mount.fstype in IN_MEMORY,
                removed_after="" if one.name.endswith("TMPDIR") else age_of(one.value, facts),
            )
        )  # fmt: skip
    return tuple(found)


def find_renamer(reader: Reader, path: str) -> str:
    """Why others could put a folder of theirs in the place of a user's; empty where none could, or
    nothing tells.
    """
    status = reader.stat(path, follow=False)
    if not isinstance(status, Stat):
        return ""
    if status.type == "link":
        return f"{path} is a link: name the folder that it leads to"
    if status.uid != 0:
        return (
            f"{path} belongs to uid {status.uid}, who can rename what is in it: sudo chown root: "
            f"{quote(path)}"
        )
    if status.mode & 0o022 and not status.mode & 0o1000:
        return (
            f"{path} is not sticky: other users can rename what is in it: sudo chmod +t "
            f"{quote(path)}"
        )
    return ""
