"""The file system that a folder is on, as a bench has to know it: its mount, its block device, its
room.
"""

from __future__ import annotations

import os

from hosttune.errors import HosttuneError
from hosttune.facts.storage.mounts import NETWORK_TYPES
from hosttune.frozen import frozen
from hosttune.host.known.file_systems import IN_MEMORY
from hosttune.host.reading.bounded import MOST_NAMES, names_in, own_mounts
from hosttune.host.reading.mountinfo import MountLine, find_by_id
from hosttune.host.reading.named import served_mounts
from hosttune.host.reading.paths import inode_of, link_of_user, walk
from hosttune.host.writing.attributes import mount_id
from hosttune.measure.underneath import KERNEL as KERNEL_TYPES

_BY_UUID = "/dev/disk/by-uuid"


@frozen
class Place:
    """Where a path is. Sizes in bytes; `device` is "major:minor" of the block device, or "" where
    there is none.
    """

    path: str  # canonical
    target: str  # where the file system is mounted
    mount_id: int
    source: str
    fstype: str
    atime: str  # noatime | relatime | strictatime: of this mount
    device: str
    uuid: str  # of the file system; where udev keeps none, `fsid-` and what statvfs(3) calls it
    total_bytes: int
    available_bytes: int  # to an ordinary user
    is_read_only: bool
    inode: tuple[int, int] = (0, 0)  # st_dev and st_ino of the folder
    # a link of another user on the way there as it was named, behind which root does not write
    link: str = ""

    @property
    def is_network(self) -> bool:
        """A server's, or a program's (FUSE): its times are not those of a disk of this host."""
        return self.fstype in NETWORK_TYPES or self.fstype.startswith("fuse")

    @property
    def is_kernel(self) -> bool:
        """No files that anybody stored: to read one may do something."""
        return self.fstype in KERNEL_TYPES

    @property
    def is_memory(self) -> bool:
        return self.fstype in IN_MEMORY


def look_at(path: str) -> Place:
    """The place of a folder. Raises HosttuneError for what is no folder, or cannot be opened."""
    if not path:
        raise HosttuneError("the path is empty", hint="name a folder that is there")
    named = os.path.join(os.getcwd(), path)
    try:
        # mounts what autofs mounts there
        fd = os.open(named, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HosttuneError(
            f"{path}: cannot be opened: {error.strerror}", hint="name a folder that is there"
        ) from None
    try:
        info = os.fstat(fd)
        inode = (info.st_dev, info.st_ino)
        canonical, link = _way_to(named, inode)
        # By the descriptor, not by the longest fitting target: a bind mount or one that covers
        # another would give the wrong line.
        mount = _mount_of(fd, path)
        space = os.statvfs(fd)
        device = _block_device(info.st_dev, mount.source)
        return Place(
            path=canonical,
            target=mount.target,
            mount_id=mount.id,
            source=mount.source,
            fstype=mount.fstype,
            atime=mount.atime,
            device=device,
            uuid=_read_uuid(device) or f"fsid-{space.f_fsid & (1 << 64) - 1:016x}",
            total_bytes=space.f_blocks * space.f_frsize,
            available_bytes=space.f_bavail * space.f_frsize,
            is_read_only=bool(space.f_flag & os.ST_RDONLY),
            inode=inode,
            link=link,
        )
    finally:
        os.close(fd)


def _way_to(path: str, inode: tuple[int, int]) -> tuple[str, str]:
    """The path of an open folder without links, and a link of another user on the way."""
    try:
        with walk("/", path, avoided=served_mounts) as found:
            if not found.missing and inode_of(found) == inode:
                return found.canonical, link_of_user(found)
    except OSError as error:
        raise HosttuneError(
            f"{path}: cannot be opened: {error.strerror}", hint="name a folder that is there"
        ) from None
    raise HosttuneError(
        f"{path} was exchanged while it was looked at", hint="name a folder that stays where it is"
    )


def _mount_of(fd: int, path: str) -> MountLine:
    found = find_by_id(own_mounts(), mount_id(fd))
    if found is None:
        raise HosttuneError(
            f"{path}: it is not known where it is mounted", hint="a chroot hides the mounts"
        )
    return found


def _block_device(device: int, source: str) -> str:
    """Files of btrfs have device numbers of their own, so there the source of the mount counts."""
    # Anonymous device numbers (btrfs, overlay, NFS) have no entry there.
    numbers = f"{os.major(device)}:{os.minor(device)}"
    if os.path.exists(f"/sys/dev/block/{numbers}"):
        return numbers
    try:
        rdev = os.stat(source).st_rdev if source.startswith("/dev/") else 0
    except OSError:
        rdev = 0
    return f"{os.major(rdev)}:{os.minor(rdev)}" if rdev else ""


def _read_uuid(device: str) -> str:
    try:
        names = names_in(_BY_UUID, MOST_NAMES)[0]
    except OSError:
        return ""
    for name in names:
        try:
            rdev = os.stat(f"{_BY_UUID}/{name}").st_rdev
        except OSError:
            continue
        if device == f"{os.major(rdev)}:{os.minor(rdev)}":
            return name
    return ""
