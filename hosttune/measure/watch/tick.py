"""One look at a job and its host: what went on since the look before. Every field may be unknown:
None, never 0.

Rates are per second of the interval. Shares are percent. Cores are CPU seconds per second. Bytes
are bytes.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, cast

from hosttune.frozen import frozen
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch.programs import ThreadPool, Workload


class Want(str, Enum):
    """What a job sleeps on: `each other` are its own tasks, with no one outside of it."""

    NETWORK = "network"
    LOCK = "lock"
    PEER = "peer"
    TIMER = "timer"
    EACH_OTHER = "each other"


FILE_SERVER = "a file system's server"  # what a wait for one is for
FUSE_SERVER = "the server of a FUSE file system"
# the end of the name of an address that no connection is made to
NO_ANSWER = ", which does not answer"
THROUGH_FUSE = ", through FUSE"  # the end of what is waited for, where the file is known


@frozen
class Wait:
    """What the job slept on at the moment of a look; `what` is the address, file or pipe, "" where
    it is not known.
    """

    kind: Want
    what: str = ""
    is_page: bool = False  # of a file that it has mapped: no system call waits


class LimitKind(str, Enum):
    """What keeps a job from CPUs of the host."""

    QUOTA = "quota"
    CPUSET = "cpuset"
    AFFINITY = "affinity"


@frozen
class CpuLimit:
    """`cpus` of the `of` CPUs of the host; `path` is the file that says so, `by` who set it and
    where it is changed, "" where that is not known.
    """

    kind: LimitKind
    cpus: float
    of: int
    path: str = ""
    by: str = ""


@frozen
class Mounted:
    """A file system on which files of the job lie. `source` is a device, or what is mounted: a
    server's export.
    """

    target: str
    fstype: str
    source: str
    server: str = ""  # of a FUSE file system: the process that serves it


@frozen
class Pressure:
    """Percent of the interval in which work stood still for want of one thing, from the kernel's
    `total=` counters.

    `some`: at least one task waited; `full`: all tasks that were not idle did (kernel:
    accounting/psi.rst). For the processor both count contention, not use.
    """

    cpu_some: float | None = None
    io_some: float | None = None
    io_full: float | None = None
    memory_some: float | None = None
    memory_full: float | None = None


@frozen
class MemoryTick:
    """The tightest memory limit of the job's control groups: `path` is its file, `by` who set it
    and where it is changed, "" if that is not known. The page cache of the job's files is in
    `used_bytes`.
    """

    limit_bytes: int
    path: str
    by: str = ""
    used_bytes: int | None = None


@frozen
class ShmRoom:
    """/dev/shm as the job sees it: its size, and what is free of it."""

    size_bytes: int
    free_bytes: int


@frozen
class HeldBack:
    """Packets that a cloud queued or dropped since the last look. `name` is a card and its counter:
    `eth0 bw_in_allowance_exceeded`.
    """

    name: str
    packets: int


@frozen
class Kills:
    """Processes that the kernel has killed for memory: `group` in the job's control group since the
    watch began, `host` everywhere since the last looks, `near` everywhere at looks that missed a
    process of the job.
    """

    group: int = 0
    host: int = 0
    near: int = 0


@frozen
class HostTick:
    """The whole host. `idle_percent` is that of the CPUs that the job may use; waiting for a disk
    counts as idle.
    """

    idle_percent: float | None = None
    iowait_percent: float | None = None  # shown, never judged by: proc_stat(5) calls it unreliable
    busy_cores: float | None = None
    swapped_in_pages: float | None = None
    swapped_out_pages: float | None = None
    refaults: float | None = None  # pages of files that were dropped and had to be read again
    # of the CPUs that the job may use: the hypervisor gave it to other machines
    stolen_percent: float | None = None


@frozen
class DiskTick:
    """One physical disk that had work. `in_flight` is the mean number of requests under way."""

    name: str
    read_bytes: float
    written_bytes: float
    # of the requests that ended in the interval; None where none did
    read_await_ms: float | None = None
    in_flight: float | None = None


@frozen
class TreeTick:
    """The job's processes: all that descend from the one that was started or named.

    `mains` feed the GPUs: those that hold GPU memory, or that load and compute; what only started
    them is neither main nor child.
    """

    processes: int
    mains: int = 1
    main_cores: float | None = None  # of one of them, the mean of those that do anything
    children: int = 0  # all other processes: loaders, helpers
    child_cores: tuple[float, ...] = ()  # of each of them, the busiest first, at most 64
    # all together, those that ended in the interval included as far as they were seen
    cores: float | None = None
    # waiting for a CPU while ready to run, main threads of the processes alone
    run_delay_cores: float | None = None
    # of one process, the largest: the share of its time on a CPU or waiting for one
    most_runnable: float | None = None
    # of `cores`, those of processes that came or went within the interval
    line_cores: float | None = None
    program: str = ""  # the name of the busiest process
    blocked: int | None = None  # with a task in uninterruptible sleep at the moment of the look
    is_stopped: bool = False  # all of them, by a signal
    # what read(2) and its kin returned, the page cache and pipes included (rchar)
    read_bytes: float | None = None
    # what had to come from a device (read_bytes of proc_pid_io(5))
    device_bytes: float | None = None
    written_bytes: float | None = None
    received_bytes: float | None = None  # over TCP, of sockets that were seen: a lower bound
    sent_bytes: float | None = None  # the same
    is_partial: bool = False  # something of it may not be seen by this user
    wanting: float | None = None  # tasks that ran or queued for a CPU at the moment of the look
    # page faults that waited for storage, a second: of mapped files, or of swap
    faults: float | None = None
    # processes that were forked within the interval to work for another one of the job
    new_workers: int = 0
    wanting_processes: int | None = None  # processes with such a task
    # CPU time of a child between two waits, milliseconds: of the active children the longest
    piece_ms: float | None = None


@frozen
class Other:
    """A process that is not of the job, and what it uses."""

    pid: int
    name: str
    cores: float


@frozen
class GpuUser:
    """A process that is not of the job, and holds memory on one of its GPUs."""

    pid: int
    name: str


@frozen
class Placement:
    """Of the job's processes on GPUs: `processes` are looked at, `unbound` may run on every CPU,
    `far` on none near any of their GPUs. `example` names one of those: `python (42): CPUs 0-31, its
    GPU is near 32-63`. `domains`: groups of CPUs that are near a GPU.
    """

    processes: int
    unbound: int = 0
    far: int = 0
    example: str = ""
    domains: int = 1


@frozen
class Tick:
    """What went on in `seconds` up to `at_s`, seconds since the watch began."""

    at_s: float
    seconds: float
    cpus: float | None = None  # that the job can keep busy: affinity and quota of its control group
    # of the job's own control group; None where others share it, or there is none
    job: Pressure | None = None
    host_pressure: Pressure | None = None
    host: HostTick | None = None
    tree: TreeTick | None = None
    disks: tuple[DiskTick, ...] | None = None
    # the job's; () where the machine has none, None where none is visible
    gpus: tuple[GpuSample, ...] | None = None
    # its processes hold memory there, or an option says so; else all are shown
    gpus_are_its: bool = False
    gpu_others: tuple[GpuUser, ...] = ()  # who else is on them, as far as this is known
    # the busiest processes that are not the job's; looked up now and then
    others: tuple[Other, ...] | None = None
    mounts: tuple[Mounted, ...] | None = None  # that its open files lie on; looked up now and then
    limit: CpuLimit | None = None  # what keeps the job from other CPUs of the host
    are_limits_hidden: bool = False  # quotas above this container cannot be seen
    # of the time, in periods in which the quota held it back
    throttled_percent: float | None = None
    placement: Placement | None = None  # of its processes on GPUs; looked up now and then
    wait: Wait | None = None  # what it slept on; None where it ran, or on nothing that is known
    memory: MemoryTick | None = None  # None if there is no limit
    shm: ShmRoom | None = None
    allowances: tuple[HeldBack, ...] = ()
    frozen_by: str = ""  # the folder of the control group that is frozen
    works_with: tuple[Workload, ...] | None = None  # pictures, text ...; looked up now and then
    pools: tuple[
        ThreadPool, ...
    ] = ()  # threads that the libraries of its busiest processes have; looked up now and then
    # OMP_NUM_THREADS=1, as the environment of the busiest process has it; looked up now and then
    one_thread: str = ""
    is_paused: bool = False  # the job was stopped, or the machine slept: nothing can be judged


T = TypeVar("T")


def round_tick(value: T) -> T:
    """A tick, or a part of it, with figures of at most three decimals: what is judged is what a
    record holds.
    """
    return cast("T", _round_value(value))


def _round_value(value: Any) -> Any:
    kind: Any = type(value)
    if kind is float:
        return round(value, 3)
    if kind is tuple:
        return tuple([_round_value(item) for item in value]) if value else value
    if names := _list_fields(kind):
        return kind(*[_round_value(getattr(value, name)) for name in names])
    return value


@lru_cache(maxsize=64)  # asked for each part of each tick
def _list_fields(kind: type) -> tuple[str, ...]:
    """None of what is not a dataclass."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def gpu_percent(tick: Tick) -> float | None:
    """The mean utilization of the job's GPUs that tell one."""
    return _compute_mean([gpu.util_percent for gpu in tick.gpus or () if not gpu.lost])


