"""Words of option lists: mount(8), systemd.mount(5), ext4(5), xfs(5), btrfs(5), tmpfs(5) and the kernel's documents.

Used to tell a misspelt word from one that is merely rare, so it holds old words, too.
"""

from __future__ import annotations

_GENERIC = """
defaults rw ro suid nosuid dev nodev exec noexec sync async dirsync auto noauto user nouser users owner group
remount bind rbind move atime noatime relatime norelatime strictatime nostrictatime diratime nodiratime lazytime
nolazytime mand nomand silent loud iversion noiversion symfollow nosymfollow loop nofail fail _netdev private shared
slave unbindable rprivate rshared rslave runbindable
"""
# Of all types; of ext2 to ext4, xfs, btrfs, tmpfs, f2fs and vfat; of tools.
_NAMED = """
context fscontext defcontext rootcontext seclabel offset sizelimit helper uhelper comment pri sw errors uid gid mode
umask dmask fmask

acl noacl user_xattr nouser_xattr data data_err commit barrier nobarrier journal_async_commit journal_checksum
nojournal_checksum journal_dev journal_path journal_ioprio noload norecovery discard nodiscard quota noquota
usrquota grpquota prjquota usrjquota grpjquota jqfmt stripe delalloc nodelalloc max_batch_time min_batch_time abort
debug resuid resgid sb inode_readahead_blks auto_da_alloc noauto_da_alloc nombcache init_itable noinit_itable
dioread_lock dioread_nolock nodioread_nolock max_dir_size_kb i_version dax grpid nogrpid bsdgroups sysvgroups
minixdf bsddf check nocheck inlinecrypt block_validity noblock_validity oldalloc orlov nouid32 bh nobh
prefetch_block_bitmaps no_prefetch_block_bitmaps mb_optimize_scan test_dummy_encryption nolock reservation
noreservation mblk_io_submit nomblk_io_submit

allocsize attr2 noattr2 filestreams ikeep noikeep inode32 inode64 largeio nolargeio logbsize logbufs logdev rtdev
nouuid sunit swidth swalloc noalign wsync uquota uqnoenforce gquota gqnoenforce pquota pqnoenforce qnoenforce
noquota osyncisdsync osyncisosync delaylog nodelaylog biosize max_atomic_write lifetime nolifetime

subvol subvolid subvolrootid compress compress-force ssd nossd ssd_spread nossd_spread space_cache nospace_cache
clear_cache autodefrag noautodefrag degraded device flushoncommit noflushoncommit max_inline metadata_ratio datacow
nodatacow datasum nodatasum rescue skip_balance thread_pool treelog notreelog user_subvol_rm_allowed enospc_debug
noenospc_debug fatal_errors inode_cache noinode_cache recovery usebackuproot nologreplay check_int check_int_data
check_int_print_mask alloc_start rescan_uuid_tree fragment ref_verify

size nr_blocks nr_inodes huge mpol noswap swap usrquota_block_hardlimit usrquota_inode_hardlimit
grpquota_block_hardlimit grpquota_inode_hardlimit casefold strict_encoding

background_gc gc_merge nogc_merge disable_roll_forward heap no_heap extent_cache noextent_cache inline_xattr
noinline_xattr inline_data noinline_data inline_dentry noinline_dentry data_flush fsync_mode active_logs alloc_mode
checkpoint compress_algorithm compress_extension compress_chksum compress_mode compress_cache atgc codepage
iocharset utf8 shortname flush quiet showexec tz time_offset uni_xlate allow_utime dos1xfloppy nfs fat usefree
sys_immutable rodir nonumtail conv dotsOK

managed hidepid subset encryption keybits swapfile
"""
GENERIC = frozenset(_GENERIC.split())
KNOWN = GENERIC | frozenset(_NAMED.split())
# Types whose words are known well enough to call another one misspelt.
CHECKED_TYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "vfat"})
UPSTART = frozenset({"bootwait", "nobootwait", "showthrough"})
OPPOSITES = (  # the rarer one first
    ("ro", "rw"), ("suid", "nosuid"), ("dev", "nodev"), ("exec", "noexec"), ("sync", "async"), ("auto", "noauto"),
    ("fail", "nofail"), ("diratime", "nodiratime"), ("lazytime", "nolazytime"),
)  # fmt: skip
# What a word switches off, unless that stands behind it (mount(8)).
USER_WORDS = {
    "user": ("exec", "suid", "dev"), "users": ("exec", "suid", "dev"), "owner": ("suid", "dev"),
    "group": ("suid", "dev"),
}  # fmt: skip
_SYSTEMD = """
requires before after wanted-by required-by requires-mounts-for wants-mounts-for device-bound automount idle-timeout
device-timeout mount-timeout makefs growfs pcrfs validatefs rw-only verity
"""
SYSTEMD = frozenset(f"x-systemd.{name}" for name in _SYSTEMD.split())
