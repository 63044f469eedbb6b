"""Processes that work side by side on what others made: each may end, and costs its own thing
only.
"""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from hosttune.errors import HosttuneError
from hosttune.host import workers


def answer(thing: str) -> str:
    if thing == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if thing == "memory":
        return str(len(bytearray(1 << 30)))  # more than could be free in this process
    if thing == "endless":
        while True:
            pass
    if thing == "slow":
        time.sleep(0.2)
    if thing == "wrong":
        raise HosttuneError(thing)
    return thing.upper()


def ask(*things: str, jobs: int) -> list[str]:
    return list(workers.map_in_order(answer, things, jobs, lambda thing, why: f"{thing}: {why}"))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("killed", "the process that read it was ended, perhaps for want of memory"),
        ("memory", "takes more than 1 GiB of memory"),
        ("endless", "takes more than 120 s of CPU"),
    ],
)
def test_worker_that_ends_costs_its_own_thing_only(monkeypatch, bad, why, jobs):
    monkeypatch.setattr(workers, "MOST_BYTES", 32 << 20)
    monkeypatch.setattr(workers, "MOST_CPU_S", 0.2)
    assert ask("slow", "a", bad, "b", bad, "c", jobs=jobs) == [
        "SLOW",
        "A",
        f"{bad}: {why}",
        "B",
        f"{bad}: {why}",
        "C",
    ]


def test_answers_keep_the_order_and_what_is_raised_is_raised_here():
    things = ["slow", *map(str, range(200))]
    assert ask(*things, jobs=3) == [one.upper() for one in things]
    with pytest.raises(HosttuneError, match="wrong"):
        ask("a", "wrong", jobs=2)
    assert ask(jobs=2) == []


def test_no_worker_is_left_where_no_answer_is_taken_any_more():
    before = psutil.Process().children()  # other tests leave a child that looks at mounts
    answers = workers.map_in_order(
        os.path.dirname, [f"/{one}/x" for one in range(50)], 2, lambda *_: ""
    )
    assert next(answers) == "/0"
    assert len(psutil.Process().children()) > len(before)
    answers.close()
    assert psutil.Process().children() == before


def test_no_more_workers_than_memory_is_available(monkeypatch):
    monkeypatch.setattr(
        workers, "head_text", lambda _: "MemTotal: 9 kB\nMemAvailable:    3500000 kB\n"
    )
    assert [workers.fit_workers(one) for one in (1, 3, 64)] == [1, 3, 3]
    monkeypatch.setattr(workers, "head_text", lambda _: "MemAvailable: 10 kB\n")
    assert workers.fit_workers(64) == 1
    monkeypatch.setattr(workers, "head_text", lambda _: "")
    assert workers.fit_workers(64) == 64
