"""Which advice follows from a verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from hosttune.measure.advice import ADVICE, Advice
from hosttune.measure.cpus import Cpus
from hosttune.measure.gpu.reasons import HELD_BACK
from hosttune.measure.watch.account import MANY_REFAULTS, Account
from hosttune.measure.watch.endings import Ending, EndKind, ending_of
from hosttune.measure.watch.others import GONE
from hosttune.measure.watch.programs import ThreadPool, Workload
from hosttune.measure.watch.states import LIMITS, State
from hosttune.measure.watch.tick import CpuLimit, LimitKind, Want, is_file_server, is_unanswered
from hosttune.measure.watch.verdict import SECOND, VerdictKind, WatchVerdict
from hosttune.measure.workers import start_workers

NETWORK_TYPES = (  # beginnings: file systems that a server has
    "nfs",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "fuse",
    "9p",
    "afs",
    "glusterfs",
    "virtiofs",
)


FAULT_BYTES = 64 << 10  # that one fault reads, read-ahead included (128 KiB at most by default)
STARTS = 4  # looks in which new loaders were seen, and generations of them
MOSTLY = 4
THREADS_PART = 0.25
BOTH_HALVES = 0.75  # of the CPUs: more than one thread of each core
COMPILING = 0.2  # of the CPU time by the busiest processes
# milliseconds of CPU time between two waits: a hand-over costs much of it. Where processes queue
# for a CPU, the scheduler lets each have 0.7 and more.
SMALL_MS = 0.5
_PYTHONS = ("python", "pt_", "ray", "torchrun")
# processes of a job at once: its main one, a helper of multiprocessing, two loaders
_WITH_LOADERS = 4
# seconds, and their part in which a GPU that is not used does nothing
UNUSED_S, UNUSED_PART = 10, 0.99
TINY_SHM = 256 << 20  # bytes: Docker's and Kubernetes' is 64 MiB


class Crowd(NamedTuple):
    """More tasks want a CPU than the job may use: threads of a few processes, or many processes."""

    tasks: int
    processes: int
    cpus: float

    @property
    def are_threads(self) -> bool:
        """Of most processes more than one thread wants one."""
        return self.tasks >= LIMITS.crowded * self.processes

    @property
    def has_threads(self) -> bool:
        """A part of them are threads beside the first of their process: a process computes in
        several.
        """
        return self.tasks - self.processes >= max(1.0, THREADS_PART * self.tasks)

    def text(self, *, of_threads: bool) -> str:
        """`8 threads want 2 CPUs`."""
        what = f"{self.tasks} threads" if of_threads else f"{self.processes} processes"
        return f"{what} want {self.cpus:.3g} CPU{'s' * (self.cpus != 1)}"


def choose_remedies(verdict: WatchVerdict, account: Account) -> tuple[Advice, ...]:
    """What to do, what matters most first; also for a second state that held a part of the time."""
    states = [verdict.state] if verdict.state is not None else []
    if states and verdict.outcome is not VerdictKind.IDLE:
        states += [
            one.state for one in verdict.shares if one.share >= SECOND and one.state not in states
        ]
    shares = {one.state: one.share for one in verdict.shares}
    found: dict[str, Advice] = {}
    for state in states:
        is_cold = state is State.DISK and verdict.first_was_cold
        names = (
            ("cold-cache",) if is_cold else _list_names(state, account, shares.get(state) or 1.0)
        )
        for name in names:
            found[name] = _fill_advice(name, account)
    if not states:
        seen = {
            "compile": is_compiling, "new-workers": starts_workers_anew,
            "small-pieces": hands_small_pieces,
        }  # fmt: skip
        found = {name: _fill_advice(name, account) for name in seen if seen[name](account)}
    if states and verdict.outcome is not VerdictKind.IDLE:
        found |= {name: _fill_advice(name, account) for name in _of_places(states, account)}
    if (end := _end_advice(ending_of(account), account)) and end not in found:
        copies = ("worker-copies",) if end in _OUT_OF_MEMORY and _had_loaders(account) else ()
        kept = {
            name: found[name]
            for name in found
            if end not in _OUT_OF_MEMORY or name not in _MORE_MEMORY
        }
        found = {**{name: _fill_advice(name, account) for name in (end, *copies)}, **kept}
    if _leaves_gpu_unused(states, account):
        found = {"gpu-unused": _fill_advice("gpu-unused", account), **found}
    if any(gpu.was_lost for gpu in account.gpus.values()):
        found = {"lost-gpu": ADVICE["lost-gpu"], **found}
    return tuple(found.values())


def _leaves_gpu_unused(states: list[State], account: Account) -> bool:
    """It computes, and no GPU that may be its own did anything at all: it may not have found
    one.
    """
    computes = bool({State.CPU, State.WORKERS, State.LIMIT, State.FOREIGN} & set(states))
    return (
        computes
        and account.counted_s >= UNUSED_S
        and account.zero_s >= UNUSED_PART * account.counted_s
    )


def _of_places(states: list[State], account: Account) -> tuple[str, ...]:
    """Ranks that are far from their GPUs, or bound nowhere on a machine with several nodes."""
    place = account.placement
    if place is None:
        return ()
    if place.far:
        return ("far-gpu",)
    is_free = place.unbound == place.processes >= 2 and place.domains >= 2
    return (
        ("bind-ranks",) if is_free and {State.WORKERS, State.CPU, State.WAIT} & set(states) else ()
    )


_ENDS = {
    EndKind.GROUP_OOM: "oom-group", EndKind.HOST_OOM: "oom-host", EndKind.SHM: "shm",
    EndKind.STOPPED: "continue", EndKind.FROZEN: "thaw",
}  # fmt: skip
_OUT_OF_MEMORY = {"oom-group", "oom-host"}
_MORE_MEMORY = {"more-workers", "some-workers", "keep-workers", "overlap-waits", "knee"}
_PREPARED_IN = {State.CPU, State.WORKERS, State.LIMIT, State.DISK}
_NOT_OF_PREPARATION = {
    "more-workers", "some-workers", "keep-workers", "fewer-workers", "knee", "pin-memory",
    "one-thread", "tokenize-once", "launch-bound", "one-slow-worker", "new-workers",
    "fewer-columns", "rows", "metrics",
}  # fmt: skip
# who sent it knows why
# Compilers as the kernel names them (proc_pid_stat(5)): GCC, Clang, and those of the CUDA Toolkit.
_COMPILERS = {
    "cc1", "cc1plus", "cicc", "cudafe++", "ptxas", "nvcc", "clang", "clang++", "hipcc", "ninja",
    "ld",
}  # fmt: skip
_HANDED_OVER_IN = {State.CPU, State.WORKERS, State.WAIT}
_COMPILED_IN = _PREPARED_IN | {State.WAIT}
_NOT_OF_COMPILING = _NOT_OF_PREPARATION | {
    "line", "turns", "small-pieces", "peer", "each-other", "waits", "profile", "all-cpus",
}  # fmt: skip
# Whose loaders these are not: advice on a DataLoader of PyTorch is left out.
_OWN_LOADERS = {Workload.TENSORFLOW: "tf-data", Workload.DALI: "dali"}
_OF_LOADERS = {
    "more-workers", "some-workers", "keep-workers", "new-workers", "knee", "pin-memory",
    "launch-bound",
}  # fmt: skip
_ASKED_FOR = {"SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGUSR2"}


_USES_GPU = {
    True: "does python3 -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())' "
    "print a version and True",
    False: "does nvidia-smi where it runs list the GPU (docker run --gpus all), does `ollama ps` "
    "say 100% GPU, is --n-gpu-layers of llama.cpp set",
}
_LESS_MEMORY = {
    True: "fewer loader workers, a smaller prefetch_factor or batch",
    False: "a smaller batch, less kept in lists",
}


def _end_advice(ending: Ending | None, account: Account) -> str:
    if ending is None:
        return "small-shm" if account.status and _may_lack_shm(account) else ""
    if ending.what in _ASKED_FOR:
        return ""
    return _ENDS.get(ending.kind) or {"SIGKILL": "killed", "SIGBUS": "sigbus"}.get(
        ending.what, "crashed"
    )


def _may_lack_shm(account: Account) -> bool:
    """A loader worker that finds no room in /dev/shm dies within a moment, and its main process
    ends with an ordinary status: no look need have seen it full.
    """
    return _has_tiny_shm(account) and _has_loaders(account)


def _has_tiny_shm(account: Account) -> bool:
    shm = account.least_shm
    return shm is not None and 0 < shm.size_bytes <= TINY_SHM


def _list_names(state: State, account: Account, share: float) -> tuple[str, ...]:
    names = _of_workers(account, share) if state is State.WORKERS else _of_state(state, account)
    if state in _COMPILED_IN and is_compiling(account):
        return ("compile", *(name for name in names if name not in _NOT_OF_COMPILING))
    if Workload.PREPARATION in account.works_with and state in _PREPARED_IN:
        return ("prepare-once", *(name for name in names if name not in _NOT_OF_PREPARATION))
    if state in _HANDED_OVER_IN and hands_small_pieces(account):
        return ("small-pieces", *names)
    own = [_OWN_LOADERS[work] for work in _OWN_LOADERS if work in account.works_with]
    if own and _OF_LOADERS.intersection(names):
        return (*own, *(name for name in names if name not in _OF_LOADERS))
    return names


def is_compiling(account: Account) -> bool:
    """Whether compilers that a Python started are the busiest process for a part of the time."""
    known = account.programs
    time = sum(known[name] for name in known if name in _COMPILERS)
    is_part = time >= COMPILING * sum(known.values()) > 0
    return is_part and any(name.startswith(_PYTHONS) for name in known)


def _of_state(state: State, account: Account) -> tuple[str, ...]:
    ways: Mapping[State, Callable[[Account], tuple[str, ...]]] = {
        State.MEM: _of_memory,
        State.DISK: _of_disk,
        State.WAIT: _of_waits,
        State.GPU: lambda one: _of_gpu(one, "gpu-limit"),
        State.COLD_GPU: lambda one: _of_gpu(one, "cold-gpu"),
        State.CPU: _of_cpu,
        State.LIMIT: _of_limit,
        State.FOREIGN: lambda one: ("stolen",) if is_stolen(one) else ("foreign", *_of_crowd(one)),
        # what failed hangs no more
        State.IDLE: lambda one: () if one.status else ("hang", *_of_forks(one)),
    }
    return ways[state](account) if state in ways else ()


def _of_memory(account: Account) -> tuple[str, ...]:
    limit = "memory-limit" if account.is_memory_full else "memory"
    copies = ("worker-copies",) if _has_loaders(account) else ()
    return (limit, *_of_random(account), *copies, "fits-memory")


def _of_cpu(account: Account) -> tuple[str, ...]:
    new = ("new-workers",) if starts_workers_anew(account) else ()
    slows = account.watched.governor not in {"", "performance"}
    crowd = _of_crowd(account) or (("cores",) if fills_both_halves(account) else ())
    return (*new, *crowd, *_of_work(account), *(("governor",) if slows else ()))


def _of_limit(account: Account) -> tuple[str, ...]:
    crowd = _of_crowd(account)
    if account.limit is None or account.limit.kind is not LimitKind.AFFINITY:
        return (*crowd, "limit")
    return (
        *(name for name in crowd if name.endswith("threads")),
        "limit",
        "unpin",
    )  # with all CPUs as many workers may do


def _of_forks(account: Account) -> tuple[str, ...]:
    """Of a job that does nothing: what its loaders may have inherited."""
    return ("forked-lock",) if _has_loaders(account) else ()


def starts_workers_anew(account: Account) -> bool:
    """Whether the loaders of a Python are started again and again, as for each short epoch."""
    return (
        _is_python(account)
        and account.looks_with_new_workers >= STARTS
        and account.new_workers >= STARTS * max(1.0, account.means["children"].value or 0.0)
    )


def is_writing(account: Account) -> bool:
    """Whether what it waits for at a disk are its own writes: fsync(2), checkpoints, logs. A
    program that starts reads a lot in a moment; while it waits for what it has written it reads
    nothing.
    """
    written, read = account.totals["written_bytes"] or 0.0, account.totals["device_bytes"] or 0.0
    if (
        account.unread_s > 0.5 * account.storage_s
        and written >= LIMITS.reading_bytes * account.seconds
    ):
        return True
    return written >= LIMITS.reading_bytes and written > MOSTLY * read


def _of_disk(account: Account) -> tuple[str, ...]:
    if is_writing(account):
        spill = ("spill",) if _is_ray(account) else ()
        return (*spill, "writes", "placement", *(("shm-store",) if _has_tiny_shm(account) else ()))
    if account.drops_cache:  # what it maps does not fit either
        return ("memory-limit", *_of_random(account), "fits-memory", *_of_storage(account))
    if maps_its_files(account):
        return (*_of_random(account), "mapped", *_of_storage(account))
    return (
        *(("fits-memory", "shards") if _is_python(account) else ()),
        *_of_storage(account),
        "what-disk-gives",
    )


def _of_random(account: Account) -> tuple[str, ...]:
    """Of records in mapped files whose pages are dropped before they are used. A model is read in
    order.
    """
    drops = (account.means["refaults"].value or 0.0) >= MANY_REFAULTS
    is_random = bool(account.works_with & {Workload.RECORDS, Workload.ROWS})
    return ("random-pages",) if drops and is_random and maps_its_files(account) else ()


def _of_gpu(account: Account, own: str) -> tuple[str, ...]:
    found = (
        ("throttled",)
        if any(HELD_BACK.intersection(gpu.reasons) for gpu in account.gpus.values())
        else ()
    )
    if hold_of_clock(account) and not account.gpu_neighbours:
        return found  # what the script does is not why it is slow, or cold
    if account.gpu_neighbours:
        has_left = any(who.startswith(GONE) for who in account.gpu_neighbours)
        return (*found, *(("gpu-leftover",) if has_left else ()), "gpu-shared")
    return (*found, "power-cap" if is_power_capped(account) else own)


def hold_of_clock(account: Account) -> str:
    """What held the clock of a GPU of the job down half of the time, heat or its power supply; ""
    if nothing did.
    """
    kept = [
        (gpu.reasons[reason], reason)
        for gpu in account.gpus.values()
        for reason in HELD_BACK & gpu.reasons.keys()
    ]
    seconds, reason = max(kept, default=(0.0, ""))
    return reason if seconds >= 0.5 * account.counted_s > 0 else ""


def is_power_capped(account: Account) -> bool:
    """Whether something other than its own limit caps the power of a busy GPU, half of the time."""
    return any(gpu.capped_s >= 0.5 * account.counted_s > 0 for gpu in account.gpus.values())


def crowd_of(account: Account) -> Crowd | None:
    """The tasks that want a CPU, against the CPUs that the job may use. None if these are enough,
    or not known.
    """
    tasks, processes, cpus = (
        account.means[name].value for name in ("wanting", "wanting_processes", "cpus")
    )
    if (
        tasks is None
        or processes is None
        or not cpus
        or tasks <= LIMITS.crowded * cpus
        or tasks < cpus + 1
    ):
        return None
    if tasks < LIMITS.crowded * processes and processes < max(1.0, cpus) + 1:
        return None
    return Crowd(round(tasks), max(1, round(processes)), cpus)


def _of_crowd(account: Account) -> tuple[str, ...]:
    crowd = crowd_of(account)
    if crowd is None:
        return ()
    if crowd.are_threads:
        return (_name_threads(account),)
    threads = (_name_threads(account),) if crowd.has_threads else ()
    return (*threads, *(("fewer-workers",) if _is_python(account) else ()))


def fills_both_halves(account: Account) -> bool:
    """Whether threads of few processes run on all CPUs, of which half are the second threads of a
    core.
    """
    names = ("wanting", "wanting_processes", "cpus")
    tasks, processes, cpus = (account.means[name].value or 0.0 for name in names)
    is_full = tasks >= BOTH_HALVES * cpus > 0 and tasks >= LIMITS.crowded * processes
    return account.watched.has_smt and is_full


def _name_threads(account: Account) -> str:
    return "threads" if _is_python(account) else "own-threads"


def _of_work(account: Account) -> tuple[str, ...]:
    """How to need less CPU time for what this job works with."""
    if not _is_python(account) and not account.works_with:
        return ("all-cpus",)
    on_gpu = _has_gpu(account)
    for_work = {
        Workload.REQUESTS: ("server",)
        if (account.means["main_cores"].value or 0.0) < 1 + LIMITS.whole
        else (),
        Workload.VIDEO: ("video", *(("video-on-gpu",) if on_gpu else ())),
        Workload.PICTURES: (
            "draft",
            *(("gpu-decode",) if on_gpu else ()),
            "raw-format",
            "knee",
            "pillow-simd",
        ),
        Workload.SOUND: ("sound",),
        Workload.TEXT: ("tokenize-once",),
        Workload.ROWS: ("rows",),
        Workload.TABLES: ("fewer-columns",),
        Workload.ARRAYS: ("chunks",),
    }
    found = [
        name for work, names in for_work.items() if work in account.works_with for name in names
    ]
    return (*found, *(("profile",) if Workload.PICTURES not in account.works_with else ()))


def is_stolen(account: Account) -> bool:
    """Whether the hypervisor has what the job misses."""
    return (account.means["stolen_percent"].value or 0.0) >= LIMITS.stolen_leave


def _has_loaders(account: Account) -> bool:
    last = (
        account.last.tree.children
        if account.last is not None and account.last.tree is not None
        else 0
    )
    children = account.means["children"].value
    return _is_python(account) and (last if children is None else children) >= 1.5


def _had_loaders(account: Account) -> bool:
    """The kernel may have killed them one after the other, before they counted."""
    return _has_loaders(account) or (
        _is_python(account) and account.most_processes >= _WITH_LOADERS
    )


def maps_its_files(account: Account) -> bool:
    """Whether it reads files by touching mapped pages, more than by read(2). A page that is read
    ahead, and that it has to wait for all the same, counts as no major fault.
    """
    if account.page_waits_s > 0.5 * account.waited_s:
        return True
    faults, read = account.means["faults"].value or 0.0, account.means["read_bytes"].value or 0.0
    # a second: a server may take long for each
    least = 1.0 if waits_for_files(account) else LIMITS.many_faults
    return faults >= least and faults * FAULT_BYTES > read


def _is_ray(account: Account) -> bool:
    """Ray names its processes so (ray::IDLE, ray::train, raylet)."""
    return any(name.startswith(("ray::", "raylet")) for name in account.programs)


def _has_gpu(account: Account) -> bool:
    return bool(account.gpus)


def _is_python(account: Account) -> bool:
    """Whether Python does most of the work: advice on loaders is for that."""
    known = account.programs
    return not known or max(known, key=lambda name: known[name]).startswith(_PYTHONS)


def _of_workers(account: Account, share: float) -> tuple[str, ...]:
    """`share`: the part of the time in which loaders were what it waited for; outside of it none is
    at its limit.
    """
    mean = {name: kept.value for name, kept in account.means.items()}
    active, saturated = mean["active_children"] or 0.0, (mean["saturated_children"] or 0.0) / share
    if starts_workers_anew(account):
        return ("new-workers",)
    if (mean["line_cores"] or 0.0) >= 0.3 * (mean["tree_cores"] or 1.0):
        return ("line",)
    if Workload.REQUESTS in account.works_with:
        return ("server", "profile")
    if not _is_python(account):
        return ("one-thread",)
    if takes_turns(account) or is_one_of_several(account, share):
        return ("turns" if takes_turns(account) else "one-slow-worker",)
    chunks: tuple[str, ...] = ("chunks",) if Workload.ARRAYS in account.works_with else ()
    decodes = account.works_with & {Workload.PICTURES, Workload.SOUND, Workload.VIDEO}
    chunks += ("rows",) if Workload.ROWS in account.works_with and not decodes else ()
    if saturated < 0.5:
        full = _of_full_main(account)
        if Workload.METRICS in account.works_with:
            full = ("metrics", *full)
        if round(active) >= 1 or (mean["children"] or 0.0) >= 1.5:  # it has loaders, and they rest
            return (*chunks, *full, "profile")
        return (
            *chunks,
            *(("some-workers", *full) if _has_gpu(account) else (*full, "some-workers")),
            "profile",
        )
    return (
        *chunks,
        "more-workers",
        "keep-workers",
        *(("pin-memory",) if _has_gpu(account) else ()),
        "knee",
    )


def _of_full_main(account: Account) -> tuple[str, ...]:
    """Of a main process at the limit of one core. Beside a GPU the kernels that it starts come
    first.
    """
    is_held = bool(account.one_thread) and (account.means["cpus"].value or 0.0) >= LIMITS.main_most
    held = ("held-to-one-thread",) if is_held else ()
    return ("launch-bound", *held) if _has_gpu(account) else (*held, "one-thread")


def hands_small_pieces(account: Account) -> bool:
    """Whether several children of a Python do a moment's work at a time, as steps of a game are."""
    piece, active = (account.means[name].value for name in ("piece_ms", "active_children"))
    is_small = piece is not None and piece < SMALL_MS and (active or 0.0) >= 1.5
    return is_small and _is_python(account) and account.waits_for not in {Want.NETWORK, Want.PEER}


