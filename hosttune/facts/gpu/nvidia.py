"""What the NVIDIA driver itself says: nvidia-smi, and its lines in the kernel log of this boot.

Neither is asked without an NVIDIA GPU. nvidia-smi loads the kernel module when it is not loaded, so it is asked only
when it is. What the two print is read in facts/gpu/nvidia_smi.py.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hosttune.facts.answers import text
from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.facts.gpu.nvidia_lost import SilentGpu, silent_gpus
from hosttune.facts.gpu.nvidia_smi import (
    QUERY,
    NvidiaGpu,
    Said,
    dated,
    is_vgpu_name,
    legacy_branch,
    messages_in,
    needs_open,
    not_for_open,
    not_in_release,
    parse_smi,
    rejected,
    sentences_of,
)
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

__all__ = ["Nvidia", "NvidiaGpu", "SilentGpu", "collect"]

# Only lines of the driver, of nouveau, and about refused modules: the whole log is long, and nobody else's business.
_REFUSED = "odule.*reject|PKCS#7|ey was rejected|module loading is restricted"
_KERNEL = ("journalctl", "-k", "-b", "--no-pager")
JOURNAL = (
    *_KERNEL, "--no-hostname", "-o", "short-unix", "--case-sensitive=true",
    f"--grep=NVRM|Xid|nouveau|nvidia-nvswitch.*Probing|{_REFUSED}",
)  # fmt: skip
# As older records hold it: without times.
OLD_JOURNAL = (*_KERNEL, "-o", "cat", "--case-sensitive=true", f"--grep=NVRM|Xid|nouveau|{_REFUSED}")
DMESG = ("dmesg",)
# A GPU that is about to be lost answers slowly, or never.
_SMI_TIMEOUT_S = 30.0
_LOG_TIMEOUT_S = 20.0
_NOT_ASKED = "nvidia-smi is not asked"  # begins the reason of a live host, where it would load or make something
_HANGS = "nvidia-smi did not end within"  # host/process.py of a program that ran into its time limit
_MAY_NOT = regex(r"not seeing messages|insufficient permissions|Permission denied|Operation not permitted")
_JOB = regex(r"/slurm\S*/job_\d+")  # cgroup of a job, which may have a part of the devices (ConstrainDevices)
_GRIDD = (
    "/usr/bin/nvidia-gridd", "/usr/lib/systemd/system/nvidia-gridd.service",
    "/lib/systemd/system/nvidia-gridd.service",
)  # fmt: skip
_GRID_PACKAGE = regex(r"nvidia-(?:linux-grid|gridd|vgpu-guest).*")


@frozen
class Nvidia(Fact):
    """What the driver says of itself and its GPUs."""

    smi: str  # answers | refused | hangs | absent (no such program) | not asked (no GPU, or no module is loaded)
    smi_status: int  # its exit status: 0, or NVML's code (9 not loaded, 18 mismatch ...); -1 where it was not run
    smi_said: str  # its first line that is no row of the table; empty where it said nothing else
    refusal: str  # not loaded, mismatch, no devices, no library, gpu lost, no permission, other; empty for none
    problem: str  # a sentence where smi is not `answers`
    gpus: tuple[NvidiaGpu, ...]  # those that answer
    messages: tuple[str, ...]  # NVRM, Xid, SXid and nouveau lines of this boot's kernel log, newest last, 200 at most
    silent: tuple[SilentGpu, ...]  # GPUs that do not answer, by slot, and those of which that is not known
    needs_open: bool  # a GPU was refused: it works with the open kernel module alone
    not_for_open: bool  # a GPU was refused: the open kernel module cannot drive it
    legacy_branch: str  # the branch that the driver names for a GPU that is too old for it: 580
    rejected_key: bool  # the kernel refused a module for its signature, and no nvidia module is loaded
    is_vgpu: bool  # a part of a GPU, lent by a hypervisor; its driver is licensed and comes from there

    @property
    def lost(self) -> tuple[str, ...]:
        """The slots of the GPUs that do not answer."""
        return tuple(gpu.slot for gpu in self.silent if gpu.sign != "not known")


@frozen
class _Asked:
    """What became of nvidia-smi."""

    smi: Any
    status: Any
    said: Any
    problem: Any


def collect(reader: Reader, facts: Facts) -> Nvidia:
    reason = _why_not(reader, facts)
    if isinstance(reason, Unreadable):
        gone = unread(reason.reason)
        unknown: Any = {one.name: gone for one in fields(Nvidia)}
        return Nvidia(**{**unknown, "is_vgpu": _is_vgpu(reader, facts, (), gone)})
    if reason:
        return Nvidia(
            smi="not asked",
            smi_status=-1,
            smi_said="",
            refusal="",
            problem=reason,
            gpus=(),
            messages=(),
            silent=(),
            needs_open=False,
            not_for_open=False,
            legacy_branch="",
            rejected_key=False,
            is_vgpu=False,
        )
    asked = _smi(reader, facts)
    messages = _messages(reader)
    known = isinstance(messages, tuple)
    words = sentences_of(messages) if known else ""
    said: Any = asked.said
    gpus = said.gpus if isinstance(said, Said) else said
    return Nvidia(
        smi=asked.smi,
        smi_status=asked.status,
        smi_said=said.sentence if isinstance(said, Said) else said,
        refusal=said.refusal if isinstance(said, Said) else said,
        problem=asked.problem,
        gpus=gpus,
        messages=messages,
        silent=_silent(reader, facts, said, messages),
        needs_open=needs_open(words) if known else messages,
        not_for_open=not_for_open(words) if known else messages,
        legacy_branch=legacy_branch(words) if known else messages,
        rejected_key=_is_rejected(facts, messages),
        is_vgpu=_is_vgpu(reader, facts, gpus if isinstance(gpus, tuple) else (), messages),
    )


def _why_not(reader: Reader, facts: Facts) -> str | Unreadable:
    """Why nothing is asked at all; empty where it is."""
    if reader.persistent_only:
        return Unreadable("no driver runs under an alternate root")
    try:
        return "" if facts.gpus.has_gpu else "there is no NVIDIA GPU"
    except UnknownFact as unknown:
        return Unreadable(unknown.reason)


def _smi(reader: Reader, facts: Facts) -> _Asked:
    loaded = raw(facts.driver, "loaded_version")
    nothing = Said((), {}, (), "", "")
    if loaded == "":
        return _Asked("not asked", -1, nothing, "nvidia-smi is not asked: the NVIDIA kernel module is not loaded")
    answer = reader.query(QUERY, timeout_s=_SMI_TIMEOUT_S)
    if answer is ABSENT:
        return _Asked("absent", -1, nothing, _why_no_smi(facts))
    if isinstance(answer, Unreadable) and answer.reason.startswith(_NOT_ASKED):
        return _Asked("not asked", -1, nothing, answer.reason)
    if isinstance(answer, Unreadable) and _HANGS in answer.reason:
        return _Asked("hangs", -1, nothing, answer.reason)
    if not isinstance(answer, Completed):
        gone = unread(answer.reason if isinstance(answer, Unreadable) else "nvidia-smi did not answer")
        return _Asked(gone, gone, gone, gone)
    said = parse_smi(answer.text or answer.errors, answer.status)
    if said.gpus:
        return _Asked("answers", answer.status, said, "")
    why = said.sentence or f"exit status {answer.status}, and nothing printed"
    return _Asked("refused", answer.status, said, f"nvidia-smi: {why}")


def _why_no_smi(facts: Facts) -> str:
    try:
        if facts.managers.gpu_operator:
            return (
                "the GPU Operator brings the driver, and no container of it shows nvidia-smi below /run/nvidia/driver"
            )
        if facts.managers.kubelet:
            return "nvidia-smi is not here: whoever brings the driver of this Kubernetes node brings it too"
    except UnknownFact:
        pass
    return "nvidia-smi is not installed (Ubuntu: nvidia-utils-N)"


def _messages(reader: Reader) -> Any:
    """The lines of the log; or why they may not, or cannot, be read.

    A journal without such lines and one that has no kernel log look the same (exit status 1, nothing printed), so the
    kernel's own buffer has the last word on "nothing".
    """
    answer = reader.query(JOURNAL, timeout_s=_LOG_TIMEOUT_S)
    if isinstance(answer, Unreadable) and answer.reason.startswith("not in this record"):
        old = reader.query(OLD_JOURNAL, timeout_s=_LOG_TIMEOUT_S)
        answer = old if isinstance(old, Completed) else answer
    if isinstance(answer, Completed) and not _MAY_NOT.search(answer.errors) and (found := messages_in(answer.text)):
        return found
    journal = answer
    answer = reader.query(DMESG, timeout_s=_LOG_TIMEOUT_S)
    if isinstance(answer, Completed) and answer.status == 0:
        uptime = text(reader, "/proc/uptime")
        seconds = re.match(r"\d+(?:\.\d+)?", uptime) if isinstance(uptime, str) else None
        return messages_in(dated(answer.text, reader.now() - float(seconds[0])) if seconds else answer.text)
    errors = " ".join(one.errors for one in (journal, answer) if isinstance(one, Completed))
    if _MAY_NOT.search(errors):
        return unread("needs root, or the group adm: the kernel log of this boot")
    hidden = next((one.reason for one in (journal, answer) if isinstance(one, Unreadable)), "")
    return unread(hidden or "neither journalctl nor dmesg shows the kernel log of this boot")


def _silent(reader: Reader, facts: Facts, said: Any, messages: Any) -> Any:
    """The GPUs that the driver holds and nvidia-smi does not show; those without a driver are told elsewhere."""
    devices = raw(facts.gpus, "devices")
    if not isinstance(devices, tuple):
        return devices
    held = [gpu.slot for gpu in devices if raw(gpu, "driver") == "nvidia"]
    return silent_gpus(said, messages, held, [gpu.slot for gpu in devices], _narrowed(reader, facts))


def _narrowed(reader: Reader, facts: Facts) -> str:
    """Why nvidia-smi may show fewer GPUs to this process than the driver holds; empty for none."""
    if raw(facts.host, "is_container") is True:
        return "in a container nvidia-smi shows the GPUs that were given to it"
    groups = text(reader, "/proc/self/cgroup")
    if isinstance(groups, str) and _JOB.search(groups):
        return "in a job of Slurm nvidia-smi shows the GPUs of that job"
    return ""


def _is_rejected(facts: Facts, messages: Any) -> Any:
    loaded = raw(facts.driver, "loaded_version")
    if isinstance(loaded, str) and loaded:
        return False
    return rejected(messages) if isinstance(messages, tuple) else messages


def _is_vgpu(reader: Reader, facts: Facts, gpus: tuple[NvidiaGpu, ...], messages: Any) -> Any:
    """The PCI ids are those of a profile, NVIDIA's licence daemon is set up, the GPUs are called after a profile, or in
    a virtual machine the driver does not know a GPU of a generation that it drives."""
    if _is_profile(facts) or any(is_vgpu_name(gpu.name) for gpu in gpus) or _has_gridd(reader, facts):
        return True
    if not isinstance(messages, tuple):
        return messages if _may_be_vm(facts) else False
    return not_in_release(sentences_of(messages)) and _is_known_in_vm(facts)


def _is_profile(facts: Facts) -> bool:
    try:
        return facts.gpus.is_vgpu
    except UnknownFact:
        return False


def _has_gridd(reader: Reader, facts: Facts) -> bool:
    if not isinstance(reader.stat("/etc/nvidia/gridd.conf"), Stat):
        return False
    if any(isinstance(reader.stat(path), Stat) for path in _GRIDD):
        return True
    try:
        return any(_GRID_PACKAGE.fullmatch(name) for name in facts.packages.names)
    except UnknownFact:
        return False


def _may_be_vm(facts: Facts) -> bool:
    try:
        return facts.host.is_vm
    except UnknownFact:
        return True


def _is_known_in_vm(facts: Facts) -> bool:
    try:
        return facts.host.is_vm and "unknown" not in facts.gpus.generations
    except UnknownFact:
        return False
