"""GPU work that runs now: what must not be disturbed. What no process shows, the gates of a site tell (gates.py).

A CUDA process holds /dev/nvidia-uvm and the /dev/nvidiaN of its GPUs open (proc_pid_fd(5); NVIDIA driver README, "The
NVIDIA kernel modules"). Desktops, monitors and NVIDIA's own daemons hold some of them, too, and are no work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from hosttune.facts.base import Fact, UnknownFact, lazy, shared, whole
from hosttune.facts.gates import Gates, ask_gates
from hosttune.facts.reading import require_known
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Process, Reader

T = TypeVar("T")

_IDLE: Final = "no process holds a GPU, no container has one, no scheduler job runs"
_GPU = regex(r"nvidia\d+")
_WORK_DEVICE = regex(r"/dev/nvidia(?:\d+|-uvm)$")
# Names as in /proc/PID/comm, which the kernel cuts at 15 bytes (proc_pid_comm(5)).
NOT_WORK = frozenset(
    name[:15]
    for name in (
        "nvidia-persistenced", "nv-fabricmanager", "nvidia-fabricmanager", "nvlsm", "nv-hostengine", "dcgm-exporter",
        "nvidia-smi", "nvidia-powerd", "nvidia-modprobe", "nvidia-settings", "nvsm_core", "nvtop", "nvitop", "gpustat",
        "glances", "nvidia-device-plugin", "gpu-feature-discovery", "nvidia-mig-manager", "nvidia-cuda-mps-control",
        "nvidia-imex", "gpud", "dcgmi", "telegraf", "nvidia_gpu_exporter", "all-smi",
        "Xorg", "Xwayland", "X", "gnome-shell", "gnome-remote-desktop-daemon", "kwin_x11", "kwin_wayland",
        "plasmashell", "sddm", "sddm-greeter", "gdm-x-session", "gdm-wayland-session", "lightdm", "mutter", "cinnamon",
        "sway", "weston",
    )
)  # fmt: skip
_CONTAINER = regex(
    r"(docker|cri-containerd|crio|libpod|nerdctl)[-/]([0-9a-f]{12,64})|/(lxc)(?:\.payload)?[./]([\w.-]+)"
    r"|/(kubepods)[^ ]*/([0-9a-f]{64})$|machine\.slice/(systemd-nspawn)@([^/]+)\.service"
)
_SLURM = regex(r"/slurm[^/]*(?:/[^/]+)*?/job_(\d+)")
_SLURM_STEP = regex(r"slurmstepd: \[(\d+)")
_PBS = regex(r"/pbs(?:pro|_jobs)?\.(?:service|slice)/jobid/([^/]+)")
# Device nodes that only a privileged container sees; it sees every GPU of the host whether it uses one or not.
_PRIVILEGED = frozenset({"kmsg", "mem"})


@frozen
class GpuProcess(Fact):
    """A process that may compute on a GPU."""

    pid: int
    user: str
    name: str
    command: str  # arguments, secrets masked
    swap_bytes: int = 0  # of its memory, how much lies in swap
    gpus: tuple[str, ...] = ()  # its device nodes: /dev/nvidia0


@frozen
class Work(Fact):
    """What runs on the GPUs. Scheduler jobs count also when they hold no GPU yet; on a machine without a usable NVIDIA
    GPU nothing is looked for."""

    gpu_processes: tuple[GpuProcess, ...]
    gpu_containers: tuple[str, ...]  # "docker 0123456789ab": those with GPU devices, idle ones included
    scheduler_jobs: tuple[str, ...]  # "slurm job 123"
    is_gpu_busy: bool  # any of the three, or a gate of the site says so
    evidence: tuple[str, ...]  # sentences
    gates: tuple[str, ...] = ()  # what the gates say that are in the way, a sentence each


def is_work(process: Process) -> bool:
    """Whether a process holds a GPU and is not known to only watch or show something with it."""
    return process.name[:15] not in NOT_WORK and any(map(_WORK_DEVICE.match, process.devices))


def container_of(cgroup: str) -> str:
    """`docker 0123456789ab` for the control group of a container's process; empty for all others."""
    found = tuple(_CONTAINER.finditer(cgroup))
    if not found:
        return ""
    kind, name = (group for group in found[-1].groups() if group)  # the innermost one: docker in docker, kind
    short = {"cri-containerd": "containerd", "libpod": "podman", "kubepods": "containerd"}.get(kind, kind)
    return f"{short} {name[:12] if re.fullmatch('[0-9a-f]{12,64}', name) else name}"


