"""Whether the folder that this process calls `/` is the root of the system that runs.

In a chroot it is not, though /proc, /sys and /dev may be bound in (`curtin in-target`, Packer,
debos): what they say is of the kernel that builds the image. A container is a system of its own:
its process 1 has the same root.

Sources: proc_pid_root(5), namespaces(7); as systemd's running_in_chroot (src/basic/virt.c) and
ischroot(1).
"""

from __future__ import annotations

import os

from hosttune.host.reading import mountinfo
from hosttune.host.reading.bounded import head_of, own_mounts

# Process 1; where a security module hides it even from root: the parent of all kernel threads,
# whose root is the same.
_FIRST = ("/proc/1", "/proc/2")


def is_running_root() -> bool:
    """Whether `/` is the root of the system that runs; so too where nothing that this user may see
    says otherwise.
    """
    if not os.path.exists("/proc/self"):
        return False  # every system that runs has mounted it
    first = _first_process()
    if not first:
        # Without root's rights: a root that is no mount point at all is a chroot for certain.
        return mountinfo.topmost_at(mountinfo.parse(own_mounts()), "/") is not None
    if _is_same_root(first):
        return True
    # A container has all three of its own. What builds images may have made one or two
    # (unshare(1)), and is in a chroot.
    return all(
        _read_namespace("/proc/self", name) != _read_namespace(first, name)
        for name in ("mnt", "uts", "ipc")
    )


def has_own_network() -> bool:
    """Whether this process sees the files of the host and a network of its own, as below `ip netns
    exec`.
    """
    first = _first_process()
    own, host = _read_namespace("/proc/self", "net"), _read_namespace(first, "net") if first else ""
    return bool(own and host) and own != host and _is_same_root(first)


def _first_process() -> str:
    return next((folder for folder in _FIRST if _is_first(folder)), "")


def _is_first(folder: str) -> bool:
    """Whether this is the process that it has to be, and its root may be looked at."""
    try:
        if folder == "/proc/2" and head_of("/proc/2/comm")[0] != b"kthreadd\n":
            return False
        os.stat(f"{folder}/root")
    except OSError:
        return False
    return True


def _is_same_root(first: str) -> bool:
    """By device and inode; within one table of mounts by the mount as well: a bind mount of `/` has
    the same inode.

    In a mount namespace of its own (a service with PrivateTmp=) every mount has another number.
    """
    if not os.path.samefile("/", f"{first}/root"):
        return False
    shares_mounts = _read_namespace("/proc/self", "mnt") == _read_namespace(first, "mnt")
    return not shares_mounts or _mount_id("/") == _mount_id(f"{first}/root")


def _read_namespace(process: str, name: str) -> str:
    try:
        return os.readlink(f"{process}/ns/{name}")
    except OSError:
        return ""


def _mount_id(path: str) -> bytes:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lines = head_of(f"/proc/self/fdinfo/{fd}")[0].splitlines()
        return next((line for line in lines if line.startswith(b"mnt_id:")), b"")
    finally:
        os.close(fd)
