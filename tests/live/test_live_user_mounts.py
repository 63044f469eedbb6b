"""A file system that a user mounted says that root owns its files: attacks by that user, and what
root mounted itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosttune.engine.rules.trusted import read_trusted
from hosttune.errors import HosttuneError
from hosttune.facts import Facts
from hosttune.facts.trusted import link_stranger
from hosttune.host.process import locate
from hosttune.host.processes.code_owner import owner_of_code, owner_of_file
from hosttune.host.reading.live import LiveReader
from hosttune.host.reading.rooted import RootReader
from hosttune.host.writing import lock
from hosttune.host.writing.output import open_stream, save
from hosttune.measure.bench import scratch
from hosttune.measure.bench.read_python import user_python
from hosttune.resources.storage.fstab_places import look_at_places
from hosttune.values import ABSENT, Unreadable
from tests.live.namespace import ROOT, loop_disk, own_etc, passes, run

HERE = __file__
EVE, BOB = 54311, 54312


@pytest.fixture
def folder():
    """A folder that everybody may enter, outside of those that pytest keeps for root."""
    path = Path(tempfile.mkdtemp(prefix="hosttune-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@contextlib.contextmanager
def mirror(source: Path, target: Path, uid: int = EVE) -> Iterator[Path]:
    """`source` as a FUSE file system of a user, with the owners that it has there."""
    target.mkdir()
    os.chown(target, uid, uid)
    words = (sys.executable, Path(HERE).with_name("fuse_mirror.py"), source, target, str(uid))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            assert server.stdout.readline() == "mounted\n"
            yield target
        finally:
            run("umount", "--lazy", target)
            server.wait(timeout=30)


def tree_of_root(folder: Path) -> Path:
    """A program, a policy and data, all of them root's."""
    source = folder / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin/python").write_text("#!/bin/sh\nid -u\n")
    (source / "bin/python").chmod(0o755)
    (source / "lib/python3/lib-dynload").mkdir(parents=True)
    (source / "lib/python3/os.py").touch()  # Python looks no further for its library
    (source / "policy.yaml").write_text("max_risk: low\n")
    (source / "data").mkdir()
    return source


def refusal(act) -> str:
    with pytest.raises(HosttuneError) as raised:
        act()
    return raised.value.message


def test_files_on_the_fuse_mount_of_a_user_are_that_users(folder):
    passes(HERE, "fuse", folder)


def scenario_fuse(folder: Path) -> None:
    """In a sticky folder, and on a folder of eve's own in one of root's."""
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    source = tree_of_root(folder)
    reader = LiveReader()
    for target in (folder / "tmp/mount", folder / "eve"):
        with mirror(source, target) as mount:
            python, policy = f"{mount}/bin/python", f"{mount}/policy.yaml"
            assert os.stat(python).st_uid == 0  # so it says
            assert owner_of_code(python) == owner_of_file(python) == EVE
            assert locate(python) is ABSENT
            assert user_python(python, str(folder)).uid == EVE
            assert reader.stat(policy).uid == EVE
            assert f"uid {EVE}" in link_stranger(reader, policy)
            words = f"file system mounted by uid {EVE}"
            assert words in refusal(lambda policy=policy: read_trusted(
                reader, policy, is_local=True, is_required=True))  # fmt: skip
            assert words in refusal(lambda mount=mount: save(f"{mount}/data/report.json", b""))
            assert words in refusal(lambda mount=mount: open_stream(f"{mount}/data/watch"))


def test_what_root_mounted_itself_is_as_it_says(folder):
    passes(HERE, "of_root", folder)


def scenario_of_root(folder: Path) -> None:
    source = tree_of_root(folder)
    with mirror(source, folder / "mount", 0) as mount:
        assert owner_of_code(f"{mount}/bin/python") == 0
        assert locate(f"{mount}/bin/python") == f"{mount}/bin/python"
        assert read_trusted(LiveReader(), f"{mount}/policy.yaml", is_local=True, is_required=True)[
            1
        ]
    os.chown(source / "policy.yaml", BOB, BOB)
    with mirror(source, folder / "other", 0) as mount:
        assert LiveReader().stat(f"{mount}/policy.yaml").uid == BOB


