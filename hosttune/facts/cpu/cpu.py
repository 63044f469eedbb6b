"""The processors, and how many of them may be used here: by process 1, so not by the shell that
started hosttune.

Sources: proc_cpuinfo(5), /sys/devices/system/cpu (kernel:
Documentation/admin-guide/cputopology.rst), Cpus_allowed_list of proc_pid_status(5), cpu.max
(Documentation/admin-guide/cgroup-v2.rst) and cpu.cfs_quota_us
(Documentation/scheduler/sched-bwc.rst).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import (
    derive,
    hint,
    if_absent,
    parse_or_unknown,
    read_integer,
    read_line,
    read_text,
    require_known,
)
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.ranges import number_list, number_list_text
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_CPUINFO = "/proc/cpuinfo"
GROUPS = "/sys/fs/cgroup"
_CPUS = "/sys/devices/system/cpu"
_ARM_MAKERS = {
    "0x41": "ARM", "0x48": "HiSilicon", "0x4e": "NVIDIA", "0x51": "Qualcomm", "0x61": "Apple",
    "0xc0": "Ampere",
}  # fmt: skip
_ARM_PARTS = {
    "0x41 0xd0c": "Neoverse-N1", "0x41 0xd40": "Neoverse-V1", "0x41 0xd49": "Neoverse-N2",
    "0x41 0xd4f": "Neoverse-V2", "0x41 0xd83": "Neoverse-V3AE", "0x41 0xd84": "Neoverse-V3",
    "0x41 0xd8e": "Neoverse-N3", "0x4e 0x004": "Carmel", "0x4e 0x010": "Olympus",
    "0xc0 0xac3": "Ampere-1", "0xc0 0xac4": "Ampere-1a",
}  # fmt: skip


@frozen
class Cpu(Subject):
    """The processors that are on line. A core has one thread or several; a quota of 1.5 CPUs is one
    usable CPU.
    """

    @fact
    def model(self) -> str:
        """Intel(R) Xeon(R) Platinum 8480C, Neoverse-V2 ..."""
        return model_of(self._cpuinfo)[0]

    @fact
    def vendor(self) -> str:
        """GenuineIntel, AuthenticAMD, ARM ...; empty where unknown."""
        return model_of(self._cpuinfo)[1]

    @fact
    def flags(self) -> tuple[str, ...]:
        """Of the first CPU; on Arm its features."""
        return flags_of(self._cpuinfo)

    @fact
    def sockets(self) -> int:
        """CPU packages."""
        return len(self.first_of_sockets)

    @fact
    def cores(self) -> int:
        """Of all sockets."""
        return _count_cores(self.reader, self._online)

    @fact
    def threads(self) -> int:
        """Logical CPUs."""
        return len(self._online)

    @fact
    def first_of_sockets(self) -> tuple[int, ...]:
        """The number of the first logical CPU of each socket."""
        return _list_firsts(self.reader, self._online, "package_cpus_list")

    @fact
    def offline(self) -> tuple[int, ...]:
        """Logical CPUs that are there and not used.

        `offline` itself names slots for CPUs that may be plugged in later as well, so it is not
        asked.
        """
        return tuple(
            sorted(set(_read_numbers(self.reader, f"{_CPUS}/present")) - set(self._online))
        )

    @fact
    def siblings_off(self) -> int:
        """How many of those are second threads, where SMT is switched off."""
        return _siblings_off(self.reader, len(self._online), len(self.offline))

    @fact
    def mixed_microcode(self) -> tuple[str, ...]:
        """`0x2b000603 of 112`, where equal processors have unequal microcode; else none."""
        return mixed_microcode(self._cpuinfo_text)

    @fact
    def usable(self) -> int:
        """At least 1: the affinity of process 1, and the quota of its control group."""
        return self._usable[0]

    @fact
    def usable_evidence(self) -> str:
        """A sentence: what says so."""
        return self._usable[1]

    @fact
    def _cpuinfo_text(self) -> str:
        return require_known(read_text(self.reader, _CPUINFO), _CPUINFO)

    @fact
    def _cpuinfo(self) -> Mapping[str, str]:
        return parse_cpuinfo(self._cpuinfo_text)

    @fact
    def _online(self) -> tuple[int, ...]:
        return _read_numbers(self.reader, f"{_CPUS}/online")

    @fact
    def _usable(self) -> tuple[int, str]:
        return usable_of(find_allowed(self.reader, "1"), find_quota(self.reader, "1"))

    @property
    def offline_list(self) -> str:
        """`offline` for people, as the kernel writes lists: 64-65,127."""
        return number_list_text(self.offline)


@frozen
class Quota:
    """CPU time that a control group may use, in CPUs, and the file that says so."""

    cpus: float
    path: str


def parse_cpuinfo(content: str) -> Mapping[str, str]:
    """The lines of the first processor, and of the head some architectures write, name -> text."""
    values: dict[str, str] = {}
    for entry in content.partition("\n\n")[0].splitlines():
        name, _, value = entry.partition(":")
        values.setdefault(name.strip(), value.strip())
    return values


def mixed_microcode(content: str) -> tuple[str, ...]:
    """The revisions of microcode of the processors of one model and stepping (/proc/cpuinfo), where
    they differ, each with how many have it. Steppings of their own have microcode of their own.
    """
    kinds: dict[tuple[str, ...], Counter[str]] = {}
    for block in content.split("\n\n"):
        values = parse_cpuinfo(block)
        if revision := values.get("microcode"):
            kind = tuple(values.get(name, "") for name in ("cpu family", "model", "stepping"))
            kinds.setdefault(kind, Counter())[revision] += 1
    mixed = (revisions for revisions in kinds.values() if len(revisions) > 1)
    return tuple(
        f"{revision} of {many}" for revisions in mixed for revision, many in revisions.most_common()
    )


def model_of(values: Mapping[str, str]) -> tuple[str, str]:
    """(model, vendor). 64-bit Arm kernels write numbers (MIDR_EL1: implementer and part), which a
    short table names.
    """
    maker = values.get("CPU implementer", "")
    part = values.get("CPU part", "")
    if maker and part:
        vendor = _ARM_MAKERS.get(maker, maker)
        return _ARM_PARTS.get(f"{maker} {part}", f"part {part}"), vendor
    return values.get("model name") or values.get("cpu", ""), values.get("vendor_id", "")


def parse_groups(content: str) -> Mapping[str, str]:
    """/proc/PID/cgroup: controller -> path; "" is version 2 (cgroups(7))."""
    groups: dict[str, str] = {}
    for entry in content.splitlines():
        _, _, rest = entry.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def parse_cpu_max(content: str) -> float | None:
    """cpu.max "150000 100000" is 1.5 CPUs; "max 100000" has no limit."""
    quota, _, period = content.strip().partition(" ")
    return (
        None if quota == "max" or not int(period or 100000) else int(quota) / int(period or 100000)
    )


def usable_of(allowed: int, quota: Quota | None) -> tuple[int, str]:
    """How many CPUs can be kept busy, and the sentence that says why."""
    sentence = f"affinity allows {allowed}"
    if quota is None:
        return max(1, allowed), sentence
    return max(
        1, min(allowed, int(quota.cpus))
    ), f"{sentence}, {quota.path} limits to {quota.cpus:g}"


def flags_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """What the processor can do; Arm calls them features."""
    return tuple((values.get("flags") or values.get("Features", "")).split())


def _read_numbers(reader: Reader, path: str) -> tuple[int, ...]:
    return derive(read_line(reader, path), path, number_list)


def _count_cores(reader: Reader, online: tuple[int, ...]) -> int:
    # Only a certain "0" saves the reads: where there is no such file the cores are counted one by
    # one.
    has_threads = hint(reader, f"{_CPUS}/smt/active").strip() != "0"
    return len(_list_firsts(reader, online, "core_cpus_list")) if has_threads else len(online)


def _list_firsts(reader: Reader, online: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The first CPU of each socket or core. One file lists all CPUs of each, so few are read even
    with 256 CPUs.
    """
    left = set(online)
    firsts = []
    for cpu in online:
        if cpu in left:
            left.difference_update(
                _read_numbers(reader, f"{_CPUS}/cpu{cpu}/topology/{name}"), (cpu,)
            )
            firsts.append(cpu)
    return tuple(firsts)


