"""What the job waited for in one tick: a pure function of the ticks.

The states are tried in order, and the first that fits wins. One that was entered stays until its
leaving condition holds, so that a value near a threshold does not flicker. A state whose evidence
is thin is not entered: what fits nothing is `unknown`, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from hosttune.frozen import frozen
from hosttune.measure.watch.tick import (
    LimitKind,
    Tick,
    Want,
    find_pressure,
    gpu_percent,
    others_cores,
    power_percent,
    room_percent,
)


class State(str, Enum):
    """What a job waits for, in the order in which it is looked for."""

    MEM = "MEM"
    COLD_GPU = "COLD_GPU"
    GPU = "GPU"
    DISK = "DISK"
    LIMIT = "LIMIT"
    CPU = "CPU"
    FOREIGN = "FOREIGN"
    WORKERS = "WORKERS"
    IDLE = "IDLE"
    WAIT = "WAIT"
    UNKNOWN = "unknown"


class Trust(int, Enum):
    """How well a tick carries its state."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


@frozen
class Limits:
    """Percent if not noted otherwise. Fixed before the held-out half of the scenarios of the live
    ring was written.

    Behind them: TraceML warns at 10 and 20 % of input wait and calls 70 % utilization healthy;
    MLPerf Storage asks for 70 to 90 %; SageMaker's debugger takes 10, 50 and 90 %; systemd-oomd
    kills at 60 % of memory pressure for 30 s.
    """

    memory_enter: float = 10
    memory_leave: float = 5
    memory_leave_ticks: int = 5
    memory_none: float = 1
    swapped_in_pages: float = 100  # pages a second
    gpu_enter: float = 80
    gpu_leave: float = 70
    cold_enter: float = 40  # of the power limit
    cold_leave: float = 50
    io_full_enter: float = 20
    io_some_enter: float = 40
    io_full_leave: float = 10
    io_some_leave: float = 25
    cpu_enter: float = 40
    cpu_leave: float = 25
    room_none: float = 10
    room_some: float = 20
    throttled_enter: float = 30  # of the time, in periods in which the quota held the job back
    throttled_leave: float = 15
    limit_enter: float = 0.85  # of the CPUs that a limit leaves
    limit_leave: float = 0.70
    free_outside: float = 0.3  # CPUs of the host that are free beyond the limit
    stolen_enter: float = 15  # of the CPUs that the job may use
    stolen_leave: float = 8
    others_least: float = 0.25  # cores
    others_room: float = 35  # percent that is free: with more, no one is kept from a CPU by others
    line_share: float = 0.3  # of the job's cores, those of processes that come and go
    line_most: float = 0.5
    whole: float = 0.15  # cores about a whole number
    busy_share: float = 0.85  # of its CPUs
    tree_share: float = 0.5  # of the CPUs the job may use
    delay_share: float = 0.25  # of the cores it got
    delay_cores: float = 0.1
    runnable: float = 0.5  # cores that the busiest process got and waited for, together
    # tasks for each CPU that want one: more take turns, and wait for each other
    crowded: float = 1.5
    got_share: float = 0.45  # of the CPUs that its tasks want
    saturated_enter: float = 0.85  # cores
    saturated_leave: float = 0.70
    main_most: float = 2  # cores: one thread that computes, and helpers (autograd, pinning)
    active_cores: float = 0.1
    handed_cores: float = 0.5  # of a job whose tasks hand work to each other
    idle_gpu: float = 5
    idle_cores: float = 0.1
    idle_bytes: float = 1 << 20  # a second
    reading_bytes: float = 64 << 10  # a second
    many_faults: float = 20  # page faults a second that wait for storage
    blocked_enter: float = 0.5  # of the processes that are not asleep
    blocked_leave: float = 0.25


LIMITS = Limits()


@frozen
class HeldState:
    """The state that the ticks so far have led to, and for how many ticks its leaving condition has
    held.
    """

    state: State = State.UNKNOWN
    leaving: int = 0
    trust: Trust = Trust.LOW


