"""Types of file systems as they stand in the third field: what Linux has, what systemd takes for
one of the network.

The names are those of the kernel (fs/*/, `register_filesystem`), of mount helpers
(/sbin/mount.NAME) and of FUSE.
"""

from __future__ import annotations

from hosttune.facts.storage.mounts import LOCAL_TYPES, NETWORK_TYPES

_DISKS = """
vfat msdos exfat ntfs ntfs3 ntfs-3g lowntfs-3g fuseblk reiserfs reiser4 hfs hfsplus apfs udf iso9660
ufs minix nilfs2
jfs affs befs bfs efs hpfs qnx4 qnx6 romfs cramfs squashfs erofs sysv v7 vxfs zonefs adfs omfs ocfs2
gfs2 gfs
fuse.ntfs fuse.ntfs-3g fuse.exfat fuse.ext2 fuse.apfs crypto_LUKS jffs2 ubifs yaffs2 logfs
"""
_MEMORY = """
tmpfs ramfs overlay overlayfs aufs unionfs proc sysfs devpts devtmpfs devfs cgroup cgroup2 cpuset
debugfs tracefs
hugetlbfs securityfs configfs efivarfs bpf mqueue pstore binfmt_misc rpc_pipefs nfsd fusectl
selinuxfs smackfs autofs
ecryptfs resctrl binder binderfs functionfs ffs gadgetfs usbfs usbdevfs spufs ipathfs dlmfs nsfs
pidfs rootfs xenfs
apparmorfs subfs supermount shiftfs incremental-fs
"""
_PROGRAMS = """
fuse zfs bcache mergerfs mhddfs unionfs-fuse encfs cryfs gocryptfs bindfs lxcfs squashfuse fuseiso
archivemount
overlayfs-fuse fuse-overlayfs ciopfs crypt crypt.LUKS vdisk zfsutil
"""
# Shares that a hypervisor gives, which need no network.
OF_HYPERVISORS = frozenset({"9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fuse.vmhgfs-fuse"})
# What systemd orders after the network by its type alone, `fuse.` in front of it or not:
# fstype_is_network() of src/basic/mountpoint-util.c, with the set @network of
# src/basic/filesystem-sets.py.
_REMOTE = """
afs ceph cifs gfs gfs2 glusterfs lustre ncp ncpfs nfs nfs4 ocfs2 pvfs2 smb3 smbfs sshfs
orangefs davfs
"""
ON_DISK = LOCAL_TYPES | frozenset(_DISKS.split())
_SYSTEMD_REMOTE = frozenset(_REMOTE.split())
MOVES = frozenset({"bind", "rbind", "move", "remount"})
PROPAGATION = frozenset({
    "shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable",
})  # fmt: skip
NO_TYPE = frozenset({"none", "bind", "rbind", "move"})
KNOWN = (
    ON_DISK | NETWORK_TYPES | OF_HYPERVISORS | _SYSTEMD_REMOTE | {"swap", "auto", "none"}
    | frozenset(_MEMORY.split()) | frozenset(_PROGRAMS.split())
)  # fmt: skip
# Types that no supported kernel has, by the version that took them out, and what serves the same
# source.
GONE_TYPES = {"smbfs": ("2.6.37", "cifs"), "ncpfs": ("4.17", "")}
_PREFIXES = ("fuse.", "fuseblk.")


def is_known(fstype: str) -> bool:
    """Whether a Linux, or a program for it that is known here, has this type."""
    return fstype in KNOWN or fstype.startswith(_PREFIXES) or f"fuse.{fstype}" in NETWORK_TYPES


# Of these, what Ubuntu 22.04's systemd 249 may not have yet (systemd/systemd#15198); 252 has them.
LATELY_REMOTE = frozenset({"orangefs", "davfs"})


def is_remote_to_systemd(fstype: str, words: frozenset[str]) -> bool:
    """Whether systemd waits for the network before it mounts this, and lets a boot go on without
    it.
    """
    return "_netdev" in words or fstype.removeprefix("fuse.") in _SYSTEMD_REMOTE


def needs_network(fstype: str) -> bool:
    """Whether its files come from another machine, as far as the type tells: also by another name
    of its helper.
    """
    return fstype in NETWORK_TYPES or f"fuse.{fstype}" in NETWORK_TYPES or fstype in _SYSTEMD_REMOTE
