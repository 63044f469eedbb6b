"""Limits on a job's CPUs: which, how large, who set it; and what a watch makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from hosttune.facts.cpu.cpu import Quota
from hosttune.measure.views.watch_words import make_headline
from hosttune.measure.watch import limits
from hosttune.measure.watch.limits import (
    CpuLimits,
    cpu_folders,
    hides_limits,
    name_setter,
    parse_numbers,
    period_s,
    shared_mask,
)
from hosttune.measure.watch.states import HeldState, State, Trust, step
from hosttune.measure.watch.tick import CpuLimit, HostTick, LimitKind
from hosttune.measure.watch.verdict import Confidence
from tests.unit.watch_scenarios import WATCHED, jittered, judged, states_of, tick

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
    assert words in name_setter(path)
    assert bool(name_setter(path)) == bool(words)


def test_lists_of_cpus_and_folders_are_read():
    assert parse_numbers(b"0-2,5\n") == {0, 1, 2, 5}
    assert parse_numbers(b"\n") == parse_numbers(b"x") == frozenset()
    assert cpu_folders(b"0::/a/b\n") == ("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup")
    assert cpu_folders(b"3:cpu,cpuacct:/a\n0::/z\n") == (
        "/sys/fs/cgroup/cpu/a",
        "/sys/fs/cgroup/cpu",
    )


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
    monkeypatch.setattr(limits, "find_quotas", lambda pid: (Quota(0.1, f"{tmp_path}/cpu.max"),))
    found = CpuLimits(os.getpid())
    assert (found.cpus, found.limit.kind) == (0.1, LimitKind.QUOTA)
    assert found.compute_throttled(1.0) is None  # the first look has nothing to compare with
    (tmp_path / "cpu.stat").write_text("nr_periods 20\nnr_throttled 11\n")
    assert found.compute_throttled(1.0) == pytest.approx(80)
    assert not found.is_surprised


def test_quota_that_was_set_later_is_noticed_when_it_holds_back(tmp_path, monkeypatch):
    (tmp_path / "cpu.stat").write_text("nr_throttled 3\n")
    monkeypatch.setattr(limits, "cpu_folders", lambda groups: (str(tmp_path),))
    monkeypatch.setattr(limits, "find_quotas", lambda pid: ())
    found = CpuLimits(os.getpid())
    assert found.compute_throttled(1.0) is None
    assert not found.is_surprised
    (tmp_path / "cpu.stat").write_text("nr_throttled 4\n")
    assert found.compute_throttled(1.0) is None
    assert found.is_surprised
    found.look_around({})
    assert not found.is_surprised


def test_affinity_of_the_processes_that_work_is_the_jobs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        first = min(os.sched_getaffinity(0))
        os.sched_setaffinity(child.pid, {first})
        found = CpuLimits(os.getpid())
        before = found.cpus
        found.look_around({child.pid: 1.0})
        assert found.cpus == 1.0
        assert before >= found.cpus
        assert (found.allowed == {first}) == ((os.cpu_count() or 1) > 1)
    finally:
        child.kill()
        child.wait()
    found.look_around({child.pid: 1.0})  # it has ended: the job's own
    assert found.cpus == before


ALL, FIRST, SECOND = frozenset(range(8)), frozenset({0}), frozenset(range(4, 8))


@pytest.mark.parametrize(
    ("masks", "found"),
    [
        (
            {ALL: [0.3], FIRST: [0.25] * 4},
            FIRST,
        ),  # loaders that a library has pinned, and their main process
        ({ALL: [1.0], FIRST: [0.2] * 4}, None),  # the main process does most of the work
        ({ALL: [0.3], FIRST: [1.0]}, None),  # one process needs no more than one
        (
            {frozenset(range(4)): [0.8] * 5, SECOND: [0.8] * 5},
            None,
        ),  # ranks with a part of the CPUs each
        ({FIRST: [0.25] * 4}, None),  # all of them: that is the job's own limit
        ({}, None),
    ],
)
def test_cpus_that_most_of_the_work_shares_are_found(masks, found):
    assert shared_mask(masks) == found


def test_pinned_loaders_are_a_limit_though_their_main_process_may_use_all(monkeypatch):
    """As of yolov9#312: loaders on a few CPUs, the main process on all."""
    monkeypatch.setattr(limits, "find_quotas", lambda pid: ())
    monkeypatch.setattr(limits, "cpuset_of", lambda groups, allowed: "")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(FIRST) if pid > 1 else set(ALL))
    found = CpuLimits(1)
    assert found.limit is None
    found.look_around({1: 0.3, 2: 0.25, 3: 0.25, 4: 0.25, 5: 0.25})
    assert (found.limit.kind, found.limit.cpus, found.limit.of) == (LimitKind.AFFINITY, 1.0, 8)
    assert found.limit.by == "4 of its processes share CPU 0"
    assert (found.cpus, found.allowed) == (8.0, None)
    one = tick(
        12.0, 110.0, cpu=75, idle=75, children=(0.25,) * 4, main=0.3, cpus=8.0, limit=found.limit
    )
    sentence = make_headline(
        *judged(jittered(replace(one, host=HostTick(75.0, 0.0, 1.3)), 60, seed=5), WATCHED)
    )
    assert sentence == "LIMIT: 4 of its processes share CPU 0, while others are free"


