"""The sentences of a watch: what each state means, how sure that is, and what was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.measure.watch.endings import EndKind, ending_of
from hosttune.measure.watch.remedies import (
    NETWORK_TYPES,
    crowd_of,
    hold_of_clock,
    is_one_of_several,
    is_power_capped,
    is_sending,
    is_stolen,
    is_writing,
    maps_its_files,
    starts_workers_anew,
    takes_turns,
    waits_for_files,
)
from hosttune.measure.watch.states import LIMITS, State
from hosttune.measure.watch.tick import FILE_SERVER, Want
from hosttune.measure.watch.verdict import SECOND, Confidence, VerdictKind, WatchVerdict
from hosttune.numbers import say_count, say_size, say_time
from hosttune.views.terminal import join_words

if TYPE_CHECKING:
    from hosttune.measure.watch.account import Account, GpuAccount
    from hosttune.measure.watch.tick import Mounted

MEANINGS: Mapping[State, str] = MappingProxyType(
    {
        State.MEM: "it waits for memory: pages are swapped, or dropped and read again",
        State.COLD_GPU: "the GPU is busy, but cold: it runs something all the time and draws "
        "little power",
        State.GPU: "the GPU is the limit: the host feeds it well",
        State.DISK: "it waits for storage",
        State.CPU: "it needs more CPU time than it can get: all its CPUs are busy, with its own "
        "work",
        State.FOREIGN: "other processes take the CPU time that it needs",
        State.WORKERS: "too few processes load data: they are at their limit",
        State.IDLE: "it did next to nothing, and waits for nothing that can be seen: it sleeps",
        State.WAIT: "it waits for what no processor, disk or memory is busy with: a network, a "
        "lock, another rank",
        State.UNKNOWN: "not known",
        State.LIMIT: "a limit keeps it from CPUs that the host has",
    }
)
SHORT: Mapping[State, str] = MappingProxyType({
    State.MEM: "memory", State.GPU: "the GPU", State.DISK: "storage",
    State.CPU: "too little CPU time", State.FOREIGN: "others on its CPUs",
    State.LIMIT: "a limit on its CPUs",
})  # fmt: skip
_NO_CRASH = (
    "SIGKILL",
    "SIGTERM",
    "SIGINT",
    "SIGHUP",
    "SIGPIPE",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGXCPU",
)
_BUSY = {State.GPU: "the GPU is busy", State.COLD_GPU: "the GPU is busy, but cold"}
BUSY_DISK = 0.5  # requests under way, all the time
_MAIN_LIMIT = "its main process is at the limit of one core"
_ONE_LIMIT = "one of its processes is at the limit of one core, and the others wait,"
_MAIN_TURNS = "its main process computes in turns with the GPU, which rests meanwhile,"
_NEW_LIMIT = "its loader workers are started anew again and again, and that takes the time"
_TURNS_LIMIT = "its processes take turns, one core's worth at a time,"
_LINE_LIMIT = "its processes run one after the other, one core's worth at a time,"
WAITS: Mapping[Want, str] = MappingProxyType({
    Want.NETWORK: "it waits for the network", Want.LOCK: "it waits for a lock",
    Want.PEER: "it waits for another process of this host",
    Want.TIMER: "it sleeps for a time that it has set itself",
    Want.EACH_OTHER: "its own tasks wait for each other: what one hands to the other does not come",
})  # fmt: skip
# What is mounted without a device below it: no storage to wait for.
_NO_STORAGE = (
    "tmpfs",
    "ramfs",
    "devtmpfs",
    "devpts",
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "mqueue",
    "hugetlbfs",
)


def make_headline(verdict: WatchVerdict, account: Account) -> str:
    """The verdict in one sentence, its name first."""
    if verdict.outcome is VerdictKind.UNDECIDED or verdict.state is None:
        return "undecided: " + _describe_undecided(verdict, account)
    if verdict.outcome is VerdictKind.MIXED:
        parts = [
            f"{share.state.value} {share.share:.0%}".replace("%", " %")
            for share in verdict.shares[:3]
        ]
        return (
            f"mixed: {join_words(parts)} of the time; mostly "
            f"{_describe_state(verdict.state, account)}"
        )
    if len(verdict.segments) > 1 and verdict.outcome is VerdictKind.CHANGED:
        return f"{describe_changes(verdict)} ({_describe_shares(verdict)}){_describe_cold(verdict)}"
    text = f"{verdict.state.value}: {_describe_state(verdict.state, account)}"
    if len(verdict.segments) > 1:
        return f"{text} ({describe_changes(verdict)}{_describe_cold(verdict)})"
    return (
        f"{text} ({_describe_shares(verdict)})"
        if sum(one.share >= SECOND for one in verdict.shares) > 1
        else text
    )


def ending_text(account: Account) -> str:
    """How the job ended, or why it does not go on; "" if it ended by itself, or goes on."""
    end = ending_of(account)
    if end is None:
        return ""
    memory, shm = account.memory, account.least_shm
    limit = (
        f" (limit {say_size(memory.limit_bytes)} by {memory.path})" if memory is not None else ""
    )
    killed = say_count(account.kills.group, "process", "processes")
    text = {
        EndKind.GROUP_OOM: f"{killed} of its control group killed by the kernel: out of "
        f"memory{limit}",
        EndKind.HOST_OOM: _describe_near(account)
        if end.what
        else "killed by the kernel: out of memory, and no limit of its own is visible",
        EndKind.SHM: f"/dev/shm ({say_size(shm.size_bytes)}) was full" if shm else "",
        EndKind.SIGNAL: f"killed by {end.what}"
        if end.what in _NO_CRASH
        else f"crashed with {end.what}",
        EndKind.STOPPED: "all its processes are stopped by a signal (SIGSTOP, Ctrl-Z)",
        EndKind.FROZEN: f"its control group is frozen: {end.what}",
    }[end.kind]
    return f"ended: {text}" if end.has_ended else text


def _describe_near(account: Account) -> str:
    killed = say_count(account.kills.near, "process", "processes")
    return (
        f"some of its processes ended while the kernel killed {killed} of this host: out of memory"
    )


def _describe_shares(verdict: WatchVerdict) -> str:
    return join_words(
        [
            f"{one.state.value} {100 * one.share:.0f} %"
            for one in verdict.shares
            if one.share >= SECOND / 2
        ]
    )


def describe_changes(verdict: WatchVerdict) -> str:
    """`DISK for 240 s, then GPU`."""
    parts = [
        f"{cut.state.value} for {say_time(cut.end_s - cut.begin_s)}"
        for cut in verdict.segments[:-1]
    ]
    return ", then ".join([*parts, verdict.segments[-1].state.value])


def confidence_text(verdict: WatchVerdict) -> str:
    return {
        Confidence.HIGH: "high",
        Confidence.MEDIUM: "medium",
        Confidence.LOW: "low",
    }[verdict.confidence]


def list_evidence(verdict: WatchVerdict, account: Account) -> tuple[str, ...]:
    """What was seen, a sentence each."""
    lines = [_describe_times(verdict)]
    lines += [
        _describe_gpu(gpu, account)
        for gpu in sorted(account.gpus.values(), key=lambda one: one.last.index)
    ]
    # it is the best source: not all answer
    if account.watched.gpu_source == "nvml" and account.watched.gpu_reason:
        lines.append(f"GPUs: {account.watched.gpu_reason} (hosttune driver says which)")
    if account.last is not None and account.last.gpus is None:
        lines.append(f"GPU: not visible ({account.watched.gpu_reason or 'no source'})")
    elif account.last is not None and not account.last.gpus:
        lines.append(_no_gpu(account))
    lines += [
        _describe_neighbours(account),
        _describe_zero(account),
        _describe_processors(account),
        _describe_loaders(account),
        _describe_pressure(account),
        _describe_waiting(account),
        _describe_reading(account),
        _describe_disks(account),
        _describe_mounts(account),
        _describe_cache(account),
        _describe_place(account),
        _describe_allowances(account),
    ]
    return tuple(line for line in lines if line)


def list_details(verdict: WatchVerdict, account: Account) -> tuple[str, ...]:
    """What only `--verbose` tells: every state, where figures come from, and iowait, which nothing
    is judged by.
    """
    watched, iowait = account.watched, account.means["iowait_percent"].value
    states = ", ".join(
        f"{one.state.value} {100 * one.share:.0f} % ({say_time(one.longest_run_s)} on end)"
        for one in verdict.shares
    )
    lines = (
        f"states: {states}" if states else "",
        f"CPUs: {watched.cpus_evidence}" if watched.cpus_evidence else "",
        f"GPU figures: {watched.gpu_source}"
        + (f" ({watched.gpu_reason})" if watched.gpu_reason else ""),
        f"pressure: {watched.pressure_reason}" if watched.pressure_reason else "",
        "" if iowait is None else f"iowait {iowait:.0f} %: shown, and not judged by",
        say_count(account.ticks, "look")
        + f", at most {say_count(account.most_processes, 'process', 'processes')} at once",
    )
    return tuple(line for line in lines if line)


def _no_gpu(account: Account) -> str:
    watched = account.watched
    if watched.gpu_source == "none":
        return f"GPU: none here ({watched.gpu_reason or 'no source'}); judged only by the host"
    return "GPU: none that the job may use (CUDA_VISIBLE_DEVICES); judged only by the host"


def not_the_cause(verdict: WatchVerdict) -> str:
    return join_words(
        [
            SHORT[state]
            for state in verdict.not_the_cause
            if state in SHORT and state is not State.GPU
        ]
    )


def storage_of(account: Account) -> str:
    """`/data (ext4 on /dev/sda1)`, the first of those that its files lie on; "" where none is
    known.
    """
    if (one := _find_storage(account)) is None:
        return ""
    server = f", served by {one.server}" if one.server else ""
    return f"{one.target} ({one.fstype} of {one.source}{server})"


def _find_storage(account: Account) -> Mounted | None:
    """Where what it reads comes from no device, that is the file system which a process serves."""
    found = [one for one in account.mounts.values() if one.fstype not in _NO_STORAGE]
    read, device = (account.means[name].value for name in ("read_bytes", "device_bytes"))
    if read and device is not None and device < 0.1 * read:
        found.sort(key=lambda one: not one.fstype.startswith("fuse"))
    return found[0] if found else None


def _is_served(account: Account) -> bool:
    """What it reads comes from a server, as far as its files show."""
    one = _find_storage(account)
    return one is not None and one.fstype.startswith(NETWORK_TYPES)


def _describe_state(state: State, account: Account) -> str:
    words: Mapping[State, Callable[[Account], str]] = {
        State.MEM: _describe_memory, State.DISK: _waiting_for_storage, State.LIMIT: _limit,
        State.CPU: _describe_crowd, State.WORKERS: _describe_workers, State.WAIT: _describe_sleep,
        State.FOREIGN: _describe_stolen, State.COLD_GPU: lambda one: _busy_gpu(one, State.COLD_GPU),
        State.GPU: lambda one: _busy_gpu(one, State.GPU),
    }  # fmt: skip
    return (words[state](account) if state in words else "") or MEANINGS[state]


def _describe_memory(account: Account) -> str:
    limit = account.memory
    if limit is None or not account.is_memory_full:
        return ""
    return (
        f"{MEANINGS[State.MEM]}, within its limit of {say_size(limit.limit_bytes)} ({limit.path})"
    )


def _busy_gpu(account: Account, state: State) -> str:
    if account.gpu_neighbours:
        return f"{_BUSY[state]}, with this job or with others that are on it as well"
    if hold := hold_of_clock(account):
        return f"{_BUSY[State.GPU]}, and its clock is held down: {hold}"
    if is_power_capped(account):
        return f"{_BUSY[State.GPU]}, and something else than its own limit caps its power"
    return ""


def _limit(account: Account) -> str:
    limit = account.limit
    if limit is None:
        return ""
    held, busy = account.means["throttled_percent"].value, account.means["busy_cores"].value
    times = f", which held it back {held:.0f} % of the time" if held else ""
    free = (
        ", while others are free"
        if busy is not None and limit.of - busy >= LIMITS.free_outside
        else ""
    )
    threads = f"; {_describe_threads(account)}" if _describe_threads(account) else ""
    what = limit.by if not limit.path else ""
    what = what or f"its {limit.kind.value} gives it {limit.cpus:.3g} of {limit.of} CPUs"
    return f"{what}{times}{free}{threads}"


def _describe_crowd(account: Account) -> str:
    if starts_workers_anew(account):
        return _NEW_LIMIT
    if _describe_threads(account):
        return f"{_describe_threads(account)}: they take turns, and wait for each other"
    own, busy, cpus, room = (
        account.means[name].value for name in ("tree_cores", "busy_cores", "cpus", "room_percent")
    )
    if own is None or busy is None or not cpus or room is None or own >= LIMITS.limit_enter * cpus:
        return ""
    is_shared = room < LIMITS.room_some and busy - own >= LIMITS.others_least
    rest = "others use the rest" if is_shared else "in between its tasks queue for them"
    return (
        f"it needs more CPU time than it can get: of {cpus:.3g} CPUs it has {own:.2f}, and {rest}"
    )


def _describe_stolen(account: Account) -> str:
    if not is_stolen(account):
        return ""
    stolen = account.means["stolen_percent"].value or 0.0
    return f"the hypervisor gives {stolen:.0f} % of its CPU time to other machines (steal)"


def _describe_sleep(account: Account) -> str:
    if account.waits_for is None:
        return ""
    names = sorted(account.waited_for, key=lambda what: -account.waited_for[what])[:2]
    if FILE_SERVER in names and _is_served(account):
        names[names.index(FILE_SERVER)] += _name_storage(storage_of(account))
    return f"{WAITS[account.waits_for]}{f' ({join_words(names)})' if names else ''}"


def _describe_workers(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    saturated, room = mean["saturated_children"] or 0.0, mean["room_percent"]
    is_line = (mean["line_cores"] or 0.0) >= 0.3 * (mean["tree_cores"] or 1.0)
    if starts_workers_anew(account):
        return _NEW_LIMIT
    what = _LINE_LIMIT if is_line else _MAIN_LIMIT if saturated < 0.5 else MEANINGS[State.WORKERS]
    main, busy = mean["main_cores"] or 0.0, (mean["gpu_percent"] or 0.0) / 100
    if what is _MAIN_LIMIT and account.gpus and main - busy < LIMITS.saturated_enter * (1 - busy):
        what = _MAIN_TURNS
    if not is_line and saturated < 0.5 and takes_turns(account):
        what = _TURNS_LIMIT
    if not is_line and is_one_of_several(account):
        what = _ONE_LIMIT
    is_free = room is None or room >= LIMITS.room_some
    return (
        f"{what} while "
        f"{'CPUs are free' if is_free else 'the job gets the CPU time that it asks for'}"
    )


def _waiting_for_storage(account: Account) -> str:
    names = ("disk_written_bytes", "disk_read_bytes", "in_flight")
    written, read, in_flight = (account.means[name].value or 0 for name in names)
    storage = _find_storage(account)
    is_served = storage is not None and storage.fstype.startswith("fuse")
    text = MEANINGS[State.DISK]
    if is_writing(account):
        text = "it waits for storage, to which it writes itself (checkpoints, logs, fsync)"
    elif account.drops_cache:
        text = "it waits for storage, and reads again what its full memory limit dropped"
    elif maps_its_files(account):
        text = "it waits for storage, page by page of files that it has mapped"
    elif written > 4 * read and in_flight >= BUSY_DISK and not is_served:
        text = "it waits for storage, which is busy with writing"
    return text + _name_storage(storage_of(account))


def _describe_threads(account: Account) -> str:
    crowd = crowd_of(account)
    return crowd.text(of_threads=True) if crowd is not None and crowd.are_threads else ""


def _name_storage(storage: str) -> str:
    return f": {storage}" if storage else ""


def _describe_undecided(verdict: WatchVerdict, account: Account) -> str:
    if account.has_ended_early:
        when = f"after {say_time(account.seconds)}" if account.seconds >= 1 else "at once"
        return (
            f"the command ended {when}, with status {account.status}, before enough could be seen"
        )
    if verdict.counted_s < 5:
        return f"only {say_time(verdict.counted_s)} count, which is too short"
    if starts_workers_anew(account):
        return _NEW_LIMIT
    known = [
        share
        for share in verdict.shares
        if share.state is not State.UNKNOWN and share.share >= 0.05
    ]
    if not known:
        return "what was seen fits no answer well enough"
    parts = [f"{share.state.value} {100 * share.share:.0f} %" for share in known[:3]]
    return f"nothing held for long ({join_words(parts)} of the time)"


def _describe_cold(verdict: WatchVerdict) -> str:
    return ": the first epoch was cold" if verdict.first_was_cold else ""


def _describe_times(verdict: WatchVerdict) -> str:
    times = ((verdict.warm_up_s, "warm-up"), (verdict.paused_s, "standing still"))
    left = [f"{say_time(seconds)} of {name}" for seconds, name in times if seconds >= 1]
    rest = f", without {join_words(left)}" if left else ""
    text = f"watched {say_time(verdict.seconds)}{rest}"
    if verdict.shares and verdict.state is not None and verdict.outcome is not VerdictKind.IDLE:
        share = next((one for one in verdict.shares if one.state is verdict.state), None)
        if share:
            text += (
                f"; {verdict.state.value} held {100 * share.share:.0f} %, "
                f"{say_time(share.longest_run_s)} on end"
            )
    if verdict.idle_s >= 1 and verdict.outcome is not VerdictKind.IDLE:
        text += f"; it idled {say_time(verdict.idle_s)}"
    return text


def _describe_gpu(gpu: GpuAccount, account: Account) -> str:
    last = gpu.last
    part = " (one MIG instance: all that a process can use of it)" if last.is_mig else ""
    name = f"GPU {last.index}{f' {last.name}' if last.name else ''}{part}"
    if gpu.was_lost:
        return f"{name}: fell off the bus"
    parts = ["utilization not known" if gpu.util.value is None else f"busy {gpu.util.value:.0f} %"]
    if gpu.power.value is not None:
        limit = f" of {gpu.limit.value:.0f}" if gpu.limit.value else ""
        parts.append(f"{gpu.power.value:.0f}{limit} W")
    else:
        parts.append("power not known")
    if last.memory_used_bytes is not None and last.memory_total_bytes:
        parts.append(
            f"memory {100 * last.memory_used_bytes / last.memory_total_bytes:.0f} % in use"
        )
    held = [
        f"{reason} {100 * seconds / account.counted_s:.0f} % of the time"
        for reason, seconds in sorted(gpu.reasons.items(), key=lambda pair: -pair[1])
        if reason != "idle" and seconds > 0.1 * account.counted_s
    ]
    return f"{name}: {', '.join(parts)}{f'; clock held by {join_words(held)}' if held else ''}"


def _describe_neighbours(account: Account) -> str:
    names = account.gpu_neighbours
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"not of the job, and on its GPUs as well: {join_words(list(names[:3]))}{more}"
        if names
        else ""
    )


def _describe_zero(account: Account) -> str:
    if not account.judged_gpu_s or not account.zero_s:
        return ""
    longest = say_time(account.zero_run.longest_s)
    return (
        f"the GPU did nothing in {account.zero_s:.0f} of {account.judged_gpu_s:.0f} s, at most "
        f"{longest} in a row"
    )


def _describe_processors(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    cores, cpus, room, delay = (
        mean["tree_cores"],
        mean["cpus"],
        mean["room_percent"],
        mean["run_delay_cores"],
    )
    parts = []
    if cores is not None:
        parts.append(f"the job uses {cores:.2f}{f' of {round(cpus, 2):g}' if cpus else ''} CPUs")
    if room is not None:
        parts.append(
            f"{room:.0f} % of {'them' if cores is not None and cpus else 'the CPUs'} are free"
        )
    if delay is not None and delay >= 0.05:
        parts.append(
            f"its processes wait for {delay:.1f} {'more' if cores is not None else 'CPUs'}"
        )
    if mean["wanting"] is not None and cpus and mean["wanting"] > cpus:
        parts.append(f"{mean['wanting']:.0f} of its threads run or queue for one")
    if account.others and mean["busy_cores"] is not None:
        busiest = sorted(account.others, key=lambda name: -account.others[name])[:3]
        parts.append(f"busiest of the others: {join_words(busiest)}")
    return "; ".join(parts)


def _describe_place(account: Account) -> str:
    place = account.placement
    return (
        f"{place.example} ({place.far} of {place.processes} are so)"
        if place is not None and place.far
        else ""
    )


def _describe_loaders(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    children, active, full = mean["children"], mean["active_children"], mean["saturated_children"]
    if children is None or children < 0.5:
        return "no process loads beside the main one" if children is not None else ""
    cores = mean["active_child_cores"]
    number = say_count(round(children), "child process", "child processes")
    text = f"{number} beside the main one, {active or 0:.0f} active"
    if cores is not None and active:
        text += f" at {100 * cores:.0f} % of a core, {full or 0:.0f} of them full"
    return text


def _describe_pressure(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    if mean["io_full"] is None:
        # what idles is not asked
        return "pressure (PSI): not measured by this kernel" if account.active_s else ""
    whose = (
        "of the job's own control group"
        if account.has_job_pressure_s > account.counted_s / 2
        else "of the whole host"
    )
    some, full = _format_percent(mean["io_some"]), _format_percent(mean["io_full"])
    cpu, memory = _format_percent(mean["cpu_some"]), _format_percent(mean["memory_some"])
    return f"pressure {whose}: CPU {cpu}, storage {some} (all tasks {full}), memory {memory}"


def _format_percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.0f} %"


def _describe_reading(account: Account) -> str:
    read, device = account.totals["read_bytes"], account.totals["device_bytes"]
    if not account.ticks:
        return ""
    if read is None or device is None:
        return "what the job reads is not visible"
    received = account.totals["received_bytes"]
    more = f"; at least {say_size(received)} came over TCP" if received else ""
    if is_sending(account):
        more += f"; at least {say_size(account.totals['sent_bytes'] or 0.0)} went out over TCP"
    if device > read:  # mmap(2) and read-ahead are no read(2)
        mapped = "what it maps and read-ahead included"
        return (
            f"read {say_size(read)} by read(2); {say_size(device)} came from a device, "
            f"{mapped}{more}"
        )
    if read >= 1 << 20 and device < 0.01 * read:
        rest = "its server or the page cache" if _is_served(account) else "the page cache"
        return (
            f"read {say_size(read)}, of it {say_size(device)} from a device: {rest} has the "
            f"rest{more}"
        )
    return f"read {say_size(read)}, of it {say_size(device)} from a device{more}"


def _describe_waiting(account: Account) -> str:
    known = sorted(account.waits.items(), key=lambda pair: -pair[1])
    if not account.waited_s or not known:
        return ""
    parts = [f"{kind.value} {100 * seconds / account.waited_s:.0f} %" for kind, seconds in known]
    return f"while it waited, it slept on: {join_words(parts)}"


def _describe_mounts(account: Account) -> str:
    storage = storage_of(account)
    if not storage or (waits_for_files(account) and not _is_served(account)):
        return ""  # names that it looks up are of a file system that its open files do not show
    return f"its files are on {storage}"


def _describe_cache(account: Account) -> str:
    limit = account.memory
    if limit is None or not account.drops_cache:
        return ""
    return (
        f"its memory limit ({say_size(limit.limit_bytes)}, {limit.path}) is full: page cache is "
        "dropped and read again"
    )


def _describe_allowances(account: Account) -> str:
    most = sorted(account.allowances, key=lambda name: -account.allowances[name])[:3]
    parts = [f"{name} {account.allowances[name]:,} packets" for name in most]
    return f"the cloud queued or dropped: {join_words(parts)}" if parts else ""


def _describe_disks(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    rate, wait, flight = mean["disk_read_bytes"], mean["read_await_ms"], mean["in_flight"]
    if rate is None or (rate < 1e6 and (flight or 0) < BUSY_DISK):
        return ""
    busiest = sorted(account.disk_bytes, key=lambda name: -account.disk_bytes[name])[:2]
    text = f"disks read {say_size(rate)}/s{f' (busiest: {join_words(busiest)})' if busiest else ''}"
    if wait is not None:
        text += f", {wait:.1f} ms a request"
    return text + (f", {flight:.1f} under way" if flight is not None else "")
