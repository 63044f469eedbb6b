"""Where the scratch folder may lie."""

from types import SimpleNamespace

import pytest

from hosttune.choices.scratch import choose
from hosttune.host.door import Stat
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader


def mount(target, fstype="ext4", *, is_network=False, is_read_only=False, options=("rw",)):
    return SimpleNamespace(
        target=target,
        fstype=fstype,
        is_network=is_network,
        is_read_only=is_read_only,
        options=options,
    )


MOUNTS = SimpleNamespace(
    visible=(
        mount("/"), mount("/home", "nfs4", is_network=True), mount("/home/local", "xfs"), mount("/tmp", "tmpfs"),
        mount("/cdrom", "squashfs", is_read_only=True), mount("/cold", options=("rw", "noexec")),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("/scratch", ""),
        ("/home/local/scratch", ""),
        ("/homes/scratch", ""),
        ("/home/scratch", "is on the network (/home is nfs4)"),
        ("/tmp", "is in memory (/tmp is tmpfs)"),
        ("/cdrom/scratch", "is read-only (/cdrom)"),
        ("/cold/scratch", "is on a noexec mount (/cold)"),
        ("scratch", "no plain absolute path"),
        ("/scratch/", "no plain absolute path"),
        ("/scratch/../etc", "no plain absolute path"),
        ("/scratch; reboot", "no plain absolute path"),
        ("/scratch\n", "no plain absolute path"),
    ],
)
def test_scratch_lies_on_a_local_disk(folder, problem):
    chosen = choose(SimpleNamespace(mounts=MOUNTS, reader=FakeReader()), {"folder": folder})
    assert problem in chosen.problem
    assert (chosen.folder == folder) is (problem == "")


def folder(mode, uid=0, kind="directory"):
    return Stat(kind, mode, uid, 0, 0, 0, 1, 1, 1)


@pytest.mark.parametrize(
    ("stats", "problem"),
    [
        ({"/data/scratch": folder(0o1777)}, ""),
        ({"/data/scratch": folder(0o755)}, ""),
        (
            {"/data/scratch": folder(0o777)},
            "other users can rename what is in it: sudo chmod +t /data/scratch",
        ),
        ({"/data/scratch": folder(0o775)}, "sudo chmod +t /data/scratch"),
        ({"/data/scratch": folder(0o1777, uid=1001)}, "/data/scratch belongs to uid 1001"),
        ({"/data/scratch": folder(0o777, kind="link")}, "/data/scratch is a link"),
        ({"/data": folder(0o777), "/data/scratch": folder(0o1777)}, "sudo chmod +t /data"),
        (
            {"/data": folder(0o755, uid=1001), "/data/scratch": folder(0o1777)},
            "/data belongs to uid 1001",
        ),
        ({"/data/scratch": Unreadable("not in this record")}, ""),
    ],
)
def test_folder_in_which_one_user_could_replace_what_another_has_is_refused(stats, problem):
    facts = SimpleNamespace(mounts=MOUNTS, reader=FakeReader(dict.fromkeys(stats, ""), stats=stats))
    chosen = choose(facts, {"folder": "/data/scratch"})
    assert problem in chosen.problem
    assert chosen.above == ("" if problem else "/ /data /data/scratch")