def is_one_of_several(account: Account, share: float = 1.0) -> bool:
    """One child process is at its limit, and the others wait: for it, or for what it holds."""
    mean = {name: kept.value or 0.0 for name, kept in account.means.items()}
    return (
        mean["children"] >= 2
        and mean["active_children"] < 1.5
        and mean["saturated_children"] >= 0.5 * share
    )


def takes_turns(account: Account) -> bool:
    """Several child processes compute, and together they use one core: something lets one of them
    work at a time.
    """
    mean = {name: kept.value or 0.0 for name, kept in account.means.items()}
    is_theirs = mean["main_cores"] < LIMITS.tree_share * mean["tree_cores"]
    return is_theirs and mean["active_children"] >= 1.5 and mean["tree_cores"] < 1 + LIMITS.whole


def _of_waits(account: Account) -> tuple[str, ...]:
    if account.waits_for in {Want.NETWORK, None} and account.allowances:
        return ("allowance", "store")
    if account.waits_for is Want.NETWORK and _waited_most(account, is_unanswered):
        return ("unanswered",)
    if (
        account.waits_for is Want.NETWORK
        and is_sending(account)
        and Workload.REQUESTS not in account.works_with
    ):
        return ("uploads",)
    network = (
        ("nfs-read-ahead",) if any(kind.startswith("nfs") for kind in _list_types(account)) else ()
    )
    kind, is_served = account.waits_for, waits_for_files(account)
    server = ("peer",) if is_served and kind is Want.PEER else ()
    if (kind is Want.NETWORK or is_served) and maps_its_files(account):
        return ("mapped", *network, *server)
    read = account.means["read_bytes"].value
    if is_served and read is not None and read < LIMITS.reading_bytes:
        # a log is a trickle beside it
        written = (account.totals["written_bytes"] or 0.0) / max(1.0, account.seconds)
        return ("writes" if written >= LIMITS.reading_bytes else "names", *server)
    if kind is Want.NETWORK or is_served:
        return ("store", *network, *(("overlap-waits",) if _is_python(account) else ()), *server)
    named = {
        Want.LOCK: "lock",
        Want.PEER: "peer",
        Want.EACH_OTHER: "each-other",
        Want.TIMER: "timer",
    }
    if kind is not None:
        forked = _of_forks(account) if kind is Want.EACH_OTHER else ()
        return (named[kind], *forked)
    return ("waits", *network, *(("overlap-waits",) if _is_python(account) else ()))


