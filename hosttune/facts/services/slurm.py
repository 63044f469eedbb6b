"""What Slurm's files say of this node, to be compared with the machine: slurmctld refuses a node that has less.

slurm.conf(5) (NodeName, RealMemory, TmpDisk, TmpFS, HealthCheckProgram, PropagateResourceLimits), gres.conf(5),
cgroup.conf(5), which lie beside it; src/slurmctld/node_mgr.c (validate_node_specs) for what is compared, and
src/slurmd/slurmd/get_mach_stat.c for how slurmd measures it. The files are those of this host: the controller's own may
differ, and count once it has read them.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, keep_known, lazy, make_shared
from hosttune.facts.reading import if_absent, is_there, make_unknown, parse_or_unknown, read_text
from hosttune.facts.slurm_conf import (
    CONFIGLESS,
    SLURM_CONF,
    SlurmRow,
    hosts_in,
    names_host,
    settings_of,
    slurm_rows,
    with_defaults,
)
from hosttune.facts.storage.mounts import mount_of
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_MOST_DEVICES = 256
_PART = regex(r"(?:[^,(]|\([^)]*\)?)+")  # commas in braces part nothing
_AMOUNT = regex(r"(\d+)([kKmMgGtTpP]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_MIG = regex(r"(?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb(?:[+.]\w{1,20})?")
_BOUND = regex(r"(?:--within[ =]|\btimeout(?: -\S+){0,8} )(\d+)(s|m|)\b")
_REG_MEM = regex(r"node_reg_mem_percent=(\d+(?:\.\d+)?)", re.IGNORECASE)
_ASIDE = regex(r"#.*")
_CLOUD_PERCENT = 90.0  # DEFAULT_CLOUD_REG_MEM_PERCENT of node_mgr.c
_MIB = 1 << 20
_PACKAGES = ("slurmd", "slurm-smd-slurmd")  # of Ubuntu and Debian, and of SchedMD
_FALLS_BACK = "24.05.5"  # from this version on it also loads libnvidia-ml.so.1 (CHANGELOG/slurm-24.05.md)
_OPTIONS = {"-f": "file", "-N": "name", "--conf-server": "server", "-Z": "dynamic", "-F": "dynamic"}  # of slurmd(8)
_OF_CPUS = ("cpus", "procs", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore")


@frozen
class Slurm(Fact):
    """This node as Slurm's files have it. A number is 0 where they ask for nothing."""

    conf: str  # the slurm.conf that slurmd reads
    node: str  # what Slurm calls this host; empty for a node that the controller learns of when it comes up (slurmd -Z)
    names: str  # NodeName of its line: gpu[01-16]
    place: str  # of that line, FILE:LINE
    cpus: int  # CPUs, or what Sockets, CoresPerSocket and ThreadsPerCore make
    real_memory_mib: int  # RealMemory of this node, in MiB; 0 where it is not set
    memory_mib: int  # what slurmd reports
    memory_percent: float  # of RealMemory that is enough: node_reg_mem_percent
    tmp_disk_mib: int  # TmpDisk of this node, in MiB; 0 where it is not set
    tmp_fs: str  # /tmp unless set
    spool: str  # SlurmdSpoolDir: state of slurmd, and the scripts of jobs
    state: str  # StateSaveLocation, of the controller
    tmp_fs_mib: int  # the size of its file system, as slurmd reports it
    gpus: int  # of Gres
    has_mig_types: bool  # they are parts of GPUs (1g.10gb)
    missing_mig: tuple[str, ...]  # `Gres has 4 of 1g.10gb, and there are 3`, for each profile that is short
    is_overridden: bool  # config_overrides: nothing of all that is compared
    gres_conf: str  # its path
    has_gpu_devices: bool  # gres.conf names the device files of GPUs, or lets slurmd look for them (AutoDetect)
    wants_plain_nvml: bool  # it looks for GPUs by libnvidia-ml.so alone: AutoDetect=nvml before 24.05.5
    missing_devices: tuple[str, ...]  # files that gres.conf names for this node and that are not there
    is_shared: bool  # several jobs can run here at once
    unconstrained: tuple[str, ...]  # of ConstrainDevices, ConstrainRAMSpace, ConstrainCores those that are not in force
    uses_cgroups: bool  # TaskPlugin names task/cgroup, without which cgroup.conf binds no one
    health_program: str  # empty for none
    health_interval_s: int  # 0: it does not run again
    health_bound_s: int  # the longest time that this program, a script, gives what it starts; 0 where it names none
    propagated: tuple[str, ...]  # of MEMLOCK and NOFILE what jobs take along from where they were submitted

    @property
    def least_memory_mib(self) -> float:
        """What slurmd has to report at least."""
        return self.real_memory_mib * self.memory_percent / 100

    @property
    def safe_memory_mib(self) -> int:
        """A RealMemory that the next kernel, or crashkernel=, does not make too much: 1 % less than there is now."""
        return self.memory_mib * 99 // 100


