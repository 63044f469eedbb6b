"""Looking at real processes: children that come and go, one that is named, and what cannot be
seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError
from hosttune.host.writing.output import check_writable
from hosttune.measure.gpu.none import NoSampler
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch import looks as looking
from hosttune.measure.watch import memory, process
from hosttune.measure.watch.gpus import jobs_gpus
from hosttune.measure.watch.host import has_smt, read_governor
from hosttune.measure.watch.kept import MOST_BYTES, Kept, content_of
from hosttune.measure.watch.looks import Looks
from hosttune.measure.watch.mounts import MountTable
from hosttune.measure.watch.target import find, put_in_scope
from hosttune.measure.watch.tick import Mounted
from hosttune.measure.watch.tree import Tree

FORK = """
import os, sys, time
sys.stdout.write("up\\n"); sys.stdout.flush(); sys.stdin.readline()
if os.fork() == 0:
    if os.fork() == 0:  # a grandchild whose parent ends at once
        sys.stdout.write(f"{os.getpid()}\\n"); sys.stdout.flush(); sys.stdin.readline()
        end = time.process_time() + 0.3
        while time.process_time() < end: pass
        sys.stdout.write("busy\\n"); sys.stdout.flush(); time.sleep(60)
    time.sleep(0.2); os._exit(0)