def is_sending(account: Account) -> bool:
    """Whether it sends what it makes (a checkpoint, results), and receives little. Ranks that hand
    each other gradients receive as much as they send.
    """
    sent, received = account.totals["sent_bytes"] or 0.0, account.totals["received_bytes"] or 0.0
    return sent >= LIMITS.reading_bytes * account.seconds and sent > MOSTLY * received


def waits_for_files(account: Account) -> bool:
    """Whether it mostly waited for the server of a file system, whichever files it asked for."""
    return account.waits_for in {Want.NETWORK, Want.PEER} and _waited_most(account, is_file_server)


def _waited_most(account: Account, of_kind: Callable[[str], bool]) -> bool:
    seconds = account.waited_for
    return sum(seconds[what] for what in seconds if of_kind(what)) > 0.5 * sum(seconds.values())


def _list_types(account: Account) -> tuple[str, ...]:
    return tuple(one.fstype for one in account.mounts.values())


def _of_storage(account: Account) -> tuple[str, ...]:
    if any(kind.startswith("nfs") for kind in _list_types(account)):
        return ("nfs-read-ahead",)
    if any(kind.startswith(NETWORK_TYPES) for kind in _list_types(account)):
        return ("placement",)
    return ("placement", *(() if _of_random(account) else ("read-ahead",)))