def step(held: HeldState, tick: Tick) -> HeldState:
    """The state after one more tick."""
    # The order decides: a job that swaps also waits for a disk, and one whose GPU is full has
    # loaders that rest.
    for state, fits in FITS.items():
        is_held = state is held.state
        if fits(tick, held=is_held):
            return HeldState(state, 0, trust(state, tick))
        # Memory pressure comes in bursts, and between two of them the job is still short of memory.
        if is_held and state is State.MEM and held.leaving + 1 < LIMITS.memory_leave_ticks:
            return HeldState(state, held.leaving + 1, trust(state, tick))
    return HeldState(State.UNKNOWN, 0, Trust.LOW)


def _is_memory(tick: Tick, *, held: bool) -> bool:
    seen = find_pressure(tick)
    some = seen.memory_some if seen else None
    swapped = tick.host.swapped_in_pages if tick.host else None
    limit = LIMITS.memory_leave if held else LIMITS.memory_enter
    if _at_least(some, limit):
        return True
    if tick.job is not None and some is not None and some < LIMITS.memory_none:
        return False  # the pages that the host swaps in are someone else's
    return swapped is not None and swapped > LIMITS.swapped_in_pages


def _is_gpu(tick: Tick, *, held: bool) -> bool:
    return _at_least(gpu_percent(tick), LIMITS.gpu_leave if held else LIMITS.gpu_enter)


def _is_cold(tick: Tick, *, held: bool) -> bool:
    power = power_percent(tick)
    return (
        _is_gpu(tick, held=held)
        and power is not None
        and power < (LIMITS.cold_leave if held else LIMITS.cold_enter)
    )


def _is_disk(tick: Tick, *, held: bool) -> bool:
    """Pressure of the host counts where the job itself touches devices: others may wait for a disk
    of theirs.
    """
    if _waits_for_pages(tick):
        return True
    if _has_io_pressure(tick, held=held):
        return tick.job is not None or (
            _touches_devices(tick) is not False and not _always_runs(tick)
        )
    seen = find_pressure(tick)
    # Without PSI only the states of tasks are left, and only where the job itself moves bytes.
    if seen is None or (seen.io_full is None and seen.io_some is None):
        return _is_blocked(tick, held=held) and bool(_touches_devices(tick))
    return _waits_for_writes(tick, held=held)


def _has_io_pressure(tick: Tick, *, held: bool) -> bool:
    seen = find_pressure(tick)
    full, some = (
        (LIMITS.io_full_leave, LIMITS.io_some_leave)
        if held
        else (LIMITS.io_full_enter, LIMITS.io_some_enter)
    )
    return seen is not None and (_at_least(seen.io_full, full) or _at_least(seen.io_some, some))


def _always_runs(tick: Tick) -> bool:
    """A process of the job runs or queues for a CPU nearly all the time, and none was seen in
    uninterruptible sleep: what the job writes goes to the page cache, and those who wait for a disk
    are others.
    """
    tree = tick.tree
    return (
        tree is not None
        and tree.blocked == 0
        and _at_least(tree.most_runnable, LIMITS.saturated_enter)
    )


def _waits_for_pages(tick: Tick) -> bool:
    """Mapped files are read by page faults, and between them no process computes or queues for half
    of the time.
    """
    tree = tick.tree
    if tree is None or tree.faults is None or tree.most_runnable is None:
        return False
    if tick.wait is not None and not tree.blocked:
        return False  # it sleeps on something else
    swapped = (tick.host.swapped_in_pages if tick.host is not None else None) or 0.0
    return (
        tree.faults >= max(LIMITS.many_faults, 2 * swapped) and tree.most_runnable < LIMITS.runnable
    )


def _waits_for_writes(tick: Tick, *, held: bool) -> bool:
    """fsync(2), a journal's commit, metadata: tasks are in uninterruptible sleep for something that
    the job writes, and the kernel counts a part of that as no pressure. A look is one moment: once
    that was seen, a job that writes on, and neither runs nor queues for half of the time nor sleeps
    on anything else, waits on.
    """
    tree = tick.tree
    is_served = tick.wait is not None and tick.wait.kind in {Want.NETWORK, Want.PEER}
    if is_served or tree is None or not tree.written_bytes:
        return False
    waits_on = held and tick.wait is None and not _at_least(tree.most_runnable, LIMITS.runnable)
    return _is_blocked(tick, held=held) or (waits_on and tree.most_runnable is not None)