def _siblings_off(reader: Reader, online: int, offline: int) -> int:
    """Half of the CPUs at most: each core that has lost both of its threads has lost one that SMT
    does not explain.
    """
    is_off = if_absent(read_line(reader, f"{_CPUS}/smt/control"), "") in {"off", "forceoff"}
    return min(offline, (online + offline) // 2) if is_off else 0


def find_allowed(reader: Reader, process: str) -> int:
    """The CPUs that the affinity of a process allows; `process` is its number, or self."""
    status = f"/proc/{process}/status"
    rows = (
        row.partition(":") for row in require_known(read_text(reader, status), status).splitlines()
    )
    allowed = next((rest for key, _, rest in rows if key == "Cpus_allowed_list"), "")
    if not allowed:
        raise UnknownFact(f"{status} has no Cpus_allowed_list")
    return len(parse_or_unknown(number_list, allowed))


def find_quota(reader: Reader, process: str) -> Quota | None:
    """The smallest quota from the control group of a process up to the root of the hierarchy."""
    is_v1, folders = group_folders(reader, process, "cpu")
    found = [
        limit
        for folder in folders
        if (limit := (_limit_v1 if is_v1 else _limit_v2)(reader, folder))
    ]
    return min(found, key=lambda quota: quota.cpus, default=None)


def group_folders(reader: Reader, process: str, controller: str) -> tuple[bool, tuple[str, ...]]:
    """Whether the controller is of version 1, and the folders of the control group of a process and
    of those above it.

    With version 1 of a controller, version 2 has none (hybrid set-up, mounted at .../unified).
    """
    content = read_text(reader, f"/proc/{process}/cgroup")
    if content is ABSENT:
        return False, ()
    groups = parse_groups(content)
    is_v1 = controller in groups
    mount = f"{GROUPS}/{controller}" if is_v1 else GROUPS
    return is_v1, tuple(walk_upwards(mount, groups.get(controller, groups.get("", "/"))))


def walk_upwards(mount: str, group: str) -> Iterator[str]:
    """The folder of a control group, then of each one above it, the mount last."""
    while group.strip("/"):
        yield f"{mount}{group.rstrip('/')}"
        group = group.rstrip("/").rpartition("/")[0]
    yield mount


def _limit_v2(reader: Reader, folder: str) -> Quota | None:
    path = f"{folder}/cpu.max"
    content = read_line(reader, path)  # the root group has none
    cpus = None if content is ABSENT else derive(content, path, parse_cpu_max)
    return None if cpus is None else Quota(cpus, path)


def _limit_v1(reader: Reader, folder: str) -> Quota | None:
    quota = if_absent(read_integer(reader, f"{folder}/cpu.cfs_quota_us"), -1)
    # -1: no limit
    period = if_absent(read_integer(reader, f"{folder}/cpu.cfs_period_us"), 0) if quota > 0 else 0
    return Quota(quota / period, f"{folder}/cpu.cfs_quota_us") if period > 0 else None
