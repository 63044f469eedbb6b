"""GPU work that runs now: what must not be disturbed. The gates of a site report what no process
shows (gates.py).

A CUDA process holds /dev/nvidia-uvm and the /dev/nvidiaN of its GPUs open (proc_pid_fd(5); NVIDIA
driver README, "The NVIDIA kernel modules"), a ROCm process /dev/kfd (Linux,
drivers/gpu/drm/amd/amdkfd/kfd_chardev.c). Desktops, monitors and the vendors' own daemons hold some
of them, too, and are no work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared, read_at_once
from hosttune.facts.gates import Gates, ask_gates
from hosttune.facts.processes import (
    CONTAINER,
    NAME_LENGTH,
    container_of,
    is_daemon,
    is_of_host,
    is_of_system,
    program_of,
)
from hosttune.facts.reading import require_known
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.host.reading.bounded import CUT
from hosttune.host.reading.mountinfo import parse
from hosttune.regex import regex
from hosttune.values import ABSENT, TooLong, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Process, Reader

T = TypeVar("T")

_IDLE: Final = "no process holds a GPU, no container has one, no scheduler job runs"
_GPU = regex(r"nvidia\d+|kfd")
_WORK_DEVICE = regex(r"/dev/(?:nvidia(?:\d+|-uvm)|kfd)$")
# Names as in /proc/PID/comm, which the kernel cuts at 15 bytes (proc_pid_comm(5)).
DISPLAYS = frozenset(
    name[:NAME_LENGTH]
    for name in (
        "Xorg",
        "Xwayland",
        "X",
        "gnome-shell",
        "gnome-remote-desktop-daemon",
        "kwin_x11",
        "kwin_wayland",
        "plasmashell",
        "sddm",
        "sddm-greeter",
        "gdm-x-session",
        "gdm-wayland-session",
        "lightdm",
        "mutter",
        "cinnamon",
        "sway",
        "weston",
    )
)
NOT_WORK = DISPLAYS | frozenset(
    name[:NAME_LENGTH]
    for name in (
        "nvidia-persistenced",
        "nv-fabricmanager",
        "nvidia-fabricmanager",
        "nvlsm",
        "nv-hostengine",
        "dcgm-exporter",
        "nvidia-smi",
        "nvidia-powerd",
        "nvidia-modprobe",
        "nvidia-settings",
        "nvsm_core",
        "nvtop",
        "nvitop",
        "gpustat",
        "glances",
        "nvidia-device-plugin",
        "gpu-feature-discovery",
        "nvidia-mig-manager",
        "nvidia-cuda-mps-control",
        "nvidia-imex",
        "gpud",
        "dcgmi",
        "telegraf",
        "nvidia_gpu_exporter",
        "all-smi",
    )
)
# What people start themselves, beside what computes.
_TOOLS = frozenset({
    "nvidia-smi", "nvidia-settings", "nvidia-modprobe", "nvtop", "nvitop", "gpustat", "glances",
    "dcgmi", "all-smi",
})  # fmt: skip
_SERVICES = NOT_WORK - DISPLAYS - _TOOLS
# Where only root makes control groups: users get those below user@UID.service, containers their
# own.
SLURM_GROUP = regex(
    r"/slurm[^/]*/(?:uid_\d+/)?job_(\d+)(?:/|$)|(?:/[^/]+\.slice)*/"
    r"(?:[^/]+_)?slurmstepd\.scope/job_(\d+)(?:/|$)"
)
_SLURM_STEP = regex(r"slurmstepd: \[(\d+)")
_PBS = regex(r"(?:/[^/]+\.slice)*/pbs(?:pro|_jobs)?\.(?:service|slice)/jobid/([^/]+)")
_OF_USER = regex(r"/user@\d+\.service/")
_GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")  # of version 2; systemd's own of version 1
_QUOTED = regex(r'"([A-Za-z0-9_.:-]{1,64})"')
_ID = regex(r"[0-9a-f]{12,64}$")  # of a container, at the end of its control group without a suffix
# Device nodes that only a privileged container sees; it sees every GPU of the host whether it uses
# one or not.
_PRIVILEGED = frozenset({"kmsg", "mem"})


@frozen
class GpuProcess(Fact):
    """A process that may compute on a GPU."""

    pid: int  # the number of the process
    user: str  # whose process it is
    name: str  # of its program
    command: str  # arguments, secrets masked
    swap_bytes: int = 0  # of its memory, how much is in swap
    gpus: tuple[str, ...] = ()  # its device nodes: /dev/nvidia0


@frozen
class Work(Fact):
    """What runs on the GPUs. Scheduler jobs count also when they hold no GPU yet; on a machine
    without a GPU of NVIDIA or AMD that can be used nothing is looked for.
    """

    gpu_processes: tuple[GpuProcess, ...]
    # "docker 0123456789ab": those with GPU devices, idle ones included
    gpu_containers: tuple[str, ...]
    scheduler_jobs: tuple[str, ...]  # "slurm job 123"
    is_gpu_busy: bool  # any of the three, or a gate of the site says so
    evidence: tuple[str, ...]  # sentences
    gates: tuple[str, ...] = ()  # what the gates say that are in the way, a sentence each

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Work:
        return read_at_once(cls, _find_work, reader, facts)


def is_work(process: Process) -> bool:
    """Whether a process holds a GPU and is not known to only watch or show something with it. Only
    of root's processes, outside of containers, the name says that; of others the program, which has
    to run for the machine or for a display.
    """
    return holds_gpu(process) and not is_monitor(process)


def holds_gpu(process: Process) -> bool:
    """Whether a process has a GPU open, as programs have that compute on it."""
    return any(map(_WORK_DEVICE.match, process.devices))


def is_monitor(process: Process) -> bool:
    """Whether a process only watches GPUs, or shows something with them."""
    if process.uid == 0 and is_of_host(process) and process.name[:NAME_LENGTH] in NOT_WORK:
        return True  # scripts, too, whose program is Python
    return (is_of_system(process) and program_of(process) in NOT_WORK) or is_display(process)


def _is_service(process: Process) -> bool:
    """Whether a container is there for this process, which watches GPUs. People watch theirs in one
    that computes.
    """
    return is_of_system(process) and program_of(process) in _SERVICES


def is_display(process: Process) -> bool:
    """Whether a process runs a display server."""
    return process.uid >= 0 and program_of(process) in DISPLAYS


def jobs_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """The batch jobs whose processes run here, by control group; for Slurm without one, by its step
    daemon's title.
    """
    jobs: set[str] = set()
    for process in processes:
        if match := SLURM_GROUP.match(process.cgroup):
            jobs.add(f"slurm job {match[1] or match[2]}")
        elif (
            process.uid == 0
            and is_daemon(process, ("slurmstepd",))
            and (number := _number_of_step(process))
        ):
            jobs.add(f"slurm job {number}")
        elif match := _PBS.match(process.cgroup):
            jobs.add(f"pbs job {match[1]}")
    return tuple(sorted(jobs))


def _number_of_step(process: Process) -> str:
    """The number of the job of a step daemon. If its title could not be read, it counts as a
    job.
    """
    match = _step(process)
    return match[1] if match else "?" if process.command == (CUT,) else ""


def _step(process: Process) -> re.Match[str] | None:
    return _SLURM_STEP.match(" ".join(process.command))


def _find_work(reader: Reader, facts: Facts) -> Work:
    if reader.persistent_only:
        return _make_none("nothing runs under an alternate root")
    if not any(map(_GPU.fullmatch, require_known(reader.list("/dev"), "/dev"))):
        return _make_none(
            "there is no /dev/nvidia0 and no /dev/kfd: no process can use a GPU of NVIDIA or AMD"
        )
    processes = require_known(reader.processes(), "the list of processes")
    working = [process for process in processes if is_work(process) and not _is_doubtful(process)]
    hidden = _why_hidden(reader, facts)
    gpu, jobs = tuple(map(_gpu_process, working)), jobs_of(processes)
    doubtful = tuple(map(_describe_doubt, filter(_is_doubtful, processes)))[:1]
    inside = make_shared(_gpu_containers, reader, processes, working)
    cut = tuple(map(_cut, filter(_is_cut, processes)))[:1]
    gates = make_shared(lambda: Gates() if hidden else ask_gates(reader))

    def busy() -> tuple[str, ...]:
        return (*_make_sentences(gpu, inside()[0], jobs), *gates().busy)

    def doubts() -> tuple[str, ...]:
        return (hidden,) if hidden else (*doubtful, *cut, *inside()[1], *gates().unknown)

    return Work(
        gpu_processes=lazy(_require_undoubted, gpu, hidden, *doubtful, *cut),
        gpu_containers=lazy(lambda: _require_undoubted(inside()[0], hidden, *inside()[1])),
        scheduler_jobs=lazy(_require_undoubted, jobs, hidden, *doubtful),
        # Proven work counts whatever else is in doubt. "Idle" needs every answer, as hosttune may
        # restart a driver on its word.
        is_gpu_busy=lazy(lambda: bool(busy()) or _require_undoubted(False, *doubts())),
        evidence=lazy(lambda: (*busy(), *doubts()) or (_IDLE,)),
        gates=lazy(lambda: _require_undoubted(gates().busy, hidden, *gates().unknown)),
    )


def _make_none(sentence: str) -> Work:
    return Work((), (), (), is_gpu_busy=False, evidence=(sentence,))


def _require_undoubted(value: T, *doubts: str) -> T:
    """The value; unknown where there are doubts."""
    if reasons := list(filter(None, doubts)):
        raise UnknownFact(reasons[0] if len(reasons) == 1 else "; ".join(reasons))
    return value


def _is_doubtful(process: Process) -> bool:
    """Whether it may be what it calls itself, and nothing tells: in a record of before."""
    is_named = process.name[:NAME_LENGTH] in NOT_WORK and holds_gpu(process)
    return process.uid < 0 and bool(is_named or _step(process))


def _describe_doubt(process: Process) -> str:
    return (
        f"whether process {process.pid} is what it calls itself is not known: this record is an "
        "older one"
    )


def _is_cut(process: Process) -> bool:
    """Whether it may hold a GPU among the open files that were not looked at."""
    return CUT in process.devices and not holds_gpu(process) and not is_monitor(process)


def _cut(process: Process) -> str:
    return (
        f"whether process {process.pid} holds a GPU is not known: {process.user} has too many "
        "files open"
    )


def _gpu_process(process: Process) -> GpuProcess:
    gpus = tuple(sorted(name for name in process.devices if re.fullmatch(r"/dev/nvidia\d+", name)))
    command = " ".join(process.command)
    return GpuProcess(process.pid, process.user, process.name, command, process.swap_bytes, gpus)


def _why_hidden(reader: Reader, facts: Facts) -> str:
    """Why some processes cannot be seen, or empty."""
    if not reader.is_privileged:
        return "needs root: the open devices of other users' processes are hidden"
    try:
        return (
            "a container does not see the processes of its host" if facts.host.is_container else ""
        )
    except UnknownFact as unknown:
        return unknown.reason


def _gpu_containers(
    reader: Reader, processes: Iterable[Process], working: Iterable[Process]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The containers with a GPU, and why the first of those that could not be looked into could not
    be.
    """
    busy = {process.pid for process in working}
    # by the path of the control group: a user can give a name a second time
    members: dict[str, list[Process]] = {}
    for process in processes:
        if group := _group_of(process.cgroup):
            members.setdefault(group, []).append(process)
    found: set[str] = set()
    unseen: list[str] = []
    for group, inside in members.items():
        if _is_delegated(reader, group):
            continue  # what a user may call so; a GPU that they use there is held by a process
        name = container_of(group)
        if any(process.pid in busy for process in inside):
            found.add(name)
            continue
        if any(map(_is_service, inside)):
            continue  # NVIDIA's own: the device plugin, the exporter
        given = _given_devices(reader, group, inside)
        if isinstance(given, Unreadable):
            unseen.append(f"whether the container {name} has a GPU: {given.reason}")
        elif has_gpu(given):
            found.add(name)
    return tuple(sorted(found)), tuple(unseen[:1])


