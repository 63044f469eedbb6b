"""Where the processes of a job may run, against where their GPUs are."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.views.watch_words import list_evidence
from hosttune.measure.watch import near
from hosttune.measure.watch.near import NearCpus, judge_places
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.tick import Placement
from tests.unit.watch_scenarios import MEASURED, WATCHED, jittered, judged

GPUS = tuple(GpuSample(index, f"GPU-{index}", "H100", pids=(10 + index,)) for index in range(2))


@pytest.fixture
def places(tmp_path):
    for index, cpus in enumerate(("0-31", "32-63")):
        slot = f"0000:{index}1:00.0"
        (tmp_path / "driver" / slot).mkdir(parents=True)
        (tmp_path / "driver" / slot / "information").write_text(
            f"Model: H100\nGPU UUID: \t GPU-{index}\nDevice Minor: {index}\n"
        )
        (tmp_path / "devices" / slot).mkdir(parents=True)
        (tmp_path / "devices" / slot / "local_cpulist").write_text(f"{cpus}\n")
    return NearCpus(driver=str(tmp_path / "driver"), devices=str(tmp_path / "devices"))


@pytest.mark.parametrize(
    ("masks", "found"),
    [
        ({10: range(32), 11: range(32, 64)}, Placement(2, 0, 0, "", 2)),
        ({10: range(64), 11: range(64)}, Placement(2, 2, 0, "", 2)),
        (
            {10: range(32, 64), 11: range(32, 64)},
            Placement(2, 0, 1, "process 10 may use CPUs 32-63, its GPU is near 0-31", 2),
        ),
        ({10: range(28, 36), 11: range(60, 64)}, Placement(2, 0, 0, "", 2)),  # some are near
        ({}, None),  # they have just ended
    ],
)
def test_processes_far_from_their_gpus_are_found(places, monkeypatch, masks, found):
    monkeypatch.setattr(near, "_read_mask", lambda pid: frozenset(masks.get(pid, ())))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert places.look(GPUS, [1, 10, 11]) == found


def test_processes_of_others_and_gpus_of_no_known_place_tell_nothing(places, tmp_path):
    assert places.look(GPUS, [1]) is None
    assert NearCpus(driver=str(tmp_path / "none")).look(GPUS, [10, 11]) is None


def test_process_that_uses_gpus_of_both_nodes_is_near_to_one():
    both = {5: (set(range(64)), frozenset(range(8)))}
    assert judge_places(both, 2).far == 0


FAR = Placement(8, 0, 3, "process 10 may use CPUs 32-63, its GPU is near 0-31", 2)


@pytest.mark.parametrize(
    ("name", "seen", "begin"),
    [
        ("gpu bound", FAR, "3 of its 8 processes on GPUs may use no CPU near"),
        ("one worker", FAR, "3 of its 8 processes on GPUs may use no CPU near"),
        ("one worker", Placement(8, 8, 0, "", 2), "its ranks may run on every CPU"),
        ("gpu bound", Placement(8, 8, 0, "", 2), None),
        ("one worker", Placement(8, 8, 0, "", 1), None),  # one node
        ("one worker", Placement(1, 1, 0, "", 2), None),  # the kernel keeps one process about right
        ("one worker", Placement(8, 0, 0, "", 2), None),
    ],
)
def test_ranks_are_told_to_be_bound_where_that_may_help(name, seen, begin):
    verdict, account = judged(
        jittered(replace(MEASURED[name][1], placement=seen), 60, seed=5), WATCHED
    )
    texts = [one.text for one in choose_remedies(verdict, account)]
    named = [text for text in texts if "numactl" in text]
    assert [text.startswith(begin) for text in named] == ([True] if begin else [])
    assert any(
        "process 10 may use CPUs 32-63" in line for line in list_evidence(verdict, account)
    ) is bool(seen.far)
