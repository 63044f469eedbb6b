"""Facts about shared memory."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containment import INITIAL
from hosttune.facts.limits.shm import size_of
from hosttune.host.door import Process, Space, Stat
from hosttune.values import TooLong
from tests.unit.fake_reader import FakeReader

NOW = 1_750_000_000.0
DOCKER = "/system.slice/docker-" + "ab" * 32 + ".scope"


def stat(uid, size, hours):
    return Stat("file", 0o600, uid, 0, size, int((NOW - hours * 3600) * 1e9), 1, 1, 1)


def job(pid, cgroup=DOCKER):
    return Process(pid, "python", "root", ("python",), 1, 0, ("/dev/nvidia0",), cgroup, 1.0)


def shm(files=(), processes=(), **options):
    held = {
        "/dev/nvidia0": "",
        "/proc/1/mountinfo": "9 1 0:26 / /dev/shm rw - tmpfs tmpfs rw\n",
        **dict(files),
    }
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()}
    return Facts(FakeReader(held, links=links, processes=tuple(processes), now=NOW, **options)).shm


@pytest.mark.parametrize(
    ("options", "size"),
    [
        (("rw", "size=65536k"), 65536 << 10),
        (("size=1g",), 1 << 30),
        (("rw", "inode64"), None),
        (("size=2T",), 2 << 40),
        (("size=1g", "size=2g"), 2 << 30),
        (("size=1g", "size=50%"), None),
        (("size=1gb",), None),
    ],
)
def test_size_of_options_in_bytes(options, size):
    assert size_of(options) == size


def test_files_are_those_of_nccl_and_pytorch():
    stats = {
        "/dev/shm/nccl-AbCdEf": stat(1000, 100, 30),
        "/dev/shm/torch_12_99": stat(1001, 5, 2),
        "/dev/shm/secret": stat(1, 9, 9),
    }
    seen = shm(stats=stats).files
    assert [(file.name, file.owner, file.size_bytes, file.age_hours) for file in seen] == [
        ("nccl-AbCdEf", 1000, 100, 30.0), ("torch_12_99", 1001, 5, 2.0),
    ]  # fmt: skip


def test_files_of_others_hide_no_segment():
    """Names that come before it are of no program; of too many that are called so nothing is
    told.
    """
    stats = {f"/dev/shm/a{number}": stat(1003, 0, 1) for number in range(2001)}
    stats["/dev/shm/nccl-AbCdEf"] = stat(1000, 100, 30)
    assert [file.name for file in shm(stats=stats).files] == ["nccl-AbCdEf"]
    stats |= {f"/dev/shm/nccl-{number:06}": stat(1003, 0, 1) for number in range(2000)}
    with pytest.raises(UnknownFact, match="more than 2000"):
        assert shm(stats=stats).files


def test_gpu_processes_of_one_container_hide_no_other(monkeypatch):
    small = {"/proc/999/mountinfo": "9 1 0:77 / /dev/shm rw - tmpfs shm rw,size=65536k\n"}
    jobs = [job(pid) for pid in (*range(5, 105), 999)]
    answered = FakeReader.link
    monkeypatch.setattr(
        FakeReader, "link",
        lambda self, path: "mnt:[4]" if path.endswith("/ns/mnt") and "/999/" not in path else answered(self, path),
    )  # fmt: skip
    assert shm(small, jobs).smallest_in == "python (999)"
    monkeypatch.setattr(FakeReader, "link", answered)
    with pytest.raises(UnknownFact, match="more than 64"):
        assert shm(small, jobs).containers


def test_containers_have_a_mount_of_their_own():
    mounts = {
        "/proc/5/mountinfo": "9 1 0:77 / /dev/shm rw - tmpfs shm rw,size=65536k\n",
        "/proc/6/mountinfo": "9 1 0:78 / /dev/shm rw - tmpfs shm rw,size=8388608k\n",
        "/proc/7/mountinfo": "9 1 0:26 / /dev/shm rw - tmpfs tmpfs rw\n",
    }
    seen = shm(mounts, [job(5), job(6), job(7), job(8)])
    assert [one.pid for one in seen.containers] == [5, 6]
    assert (seen.smallest_bytes, seen.smallest_in) == (64 << 20, "python (5)")


def test_container_that_makes_its_mount_table_too_long_hides_that_of_no_other():
    mounts = {"/proc/6/mountinfo": "9 1 0:78 / /dev/shm rw - tmpfs shm rw,size=65536k\n"}
    seen = shm(
        mounts, [job(5), job(6)], unreadable={"/proc/5/mountinfo": TooLong("larger than 1 MiB")}
    )
    assert seen.smallest_in == "python (6)"


def test_containers_unreadable_process_is_unknown():
    seen = shm(processes=[job(5)], unreadable={"/proc/5/mountinfo": "no"})
    with pytest.raises(UnknownFact, match="no"):
        assert seen.containers


def test_size_without_a_mount_is_unknown():
    seen = shm({"/proc/self/mountinfo": "9 1 0:1 / / rw - ext4 /dev/a rw\n"})
    with pytest.raises(UnknownFact, match="nothing is mounted at /dev/shm"):
        assert seen.size_bytes


def test_files_with_holes_hold_no_more_than_is_used():
    stats = {
        "/dev/shm/nccl-AbCdEf": stat(1000, 100, 30),
        "/dev/shm/nccl-BbCdEf": stat(1001, 1 << 40, 30),
    }
    files = {"/proc/self/mountinfo": "9 1 0:26 / /dev/shm rw - tmpfs tmpfs rw\n"}
    seen = shm(files, stats=stats, spaces={"/dev/shm": Space(1000, 400, 1, 1)}).files
    assert [file.size_bytes for file in seen] == [100, 500]


def test_where_nothing_is_used_no_name_is_asked_for():
    """As of a sosreport, whose list of what users may name there does not count."""
    files = {"/proc/self/mountinfo": "9 1 0:26 / /dev/shm rw - tmpfs tmpfs rw\n"}
    stats = {f"/dev/shm/nccl-{number:06}": stat(1003, 0, 1) for number in range(2001)}
    assert shm(files, stats=stats, spaces={"/dev/shm": Space(1000, 1000, 1, 1)}).files == ()
    with pytest.raises(UnknownFact, match="more than 2000"):
        _ = shm(files, stats=stats, spaces={"/dev/shm": Space(1000, 400, 1, 1)}).files
