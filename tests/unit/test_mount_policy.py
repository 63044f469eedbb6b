"""Which trees that something ages by access time reach a mount."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.resources.storage.mount_policy import find_aged

BTRFS = (("0:28", "/@", "/"), ("0:28", "/@home", "/home"), ("0:28", "/", "/mnt/all"))
BOUND = (("8:1", "/", "/"), ("8:17", "/", "/data"), ("8:17", "/scratch", "/scratch"))


def test_mounts_upon_each_other_are_looked_at_up_to_a_limit():
    every = tuple(SimpleNamespace(device=f"8:{n}", root="/", target="/data") for n in range(65))
    facts = SimpleNamespace(
        reader=SimpleNamespace(persistent_only=False), mounts=SimpleNamespace(all=every)
    )
    found = find_aged("/data", SimpleNamespace(fields={"atime": "noatime"}), facts)
    assert (found.by, found.unknown) == ((), "more than 64 file systems are mounted at /data")


@pytest.mark.parametrize(
    ("mounts", "target", "tree", "is_aged"),
    [
        (BTRFS, "/home", "/tmp", False),  # a tree of another subvolume
        (BTRFS, "/", "/tmp", True),
        (BTRFS, "/home", "/home/x/cache", True),
        (BTRFS, "/home", "/", True),
        (BTRFS, "/home", "/mnt/all/@home/x", True),
        (BTRFS, "/home", "/mnt/all/@/tmp", False),
        (BTRFS, "/mnt/all", "/tmp", True),
        (BOUND, "/scratch", "/data/scratch/x", True),
        (BOUND, "/scratch", "/data/other", False),
        (BOUND, "/data", "/scratch/x", True),
        (BOUND, "/data", "/tmp", False),
    ],
)
def test_mount_is_aged_by_trees_that_show_its_files(mounts, target, tree, is_aged):
    every = tuple(
        SimpleNamespace(device=device, root=root, target=place) for device, root, place in mounts
    )
    facts = SimpleNamespace(
        reader=SimpleNamespace(persistent_only=False),
        mounts=SimpleNamespace(all=every),
        ageing=SimpleNamespace(
            rules=(SimpleNamespace(path=tree, uses_atime=True, source="a.conf:1"),), hidden=()
        ),
    )
    found = find_aged(target, SimpleNamespace(fields={"atime": "noatime"}), facts)
    assert found.by == (("a.conf:1",) if is_aged else ())


IMAGE = (
    ("UUID=1", "btrfs", ("subvol=@",), "/"),
    ("UUID=1", "btrfs", ("subvol=/@home", "compress=zstd"), "/home"),
    ("UUID=2", "xfs", ("defaults",), "/data"),
    ("/data/scratch", "none", ("bind",), "/scratch"),
    ("/scratch/a", "none", ("bind",), "/mnt/a"),
    ("UUID=1", "btrfs", (), "/mnt/all"),
)


@pytest.mark.parametrize(
    ("target", "tree", "is_aged"),
    [
        ("/home", "/tmp", False),
        ("/home", "/home/x", True),
        ("/home", "/mnt/all/@home/x", True),
        ("/data", "/tmp", False),
        ("/data", "/scratch/x", True),  # through a bind mount that no kernel shows yet
        ("/data", "/mnt/a", True),  # through two
    ],
)
def test_fstab_of_an_image_tells_which_trees_meet(target, tree, is_aged):
    every = tuple(
        SimpleNamespace(
            source=source, fstype=fstype, options=words, target=place, is_bind="bind" in words
        )
        for source, fstype, words, place in IMAGE
    )
    facts = SimpleNamespace(
        reader=SimpleNamespace(persistent_only=True),
        mounts=SimpleNamespace(all=every),
        ageing=SimpleNamespace(
            rules=(SimpleNamespace(path=tree, uses_atime=True, source="a.conf:1"),), hidden=()
        ),
    )
    found = find_aged(target, SimpleNamespace(fields={"atime": "noatime"}), facts)
    assert found.by == (("a.conf:1",) if is_aged else ())