def _touches_devices(tick: Tick) -> bool | None:
    if tick.tree is None or (tick.tree.device_bytes is None and tick.tree.written_bytes is None):
        return None
    moved = (tick.tree.device_bytes or 0) + (tick.tree.written_bytes or 0)
    return moved >= LIMITS.reading_bytes or bool(tick.tree.blocked)


def _is_blocked(tick: Tick, *, held: bool) -> bool:
    """Half of the processes that do anything stand in uninterruptible sleep: the sign that is left
    without PSI.
    """
    tree = tick.tree
    if tree is None or not tree.blocked:
        return False
    active = sum(
        cores >= LIMITS.active_cores for cores in (tree.main_cores or 0, *tree.child_cores)
    )
    return tree.blocked / max(active, tree.blocked) >= (
        LIMITS.blocked_leave if held else LIMITS.blocked_enter
    )


def _is_short_of_cpu(tick: Tick, *, held: bool) -> bool:
    """The job's own pressure decides. That the host has no CPU free counts only for a job that
    needs one.
    """
    seen, room = find_pressure(tick), room_percent(tick)
    is_pressed = _at_least(
        seen.cpu_some if seen else None, LIMITS.cpu_leave if held else LIMITS.cpu_enter
    )
    if is_pressed and tick.job is not None:
        return True
    is_full = room is not None and room < (LIMITS.room_some if held else LIMITS.room_none)
    return (is_pressed or is_full) and _needs_cpus(tick, held=held) is not False


def _needs_cpus(tick: Tick, *, held: bool) -> bool | None:
    """Whether the job fills its CPUs, or its tasks queue for one. None if that is not known."""
    return True if _fills_its_cpus(tick, held=held) else is_kept_waiting(tick)


def _fills_its_cpus(tick: Tick, *, held: bool) -> bool:
    tree = tick.tree
    if tree is None or tree.cores is None or not tick.cpus:
        return False
    return tree.cores >= (LIMITS.limit_leave if held else LIMITS.limit_enter) * tick.cpus


def fills_them_itself(tick: Tick) -> bool:
    """Whether the job would have its CPUs full without those who use a part of them."""
    wanting = tick.tree.wanting if tick.tree is not None else None
    is_crowded = (
        wanting is not None and bool(tick.cpus) and wanting >= LIMITS.crowded * (tick.cpus or 1)
    )
    return is_crowded or _fills_its_cpus(tick, held=True) or _others_have_them(tick) is not True


def _has_room(tick: Tick) -> bool:
    """CPUs are free; or all are in use, and the job does not need more of them than it gets."""
    room = room_percent(tick)
    return room is not None and (room >= LIMITS.room_some or _needs_cpus(tick, held=True) is False)


def _is_limit(tick: Tick, *, held: bool) -> bool:
    """Its quota holds it back; or it fills the CPUs that it may use, and others of the host are
    free, or are used by others and at least as many: those it would share.
    """
    if tick.limit is None:
        return False
    if _at_least(
        tick.throttled_percent, LIMITS.throttled_leave if held else LIMITS.throttled_enter
    ):
        return True
    if (
        tick.tree is None
        or tick.tree.cores is None
        or tick.host is None
        or tick.host.busy_cores is None
    ):
        return False
    share = LIMITS.limit_leave if held else LIMITS.limit_enter
    # A quota follows the job to any CPU; an affinity keeps it from CPUs that it would get a share
    # of.
    may_share = tick.limit.kind is not LimitKind.QUOTA and 2 * tick.limit.cpus <= tick.limit.of
    return tick.tree.cores >= share * tick.limit.cpus and (has_free_outside(tick) or may_share)


def has_free_outside(tick: Tick) -> bool:
    """Whether CPUs of the host are free beyond the limit."""
    busy = tick.host.busy_cores if tick.host is not None else None
    return (
        tick.limit is not None and busy is not None and tick.limit.of - busy >= LIMITS.free_outside
    )


def _uses_its_half(tick: Tick) -> bool | None:
    if tick.tree is None or tick.tree.cores is None or not tick.cpus:
        return None
    return tick.tree.cores >= LIMITS.tree_share * tick.cpus


