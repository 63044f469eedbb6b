"""Facts: what the host is, how it is set up and what goes on there. One module per subject.

A module `facts/<subject>.py` holds the fact's dataclasses and `collect(reader, facts)`, which reads through the door
and parses purely. To add a subject, write the module and add its line to `Facts`: the line is the registry, and the
expressions of rules are typed against it.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.facts.tracing import TRACED, Noting, Trace
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts.acs import Acs
    from hosttune.facts.activity import Activity
    from hosttune.facts.affinity import Affinity
    from hosttune.facts.ageing import Ageing
    from hosttune.facts.archives import Archives
    from hosttune.facts.boot import Boot
    from hosttune.facts.branches import Branches
    from hosttune.facts.candidates import Candidates
    from hosttune.facts.clock import Clock
    from hosttune.facts.cmdline import Cmdline
    from hosttune.facts.commands import Commands
    from hosttune.facts.components import Components
    from hosttune.facts.containers import Containers
    from hosttune.facts.cpu import Cpu
    from hosttune.facts.cpufreq import Cpufreq
    from hosttune.facts.desktop import Desktop
    from hosttune.facts.disks import Disks
    from hosttune.facts.docker import Docker
    from hosttune.facts.driver import Driver
    from hosttune.facts.environment import Environment
    from hosttune.facts.etc import Etc
    from hosttune.facts.filesystems import Filesystems
    from hosttune.facts.filling import Filling
    from hosttune.facts.framework import Framework
    from hosttune.facts.fstab import Fstab
    from hosttune.facts.gpus import Gpus
    from hosttune.facts.health import Health
    from hosttune.facts.host import Host
    from hosttune.facts.hugepages import Hugepages
    from hosttune.facts.idle import Idle
    from hosttune.facts.iommu import Iommu
    from hosttune.facts.irq import Irq
    from hosttune.facts.jobs import Jobs
    from hosttune.facts.kernel import Kernel
    from hosttune.facts.limits import Limits
    from hosttune.facts.managers import Managers
    from hosttune.facts.memory import Memory
    from hosttune.facts.mounts import Mounts
    from hosttune.facts.namespaces import Namespaces
    from hosttune.facts.nccl import Nccl
    from hosttune.facts.network import Network
    from hosttune.facts.nfs import Nfs
    from hosttune.facts.numa import Numa
    from hosttune.facts.nvidia import Nvidia
    from hosttune.facts.offers import Offers
    from hosttune.facts.oomd import Oomd
    from hosttune.facts.os import Os
    from hosttune.facts.packages import Packages
    from hosttune.facts.packaging import Packaging
    from hosttune.facts.parameters import Parameters
    from hosttune.facts.pcie import Pcie
    from hosttune.facts.peermem import Peermem
    from hosttune.facts.places import Places
    from hosttune.facts.pressure import Pressure
    from hosttune.facts.queues import Queues
    from hosttune.facts.rdma import Rdma
    from hosttune.facts.reclaim import Reclaim
    from hosttune.facts.role import Role
    from hosttune.facts.shm import Shm
    from hosttune.facts.spare import Spare
    from hosttune.facts.spills import Spills
    from hosttune.facts.stopped import Stopped
    from hosttune.facts.stores import Stores
    from hosttune.facts.sysctl import Sysctl
    from hosttune.facts.sysfs import Sysfs
    from hosttune.facts.tmp import Tmp
    from hosttune.facts.tracing import Reach
    from hosttune.facts.units import Units
    from hosttune.facts.upgrades import Upgrades
    from hosttune.facts.userns import Userns
    from hosttune.facts.vulnerabilities import Vulnerabilities
    from hosttune.facts.work import Work
    from hosttune.facts.writeback import Writeback
    from hosttune.host.door import Reader

__all__ = ["Asked", "Fact", "Facts", "UnknownFact", "raw", "unread"]


@frozen
class Asked:
    """The names that the selected rules ask for by name: `units["fstrim.timer"]`, `packages["tuned"]`."""

    units: frozenset[str] = field(default_factory=frozenset)
    packages: frozenset[str] = field(default_factory=frozenset)
    pythons: frozenset[str] = field(default_factory=frozenset)  # absolute paths: the parameter `python` of rules


class Facts:
    """The facts of one host, each collected when it is first touched, then kept.

    Facts must not change while a plan is made, so one Facts object belongs to one look at the host.
    """

    if TYPE_CHECKING:
        acs: Acs
        activity: Activity
        affinity: Affinity
        ageing: Ageing
        archives: Archives
        boot: Boot
        branches: Branches
        candidates: Candidates
        clock: Clock
        cmdline: Cmdline
        commands: Commands
        components: Components
        containers: Containers
        cpu: Cpu
        cpufreq: Cpufreq
        desktop: Desktop
        disks: Disks
        docker: Docker
        driver: Driver
        environment: Environment
        etc: Etc
        filesystems: Filesystems
        filling: Filling
        framework: Framework
        fstab: Fstab
        gpus: Gpus
        health: Health
        host: Host
        hugepages: Hugepages
        idle: Idle
        iommu: Iommu
        irq: Irq
        jobs: Jobs
        kernel: Kernel
        limits: Limits
        managers: Managers
        memory: Memory
        mounts: Mounts
        namespaces: Namespaces
        nccl: Nccl
        network: Network
        nfs: Nfs
        numa: Numa
        nvidia: Nvidia
        offers: Offers
        oomd: Oomd
        os: Os
        packages: Packages
        packaging: Packaging
        parameters: Parameters
        pcie: Pcie
        peermem: Peermem
        places: Places
        pressure: Pressure
        queues: Queues
        rdma: Rdma
        reclaim: Reclaim
        role: Role
        shm: Shm
        spare: Spare
        spills: Spills
        stopped: Stopped
        stores: Stores
        sysctl: Sysctl
        sysfs: Sysfs
        tmp: Tmp
        units: Units
        upgrades: Upgrades
        userns: Userns
        vulnerabilities: Vulnerabilities
        work: Work
        writeback: Writeback

    SUBJECTS = (
        "acs", "activity", "affinity", "ageing", "archives", "boot", "branches", "candidates", "clock",
        "cmdline", "commands", "components", "containers", "cpu", "cpufreq", "desktop", "disks", "docker",
        "driver", "environment", "etc", "filesystems", "filling", "framework", "fstab", "gpus", "health",
        "host", "hugepages", "idle", "iommu", "irq", "jobs", "kernel", "limits", "managers", "memory",
        "mounts", "namespaces", "nccl", "network", "nfs", "numa", "nvidia", "offers", "oomd", "os",
        "packages", "packaging", "parameters", "pcie", "peermem", "places", "pressure", "queues", "rdma",
        "reclaim", "role", "shm", "spare", "spills", "stopped", "stores", "sysctl", "sysfs", "tmp", "units", "upgrades",
        "userns", "vulnerabilities", "work", "writeback",
    )  # fmt: skip

    def __init__(self, reader: Reader, asked: Asked | None = None) -> None:
        self.reader = reader
        self.asked = asked or Asked()
        self.traces: dict[str, Trace] = {}  # what each collected subject hung on, where that is followed
        self._first: tuple[Facts, Reach] | None = None  # the look before a plan was tried, and what it reaches
        self.seconds: dict[str, float] = {}  # subject -> wall time, with what it collected on the way
        self._locks: dict[str, threading.RLock] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self.SUBJECTS:
            message = f"no fact is called {name!r}"
            raise AttributeError(message)
        with self._locks.setdefault(name, threading.RLock()):  # one step, so all threads meet at one lock
            if name not in self.__dict__:
                started = time.perf_counter()
                self.__dict__[name] = self._kept(name) or self._collected(name)
                self.seconds[name] = time.perf_counter() - started
            return self.__dict__[name]

    def _collected(self, name: str) -> Any:
        collect = import_module(f"hosttune.facts.{name}").collect
        if self.reader.kind not in TRACED:
            fact = collect(self.reader, self)
        else:
            trace = Trace()
            noting: Any = Noting(self, trace)
            fact = collect(noting.reader, noting)
            self.traces[name] = trace
        before = self._first[0].__dict__.get(name) if self._first else None
        return before if before is not None and before == fact else fact

    def _kept(self, name: str) -> Any:
        """The fact of the first look, where the plan that was tried cannot have changed it."""
        if self._first is None:
            return None
        first, reach = self._first
        trace = first.traces.get(name)
        return first.__dict__[name] if trace and trace.stands(self, reach) else None

    def through(self, reader: Reader, reach: Reach | None = None) -> Facts:
        """The facts of the same host through another door, behind which a plan was tried: what was collected of the
        hardware stays, and what hangs on nothing within `reach`.
        """
        facts = Facts(reader, self.asked)
        facts.__dict__.update({name: self.__dict__[name] for name in HARDWARE if name in self.__dict__})
        facts._first = (self, reach) if reach is not None else None
        return facts

    def prefetch(self, subjects: Iterable[str]) -> None:
        """Start collecting those of these subjects that wait for other programs, so that they do so side by side.

        Nothing waits here: whoever touches such a fact waits for it.
        """
        for name in sorted(SLOW & set(subjects)):
            threading.Thread(target=self._touch, args=(name,), daemon=True).start()

    def _touch(self, name: str) -> None:
        with suppress(Exception):  # whoever touches the fact next meets the same error where it can be told
            getattr(self, name)


# Subjects whose collection waits for other programs (apt-cache, nvidia-smi, systemctl, ubuntu-drivers).
SLOW = frozenset({
    "activity", "archives", "candidates", "clock", "components", "framework", "health", "nvidia", "offers",
    "packaging", "units",
})  # fmt: skip

# Subjects that no change of ours can alter before the next boot.
HARDWARE = frozenset({
    "acs", "cpu", "disks", "filesystems", "gpus", "health", "kernel", "numa", "nvidia", "os", "pcie", "vulnerabilities",
})  # fmt: skip
