"""Whether a vGPU has its licence, as the driver of the guest says.

Asked of `nvidia-smi -q` on vGPU guests alone: lines below "vGPU Software Licensed Product". An
unlicensed vGPU works as it should for some twenty minutes (Unlicensed (Unrestricted)), and is
slowed down then (Unlicensed (Restricted)): NVIDIA, Virtual GPU Client Licensing User Guide.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.gpu_errors import slot_of
from hosttune.facts.gpu.nvidia import has_gridd
from hosttune.facts.gpu.nvidia_smi import clean_line, describe_failure
from hosttune.facts.gpu.smi_words import is_supported, worst_of
from hosttune.facts.reading import require_known
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Collection

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

QUESTION = ("nvidia-smi", "-q")
_TIMEOUT_S = 30.0
_A_GPU = regex(r"^GPU [0-9A-Fa-f]{4,8}:", re.MULTILINE)
_GPU = regex(r"GPU ([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])$")
_STATUS = regex(r"\s+License Status\s+: (\S.*)")


@frozen
class Licence(Subject):
    """Of the vGPUs of this guest."""

    # Licensed (Expiry: ...), Unlicensed (Restricted) ..., each once; none without a vGPU
    states: tuple[str, ...] = read_with(lambda self: _read_states(self.reader, self.facts))
    # nvidia-gridd, which fetches the licence, is here
    has_daemon: bool = read_with(lambda self: has_gridd(self.reader))
    # the driver pod of the GPU Operator runs that daemon
    is_in_pod: bool = read_with(
        lambda self: self.facts.managers.gpu_operator and not self.facts.driver.is_installed
    )

    @property
    def way_out(self) -> str:
        """What a person does about a missing licence, a step on each line. The driver pod of the
        operator takes token and gridd.conf when it starts, and logs to the host
        (NVIDIA/gpu-operator: assets/state-driver, pull request 2677).
        """
        if self.is_in_pod:
            return (
                "see what keeps it from its licence: sudo journalctl -b -t nvidia-gridd\n"
                "look at what driver.licensingConfig of the ClusterPolicy names (the token, "
                "gridd.conf), a firewall, the clock\n"
                "after a change, drain the node, and delete its driver pod "
                "(nvidia-driver-daemonset-...)"
            )
        if self.has_daemon:
            return (
                "see what keeps it from its licence: sudo journalctl -b -u nvidia-gridd\n"
                "look at the token in /etc/nvidia/ClientConfigToken, the server in "
                "/etc/nvidia/gridd.conf, a firewall, the clock\n"
                "start the daemon anew: sudo systemctl restart nvidia-gridd"
            )
        return (
            "its licence daemon, nvidia-gridd, is not here: install the GRID driver of the "
            "hypervisor or the cloud that brings it (on Azure its NVIDIA GPU Driver Extension, on "
            "AKS a node image that has it)"
        )

    @property
    def is_restricted(self) -> bool:
        """One of them is slowed down."""
        return any(
            not state.startswith("Licensed") and "(Unrestricted)" not in state
            for state in self.states
        )

    @property
    def is_missing(self) -> bool:
        """One of them has no licence, and is not slowed down yet."""
        return any("(Unrestricted)" in state for state in self.states)


def states_in(output: str, slots: Collection[str]) -> tuple[str, ...]:
    """The states in an answer to `QUESTION`, each once; N/A is none: that GPU needs no licence.
    Raises UnknownFact for the word of an error, and for a GPU that comes twice. `slots`: the GPUs
    of this host.

    What comes behind `Processes` has names of programs, which users choose, also over several
    lines: there nothing counts up to the next GPU.
    """
    states: dict[str, None] = {}
    seen: set[str] = set()
    is_of_driver = False
    for line in map(str.rstrip, output.splitlines()):
        if (gpu := _GPU.match(line)) and (slot := slot_of(*gpu.group(1, 2, 3, 4))) in slots:
            if slot in seen:
                raise UnknownFact(
                    f"nvidia-smi tells of the GPU {slot} twice, as the name of a process may have "
                    "it"
                )
            seen.add(slot)
            is_of_driver = True
        elif line.startswith("    Processes"):
            is_of_driver = False
        elif (
            is_of_driver
            and (match := _STATUS.fullmatch(line))
            and is_supported(state := clean_line(match[1]))
        ):
            states[state] = None
    if error := worst_of(states):
        raise UnknownFact(f"nvidia-smi says {error} of a licence")
    return tuple(states)


def _read_states(reader: Reader, facts: Facts) -> tuple[str, ...]:
    if not facts.nvidia.is_vgpu:
        return ()
    if facts.nvidia.smi != "answers":
        raise UnknownFact(facts.nvidia.problem)
    done = require_known(reader.query(QUESTION, timeout_s=_TIMEOUT_S), "nvidia-smi")
    states = states_in(done.text, [gpu.slot for gpu in facts.gpus.devices])
    if not states and (done.status or not _A_GPU.search(done.text)):
        raise UnknownFact(f"nvidia-smi does not tell of a licence: {describe_failure(done)}")
    return states
