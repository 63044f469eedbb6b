"""Parameters of the NVIDIA kernel modules: those in force, and the files that set them at the next
load.

Sources: those of `module_options`, which knows them for any module, and NVIDIA's README.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy
from hosttune.facts.kernel.initramfs import REBUILD
from hosttune.facts.kernel.module_options import (
    NVIDIA_PARAMS,
    live_value,
    parse_kernel_number,
    parse_params,
    same_value,
)
from hosttune.facts.precedence import MODPROBE, way_over
from hosttune.facts.reading import derive, if_absent, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.kernel.module_options import OptionLine
    from hosttune.host.door import Reader

_OURS = regex(r"nvidia(?:_(?:uvm|drm|modeset|peermem))?")


@frozen
class ModuleOption(Fact):
    """One parameter as a file sets it."""

    module: str  # nvidia, nvidia_uvm, nvidia_drm ...
    key: str  # NVreg_RestrictProfilingToAdminUsers
    value: str  # as the file writes it
    path: str  # the file that sets it
    live: str  # what is in force; empty where the driver does not tell
    wins: bool  # no later file sets the same parameter
    # what a person does so that it counts, where another file sets the same parameter later
    way_over: str

    @property
    def is_in_force(self) -> bool:
        """True also where the driver does not tell."""
        return not self.live or same_value(self.value, self.live)

    @property
    def shown(self) -> str:
        """Module, option, value and file, in one text."""
        return f"{self.module} {self.key}={self.value} ({self.path})"


@frozen
class Parameters(Subject):
    """Parameters of the nvidia modules."""

    # /proc/driver/nvidia/params is there
    is_loaded: bool = read_with(lambda self: read_text(self.reader, NVIDIA_PARAMS) is not ABSENT)

    @fact
    def options(self) -> tuple[ModuleOption, ...]:
        """In the order in which modprobe reads them."""
        options = [one for one in self.facts.module_options.lines if _OURS.fullmatch(one.module)]
        # modprobe hands all lines on, and the kernel takes the last value of a parameter.
        last = {(one.module, one.key): number for number, one in enumerate(options)}
        return tuple(
            ModuleOption(
                module=one.module,
                key=one.key,
                value=one.given.value,
                path=one.given.path,
                live=lazy(_read_live, self.reader, one),
                wins=last[one.module, one.key] == number,
                way_over=lazy(_way_over, one, options[last[one.module, one.key]], self.facts),
            )
            for number, one in enumerate(options)
        )

    @fact
    def profiling_for_admins_only(self) -> bool:
        """Only root may use the performance counters (NVreg_RestrictProfilingToAdminUsers)."""
        return parse_kernel_number(self._read("RmProfilingAdminOnly")) != 0

    @fact
    def nvlink_disabled(self) -> bool:
        """NvLinkDisable."""
        return bool(parse_kernel_number(self._read("NvLinkDisable")))

    @fact
    def relaxed_ordering(self) -> bool:
        """EnablePCIERelaxedOrderingMode."""
        return parse_kernel_number(self._read("EnablePCIERelaxedOrderingMode")) != 0

    @fact
    def gpu_firmware(self) -> int:
        """EnableGpuFirmware: 0 is off, 18 the default."""
        return parse_kernel_number(self._read("EnableGpuFirmware")) or 0

    @fact
    def coherent_memory(self) -> str:
        """CoherentGPUMemoryMode: driver, numa; empty for the default."""
        return self._read("CoherentGPUMemoryMode")

    @fact
    def hmm(self) -> bool:
        """The uvm module lets GPUs use any memory of a process (Heterogeneous Memory
        Management).
        """
        is_off = attempt(
            read_text, self.reader, "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"
        )
        if not isinstance(is_off, str):
            raise UnknownFact("the nvidia_uvm module does not tell")
        return is_off.strip() in {"N", "0"}

    @fact
    def _live(self) -> Mapping[str, str]:
        return derive(read_text(self.reader, NVIDIA_PARAMS), NVIDIA_PARAMS, parse_params)

    def _read(self, name: str) -> str:
        if name not in self._live:
            raise UnknownFact(f"{NVIDIA_PARAMS} does not name {name}")
        return self._live[name]

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
        return tuple(
            f"{one.shown} is overruled by {by.path} ({by.value})" for one, by in self._contested
        )

    @property
    def ways_out(self) -> tuple[str, ...]:
        """What a person does so that it counts, a step each."""
        steps = dict.fromkeys(one.way_over for one, _ in self._contested)
        return (*steps, f"build the initial RAM disk anew: {REBUILD}") if steps else ()

    @property
    def _contested(self) -> tuple[tuple[ModuleOption, ModuleOption], ...]:
        """(option, the later one that says otherwise)."""
        winners = {(one.module, one.key): one for one in self.options if one.wins}
        pairs = ((one, winners[one.module, one.key]) for one in self.options if not one.wins)
        return tuple((one, by) for one, by in pairs if not same_value(one.value, by.value))


def _way_over(option: OptionLine, by: OptionLine, facts: Facts) -> str:
    """An administrator's own two lines need no third one."""
    line = f"`options {option.module} {option.key}={option.given.value}`"
    owners = facts.file_owners
    return (
        "leave one of the two lines"
        if owners[by.given.path].decides
        else way_over(by.given, MODPROBE, owners, line)
    )


def _read_live(reader: Reader, option: OptionLine) -> str:
    return if_absent(live_value(reader, option.module, option.key), "")