def test_owner_of_data_is_who_mounted_it(folder):
    passes(HERE, "data", folder)


def scenario_data(folder: Path) -> None:
    """Else eve would choose as whom her data are decoded."""
    source = tree_of_root(folder)
    os.chown(source / "data", BOB, BOB)
    with mirror(source, folder / "mount") as mount:
        assert user_python("/usr/bin/python3", f"{mount}/data").uid == EVE
    assert user_python("/usr/bin/python3", f"{source}/data").uid == BOB


def test_image_on_a_mount_of_a_user_is_judged_by_its_own_owners(folder):
    passes(HERE, "image", folder)


def scenario_image(folder: Path) -> None:
    """Whoever made the image available is who unpacked it; what is mounted in it later is not."""
    source = tree_of_root(folder)
    with mirror(source, folder / "image") as image:
        reader = RootReader(str(image))
        assert reader.stat("/policy.yaml").uid == 0
        run("mount", "--bind", source, image / "bin")
        assert reader.stat("/bin/policy.yaml").uid == 0
        run("umount", image / "bin")
        del reader  # it holds the image open, which keeps the server at work


def test_a_stick_belongs_to_whom_it_was_mounted_for(folder):
    passes(HERE, "stick", folder)


def scenario_stick(folder: Path) -> None:
    """As udisks2 mounts it, and mount(8) by an entry of fstab with `user`. libmount notes it in
    /run/mount/utab.
    """
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/media")
    for options, place, uid in (
        ("uhelper=udisks2", "/media/daemon/A stick", 1),
        ("uhelper=udisks2", "/media/shared", 65534),
        ("user=daemon", f"{folder}/image", 1),
        ("mode=755", f"{folder}/disk", 0),
    ):
        Path(place).mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", f"nosuid,nodev,mode=755,{options}", "tmpfs", place)
        shutil.copytree(tree_of_root(Path(place)), f"{place}/copy")
        assert owner_of_code(f"{place}/copy/bin/python") == uid, place
        run("umount", place)


def test_mount_in_the_place_of_a_scratch_folder_gets_no_copies(folder):
    passes(HERE, "scratch", folder)


