"""A user of the host makes everything about a process long: a look takes a bounded part of each,
and grows linearly.
"""

from __future__ import annotations

import os
import stat
import tracemalloc

import pytest

from hosttune.host.processes import proc, proc_fields
from hosttune.host.reading import bounded
from hosttune.host.reading.bounded import CUT, PROCESS_FILE
from hosttune.host.reading.filestatus import FileStatus
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.process import COMMAND_BYTES, WatchedProcess
from hosttune.measure.watch.target import find
from hosttune.measure.watch.tree import Tree
from hosttune.values import Unreadable

LONG = 3 << 20  # bytes of each file
STAT = "(a b) S {parent} 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0"


def make_process(proc_folder, pid, *, parent=1, size=0, devices=("/dev/nvidia0",), uid=0):
    """A process below a /proc in a folder, with files of `size` bytes besides what they have to
    hold.
    """
    folder = proc_folder / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} {STAT.format(parent=parent)}")
    (folder / "statm").write_text("10 5 0 0 0 0 0")
    (folder / "status").write_text(
        f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        "Groups:\t" + "1 " * (size // 2) + "\nVmSwap:\t8 kB\n"
    )
    (folder / "cmdline").write_text("python\0train.py\0" + "--token=hunter2\0" * (size // 15))
    (folder / "environ").write_text("NCCL_DEBUG=INFO\0" + "A=1\0" * (size // 4))
    (folder / "cgroup").write_text("0::/user.slice\n" + "x" * size)
    for number, device in enumerate(devices):
        (folder / "fd" / str(number)).symlink_to(device)
    return folder


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A /proc. Its open files are links without device nodes behind them: their names are taken for
    these.
    """
    monkeypatch.setattr(proc, "_open_device", lambda path, *_: os.readlink(path))
    (tmp_path / "stat").write_text("btime 100\n")
    return tmp_path


@pytest.fixture
def read_bytes(monkeypatch):
    """How much os.read gave."""
    counted = [0]
    read = os.read

    def counting(fd, size):
        content = read(fd, size)
        counted[0] += len(content)
        return content

    monkeypatch.setattr(os, "read", counting)
    return counted


def test_process_with_long_files_is_read_to_the_limits(table, read_bytes):
    make_process(table, 7, size=LONG)
    (found,) = proc.list_processes(str(table))
    # status counts twice: 1 MiB of it, because this process has a GPU
    assert read_bytes[0] < 5 * (PROCESS_FILE + 1) + (1 << 20) + 4096
    assert found.command[:2] == ("python", "train.py")
    assert found.command[-1] == CUT
    assert sum(map(len, found.command)) < 2 * proc_fields.COMMAND[0]
    assert "hunter2" not in " ".join(found.command)
    assert found.variables == ("NCCL_DEBUG=INFO", CUT)


def test_memory_of_a_look_does_not_follow_the_files(table):
    make_process(table, 7, size=4 * LONG)
    proc.list_processes(str(table))
    tracemalloc.start()
    proc.list_processes(str(table))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * LONG / 2


@pytest.mark.parametrize("size", [0, 1 << 17])
def test_bytes_read_grow_linearly_with_processes(table, read_bytes, size):
    for pid in range(100, 150):
        make_process(table, pid, size=size, devices=())
    proc.list_processes(str(table))
    once = read_bytes[0]
    for pid in range(150, 200):
        make_process(table, pid, size=size, devices=())
    read_bytes[0] = 0
    assert len(proc.list_processes(str(table))) == 100
    assert read_bytes[0] <= 2 * once
    assert once <= 50 * 5 * (PROCESS_FILE + 1) + 4096


def test_commands_after_the_first_mebibytes_are_kept_short(table, monkeypatch):
    monkeypatch.setattr(proc_fields, "ALL_COMMANDS", 10_000)
    for pid in range(100, 110):
        make_process(table, pid, size=1 << 14)
    words = [one.command for one in proc.list_processes(str(table))]
    assert sum(len(one) > proc_fields.SHORT[1] + 1 for one in words) == 3
    assert all(one[0] == "python" and one[-1] == CUT for one in words)


def test_more_processes_than_are_listed_make_the_list_unknown(table, monkeypatch):
    monkeypatch.setattr(bounded, "MOST_PROCESSES", 3)
    monkeypatch.setattr(proc_fields, "process_ids", lambda folder: bounded.process_ids(folder, 3))
    for pid in range(100, 104):
        make_process(table, pid)
    answer = proc.list_processes(str(table))
    assert isinstance(answer, Unreadable)
    assert "processes: they are not listed" in answer.reason


@pytest.mark.parametrize("name", ["MOST_OPEN_FILES", "_MOST_DEVICES"])
def test_open_files_of_one_user_cut_only_what_that_user_has_open(table, monkeypatch, name):
    """Not an idle GPU: /dev/nvidia0 could be the next one. Root of a container has limits of its
    own, too.
    """
    monkeypatch.setattr(proc, name, 10)
    for pid, uid in ((6, 1001), (7, 1001), (8, 1002), (9, 0), (10, 0)):
        folder = make_process(
            table,
            pid,
            devices=[f"/dev/some{number}" for number in range(20 if pid in (6, 9) else 1)],
        )
        (folder / "status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (table / "9/cgroup").write_text("0::/system.slice/docker-1.scope\n")
    found = {one.pid: one.devices for one in proc.list_processes(str(table))}
    assert {pid: devices[-1] == CUT for pid, devices in found.items()} == {
        6: True, 7: True, 8: False, 9: True, 10: False
    }  # fmt: skip
    assert found[8] == found[10] == ("/dev/some0",)


def test_subordinate_ids_of_a_user_are_one_user(table, monkeypatch):
    """adduser(8) gives each user 65,536 of them, and newuidmap(1) a process with each; NSS is not
    asked for them.
    """
    monkeypatch.setattr(
        proc_fields, "_list_subids", lambda: [(100_000, 165_535, "eve"), (165_536, 231_071, "bob")]
    )
    monkeypatch.setattr(proc, "MOST_OPEN_FILES", 10)
    for pid, uid in (
        (6, 100_000),
        (7, 100_001),
        (8, 165_535),
        (9, 165_536),
        (10, 99_999),
        (11, 231_072),
    ):
        make_process(table, pid, devices=[f"/dev/some{number}" for number in range(4)])
        (table / f"{pid}/status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    found = {one.pid: one for one in proc.list_processes(str(table))}
    (cut,) = [pid for pid, one in found.items() if one.devices[-1] == CUT]
    assert cut in {6, 7, 8}
    assert [found[pid].user for pid in (6, 9)] == ["100000", "165536"]


def test_open_files_of_all_users_are_bounded_and_leave_roots_theirs(table, monkeypatch):
    monkeypatch.setattr(proc, "_MOST_OF_ALL", 10)
    for pid, uid in ((6, 1001), (7, 1002), (8, 1003), (9, 0)):
        make_process(table, pid, devices=[f"/dev/some{number}" for number in range(4)])
        (table / f"{pid}/status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    found = {one.pid: one.devices for one in proc.list_processes(str(table))}
    (cut,) = [pid for pid, devices in found.items() if devices[-1] == CUT]
    assert cut in {6, 7, 8}


def test_files_that_are_only_pointed_at_count_more(table, monkeypatch):
    """What fdinfo says costs more time than a name."""
    seen = []
    monkeypatch.setattr(proc, "MOST_OPEN_FILES", 16)
    monkeypatch.setattr(proc, "_is_open", seen.append)
    make_process(table, 7, devices=["/dev/nvidia0"] * 20)
    (found,) = proc.list_processes(str(table))
    assert (len(seen), found.devices) == (2, (CUT,))


@pytest.mark.parametrize(("path", "is_asked"), [("/dev/net/tun", False), ("/dev/rfkill", True)])
def test_nothing_is_asked_of_a_tunnel(path, is_asked, monkeypatch):
    """Its fdinfo waits for the kernel's lock of networks, where no signal ends that, once for each
    process of a user that has it open."""
    node = FileStatus(stat.S_IFCHR | 0o666, 0, 5, (10, 200), (0, 5))
    monkeypatch.setattr(proc, "_status_on_host", lambda *_: node)
    assert bool(proc._name_device(path, node, {})) is is_asked


def test_process_that_clears_its_command_line_is_listed(table):
    """Only the kernel says which are its threads: a user can write NULs over all words."""
    folder = make_process(table, 7)
    (folder / "cmdline").write_text("")
    kernel = make_process(table, 8)
    (kernel / "stat").write_text(
        "8 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0"
    )
    ended = make_process(table, 9)
    (ended / "stat").write_text("9 (x) Z 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0")
    (found,) = proc.list_processes(str(table))
    assert (found.pid, found.command, found.devices) == (7, (), ("/dev/nvidia0",))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a\0b\0" + "c" * 100, ["a", "b", CUT]),
        ("one title with blanks " + "c" * 100, ["one", "title", "with", "blanks", CUT]),
        ("c" * 200, [CUT]),
        ("a\0" * 12, ["a", "a", "a", "a", CUT]),
        ("sshd: ops [priv]" + "\0" * 20, ["sshd:", "ops", "[priv]"]),
        ("sshd: ops [priv]" + "\0" * 100, ["sshd:", "ops", "[priv]", CUT]),
        ("python\0--token\0hunter2", ["python", "--token", "hunter2"]),
    ],
)
def test_word_that_does_not_fit_is_left_out(tmp_path, content, words):
    """Half of a secret has no sign of one."""
    (tmp_path / "cmdline").write_text(content)
    assert proc_fields.command_of(str(tmp_path / "cmdline"), 64, 4)[0] == words


def test_watch_reads_processes_to_the_limits(table, read_bytes):
    folder = make_process(table, 7, size=LONG)
    (table / "uptime").write_text("500.0 900.0\n")
    target = find(7, proc=str(table))
    assert target.command[-1] == CUT
    assert read_bytes[0] < 6 * (PROCESS_FILE + 1)
    one = WatchedProcess(7, str(table), is_kept=False)
    assert one.look()
    assert len(one.command) == COMMAND_BYTES
    assert len(content_of(f"{folder}/cgroup")) == PROCESS_FILE


def test_watch_finds_a_chain_of_processes_in_one_pass(table, monkeypatch):
    """Each is the child of the one before it; a pass for each would take the square of their
    number.
    """
    pids = [1000 - number for number in range(60)]
    for pid, parent in zip(pids, [1, *pids], strict=False):
        make_process(table, pid, parent=parent)
    looks = []
    adopt = Tree._adopt
    monkeypatch.setattr(Tree, "_adopt", lambda self, pid: looks.append(pid) or adopt(self, pid))
    tree = Tree(1000, proc=str(table))
    assert len(tree.members) == 60
    assert len(looks) == 60
