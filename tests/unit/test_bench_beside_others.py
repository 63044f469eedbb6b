"""`bench` beside the work of others: the priority of what it writes, and whom it names."""

from __future__ import annotations

import os
import time

import pytest

from hosttune.measure.bench import low_priority
from hosttune.measure.bench.bystanders import list_bystanders
from hosttune.measure.bench.low_priority import run_quietly


def test_quiet_work_has_the_lowest_priority_and_leaves_ours():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert run_quietly(lambda _: os.getpriority(os.PRIO_PROCESS, 0)) == 19
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    with pytest.raises(ZeroDivisionError):
        run_quietly(lambda _: 1 // 0)


def test_quiet_work_is_told_to_end_when_its_caller_is_interrupted(monkeypatch):
    seen = []

    def work(is_over):
        while not is_over():
            time.sleep(0.001)
        seen.append("ended")

    def interrupted(self, timeout=None):
        del self
        if timeout is not None:
            raise KeyboardInterrupt
        while not seen:
            time.sleep(0.001)

    monkeypatch.setattr(low_priority.threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(work)
    assert seen == ["ended"]


def test_bystanders_are_large_processes_of_others():
    rows = [
        {"pid": 10, "ppid": 1, "name": "python", "username": "alice", "rss_bytes": 9 << 30},
        {"pid": 11, "ppid": 1, "name": "sh", "username": "bob", "rss_bytes": 1 << 20},
        {
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "name": "hosttune",
            "username": "root",
            "rss_bytes": 9 << 30,
        },
        {
            "pid": os.getppid(),
            "ppid": 13,
            "name": "hosttune",
            "username": "root",
            "rss_bytes": 9 << 30,
        },
        {"pid": 13, "ppid": 1, "name": "notebook", "username": "root", "rss_bytes": 9 << 30},
        {"pid": 12, "ppid": 1, "name": "java", "username": "carol", "rss_bytes": 10 << 30},
    ]
    assert list_bystanders(rows) == ("java of carol (pid 12)", "python of alice (pid 10)")
