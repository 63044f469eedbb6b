"""Threads against CPUs: 16 and 1 of them, recorded on 2 CPUs and under a quota of half a CPU; and
how they are counted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.measure.views.watch_words import list_evidence, make_headline
from hosttune.measure.watch import tasks
from hosttune.measure.watch.process import WatchedProcess
from hosttune.measure.watch.recording import replay
from hosttune.measure.watch.remedies import Crowd, choose_remedies
from hosttune.measure.watch.states import State
from hosttune.measure.watch.tasks import MOST_READ, look_at_tasks
from tests.unit.watch_scenarios import WATCHED, jittered, judged, tick

FOLDER = Path(__file__).resolve().parent / "watch_ticks/threads"


def seen(name):
    watched, ticks = replay(str(FOLDER / f"{name}.jsonl"))
    verdict, account = judged(ticks, watched)
    return verdict, account, [advice.text for advice in choose_remedies(verdict, account)]


@pytest.mark.parametrize(("name", "cpus"), [("16-on-2-CPUs", 2), ("16-in-half-a-CPU", 1)])
def test_threads_that_want_more_than_its_cpus_come_first(name, cpus):
    verdict, account, texts = seen(name)
    assert " threads want " in make_headline(verdict, account)
    assert " threads want " in texts[0]
    assert f"OMP_NUM_THREADS={cpus}" in texts[0], (
        "a program of C, which is given as many as there are CPUs"
    )


@pytest.mark.parametrize("name", ["1-on-2-CPUs", "1-in-half-a-CPU"])
def test_one_thread_is_never_too_many(name):
    verdict, account, texts = seen(name)
    assert not any("threads want" in text for text in (make_headline(verdict, account), *texts))


def test_under_a_quota_more_cpus_come_last_and_cpu_time_is_not_ruled_out():
    verdict, _, texts = seen("16-in-half-a-CPU")
    assert texts[-1].startswith("give it more CPUs: ")
    assert State.CPU not in verdict.not_the_cause


def crowded(wanting, processes, **other):
    one = tick(cpu=90, idle=0, delay=1.0, gpus=(), **other)
    verdict, account = judged(
        jittered(
            replace(one, tree=replace(one.tree, wanting=wanting, wanting_processes=processes)),
            60,
            seed=5,
        ),
        WATCHED,
    )
    return [advice.text for advice in choose_remedies(verdict, account)]


def test_many_processes_are_no_threads():
    texts = crowded(8.0, 8, children=(0.25,) * 8)
    assert texts[0] == "8 processes want 2 CPUs: as many as CPUs are enough (num_workers=2)"
    assert Crowd(7, 1, 1.0).text(of_threads=True) == "7 threads want 1 CPU"
    assert "threads want" not in crowded(3.0, 3, children=(0.6,) * 3)[0]


@pytest.mark.parametrize(
    ("tasks", "processes", "first"), [(4.0, 3, "4 threads"), (8.0, 7, "7 processes")]
)
def test_one_process_of_several_threads_among_many_is_named_with_them(tasks, processes, first):
    """A learner beside its games; and a main process whose second thread hands batches over."""
    texts = crowded(tasks, processes, children=(0.6,) * (processes - 1))
    assert texts[0].startswith(f"{first} want 2 CPUs: ")
    assert any(text.startswith(f"{processes} processes want 2 CPUs: ") for text in texts)


def process(folder, pid, main, threads):
    """A built /proc: `threads` are states of the threads beside the main one."""
    line = "{} (x) {} 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 {} 0 7 0 0"
    for number, state in ((pid, main), *enumerate(threads, pid + 1)):
        task = folder / str(pid) / "task" / str(number)
        task.mkdir(parents=True)
        (task / "stat").write_text(line.format(number, state, 1))
    (folder / str(pid) / "stat").write_text(line.format(pid, main, 1 + len(threads)))
    found = WatchedProcess(pid, str(folder), is_kept=False)
    assert found.look()
    return found


def test_reader_thread_that_waits_for_storage_blocks_its_process(tmp_path):
    reader = process(tmp_path, 100, "S", ["S", "D", "S"])
    beside = process(tmp_path, 200, "S", ["D", "R"])
    assert look_at_tasks([reader], str(tmp_path)) == (0, 0, 1)
    assert look_at_tasks([reader, beside], str(tmp_path)) == (1, 1, 1)


def test_process_of_very_many_threads_costs_a_bounded_look(tmp_path, monkeypatch):
    found = process(tmp_path, 1000, "R", ["R"] * 1500)
    read = []
    content_of = tasks.content_of
    monkeypatch.setattr(tasks, "content_of", lambda path: read.append(path) or content_of(path))
    assert look_at_tasks([found], str(tmp_path)) == (1501, 1, 0)
    assert len(read) <= MOST_READ


@pytest.mark.parametrize("awake", ["R", "D"])
def test_of_a_pool_that_sleeps_a_few_threads_are_looked_at_in_turn(tmp_path, monkeypatch, awake):
    found = process(tmp_path, 1000, "S", ["S"] * 200)
    (tmp_path / "1000/io").write_text(
        "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
    )
    read = []
    content_of = tasks.content_of
    monkeypatch.setattr(tasks, "content_of", lambda path: read.append(path) or content_of(path))

    def count():
        read.clear()
        assert found.look()
        return look_at_tasks([found], str(tmp_path)), len(read)

    assert count() == ((0, 0, 0), 200)
    assert count()[1] <= 13
    task = tmp_path / "1000/task/1100/stat"
    task.write_text(task.read_text().replace(" S ", f" {awake} "))
    looks = [count() for _ in range(18)]
    expected = (1, 1, 0) if awake == "R" else (0, 0, 1)
    first = next(number for number, (states, _) in enumerate(looks) if states == expected)
    assert all(states == expected and most >= 200 for states, most in looks[first:]), (
        "once one is awake all are read"
    )
    task.write_text(task.read_text().replace(f" {awake} ", " S "))
    count()
    stat = tmp_path / "1000/stat"
    stat.write_text(stat.read_text().replace(" 5 5 0 0 20 ", " 25 25 0 0 20 "))
    assert count()[1] == 200, "it has computed"


def test_main_thread_whose_state_is_known_is_not_read_again(tmp_path, monkeypatch):
    found = process(tmp_path, 100, "R", ["S", "R"])
    read = []
    content_of = tasks.content_of
    monkeypatch.setattr(tasks, "content_of", lambda path: read.append(path) or content_of(path))
    assert look_at_tasks([found], str(tmp_path)) == (2, 1, 0)
    assert not any("/task/100/" in path for path in read)


def test_evidence_names_the_threads():
    verdict, account, _ = seen("16-on-2-CPUs")
    assert "of its threads run or queue for one" in " ".join(list_evidence(verdict, account))
