"""Adds ticks up as they come, in bounded memory: a watch of a week keeps what a watch of a minute
keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hosttune.frozen import frozen
from hosttune.measure.gpu.reasons import POWER_CAP
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch.history import History, point
from hosttune.measure.watch.programs import ThreadPool, Workload
from hosttune.measure.watch.states import LIMITS, HeldState, State, Trust, step
from hosttune.measure.watch.tick import (
    CpuLimit,
    Kills,
    MemoryTick,
    Mounted,
    Placement,
    ShmRoom,
    Tick,
    Want,
    find_pressure,
    gpu_percent,
    power_percent,
    room_percent,
)

FAR_BELOW = 0.75  # of the enforced power limit, which a GPU that it holds back draws
FULL_MEMORY = 0.9  # of the limit: the kernel takes page cache back before it is reached
MANY_REFAULTS = 100  # pages a second
WARM_UP_S = 60.0
WARM_UP_WITHOUT_GPU_S = 10.0
WARM_GPU_PERCENT = 20.0
MOST_COLD = 1000  # ticks; a job that is stopped in its warm-up may stay so for days
# processes, disks, GPUs ... of all of these; a line of a record can hold 100,000
_MOST_COLD_PARTS = 1 << 20
# A look that comes later than this says nothing: watch or machine stood still.
LOST_S = 30.0
LOST_TICKS = 10
MOST_NAMES = 64
_MOST_DEVICES = 4096  # disks, and GPUs: a record from elsewhere can name others in each line
EARLY_S = 5.0
KNOWN_WAIT = 0.3  # of the time that it waited, in which a look has seen what for


@frozen
class Watched:
    """What is watched, and how. `warm_up_s` None: until the GPU first works, at most a minute, and
    not where the watch is over before.
    """

    pid: int
    command: tuple[str, ...] = ()  # masked
    is_child: bool = False
    interval_s: float = 1.0
    warm_up_s: float | None = None
    cpus_evidence: str = ""
    # of the first CPU; "" where the kernel sets no clocks, as in most virtual machines
    governor: str = ""
    has_smt: bool = False  # two threads of a core are two CPUs
    gpu_source: str = "none"  # nvml, nvidia-smi, replay, none
    gpu_reason: str = ""  # why there is none, not the better source, or not all GPUs
    pressure_reason: str = ""  # why the pressure is not the job's own


@dataclass(slots=True)
class Mean:
    """A mean over time of what was known: carried along, so that of equal values it is that value
    to the last bit.
    """

    value: float | None = None
    seconds: float = 0.0

    def add(self, value: float | None, seconds: float) -> None:
        if value is not None and seconds > 0:
            self.seconds += seconds
            so_far = value if self.value is None else self.value
            self.value = so_far + (value - so_far) * (seconds / self.seconds)


@dataclass(slots=True)
class UnbrokenRun:
    """The longest time without a break."""

    now_s: float = 0.0
    longest_s: float = 0.0

    def add(self, seconds: float, *, holds: bool) -> None:
        self.now_s = self.now_s + seconds if holds else 0.0
        self.longest_s = max(self.longest_s, self.now_s)


@dataclass(slots=True)
class GpuAccount:
    """One GPU over the counted time."""

    last: GpuSample
    util: Mean = field(default_factory=Mean)
    power: Mean = field(default_factory=Mean)
    limit: Mean = field(default_factory=Mean)
    reasons: dict[str, float] = field(default_factory=dict)  # seconds
    capped_s: float = 0.0  # busy, held by a power cap, and drawing far less than its own limit
    was_lost: bool = False


MEANS = (
    "gpu_percent", "power_percent", "room_percent", "iowait_percent", "busy_cores", "tree_cores",
    "main_cores", "run_delay_cores", "cpus", "cpu_some", "io_some", "io_full", "memory_some",
    "read_bytes", "device_bytes", "disk_read_bytes", "disk_written_bytes", "read_await_ms",
    "in_flight", "refaults", "swapped_in_pages", "mains", "children", "active_children",
    "saturated_children", "active_child_cores", "line_cores", "throttled_percent", "wanting",
    "wanting_processes", "faults", "stolen_percent", "piece_ms",
)  # fmt: skip
TOTALS = (
    "read_bytes", "received_bytes", "sent_bytes", "device_bytes", "written_bytes",
    "disk_read_bytes", "disk_written_bytes",
)  # fmt: skip


class Account:
    """The sum of a watch. `add` each tick in order."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.held = HeldState()
        self.history = History()
        self.ticks = 0
        self.seconds = 0.0
        self.counted_s = 0.0
        self.warm_up_s = 0.0
        self.idle_s = 0.0
        self.paused_s = 0.0
        self.is_warm = watched.warm_up_s == 0
        self._cold: list[Tick] = []  # those of the warm-up, as long as these are all
        self._cold_parts = 0
        self.last: Tick | None = None
        self.status: int | None = None  # of the command, once it has ended
        self.states: dict[tuple[State, Trust], float] = {}
        self.runs: dict[State, UnbrokenRun] = {state: UnbrokenRun() for state in State}
        self.ticks_of: dict[State, int] = dict.fromkeys(State, 0)
        self.means = {name: Mean() for name in MEANS}
        self.totals: dict[str, float | None] = dict.fromkeys(TOTALS)
        self.zero_s = 0.0
        self.zero_run = UnbrokenRun()
        self.judged_gpu_s = 0.0
        self.gpus: dict[tuple[int, str], GpuAccount] = {}
        # counted seconds by name and number: who else was on its GPUs
        self.gpu_others: dict[str, float] = {}
        self.others: dict[str, float] = {}  # core seconds by name
        self.disk_bytes: dict[str, float] = {}  # moved by each disk of the host
        # by folder, those first that most of its files lay on most of the time
        self.mounts: dict[str, Mounted] = {}
        self._mounted_s: dict[str, float] = {}
        # seconds in which it slept on that, of those in which it waited
        self.waits: dict[Want, float] = {}
        self.waited_for: dict[str, float] = {}  # addresses, files, pipes
        self.waited_s = 0.0
        self.page_waits_s = 0.0  # of these, for pages of files that it has mapped
        # in which it waited for storage, and of these in which it read nothing
        self.storage_s = 0.0
        self.unread_s = 0.0
        self.limit: CpuLimit | None = None  # the last that held it back
        self.works_with: set[Workload] = set()
        self.pools: set[ThreadPool] = set()
        self.one_thread = ""  # what holds its busiest process to one thread, as last seen
        self.memory: MemoryTick | None = None
        self.placement: Placement | None = None  # as last seen
        self.new_workers = 0  # counted; and in how many looks some were seen
        self.looks_with_new_workers = 0
        # packets that the cloud held back, by card and counter
        self.allowances: dict[str, int] = {}
        self.least_shm: ShmRoom | None = None  # when the least of it was free
        self.kills = Kills()
        # core seconds by the name of the busiest process of a tick
        self.programs: dict[str, float] = {}
        self.is_partial = False
        self.has_job_pressure_s = 0.0
        self.most_processes = 0

    def add(self, tick: Tick) -> HeldState:
        """Count one tick; returns the state it led to."""
        self.ticks += 1
        self.last = tick
        self.seconds += tick.seconds
        self._total(tick)
        self.memory = _take_fuller(self.memory, tick.memory)
        self.placement = tick.placement or self.placement
        for held in tick.allowances:
            if held.name in self.allowances or len(self.allowances) < MOST_NAMES:
                self.allowances[held.name] = self.allowances.get(held.name, 0) + held.packets
        if tick.shm is not None and (
            self.least_shm is None or tick.shm.free_bytes < self.least_shm.free_bytes
        ):
            self.least_shm = tick.shm
        if not self.is_warm and self.watched.warm_up_s is None and len(self._cold) < MOST_COLD:
            self._keep_cold(tick)
        if tick.is_paused or tick.seconds > max(LOST_S, LOST_TICKS * self.watched.interval_s):
            self.paused_s += tick.seconds
            self.held = HeldState()
            return self.held
        self.held = step(self.held, tick)
        was_warm = self.is_warm
        if not was_warm and self._warms_up(tick):
            self.is_warm = True
            self._cold.clear()
        state = self.held.state
        is_counted = was_warm
        self.history.add(point(tick, state, is_counted=is_counted))
        if not was_warm:
            self.warm_up_s += tick.seconds
        if was_warm:
            for one, run in self.runs.items():
                run.add(tick.seconds, holds=one is state)
            self.ticks_of[state] += 1
        if is_counted:
            self._count(tick)
        self._others(tick)
        self._add_disks(tick)
        self._add_mounts(tick)
        if tick.works_with is not None:
            self.works_with.discard(Workload.PREPARATION)  # it ends before the rest begins
            self.works_with.update(tick.works_with)
            self.pools.update(tick.pools)
            self.one_thread = tick.one_thread
        return self.held

    def _keep_cold(self, tick: Tick) -> None:
        self._cold_parts += _count_parts(tick)
        if self._cold_parts <= _MOST_COLD_PARTS:
            self._cold.append(tick)
        else:
            self._cold.clear()

    def settle(self) -> Account:
        """What is judged at the end. A GPU that is starved may never work enough to end the
        warm-up: where the watch was over within the minute that is waited for it, as much counts as
        without a GPU.
        """
        if self.is_warm or len(self._cold) < self.ticks:
            return self
        found = Account(replace(self.watched, warm_up_s=WARM_UP_WITHOUT_GPU_S))
        for tick in self._cold:
            found.add(tick)
        found.watched, found.status = self.watched, self.status
        found.kills, found.memory = self.kills, self.memory
        return found

    def _warms_up(self, tick: Tick) -> bool:
        """Whether the warm-up ends with this tick: the ones behind it count."""
        limit = self.watched.warm_up_s
        # a look that comes a moment early is as good
        so_far = self.seconds + self.watched.interval_s / 2
        if limit is not None:
            return so_far >= limit
        percent = gpu_percent(tick)
        if percent is None:
            return so_far >= WARM_UP_WITHOUT_GPU_S
        return percent >= WARM_GPU_PERCENT or so_far >= WARM_UP_S

    @property
    def has_ended_early(self) -> bool:
        """The command was over before enough could be seen, whatever counts."""
        return self.status is not None and self.seconds < EARLY_S

    @property
    def active_s(self) -> float:
        """Of the counted time what it did not idle: the means are over this."""
        return self.counted_s - self.idle_s

    @property
    def waits_for(self) -> Want | None:
        """What it mostly slept on while it waited; None where too little of it is known."""
        kind = max(self.waits, key=lambda one: self.waits[one], default=None)
        return kind if kind is not None and self.waits[kind] >= KNOWN_WAIT * self.waited_s else None

    @property
    def is_memory_full(self) -> bool:
        """Whether its control group has used up its memory limit."""
        return (
            self.memory is not None
            and (self.memory.used_bytes or 0) >= FULL_MEMORY * self.memory.limit_bytes
        )

    @property
    def drops_cache(self) -> bool:
        """Whether files are read again because the memory limit leaves no room for them in the page
        cache.
        """
        return self.is_memory_full and (self.means["refaults"].value or 0.0) >= MANY_REFAULTS

    @property
    def gpu_neighbours(self) -> tuple[str, ...]:
        """Who was on its GPUs as well, for a fifth of the counted time and more; who was there
        longest first.
        """
        known = self.gpu_others
        return tuple(
            sorted(
                (who for who in known if known[who] >= 0.2 * self.counted_s),
                key=lambda who: -known[who],
            )
        )

    def _count(self, tick: Tick) -> None:
        seconds = tick.seconds
        self.counted_s += seconds
        key = (self.held.state, self.held.trust)
        self.states[key] = self.states.get(key, 0.0) + seconds
        if self.held.state is State.IDLE:
            self.idle_s += seconds
        else:
            self._add_means(tick)
        if self.held.state is State.WAIT:
            self._add_wait(tick)
        if self.held.state is State.DISK:
            self.storage_s += seconds
            self.unread_s += seconds if _reads_nothing(tick) else 0.0
        if self.held.state is State.LIMIT:
            self.limit = tick.limit
        if tick.tree is not None and tick.tree.program and tick.tree.cores:
            name = tick.tree.program
            if name in self.programs or len(self.programs) < MOST_NAMES:
                self.programs[name] = self.programs.get(name, 0.0) + tick.tree.cores * seconds
        if tick.tree is not None and tick.tree.new_workers:
            self.new_workers += tick.tree.new_workers
            self.looks_with_new_workers += 1
        self._add_gpu_others(tick)
        if tick.job is not None:
            self.has_job_pressure_s += seconds
        percent = gpu_percent(tick)
        if percent is not None:
            self.judged_gpu_s += seconds
            self.zero_s += seconds if percent == 0 else 0.0
            self.zero_run.add(seconds, holds=percent == 0)
        for gpu in tick.gpus or ():
            self._gpu(gpu, seconds)

    def _add_means(self, tick: Tick) -> None:
        for name, value in _list_values(tick).items():
            self.means[name].add(value, tick.seconds)

    def _add_wait(self, tick: Tick) -> None:
        self.waited_s += tick.seconds
        if tick.wait is None:
            return
        self.page_waits_s += tick.seconds if tick.wait.is_page else 0.0
        kind, what = tick.wait.kind, tick.wait.what
        self.waits[kind] = self.waits.get(kind, 0.0) + tick.seconds
        if what and (what in self.waited_for or len(self.waited_for) < MOST_NAMES):
            self.waited_for[what] = self.waited_for.get(what, 0.0) + tick.seconds

    def _add_disks(self, tick: Tick) -> None:
        for disk in tick.disks or ():
            moved = (disk.read_bytes + disk.written_bytes) * tick.seconds
            if disk.name in self.disk_bytes or len(self.disk_bytes) < _MOST_DEVICES:
                self.disk_bytes[disk.name] = self.disk_bytes.get(disk.name, 0.0) + moved

    def _add_mounts(self, tick: Tick) -> None:
        for place, one in enumerate(tick.mounts or (), 1):
            if one.target in self.mounts or len(self.mounts) < MOST_NAMES:
                self.mounts[one.target] = one
                self._mounted_s[one.target] = (
                    self._mounted_s.get(one.target, 0.0) + tick.seconds / place
                )
        self.mounts = dict(sorted(self.mounts.items(), key=lambda one: -self._mounted_s[one[0]]))

    def _gpu(self, gpu: GpuSample, seconds: float) -> None:
        if (gpu.index, gpu.uuid) not in self.gpus and len(self.gpus) >= _MOST_DEVICES:
            return
        kept = self.gpus.setdefault((gpu.index, gpu.uuid), GpuAccount(gpu))
        kept.last = gpu
        kept.was_lost = kept.was_lost or gpu.lost
        kept.util.add(gpu.util_percent, seconds)
        kept.power.add(gpu.power_w, seconds)
        kept.limit.add(gpu.power_limit_w, seconds)
        if (
            POWER_CAP in (gpu.reasons or ())
            and gpu.power_w is not None
            and gpu.power_limit_w is not None
        ):
            is_far_below = gpu.power_w < FAR_BELOW * gpu.power_limit_w
            kept.capped_s += (
                seconds if is_far_below and (gpu.util_percent or 0.0) >= LIMITS.gpu_enter else 0.0
            )
        for reason in gpu.reasons or ():
            kept.reasons[reason] = kept.reasons.get(reason, 0.0) + seconds

    def _total(self, tick: Tick) -> None:
        tree = tick.tree
        if tree is not None:
            self.is_partial = self.is_partial or tree.is_partial
            self.most_processes = max(self.most_processes, tree.processes)
        rates = {
            "read_bytes": tree.read_bytes if tree else None,
            "received_bytes": tree.received_bytes if tree else None,
            "sent_bytes": tree.sent_bytes if tree else None,
            "device_bytes": tree.device_bytes if tree else None,
            "written_bytes": tree.written_bytes if tree else None,
            "disk_read_bytes": None
            if tick.disks is None
            else sum(disk.read_bytes for disk in tick.disks),
            "disk_written_bytes": None
            if tick.disks is None
            else sum(disk.written_bytes for disk in tick.disks),
        }
        for name, rate in rates.items():
            if rate is not None:
                self.totals[name] = (self.totals[name] or 0.0) + rate * tick.seconds

    def _add_gpu_others(self, tick: Tick) -> None:
        for other in tick.gpu_others:
            name = f"{other.name} ({other.pid})"
            if name in self.gpu_others or len(self.gpu_others) < MOST_NAMES:
                self.gpu_others[name] = self.gpu_others.get(name, 0.0) + tick.seconds

    def _others(self, tick: Tick) -> None:
        for other in tick.others or ():
            name = f"{other.name} ({other.pid})"
            if name in self.others or len(self.others) < MOST_NAMES:
                self.others[name] = self.others.get(name, 0.0) + other.cores * tick.seconds