def jobs_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """The batch jobs whose processes run here, by control group; for Slurm without one, by its step daemon's title."""
    jobs: set[str] = set()
    for process in processes:
        if match := _SLURM.search(process.cgroup) or _SLURM_STEP.match(" ".join(process.command)):
            jobs.add(f"slurm job {match[1]}")
        elif match := _PBS.search(process.cgroup):
            jobs.add(f"pbs job {match[1]}")
    return tuple(sorted(jobs))


def collect(reader: Reader, facts: Facts) -> Work:
    return whole(Work, _work, reader, facts)


def _work(reader: Reader, facts: Facts) -> Work:
    if reader.persistent_only:
        return _none("nothing runs under an alternate root")
    if not any(map(_GPU.fullmatch, require_known(reader.list("/dev"), "/dev"))):
        return _none("there is no /dev/nvidia0: no process can use an NVIDIA GPU")
    processes = require_known(reader.processes(), "the list of processes")
    working = [process for process in processes if is_work(process)]
    hidden = _hidden(reader, facts)
    gpu, jobs = tuple(map(_gpu_process, working)), jobs_of(processes)
    inside = shared(_gpu_containers, reader, processes, working)
    gates = shared(lambda: Gates() if hidden else ask_gates(reader))

    def busy() -> tuple[str, ...]:
        return (*_sentences(gpu, inside()[0], jobs), *gates().busy)

    def doubts() -> tuple[str, ...]:
        return (hidden,) if hidden else (*inside()[1], *gates().unknown)

    return Work(
        gpu_processes=lazy(_undoubted, gpu, hidden),
        gpu_containers=lazy(lambda: _undoubted(inside()[0], hidden, *inside()[1])),
        scheduler_jobs=lazy(_undoubted, jobs, hidden),
        is_gpu_busy=lazy(lambda: bool(busy()) or _undoubted(False, *doubts())),
        evidence=lazy(lambda: (*busy(), *doubts()) or (_IDLE,)),
        gates=lazy(lambda: _undoubted(gates().busy, hidden, *gates().unknown)),
    )


def _none(sentence: str) -> Work:
    return Work((), (), (), is_gpu_busy=False, evidence=(sentence,))


def _undoubted(value: T, *doubts: str) -> T:
    """The value; unknown where there are doubts."""
    if told := list(filter(None, doubts)):
        raise UnknownFact(told[0] if len(told) == 1 else "; ".join(told))
    return value


def _gpu_process(process: Process) -> GpuProcess:
    gpus = tuple(sorted(name for name in process.devices if re.fullmatch(r"/dev/nvidia\d+", name)))
    command = " ".join(process.command)
    return GpuProcess(process.pid, process.user, process.name, command, process.swap_bytes, gpus)


def _hidden(reader: Reader, facts: Facts) -> str:
    """Why some processes cannot be seen, or empty."""
    if not reader.is_privileged:
        return "needs root: the open devices of other users' processes are hidden"
    try:
        return "a container does not see the processes of its host" if facts.host.is_container else ""
    except UnknownFact as unknown:
        return unknown.reason


def _gpu_containers(
    reader: Reader, processes: Iterable[Process], working: Iterable[Process]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The containers with a GPU, and why the first of those that could not be looked into could not be."""
    found = {container_of(process.cgroup) for process in working}
    members: dict[str, list[Process]] = {}
    for process in processes:
        if (name := container_of(process.cgroup)) and name not in found:
            members.setdefault(name, []).append(process)
    unseen: list[str] = []
    for name, inside in members.items():
        if any(process.name[:15] in NOT_WORK for process in inside):
            continue  # NVIDIA's own: the device plugin, the exporter
        nodes = reader.list(f"/proc/{inside[0].pid}/root/dev")
        if isinstance(nodes, Unreadable):
            unseen.append(f"whether the container {name} has a GPU: {nodes.reason}")
        elif isinstance(nodes, tuple) and has_gpu(nodes):
            found.add(name)
    return tuple(sorted(found - {""})), tuple(unseen[:1])


def has_gpu(nodes: Iterable[str]) -> bool:
    """Whether the names in a container's /dev, which its runtime made for it, mean that it was given a GPU."""
    names = frozenset(nodes)
    return any(map(_GPU.fullmatch, names)) and not names >= _PRIVILEGED


def _sentences(gpu: tuple[GpuProcess, ...], containers: tuple[str, ...], jobs: tuple[str, ...]) -> tuple[str, ...]:
    processes = (f"process {one.pid} ({one.name}, {one.user}) holds a GPU" for one in gpu)
    return (*processes, *(f"the container {name} has a GPU" for name in containers), *(f"{job} runs" for job in jobs))
