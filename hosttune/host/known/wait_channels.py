"""Functions of the kernel in which a task waits, as /proc/PID/wchan names them (proc_pid_wchan(5)),
from Linux 4.18 to 6.18.
"""

from __future__ import annotations

from typing import Final

# In which a task waits for the lock of a folder or file (fs/namei.c, readdir.c, dcache.c, xfs;
# open.c, utimes.c, xattr.c, namespace.c for who changes it; file.c, pipe.c, and the types' file.c
# for who reads and writes). A user holds it by copying from a FUSE file that is never served, in
# any folder that may be opened for reading, or by a long write(2) of a program with SCHED_IDLE on a
# busy CPU (sched(7)), which gets a thousandth of it.
_LOCKING: Final = frozenset({
    "walk_component", "lookup_slow", "lookup_one_unlocked", "lookup_one_len_unlocked",
    "d_alloc_parallel", "d_wait_lookup", "iterate_dir", "wrap_directory_iterator", "path_openat",
    "open_last_lookups", "filename_create", "start_dirop", "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath", "xfs_ilock", "xfs_file_buffered_read", "do_unlinkat", "do_rmdir",
    "vfs_rmdir", "do_renameat2", "lock_rename", "lock_two_directories", "chmod_common",
    "chown_common", "utimes_common", "vfs_utimes", "vfs_setxattr", "vfs_removexattr", "do_truncate",
    "lock_mount", "do_lock_mount", "ext4_buffered_write_iter", "ext4_dio_write_iter",
    "ext4_dio_read_iter", "ext4_file_write_iter", "ext4_fallocate", "ext4_llseek",
    "generic_file_write_iter", "generic_file_llseek_size", "vfs_fallocate", "xfs_file_write_iter",
    "xfs_ilock_iocb", "xfs_file_fallocate", "btrfs_inode_lock", "btrfs_file_write_iter",
    "btrfs_fallocate", "__fdget_pos", "fdget_pos", "shmem_fallocate", "shmem_file_write_iter",
    "shmem_file_llseek", "super_lock", "iterate_supers", "ep_show_fdinfo",
})  # fmt: skip
# For the server of a FUSE file system (fs/fuse), a process of this host: no signal ends that where
# the server has said that it knows no interrupts.
OF_FUSE: Final = ("request_wait_answer", "fuse_", "__fuse")
# For a page of memory that its user serves (userfaultfd(2)), and for the other end of a named pipe
# (fs/pipe.c).
_OF_USERS: Final = ("handle_userfault", "wait_for_partner")
# For a server of files, most of them on the network.
OF_FILE_SERVERS: Final = (
    "rpc_", "__rpc", "nfs", "p9_", "cifs_", "smb2_", "wait_for_response", "ceph_", "ptlrpc", "ll_",
)  # fmt: skip


def waits_for_lock(function: str) -> bool:
    """Whether it means the lock of a folder or file, which any user can hold. Of a function that
    the compiler cut, wchan has a part: `do_lock_mount.part.0`.
    """
    return function.partition(".")[0] in _LOCKING


def waits_for_user(function: str) -> bool:
    """Whether it means what any user can hold for as long as they like: such a lock, or an answer
    of theirs.
    """
    return waits_for_lock(function) or function.startswith((*OF_FUSE, *_OF_USERS))


def waits_for_server(function: str) -> bool:
    """Whether it means a server of files that a user can hold, or that the network has lost."""
    return waits_for_user(function) or function.startswith(OF_FILE_SERVERS)