def _count_parts(tick: Tick) -> int:
    children = tick.tree.child_cores if tick.tree is not None else ()
    lists = (
        children,
        tick.disks,
        tick.gpus,
        tick.gpu_others,
        tick.others,
        tick.mounts,
        tick.allowances,
        tick.pools,
    )
    return sum(len(one) for one in lists if one)


def _reads_nothing(tick: Tick) -> bool:
    tree = tick.tree
    if tree is None or tree.device_bytes is None or tree.read_bytes is None or tree.faults is None:
        return False
    return max(tree.device_bytes, tree.read_bytes) < LIMITS.reading_bytes and tree.faults < 1


def _list_values(tick: Tick) -> dict[str, float | None]:
    host, tree, seen = tick.host, tick.tree, find_pressure(tick)
    children = tree.child_cores if tree else ()
    active = [cores for cores in children if cores >= LIMITS.active_cores]
    awaited = [disk.read_await_ms for disk in tick.disks or () if disk.read_await_ms is not None]
    return {
        "gpu_percent": gpu_percent(tick),
        "power_percent": power_percent(tick),
        "room_percent": room_percent(tick),
        "iowait_percent": host.iowait_percent if host else None,
        "busy_cores": host.busy_cores if host else None,
        "refaults": host.refaults if host else None,
        "swapped_in_pages": host.swapped_in_pages if host else None,
        "tree_cores": tree.cores if tree else None,
        "main_cores": tree.main_cores if tree else None,
        "run_delay_cores": tree.run_delay_cores if tree else None,
        "cpus": tick.cpus,
        "cpu_some": seen.cpu_some if seen else None,
        "io_some": seen.io_some if seen else None,
        "io_full": seen.io_full if seen else None,
        "memory_some": seen.memory_some if seen else None,
        "read_bytes": tree.read_bytes if tree else None,
        "device_bytes": tree.device_bytes if tree else None,
        "line_cores": tree.line_cores if tree else None,
        "throttled_percent": tick.throttled_percent,
        "disk_read_bytes": None
        if tick.disks is None
        else sum(disk.read_bytes for disk in tick.disks),
        "disk_written_bytes": None
        if tick.disks is None
        else sum(disk.written_bytes for disk in tick.disks),
        "read_await_ms": max(awaited, default=None),
        "in_flight": None
        if tick.disks is None
        else sum(disk.in_flight or 0.0 for disk in tick.disks),
        "mains": float(tree.mains) if tree else None,
        "children": float(tree.children) if tree else None,
        "active_children": float(len(active)) if tree else None,
        "saturated_children": float(sum(cores >= LIMITS.saturated_enter for cores in active))
        if tree
        else None,
        "active_child_cores": sum(active) / len(active) if active else None,
        "stolen_percent": host.stolen_percent if host else None,
        "faults": tree.faults if tree else None,
        "wanting": tree.wanting if tree else None,
        "wanting_processes": tree.wanting_processes if tree else None,
        "piece_ms": tree.piece_ms if tree else None,
    }


def _take_fuller(before: MemoryTick | None, now: MemoryTick | None) -> MemoryTick | None:
    """The look at which most of the limit was in use. The last look may meet a job that is ending,
    whose memory is free already. A changed limit starts anew.
    """
    if before is None or now is None:
        return now or before
    is_same = (now.path, now.limit_bytes) == (before.path, before.limit_bytes)
    return before if is_same and (before.used_bytes or 0) > (now.used_bytes or 0) else now