def limit_source(limit: CpuLimit) -> str:
    """Who set a limit, and where it is changed."""
    where = (
        f"{limit.path} sets it"
        if limit.path
        else "the process itself or who started it chose the CPUs"
    )
    if limit.by:
        return f"{where} ({limit.by})"
    if limit.kind is LimitKind.AFFINITY:
        return (
            f"{where} (taskset, numactl, sched_setaffinity, srun --cpu-bind, a library that pins "
            "its threads)"
        )
    return where


def _fill_advice(name: str, account: Account) -> Advice:
    advice = ADVICE[name]
    cpus = account.means["cpus"].value
    if name == "more-workers" and cpus is not None:
        ranks = max(1, round(account.means["mains"].value or 1))
        now = max(1, round((account.means["active_children"].value or 1) / ranks))
        start = start_workers(
            Cpus(cpus, account.watched.cpus_evidence or "usable CPUs"), gpu_processes=ranks
        ).start
        if start > now:
            return replace(
                advice,
                text=f"more loader workers for each GPU process: num_workers={start} instead of "
                f"{now}",
            )
        return replace(
            advice, text=f"{advice.text}; {now} are there, {cpus:g} CPUs would carry a few more"
        )
    if "{" in advice.text:
        return replace(advice, text=advice.text.format(**_fill_words(name, account)))
    if name == "limit" and account.limit is not None:
        return replace(advice, text=f"{advice.text}: {limit_source(account.limit)}")
    if name == "foreign" and account.others:
        busiest = sorted(account.others, key=lambda one: -account.others[one])[:3]
        return replace(advice, text=f"{advice.text}. Busiest: {', '.join(busiest)}")
    return advice


