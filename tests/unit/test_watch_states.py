"""The state machine on ticks: what each scenario is, what is never concluded from what is unknown,
and no flicker.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.measure.watch.states import LIMITS, HeldState, Limits, State, Trust, step
from hosttune.measure.watch.tick import (
    CpuLimit,
    HostTick,
    LimitKind,
    Pressure,
    Tick,
    TreeTick,
    Wait,
    Want,
)
from tests.unit.watch_scenarios import MEASURED, MIB, OTHERS, gpu, jittered, states_of, tick

SCENARIOS = {**MEASURED, **OTHERS}


def state_of(one: Tick, held: State = State.UNKNOWN) -> State:
    return step(HeldState(held), one).state


@pytest.mark.parametrize("name", SCENARIOS)
def test_step_on_a_scenario_finds_its_state_in_every_tick(name):
    wanted, one = SCENARIOS[name]
    states = [state.value for state in states_of(jittered(one, 60, seed=7))]
    assert states == [wanted] * 60


def test_limits_are_those_the_first_scenarios_were_told_apart_by():
    assert Limits() == LIMITS
    assert (LIMITS.gpu_enter, LIMITS.gpu_leave, LIMITS.cold_enter, LIMITS.cold_leave) == (
        80,
        70,
        40,
        50,
    )
    assert (
        LIMITS.io_full_enter,
        LIMITS.io_some_enter,
        LIMITS.io_full_leave,
        LIMITS.io_some_leave,
    ) == (20, 40, 10, 25)
    assert (LIMITS.cpu_enter, LIMITS.cpu_leave, LIMITS.room_none, LIMITS.room_some) == (
        40,
        25,
        10,
        20,
    )
    assert (
        LIMITS.memory_enter,
        LIMITS.memory_leave,
        LIMITS.saturated_enter,
        LIMITS.saturated_leave,
    ) == (
        10,
        5,
        0.85,
        0.70,
    )


@pytest.mark.parametrize(
    ("state", "enters", "stays", "leaves"),
    [
        ("GPU", tick(81, 250), tick(72, 250), tick(69, 250)),
        ("COLD_GPU", tick(90, 100), tick(90, 145), tick(90, 155)),
        ("DISK", tick(io=(41, 0)), tick(io=(26, 0)), tick(io=(24, 9))),
        ("DISK", tick(io=(21, 21)), tick(io=(11, 11)), tick(io=(9, 9))),
        (
            "CPU",
            tick(cpu=41, children=(0.6, 0.6), idle=40),
            tick(cpu=26, children=(0.6, 0.6), idle=40),
            tick(cpu=24, children=(0.6, 0.6), idle=40),
        ),
        (
            "FOREIGN",
            tick(cpu=41, children=(0.3,), idle=0, delay=0.6),
            tick(cpu=26, children=(0.3,), idle=30, delay=0.6),
            tick(cpu=24, children=(0.3,), idle=30),
        ),
        (
            "WORKERS",
            tick(children=(0.86,), idle=50),
            tick(children=(0.71,), idle=50),
            tick(children=(0.69,), idle=50),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_step_near_a_limit_keeps_the_state_it_entered(state, enters, stays, leaves):
    wanted = State(state)
    assert state_of(enters) is wanted
    assert state_of(stays) is not wanted
    assert state_of(stays, wanted) is wanted
    assert state_of(leaves, wanted) is not wanted


def test_memory_holds_for_five_calm_ticks():
    calm = [tick(95, 280)] * 6
    states = [state.value for state in states_of([tick(memory=11), *calm])]
    assert states == ["MEM"] * 5 + ["GPU"] * 2


def test_unknown_utilization_names_neither_gpu_nor_a_starved_loader():
    mig = (gpu(None, None, is_mig=True),)
    for one in (
        tick(gpus=mig),
        tick(gpus=mig, children=(1.0,), idle=50),
        tick(gpus=None, children=(1.0,), idle=50),
        tick(gpus=mig, main=0.0, read=0.0),
    ):
        assert state_of(one) is State.UNKNOWN
    assert (
        state_of(tick(gpus=mig, io=(70, 60))) is State.DISK
    )  # what stalls, stalls whatever the GPU does


def test_tick_of_which_nothing_is_known_is_unknown():
    assert state_of(Tick(1.0, 1.0)) is State.UNKNOWN
    assert (
        state_of(Tick(1.0, 1.0, tree=TreeTick(3), host=HostTick(), job=Pressure(), gpus=()))
        is State.UNKNOWN
    )


def test_iowait_alone_never_names_the_disk():
    one = tick(
        3.0,
        job=None,
        host_pressure=None,
        host=HostTick(95.0, 90.0, 0.1, 0.0, 0.0, 0.0),
        children=(0.2,),
    )
    assert state_of(one) is State.WAIT
    assert step(HeldState(), one).trust is Trust.LOW


def test_blocked_readers_without_pressure_name_the_disk_with_low_trust():
    one = tick(3.0, job=None, host_pressure=None)
    blocked = replace(one, tree=replace(one.tree, blocked=2, device_bytes=8 * MIB))
    assert step(HeldState(), blocked) == HeldState(State.DISK, 0, Trust.LOW)
    assert (
        state_of(replace(blocked, tree=replace(blocked.tree, device_bytes=0.0, written_bytes=0.0)))
        is State.DISK
    )
    assert state_of(replace(blocked, tree=replace(blocked.tree, blocked=0))) is not State.DISK


def test_disk_pressure_of_the_host_is_not_that_of_a_job_that_runs_or_queues_all_the_time():
    # tqdm without an interval, to a file: 0.9 MB/s into the page cache, beside others who wait for
    # the disk
    one = tick(job=None, gpus=(), io=(46, 0), cpu=100, idle=0, children=(), main=0.31, delay=0.69)
    one = replace(
        one, tree=replace(one.tree, written_bytes=851_159.0, most_runnable=1.0, wanting=1.0)
    )
    assert state_of(one) is State.FOREIGN
    assert state_of(replace(one, tree=replace(one.tree, blocked=1))) is State.DISK
    assert state_of(replace(one, tree=replace(one.tree, most_runnable=0.4))) is State.DISK
    assert state_of(replace(one, job=one.host_pressure)) is State.DISK


def test_disk_pressure_of_the_host_is_not_the_jobs_where_it_touches_no_device():
    one = tick(3.0, job=None, io=(80, 80), children=(0.2,))
    assert state_of(one) is State.UNKNOWN  # neither DISK nor WAIT: the pressure is somebody's
    assert state_of(replace(one, tree=replace(one.tree, device_bytes=MIB))) is State.DISK
    unreadable = replace(one, tree=replace(one.tree, device_bytes=None, written_bytes=None))
    assert step(HeldState(), unreadable) == HeldState(State.DISK, 0, Trust.LOW)


def test_busy_host_is_not_foreign_where_the_job_does_not_queue():
    assert state_of(tick(1.0, cpu=3, idle=0, children=(0.2,), delay=0.01)) is State.UNKNOWN
    assert (
        state_of(tick(1.0, cpu=90, job=None, idle=0, children=(0.2,), delay=0.01)) is State.UNKNOWN
    )
    assert (
        state_of(tick(1.0, cpu=90, job=None, idle=0, children=(0.2,), delay=0.9)) is State.FOREIGN
    )


def test_job_that_mostly_sleeps_is_not_kept_by_others_though_it_queues():
    one = tick(1.0, cpu=60, idle=0, children=(0.05,) * 4, delay=0.4)
    assert state_of(one) is State.FOREIGN  # as far as this tick tells
    assert state_of(replace(one, tree=replace(one.tree, most_runnable=0.9))) is State.FOREIGN
    assert state_of(replace(one, tree=replace(one.tree, most_runnable=0.2))) is State.UNKNOWN


def test_idle_children_do_not_hide_a_saturated_one_but_half_loaded_ones_do():
    assert state_of(tick(children=(1.0, *(0.01,) * 30), idle=50, cpus=8.0)) is State.WORKERS
    assert state_of(tick(children=(1.0, 0.5, 0.4, 0.3), idle=50, cpus=8.0)) is not State.WORKERS


@pytest.mark.parametrize(
    ("one", "trust"),
    [
        (tick(95, 280), Trust.HIGH),
        (tick(gpus=(gpu(95, 280, pids=()),), gpus_are_its=False), Trust.MEDIUM),
        (tick(gpus=(gpu(95, 280, pids=(7,)),), gpus_are_its=False), Trust.LOW),
        (tick(95, None), Trust.MEDIUM),
        (tick(io=(70, 70)), Trust.HIGH),
        (tick(io=(70, 70), job=None, device=MIB), Trust.MEDIUM),
        (tick(children=(1.0,), idle=50), Trust.HIGH),
        (tick(children=(1.0,), idle=50, gpus_are_its=False), Trust.MEDIUM),
        (tick(children=(1.0,), idle=50, job=None, host_pressure=None), Trust.LOW),
    ],
)
def test_trust_follows_from_where_the_pressure_comes(one, trust):
    assert step(HeldState(), one).trust is trust


def test_pages_that_others_swap_in_are_not_the_jobs_where_its_own_pressure_is_none():
    swapping = HostTick(70.0, 20.0, 0.6, 900.0, 900.0, 10.0)
    assert state_of(tick(95, 280, memory=0.2, host=swapping)) is State.GPU
    assert state_of(tick(95, 280, memory=2, host=swapping)) is State.MEM
    assert state_of(tick(95, 280, memory=0.2, host=swapping, job=None)) is State.MEM


@pytest.mark.parametrize("gpus", [(gpu(None, None, is_mig=True),), None])
def test_what_stalls_beside_a_gpu_that_tells_nothing_is_never_sure_to_hold_it_up(gpus):
    assert step(HeldState(), tick(gpus=gpus, io=(70, 60))) == HeldState(State.DISK, 0, Trust.MEDIUM)
    assert step(HeldState(), tick(gpus=gpus, cpu=90, idle=0, children=(1.0, 0.9))) == HeldState(
        State.CPU, 0, Trust.LOW
    )
    assert step(HeldState(), tick(gpus=(), cpu=90, idle=0, children=(1.0, 0.9))).trust is Trust.HIGH


def test_main_process_with_many_threads_is_neither_at_its_limit_nor_waiting():
    assert state_of(tick(20, main=30.0, cpus=64.0, idle=53)) is State.UNKNOWN
    assert state_of(tick(20, main=30.0, cpus=64.0, idle=53, gpus=())) is State.UNKNOWN
    assert state_of(tick(20, main=1.3, cpus=64.0, idle=90)) is State.WORKERS


# What was recorded of jobs on two CPUs of which others had the rest (idle 0), their own pressure
# known.
BESIDE_OTHERS = {
    "slow collate in one worker": (
        {"cpu": 11, "idle": 0, "children": (0.92,), "main": 0.28, "delay": 0.1},
        "WORKERS",
    ),
    "main loop, idle workers": (
        {"cpu": 2, "idle": 0, "children": (0.04, 0.03), "main": 0.99, "delay": 0.02},
        "WORKERS",
    ),
    "a rank that others wait for": (
        {"cpu": 1, "idle": 0, "children": (0.98, 0.03, 0.02), "delay": 0.01},
        "WORKERS",
    ),
    "it has what it wants of both CPUs": ({"cpu": 2, "idle": 0, "children": (0.9, 0.9)}, "CPU"),
    "it queues": ({"cpu": 45, "idle": 0, "children": (0.6, 0.6), "delay": 0.5}, "CPU"),
}


@pytest.mark.parametrize("name", BESIDE_OTHERS)
def test_own_pressure_counts_over_the_room_of_the_host(name):
    figures, wanted = BESIDE_OTHERS[name]
    assert state_of(tick(**figures)).value == wanted
    assert state_of(tick(**figures), State.CPU).value == wanted


def test_pressure_of_the_host_counts_only_for_a_job_that_queues():
    free = tick(cpu=60, idle=0, children=(0.92,), main=0.28, delay=0.05, job=None)
    assert state_of(free) is State.WORKERS
    assert (
        state_of(tick(cpu=60, idle=0, children=(0.7,), main=0.4, delay=0.6, job=None)) is State.CPU
    )


def test_threads_that_queue_while_the_main_thread_sleeps_are_seen():
    """Recorded: two threads hash beside six processes of others; the delay of /proc/PID/schedstat
    is the main thread's.
    """
    one = tick(cpu=100, idle=0, main=0.49, gpus=(), job=None, wait=Wait(Want.LOCK, "in memory"))
    tree = replace(one.tree, most_runnable=0.49, run_delay_cores=0.0, wanting_processes=1)
    assert state_of(replace(one, tree=replace(tree, wanting=2.0))) is State.FOREIGN
    assert state_of(replace(one, tree=replace(tree, wanting=0.0))) is State.WAIT
    asleep = replace(tree, wanting=1.0, main_cores=0.02, cores=0.02, most_runnable=0.03)
    assert state_of(replace(one, tree=asleep)) is State.WAIT  # it has just woken
    shared = replace(tree, wanting=2.0, main_cores=0.98, cores=0.98, most_runnable=0.0)
    assert (
        state_of(replace(one, tree=shared)) is State.WORKERS
    )  # threads that share the interpreter
    served = replace(one, wait=Wait(Want.NETWORK, "10.0.0.1:80"))
    assert (
        state_of(replace(served, tree=replace(tree, wanting=1.0, cores=0.18, most_runnable=0.2)))
        is State.WAIT
    )


@pytest.mark.parametrize(
    ("kind", "of", "wanted", "trust"),
    [
        (LimitKind.AFFINITY, 2, State.LIMIT, Trust.LOW), (LimitKind.CPUSET, 8, State.LIMIT, Trust.LOW),
        (LimitKind.QUOTA, 2, State.CPU, Trust.MEDIUM),  # the quota did not hold it back
    ],
)  # fmt: skip
def test_job_that_fills_its_few_cpus_is_limited_also_where_others_have_the_rest(
    kind, of, wanted, trust
):
    host = HostTick(0.0, 0.0, float(of), 0.0, 0.0, 0.0)
    one = tick(
        cpu=100,
        main=0.99,
        gpus=(),
        job=None,
        cpus=1.0,
        limit=CpuLimit(kind, 1.0, of, "", ""),
        host=host,
    )
    found = step(HeldState(), one)
    assert (found.state, found.trust) == (wanted, trust)
    most = replace(one, limit=CpuLimit(kind, of - 0.5, of, "", ""), cpus=of - 0.5)
    assert state_of(most) is not State.LIMIT
    free = replace(one, host=replace(host, busy_cores=of - 0.5))
    assert step(HeldState(), free).trust is Trust.MEDIUM


def test_sleep_in_fsync_is_storage_also_without_pressure():
    def fsync(**more):
        one = tick(io=(3, 3), main=0.01, read=0.0, gpus=(), idle=0)
        return replace(one, tree=replace(one.tree, blocked=1, written_bytes=40e3), **more)

    found = step(HeldState(), fsync())
    assert (found.state, found.trust) == (State.DISK, Trust.MEDIUM)
    assert state_of(fsync(wait=Wait(Want.NETWORK, "10.0.0.1:2049"))) is not State.DISK
    asleep = fsync()
    assert state_of(replace(asleep, tree=replace(asleep.tree, blocked=0))) is State.IDLE


def test_process_that_waits_for_one_mapped_page_after_the_other_is_disk():
    """Recorded: a file of 600 MiB touched page by page on a host that others fill; storage pressure
    stays below 30 %.
    """
    one = tick(
        cpu=73,
        io=(29, 0),
        idle=0,
        main=0.4,
        delay=0.02,
        read=0.0,
        device=106 * MIB,
        gpus=(),
        job=None,
    )
    tree = replace(one.tree, faults=26_000.0, most_runnable=0.42)
    assert states_of([replace(one, tree=tree)] * 3)[-1] is State.DISK
    pool = replace(one, tree=replace(tree, blocked=1), wait=Wait(Want.EACH_OTHER, "in memory"))
    assert states_of([pool] * 3)[-1] is State.DISK
    swaps = replace(one, tree=tree, host=replace(one.host, swapped_in_pages=25_000.0))
    assert states_of([swaps] * 3)[-1] is State.MEM
    computes = replace(one, tree=replace(tree, most_runnable=0.99))
    sleeps = replace(one, tree=tree, wait=Wait(Want.NETWORK))
    for other in (computes, sleeps):
        assert states_of([other] * 3)[-1] is not State.DISK


def test_stolen_time_is_the_load_of_others_also_where_the_job_uses_half_of_its_cpus():
    one = tick(cpu=10, idle=0, children=(0.6, 0.6), gpus=())
    taken = replace(
        one, host=replace(one.host, stolen_percent=40.0), tree=replace(one.tree, most_runnable=0.6)
    )
    assert states_of([taken] * 3)[-1] is State.FOREIGN
    sleeps = replace(taken, tree=replace(taken.tree, most_runnable=0.1))
    little = replace(taken, host=replace(one.host, stolen_percent=3.0))
    for other in (sleeps, little):
        assert states_of([other] * 3)[-1] is not State.FOREIGN


def test_tasks_that_wait_for_each_other_and_do_nothing_wait_on_a_full_host_too():
    """As of senpai#2906: deadlocked loaders beside others who have all CPUs."""
    one = tick(
        0.0,
        60.0,
        cpu=97,
        idle=0,
        children=(0.0,) * 4,
        main=0.0,
        read=0.0,
        job=None,
        wait=Wait(Want.EACH_OTHER),
    )
    dead = replace(one, tree=replace(one.tree, most_runnable=0.0))
    assert step(HeldState(), dead) == HeldState(State.WAIT, 0, Trust.MEDIUM)
    queues = replace(one, tree=replace(one.tree, most_runnable=0.9, run_delay_cores=0.9))
    computes = replace(one, tree=replace(one.tree, most_runnable=0.3, cores=0.3))
    for other in (queues, computes):
        assert state_of(other) is not State.WAIT