os.wait(); time.sleep(60)
"""


@pytest.fixture
def forker():
    child = subprocess.Popen(
        [sys.executable, "-c", FORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    child.stdout.readline()
    yield child
    for pid in [*getattr(child, "more", []), child.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    child.wait()
    child.stdin.close()
    child.stdout.close()


def test_grandchild_stays_of_the_job_after_its_parent_has_ended(forker):
    tree = Tree(forker.pid)
    assert tree.look(1.0).processes == 1
    forker.stdin.write("\n")
    forker.stdin.flush()
    grandchild = int(forker.stdout.readline())
    forker.more = [grandchild]
    assert tree.look(1.0).processes >= 2
    assert grandchild in tree.members
    while (
        tree.members[grandchild].counters.stat.parent in tree.members
    ):  # until another has adopted it
        assert tree.look(1.0)
    forker.stdin.write("\n")
    forker.stdin.flush()
    assert forker.stdout.readline() == "busy\n"
    tick = tree.look(1.0)
    assert grandchild in tree.members
    assert tick.cores >= 0.2
    os.kill(grandchild, 9)
    forker.kill()
    forker.wait()
    tree.look(1.0)
    assert not tree.has_root
    tree.close()


def test_tree_without_lists_of_children_is_found_by_parents(tmp_path):
    def process(pid, parent, group=1, session=1):
        folder = tmp_path / str(pid)
        folder.mkdir()
        rest = f"0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 {pid} 0 0"
        (folder / "stat").write_text(f"{pid} (x) S {parent} {group} {session} {rest}")
        (folder / "io").write_text("rchar: 1\nread_bytes: 2\nwrite_bytes: 3\n")
        (folder / "schedstat").write_text("1 2 3\n")
        (folder / "cmdline").write_text(f"p{pid}")

    for pid, parent in ((100, 1), (102, 101), (101, 100), (200, 1)):
        process(pid, parent)
    process(300, 1, group=100)
    assert sorted(Tree(100, proc=str(tmp_path)).members) == [100, 101, 102]
    (tmp_path / "100" / "stat").write_text(
        (tmp_path / "100" / "stat").read_text().replace(" 1 1 1 ", " 1 100 1 ")
    )
    assert sorted(Tree(100, follows_group=True, proc=str(tmp_path)).members) == [100, 101, 102, 300]


def test_launcher_that_becomes_its_program_under_the_same_name_is_the_main_process(tmp_path):
    for pid, parent, command in (
        (100, 1, "sh\0train"),
        (101, 100, "python\0train"),
        (102, 100, "python\0train"),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(
            f"{pid} (train) S {parent} 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 {pid} 0 0"
        )
        (folder / "cmdline").write_text(command)
    tree = Tree(100, proc=str(tmp_path))
    assert (tree.look(1.0).mains, tree.family.launchers) == (2, {100})
    (tmp_path / "100" / "cmdline").write_text("python\0train")
    assert (tree.look(1.0).mains, tree.family.mains, tree.look(1.0).children) == (1, {100}, 2)


def test_counters_of_memory_are_read_once_in_a_look(asleep, monkeypatch):
    watch = Looks(asleep.pid, NoSampler("none"), time.monotonic())
    read = []
    content_of = memory.content_of
    monkeypatch.setattr(
        memory, "content_of", lambda path, *a: read.append(path) or content_of(path, *a)
    )
    watch.look(time.monotonic())
    watch.close()
    assert "/proc/vmstat" not in read


def test_words_are_read_once_where_another_program_would_show_by_its_stack(monkeypatch):
    read = []
    monkeypatch.setattr(process, "content_in_time", lambda *a: read.append(a) or content_of(*a))
    child = subprocess.Popen(["sh", "-c", "read x; exec sleep 60"], stdin=subprocess.PIPE)
    try:
        end = (
            time.monotonic() + 20
        )  # Popen returns in the middle of execve(2), which then sets up stack and words
        while not Path(f"/proc/{child.pid}/cmdline").read_bytes() and time.monotonic() < end:
            time.sleep(0.01)
        tree = Tree(child.pid)
        assert tree.members[child.pid].shows_its_program
        for _ in range(3):
            tree.look(1.0)
        assert len(read) <= 2  # with the one whose turn it is
        child.stdin.write(b"\n")
        child.stdin.close()
        end = time.monotonic() + 20
        while b"sleep" not in tree.members[child.pid].command[:6] and time.monotonic() < end:
            time.sleep(0.05)
            tree.look(1.0)
        assert tree.members[child.pid].command == b"sleep\x0060\0"
        tree.close()
    finally:
        child.kill()
        child.wait()


def test_number_that_another_process_got_is_not_the_job(tmp_path):
    folder = tmp_path / "100"
    folder.mkdir()
    line = "100 (x) S 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 {} 0 0"
    (folder / "stat").write_text(line.format(777))
    (folder / "cmdline").write_text("job")
    tree = Tree(100, proc=str(tmp_path))
    assert tree.look(1.0).processes == 1
    (folder / "stat").write_text(line.format(999))
    assert tree.look(1.0) is None
    assert not tree.has_root


def test_look_at_a_live_process_fills_what_this_kernel_tells():
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        looks = Looks(child.pid, NoSampler("none here"), time.monotonic())
        end = time.monotonic() + 20
        tick = looks.look(time.monotonic())
        while (not tick.tree.cores or tick.host.idle_percent is None) and time.monotonic() < end:
            time.sleep(0.05)  # the kernel counts both by the hundredth of a second
            tick = looks.look(time.monotonic())
        assert tick.tree.processes == 1
        assert tick.tree.main_cores > 0
        assert tick.host.idle_percent is not None
        assert tick.cpus >= 1
        assert not looks.look(time.monotonic(), is_paused=False).is_paused
        assert looks.look(time.monotonic(), is_paused=True).is_paused
        os.kill(child.pid, 19)
        while not looks.look(time.monotonic()).is_paused and time.monotonic() < end:
            os.sched_yield()
        assert looks.look(time.monotonic()).is_paused  # it was stopped by a signal
        looks.close()
    finally:
        child.kill()
        child.wait()
    with pytest.raises(ProcessLookupError):
        Looks(child.pid, NoSampler("none here"), 0.0)


ONE, TWO = GpuSample(0, "GPU-aaa", pids=(7,)), GpuSample(1, "GPU-bbb", pids=())


@pytest.mark.parametrize(
    ("pids", "visible", "known", "indexes", "are_its"),
    [
        ({7}, None, set(), [0], True),
        ({8}, "1", set(), [1], True),
        ({8}, "GPU-bb", set(), [1], True),
        ({8}, "", set(), [], True),
        ({8}, None, {"GPU-bbb"}, [1], True),
        ({8}, None, set(), [0, 1], False),
        ({7}, "0,1", set(), [0], True),
    ],
)
def test_gpus_of_a_job_are_told_by_memory_then_by_name(pids, visible, known, indexes, are_its):
    gpus, certain = jobs_gpus((ONE, TWO), frozenset(pids), visible, frozenset(known))
    assert ([gpu.index for gpu in gpus], certain) == (indexes, are_its)


class TwoOnIt:
    """A GPU on which this test and its child hold memory."""

    source, reason = "nvml", ""

    def __init__(self, *pids):
        self.pids = pids

    def read(self):
        return (
            GpuSample(0, "GPU-aaa", util_percent=99.0, pids=self.pids),
            GpuSample(1, "GPU-bbb", pids=(os.getppid(),)),
        )

    def close(self):
        pass


@pytest.fixture
def asleep():
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    yield child
    child.stdin.close()
    child.wait(30)


@pytest.mark.parametrize(
    ("namespace", "others", "indexes"),
    [
        (looking._INITIAL_PID_NAMESPACE, [os.getpid()], [0]),
        ("pid:[4026532000]", [], [0, 1]),  # a container's numbers are not those that NVML tells
    ],
)
def test_look_names_who_else_is_on_its_gpus(asleep, monkeypatch, namespace, others, indexes):
    monkeypatch.setattr(looking, "_pid_namespace", lambda: namespace)
    looks = Looks(asleep.pid, TwoOnIt(asleep.pid, os.getpid()), time.monotonic())
    tick = looks.look(time.monotonic())
    looks.close()
    assert [other.pid for other in tick.gpu_others] == others
    assert [gpu.index for gpu in tick.gpus] == indexes


def test_process_that_cannot_be_watched_is_refused_with_the_reason():
    done = subprocess.Popen(["true"])
    done.wait()
    with pytest.raises(HosttuneError, match="no process"):
        find(done.pid)
    with pytest.raises(HosttuneError, match="this very process"):
        find(os.getpid())


def test_process_that_hidepid_hides_is_told_from_one_that_is_not_there(tmp_path, monkeypatch):
    def kill(pid, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    with pytest.raises(HosttuneError, match="hidepid") as caught:
        find(4242, proc=str(tmp_path))
    assert "sudo" in caught.value.hint


def test_process_of_another_user_is_watched_with_a_note(tmp_path):
    folder = tmp_path / "4242"
    folder.mkdir()
    (folder / "stat").write_text("4242 (python) S 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0")
    (folder / "status").write_text("Name:\tpython\nTgid:\t4242\nUid:\t0\t0\t0\t0\n")
    (folder / "cmdline").write_text("python\0train.py\0--token\0hunter2")
    (folder / "environ").write_text("A=1\0CUDA_VISIBLE_DEVICES=2,3\0")
    (tmp_path / "uptime").write_text("500.0 900.0\n")
    found = find(4242, proc=str(tmp_path))
    assert "it runs as root" in found.note
    assert (found.visible, found.age_s) == ("2,3", 499.0)
    assert "hunter2" not in " ".join(found.command)
    (folder / "status").write_text("Tgid:\t4000\n")
    with pytest.raises(HosttuneError, match="a thread of process 4000"):
        find(4242, proc=str(tmp_path))


@pytest.mark.parametrize(
    ("command", "is_forked"), [("python\0train.py", True), ("bash\0train.py", False)]
)
def test_worker_of_a_loader_is_watched_with_a_note(tmp_path, command, is_forked):
    for pid, parent, words in ((4242, 4000, "python\0train.py"), (4000, 1, command)):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(
            f"{pid} (python) S {parent} 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0"
        )
        (folder / "cmdline").write_text(words)
        (folder / "io").write_text("rchar: 0\n")
    (tmp_path / "uptime").write_text("500.0 900.0\n")
    assert ("--pid 4000" in find(4242, proc=str(tmp_path)).note) is is_forked
    assert find(4000, proc=str(tmp_path)).note == ""


def test_scope_without_systemd_is_refused(monkeypatch):
    monkeypatch.setattr(os.path, "isdir", lambda path: False)
    with pytest.raises(HosttuneError, match="--scope needs systemd"):
        put_in_scope(("true",))


def test_scope_becomes_the_command(monkeypatch):
    monkeypatch.setattr(os.path, "isdir", lambda path: True)
    monkeypatch.setattr("hosttune.measure.watch.target.locate", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert put_in_scope(("python", "-x")) == (
        "/usr/bin/systemd-run",
        "--scope",
        "--quiet",
        "--collect",
        "--",
        "python",
        "-x",
    )


def test_file_that_cannot_be_written_is_refused_beforehand(tmp_path):
    check_writable(str(tmp_path / "x.json"))
    for path in (tmp_path, tmp_path / "missing" / "x.json"):
        with pytest.raises(HosttuneError, match=r"cannot be written|is not a regular file"):
            check_writable(str(path))


def test_list_that_comes_in_pages_is_read_to_its_end():
    """A read of /proc/PID/maps, as of mountinfo, diskstats and vmstat, gives a page at most."""
    with open("/proc/self/maps", "rb") as file:
        whole = len(file.read())
    assert whole > 8192
    assert len(content_of("/proc/self/maps", MOST_BYTES)) > 0.9 * whole
    kept = Kept("/proc/self/maps")
    assert len(kept.read()) > 0.9 * whole
    assert len(kept.read()) > 0.9 * whole
    kept.close()


def test_one_of_several_programs_that_computes_is_not_hidden_by_those_that_wait(tmp_path):
    def process(pid, parent, command, ticks):
        folder = tmp_path / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(
            f"{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {pid} 0 0"
        )
        (folder / "cmdline").write_text(command)

    for pid, parent, command in (
        (100, 1, "sh"),
        (101, 100, "encode"),
        (102, 100, "sleep"),
        (103, 100, "sleep"),
    ):
        process(pid, parent, command, 0)
    tree = Tree(100, proc=str(tmp_path))
    tree.look(1.0)
    process(101, 100, "encode", os.sysconf("SC_CLK_TCK"))
    assert tree.look(1.0).main_cores == 1.0


def test_storage_of_a_job_is_that_of_its_files_not_of_its_working_folder(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /data rw - xfs /dev/sdb1 rw\n"
        "3 1 0:50 / /far rw - fuse.sshfs host:/x rw\n"
    )
    for pid, words in ((10, b"tar\0-C\0/data\0x"), (11, b"train"), (77, b"sshfs\0host:/x\0/far")):
        (tmp_path / f"{pid}/fd").mkdir(parents=True)
        (tmp_path / f"{pid}/cmdline").write_bytes(words)
        (tmp_path / f"{pid}/cwd").symlink_to("/home")
    (tmp_path / "11/fd/3").symlink_to("/far/shard-1")
    (tmp_path / "77/fd/4").symlink_to("/dev/fuse")
    mounts = MountTable(str(tmp_path))
    assert mounts.of([10]) == (Mounted("/data", "xfs", "/dev/sdb1"),)
    assert mounts.of([11]) == (Mounted("/far", "fuse.sshfs", "host:/x", "sshfs (process 77)"),)
    (tmp_path / "11/cmdline").write_bytes(b"python3\0/home/train.py")
    assert [one.target for one in mounts.of([11])] == ["/far"]  # a program's own file is no data
    (tmp_path / "11/fd/2").symlink_to("/data/train.log")
    assert [one.target for one in mounts.of([11])] == ["/far"]  # nor is its log
    (tmp_path / "11/fd/3").unlink()
    assert [one.target for one in mounts.of([11])] == ["/data"]
    (tmp_path / "11/fd/2").unlink()
    assert mounts.of([11]) == (Mounted("/", "ext4", "/dev/sda1"),)
    assert mounts.of([12]) == ()


def test_workers_that_were_forked_since_the_last_look_are_counted_and_other_programs_are_not(
    tmp_path,
):
    def process(pid, parent, command):
        (tmp_path / str(pid)).mkdir()
        line = f"{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 {pid} 0 0"
        (tmp_path / str(pid) / "stat").write_text(line)
        (tmp_path / str(pid) / "cmdline").write_text(command)

    process(100, 1, "python\0train.py")
    process(101, 100, "python\0train.py")
    tree = Tree(100, proc=str(tmp_path))
    assert tree.look(1.0).new_workers == 0
    process(102, 100, "python\0train.py")
    process(103, 100, "gzip\0a")
    assert tree.look(1.0).new_workers == 1
    assert tree.look(1.0).new_workers == 0


def test_governor_is_read_where_there_is_one(tmp_path):
    assert read_governor(str(tmp_path)) == ""
    folder = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_governor").write_text("powersave\n")
    assert read_governor(str(tmp_path)) == "powersave"


def test_second_threads_of_cores_are_seen_where_there_are_some(tmp_path):
    assert not has_smt(str(tmp_path))
    folder = tmp_path / "devices/system/cpu/smt"
    folder.mkdir(parents=True)
    for content, found in (("1\n", True), ("0\n", False)):
        (folder / "active").write_text(content)
        assert has_smt(str(tmp_path)) is found


def test_work_between_two_waits_is_that_of_the_children_by_their_turns(tmp_path):
    def look(ticks, turns):
        for pid, parent in ((200, 1), (201, 200), (202, 200)):
            (tmp_path / str(pid)).mkdir(exist_ok=True)
            used = 0 if pid == 200 else ticks
            line = f"{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 {used} 0 0 0 20 0 1 0 {pid} 0 0"
            (tmp_path / str(pid) / "stat").write_text(line)
            (tmp_path / str(pid) / "cmdline").write_text("python\0train.py")
            (tmp_path / str(pid) / "schedstat").write_text(f"1 1 {turns}")

    look(0, 10)
    tree = Tree(200, proc=str(tmp_path))
    assert tree.look(1.0).piece_ms is None
    look(50, 1_010)
    assert tree.look(1.0).piece_ms == pytest.approx(500 * 100 / os.sysconf("SC_CLK_TCK") / 1000)
    look(51, 2_010)
    assert tree.look(1.0).piece_ms is None  # none of them works
