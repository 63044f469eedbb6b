"""Bounds for tasks: of the host, and of the groups that jobs and people start them in."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

CGROUP = "/sys/fs/cgroup"
KERNEL = {"/proc/sys/kernel/pid_max": "4194304\n", "/proc/sys/kernel/threads-max": "100000\n"}


def group(path, tasks, most, events="max 0\n", root=CGROUP):
    base = f"{root}/{path}"
    return {
        f"{base}/pids.current": f"{tasks}\n",
        f"{base}/pids.max": f"{most}\n",
        f"{base}/pids.events": events,
    }


def tasks_of(files):
    return Facts(FakeReader({**KERNEL, "/proc/loadavg": "0.0 0.1 0.2 3/50000 77\n", **files})).tasks


def test_lower_of_the_two_bounds_of_the_kernel_counts():
    tasks = tasks_of({})
    assert (tasks.total, tasks.most, tasks.percent, tasks.groups) == (50000, 100000, 50.0, ())


def test_groups_with_a_bound_are_told_of_either_version_of_control_groups():
    files = {
        **group("user.slice", 5, "max"),
        **group("user.slice/user-1000.slice", 90, 100, "max 4\nmax.imposed 4\n"),
        **group("user.slice/user@1000.service", 1, 2),
        **group("system.slice/docker.service", 3, "max"),
        **group("system.slice/cron.service", 3, 4),
        **group("system.slice/slurmd.service", 7, 4915, root=f"{CGROUP}/pids"),
    }
    found = [
        (one.name, one.tasks, one.most, one.refused, one.percent) for one in tasks_of(files).groups
    ]
    assert found == [
        ("user-1000.slice", 90, 100, 4, 90.0),
        ("cron.service", 3, 4, 0, 75.0),
        ("slurmd.service", 7, 4915, 0, 0.1),
    ]


def test_a_service_that_starts_no_jobs_and_ends_meanwhile_makes_nothing_unknown():
    ended = {f"{CGROUP}/system.slice/fwupd.service/pids.max": "4915\n"}
    assert tasks_of({**ended, **group("system.slice/cron.service", 3, "max")}).groups == ()


def test_bound_of_a_container_is_none_of_a_service():
    """Docker's containers are scopes of system.slice, and --pids-limit is meant
    (systemd.scope(5)).
    """
    files = group("system.slice/docker-0123456789abcdef.scope", 100, 100, "max 4\n")
    assert tasks_of(files).groups == ()
    step = group("system.slice/slurmstepd.scope", 100, 100, "max 4\n")
    assert [one.name for one in tasks_of({**files, **step}).groups] == ["slurmstepd.scope"]


@pytest.mark.parametrize("count", [60, 1001])
def test_no_user_is_left_out_without_a_word(count):
    files = {}
    for uid in range(count):
        files |= group(f"user.slice/user-{1000 + uid}.slice", 1, 9)
    if count == 60:
        assert len(tasks_of(files).groups) == 60
    else:
        with pytest.raises(UnknownFact, match="more than 1,000 users"):
            _ = tasks_of(files).groups


def test_what_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="denied"):
        _ = tasks_of(
            {f"{CGROUP}/system.slice/slurmd.service/pids.max": Unreadable("denied")}
        ).groups
    with pytest.raises(UnknownFact, match="how many tasks"):
        _ = tasks_of({"/proc/loadavg": "x"}).total
    with pytest.raises(UnknownFact, match="threads-max does not exist"):
        _ = Facts(FakeReader({"/proc/sys/kernel/pid_max": "1"})).tasks.most
