"""What the active TuneD profile sets (tuned-main.conf(5), tuned.conf(5)), from its files: no
program is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.kernel.sysctl import normal_key
from hosttune.facts.reading import if_absent, read_line, read_text
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.host.door import Reader

# 2.23 moved the profiles into folders of their own; an administrator's come first.
_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_SEPARATORS = regex(r"[\s,;]+")
# Also behind a value, unlike in files of systemd (TuneD, profiles/loader.py).
_ASIDE = regex(r"(?:^|\s)#.*")
# plugin -> option -> the files below /sys that it sets, as a pattern (TuneD's plugins cpu, disk and
# vm)
_CPUFREQ = "/sys/devices/system/cpu/cpu*/cpufreq"
_LATENCY = "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"
_OF_PLUGINS = frozenset({"type", "replace", "priority", "enabled"})
_THP = "/sys/kernel/mm/transparent_hugepage"
_SYSFS = {
    "cpu": {
        "governor": f"{_CPUFREQ}/scaling_governor",
        "energy_performance_preference": f"{_CPUFREQ}/energy_performance_preference",
        "no_turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "min_perf_pct": "/sys/devices/system/cpu/intel_pstate/min_perf_pct",
        "max_perf_pct": "/sys/devices/system/cpu/intel_pstate/max_perf_pct",
        "force_latency": _LATENCY,  # by way of /dev/cpu_dma_latency, for all processors at once
        "pm_qos_resume_latency_us": _LATENCY,
    },
    "disk": {
        "elevator": "/sys/block/*/queue/scheduler",
        "readahead": "/sys/block/*/queue/read_ahead_kb",
    },
    "vm": {
        "transparent_hugepages": f"{_THP}/enabled",
        "transparent_hugepage": f"{_THP}/enabled",
        "transparent_hugepage.defrag": f"{_THP}/defrag",
    },
}


@frozen
class TunedProfile:
    """One tuned.conf: what it includes, the sysctls and the files below /sys (as patterns) that it
    sets, with the values as they stand there: `>4096`, `performance|powersave` and `${variable}`
    are TuneD's own words.
    """

    includes: tuple[str, ...]
    sysctls: Mapping[str, str]
    sysfs: Mapping[str, str]


def parse_profile(content: str) -> TunedProfile:
    """Sections are named by plugin; `type=` lets a section have a name of its own."""
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in content.splitlines():
        row = _ASIDE.sub("", line).strip()
        if row.startswith("[") and row.endswith("]"):
            section = sections.setdefault(row[1:-1].strip(), {})
        elif row and not row.startswith(";"):
            key, equals, value = row.partition("=")
            if equals:
                section[key.strip()] = value.strip().strip("\"'")
    sysctls: dict[str, str] = {}
    sysfs: dict[str, str] = {}
    for name, values in sections.items():
        plugin = values.get("type", name)
        sysfs |= {
            pattern: values[key] for key, pattern in _SYSFS.get(plugin, {}).items() if key in values
        }
        if plugin == "sysfs":
            sysfs |= {key: value for key, value in values.items() if key.startswith("/")}
        if plugin == "sysctl":
            sysctls |= {
                normal_key(key): value for key, value in values.items() if key not in _OF_PLUGINS
            }
        elif plugin == "vm":  # the vm plugin sets the dirty_ family under /proc/sys/vm
            sysctls |= {
                f"vm.{key}": value for key, value in values.items() if key.startswith("dirty_")
            }
    includes = sections.get("main", {}).get("include", "")
    names = tuple(name.lstrip("-") for name in _SEPARATORS.split(includes) if name)
    return TunedProfile(names, sysctls, sysfs)


def active_profile(reader: Reader) -> str:
    """The name of the active profile; several names, parted by a blank, are merged profiles; empty
    for none.
    """
    return if_absent(read_line(reader, "/etc/tuned/active_profile"), "")


def settings_of(reader: Reader, names: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """(sysctls, patterns of files below /sys) that these profiles and all that they include set,
    each with its value, sorted; unknown when one cannot be found. A profile has the last word over
    what it includes, and of merged ones the last.
    """
    keys: dict[str, str] = {}
    files: dict[str, str] = {}
    seen: set[str] = set()
    waiting = names.split()
    while waiting:
        # A stack: the last profile that is named goes first, and each before what it includes. The
        # first word on a key stays, so it has the last one in TuneD.
        name = waiting.pop()
        # Profiles that include each other would go on without end.
        if name in seen:
            continue
        seen.add(name)
        profile = parse_profile(_read_content(reader, name))
        for key, value in profile.sysctls.items():
            keys.setdefault(key, value)
        for pattern, value in profile.sysfs.items():
            files.setdefault(pattern, value)
        waiting.extend(profile.includes)
    return dict(sorted(keys.items())), dict(sorted(files.items()))


def _read_content(reader: Reader, name: str) -> str:
    for folder in _FOLDERS:
        if (content := read_text(reader, f"{folder}/{name}/tuned.conf")) is not ABSENT:
            return content
    raise UnknownFact(f"the TuneD profile {name} has no tuned.conf")
