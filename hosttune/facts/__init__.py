"""Facts: what the host is, how it is set up and what goes on there. One module per subject, in the
folders of the domains that rules have; what every domain asks for is beside them.

A module `facts/<domain>/<subject>.py` holds a class, a `Subject`: each of its fields says what it
means and where it is read, through the door, when it is first touched; parsing is pure. To add a
subject, write the module and add its line to the class in `__init__.py` of its folder: the lines
are the registry. The expressions of rules are typed against the class of its name.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, complete, get_raw, make_unread
from hosttune.facts.containers import ContainersFacts
from hosttune.facts.cpu import CpuFacts
from hosttune.facts.framework import FrameworkFacts
from hosttune.facts.gpu import GpuFacts
from hosttune.facts.kernel import KernelFacts
from hosttune.facts.limits import LimitsFacts
from hosttune.facts.memory import MemoryFacts
from hosttune.facts.network import NetworkFacts
from hosttune.facts.services import ServicesFacts
from hosttune.facts.storage import StorageFacts
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts.apt import Apt
    from hosttune.facts.baseline import Baseline
    from hosttune.facts.commands import Commands
    from hosttune.facts.environment import Environment
    from hosttune.facts.etc import Etc
    from hosttune.facts.file_owners import FileOwners
    from hosttune.facts.host import Host
    from hosttune.facts.jobs import Jobs
    from hosttune.facts.lost_settings import LostSettings
    from hosttune.facts.managers import Managers
    from hosttune.facts.os import Os
    from hosttune.facts.packages import Packages
    from hosttune.facts.processes import Processes
    from hosttune.facts.role import Role
    from hosttune.facts.support import Support
    from hosttune.facts.sysfs import Sysfs
    from hosttune.facts.work import Work
    from hosttune.host.door import Reader

__all__ = ["SUBJECTS", "Fact", "Facts", "RequestedNames", "UnknownFact", "get_raw", "make_unread"]


@frozen
class RequestedNames:
    """What the selected rules ask for by name and is not read as a whole:
    `units["fstrim.timer"]`.
    """

    units: frozenset[str] = field(default_factory=frozenset)
    # absolute paths: the parameter `python` of rules
    pythons: frozenset[str] = field(default_factory=frozenset)


class Facts(
    ContainersFacts, CpuFacts, FrameworkFacts, GpuFacts, KernelFacts, LimitsFacts, MemoryFacts,
    NetworkFacts, ServicesFacts, StorageFacts,
):  # fmt: skip
    """The facts of one host, each collected when it is first touched, then kept.

    Facts must not change while a plan is made, so one Facts object belongs to one look at the host.
    """

    apt: Apt
    baseline: Baseline
    commands: Commands
    environment: Environment
    etc: Etc
    file_owners: FileOwners
    host: Host
    jobs: Jobs
    lost_settings: LostSettings
    managers: Managers
    os: Os
    packages: Packages
    processes: Processes
    role: Role
    support: Support
    sysfs: Sysfs
    work: Work

    def __init__(self, reader: Reader, asked: RequestedNames | None = None) -> None:
        self.reader = reader
        self.asked = asked or RequestedNames()
        self.seconds: dict[
            str, float
        ] = {}  # subject -> wall time of collecting it; lazy fields count where they are asked
        self._locks: dict[str, threading.RLock] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in MODULES:
            message = f"no fact is called {name!r}"
            raise AttributeError(message)
        # one step, so all threads meet at one lock
        with self._locks.setdefault(name, threading.RLock()):
            if name not in self.__dict__:
                started = time.perf_counter()
                subject = getattr(import_module(MODULES[name]), CLASSES[name])
                self.__dict__[name] = subject.look(self.reader, self)
                self.seconds[name] = time.perf_counter() - started
            return self.__dict__[name]

    def through(self, reader: Reader) -> Facts:
        """The facts of the same host through another door, behind which a plan was tried: what was
        collected of the hardware stays.
        """
        facts = Facts(reader, self.asked)
        facts.__dict__.update(
            {name: self.__dict__[name] for name in HARDWARE if name in self.__dict__}
        )
        return facts

    def prefetch(self, subjects: Iterable[str]) -> None:
        """Start collecting those of these subjects that wait for other programs, so that they do so
        side by side.

        Nothing waits here: who touches such a fact waits for it.
        """
        for name in sorted(SLOW & set(subjects)):
            threading.Thread(target=self._touch, args=(name,), daemon=True).start()

    def _touch(self, name: str) -> None:
        started = time.perf_counter()
        # who touches the fact next meets the same error where it can be reported
        with suppress(Exception):
            complete(getattr(self, name))
            self.seconds[name] = time.perf_counter() - started


# subject -> its module
MODULES = {
    subject: f"{folder.__module__}.{subject}"
    for folder in (Facts, *Facts.__bases__)
    for subject in folder.__annotations__
}
SUBJECTS = tuple(sorted(MODULES))
# subject -> the name of its class in there
CLASSES = {
    subject: str(name)
    for folder in (Facts, *Facts.__bases__)
    for subject, name in folder.__annotations__.items()
}

# Subjects whose collection waits for other programs (apt-cache, nvidia-smi, systemctl,
# ubuntu-drivers).
SLOW = frozenset({
    "activity", "archives", "candidates", "clock", "components", "framework", "gpu_memory",
    "health", "host_log", "known_holes", "nvidia", "nvlink", "nvme", "offers", "packaging", "pools",
    "rails", "smart", "storage_log", "units",
})  # fmt: skip

# Subjects that no change of ours can alter before the next boot.
HARDWARE = frozenset({
    "acs", "cpu", "disks", "filesystems", "gpu_memory", "gpus", "health", "kernel", "kernel_log",
    "numa", "nvidia", "nvlink", "nvlink_errors", "os", "other_gpus", "pcie", "vulnerabilities",
})  # fmt: skip
