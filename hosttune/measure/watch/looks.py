"""Puts one tick together from everything that can be looked at. It only reads."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from hosttune.host.mountinfo import parse
from hosttune.measure.cpus import Cpus, usable_cpus
from hosttune.measure.gpu.sample import GpuSample, GpuSampler
from hosttune.measure.watch.gpus import jobs_gpus
from hosttune.measure.watch.group import Group
from hosttune.measure.watch.host import Host
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.others import Others
from hosttune.measure.watch.states import LIMITS
from hosttune.measure.watch.tick import Tick, room_percent
from hosttune.measure.watch.tree import Tree

CPUS_EVERY = 30  # looks
FILES_EVERY = 60
_FIRST_FILES = 5
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, include/linux/proc_ns.h
# Where one of these is, a job may compute on a GPU that no sampler sees: NVIDIA, AMD, and either under WSL.
_GPU_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
_MOST_PROCESSES, _MOST_FILES = 8, 64


class Looks:
    """Everything about the job under process `root`; the first tick spans from here on.

    `visible` is the job's CUDA_VISIBLE_DEVICES (None: not set), `are_named` says that the sampler shows only what
    somebody named. Raises ProcessLookupError where there is no such process.
    """

    def __init__(
        self,
        root: int,
        sampler: GpuSampler,
        now_s: float,
        *,
        follows_group: bool = False,
        visible: str | None = None,
        are_named: bool = False,
    ) -> None:
        self.cpus: Cpus = usable_cpus(root)
        self.sampler = sampler
        self.tree = Tree(root, follows_group=follows_group)
        self.group = Group(root)
        self._host = Host()
        self._others = Others()
        self._affinity = _affinity(root)
        self._visible = visible
        self._are_named = are_named
        self._trusts_pids = _pid_namespace() == _INITIAL_PID_NAMESPACE
        self._known: set[str] = set()
        self._start_s = self._last_s = now_s
        self._count = 0
        self._host.look(1.0, self._affinity)
        self._host.pressure(1.0)
        self._host.disks(1.0)

    @property
    def pressure_reason(self) -> str:
        """Why the pressure is not that of the job's own control group."""
        return self.group.reason

    def look(self, now_s: float, *, is_paused: bool = False) -> Tick:
        """What went on since the last look. `is_paused`: the watch itself was stopped meanwhile."""
        seconds, self._last_s = max(1e-3, now_s - self._last_s), now_s
        self._count += 1
        self._refresh()
        host, is_new = self._host.look(seconds, self._affinity)
        samples = self.sampler.read()
        on_gpu = frozenset(pid for gpu in samples for pid in gpu.pids or ()) if self._trusts_pids else frozenset()
        tree = self.tree.look(seconds, is_new=is_new, on_gpu=on_gpu)
        gpus, are_its = self._gpus(samples)
        tick = Tick(
            at_s=now_s - self._start_s,
            seconds=seconds,
            cpus=self.cpus.usable,
            job=self.group.look(seconds, self.tree.members, now_s),
            host_pressure=self._host.pressure(seconds),
            host=host,
            tree=tree,
            disks=self._host.disks(seconds),
            gpus=gpus,
            gpus_are_its=are_its,
            file_systems=self._file_systems(),
            is_paused=is_paused or (tree is not None and tree.is_stopped),
        )
        others = self._others.look(self.tree.members, now_s) if _is_crowded(tick) else None
        return replace(tick, others=others)

    def close(self) -> None:
        self.tree.close()
        self.group.close()
        self._host.close()
        self.sampler.close()

    def _refresh(self) -> None:
        if self._count % CPUS_EVERY == 0:
            with suppress(OSError):  # it has just ended: what was known stays
                self.cpus = usable_cpus(self.tree.root)
                self._affinity = _affinity(self.tree.root)

    def _gpus(self, samples: tuple[GpuSample, ...]) -> tuple[tuple[GpuSample, ...] | None, bool]:
        if self.sampler.source == "none":
            return (None, False) if any(os.path.exists(node) for node in _GPU_NODES) else ((), False)
        if self._are_named:
            return samples, True
        members = frozenset(self.tree.members) if self._trusts_pids else frozenset[int]()
        gpus, are_its = jobs_gpus(samples, members, self._visible, frozenset(self._known))
        if are_its and self._visible is None:
            self._known.update(gpu.uuid for gpu in gpus)
        return gpus, are_its

    def _file_systems(self) -> tuple[str, ...] | None:
        if self._count != _FIRST_FILES and self._count % FILES_EVERY:
            return None
        listed = parse(content_of("/proc/self/mountinfo") or b"")
        mounts = [(mount.target.rstrip("/") + "/", mount.fstype) for mount in listed]
        found: dict[str, None] = {}
        for pid in list(self.tree.members)[:_MOST_PROCESSES]:
            for path in _open_files(pid):
                fitting = [pair for pair in mounts if path.startswith(pair[0])]
                if fitting:
                    found[max(fitting, key=lambda pair: len(pair[0]))[1]] = None
        return tuple(found)


def _is_crowded(tick: Tick) -> bool:
    """Processors are short, and it is not the job that has them."""
    room, tree = room_percent(tick), tick.tree
    return (
        room is not None
        and room < LIMITS.room_some
        and tree is not None
        and tree.cores is not None
        and tree.cores < LIMITS.tree_share * (tick.cpus or 1)
    )


def _affinity(pid: int) -> frozenset[int] | None:
    """The CPUs it may run on; None for all."""
    allowed = os.sched_getaffinity(pid)
    return None if len(allowed) >= (os.cpu_count() or 1) else frozenset(allowed)


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _open_files(pid: int) -> list[str]:
    """Regular paths, the working folder first; none where this user may not see them."""
    found = []
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        found.append(os.readlink(f"/proc/{pid}/cwd") + "/")
    with suppress(OSError):
        for name in os.listdir(folder)[:_MOST_FILES]:
            with suppress(OSError):
                found.append(os.readlink(f"{folder}/{name}"))
    return [path for path in found if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/sys/"))]