def gpus_of(gres: str) -> tuple[int, bool]:
    """(how many GPUs, are they parts of some) that a Gres asks for: gpu:a100:4(S:0-1),shard:8 has 4."""
    count, is_mig = 0, False
    for part in _PART.findall(gres):
        words = part.partition("(")[0].strip().split(":")
        if words[0].lower() != "gpu":
            continue
        amount = _AMOUNT.fullmatch(words[-1]) if len(words) > 1 else None
        count += int(amount[1]) * _UNITS[amount[2].lower()] if amount else 1
        is_mig = is_mig or any(_MIG.search(word.lower()) for word in words[1:])
    return count, is_mig


def mig_of(gres: str) -> Mapping[str, int]:
    """By profile how many MIG devices a Gres asks for: gpu:1g.10gb:4 has 4 of 1g.10gb."""
    found: dict[str, int] = {}
    for part in _PART.findall(gres):
        words = part.partition("(")[0].strip().lower().split(":")
        profile = _MIG.search(":".join(words[1:])) if words[0] == "gpu" else None
        if profile:
            found[profile[0]] = found.get(profile[0], 0) + gpus_of(part)[0]
    return found


def short_of(wanted: Mapping[str, int], profiles: Sequence[str] | None) -> tuple[str, ...]:
    """A sentence for each profile of which there are fewer. In Slurm a type fits a device whose name holds it."""
    if profiles is None:
        return ()
    # nvidia-smi's 1g.10gb+me is 1g.10gb.me where a name may have no plus, as in Kubernetes.
    names = [one.lower().replace("+", ".") for one in profiles]
    counts = {name: sum(name.replace("+", ".") in one for one in names) for name in wanted}
    return tuple(
        f"Gres has {count} of {name}, and there are {counts[name]}"
        for name, count in wanted.items()
        if counts[name] < count
    )


def cpus_of(values: Mapping[str, str]) -> int:
    """The processors that a node's line asks for. Raises ValueError for a number that is none."""
    numbers = {key: _parse_number(values[key]) for key in _OF_CPUS if key in values}
    cpus = numbers.get("cpus", numbers.get("procs", 0))
    sockets = numbers.get("sockets", numbers.get("boards", 1) * numbers.get("socketsperboard", 0))
    if not sockets and cpus:
        return cpus  # they tell the sockets
    given = {"sockets", "socketsperboard", "corespersocket", "threadspercore"} & numbers.keys()
    made = max(sockets, 1) * numbers.get("corespersocket", 1) * numbers.get("threadspercore", 1) if given else 0
    return max(cpus, made)


def _parse_number(word: str) -> int:
    number = parse_digits(word, -1)
    if number < 0:
        raise ValueError(f"slurm.conf says {word[:40]!r} where a number stands")
    return number


