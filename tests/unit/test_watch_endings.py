"""How a job ended, or why it stands still, is the first line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from hosttune.measure.views.watch import watch_text
from hosttune.measure.watch import tree
from hosttune.measure.watch.account import Account
from hosttune.measure.watch.endings import EndKind, ending_of
from hosttune.measure.watch.limits import name_setter
from hosttune.measure.watch.memory import Freezer, JobMemory
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.session import WatchEnd
from hosttune.measure.watch.tick import Kills, MemoryTick, ShmRoom
from hosttune.measure.watch.verdict import judge
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.watch_scenarios import WATCHED, tick

MEMORY = MemoryTick(100 << 20, "/sys/fs/cgroup/job/memory.max", "", 99 << 20)
DOCKERS = ShmRoom(64 << 20, 1 << 20)


NO_KILLS = Kills()


def ended(status, kills=NO_KILLS, one=None, **of_tick):
    account = Account(WATCHED)
    for _ in range(10):
        account.add(replace(one or tick(0.0, 60.0, idle=99, main=0.01, read=0.0), **of_tick))
    account.status, account.kills = status, kills
    return account


def report(account):
    return watch_text(
        WatchEnd(account, "the command has ended"), Page(screen=Screen(width=100))
    ).splitlines()[1]


@pytest.mark.parametrize(
    ("account", "kind", "line", "advice"),
    [
        (ended(137, Kills(1, 1), memory=MEMORY), EndKind.GROUP_OOM, "ended: 1 process of its control group killed", "it needs more memory"),
        (ended(0, Kills(2, 2), memory=MEMORY), EndKind.GROUP_OOM, "2 processes of its control group killed", "it needs more memory"),
        (ended(137, Kills(0, 1)), EndKind.HOST_OOM, "ended: killed by the kernel", "the host ran out"),
        (ended(137, Kills(1, 1)), EndKind.HOST_OOM, "ended: killed by the kernel: out of memory, and no limit", "the host ran out"),
        (ended(None, Kills(0, 0, 2)), EndKind.HOST_OOM, "some of its processes ended while the kernel killed 2 processes of this host: out", "the host ran out"),
        (ended(1, Kills(0, 0, 1)), EndKind.HOST_OOM, "ended: some of its processes ended while the kernel killed 1 process", "the host ran out"),
        (ended(139, Kills(0, 0, 1)), EndKind.SIGNAL, "ended: crashed with SIGSEGV", "see where it failed"),
        (ended(137), EndKind.SIGNAL, "ended: killed by SIGKILL", "no kill for memory was counted"),
        (ended(139), EndKind.SIGNAL, "ended: crashed with SIGSEGV", "see where it failed"),
        (ended(143), EndKind.SIGNAL, "ended: killed by SIGTERM", ""),
        (ended(1, shm=DOCKERS), EndKind.SHM, "ended: /dev/shm (64.0 MiB) was full", "loader workers hand batches"),
        (ended(135, shm=ShmRoom(64 << 20, 60 << 20)), EndKind.SIGNAL, "ended: crashed with SIGBUS", "a file that it had mapped"),
        (ended(135, shm=ShmRoom(64 << 20, 20 << 20)), EndKind.SHM, "ended: /dev/shm", "loader workers hand batches"),
        (ended(None, is_paused=True, frozen_by="/sys/fs/cgroup/job"), EndKind.FROZEN, "its control group is frozen: /sys/", "its control group"),
        (ended(None, is_paused=True, one=tick(tree=replace(tick().tree, is_stopped=True))), EndKind.STOPPED, "all its processes are stopped", "continue it with: kill -CONT 4242"),
    ],
)  # fmt: skip
def test_end_is_the_first_line_with_what_shows_or_continues_it(account, kind, line, advice):
    assert ending_of(account).kind is kind
    assert report(account).startswith(line)
    assert not advice or choose_remedies(judge(account), account)[0].text.startswith(advice)


@pytest.mark.parametrize("children", [(), (0.01, 0.01)])
def test_loaders_of_a_job_that_ran_out_of_memory_are_suspected(children):
    account = ended(
        137, Kills(1, 1), memory=MEMORY, one=tick(0.0, 60.0, idle=99, children=children, read=0.0)
    )
    assert any(
        "copied by each worker" in one.text for one in choose_remedies(judge(account), account)[:2]
    ) is bool(children)


@pytest.mark.parametrize(("processes", "is_named"), [(5, True), (2, False)])
def test_loaders_that_the_kernel_killed_before_they_counted_are_suspected_as_well(
    processes, is_named
):
    account = ended(0, Kills(3, 3), memory=MEMORY)
    account.most_processes = processes
    texts = [one.text for one in choose_remedies(judge(account), account)[:2]]
    assert any("copied by each worker" in text for text in texts) is is_named
    assert ("fewer loader workers" in texts[0]) is is_named


@pytest.mark.parametrize(
    ("status", "is_named"), [(1, False), (139, False), (0, True), (None, True)]
)
def test_job_that_failed_is_not_looked_into_for_where_it_hangs(status, is_named):
    text = watch_text(
        WatchEnd(ended(status), "the command has ended"), Page(screen=Screen(width=100))
    )
    assert ("see where it hangs" in text) is is_named


@pytest.mark.parametrize(
    "account",
    [
        ended(0),
        ended(1),
        ended(None),
        ended(0, Kills(0, 3)),
        ended(0, shm=DOCKERS),
        ended(1, shm=ShmRoom(64 << 20, 60 << 20)),
    ],
)
def test_job_that_ended_by_itself_or_goes_on_has_no_such_line(account):
    assert ending_of(account) is None
    assert report(account).startswith("verdict: ")


def built(tmp_path, line, files):
    (tmp_path / "proc/42").mkdir(parents=True)
    (tmp_path / "proc/42/cgroup").write_text(line)
    (tmp_path / "proc/vmstat").write_text("oom_kill 3\n")
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    return {"proc": str(tmp_path / "proc"), "groups": str(tmp_path)}


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("4:memory:/job\n0::/\n", "memory/job/memory.oom_control"),
        ("0::/job\n", "job/memory.events"),
    ],
)
def test_kills_in_its_own_group_are_counted_from_the_begin_on(tmp_path, line, path):
    memory = JobMemory(42, **built(tmp_path, line, {path: "oom_kill 7\n"}))
    memory.look()
    assert memory.kills() == Kills(0, 0)
    (tmp_path / path).write_text("low 0\noom_kill 9\n")
    (tmp_path / "proc/vmstat").write_text("pswpin 1\noom_kill 5\n")
    assert memory.kills() == Kills(2, 2)
    for _ in range(2):
        memory.look()
    assert memory.kills() == Kills(2, 0)  # what the host killed long ago did not end this job


def test_kills_of_the_host_count_with_processes_of_the_job_that_ended(tmp_path):
    memory = JobMemory(42, **built(tmp_path, "0::/\n", {}))
    memory.look(3)
    memory.look(5)  # others
    assert memory.kills().near == 0
    memory.look(6, has_lost=True)
    assert memory.kills().near == 3, "the kernel counts a kill a moment before the process is gone"
    memory.look(6, has_lost=True)
    assert memory.kills().near == 3
    for _ in range(3):
        memory.look(7)
    memory.look(7, has_lost=True)
    assert memory.kills().near == 3, "that was long before"


def test_process_that_was_no_short_one_is_missed_once(monkeypatch):
    monkeypatch.setattr(tree, "_SHORT_S", 0)
    with subprocess.Popen(
        [sys.executable, "-c", LOSES], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout.readline() == "ready\n"
        looks = tree.Tree(job.pid)
        looks.look(1.0)
        assert not looks.has_lost
        print("end", file=job.stdin, flush=True)
        assert job.stdout.readline() == "ended\n"
        looks.look(1.0)
        assert looks.has_lost, "a zombie that is not waited for has ended"
        looks.look(1.0)
        assert not looks.has_lost
        monkeypatch.setattr(tree, "_SHORT_S", 60)
        job.kill()
        job.wait()
        looks.look(1.0)
        assert not looks.has_lost, "it lived for less"
        looks.close()


LOSES = """
import os, signal, time
child = os.fork()
if child == 0: time.sleep(60)
print("ready", flush=True)
input()
os.kill(child, signal.SIGKILL)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("ended", flush=True)
time.sleep(60)
"""


def test_kills_before_a_wrapper_was_seen_in_its_group_count(tmp_path):
    files = {"job/memory.events": "oom_kill 9\n", "memory.events": "oom_kill 0\n"}
    memory = JobMemory(42, **built(tmp_path, "0::/\n", files))
    (tmp_path / "proc/42/cgroup").write_text("0::/job\n")
    (tmp_path / "proc/vmstat").write_text("oom_kill 5\n")  # two since the watch began
    memory.look()
    assert memory.kills().group == 2


def test_kills_in_a_scope_that_is_gone_are_those_of_the_group_above(tmp_path):
    files = {"a/memory.events": "oom_kill 1\n", "a/b/memory.events": "oom_kill 0\n"}
    memory = JobMemory(42, **built(tmp_path, "0::/a/b\n", files))
    (tmp_path / "a/b/memory.events").unlink()
    (tmp_path / "a/b").rmdir()
    (tmp_path / "a/memory.events").write_text("oom_kill 2\n")
    assert memory.kills().group == 1


def test_limit_that_is_set_after_the_start_is_named(tmp_path, monkeypatch):
    """systemd-run moves its command into the scope before the limits are there."""
    limits = {}
    monkeypatch.setattr("hosttune.measure.watch.memory.memory_limits", lambda pid: limits)
    memory = JobMemory(42, **built(tmp_path, "0::/a.scope\n", {"a.scope/memory.current": "4096\n"}))
    assert memory.look() is None
    path = str(tmp_path / "a.scope/memory.max")
    limits[path] = 8192
    assert memory.look() == MemoryTick(8192, path, name_setter(path, "memory"), 4096)
    limits.clear()
    (tmp_path / "proc/42/cgroup").write_text("0::/a.scope (deleted)\n")
    assert memory.look().path == path  # the job has ended


@pytest.mark.parametrize(
    ("line", "path", "content", "folder"),
    [
        ("6:freezer:/a/b\n0::/\n", "freezer/a/freezer.self_freezing", "1\n", "freezer/a"),
        ("0::/a/b\n", "a/cgroup.freeze", "1\n", "a"),
        ("0::/a/b\n", "a/cgroup.freeze", "0\n", ""),
    ],
)
def test_frozen_group_is_found_in_both_versions(tmp_path, line, path, content, folder):
    found = Freezer(42, **built(tmp_path, line, {path: content})).look()
    assert found == (str(tmp_path / folder) if folder else "")


def test_room_in_shm_is_that_of_the_job():
    with subprocess.Popen(["sleep", "60"]) as child:
        assert (
            JobMemory(child.pid).shm().size_bytes
            == os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
        )
        child.send_signal(signal.SIGKILL)


LOADERS = tick(children=(0.4, 0.4), main=0.2)


@pytest.mark.parametrize(
    ("account", "is_named"),
    [
        (ended(1, one=LOADERS, shm=ShmRoom(64 << 20, 64 << 20)), True),
        (ended(0, one=LOADERS, shm=ShmRoom(64 << 20, 64 << 20)), False),
        (ended(None, one=LOADERS, shm=ShmRoom(64 << 20, 64 << 20)), False),
        (ended(1, one=LOADERS, shm=ShmRoom(8 << 30, 8 << 30)), False),
        (ended(1, one=LOADERS), False),
        (ended(1, shm=ShmRoom(64 << 20, 64 << 20)), False),
    ],
)
def test_small_shm_that_no_look_saw_full_is_named_to_a_job_with_loaders_that_failed(
    account, is_named
):
    texts = [advice.text for advice in choose_remedies(judge(account), account)]
    assert any("/dev/shm has only 64 MiB" in text for text in texts) is is_named


@pytest.mark.parametrize(
    ("children", "less"), [((), "a smaller batch"), ((0.4, 0.4), "fewer loader workers")]
)
def test_job_without_loaders_is_not_told_to_take_fewer(children, less):
    account = ended(137, Kills(1, 1), one=tick(children=children), memory=MEMORY)
    assert choose_remedies(judge(account), account)[0].text.startswith(
        f"it needs more memory than its limit: {less}"
    )


def test_job_that_lost_workers_for_want_of_memory_is_not_told_to_start_more():
    account = ended(
        None,
        Kills(2, 2),
        one=tick(children=(0.98,), gpus=(), idle=50, main=0.03, cpus=8.0),
        memory=MEMORY,
    )
    texts = [advice.text for advice in choose_remedies(judge(account), account)]
    assert texts[0].startswith("it needs more memory")
    assert not any("more loader workers" in text or "persistent_workers" in text for text in texts)