def _is_stolen(tick: Tick, *, held: bool) -> bool:
    """The hypervisor gives CPU time to other machines while a process of the job wants it."""
    stolen = tick.host.stolen_percent if tick.host is not None else None
    runnable = tick.tree.most_runnable if tick.tree is not None else None
    # An idle virtual CPU loses nothing to its neighbours, however much they take.
    is_wanted = runnable is None or runnable >= LIMITS.runnable
    return is_wanted and _at_least(stolen, LIMITS.stolen_leave if held else LIMITS.stolen_enter)


def _is_cpu(tick: Tick, *, held: bool) -> bool:
    return (
        not _is_stolen(tick, held=held)
        and _is_short_of_cpu(tick, held=held)
        and _uses_its_half(tick) is True
    )


def _is_foreign(tick: Tick, *, held: bool) -> bool:
    return _is_stolen(tick, held=held) or (
        _is_short_of_cpu(tick, held=held)
        and _uses_its_half(tick) is False
        and is_kept_waiting(tick) is not False
        and _others_have_them(tick) is not False
    )


def _others_have_them(tick: Tick) -> bool | None:
    """Others use CPUs, and few of those that the job may use are free. None where the host does not
    tell.
    """
    others, host = others_cores(tick), tick.host
    if others is None or host is None or host.idle_percent is None:
        return None
    return others >= LIMITS.others_least and host.idle_percent < LIMITS.others_room


def is_kept_waiting(tick: Tick) -> bool | None:
    """Whether the job's own tasks queue for a CPU; that others do says nothing about it. A task
    that mostly sleeps queues on a busy host too, each time it wakes, and is not slowed much by
    that.
    """
    # Asked first: the delay below is that of lasting processes, which only wait for those that come
    # and go.
    if _is_line_without_delay(tick):
        return None
    if _threads_queue(tick):
        return True
    if (
        tick.tree is not None
        and tick.tree.most_runnable is not None
        and tick.tree.most_runnable < LIMITS.runnable
    ):
        return False
    if (
        tick.job is not None
        and tick.job.cpu_some is not None
        and tick.job.cpu_some >= LIMITS.cpu_leave
    ):
        return True
    tree = tick.tree
    if tree is not None and tree.run_delay_cores is not None and tree.cores is not None:
        return tree.run_delay_cores >= max(LIMITS.delay_cores, LIMITS.delay_share * tree.cores)
    return False if tick.job is not None and tick.job.cpu_some is not None else None


def _threads_queue(tick: Tick) -> bool:
    """The main thread sleeps on a lock in memory, as for the end of others, and these want much
    more CPU time at the moment of the look than the job got: the delay that the kernel adds up for
    a process is that of its main thread.
    """
    tree = tick.tree
    if (
        tree is None
        or tree.cores is None
        or tree.wanting is None
        or tree.cores < LIMITS.active_cores
    ):
        return False
    sleeps = tick.wait is not None and tick.wait.kind in {Want.LOCK, Want.EACH_OTHER}
    return sleeps and tree.cores < LIMITS.got_share * tree.wanting


def _is_line_without_delay(tick: Tick) -> bool:
    """Processes that come and go do most of the work, so that no one adds up their delay, and none
    of them waits for what is outside of the job.
    """
    tree, host = tick.tree, tick.host_pressure
    if (
        tree is None
        or tree.cores is None
        or tree.line_cores is None
        or tree.cores < LIMITS.active_cores
    ):
        return False
    waits_inside = tick.wait is None or tick.wait.kind in {Want.EACH_OTHER, Want.LOCK}
    queued = host is not None and _at_least(host.cpu_some, LIMITS.cpu_enter)
    return tree.line_cores >= LIMITS.line_most * tree.cores and waits_inside and queued


def _is_hungry(tick: Tick) -> bool | None:
    """Whether the GPU has too little to do. Where the machine has none, whatever computes is always
    hungry.
    """
    if tick.gpus == ():
        return True
    percent = gpu_percent(tick)
    return None if percent is None else percent < LIMITS.gpu_leave


def _is_workers(tick: Tick, *, held: bool) -> bool:
    return (
        _has_room(tick)
        and gpu_percent_known_or_absent(tick)
        and (
            loaders_saturated(tick, held=held)
            or main_saturated(tick, held=held)
            or is_in_line(tick, held=held)
            or _main_leads(tick)
        )
    )


