"""GPU work that runs now: what must not be disturbed.

A CUDA process holds /dev/nvidia-uvm and the /dev/nvidiaN of its GPUs open (NVIDIA driver README, "Memory management", and
proc_pid_fd(5)); desktops, monitors and NVIDIA's own daemons hold some of them, too, and are no work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.facts.reading import known

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Process, Reader

_GPU = re.compile(r"nvidia\d+")
_WORK_DEVICE = re.compile(r"/dev/nvidia(?:\d+|-uvm)$")
# Names as in /proc/PID/comm, which the kernel cuts at 15 bytes (proc_pid_comm(5)).
_NOT_WORK = frozenset(
    name[:15]
    for name in (
        "nvidia-persistenced", "nv-fabricmanager", "nvidia-fabricmanager", "nvlsm", "nv-hostengine", "dcgm-exporter",
        "nvidia-smi", "nvidia-powerd", "nvidia-modprobe", "nvidia-settings", "nvsm_core", "nvtop", "nvitop", "gpustat", "glances",
        "nvidia-device-plugin", "gpu-feature-discovery", "nvidia-mig-manager", "nvidia-cuda-mps-control", "nvidia-imex",
        "gpud", "dcgmi", "telegraf", "prometheus-dcgm", "nvidia_gpu_exporter", "all-smi",
        "Xorg", "Xwayland", "X", "gnome-shell", "gnome-remote-desktop-daemon", "kwin_x11", "kwin_wayland", "plasmashell",
        "sddm", "sddm-greeter", "gdm-x-session", "gdm-wayland-session", "lightdm", "mutter", "cinnamon", "sway", "weston",
    )
)  # fmt: skip
_CONTAINER = re.compile(
    r"(docker|cri-containerd|crio|libpod|nerdctl)[-/]([0-9a-f]{12,64})|/(lxc)(?:\.payload)?[./]([\w.-]+)"
    r"|/(kubepods)[^ ]*/([0-9a-f]{64})$|machine\.slice/(systemd-nspawn)@([^/]+)\.service"
)
_SLURM = re.compile(r"/slurm[^/]*(?:/[^/]+)*?/job_(\d+)")
_SLURM_STEP = re.compile(r"slurmstepd: \[(\d+)")
_PBS = re.compile(r"/pbs(?:pro|_jobs)?\.(?:service|slice)/jobid/([^/]+)")
# Device nodes that only a privileged container sees; it sees every GPU of the host whether it uses one or not.
_PRIVILEGED = frozenset({"kmsg", "mem"})


@dataclass(frozen=True, slots=True)
class GpuProcess(Fact):
    """A process that may compute on a GPU."""

    pid: int
    user: str
    name: str
    command: str  # arguments, secrets masked


@dataclass(frozen=True, slots=True)
class Work(Fact):
    """What runs on the GPUs. Scheduler jobs count also when they hold no GPU yet; on a machine without a usable NVIDIA
    GPU nothing is looked for."""

    gpu_processes: tuple[GpuProcess, ...]
    gpu_containers: tuple[str, ...]  # "docker 0123456789ab": those with GPU devices, idle ones included
    scheduler_jobs: tuple[str, ...]  # "slurm job 123"
    is_gpu_busy: bool  # any of the three
    evidence: tuple[str, ...]  # sentences


def is_work(process: Process) -> bool:
    """Whether a process holds a GPU and is not known to only watch or show something with it."""
    return process.name[:15] not in _NOT_WORK and any(map(_WORK_DEVICE.match, process.devices))


def container_of(cgroup: str) -> str:
    """`docker 0123456789ab` for the control group of a container's process; empty for all others."""
    found = None
    for found in _CONTAINER.finditer(cgroup):  # the innermost one: docker in docker, kind
        pass
    if found is None:
        return ""
    kind, name = (group for group in found.groups() if group)
    short = {"cri-containerd": "containerd", "libpod": "podman", "kubepods": "containerd"}.get(kind, kind)
    return f"{short} {name[:12] if re.fullmatch('[0-9a-f]{12,64}', name) else name}"


def jobs_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """The batch jobs whose processes run here, by control group; by the title of its step daemon where Slurm uses none."""
    jobs: set[str] = set()
    for process in processes:
        if match := _SLURM.search(process.cgroup) or _SLURM_STEP.match(" ".join(process.command)):
            jobs.add(f"slurm job {match[1]}")
        elif match := _PBS.search(process.cgroup):
            jobs.add(f"pbs job {match[1]}")
    return tuple(sorted(jobs))


def collect(reader: Reader, facts: Facts) -> Work:
    if reader.persistent_only:
        return Work((), (), (), is_gpu_busy=False, evidence=("nothing runs under an alternate root",))
    devices = reader.list("/dev")
    if not isinstance(devices, tuple):
        return _unknown(known(devices, "/dev"))
    if not any(map(_GPU.fullmatch, devices)):
        return Work((), (), (), is_gpu_busy=False, evidence=("there is no /dev/nvidia0: no process can use an NVIDIA GPU",))
    processes = reader.processes()
    if not isinstance(processes, tuple):
        return _unknown(known(processes, "the list of processes"))
    working = [process for process in processes if is_work(process)]
    gpu = tuple(GpuProcess(one.pid, one.user, one.name, " ".join(one.command)) for one in working)
    containers = _gpu_containers(reader, processes, working)
    jobs = jobs_of(processes)
    evidence = _sentences(gpu, containers, jobs)
    hidden = _hidden(reader, facts)
    if hidden is None:
        evidence = evidence or ("no process holds a GPU, no container has one, no scheduler job runs",)
        return Work(gpu, containers, jobs, is_gpu_busy=bool(gpu or containers or jobs), evidence=evidence)
    gone = unread(hidden)
    return Work(gone, gone, gone, True if evidence else gone, (*evidence, hidden))


def _unknown(gone: Any) -> Work:
    return Work(gone, gone, gone, gone, gone)


def _hidden(reader: Reader, facts: Facts) -> str | None:
    """Why some processes cannot be seen, or None."""
    if not reader.is_privileged:
        return "needs root: the open devices of other users' processes are hidden"
    try:
        if facts.host.is_container:
            return "a container does not see the processes of its host"
    except UnknownFact as unknown:
        return unknown.reason
    return None


def _gpu_containers(reader: Reader, processes: Iterable[Process], working: Iterable[Process]) -> tuple[str, ...]:
    found = {container_of(process.cgroup) for process in working}
    idle: dict[str, int] = {}
    own: set[str] = set()  # containers in which only NVIDIA's own daemons run
    for process in processes:
        if (name := container_of(process.cgroup)) and name not in found:
            idle.setdefault(name, process.pid)
            if process.name[:15] in _NOT_WORK:
                own.add(name)
    found.update(name for name, pid in idle.items() if name not in own and _sees_gpu(reader, pid))
    return tuple(sorted(found - {""}))


def _sees_gpu(reader: Reader, pid: int) -> bool:
    """Whether a container was given a GPU: the device nodes in its /dev, which the runtime makes for it."""
    nodes = reader.list(f"/proc/{pid}/root/dev")
    if not isinstance(nodes, tuple):
        return False
    return any(map(_GPU.fullmatch, nodes)) and not _PRIVILEGED.issubset(nodes)


def _sentences(gpu: tuple[GpuProcess, ...], containers: tuple[str, ...], jobs: tuple[str, ...]) -> tuple[str, ...]:
    processes = (f"process {one.pid} ({one.name}, {one.user}) holds a GPU" for one in gpu)
    return (*processes, *(f"the container {name} has a GPU" for name in containers), *(f"{job} runs" for job in jobs))
