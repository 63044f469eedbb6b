"""What the NVIDIA driver itself says: nvidia-smi, and its lines in the kernel log of this boot.

nvidia-smi loads the kernel module when it is not loaded, so it is asked only when it is, and never
without a GPU on the PCI bus. What the two print is read in facts/gpu/nvidia_smi.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt, get_raw, known_items, lacking_of
from hosttune.facts.gpu.gpu_errors import wants_reset
from hosttune.facts.gpu.gpus import DEVICES, is_vfio
from hosttune.facts.gpu.nvidia_lost import SilentGpu, find_gone, silent_gpus
from hosttune.facts.gpu.nvidia_smi import (
    LINKS_LOST,
    QUERY,
    NvidiaGpu,
    SmiAnswer,
    is_rejected,
    is_vgpu_name,
    legacy_branch,
    messages_in,
    misfit_in,
    needs_open,
    not_for_open,
    not_in_release,
    parse_smi,
    sentences_of,
    why_refused,
    without_room,
)
from hosttune.facts.gpu.strangers import home_of
from hosttune.facts.reading import all_sure, hint, make_unknown, names_in, require_known
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.regex import regex
from hosttune.values import ABSENT, NOT_RECORDED, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

__all__ = ["Nvidia", "NvidiaGpu", "SilentGpu", "why_narrowed"]

# What records from before hold: of GPUs alone, and without times.
OLD_JOURNAL = (
    "journalctl", "-k", "-b", "--no-pager", "-o", "cat", "--case-sensitive=true",
    "--grep=NVRM|Xid|nouveau|odule.*reject|PKCS#7|ey was rejected|module loading is restricted",
)  # fmt: skip
# A GPU that is about to be lost answers slowly, or never.
_SMI_TIMEOUT_S = 30.0
# begins the reason of a live host, where it would load or make something
_NOT_ASKED = "nvidia-smi is not asked"
HANGS = "nvidia-smi did not end within"  # host/process.py of a program that ran into its time limit
# The control group of a job, which may have a part of the devices (ConstrainDevices).
_JOB = regex(r"/slurm(?:(?!/slurm)\S)*/job_\d+")
# in the names of a device tree (kernel: Documentation/devicetree/bindings/arm/tegra.yaml)
_TEGRA = "nvidia,tegra"
_GRIDD = (
    "/usr/bin/nvidia-gridd", "/usr/lib/systemd/system/nvidia-gridd.service",
    "/lib/systemd/system/nvidia-gridd.service",
)  # fmt: skip
_GRID_PACKAGE = regex(r"nvidia-(?:linux-grid|gridd|vgpu-guest).*")


@frozen
class Nvidia(Subject):
    """What the driver says of itself and its GPUs."""

    @fact
    def smi(self) -> str:
        """`answers` | refused | hangs | absent (no such program) | not asked (no GPU, or no module
        is loaded).
        """
        return self._asked.smi

    @fact
    def smi_status(self) -> int:
        """Its exit status: 0, or NVML's code (9 not loaded, 18 mismatch ...); -1 where it was not
        run.
        """
        return self._asked.status

    @fact
    def smi_said(self) -> str:
        """Its first line that is not a row of the table; empty if it printed nothing else."""
        return self._asked.answer.sentence

    @fact
    def refusal(self) -> str:
        """`not loaded`, mismatch, no devices, no library, gpu lost, no permission, other; empty for
        none.
        """
        return self._asked.answer.refusal

    @fact
    def problem(self) -> str:
        """A sentence where smi is not `answers`."""
        return self._asked.problem

    @fact
    def gpus(self) -> tuple[NvidiaGpu, ...]:
        """Those that answer."""
        return self._asked.answer.gpus

    @fact
    def corrupted(self) -> tuple[str, ...]:
        """Slots of GPUs of which nvidia-smi warns that their InfoROM is corrupted."""
        return self._asked.answer.corrupted

    @fact
    def messages(self) -> tuple[str, ...]:
        """NVRM, Xid, SXid and nouveau lines of this boot's kernel log, newest last, 200 at most.

        Raises UnknownFact with why they may not, or cannot, be read; without a GPU no one misses
        them.
        """
        if not _may_have_gpu(self.reader, self.facts):
            found = attempt(self.facts.kernel_log.lines, messages_in)
            return found if isinstance(found, tuple) else ()
        try:
            return self.facts.kernel_log.certain(self.facts.kernel_log.lines(messages_in))
        except UnknownFact as unknown:
            old = (
                self.reader.query(OLD_JOURNAL) if unknown.reason.startswith(NOT_RECORDED) else None
            )
            if isinstance(old, Completed) and (found := messages_in(old.text)):
                return found
            raise

    @fact
    def silent(self) -> tuple[SilentGpu, ...]:
        """GPUs that do not answer, by slot, and those of which that is not known."""
        return _find_silent(self.reader, self.facts, lambda: self._asked, lambda: self.messages)

    @fact
    def all_lost(self) -> str:
        """What says that this host had GPUs in this boot, of which none is left; empty where it
        does not.
        """
        return _all_lost(self.reader, self.facts, lambda: self.messages)

    @fact
    def needs_open(self) -> bool:
        """A GPU was refused: it works only with the open kernel module."""
        return needs_open(self._words)

    @fact
    def not_for_open(self) -> bool:
        """A GPU was refused: the open kernel module cannot drive it."""
        return not_for_open(self._words)

    @fact
    def legacy_branch(self) -> str:
        """The branch that the driver names for a GPU that is too old for it: 580."""
        return legacy_branch(self._words)

    @fact
    def rejected_key(self) -> bool:
        """The kernel refused a module for its signature, and no nvidia module is loaded."""
        return not get_raw(self.facts.driver, "loaded_version") and is_rejected(self.messages)

    @fact
    def is_vgpu(self) -> bool:
        """A part of a GPU, lent by a hypervisor; its driver is licensed and comes from there."""
        return _is_vgpu(self.reader, self.facts, lambda: self._asked, lambda: self._words)

    @fact
    def loses_links(self) -> bool:
        """It asks for links of NVLink that its firmware tells nothing of, as before a known
        hang.
        """
        return any(LINKS_LOST in message for message in self.messages)

    @fact
    def wants_reset(self) -> bool:
        """The driver refuses work until a GPU, which it does not name, is reset."""
        return wants_reset(self.messages)

    @fact
    def no_room(self) -> tuple[str, ...]:
        """Slots of GPUs that it refused, as a window of theirs has no address on the bus."""
        return without_room(self.messages)

    @fact
    def misfit(self) -> tuple[str, str]:
        """Why the kernel did not take the module, as `misfit_in`."""
        return (
            ("", "") if get_raw(self.facts.driver, "loaded_version") else misfit_in(self.messages)
        )

    @fact
    def refused(self) -> str:
        """Why the driver took no GPU when it was loaded last, as `why_refused`; empty where it is
        loaded.
        """
        return "" if get_raw(self.facts.driver, "loaded_version") else why_refused(self.messages)

    @fact
    def _asked(self) -> _Asked:
        return _ask_smi(self.reader, self.facts)

    @fact
    def _words(self) -> str:
        return sentences_of(self.messages)

    @property
    def lost(self) -> tuple[str, ...]:
        """The slots of the GPUs that do not answer."""
        return tuple(gpu.slot for gpu in self.silent if gpu.sign != "not known")


@frozen
class _Asked:
    """What became of nvidia-smi."""

    smi: str
    status: int
    answer: SmiAnswer
    problem: str


def _has_gpu(reader: Reader, facts: Facts) -> bool:
    if reader.persistent_only:
        raise make_unknown(reader, "no driver runs under an alternate root")
    return facts.gpus.has_gpu


def _may_have_gpu(reader: Reader, facts: Facts) -> bool:
    """Whether nvidia-smi and the log are worth asking: a loaded driver is reason enough where the
    list of PCI devices cannot be read.
    """
    try:
        return _has_gpu(reader, facts)
    except UnknownFact:
        if reader.persistent_only or not facts.driver.is_loaded:
            raise
        return True


def _ask_smi(reader: Reader, facts: Facts) -> _Asked:
    nothing = SmiAnswer((), {}, (), "", "")
    if not _may_have_gpu(reader, facts):
        return _Asked("not asked", -1, nothing, "there is no NVIDIA GPU")
    is_loaded = get_raw(facts.driver, "loaded_version") != ""
    # On a host it would load the module. A support file may hold its answer.
    answer = (
        reader.query(QUERY, timeout_s=_SMI_TIMEOUT_S)
        if is_loaded or reader.kind == "record"
        else ABSENT
    )
    if not is_loaded and not isinstance(answer, Completed):
        return _Asked(
            "not asked",
            -1,
            nothing,
            "nvidia-smi is not asked: the NVIDIA kernel module is not loaded",
        )
    if answer is ABSENT:
        return _Asked("absent", -1, nothing, _why_no_smi(facts))
    if isinstance(answer, Unreadable) and answer.reason.startswith(_NOT_ASKED):
        return _Asked("not asked", -1, nothing, answer.reason)
    if isinstance(answer, Unreadable) and HANGS in answer.reason:
        return _Asked("hangs", -1, nothing, answer.reason)
    done = require_known(answer, "nvidia-smi")
    parsed = parse_smi(f"{done.text}\n{done.errors}", done.status)
    # One row is an answer: of several GPUs one that is lost makes the exit status that of an error.
    if parsed.gpus:
        return _Asked("answers", done.status, parsed, "")
    why = parsed.sentence or f"exit status {done.status}, and nothing printed"
    return _Asked("refused", done.status, parsed, f"nvidia-smi: {why}")


def _why_no_smi(facts: Facts) -> str:
    try:
        if facts.managers.gpu_operator:
            return (
                "the GPU Operator brings the driver, and no container of it shows nvidia-smi below "
                "/run/nvidia/driver"
            )
        if facts.managers.kubelet:
            return (
                "nvidia-smi is not here: what brings the driver of this Kubernetes node brings it "
                "too"
            )
    except UnknownFact:
        pass
    package = attempt(smi_package, facts)
    return (
        "nvidia-smi is not installed "
        f"({package if isinstance(package, str) and package else 'Ubuntu: nvidia-utils-N'})"
    )


def smi_package(facts: Facts) -> str:
    """The package with nvidia-smi, of the archive that the installed driver is from; empty without
    packages. Names as in package_roles.py; that NVIDIA's for Debian is nvidia-driver-cuda is from
    memory.
    """
    driver, home = facts.driver, home_of(facts)
    if not driver.branch:
        return ""
    if home == "Debian":
        return "nvidia-smi"
    if home == "NVIDIA" and any(one.name == "nvidia-kernel-support" for one in driver.packages):
        return "nvidia-driver-cuda"
    if home == "NVIDIA" and any(one.name == "nvidia-kernel-common" for one in driver.packages):
        return "nvidia-utils"
    return f"nvidia-utils-{driver.branch}{'-server' if 'server' in driver.flavour else ''}"


def _find_silent(
    reader: Reader,
    facts: Facts,
    asked: Callable[[], _Asked],
    messages: Callable[[], tuple[str, ...]],
) -> tuple[SilentGpu, ...]:
    """The GPUs that the driver holds and nvidia-smi does not show; those without a driver are
    reported elsewhere.
    """
    _has_gpu(reader, facts)  # raises where no driver runs
    devices = known_items(facts.gpus.devices)
    held = {gpu.slot for gpu in devices if get_raw(gpu, "driver") == "nvidia"}
    on_bus = {gpu.slot for gpu in devices}
    answer = attempt(lambda: asked().answer)
    if lacking_of(facts.gpus.devices) and isinstance(answer, SmiAnswer):
        # What nvidia-smi lists is a GPU, also where the class of that PCI function could not be
        # read.
        shown = {gpu.slot for gpu in answer.gpus} & {*names_in(reader, DEVICES)}
        held, on_bus = held | shown, on_bus | shown
    return silent_gpus(answer, attempt(messages), held, on_bus, why_narrowed(reader, facts))


def _all_lost(reader: Reader, facts: Facts, messages: Callable[[], tuple[str, ...]]) -> str:
    """Those that are held for virtual machines are none of this host. In a container what the log
    and /proc say is of its host. That the driver is loaded tells nothing beside NVSwitches, for
    which it may be there, on a Tegra (Jetson), whose GPU is no PCI device, and where people sit:
    they unplug a GPU, or switch that of a laptop off.
    """
    devices = facts.gpus.devices
    if (
        not all(is_vfio(gpu.driver) for gpu in devices)
        or get_raw(facts.host, "is_container") is True
    ):
        return ""
    log = attempt(messages)
    gone = find_gone(log)[0] if isinstance(log, tuple) else {}
    there = {gpu.slot for gpu in devices}
    if lost := [f"the GPU at {slot} {why}" for slot, why in gone.items() if slot not in there]:
        return f"{'; '.join(lost)}; no GPU of this host is left on it"
    loaded = get_raw(facts.driver, "loaded_version")
    if devices or facts.gpus.nvswitches or not isinstance(loaded, str) or not loaded:
        return ""
    if _TEGRA in hint(reader, "/proc/device-tree/compatible") or _is_of_people(facts):
        return ""
    return (
        f"no GPU is left on the PCI bus, and there was one: the NVIDIA driver {loaded} does not "
        "load without"
    )


def _is_of_people(facts: Facts) -> bool:
    return (
        attempt(lambda: facts.role.is_desktop) is True or get_raw(facts.role, "chassis") == "laptop"
    )


def why_narrowed(reader: Reader, facts: Facts) -> str:
    """Why nvidia-smi may show fewer GPUs to this process than the driver holds; empty for none."""
    if get_raw(facts.host, "is_container") is True:
        return "in a container nvidia-smi shows the GPUs that were given to it"
    if _JOB.search(hint(reader, "/proc/self/cgroup")):
        return "in a job of Slurm nvidia-smi shows the GPUs of that job"
    return ""


def _is_vgpu(
    reader: Reader, facts: Facts, asked: Callable[[], _Asked], words: Callable[[], str]
) -> bool:
    """The PCI ids are those of a profile, NVIDIA's licence daemon is set up, the GPUs are called
    after a profile, or in a virtual machine the driver does not know a GPU of a generation that it
    drives, and its board is in no list: a listed one is a whole card that was passed through.
    """
    if attempt(_has_gpu, reader, facts) is False:
        return False
    answer, is_profile = attempt(lambda: asked().answer), attempt(lambda: facts.gpus.is_vgpu)
    gpus = answer.gpus if isinstance(answer, SmiAnswer) else ()
    if (
        is_profile is True
        or any(is_vgpu_name(gpu.name) for gpu in gpus)
        or _is_set_up(reader, facts)
    ):
        return True
    if not _may_be_vm(facts):
        return False
    if not_in_release(words()) and _is_known_in_vm(facts):
        return True
    if (
        attempt(lambda: all(gpu.subsystem and gpu.is_listed for gpu in facts.gpus.devices))
        is not True
    ):
        # a board that is in no list may be a vGPU, by what could not be read
        all_sure((is_profile, answer))
    return False


def has_gridd(reader: Reader) -> bool:
    """NVIDIA's licence daemon, or its unit, is here."""
    return any(isinstance(reader.stat(path), Stat) for path in _GRIDD)


def _is_set_up(reader: Reader, facts: Facts) -> bool:
    """The licence daemon is."""
    if not isinstance(reader.stat("/etc/nvidia/gridd.conf"), Stat):
        return False
    # gridd.conf stays behind when its package is removed, so it proves nothing without the daemon
    # or the package.
    if has_gridd(reader):
        return True
    try:
        return any(_GRID_PACKAGE.fullmatch(name) for name in facts.packages.brought)
    except UnknownFact:
        return False


def _may_be_vm(facts: Facts) -> bool:
    try:
        return facts.host.is_vm
    except UnknownFact:
        return True


def _is_known_in_vm(facts: Facts) -> bool:
    try:
        is_whole = all(gpu.subsystem and gpu.is_listed for gpu in facts.gpus.devices)
        return facts.host.is_vm and "unknown" not in facts.gpus.generations and not is_whole
    except UnknownFact:
        return False