def scenario_scratch(folder: Path) -> None:
    """It says that it is root's, closed and empty."""
    mkdir = os.mkdir

    def exchanged(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        run("mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", folder / name)

    os.mkdir = exchanged
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    mark = scratch.ScratchMark("token", f"{folder}/copies", 1, "1", "boot")
    try:
        assert "was exchanged" in refusal(lambda: scratch._make_folder(parent, "copies", mark))
    finally:
        os.mkdir = mkdir


BROKEN = """
import errno, sys, time
sys.path.insert(0, sys.argv[1])
import fuse_mirror
class Broken(fuse_mirror.Mirror):
    def answer(self, what, node, body):
        if what == fuse_mirror.GETATTR or what == fuse_mirror.LOOKUP:
            time.sleep(int(sys.argv[2]))
            raise OSError(errno.EIO, "")
        return super().answer(what, node, body)
fuse_mirror.Mirror = Broken
fuse_mirror.serve(*sys.argv[3:])
"""


@contextlib.contextmanager
def broken(target: Path, after_s: int = 0, mode: str = "40000") -> Iterator[None]:
    """A FUSE file system of a user that says of everything that it cannot be read, and takes its
    time.
    """
    words = (
        sys.executable,
        "-c",
        BROKEN,
        Path(HERE).parent,
        str(after_s),
        target,
        target,
        str(EVE),
        mode,
    )
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            assert server.stdout.readline() == "mounted\n"
            yield
        finally:
            server.kill()
            server.wait(timeout=30)
            run("umount", "--lazy", target)


def test_user_who_mounts_errors_over_a_disk_does_not_make_it_a_dead_one(folder):
    passes(HERE, "errors", folder)


def scenario_errors(folder: Path) -> None:
    """At the place of the disk, and at a folder above it; also if that comes after the look at the
    mount table.
    """
    own, target = folder / "eve", folder / "eve/disk"
    own.mkdir()
    with loop_disk(folder / "image", "mkfs.ext4", "-q") as disk:
        target.mkdir()
        run("mount", disk, target)
        for place in (own, target):
            os.chown(place, EVE, EVE)
        for place in (target, own):
            before = LiveReader()
            table = before.read("/proc/self/mountinfo")

            class Early(LiveReader):
                def read(self, path, table=table):
                    return table if path == "/proc/self/mountinfo" else super().read(path)

            with broken(place):
                for reader in (LiveReader(), Early()):
                    answer = reader.stat(str(target))
                    assert isinstance(answer, Unreadable)
                    assert "Input/output error" in answer.reason
                    (found,) = (
                        one
                        for one in Facts(reader).stopped.filesystems
                        if one.target == str(target)
                    )
                    assert found.stopped == ""
        run("umount", target)


def test_what_a_user_mounts_over_a_place_of_fstab_is_not_waited_for(folder):
    passes(HERE, "silent", folder)


def scenario_silent(folder: Path) -> None:
    """At the place, and at a folder above it: a server that never answers held every command for
    ever.
    """
    own, target = folder / "eve", folder / "eve/disk"
    own.mkdir()
    etc = own_etc(folder)
    with loop_disk(folder / "image", "mkfs.ext4", "-q") as disk:
        target.mkdir()
        (etc / "fstab").write_text(f"{disk} {target} ext4 defaults,nofail 0 2\n")
        run("mount", disk, target)
        for place in (own, target):
            os.chown(place, EVE, EVE)
        for place in (target, own):
            with broken(place, 300):
                facts = Facts(LiveReader())
                (entry,) = facts.fstab.entries
                assert entry.path == str(target)
                assert facts.mounts.expected[0].below == ""
                assert tuple(look_at_places(facts)) == ()
                assert [
                    one.stopped for one in facts.stopped.filesystems if one.target == str(target)
                ] == [""]
        run("umount", target)


def test_what_a_user_mounts_under_a_name_that_is_looked_for_is_not_waited_for(folder):
    passes(HERE, "names", folder)


def scenario_names(folder: Path) -> None:
    """A segment of shared memory as NCCL names it, and the folder of Ray."""
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/dev/shm")
    for name in ("nccl-abcdef", "nccl-ghijkl"):
        Path(f"/dev/shm/{name}").write_bytes(
            b"x" * 8192
        )  # of a tmpfs in which nothing is used no name is asked for
        os.chown(f"/dev/shm/{name}", EVE, EVE)
    ray = Path("/tmp/ray")  # no file system over /tmp, where these tests may be
    is_new = not ray.exists()
    ray.mkdir(exist_ok=True)
    try:
        with broken(Path("/dev/shm/nccl-abcdef"), 300, "100000"), broken(ray, 300):
            facts = Facts(LiveReader())
            assert [one.name for one in facts.shm.files] == ["nccl-ghijkl"]
            assert "Ray" not in [one.program for one in facts.spills.all]
    finally:
        if is_new:
            ray.rmdir()


LOOK = """
import sys
from hosttune.host.reading import late_mounts
from hosttune.host.writing import lock
from hosttune.host.reading import named
from hosttune.host.console import leave
from hosttune.host.reading.gathered import list_files
from hosttune.host.reading.live import LiveReader
late_mounts.ANSWER_S = named.ANSWER_S = 1.0
named.served_mounts = lambda: ()  # mounted after the look at the mount table
with lock.hold_lock(sys.argv[2]):
    print(LiveReader().stat(sys.argv[1] + "/file"))
    print(*list_files([sys.argv[1]]))
leave(0)
"""


def test_command_ends_where_a_server_takes_a_request_and_never_answers(folder):
    passes(HERE, "ends", folder)


def scenario_ends(folder: Path) -> None:
    """No signal ends such a wait, and no process ends in which a thread waits so. Nor is an output
    or a lock kept.
    """
    (folder / "eve").mkdir()
    os.chown(folder / "eve", EVE, EVE)
    with broken(folder / "eve", 300):
        words = (sys.executable, "-c", LOOK, folder / "eve", folder / "lock")
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
        )
        assert done.stdout.count("gives no answer") == 2, done.stdout + done.stderr
        with lock.hold_lock(str(folder / "lock")):
            pass