def _name_pools(account: Account) -> str:
    named = [pool.value for pool in ThreadPool if pool in account.pools]
    return f"; what does not follow it: {', '.join(named)}" if named else ""


def _name_own_threads(account: Account, most: int | str) -> str:
    """What sets the number of threads of a program that is no Python."""
    named = [
        pool.value.replace("= 1", f"= {most}").replace("=1", f"={most}")
        for pool in ThreadPool
        if pool in account.pools
    ]
    return (
        ", ".join(named) or f"its own option for them, or OMP_NUM_THREADS={most} if it uses OpenMP"
    )


def _fill_words(name: str, account: Account) -> dict[str, object]:
    """What is filled into the text of an advice."""
    crowd, memory, shm = crowd_of(account), account.memory, account.least_shm
    by = f" ({memory.by})" if memory is not None and memory.by else ""
    most = max(1, int(crowd.cpus)) if crowd is not None else 1
    return {
        "crowd": crowd.text(of_threads=name.endswith("threads"))
        if crowd is not None
        else "more want a CPU than there are",
        "pools": _name_pools(account),
        "far": account.placement.far if account.placement is not None else 0,
        "ranks": account.placement.processes if account.placement is not None else 0,
        "most": most,
        "own": _name_own_threads(account, most if crowd is not None else "N"),
        "look": _USES_GPU[_is_python(account)],
        "smaller": "fewer loader workers"
        if _is_python(account)
        else "a smaller model, fewer data at once",
        "less": _LESS_MEMORY[_had_loaders(account)],
        "variable": account.one_thread,
        "piece": account.means["piece_ms"].value or 0.0,
        "size": shm.size_bytes >> 20 if shm is not None else 0,
        "pid": account.watched.pid,
        "path": f"{memory.path}{by}" if memory is not None else "its control group",
    }