def _main_leads(tick: Tick) -> bool:
    """Beside a GPU that has too little to do the main process, which has no loaders, computes in
    half of the time in which the GPU rests, and was seen to sleep on nothing from outside: in turns
    with the GPU.
    """
    tree = tick.tree
    if not tick.gpus or tree is None or tree.main_cores is None or tree.children or tree.blocked:
        return False
    is_outside = tick.wait is not None and tick.wait.kind in _OUTSIDE
    busy = (gpu_percent(tick) or 0) / 100
    return (
        not is_outside
        and LIMITS.runnable * (1 - busy) <= tree.main_cores - busy <= LIMITS.main_most
    )


def is_in_line(tick: Tick, *, held: bool = False) -> bool:
    """One process after the other, or processes that take turns: together they use a whole number
    of cores.
    """
    tree = tick.tree
    if (
        tree is None
        or tree.cores is None
        or tree.cores < (LIMITS.saturated_leave if held else LIMITS.saturated_enter)
    ):
        return False
    is_line = tree.line_cores is not None and tree.line_cores >= LIMITS.line_share * tree.cores
    if is_line and tree.new_workers:
        return True  # one after the other is started, and hands over what it was started for
    if tree.cores > LIMITS.saturated_enter and abs(tree.cores - round(tree.cores)) > LIMITS.whole:
        return False
    if is_line:
        return True
    return (
        tick.wait is not None
        and tick.wait.kind in {Want.LOCK, Want.EACH_OTHER}
        and tree.cores < 1 + LIMITS.whole
    )


def gpu_percent_known_or_absent(tick: Tick) -> bool:
    """A busy process beside a GPU that tells nothing may spin while it waits for the GPU."""
    return _is_hungry(tick) is not None


def loaders_saturated(tick: Tick, *, held: bool = False) -> bool:
    """Half of the child processes that do anything use all of a core."""
    if tick.tree is None:
        return False
    line = LIMITS.saturated_leave if held else LIMITS.saturated_enter
    active = [cores for cores in tick.tree.child_cores if cores >= LIMITS.active_cores]
    return bool(active) and 2 * sum(cores >= line for cores in active) >= len(active)


def main_saturated(tick: Tick, *, held: bool = False) -> bool:
    """The main process is at the limit of one core. One that uses many has threads, and no limit
    that a tick shows.
    """
    cores = tick.tree.main_cores if tick.tree is not None else None
    return main_computes(tick, held=held) and cores is not None and cores <= LIMITS.main_most


def main_computes(tick: Tick, *, held: bool = False) -> bool:
    """The main process computes in nearly all of the time in which the GPU rests: while the GPU
    works it may spin.
    """
    if tick.tree is None or tick.tree.main_cores is None:
        return False
    line = LIMITS.saturated_leave if held else LIMITS.saturated_enter
    busy = (gpu_percent(tick) or 0) / 100
    return tick.tree.main_cores - busy >= line * (1 - busy)


def _is_idle(tick: Tick, *, held: bool) -> bool:  # noqa: ARG001 - as its neighbours
    """It waits for nothing, or for what no one can see."""
    if tick.wait is not None and tick.wait.kind is not Want.TIMER:
        return False
    percent = gpu_percent(tick)
    tree = tick.tree
    return (
        (tick.gpus == () or (percent is not None and percent < LIMITS.idle_gpu))
        and tree is not None
        and tree.cores is not None
        and tree.cores < LIMITS.idle_cores
        and tree.read_bytes is not None
        and tree.read_bytes + (tree.received_bytes or 0.0) < LIMITS.idle_bytes
    )


_OUTSIDE = frozenset({Want.NETWORK, Want.LOCK, Want.PEER})


def _is_wait(tick: Tick, *, held: bool) -> bool:  # noqa: ARG001 - as its neighbours
    """Hungry, and neither processors nor disks nor memory are short: all of it known, else it is
    `unknown`.
    """
    room = room_percent(tick)
    if _is_hungry(tick) is not True or room is None:
        return False
    tree = tick.tree
    if (
        tree is None
        or tree.cores is None
        or loaders_saturated(tick, held=True)
        or main_computes(tick, held=True)
    ):
        return False
    if is_in_line(tick, held=True) or _works_in_turns(tick):
        return False
    is_known = tick.wait is not None and (
        tick.wait.kind in _OUTSIDE or tree.cores < LIMITS.idle_cores
    )
    if is_known and is_kept_waiting(tick) is False:
        return True  # it was seen to wait for that; the CPUs that others use it does not miss
    if room < LIMITS.room_some:
        return False
    seen = find_pressure(tick)
    if seen is None:
        return not tree.blocked
    return not (
        _at_least(seen.cpu_some, LIMITS.cpu_leave)
        or _at_least(seen.io_some, LIMITS.io_some_leave)
        or _at_least(seen.io_full, LIMITS.io_full_leave)
        or _at_least(seen.memory_some, LIMITS.memory_leave)
    )


