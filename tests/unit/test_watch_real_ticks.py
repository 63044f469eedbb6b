"""Ticks that were recorded from real processes (tests/live/test_live_watch.py, on two CPUs beside heavy load of others; what
needs CPUs that are free, in a guest under qemu with systemd), as they are and as other kernels and GPUs would have told them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.measure.watch.recording import replay
from hosttune.measure.watch.tick import Tick
from hosttune.measure.watch.verdict import Confidence, VerdictKind, judged

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
    assert not found.is_confident or found.state.value == STATES[name]


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
