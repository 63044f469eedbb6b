"""Facts: what the host is, how it is set up and what goes on there. One module per subject.

A module `facts/<subject>.py` holds the fact's dataclasses and `collect(reader, facts)`, which reads through the door
and parses purely: each field when it is first touched (`lazy`), where it is not read along with the others. To add a
subject, write the module and add its line to `Facts`: the lines are the registry. The expressions of rules are typed
against the class of its name.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, complete, raw, unread
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
    from hosttune.facts.units import Units
    from hosttune.facts.upgrades import Upgrades
    from hosttune.facts.userns import Userns
    from hosttune.facts.vulnerabilities import Vulnerabilities
    from hosttune.facts.work import Work
    from hosttune.facts.writeback import Writeback
    from hosttune.host.door import Reader

__all__ = ["SUBJECTS", "Asked", "Fact", "Facts", "UnknownFact", "raw", "unread"]


@frozen
class Asked:
    """What the selected rules ask for by name and is not read as a whole: `units["fstrim.timer"]`."""

    units: frozenset[str] = field(default_factory=frozenset)
    pythons: frozenset[str] = field(default_factory=frozenset)  # absolute paths: the parameter `python` of rules


class Facts:
    """The facts of one host, each collected when it is first touched, then kept.

    Facts must not change while a plan is made, so one Facts object belongs to one look at the host.
    """

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

    def __init__(self, reader: Reader, asked: Asked | None = None) -> None:
        self.reader = reader
        self.asked = asked or Asked()
        self.seconds: dict[
            str, float
        ] = {}  # subject -> wall time of collecting it; lazy fields count where they are asked
        self._locks: dict[str, threading.RLock] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in SUBJECTS:
            message = f"no fact is called {name!r}"
            raise AttributeError(message)
        with self._locks.setdefault(name, threading.RLock()):  # one step, so all threads meet at one lock
            if name not in self.__dict__:
                started = time.perf_counter()
                self.__dict__[name] = import_module(f"hosttune.facts.{name}").collect(self.reader, self)
                self.seconds[name] = time.perf_counter() - started
            return self.__dict__[name]

    def through(self, reader: Reader) -> Facts:
        """The facts of the same host through another door, behind which a plan was tried: what was collected of the
        hardware stays.
        """
        facts = Facts(reader, self.asked)
        facts.__dict__.update({name: self.__dict__[name] for name in HARDWARE if name in self.__dict__})
        return facts

    def prefetch(self, subjects: Iterable[str]) -> None:
        """Start collecting those of these subjects that wait for other programs, so that they do so side by side.

        Nothing waits here: whoever touches such a fact waits for it.
        """
        for name in sorted(SLOW & set(subjects)):
            threading.Thread(target=self._touch, args=(name,), daemon=True).start()

    def _touch(self, name: str) -> None:
        started = time.perf_counter()
        with suppress(Exception):  # whoever touches the fact next meets the same error where it can be told
            complete(getattr(self, name))
            self.seconds[name] = time.perf_counter() - started


SUBJECTS = tuple(Facts.__annotations__)

# Subjects whose collection waits for other programs (apt-cache, nvidia-smi, systemctl, ubuntu-drivers).
SLOW = frozenset({
    "activity", "archives", "candidates", "clock", "components", "framework", "health", "nvidia", "offers",
    "packaging", "units",
})  # fmt: skip

# Subjects that no change of ours can alter before the next boot.
HARDWARE = frozenset({
    "acs", "cpu", "disks", "filesystems", "gpus", "health", "kernel", "numa", "nvidia", "os", "pcie", "vulnerabilities",
})  # fmt: skip
