"""Limits on a job's CPUs: which, how large, who set it; and what a watch makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from hosttune.facts.cpu.cpu import Quota
from hosttune.measure.watch import limits
from hosttune.measure.watch.limits import CpuLimits, cpu_folders, numbers, period_s, setter
from hosttune.measure.watch.states import HeldState, State, Trust, classify, step
from hosttune.measure.watch.tick import CpuLimit, HostTick, LimitKind
from hosttune.measure.watch.verdict import Confidence, judged
from hosttune.views.measure.watch_words import headline
from tests.unit.watch_scenarios import WATCHED, jittered, tick

QUOTA = CpuLimit(LimitKind.QUOTA, 0.5, 16, "/sys/fs/cgroup/jobs/cpu.max", "")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/step_0/cpu.max", "Slurm job 4711: ask for more with --cpus-per-task"),
        ("/sys/fs/cgroup/cpu/slurm/uid_1000/job_12/cpu.cfs_quota_us", "Slurm job 12"),
        (f"/sys/fs/cgroup/system.slice/docker-{'ab' * 32}.scope/cpu.max", "docker update --cpus N abababababab"),
        (f"/sys/fs/cgroup/cpu/docker/{'cd' * 32}/cpu.cfs_quota_us", "docker update --cpus N cdcdcdcdcdcd"),
        (f"/sys/fs/cgroup/machine.slice/libpod-{'ef' * 32}.scope/cpu.max", "podman update --cpus N efefefefefef"),
        (f"/sys/fs/cgroup/kubepods.slice/cri-containerd-{'ab' * 32}.scope/cpu.max", "Kubernetes"),
        ("/sys/fs/cgroup/system.slice/train.service/cpu.max", "systemctl set-property -- train.service CPUQuota="),
        ("/sys/fs/cgroup/user.slice/$(id);x.service/cpu.max", "systemctl set-property -- '$(id);x.service' CPUQuota="),
        ("/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "systemd unit user-1000.slice"),
        ("/sys/fs/cgroup/cpu/mine/cpu.cfs_quota_us", ""),
    ],
)  # fmt: skip
def test_group_tells_who_set_its_limit(path, words):
    assert words in setter(path)
    assert bool(setter(path)) == bool(words)


def test_lists_of_cpus_and_folders_are_read():
    assert numbers(b"0-2,5\n") == {0, 1, 2, 5}
    assert numbers(b"\n") == numbers(b"x") == frozenset()
    assert cpu_folders(b"0::/a/b\n") == ("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup")
    assert cpu_folders(b"3:cpu,cpuacct:/a\n0::/z\n") == ("/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu")


def test_period_is_read_from_both_versions(tmp_path):
    (tmp_path / "cpu.max").write_text("50000 200000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("50000\n")
    assert period_s(f"{tmp_path}/cpu.max") == 0.2
    assert period_s(f"{tmp_path}/cpu.cfs_quota_us") == 0.05
    assert period_s(f"{tmp_path}/missing") == 0.1


def test_quota_that_holds_back_is_told_in_percent_of_the_time(tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text("10000 100000\n")
    (tmp_path / "cpu.stat").write_text("nr_periods 10\nnr_throttled 3\n")
    monkeypatch.setattr(limits, "cpu_folders", lambda groups: (str(tmp_path),))
    monkeypatch.setattr(limits, "quotas", lambda pid: (Quota(0.1, f"{tmp_path}/cpu.max"),))
    found = CpuLimits(os.getpid())
    assert (found.cpus, found.limit.kind) == (0.1, LimitKind.QUOTA)
    assert found.throttled(1.0) is None  # the first look has nothing to compare with
    (tmp_path / "cpu.stat").write_text("nr_periods 20\nnr_throttled 11\n")
    assert found.throttled(1.0) == pytest.approx(80)
    assert not found.is_surprised


def test_quota_that_was_set_later_is_noticed_when_it_holds_back(tmp_path, monkeypatch):
    (tmp_path / "cpu.stat").write_text("nr_throttled 3\n")
    monkeypatch.setattr(limits, "cpu_folders", lambda groups: (str(tmp_path),))
    monkeypatch.setattr(limits, "quotas", lambda pid: ())
    found = CpuLimits(os.getpid())
    assert found.throttled(1.0) is None
    assert not found.is_surprised
    (tmp_path / "cpu.stat").write_text("nr_throttled 4\n")
    assert found.throttled(1.0) is None
    assert found.is_surprised
    found.look_around(())
    assert not found.is_surprised


def test_affinity_of_the_processes_that_work_is_the_jobs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        first = min(os.sched_getaffinity(0))
        os.sched_setaffinity(child.pid, {first})
        found = CpuLimits(os.getpid())
        before = found.cpus
        found.look_around((child.pid,))
        assert found.cpus == 1.0
        assert before >= found.cpus
        assert (found.allowed == {first}) == ((os.cpu_count() or 1) > 1)
    finally:
        child.kill()
        child.wait()
    found.look_around((child.pid,))  # it has ended: the job's own
    assert found.cpus == before


def held_back(**more):
    one = tick(0.0, 60.0, cpu=60, idle=95, main=0.5, cpus=0.5, limit=QUOTA, throttled_percent=90.0, gpus=(), **more)
    return replace(one, host=HostTick(95.0, 0.0, 0.6))


def state_of(one):
    return [held.state for held in classify([one])][-1]


def test_quota_is_a_cause_of_its_own_and_says_which():
    verdict, account = judged(jittered(held_back(), 60, seed=3), WATCHED)
    assert (verdict.state, verdict.confidence, verdict.limit) == (State.LIMIT, Confidence.HIGH, QUOTA)
    sentence = headline(verdict, account)
    assert sentence.startswith("LIMIT: its quota gives it 0.5 of 16 CPUs, which held it back 90 % of the time")


def test_quota_that_holds_nothing_back_is_no_cause():
    one = replace(held_back(), throttled_percent=2.0, tree=replace(held_back().tree, cores=0.1, main_cores=0.1))
    assert state_of(one) is not State.LIMIT


def test_affinity_is_the_limit_where_the_job_fills_it_and_others_are_free():
    pinned = CpuLimit(LimitKind.AFFINITY, 1.0, 8)
    one = tick(0.0, 60.0, cpu=90, children=(0.33, 0.33, 0.33), main=0.0, delay=2.0, cpus=1.0, limit=pinned, gpus=())
    free = replace(one, host=HostTick(0.0, 0.0, 1.0))
    assert state_of(free) is State.LIMIT
    full = replace(free, host=HostTick(0.0, 0.0, 8.0))  # nothing is free beyond it: it would share
    assert step(HeldState(), full) == HeldState(State.LIMIT, 0, Trust.LOW)
    most = replace(full, limit=replace(pinned, cpus=6.0), cpus=6.0)
    assert state_of(replace(most, tree=replace(one.tree, cores=5.9))) is State.CPU


def test_nobody_takes_cpus_that_are_free():
    """One thread under half a CPU, 70 % of the CPUs free: once called FOREIGN."""
    one = replace(held_back(), limit=None, throttled_percent=None, cpus=2.0, host=HostTick(70.0, 0.0, 0.55))
    assert state_of(replace(one, tree=replace(one.tree, run_delay_cores=0.5))) is not State.FOREIGN
