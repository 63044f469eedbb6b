"""Where the scratch folder may lie."""

from types import SimpleNamespace

import pytest

from hosttune.choices.scratch import choose


def mount(target, fstype="ext4", *, is_network=False, is_read_only=False):
    return SimpleNamespace(target=target, fstype=fstype, is_network=is_network, is_read_only=is_read_only)


MOUNTS = SimpleNamespace(
    visible=(
        mount("/"), mount("/home", "nfs4", is_network=True), mount("/home/local", "xfs"), mount("/tmp", "tmpfs"),
        mount("/cdrom", "squashfs", is_read_only=True),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("/scratch", ""),
        ("/home/local/scratch", ""),
        ("/homes/scratch", ""),
        ("/home/scratch", "lies on the network (/home is nfs4)"),
        ("/tmp", "lies in memory (/tmp is tmpfs)"),
        ("/cdrom/scratch", "is read-only (/cdrom)"),
        ("scratch", "no plain absolute path"),
        ("/scratch/", "no plain absolute path"),
        ("/scratch/../etc", "no plain absolute path"),
        ("/scratch; reboot", "no plain absolute path"),
        ("/scratch\n", "no plain absolute path"),
    ],
)
def test_scratch_lies_on_a_local_disk(folder, problem):
    chosen = choose(SimpleNamespace(mounts=MOUNTS), {"folder": folder})
    assert problem in chosen.problem
    assert (chosen.folder == folder) is (problem == "")
