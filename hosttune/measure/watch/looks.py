"""Puts one tick together from everything that can be looked at. It only reads."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from hosttune.measure.gpu.sample import GpuSample, GpuSampler
from hosttune.measure.watch.allowances import EVERY as ALLOWANCES_EVERY
from hosttune.measure.watch.allowances import Allowances
from hosttune.measure.watch.gpus import jobs_gpus
from hosttune.measure.watch.group import Group
from hosttune.measure.watch.host import HostCounters
from hosttune.measure.watch.kept import content_in_time
from hosttune.measure.watch.limits import CpuLimits
from hosttune.measure.watch.memory import Freezer, JobMemory
from hosttune.measure.watch.mounts import MountTable
from hosttune.measure.watch.near import NearCpus
from hosttune.measure.watch.others import Others, gpu_users
from hosttune.measure.watch.programs import (
    ThreadPool,
    Workload,
    find_pools,
    held_to_one_thread,
    mapped_files,
    works_with,
)
from hosttune.measure.watch.states import LIMITS
from hosttune.measure.watch.tick import (
    GpuUser,
    Mounted,
    Placement,
    Tick,
    TreeTick,
    Wait,
    room_percent,
    round_tick,
)
from hosttune.measure.watch.tree import Tree
from hosttune.measure.watch.waits import Waits

# A wrapper moves into a group, or narrows its CPUs, before it becomes the job; that costs a look or
# two.
EARLY = frozenset({1, 2, 5})
CPUS_EVERY = 30  # looks
FILES_EVERY = 60
PROGRAMS_EVERY = 10
PROGRAMS_LATER = 60  # once that many looks have been
_MOST_PROGRAMS = 4  # of the busiest processes, whose mapped files are looked at
_MOST_WORDS = 4  # of a command line: python3 -m vllm.entrypoints ...
_MAPS_BYTES = 1 << 20  # a process with PyTorch, OpenCV and pandas has some 200 KiB
WORKING_CORES = 0.1
_MOST_WORKING = 64
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, include/linux/proc_ns.h
# Where one of these is, a job may compute on a GPU that no sampler sees: NVIDIA, AMD, and either
# under WSL.
_GPU_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")


class Looks:
    """Everything about the job under process `root`; the first tick spans from here on.

    `visible` is the job's CUDA_VISIBLE_DEVICES (None: not set), `are_named` says that the sampler
    shows only what someone named. Raises ProcessLookupError where there is no such process.
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
        self.limits = CpuLimits(root)
        self.sampler = sampler
        self.tree = Tree(root, follows_group=follows_group)
        self.group = Group(root)
        self.memory = JobMemory(root)
        self._freezer = Freezer(root)
        self._allowances = Allowances()
        self._host = HostCounters()
        self._others = Others()
        self._waits = Waits()
        self._mounts = MountTable()
        self._places = NearCpus()
        self._visible = visible
        self._are_named = are_named
        self._trusts_pids = _pid_namespace() == _INITIAL_PID_NAMESPACE
        self._known: set[str] = set()
        self._start_s = self._last_s = now_s
        self._count = 0
        self._host.look(1.0, self.limits.allowed)
        self._host.pressure(1.0)
        self._host.disks(1.0)

    @property
    def pressure_reason(self) -> str:
        """Why the pressure is not that of the job's own control group."""
        return self.group.reason

    def look(self, now_s: float, *, is_paused: bool = False) -> Tick:
        """What went on since the last look. `is_paused`: the watch itself was stopped meanwhile."""
        # Two signals can make two looks at nearly one moment, and rates divide by this.
        seconds, self._last_s = max(1e-3, now_s - self._last_s), now_s
        self._count += 1
        # Before the limits are looked for anew: the counters of the last look belong to those of
        # then.
        throttled = self.limits.compute_throttled(seconds)
        self._refresh()
        host, is_new = self._host.look(seconds, self.limits.allowed)
        samples = self.sampler.read()
        on_gpu = (
            frozenset(pid for gpu in samples for pid in gpu.pids or ())
            if self._trusts_pids
            else frozenset()
        )
        tree = self.tree.look(seconds, is_new=is_new, on_gpu=on_gpu)
        gpus, are_its = self._gpus(samples)
        wait = None
        if tree is not None and _has_time(tree, self.limits.cpus):
            tree, wait = self._wait(tree, seconds)
        # A frozen job uses no CPU at all, so others cost no look at the freezer.
        is_still = tree is None or not tree.cores
        works, pools, one_thread = self._programs()
        frozen_by = self._freezer.look() if is_still else ""
        tick = Tick(
            at_s=now_s - self._start_s,
            seconds=seconds,
            cpus=self.limits.cpus,
            job=self.group.look(seconds, self.tree.members, now_s),
            host_pressure=self._host.pressure(seconds),
            host=host,
            tree=tree,
            disks=self._host.disks(seconds),
            gpus=gpus,
            gpus_are_its=are_its,
            gpu_others=self._gpu_users(gpus if are_its else ()),
            mounts=self._find_mounted(tree),
            limit=self.limits.limit,
            placement=self._find_placement(gpus if are_its else ()),
            are_limits_hidden=self.limits.are_hidden,
            throttled_percent=throttled,
            wait=wait,
            memory=self.memory.look(self._host.kills, has_lost=self.tree.has_lost),
            shm=self.memory.shm(),
            allowances=self._allowances.look() if self._count % ALLOWANCES_EVERY == 0 else (),
            frozen_by=frozen_by,
            works_with=works,
            pools=pools,
            one_thread=one_thread,
            is_paused=is_paused or bool(frozen_by) or (tree is not None and tree.is_stopped),
        )
        others = self._others.look(self.tree.members, now_s) if _is_crowded(tick) else None
        return round_tick(tick if others is None else replace(tick, others=others))

    def close(self) -> None:
        self.tree.close()
        self.group.close()
        self._waits.close()
        self._host.close()
        self.sampler.close()

    def _refresh(self) -> None:
        if self._count in EARLY or self._count % CPUS_EVERY == 0 or self.limits.is_surprised:
            working = [
                (pid, one.cores)
                for pid, one in self.tree.members.items()
                if one.cores >= WORKING_CORES
            ]
            with suppress(OSError):  # it has just ended: what was known stays
                self.limits.look_around(dict(working[:_MOST_WORKING]))

    def _wait(self, tree: TreeTick, seconds: float) -> tuple[TreeTick, Wait | None]:
        states = {
            pid: one.counters.stat.state for pid, one in self.tree.members.items() if one.counters
        }
        wait = self._waits.look(states)
        received, sent = self._waits.received / seconds, self._waits.sent / seconds
        return replace(tree, received_bytes=received, sent_bytes=sent), wait

    def _gpus(self, samples: tuple[GpuSample, ...]) -> tuple[tuple[GpuSample, ...] | None, bool]:
        if self.sampler.source == "none":
            return (
                # A GPU may be there that this watch cannot see: None keeps the verdict from "this
                # machine has none".
                (None, False) if any(os.path.exists(node) for node in _GPU_NODES) else ((), False)
            )
        if self._are_named:
            return samples, True
        members = frozenset(self.tree.members) if self._trusts_pids else frozenset[int]()
        gpus, are_its = jobs_gpus(samples, members, self._visible, frozenset(self._known))
        # Kept once known: a process frees its memory on the GPU before it ends, and the GPU was its
        # own all the time.
        if are_its and self._visible is None:
            self._known.update(gpu.uuid for gpu in gpus)
        return gpus, are_its

    def _gpu_users(self, gpus: tuple[GpuSample, ...] | None) -> tuple[GpuUser, ...]:
        pids = [pid for gpu in gpus or () for pid in gpu.pids or ()] if self._trusts_pids else []
        return gpu_users(pids, self.tree.members)

    def _find_mounted(self, tree: TreeTick | None) -> tuple[Mounted, ...] | None:
        if (
            self._count not in EARLY
            and self._count % FILES_EVERY
            and not (tree is not None and tree.blocked)
        ):
            return None
        return self._mounts.of(list(self.tree.members))

    def _find_placement(self, gpus: tuple[GpuSample, ...] | None) -> Placement | None:
        is_due = self._count in EARLY or self._count % CPUS_EVERY == 0
        return (
            self._places.look(gpus or (), self.tree.members)
            if is_due and self._trusts_pids
            else None
        )

    def _programs(self) -> tuple[tuple[Workload, ...] | None, tuple[ThreadPool, ...], str]:
        """What the busiest processes work with, whose threads they have, and what holds the first
        of them to one.
        """
        every = PROGRAMS_EVERY if self._count <= PROGRAMS_LATER else PROGRAMS_LATER
        # the first look comes too early
        if self._count == 1 or (self._count not in EARLY and self._count % every):
            return None, (), ""
        busiest = sorted(self.tree.members.values(), key=lambda one: -one.cores)[:_MOST_PROGRAMS]
        paths, words = set[str](), set[str]()
        for one in busiest:
            paths |= mapped_files(content_in_time(f"/proc/{one.pid}/maps", _MAPS_BYTES) or b"")
            paths.update(self._mounts.list_opened(one.pid))
            words.update(one.command.decode("utf-8", "replace").split("\0")[:_MOST_WORDS])
        environment = content_in_time(f"/proc/{busiest[0].pid}/environ") if busiest else None
        return works_with(paths, words), find_pools(paths), held_to_one_thread(environment or b"")


def _has_time(tree: TreeTick, cpus: float) -> bool:
    """The job does not fill its CPUs: what it sleeps on matters, and a look at that costs it
    nothing.
    """
    return tree.cores is not None and tree.cores < LIMITS.busy_share * cpus


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


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
