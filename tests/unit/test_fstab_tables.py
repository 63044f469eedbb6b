"""The kernel's options by type: what is taken, refused, and told by version."""

from __future__ import annotations

import pytest

from hosttune.facts.storage.fstab_words import GENERIC
from hosttune.resources.storage.fstab_tables import (
    _TABLES,
    KernelAnswer,
    find_reply,
    find_table,
    judge_combination,
    list_names,
)

TAKEN = [
    ("ext4", "errors=remount-ro"), ("ext4", "barrier"), ("ext4", "barrier=1"), ("ext4", "usrjquota="),
    ("ext4", "commit=0x5"), ("ext4", "noatime"), ("ext4", "x-foo=1"), ("ext4", "X-mount.mkdir"), ("ext4", "user=bob"),
    ("ext4", "loop=/dev/loop3"), ("ext4", "mb_optimize_scan=-1"), ("ext4", ""), ("ext4", "resuid=root"),
    ("xfs", "logbsize=256k"), ("xfs", "allocsize=64m"), ("xfs", "allocsize=3m"), ("xfs", "allocsize=1g"), ("xfs", "allocsize=4k"), ("xfs", "attr2"), ("xfs", "dax=inode"), ("xfs", "uquota"),
    ("btrfs", "compress=zstd:15"), ("btrfs", "compress"), ("btrfs", "nossd"), ("btrfs", "discard=async"),
    ("btrfs", "rescue=usebackuproot:nologreplay"), ("btrfs", "subvol=@/x"), ("vfat", "utf8=1"), ("vfat", "umask=0077"),
    ("msdos", "umask=0077"), ("nfs4", "vers=4.2"), ("nfs", "nordirplus"), ("tmpfs", "huge=advise"),
    ("overlay", "lowerdir=/a:/b"), ("fuse.sshfs", "anything=1"), ("auto", "whatever"), ("zfs", "zfsutil"),
    ("cifs", "sec=ntlmssp"), ("smb3", "sec=krb5i"), ("cifs", "cruid=1000"), ("cifs", "mfsymlinks"),
]  # fmt: skip
REFUSED = [
    ("ext4", "commit"), ("ext4", "commit="), ("ext4", "commit=5s"), ("ext4", "errors=foo"), ("ext4", "inode64"),
    ("ext4", "user_xattr=1"), ("ext4", "umask=077"), ("ext4", "nofail=1"), ("ext2", "commit=5"), ("ext3", "delalloc"),
    ("xfs", "nobarrier"), ("xfs", "logbufs=9"), ("xfs", "logbsize=100k"), ("xfs", "allocsize=5"), ("xfs", "allocsize=2k"), ("xfs", "allocsize=6k"), ("xfs", "allocsize=2g"), ("xfs", "discard=async"),
    ("btrfs", "compress=lz4"), ("btrfs", "rescue=x"), ("btrfs", "grpid"), ("btrfs", "commit=-1"), ("btrfs", "subvol="),
    ("vfat", "umask=9"), ("vfat", "user_xattr"), ("nfs", "rsize=1M"), ("nfs4", "vers=5"), ("tmpfs", "discard"),
    ("overlay", "index=1"), ("ext4", "context="),
    ("cifs", "sec=ntlm"), ("smb3", "sec=lanman"),
]  # fmt: skip


@pytest.mark.parametrize(("fstype", "word"), TAKEN)
def test_word_that_the_kernel_takes_is_fine(fstype, word):
    assert find_reply(fstype, word).answer is KernelAnswer.TAKEN


@pytest.mark.parametrize(("fstype", "word"), REFUSED)
def test_word_that_the_kernel_refuses_is_told_with_the_way_out(fstype, word):
    said = find_reply(fstype, word)
    assert said.answer is KernelAnswer.REFUSED
    assert said.why
    assert said.todo


@pytest.mark.parametrize(
    ("fstype", "word", "answer"),
    [
        ("ext4", "noacl", KernelAnswer.GONE), ("btrfs", "inode_cache", KernelAnswer.GONE), ("tmpfs", "noswap", KernelAnswer.LATER),
        ("xfs", "lifetime", KernelAnswer.LATER), ("ext4", "frobnicate", KernelAnswer.UNKNOWN), ("ext4", "noatim", KernelAnswer.UNKNOWN),
    ],
)  # fmt: skip
def test_word_of_some_versions_or_of_none_that_is_known_is_no_refusal(fstype, word, answer):
    assert find_reply(fstype, word).answer is answer


@pytest.mark.parametrize(
    ("fstype", "options", "is_fine"),
    [
        ("xfs", "sunit=8", False), ("xfs", "sunit=8,swidth=8", True), ("overlay", "lowerdir=/a", False),
        ("overlay", "lowerdir=/a:/b", True), ("overlay", "lowerdir=/a,upperdir=/u", False),
        ("overlay", "lowerdir=/a,upperdir=/u,workdir=/w", True), ("btrfs", "nologreplay", False),
        ("btrfs", "nologreplay,ro", True), ("xfs", "norecovery", False), ("ext4", "norecovery", True),
        ("ext4", "journal_async_commit", False), ("ext4", "journal_async_commit,data=writeback", True),
    ],
)  # fmt: skip
def test_words_that_need_each_other_are_told(fstype, options, is_fine):
    said = judge_combination(fstype, tuple(options.split(",")))
    assert said.answer is (KernelAnswer.TAKEN if is_fine else KernelAnswer.REFUSED)
    assert is_fine or (said.why and said.todo)


@pytest.mark.parametrize("fstype", _TABLES)
def test_table_of_a_type_is_read_whole_and_hides_no_word_of_mount(fstype):
    found = find_table(fstype)
    assert found
    assert not {name for name in found if set(name) & set("={}<>?[]|")}
    assert list_names(fstype) >= found.keys() | GENERIC
    if fstype not in ("nfs", "f2fs"):  # they have words of mount(8) of their own
        assert not found.keys() & (GENERIC - {"quota"})