def power_percent(tick: Tick) -> float | None:
    """The mean of power against its limit, over the job's GPUs that tell both."""
    return _compute_mean([
        100 * gpu.power_w / gpu.power_limit_w
        for gpu in tick.gpus or ()
        if not gpu.lost and gpu.power_w is not None and gpu.power_limit_w
    ])  # fmt: skip


def room_percent(tick: Tick) -> float | None:
    """The share of the CPUs the job may use that it could still have: idle ones, within its
    quota.
    """
    rooms = []
    if tick.host is not None and tick.host.idle_percent is not None:
        rooms.append(tick.host.idle_percent)
    if tick.cpus and tick.tree is not None and tick.tree.cores is not None:
        rooms.append(max(0.0, 100 * (1 - tick.tree.cores / tick.cpus)))
    return min(rooms) if rooms else None


def others_cores(tick: Tick) -> float | None:
    """What everybody else uses of the host's CPUs."""
    if (
        tick.host is None
        or tick.host.busy_cores is None
        or tick.tree is None
        or tick.tree.cores is None
    ):
        return None
    return max(0.0, tick.host.busy_cores - tick.tree.cores)


def is_file_server(what: str) -> bool:
    """Whether what was waited for is the server of a file system, in the kernel's client or through
    FUSE.
    """
    return what in {FILE_SERVER, FUSE_SERVER} or what.endswith(THROUGH_FUSE)


def is_unanswered(what: str) -> bool:
    """Whether what was waited for is an address that does not answer."""
    return what.endswith(NO_ANSWER)


def find_pressure(tick: Tick) -> Pressure | None:
    """The job's own pressure, or the host's."""
    return tick.job or tick.host_pressure


def _compute_mean(values: list[float | None] | list[float]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