def _group_of(cgroup: str) -> str:
    """The path of the control group by which the innermost container is known; empty for all
    others.
    """
    matches = tuple(CONTAINER.finditer(cgroup))
    return cgroup[: matches[-1].end()] if matches else ""


def _is_delegated(reader: Reader, group: str) -> bool:
    """Whether another than root may have made the control group by which a container is known."""
    above = group[: tuple(CONTAINER.finditer(group))[-1].start() + 1].rpartition("/")[0]
    stats = (reader.stat(f"{root}{above}") for root in _GROUPS)
    return bool(_OF_USER.search(group)) or any(
        isinstance(one, Stat) and one.uid != 0 for one in stats
    )


def _given_devices(
    reader: Reader, group: str, inside: Iterable[Process]
) -> frozenset[str] | Unreadable:
    """The names below /dev that the engine gave to a container. What is in its /dev tells nothing:
    its root makes nodes there. A mount of the host's own node is no work of its root, and what the
    engine wrote for the runtime neither.

    A process of the container can go into a mount namespace of its own, where it mounts what it has
    already under other names, and makes the table longer than is read. So the names are those of
    the host, and such a table tells nothing.
    """
    # The first process is the one that the engine started. Later ones may have mounts of their own,
    # which their user chose.
    first = min(inside, key=lambda process: (process.started_at, process.pid))
    table = reader.read(f"/proc/{first.pid}/mountinfo")
    if isinstance(table, Unreadable) and not isinstance(table.reason, TooLong):
        return table
    mounts = parse(table) if isinstance(table, bytes) else ()
    names = {
        one.root[1:]
        for one in mounts
        if one.fstype == "devtmpfs" and one.target.startswith("/dev/")
    }
    match = _ID.search(group)
    answer = reader.query(("devices-of", match[0])) if match else ABSENT
    if isinstance(answer, Unreadable):
        return answer
    if isinstance(answer, Completed):
        names.update(_QUOTED.findall(answer.text))
    return frozenset(names)


def has_gpu(nodes: Iterable[str]) -> bool:
    """Whether the device nodes that a container was given mean that it was given a GPU."""
    names = frozenset(nodes)
    return any(map(_GPU.fullmatch, names)) and not names >= _PRIVILEGED


def _make_sentences(
    gpu: tuple[GpuProcess, ...], containers: tuple[str, ...], jobs: tuple[str, ...]
) -> tuple[str, ...]:
    processes = (f"process {one.pid} ({one.name}, {one.user}) holds a GPU" for one in gpu)
    return (
        *processes,
        *(f"the container {name} has a GPU" for name in containers),
        *(f"{job} runs" for job in jobs),
    )
