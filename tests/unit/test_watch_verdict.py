"""The verdict over ticks: one state, a change, a mixture, or undecided with what would decide
it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.measure.views.watch import watch_text
from hosttune.measure.views.watch_words import list_details, list_evidence
from hosttune.measure.watch.account import MOST_COLD, MOST_NAMES, Account
from hosttune.measure.watch.gaps import describe_gaps
from hosttune.measure.watch.history import History, cut_segments, join_points, point
from hosttune.measure.watch.session import WatchEnd
from hosttune.measure.watch.states import State
from hosttune.measure.watch.tick import DiskTick, Mounted
from hosttune.measure.watch.verdict import Confidence, VerdictKind, judge
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.watch_scenarios import (
    MEASURED,
    MIB,
    OTHERS,
    WATCHED,
    at,
    gpu,
    jittered,
    judged,
    tick,
)

SCENARIOS = {**MEASURED, **OTHERS}
GPU, DISK = MEASURED["gpu bound"][1], MEASURED["disk bound, two workers"][1]


def verdict_of(*parts, watched=WATCHED):
    ticks, begin = [], 0.0
    for one, count in parts:
        ticks += at(jittered(one, count, seed=count), begin)
        begin += count
    return judged(ticks, watched)[0]


@pytest.mark.parametrize("name", SCENARIOS)
def test_verdict_on_a_minute_of_one_scenario_names_its_state(name):
    wanted, one = SCENARIOS[name]
    verdict = verdict_of((one, 60))
    assert verdict.state is State(wanted)
    assert verdict.outcome is (VerdictKind.IDLE if wanted == "IDLE" else VerdictKind.ONE)
    assert wanted == "IDLE" or (verdict.shares[0].share, verdict.shares[0].longest_run_s) == (
        1.0,
        55.0,
    )


@pytest.mark.parametrize(
    ("one", "confidence"),
    [
        (DISK, Confidence.HIGH),
        (replace(DISK, job=None), Confidence.MEDIUM),
        (replace(MEASURED["one worker"][1], job=None, host_pressure=None), Confidence.LOW),
        (GPU, Confidence.HIGH),
        (OTHERS["no power"][1], Confidence.MEDIUM),
    ],
)
def test_confidence_follows_from_the_source_of_pressure(one, confidence):
    assert verdict_of((one, 60)).confidence is confidence


def test_short_watch_is_never_of_high_confidence_and_a_shorter_one_is_undecided():
    assert verdict_of((DISK, 15)).confidence is Confidence.MEDIUM
    short = verdict_of((DISK, 9))
    assert (short.outcome, short.state) == (VerdictKind.UNDECIDED, None)
    assert "only 4 s count" in short.would_decide[0]


def test_command_that_ended_cannot_be_watched_longer():
    account = judged(at(jittered(DISK, 9, seed=1), 0), WATCHED)[1]
    account.status = 0
    assert describe_gaps(account)[0] == (
        "only 4 s count (the warm-up took 5 s): give it work for half a minute, or set --warm-up"
    )
    account = judged(at(jittered(DISK, 21, seed=1), 0), WATCHED)[1]
    account.status = 0
    assert describe_gaps(account)[0] == "only 16 s count (the warm-up took 5 s): set --warm-up"


def test_job_that_is_stopped_in_its_warm_up_for_days_keeps_no_ticks():
    account = Account(replace(WATCHED, warm_up_s=None))
    starved = replace(MEASURED["one worker"][1], gpus=(gpu(3.0, 90.0),))
    for one in [
        *at(jittered(starved, 30, seed=1), 0),
        *[replace(starved, at_s=float(at_s), is_paused=True) for at_s in range(31, 2000)],
    ]:
        account.add(one)
    assert len(account._cold) == MOST_COLD
    assert account.settle() is account
    short = judged(at(jittered(starved, 30, seed=1), 0), replace(WATCHED, warm_up_s=None))[0]
    assert (short.state, round(short.warm_up_s)) == (State.WORKERS, 10)


def test_record_with_long_lists_keeps_no_ticks_of_an_endless_warm_up():
    """Of a stranger: each line is 1 MiB at most, and a thousand of them are some gigabytes as
    ticks.
    """
    account = Account(replace(WATCHED, warm_up_s=None))
    starved = MEASURED["one worker"][1]
    many = replace(starved, disks=(DiskTick("sda", 0.0, 0.0),) * 100_000, seconds=1e-6)
    for number in range(30):
        account.add(replace(many, at_s=number * 1e-6))
    assert account._cold == []
    assert account.settle() is account


def test_first_epoch_that_was_cold_is_told_from_the_rest():
    verdict = verdict_of((DISK, 100), (GPU, 100))
    assert (verdict.outcome, verdict.state, verdict.first_was_cold) == (
        VerdictKind.CHANGED,
        State.GPU,
        True,
    )
    assert [(cut.state.value, cut.begin_s, cut.end_s) for cut in verdict.segments] == [
        ("DISK", 5, 100),
        ("GPU", 100, 200),
    ]
    assert all(cut.share > 0.98 for cut in verdict.segments)


def test_long_second_part_leads_and_the_first_stays_in_the_segments():
    verdict = verdict_of((DISK, 60), (GPU, 600))
    assert (verdict.outcome, verdict.state, verdict.first_was_cold) == (
        VerdictKind.ONE,
        State.GPU,
        True,
    )
    assert [cut.state for cut in verdict.segments] == [State.DISK, State.GPU]


def test_alternating_states_are_mixed_and_name_both():
    parts = [(DISK, 8), (MEASURED["one worker"][1], 6)] * 8
    verdict = verdict_of(*parts)
    assert (verdict.outcome, verdict.confidence) == (VerdictKind.MIXED, Confidence.MEDIUM)
    assert [share.state for share in verdict.shares] == [State.DISK, State.WORKERS]


def test_what_comes_every_few_seconds_is_mixed_with_low_confidence():
    asleep = OTHERS["idle"][1]
    verdict = verdict_of(
        *[(DISK, 3), (asleep, 1)] * 8
    )  # a checkpoint of three seconds, each second one
    assert (verdict.outcome, verdict.state, verdict.confidence) == (
        VerdictKind.MIXED,
        State.DISK,
        Confidence.LOW,
    )
    assert verdict_of(*[(GPU, 3), (DISK, 1)] * 8).outcome is VerdictKind.UNDECIDED
    assert verdict_of(*[(DISK, 1), (asleep, 2)] * 8).state is not State.DISK


def test_states_that_change_every_second_are_undecided():
    ones = [
        MEASURED[name][1]
        for name in ("disk bound, two workers", "one worker", "network-like waiting")
    ]
    verdict = verdict_of(*[(one, 1) for one in ones] * 20)
    assert (verdict.outcome, verdict.state) == (VerdictKind.UNDECIDED, None)


def test_warm_up_ends_with_the_first_work_of_the_gpu_and_does_not_count():
    watched = replace(WATCHED, warm_up_s=None)
    start = tick(0.0, 60.0, children=(1.0,), idle=40)
    verdict = verdict_of((start, 40), (GPU, 50), watched=watched)
    assert (verdict.warm_up_s, verdict.counted_s, verdict.state) == (41.0, 49.0, State.GPU)
    assert verdict_of((MEASURED["one worker"][1], 100), watched=watched).warm_up_s == 60.0
    assert verdict_of((OTHERS["no gpu in the machine"][1], 100), watched=watched).warm_up_s == 10.0


def test_idle_time_counts_and_paused_time_does_not():
    idle = OTHERS["idle"][1]
    verdict = verdict_of((GPU, 40), (idle, 20), (replace(GPU, is_paused=True, seconds=1.0), 30))
    assert (verdict.state, verdict.counted_s, verdict.idle_s, verdict.seconds) == (
        State.GPU,
        55.0,
        20.0,
        90.0,
    )
    assert {one.state: round(one.share, 2) for one in verdict.shares} == {
        State.GPU: 0.64,
        State.IDLE: 0.36,
    }


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (tick(gpus=(gpu(None, None, is_mig=True),)), "dcgmi dmon -e 1002"),
        (tick(gpus=(gpu(None, None, lost=True),)), "fell off the bus"),
        (tick(gpus=None), "no GPU is visible (libnvidia-ml.so.1 is absent)"),
        (tick(1.0, cpu=3, idle=0, children=(0.2,), delay=None), "schedstat"),
    ],
)
def test_undecided_says_what_would_decide_it(one, words):
    verdict = verdict_of(
        (one, 60), watched=replace(WATCHED, gpu_reason="libnvidia-ml.so.1 is absent")
    )
    assert (verdict.outcome, verdict.state) == (VerdictKind.UNDECIDED, None)
    assert any(words in sentence for sentence in verdict.would_decide), verdict.would_decide


def test_what_was_never_seen_is_told_as_not_the_cause_and_what_was_not_measured_is_not():
    assert verdict_of((MEASURED["one worker"][1], 60)).not_the_cause == (
        State.GPU,
        State.DISK,
        State.MEM,
        State.CPU,
        State.FOREIGN,
    )
    blind = replace(MEASURED["one worker"][1], job=None, host_pressure=None)
    assert verdict_of((blind, 60)).not_the_cause == (State.GPU, State.CPU, State.FOREIGN)


def test_zero_ticks_and_their_longest_run_are_counted():
    account = Account(WATCHED)
    for one in [
        *jittered(GPU, 30, 1),
        *at(jittered(tick(0.0, children=(1.0,), idle=50), 4, 1), 30),
        *at(jittered(GPU, 9, 1), 34),
    ]:
        account.add(one)
    assert (account.zero_s, account.zero_run.longest_s, account.judged_gpu_s) == (4.0, 4.0, 38.0)


def test_week_long_watch_keeps_bounded_points_and_right_times():
    history = History(capacity=64)
    for number in range(10_000):
        history.add(
            point(
                replace(DISK if number < 4000 else GPU, at_s=number + 1.0),
                State.DISK if number < 4000 else State.GPU,
                is_counted=True,
            )
        )
    assert len(history.points) < 64
    assert sum(one.seconds for one in history.points) == 10_000
    first, second = cut_segments(history.points)
    assert (first.state, second.state) == (State.DISK, State.GPU)
    assert abs(first.end_s - 4000) <= 256


def test_report_that_is_longer_than_the_screen_ends_with_the_verdict():
    account = Account(WATCHED)
    for one in jittered(DISK, 60, 1):
        account.add(one)
    end = WatchEnd(account, "the command has ended", notes=("a note",) * 20)
    for is_terminal in (True, False):
        screen = Screen(80, is_terminal=is_terminal)
        last = watch_text(end, Page(screen=screen)).rpartition("\n\n")[2]
        assert last.startswith("verdict: DISK") is is_terminal


def test_joined_points_keep_what_only_one_of_them_knew():
    one = point(tick(10.0, device=MIB), State.WAIT, is_counted=True)
    two = point(replace(tick(30.0), tree=None, at_s=2.0), State.GPU, is_counted=False)
    both = join_points(one, two)
    assert (both.at_s, both.seconds, both.counted_s, both.gpu_percent, both.device_bytes) == (
        2.0,
        2.0,
        1.0,
        20.0,
        MIB,
    )
    assert dict(both.states) == {State.WAIT: 1.0, State.GPU: 1.0}


def test_hour_in_which_nothing_was_looked_at_is_not_judged():
    account = Account(WATCHED)
    for one in [*jittered(DISK, 60, 1), replace(OTHERS["idle"][1], at_s=3660.0, seconds=3600.0)]:
        account.add(one)
    for one in at(jittered(DISK, 60, 2), 3660):
        account.add(one)
    verdict = judge(account)
    assert (verdict.state, verdict.idle_s, verdict.paused_s) == (State.DISK, 0.0, 3600.0)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none", "GPU: none here (libnvidia-ml.so.1 is not installed); judged only by the host"),
        ("nvml", "GPU: none that the job may use (CUDA_VISIBLE_DEVICES); judged only by the host"),
    ],
)
def test_evidence_without_a_gpu_says_so(source, said):
    watched = replace(WATCHED, gpu_source=source, gpu_reason="libnvidia-ml.so.1 is not installed")
    verdict, account = judged(jittered(OTHERS["no gpu in the machine"][1], 30, seed=1), watched)
    assert said in list_evidence(verdict, account)


def test_evidence_of_a_watch_without_a_look_says_nothing_about_reading():
    assert list_evidence(judge(Account(WATCHED)), Account(WATCHED)) == ("watched 0 s",)


def test_details_tell_every_state_the_sources_and_iowait():
    ticks = [*at(jittered(DISK, 40, seed=1), 0), *at(jittered(GPU, 60, seed=2), 40)]
    watched = replace(
        WATCHED, pressure_reason="spread over several groups", gpu_reason="NVML is too old"
    )
    found = list_details(*judged(ticks, watched))
    assert found == (
        "states: GPU 63 % (60 s on end), DISK 37 % (35 s on end)",
        "GPU figures: replay (NVML is too old)",
        "pressure: spread over several groups",
        "iowait 0 %: shown, and not judged by",
        "100 looks, at most 3 processes at once",
    )


@pytest.mark.parametrize("is_verbose", [True, False])
def test_text_with_verbose_tells_more(is_verbose):
    account = judged(jittered(GPU, 30, seed=1), WATCHED)[1]
    text = watch_text(WatchEnd(account, "the command has ended"), Page(is_verbose=is_verbose))
    assert ("states: GPU 100 %" in text) is is_verbose


@pytest.mark.parametrize(("source", "is_said"), [("nvml", True), ("nvidia-smi", False)])
def test_gpus_that_do_not_answer_are_said_whatever_the_verdict(source, is_said):
    """Of nvidia-smi the reason is why NVML is not asked."""
    reason = "NVML shows 7 of the 8 GPUs that the driver holds: the others do not answer"
    verdict, account = judged(
        at(jittered(GPU, 60, seed=1), 0.0), replace(WATCHED, gpu_source=source, gpu_reason=reason)
    )
    assert verdict.state is State.GPU
    assert (
        f"GPUs: {reason} (hosttune driver says which)" in list_evidence(verdict, account)
    ) is is_said


def test_record_that_names_others_in_each_tick_grows_no_account():
    """Who writes a record for somebody else chooses all names in it, in a megabyte a line."""
    account = Account(WATCHED)
    for number in range(80):
        mounts = tuple(Mounted(f"/m{number}-{one}", "x", "s", "") for one in range(8))
        disks = tuple(DiskTick(f"d{number}-{one}", 1.0, 1.0) for one in range(100))
        gpus = tuple(gpu(1.0, 1.0, index=number * 100 + one) for one in range(100))
        account.add(replace(at([DISK], float(number))[0], mounts=mounts, disks=disks, gpus=gpus))
    assert len(account.mounts) == MOST_NAMES
    assert len(account.disk_bytes) < 5000
    assert len(account.gpus) < 5000