def _works_in_turns(tick: Tick) -> bool:
    """What sleeps waits for other tasks of the job, and these compute: no hand-over got lost."""
    cores = tick.tree.cores if tick.tree is not None else None
    return (
        tick.wait is not None
        and tick.wait.kind is Want.EACH_OTHER
        and _at_least(cores, LIMITS.handed_cores)
    )


class Fits(Protocol):
    """Whether a tick enters a state or, where it is `held`, stays in it."""

    def __call__(self, tick: Tick, *, held: bool) -> bool: ...


FITS: Mapping[State, Fits] = MappingProxyType(
    {
        State.MEM: _is_memory,
        State.COLD_GPU: _is_cold,
        State.GPU: _is_gpu,
        State.DISK: _is_disk,
        State.LIMIT: _is_limit,
        State.CPU: _is_cpu,
        State.FOREIGN: _is_foreign,
        State.WORKERS: _is_workers,
        State.IDLE: _is_idle,
        State.WAIT: _is_wait,
    }
)


def trust(state: State, tick: Tick) -> Trust:
    """High: the pressure of the job's own control group. Medium: the host's, and the job's
    processes. Low: neither.
    """
    tree_known = tick.tree is not None and tick.tree.cores is not None
    if state in {State.GPU, State.COLD_GPU}:
        is_held = not tick.gpus_are_its and any(gpu.pids for gpu in tick.gpus or ())
        if is_held or tick.gpu_others:
            # someone is on them, as far as is known not the job, or not alone: whose kernels ran?
            return Trust.LOW
        # Utilization alone says that some kernel ran; power beside it says that it worked.
        return Trust.HIGH if tick.gpus_are_its and power_percent(tick) is not None else Trust.MEDIUM
    # the kernel counts what a quota took; what an affinity took follows from who is busy
    if state is State.LIMIT:
        is_counted = _at_least(tick.throttled_percent, LIMITS.throttled_leave)
        return Trust.HIGH if is_counted else Trust.MEDIUM if has_free_outside(tick) else Trust.LOW
    level = Trust.LOW
    if tick.job is not None:
        level = Trust.HIGH
    elif tick.host_pressure is not None and tree_known:
        level = Trust.MEDIUM
    if state is State.DISK and not (_has_io_pressure(tick, held=True) and tick.job is not None):
        level = min(level, Trust.LOW if _touches_devices(tick) is None else Trust.MEDIUM)
    if state is State.FOREIGN and _is_stolen(tick, held=True):
        return min(level, Trust.MEDIUM)
    is_in_turns = (
        state is State.WORKERS and _main_leads(tick) and not main_saturated(tick, held=True)
    )
    if is_in_turns or _is_guess(state, tick):
        return Trust.LOW
    if state in {State.WORKERS, State.WAIT} and tick.gpus and not tick.gpus_are_its:
        return min(level, Trust.MEDIUM)
    if state in {State.DISK, State.CPU, State.FOREIGN} and _is_hungry(tick) is None:
        # loaders that read ahead stall, and fill the CPUs, beside a GPU that has all it needs
        return min(level, Trust.LOW if state is State.CPU else Trust.MEDIUM)
    return level


def _is_guess(state: State, tick: Tick) -> bool:
    """Whether it is not known who has the CPU time. A quota that is not visible looks as others do:
    tasks queue, and get less than there is.
    """
    is_known = (
        is_kept_waiting(tick) is not None if state is State.FOREIGN else fills_them_itself(tick)
    )
    is_hidden = tick.are_limits_hidden and not _fills_its_cpus(tick, held=False)
    return state in {State.CPU, State.FOREIGN} and (is_hidden or not is_known)


def _at_least(value: float | None, limit: float) -> bool:
    return value is not None and value >= limit