class _SlurmFiles:
    """The files of this node, each read when it is first asked for. Raises UnknownFact where one cannot be read."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.facts = facts
        self.arguments = make_shared(self._arguments)
        self.conf = make_shared(self._conf)
        self.rows = make_shared(lambda: tuple(slurm_rows(self.conf(), self._content)))
        self.settings = make_shared(lambda: settings_of(self.rows()))
        self.line = make_shared(self._line)
        self.gres_conf = make_shared(lambda: f"{posixpath.dirname(self.conf())}/gres.conf")
        self.gres = make_shared(lambda: tuple(slurm_rows(self.gres_conf(), self._content)))
        self.cgroup = make_shared(
            lambda: settings_of(slurm_rows(f"{posixpath.dirname(self.conf())}/cgroup.conf", self._content))
        )
        self.own_gres = make_shared(self._own_gres)

    def _content(self, path: str) -> str:
        return if_absent(read_text(self.reader, path), "")

    def _arguments(self) -> Mapping[str, str]:
        """The options of slurmd that name a file or the node; of one that does not run there are none."""
        commands = self.facts.processes["slurmd"].commands
        words = commands[0].split() if commands else []
        found = {}
        for word, following in zip(words, [*words[1:], ""], strict=False):
            name, equals, value = word.partition("=")
            if name in _OPTIONS:
                found[_OPTIONS[name]] = value if equals else following
            elif word[:2] in _OPTIONS and len(word) > 2 and word[1] != "-":
                found[_OPTIONS[word[:2]]] = word[2:]
        return found

    def _conf(self) -> str:
        """The file that slurmd was given, or has from the controller, else the first of the usual ones."""
        options = self.arguments()
        places = (
            (options["file"],) if "file" in options else (*(CONFIGLESS if "server" in options else ()), *SLURM_CONF)
        )
        found = next((path for path in places if self.reader.stat(path) is not ABSENT), "")
        if not found:
            raise UnknownFact(f"no slurm.conf was found ({', '.join(places[:2])} ...)")
        return found

    def setting(self, key: str, otherwise: str = "") -> str:
        return self.settings().get(key.lower(), otherwise)

    def has(self, key: str, word: str) -> bool:
        """Whether a list of words holds one, in any case."""
        return word in (one.strip().partition("=")[0] for one in self.setting(key).lower().split(","))

    def _line(self) -> tuple[str, SlurmRow | None]:
        """What Slurm calls this host, and its line; none for a node without one."""
        options = self.arguments()
        short = options.get("name") or self.facts.host.hostname.partition(".")[0]
        for row in with_defaults(self.rows(), "nodename"):
            if name := parse_or_unknown(_name_in, row, short, self.facts.host.hostname):
                return name, row
        if "dynamic" in options:
            return "", None
        raise UnknownFact(f"{self.conf()} names no node {short}")

    def value(self, key: str) -> str:
        """What the line of this node says."""
        row = self.line()[1]
        return row.values.get(key, "") if row else ""

    def number(self, key: str) -> int:
        return parse_or_unknown(_parse_number, self.value(key) or "0")

    def _own_gres(self) -> tuple[SlurmRow, ...]:
        """The lines of gres.conf that are about this node, or all."""
        name = self.line()[0]
        return tuple(row for row in self.gres() if parse_or_unknown(_is_about, row, name))

    def autodetect(self) -> str:
        rows = self.own_gres()
        auto = [row.values["autodetect"].lower() for row in rows if "autodetect" in row.values]
        ours = [row.values["autodetect"].lower() for row in rows if {"autodetect", "nodename"} <= row.values.keys()]
        return (ours or auto or ["off"])[-1]

    def names_gpus(self) -> bool:
        return any(row.values.get("name", "").lower() == "gpu" and _devices_of(row) for row in self.own_gres())

    def has_gpu_devices(self) -> bool:
        return self.names_gpus() or self.autodetect() != "off" or "dynamic" in self.arguments()

    def wants_plain_nvml(self) -> bool:
        """Of a slurmd that no package brought the version is not known, and nothing is claimed."""
        if self.autodetect() != "nvml" or self.names_gpus():
            return False
        packages = self.facts.packages
        versions = [packages[name].version for name in _PACKAGES if packages[name].is_brought]
        return bool(versions) and all(compare_versions(one, _FALLS_BACK) < 0 for one in versions)

    def missing_devices(self) -> tuple[str, ...]:
        named = (_devices_of(row) for row in self.own_gres())
        files = [path for one in named if one for path in parse_or_unknown(hosts_in, one)]
        return keep_known(
            lambda path: () if is_there(self.reader, path) else (path,), dict.fromkeys(files[:_MOST_DEVICES])
        )

    def is_shared(self) -> bool:
        if "linear" in self.setting("SelectType"):
            return False
        partitions = with_defaults(self.rows(), "partitionname")
        shares = {row.values.get("oversubscribe", row.values.get("shared", "")).upper() for row in partitions}
        return shares != {"EXCLUSIVE"}

    def uses_cgroups(self) -> bool:
        return "cgroup" in self.setting("TaskPlugin").lower()

    def list_unconstrained(self) -> tuple[str, ...]:
        in_force = (
            {key for key, value in self.cgroup().items() if value.lower() == "yes"} if self.uses_cgroups() else ()
        )
        memory = "constrainramspace" in in_force or "constrainswapspace" in in_force
        memory = memory and "memory" in self.setting("SelectTypeParameters").lower()
        is_there = {
            "ConstrainDevices": "constraindevices" in in_force, "ConstrainRAMSpace": memory,
            "ConstrainCores": "constraincores" in in_force,
        }  # fmt: skip
        return tuple(key for key, there in is_there.items() if not there)

    def health_program(self) -> str:
        program = self.setting("HealthCheckProgram")
        return "" if program.lower() in {"", "(null)"} else program

    def health_bound_s(self) -> int:
        """Of a script in text: `--within 40s`, `timeout 90`."""
        if not (program := self.health_program()):
            return 0
        script = "\n".join(_ASIDE.sub("", row) for row in self._content(program)[: 1 << 16].splitlines())
        bounds = (int(number) * (60 if unit == "m" else 1) for number, unit in _BOUND.findall(script))
        return max(bounds, default=0)

    def list_propagated(self) -> tuple[str, ...]:
        names = ("MEMLOCK", "NOFILE")
        excepted = self.setting("PropagateResourceLimitsExcept").upper().replace(" ", "").split(",")
        if excepted != [""]:
            return tuple(name for name in names if name not in excepted and "ALL" not in excepted)
        listed = self.setting("PropagateResourceLimits", "ALL").upper().replace(" ", "").split(",")
        return tuple(name for name in names if name in listed or "ALL" in listed)

    def spool(self) -> str:
        """%h is the name of the host, %n what Slurm calls it."""
        path, host = self.setting("SlurmdSpoolDir", "/var/spool/slurmd"), self.facts.host.hostname.partition(".")[0]
        return path.replace("%h", host).replace("%n", self.line()[0] if "%n" in path else host)

    def memory_percent(self) -> float:
        if percent := _REG_MEM.search(self.setting("SlurmctldParameters")):
            return float(percent[1])
        return _CLOUD_PERCENT if "CLOUD" in self.value("state").upper() else 100.0

    def tmp_fs_mib(self) -> int:
        """Blocks of its file system, as statvfs(3) has them."""
        path = self.setting("TmpFS", "/tmp")
        mount = mount_of(self.facts.mounts.visible, path)
        if mount is None:
            raise make_unknown(self.reader, f"no file system holds {path}")
        if mount.is_network:
            raise UnknownFact(f"{path} (TmpFS) is on the network, where its size is not asked")
        return mount.total_bytes // _MIB


def _name_in(row: SlurmRow, short: str, full: str) -> str:
    """What a line calls this host; empty where it is about others."""
    names, hosts = row.values["nodename"], row.values.get("nodehostname", "")
    if not hosts:
        return next((name for name in (short, full) if names_host(names, name)), "")
    if short in (listed := hosts_in(names)):
        return short
    of_hosts = zip(listed, hosts_in(hosts), strict=False)
    return next((name for name, host in of_hosts if host in {short, full}), "")


def _is_about(row: SlurmRow, name: str) -> bool:
    return "nodename" not in row.values or names_host(row.values["nodename"], name)


def _devices_of(row: SlurmRow) -> str:
    return row.values.get("file", row.values.get("multiplefiles", ""))


def collect(reader: Reader, facts: Facts) -> Slurm:
    files = _SlurmFiles(reader, facts)
    row: Callable[[], SlurmRow | None] = lambda: files.line()[1]  # noqa: E731 - as short as it is
    gpus = make_shared(lambda: gpus_of(files.value("gres")))
    return Slurm(
        conf=lazy(files.conf),
        node=lazy(lambda: files.line()[0]),
        names=lazy(files.value, "nodename"),
        place=lazy(lambda: getattr(row(), "place", "")),
        cpus=lazy(lambda: parse_or_unknown(cpus_of, getattr(row(), "values", {}))),
        real_memory_mib=lazy(files.number, "realmemory"),
        memory_mib=lazy(lambda: (facts.memory.total_bytes + facts.memory.gpu_bytes) // _MIB),
        memory_percent=lazy(files.memory_percent),
        tmp_disk_mib=lazy(files.number, "tmpdisk"),
        tmp_fs=lazy(files.setting, "TmpFS", "/tmp"),
        spool=lazy(files.spool),
        state=lazy(files.setting, "StateSaveLocation", "/var/spool"),
        tmp_fs_mib=lazy(files.tmp_fs_mib),
        gpus=lazy(lambda: gpus()[0]),
        has_mig_types=lazy(lambda: gpus()[1]),
        missing_mig=lazy(
            lambda: short_of(wanted, facts.health.mig_profiles) if (wanted := mig_of(files.value("gres"))) else ()
        ),
        is_overridden=lazy(files.has, "SlurmdParameters", "config_overrides"),
        gres_conf=lazy(files.gres_conf),
        has_gpu_devices=lazy(files.has_gpu_devices),
        wants_plain_nvml=lazy(files.wants_plain_nvml),
        missing_devices=lazy(files.missing_devices),
        is_shared=lazy(files.is_shared),
        unconstrained=lazy(files.list_unconstrained),
        uses_cgroups=lazy(files.uses_cgroups),
        health_program=lazy(files.health_program),
        health_interval_s=lazy(lambda: parse_or_unknown(_parse_number, files.setting("HealthCheckInterval", "0"))),
        health_bound_s=lazy(files.health_bound_s),
        propagated=lazy(files.list_propagated),
    )
