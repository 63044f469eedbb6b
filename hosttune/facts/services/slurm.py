"""What Slurm's files say of this node, to be compared with the machine: slurmctld refuses a node
that has less.

slurm.conf(5) (NodeName, RealMemory, TmpDisk, TmpFS, HealthCheckProgram, PropagateResourceLimits),
gres.conf(5), cgroup.conf(5), which lie beside it; src/slurmctld/node_mgr.c (validate_node_specs)
for what is compared, and src/slurmd/slurmd/get_mach_stat.c for how slurmd measures it. The files
are those of this host: the controller's own may differ, and count once it has read them.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, keep_known
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
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
# from this version on it also loads libnvidia-ml.so.1 (CHANGELOG/slurm-24.05.md)
_FALLS_BACK = "24.05.5"
# of slurmd(8)
_OPTIONS = {"-f": "file", "-N": "name", "--conf-server": "server", "-Z": "dynamic", "-F": "dynamic"}
_OF_CPUS = (
    "cpus",
    "procs",
    "boards",
    "sockets",
    "socketsperboard",
    "corespersocket",
    "threadspercore",
)


@frozen
class Slurm(Subject):
    """This node as Slurm's files have it. A number is 0 where they ask for nothing."""

    @fact
    def conf(self) -> str:
        """The slurm.conf that slurmd reads: that which it was given, or has from the controller,
        else the first of the usual ones.
        """
        found = self._found_conf
        if not found:
            raise UnknownFact(f"no slurm.conf was found ({', '.join(self._places[:2])} ...)")
        return found

    @fact
    def names_host(self) -> bool:
        """There is such a file, and a line of this host in it, or slurmd needs none (-Z)."""
        return bool(self._found_conf) and self._found_line is not None

    @fact
    def node(self) -> str:
        """What Slurm calls this host; empty for a node that the controller learns of when it comes
        up (slurmd -Z).
        """
        return self._line[0]

    @fact
    def names(self) -> str:
        """NodeName of its line: gpu[01-16]."""
        return self._value_of("nodename")

    @fact
    def place(self) -> str:
        """Of that line, FILE:LINE."""
        row = self._line[1]
        return row.place if row else ""

    @fact
    def cpus(self) -> int:
        """CPUs, or what Sockets, CoresPerSocket and ThreadsPerCore make."""
        row = self._line[1]
        return parse_or_unknown(cpus_of, row.values if row else {})

    @fact
    def real_memory_mib(self) -> int:
        """RealMemory of this node, in MiB; 0 where it is not set."""
        return parse_or_unknown(_parse_number, self._value_of("realmemory") or "0")

    # what slurmd reports
    memory_mib: int = read_with(
        lambda self: (self.facts.memory.total_bytes + self.facts.memory.gpu_bytes) // _MIB
    )

    @fact
    def memory_percent(self) -> float:
        """Of RealMemory that is enough: node_reg_mem_percent."""
        if percent := _REG_MEM.search(self._setting("SlurmctldParameters")):
            return float(percent[1])
        return _CLOUD_PERCENT if "CLOUD" in self._value_of("state").upper() else 100.0

    @fact
    def tmp_disk_mib(self) -> int:
        """TmpDisk of this node, in MiB; 0 where it is not set."""
        return parse_or_unknown(_parse_number, self._value_of("tmpdisk") or "0")

    @fact
    def tmp_fs(self) -> str:
        """/tmp unless set."""
        return self._setting("TmpFS", "/tmp")

    @fact
    def spool(self) -> str:
        """SlurmdSpoolDir: state of slurmd, and the scripts of jobs.

        %h in it is the name of the host, %n what Slurm calls it.
        """
        path, host = (
            self._setting("SlurmdSpoolDir", "/var/spool/slurmd"),
            self.facts.host.hostname.partition(".")[0],
        )
        return path.replace("%h", host).replace("%n", self.node if "%n" in path else host)

    @fact
    def state(self) -> str:
        """StateSaveLocation, of the controller."""
        return self._setting("StateSaveLocation", "/var/spool")

    @fact
    def tmp_fs_mib(self) -> int:
        """The size of its file system, as slurmd reports it: blocks, as statvfs(3) has them."""
        path = self.tmp_fs
        mount = mount_of(self.facts.mounts.visible, path)
        if mount is None:
            raise make_unknown(self.reader, f"no file system holds {path}")
        if mount.is_network:
            raise UnknownFact(f"{path} (TmpFS) is on the network, where its size is not asked")
        return mount.total_bytes // _MIB

    @fact
    def gpus(self) -> int:
        """Of Gres."""
        return gpus_of(self._value_of("gres"))[0]

    @fact
    def has_mig_types(self) -> bool:
        """They are parts of GPUs (1g.10gb)."""
        return gpus_of(self._value_of("gres"))[1]

    @fact
    def missing_mig(self) -> tuple[str, ...]:
        """`Gres has 4 of 1g.10gb, and there are 3`, for each profile that is short."""
        wanted = mig_of(self._value_of("gres"))
        return short_of(wanted, self.facts.health.mig_profiles) if wanted else ()

    @fact
    def is_overridden(self) -> bool:
        """config_overrides: nothing of all that is compared."""
        words = self._setting("SlurmdParameters").lower().split(",")
        return "config_overrides" in (one.strip().partition("=")[0] for one in words)

    @fact
    def gres_conf(self) -> str:
        """Its path."""
        return f"{posixpath.dirname(self.conf)}/gres.conf"

    @fact
    def has_gpu_devices(self) -> bool:
        """gres.conf names the device files of GPUs, or lets slurmd look for them (AutoDetect)."""
        return self._names_gpus or self._autodetect != "off" or "dynamic" in self._arguments

    @fact
    def wants_plain_nvml(self) -> bool:
        """It looks for GPUs by libnvidia-ml.so only: AutoDetect=nvml before 24.05.5.

        Of a slurmd that no package brought the version is not known, and nothing is claimed.
        """
        if self._autodetect != "nvml" or self._names_gpus:
            return False
        packages = self.facts.packages
        versions = [packages[name].version for name in _PACKAGES if packages[name].is_brought]
        return bool(versions) and all(compare_versions(one, _FALLS_BACK) < 0 for one in versions)

    @fact
    def missing_devices(self) -> tuple[str, ...]:
        """Files that gres.conf names for this node and that are not there."""
        named = (_devices_of(row) for row in self._own_gres)
        files = [path for one in named if one for path in parse_or_unknown(hosts_in, one)]
        looked_for = dict.fromkeys(files[:_MOST_DEVICES])
        return keep_known(lambda path: () if is_there(self.reader, path) else (path,), looked_for)

    @fact
    def is_shared(self) -> bool:
        """Several jobs can run here at once."""
        if "linear" in self._setting("SelectType"):
            return False
        partitions = with_defaults(self._rows, "partitionname")
        shares = {
            row.values.get("oversubscribe", row.values.get("shared", "")).upper()
            for row in partitions
        }
        return shares != {"EXCLUSIVE"}

    @fact
    def unconstrained(self) -> tuple[str, ...]:
        """Of ConstrainDevices, ConstrainRAMSpace, ConstrainCores those that are not in force."""
        in_force = set()
        if self.uses_cgroups:
            cgroup = settings_of(
                slurm_rows(f"{posixpath.dirname(self.conf)}/cgroup.conf", self._read_content)
            )
            in_force = {key for key, value in cgroup.items() if value.lower() == "yes"}
        memory = "constrainramspace" in in_force or "constrainswapspace" in in_force
        memory = memory and "memory" in self._setting("SelectTypeParameters").lower()
        is_there = {
            "ConstrainDevices": "constraindevices" in in_force, "ConstrainRAMSpace": memory,
            "ConstrainCores": "constraincores" in in_force,
        }  # fmt: skip
        return tuple(key for key, there in is_there.items() if not there)

    @fact
    def uses_cgroups(self) -> bool:
        """TaskPlugin names task/cgroup, without which cgroup.conf binds no one."""
        return "cgroup" in self._setting("TaskPlugin").lower()

    @fact
    def uses_munge(self) -> bool:
        """Its daemons trust each other by munge: AuthType, unless set."""
        return "munge" in self._setting("AuthType", "auth/munge")

    @fact
    def health_program(self) -> str:
        """Empty for none."""
        program = self._setting("HealthCheckProgram")
        return "" if program.lower() in {"", "(null)"} else program

    @fact
    def health_interval_s(self) -> int:
        """0: it does not run again."""
        return parse_or_unknown(_parse_number, self._setting("HealthCheckInterval", "0"))

    @fact
    def health_bound_s(self) -> int:
        """The longest time that this program, a script, gives what it starts (`--within 40s`,
        `timeout 90`); 0 where it names none.
        """
        if not self.health_program:
            return 0
        script = self._read_content(self.health_program)[: 1 << 16]
        bounds = _BOUND.findall("\n".join(_ASIDE.sub("", row) for row in script.splitlines()))
        return max((int(number) * (60 if unit == "m" else 1) for number, unit in bounds), default=0)

    @fact
    def propagated(self) -> tuple[str, ...]:
        """Of MEMLOCK and NOFILE what jobs take along from where they were submitted."""
        names = ("MEMLOCK", "NOFILE")
        excepted = (
            self._setting("PropagateResourceLimitsExcept").upper().replace(" ", "").split(",")
        )
        if excepted != [""]:
            return tuple(name for name in names if name not in excepted and "ALL" not in excepted)
        listed = self._setting("PropagateResourceLimits", "ALL").upper().replace(" ", "").split(",")
        return tuple(name for name in names if name in listed or "ALL" in listed)

    @fact
    def _arguments(self) -> Mapping[str, str]:
        """The options of slurmd that name a file or the node; of one that does not run there are
        none.
        """
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

    @fact
    def _places(self) -> tuple[str, ...]:
        """Of slurm.conf, the first that is there counts."""
        given = self._arguments
        if "file" in given:
            return (given["file"],)
        return (*(CONFIGLESS if "server" in given else ()), *SLURM_CONF)

    @fact
    def _found_conf(self) -> str:
        """Empty where there is none."""
        return next((path for path in self._places if self.reader.stat(path) is not ABSENT), "")

    @fact
    def _rows(self) -> tuple[SlurmRow, ...]:
        return tuple(slurm_rows(self.conf, self._read_content))

    @fact
    def _settings(self) -> Mapping[str, str]:
        return settings_of(self._rows)

    @fact
    def _line(self) -> tuple[str, SlurmRow | None]:
        """What Slurm calls this host, and its line; none for a node without one."""
        if self._found_line is None:
            raise UnknownFact(f"{self.conf} names no node {self._short}")
        return self._found_line

    @fact
    def _short(self) -> str:
        """The name by which slurmd looks for its line."""
        return self._arguments.get("name") or self.facts.host.hostname.partition(".")[0]

    @fact
    def _found_line(self) -> tuple[str, SlurmRow | None] | None:
        """None for a host that has none and needs one."""
        for row in with_defaults(self._rows, "nodename"):
            if name := parse_or_unknown(_name_in, row, self._short, self.facts.host.hostname):
                return name, row
        return ("", None) if "dynamic" in self._arguments else None

    @fact
    def _own_gres(self) -> tuple[SlurmRow, ...]:
        """The lines of gres.conf that are about this node, or all."""
        # a host that slurm.conf does not name has no line of its own, whatever gres.conf holds
        node = self.node
        rows = slurm_rows(self.gres_conf, self._read_content)
        return tuple(row for row in rows if parse_or_unknown(_is_about, row, node))

    @fact
    def _autodetect(self) -> str:
        rows = [row.values for row in self._own_gres if "autodetect" in row.values]
        ours = [values for values in rows if "nodename" in values]
        return (ours or rows or [{"autodetect": "off"}])[-1]["autodetect"].lower()

    @fact
    def _names_gpus(self) -> bool:
        return any(
            row.values.get("name", "").lower() == "gpu" and _devices_of(row)
            for row in self._own_gres
        )

    def _read_content(self, path: str) -> str:
        return if_absent(read_text(self.reader, path), "")

    def _setting(self, key: str, otherwise: str = "") -> str:
        return self._settings.get(key.lower(), otherwise)

    def _value_of(self, key: str) -> str:
        """What the line of this node says."""
        row = self._line[1]
        return row.values.get(key, "") if row else ""

    @property
    def least_memory_mib(self) -> float:
        """What slurmd has to report at least."""
        return self.real_memory_mib * self.memory_percent / 100

    @property
    def safe_memory_mib(self) -> int:
        """A RealMemory that the next kernel, or crashkernel=, does not make too much: 1 % less than
        there is now.
        """
        return self.memory_mib * 99 // 100


def gpus_of(gres: str) -> tuple[int, bool]:
    """(how many GPUs, are they parts of some) that a Gres asks for: gpu:a100:4(S:0-1),shard:8 has
    4.
    """
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
    """A sentence for each profile of which there are fewer. In Slurm a type fits a device whose
    name holds it.
    """
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
    made = (
        max(sockets, 1) * numbers.get("corespersocket", 1) * numbers.get("threadspercore", 1)
        if given
        else 0
    )
    return max(cpus, made)


def _parse_number(word: str) -> int:
    number = parse_digits(word, -1)
    if number < 0:
        raise ValueError(f"slurm.conf says {word[:40]!r} where a number stands")
    return number


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