def test_job_that_computes_while_its_tasks_hand_each_other_work_does_not_wait():
    one = tick(
        4.0, 90.0, cpu=20, idle=40, children=(0.3, 0.3), main=0.6, wait=Wait(Want.EACH_OTHER)
    )
    assert state_of(one) is State.UNKNOWN
    little = replace(one, tree=replace(one.tree, cores=0.3, main_cores=0.1))
    assert state_of(little) is State.WAIT
    anew = replace(
        one, tree=replace(one.tree, cores=1.2, line_cores=0.5, new_workers=4)
    )  # pytorch#139792
    assert state_of(anew) is State.WORKERS


@pytest.mark.parametrize(
    ("cores", "idle", "wanting", "trust"),
    [
        (1.05, 0, 2.0, Trust.LOW),  # others have the rest: whether it would fill them is not known
        (1.95, 0, 2.0, Trust.HIGH),
        (1.05, 0, 8.0, Trust.HIGH),  # enough of its tasks queue to fill them
        (1.05, 40, 2.0, Trust.HIGH),  # nobody else has them
    ],
)
def test_cpus_that_others_have_a_part_of_are_no_proof_that_the_job_needs_them(
    cores, idle, wanting, trust
):
    one = tick(4.0, 90.0, cpu=65, idle=idle, children=(0.2,) * 4, main=0.25)
    seen = replace(
        one,
        tree=replace(one.tree, cores=cores, wanting=wanting),
        host=HostTick(float(idle), 0.0, 1.99),
    )
    assert step(HeldState(), seen) == HeldState(State.CPU, 0, trust)


