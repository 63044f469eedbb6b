"""Ticks of the scenarios that the state machine has to tell apart: means that were measured once,
with seeded jitter.

Two CPUs; the "GPU" of the first seven is the busy time of the process that consumes what the
loaders make. Rows: GPU utilization, PSI cpu some, io some and full, host idle, cores of each child,
run delay (measured on a quiet virtual machine, pressure of the job's own control group).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch.account import Account, Watched
from hosttune.measure.watch.states import HeldState, State, step
from hosttune.measure.watch.tick import HostTick, Pressure, Tick, TreeTick
from hosttune.measure.watch.verdict import WatchVerdict, judge

MIB = float(1 << 20)
GPU = GpuSample(0, "GPU-1", "NVIDIA A100", 0.0, 8 << 30, 80 << 30, 70.0, 300.0, 1410, (), (4242,))
WATCHED = Watched(
    pid=4242, command=("python", "train.py"), is_child=True, warm_up_s=5.0, gpu_source="replay"
)


def gpu(util: float | None, power: float | None, **other: object) -> GpuSample:
    return replace(GPU, util_percent=util, power_w=power, **other)


def tick(
    util=7.0,
    power=90.0,
    cpu=0.0,
    io=(0.0, 0.0),
    memory=0.0,
    idle=90.0,
    children=(),
    main=0.05,
    delay=0.0,
    read=8 * MIB,
    device=0.0,
    **other,
) -> Tick:
    """One second; what stays unsaid is quiet. `children`: cores of each."""
    tree = TreeTick(
        1 + len(children), 1, main, len(children), tuple(sorted(children, reverse=True)), main + sum(children), delay,
        blocked=0, read_bytes=read, device_bytes=device, written_bytes=0.0,
    )  # fmt: skip
    base = Tick(
        at_s=1.0, seconds=1.0, cpus=2.0, job=Pressure(cpu, io[0], io[1], memory, 0.0), host_pressure=Pressure(cpu, io[0], io[1], memory, 0.0),
        host=HostTick(idle, 0.0, 2 - idle / 50, 0.0, 0.0, 0.0), tree=tree, disks=(), gpus=(gpu(util, power),), gpus_are_its=True,
    )  # fmt: skip
    return replace(base, **other)


def judged(ticks: Iterable[Tick], watched: Watched) -> tuple[WatchVerdict, Account]:
    """The verdict on ticks that are all there."""
    account = Account(watched)
    for one in ticks:
        account.add(one)
    account = account.settle()
    return judge(account), account


def states_of(ticks: Iterable[Tick]) -> list[State]:
    """The state after each tick."""
    held, found = HeldState(), []
    for one in ticks:
        held = step(held, one)
        found.append(held.state)
    return found


def jittered(one: Tick, count: int, seed: int) -> tuple[Tick, ...]:
    """`count` ticks around one: every figure 10 % up and down."""
    rng = random.Random(seed)  # noqa: S311 - the same jitter every time

    def about(value):
        return None if value is None else value * rng.uniform(0.9, 1.1)

    def percent(value):
        return None if value is None else min(100.0, about(value))

    found = []
    for number in range(count):
        job = one.job and Pressure(
            *(percent(getattr(one.job, name)) for name in Pressure.__slots__)
        )
        host_pressure = one.host_pressure and Pressure(
            *(percent(getattr(one.host_pressure, name)) for name in Pressure.__slots__)
        )
        host = one.host and replace(one.host, idle_percent=percent(one.host.idle_percent))
        tree = one.tree and replace(
            one.tree,
            run_delay_cores=about(one.tree.run_delay_cores),
            read_bytes=about(one.tree.read_bytes),
        )
        gpus = one.gpus and tuple(
            replace(gpu, util_percent=percent(gpu.util_percent), power_w=about(gpu.power_w))
            for gpu in one.gpus
        )
        found.append(
            replace(
                one,
                at_s=number + 1.0,
                job=job,
                host_pressure=host_pressure,
                host=host,
                tree=tree,
                gpus=gpus,
            )
        )
    return tuple(found)


def at(ticks: tuple[Tick, ...], begin: float) -> tuple[Tick, ...]:
    return tuple(replace(one, at_s=begin + one.at_s) for one in ticks)


# name -> (state, one tick): the seven of the measured table, then those that no machine here can
# show
MEASURED = {
    "gpu bound": ("GPU", tick(99.0, 280.0, idle=93, main=0.13, delay=0.01)),
    "one worker": ("WORKERS", tick(7.0, idle=49, children=(0.98,), main=0.03)),
    "cpu bound, six workers": (
        "CPU",
        tick(23.0, cpu=99, idle=0, children=(0.32,) * 6, main=0.06, delay=4.25),
    ),
    "network-like waiting": ("WAIT", tick(1.0, idle=88, children=(0.05,) * 4, main=0.01)),
    "disk bound, two workers": (
        "DISK",
        tick(
            14.0, io=(69, 68), idle=51, children=(0.0, 0.0), main=0.01, delay=0.01, device=8 * MIB
        ),
    ),
    "disk bound, eight workers": (
        "DISK",
        tick(15.0, io=(82, 81), idle=86, children=(0.002,) * 8, main=0.01, device=8 * MIB),
    ),
    "six foreign hogs": (
        "FOREIGN",
        tick(8.0, cpu=92, idle=0, children=(0.15, 0.1), main=0.02, delay=1.7),
    ),
}
OTHERS = {
    "memory": ("MEM", tick(5.0, memory=35, io=(60, 50), idle=70, children=(0.1,), device=80 * MIB)),
    "swapping in": ("MEM", tick(5.0, memory=2, host=HostTick(70.0, 20.0, 0.6, 900.0, 900.0, 10.0))),
    "cold gpu": ("COLD_GPU", tick(100.0, 95.0, idle=60, main=1.0)),
    "idle": ("IDLE", tick(0.0, 60.0, idle=99, main=0.01, read=0.0)),
    "no power": ("GPU", tick(95.0, None, idle=60, main=1.0)),
    "main process loads": ("WORKERS", tick(20.0, idle=49, main=1.0)),
    "spinning while the gpu works": ("WAIT", tick(60.0, 150.0, idle=65, main=0.65)),
    "seven of eight gpus lost": ("GPU", tick(gpus=(gpu(95.0, 290.0), *(gpu(None, None, lost=True, index=i) for i in range(1, 8))))),
    "no gpu in the machine": ("CPU", tick(cpu=80, idle=0, children=(1.0, 0.95), delay=0.6, gpus=())),
    "v1: pressure of the host, busy disk": ("DISK", tick(14.0, io=(69, 68), idle=51, device=8 * MIB, job=None)),
    "v1: somebody else's disk": ("WAIT", tick(14.0, idle=90, children=(0.2,), job=None)),
    "quota of two CPUs on a large host": ("CPU", tick(20.0, cpu=90, idle=96, children=(0.5,) * 4, delay=1.0)),
}  # fmt: skip