def held_back(**more):
    one = tick(
        0.0,
        60.0,
        cpu=60,
        idle=95,
        main=0.5,
        cpus=0.5,
        limit=QUOTA,
        throttled_percent=90.0,
        gpus=(),
        **more,
    )
    return replace(one, host=HostTick(95.0, 0.0, 0.6))


def state_of(one):
    return states_of([one])[-1]


def test_quota_is_a_cause_of_its_own_and_says_which():
    verdict, account = judged(jittered(held_back(), 60, seed=3), WATCHED)
    assert (verdict.state, verdict.confidence, verdict.limit) == (
        State.LIMIT,
        Confidence.HIGH,
        QUOTA,
    )
    sentence = make_headline(verdict, account)
    assert sentence.startswith(
        "LIMIT: its quota gives it 0.5 of 16 CPUs, which held it back 90 % of the time"
    )


def test_quota_that_holds_nothing_back_is_no_cause():
    one = replace(
        held_back(),
        throttled_percent=2.0,
        tree=replace(held_back().tree, cores=0.1, main_cores=0.1),
    )
    assert state_of(one) is not State.LIMIT


def test_affinity_is_the_limit_where_the_job_fills_it_and_others_are_free():
    pinned = CpuLimit(LimitKind.AFFINITY, 1.0, 8)
    one = tick(
        0.0,
        60.0,
        cpu=90,
        children=(0.33, 0.33, 0.33),
        main=0.0,
        delay=2.0,
        cpus=1.0,
        limit=pinned,
        gpus=(),
    )
    free = replace(one, host=HostTick(0.0, 0.0, 1.0))
    assert state_of(free) is State.LIMIT
    full = replace(free, host=HostTick(0.0, 0.0, 8.0))  # nothing is free beyond it: it would share
    assert step(HeldState(), full) == HeldState(State.LIMIT, 0, Trust.LOW)
    most = replace(full, limit=replace(pinned, cpus=6.0), cpus=6.0)
    assert state_of(replace(most, tree=replace(one.tree, cores=5.9))) is State.CPU


def test_nobody_takes_cpus_that_are_free():
    """One thread under half a CPU, 70 % of the CPUs free: once called FOREIGN."""
    one = replace(
        held_back(), limit=None, throttled_percent=None, cpus=2.0, host=HostTick(70.0, 0.0, 0.55)
    )
    assert state_of(replace(one, tree=replace(one.tree, run_delay_cores=0.5))) is not State.FOREIGN


@pytest.mark.parametrize(
    ("link", "folder", "is_hidden"),
    [
        ("cgroup:[4026531835]", "", False),
        ("cgroup:[4026532999]", "", True),  # a container: the groups above its own are not shown
        ("cgroup:[4026531835]", "/missing", True),  # a sandbox that shows none
        (None, "", False),  # before Linux 4.6
    ],
)
def test_limits_above_a_container_are_known_to_be_hidden(
    tmp_path, monkeypatch, link, folder, is_hidden
):
    def read_link(path):
        if link is None:
            raise FileNotFoundError(path)
        return link

    monkeypatch.setattr(limits.os, "readlink", read_link)
    assert hides_limits((f"{tmp_path}{folder}",)) is is_hidden


@pytest.mark.parametrize(
    ("state", "one"),
    [
        (
            State.FOREIGN,
            tick(cpu=98, idle=0, children=(0.17,) * 3, main=0.0, delay=2.5, gpus=(), cpus=2.0),
        ),
        (
            State.CPU,
            tick(cpu=73, idle=44, children=(0.36,) * 3, main=0.02, delay=1.8, gpus=(), cpus=2.0),
        ),
    ],
)
def test_quota_that_cannot_be_seen_keeps_what_looks_the_same_at_low_confidence(state, one):
    """Measured: three processes in a control group namespace below a quota, beside three others and
    with none.
    """
    one = replace(one, tree=replace(one.tree, wanting=3.0, wanting_processes=3, most_runnable=1.0))
    verdict, _ = judged(jittered(one, 60, seed=5), WATCHED)
    assert (verdict.state, verdict.confidence) == (state, Confidence.HIGH)
    verdict, _ = judged(jittered(replace(one, are_limits_hidden=True), 60, seed=5), WATCHED)
    assert (verdict.state, verdict.confidence) == (state, Confidence.LOW)
    assert any("is not visible from inside" in line for line in verdict.would_decide)