def test_look_that_meets_a_writer_between_two_waits_does_not_end_its_wait():
    """As of wandb#950: two fsync(2) for each step, which storage pressure counts as 5 %."""
    one = tick(7.0, 90.0, io=(5, 5), idle=0, main=0.43, read=0.0)
    writes = replace(one, tree=replace(one.tree, blocked=1, written_bytes=4e4, most_runnable=0.43))
    between = replace(writes, tree=replace(writes.tree, blocked=0))
    assert state_of(writes) is State.DISK
    assert state_of(between, State.DISK) is State.DISK
    assert state_of(between) is not State.DISK
    computes = replace(between, tree=replace(between.tree, most_runnable=0.8))
    rests = replace(between, tree=replace(between.tree, written_bytes=0.0))
    sleeps = replace(between, wait=Wait(Want.TIMER))
    for other in (computes, rests, sleeps):
        assert state_of(other, State.DISK) is not State.DISK


@pytest.mark.parametrize(
    ("main", "percent", "children", "wait", "is_main"),
    [
        (0.7, 12, (), None, True),
        (0.7, 12, (), Wait(Want.TIMER), True),
        (0.7, 12, (), Wait(Want.NETWORK), False),  # it fetches what it computes on
        (0.7, 12, (0.2, 0.2), None, False),  # it has loaders
        (0.4, 12, (), None, False),
        (0.7, 60, (), None, False),  # it may spin while the GPU works
    ],
)
def test_main_process_that_computes_in_turns_with_the_gpu_does_not_wait(
    main, percent, children, wait, is_main
):
    """As of mteb issue 3546: sound is resampled in the main process, and the GPU rests
    meanwhile.
    """
    one = tick(percent, 90.0, idle=60, children=children, main=main, device=0.0)
    found = step(HeldState(), replace(one, wait=wait))
    assert (found == HeldState(State.WORKERS, 0, Trust.LOW)) is is_main
    assert found.state is State.WORKERS or not is_main
