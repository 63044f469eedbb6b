"""Ticks that were recorded from real processes (tests/live/test_live_watch.py, on two CPUs beside
heavy load of others; what needs CPUs that are free, in a guest under qemu with systemd), as they
are and as other kernels and GPUs would have told them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.measure.views.watch_words import list_evidence, make_headline
from hosttune.measure.watch.recording import replay
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.tick import Tick
from hosttune.measure.watch.verdict import Confidence, VerdictKind
from tests.unit.watch_scenarios import judged

FOLDER = Path(__file__).resolve().parent / "watch_ticks"
STATES = {
    "gpu-bound": "GPU", "busy-and-cold": "COLD_GPU", "slow-disk-two-workers": "DISK", "slow-disk-eight-workers": "DISK",
    "one-worker": "WORKERS", "main-process-loads": "WORKERS", "six-workers": "CPU", "network-like-waiting": "WAIT",
    "six-foreign-hogs": "FOREIGN", "three-foreign-hogs": "FOREIGN", "asleep": "IDLE",
}  # fmt: skip


def verdict(name, change=lambda one: one):
    watched, ticks = replay(str(FOLDER / f"{name}.jsonl"))
    return judged([change(one) for one in ticks], watched)[0]


def with_gpus(**changes):
    return lambda one: replace(one, gpus=tuple(replace(gpu, **changes) for gpu in one.gpus))


def on_v1(one: Tick) -> Tick:
    return replace(one, job=None)


def without_psi(one: Tick) -> Tick:
    return replace(one, job=None, host_pressure=None)


# Of jobs of PyTorch 2.11 on an H200 with 16 CPUs (driver 580.159.04, NVML, control groups of
# version 2), each watched for some 20 s.
ON_H200 = {
    "gpu-bound": "GPU", "six-loaders-that-keep-up": "GPU", "gpu-then-one-loader": "WORKERS", "four-loaders-that-fetch": "WAIT network",
    "eight-loaders-of-cold-files": "DISK", "small-kernels": "WORKERS", "lock": "WAIT lock", "copies-from-pageable-memory": "WORKERS",
    "64-loaders": "CPU", "three-spawned-loaders-with-cuda": "WORKERS", "eight-loaders-on-two-CPUs": "LIMIT",
    "three-loaders-beside-80-hogs": "FOREIGN", "gpu-bound-beside-another-job": "GPU", "gpu-and-checkpoints": "",
    "gpu-and-sleep": "WAIT timer", "two-loaders": "WORKERS", "idle": "IDLE",
}  # fmt: skip
UNSURE = {"gpu-bound-beside-another-job", "gpu-and-checkpoints", "idle"}


def test_all_recorded_ticks_are_tried():
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == STATES.keys()


@pytest.mark.parametrize("name", STATES)
def test_recorded_job_gets_its_verdict(name):
    found = verdict(name)
    assert found.state.value == STATES[name]
    # these records do not tell what the job slept on
    is_thin = found.outcome is VerdictKind.IDLE or STATES[name] == "WAIT"
    assert found.confidence is (Confidence.LOW if is_thin else Confidence.MEDIUM)


@pytest.mark.parametrize("name", STATES)
def test_recorded_job_without_a_group_of_its_own_is_never_called_something_else(name):
    found = verdict(name, on_v1)
    assert found.state is None or found.state.value == STATES[name]


@pytest.mark.parametrize("name", STATES)
def test_recorded_job_without_psi_is_never_wrong_with_confidence(name):
    found = verdict(name, without_psi)
    assert found.confidence is Confidence.LOW or found.state.value == STATES[name]


@pytest.mark.parametrize("name", STATES)
def test_recorded_job_on_mig_is_never_called_after_the_gpu(name):
    found = verdict(name, with_gpus(util_percent=None, power_w=None, is_mig=True))
    assert found.state is None or found.state.value == STATES[name]
    assert found.state is None or found.state.value not in {"GPU", "COLD_GPU", "IDLE"}


def test_recorded_job_without_power_is_gpu_and_one_whose_gpu_is_lost_is_undecided():
    assert verdict("busy-and-cold", with_gpus(power_w=None)).state.value == "GPU"
    lost = verdict("busy-and-cold", with_gpus(util_percent=None, power_w=None, lost=True))
    assert lost.outcome is VerdictKind.UNDECIDED
    assert any("fell off the bus" in sentence for sentence in lost.would_decide)


def test_all_ticks_of_the_h200_are_tried():
    assert {path.stem for path in (FOLDER / "h200").glob("*.jsonl")} == ON_H200.keys()


@pytest.mark.parametrize("name", ON_H200)
def test_job_on_an_h200_gets_its_verdict(name):
    found = verdict(f"h200/{name}")
    said = [
        found.state.value if found.state else "",
        found.waits_for.value if found.waits_for else "",
    ]
    assert " ".join(said if said[0] == "WAIT" else said[:1]) == ON_H200[name]
    assert found.confidence is (Confidence.LOW if name in UNSURE else Confidence.MEDIUM)


def test_starved_gpu_ends_the_warm_up_of_a_short_watch():
    """It never works for a fifth of a second, so that the minute that is waited for it is longer
    than the watch.
    """
    found = verdict("h200/two-loaders")
    assert (round(found.warm_up_s), round(found.counted_s)) == (10, 11)
    assert verdict("h200/gpu-bound").warm_up_s < 7


def test_gpu_that_others_use_as_well_is_not_said_to_be_fed_well():
    watched, ticks = replay(str(FOLDER / "h200/gpu-bound-beside-another-job.jsonl"))
    ticks = list(ticks)
    found, account = judged(ticks, watched)
    assert account.gpu_neighbours == ("python3 (2269)",)
    assert "with others that are on it as well" in make_headline(found, account)
    assert "not of the job, and on its GPUs as well: python3 (2269)" in list_evidence(
        found, account
    )
    assert [advice.text.split(":")[0] for advice in choose_remedies(found, account)] == [
        "other processes hold memory on the job's GPUs, and whose kernels ran is not known"
    ]
    assert any("no figure separates them" in gap for gap in found.would_decide)
    alone, account = judged([replace(one, gpu_others=()) for one in ticks], watched)
    assert (alone.confidence, account.gpu_neighbours) == (Confidence.HIGH, ())
