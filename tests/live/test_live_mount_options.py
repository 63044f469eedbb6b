"""The tables of mount options against the kernel of this machine: each word mounted, or refused, as
they say.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.namespace import passes, run

pytestmark = pytest.mark.live

EXT4 = [
    "defaults",
    "bsddf",
    "minixdf",
    "grpid",
    "nogrpid",
    "errors=remount-ro",
    "errors=panic",
    "nouid32",
    "oldalloc",
    "orlov",
    "noload",
    "norecovery",
    "bh",
    "nobh",
    "commit=5",
    "commit=0x5",
    "min_batch_time=0",
    "nojournal_checksum",
    "data=ordered",
    "data=writeback",
    "data_err=ignore",
    "barrier",
    "barrier=0",
    "nobarrier",
    "i_version",
    "stripe=128",
    "nodelalloc",
    "block_validity",
    "auto_da_alloc=0",
    "discard",
    "nodiscard",
    "init_itable",
    "init_itable=10",
    "max_dir_size_kb=64",
    "nombcache",
    "mblk_io_submit",
    "nocheck",
    "journal_ioprio=3",
    "resuid=0",
    "x-foo",
    "X-bar=1",
    "comment=x",
    "noatime",
    "nodiratime",
    "lazytime",
    "ro=1",
    "sync=1",
    "user",
    "users,exec",
    "nofail",
    "_netdev",
    "strictatime",
    "commit",
    "commit=",
    "commit=5s",
    "commit=-1",
    "errors",
    "errors=foo",
    "errors=remount-rw",
    "inode64",
    "inode32",
    "umask=077",
    "uid=1000",
    "mode=0755",
    "nobootwait",
    "noatim",
    "defualts",
    "defaults;nofail",
    "user_xattr=1",
    "noatime=1",
    "nofail=1",
    "nodev=1",
    "compress=zstd",
    "ssd",
    "subvol=/",
    "size=1m",
    "noacl",
    "nouser_xattr",
    "attr2",
    "logbufs=8",
    "allocsize=64m",
    "largeio",
    "data=foo",
    "barrier=x",
    "utf8",
    "discard=async",
    "frobnicate",
    "0",
    "2",
]
TMPFS = [
    "defaults",
    "size=1m",
    "size=10%",
    "nr_inodes=1k",
    "mode=1777",
    "uid=0",
    "gid=0",
    "huge=never",
    "mpol=local",
    "inode32",
    "inode64",
    "noswap",
    "nosuid,nodev",
    "0",
    "discard",
    "commit=5",
    "errors=remount-ro",
    "barrier",
    "acl",
    "user_xattr",
    "data=ordered",
    "umask=077",
    "huge=foo",
    "noatime=1",
    "utf8",
    "swap",
    "sw",
]
OVERLAY = [
    "lowerdir=/usr:/etc",
    "lowerdir=/usr:/etc,index=off",
    "lowerdir=/usr:/etc,metacopy=off",
    "lowerdir=/usr:/etc,xino=auto",
    "lowerdir=/usr:/etc,userxattr",
    "lowerdir=/usr:/etc,default_permissions",
    "defaults",
    "lowerdir=/usr",
    "upperdir=/x",
    "lowerdir=/usr:/etc,index=1",
    "lowerdir=/usr:/etc,acl",
    "lowerdir=/usr:/etc,frobnicate",
]


@pytest.mark.parametrize("name", ["ext4_takes_what_its_table_says", "tmpfs_and_overlay_do"])
def test_scenario_in_a_private_namespace_passes(name, tmp_path):
    passes(__file__, name, tmp_path)


def scenario_ext4_takes_what_its_table_says(folder: Path) -> None:
    image, place = folder / "image", folder / "place"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mkfs.ext4", "-q", "-F", image)
    assert differing("ext4", EXT4, image, place, "loop") == []


def scenario_tmpfs_and_overlay_do(folder: Path) -> None:
    place = folder / "place"
    place.mkdir()
    assert differing("tmpfs", TMPFS, "tmpfs", place) == []
    assert differing("overlay", OVERLAY, "overlay", place) == []


def differing(
    fstype: str, lists: list[str], source: object, place: Path, more: str = ""
) -> list[tuple[str, bool]]:
    """The option lists that lint and the kernel do not agree on, with whether the kernel took
    them.
    """
    import subprocess

    from hosttune.facts.storage.fstab_lines import parse
    from hosttune.resources.storage.fstab_lint import RemarkLevel, lint

    found = []
    for options in lists:
        words = ",".join(filter(None, (options, more)))
        argv = (
            "mount",
            "--no-mtab",
            "--types",
            fstype,
            "--options",
            words,
            str(source),
            str(place),
        )
        is_taken = (
            subprocess.run(argv, check=False, capture_output=True, timeout=30).returncode == 0
        )
        if is_taken:
            run("umount", "--no-mtab", place)
        line = f"{'LABEL=x' if fstype == 'ext4' else fstype} /place {fstype} {options} 0 0\n"
        said = [one for one in lint(parse(line.encode())) if one.level is not RemarkLevel.NOTE]
        is_fine = not [one for one in said if one.code != "option-by-version"] and not (
            said and not is_taken
        )
        if is_fine is not is_taken and not (said and said[0].code == "option-by-version"):
            found.append((options, is_taken))
    return found
