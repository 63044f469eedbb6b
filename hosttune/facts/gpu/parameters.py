"""Parameters of the NVIDIA kernel modules: those in force, and the files that set them at the next load.

Sources: modprobe.d(5) (files of all folders in one order by name, a name in /etc hides the same name elsewhere; options
add up, and of one given twice the kernel keeps the last), /proc/driver/nvidia/params (NVIDIA's README; names there lack
the NVreg_ of the parameter, and RestrictProfilingToAdminUsers is called RmProfilingAdminOnly),
/sys/module/MODULE/parameters (kernel: Documentation/ABI/stable/sysfs-module).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, unread
from hosttune.facts.reading import drop_ins, text
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
_LIVE = "/proc/driver/nvidia/params"
_ALIASES = {"NVreg_RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
_OURS = regex(r"nvidia(?:[-_](?:uvm|drm|modeset|peermem))?")


@frozen
class ModuleOption(Fact):
    """One parameter as a file sets it."""

    module: str  # nvidia, nvidia_uvm, nvidia_drm ...
    key: str  # NVreg_RestrictProfilingToAdminUsers
    value: str
    path: str
    live: str  # what is in force; empty where the driver does not tell
    wins: bool  # no later file sets the same parameter

    @property
    def is_in_force(self) -> bool:
        """True also where the driver does not tell."""
        return not self.live or same_value(self.value, self.live)

    @property
    def shown(self) -> str:
        return f"{self.module} {self.key}={self.value} ({self.path})"


@frozen
class Parameters(Fact):
    """Parameters of the nvidia modules."""

    is_loaded: bool  # /proc/driver/nvidia/params is there
    options: tuple[ModuleOption, ...]  # in the order in which modprobe reads them
    profiling_for_admins_only: bool
    relaxed_ordering: bool  # EnablePCIERelaxedOrderingMode
    gpu_firmware: int  # EnableGpuFirmware: 0 is off, 18 the default
    coherent_memory: str  # CoherentGPUMemoryMode: driver, numa; empty for the default
    hmm: bool  # the uvm module lets GPUs use any memory of a process (Heterogeneous Memory Management)

    @property
    def not_in_force(self) -> tuple[str, ...]:
        """What files say and the loaded module does not do."""
        return tuple(
            f"{one.shown} is {one.live} in the loaded module"
            for one in self.options
            if one.wins and not one.is_in_force
        )

    @property
    def overruled(self) -> tuple[str, ...]:
        """What a later file says otherwise."""
        winners = {(one.module, one.key): one for one in self.options if one.wins}
        return tuple(
            f"{one.shown} is overruled by {winners[one.module, one.key].path} ({winners[one.module, one.key].value})"
            for one in self.options
            if not one.wins and not same_value(one.value, winners[one.module, one.key].value)
        )


def parse_params(content: str) -> Mapping[str, str]:
    """/proc/driver/nvidia/params: `Name: value` lines, texts in double quotes."""
    pairs = (line.partition(":") for line in content.splitlines())
    return {name.strip(): value.strip().strip('"') for name, colon, value in pairs if colon}


def options_in(content: str) -> tuple[tuple[str, str, str], ...]:
    """(module, key, value) of the `options` lines for the nvidia modules; a backslash joins lines."""
    found = []
    for line in re.sub(r"\\\n", " ", content).splitlines():
        words = line.split("#", 1)[0].split(None, 2) if not line.lstrip().startswith("#") else []
        if len(words) < 3 or words[0] != "options" or not _OURS.fullmatch(words[1]):
            continue
        try:
            parts = shlex.split(words[2])
        except ValueError:
            parts = words[2].split()
        pairs = (part.partition("=") for part in parts)
        found += [(words[1].replace("-", "_"), key, value) for key, equals, value in pairs if equals]
    return tuple(found)


def same_value(spelled: str, live: str) -> bool:
    """Whether a parameter as it is written and as the module shows it are one: 0x1 and 1, 0660 and 432, 1 and Y."""
    one, other = _number(spelled), _number(live)
    if one is not None and other is not None:
        return one % (1 << 32) == other % (1 << 32)
    return spelled.strip('"') == live


def _number(spelled: str) -> int | None:
    """As the kernel's kstrtouint with base 0 reads it; Y and N are 1 and 0."""
    if spelled in {"Y", "y", "N", "n"}:
        return int(spelled in "Yy")
    if re.fullmatch(r"-?0[xX][0-9a-fA-F]+", spelled):
        return int(spelled, 16)
    if re.fullmatch(r"0[0-7]+", spelled):
        return int(spelled, 8)
    return int(spelled) if re.fullmatch(r"0|-?[1-9]\d*", spelled) else None


def collect(reader: Reader, facts: Facts) -> Parameters:  # noqa: ARG001 - the interface of all subjects
    content = text(reader, _LIVE)
    live = parse_params(content) if isinstance(content, str) else {}
    gone: Any = unread(content.reason if isinstance(content, Unreadable) else f"{_LIVE} does not exist")

    def read(name: str, convert: Any) -> Any:
        if not isinstance(content, str):
            return gone
        return convert(live[name]) if name in live else unread(f"{_LIVE} does not name {name}")

    hmm_off = text(reader, "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm")
    return Parameters(
        is_loaded=isinstance(content, str) if not isinstance(content, Unreadable) else gone,
        options=_options(reader, live),
        profiling_for_admins_only=read("RmProfilingAdminOnly", _flag),
        relaxed_ordering=read("EnablePCIERelaxedOrderingMode", _flag),
        gpu_firmware=read("EnableGpuFirmware", lambda spelled: _number(spelled) or 0),
        coherent_memory=read("CoherentGPUMemoryMode", str),
        hmm=hmm_off.strip() in {"N", "0"}
        if isinstance(hmm_off, str)
        else unread("the nvidia_uvm module does not tell"),
    )


def _flag(spelled: str) -> bool:
    return _number(spelled) != 0


def _options(reader: Reader, live: Mapping[str, str]) -> Any:
    files = drop_ins(reader, FOLDERS)
    if isinstance(files, Unreadable):
        return files
    said: list[tuple[str, str, str, str]] = []
    for path in files:
        content = text(reader, path)
        if isinstance(content, Unreadable):
            return content
        said += [(*one, path) for one in options_in(content if isinstance(content, str) else "")]
    last = {(module, key): number for number, (module, key, _, _) in enumerate(said)}
    return tuple(
        ModuleOption(module, key, value, path, _live(reader, live, module, key), last[module, key] == number)
        for number, (module, key, value, path) in enumerate(said)
    )


def _live(reader: Reader, live: Mapping[str, str], module: str, key: str) -> Any:
    if module == "nvidia":
        name = _ALIASES.get(key, key.removeprefix("NVreg_"))
        return live.get(name, "")
    value = text(reader, f"/sys/module/{module}/parameters/{key}")
    if isinstance(value, Unreadable):
        return value
    return "" if value is ABSENT else str(value).strip()
