"""Why the driver could not set a GPU up, as the kernel log tells: the firmware of the GPU's own
processor (GSP) is missing, was not read or is of another version; a start was left half-way; or for
a reason that the log does not have.

Each open of a GPU that no process keeps open sets it up, and reads the firmware of the module's own
version from /lib/firmware/nvidia/VERSION. Sources: RmFetchGspRmImages and RmInitAdapter (osinit.c),
kernel_gsp.c and nv.c of github.com/NVIDIA/open-gpu-kernel-modules, with its issues 639 (error -2),
943 (error -4) and 1230 (WPR2); drivers/base/firmware_loader of Linux, which has its own lines
without NVRM, and Debian's wording of them. gsp_log_*.bin is of a log that few have, and is not
needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from errno import EINTR, ENOENT, errorcode
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt, get_raw, known_items
from hosttune.facts.gpu.gpu_errors import is_load, slot_of, split_stamp
from hosttune.facts.gpu.smi_words import says_lost
from hosttune.facts.gpu.ways_out import RUN_REPORT
from hosttune.facts.kernel.initramfs import REBUILD
from hosttune.facts.reading import names_in
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.quoting import join, quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

FOLDER = "/lib/firmware/nvidia"
# The driver's own lines, and those of the kernel about its firmware, which do not say NVRM.
KERNEL_LOG = "sudo dmesg | grep -E 'NVRM|nvidia .*firmware'"
MISSING, INTERRUPTED, UNREADABLE, OTHER_VERSION = (
    "missing",
    "interrupted",
    "unreadable",
    "other version",
)
HALF_STARTED, NOT_BOOTED, NOT_SET_UP = "half-started", "not booted", "not set up"
NO_POWER, NO_LOADER, NO_ROM, NOT_READY = "no power", "no loader", "no ROM", "not ready"
NO_FMC = "no FMC"
OF_FIRMWARE = frozenset({MISSING, INTERRUPTED, UNREADABLE, OTHER_VERSION})
_BUS = r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?"
_LOAD = regex(
    rf"nvidia {_BUS}: (?:Direct firmware load for|loading|firmware: failed to load) "
    r"(?:/\S{0,200}?/)?nvidia/([\w.-]{1,60})/(gsp[\w.-]{0,60}) (?:failed with error "
    r"|\()-(\d{1,4})\b"
)
_OF_A_LOG = "gsp_log"
_MISMATCH = regex(
    r"NVRM: .*GSP firmware image version mismatch: got version ([\w.]{1,40}), expected version "
    r"([\w.]{1,40})"
)
_NO_IMAGE = regex(r"NVRM: .*RmFetchGspRmImages: No firmware image found")
_HALF = regex(r"NVRM: .*unexpected WPR2 already up")
_NO_POWER = regex(
    rf"NVRM: *GPU (?:at )?(?:PCI:)?{_BUS}:? GPU does not have the necessary power cables connected"
)
# Before it the loader (Booter) of the GPU's processor, and the ROM of the board
# (kernel_gsp_booter_tu102.c, kernel_gsp_vbios_tu102.c).
_NO_LOADER = regex(r"NVRM: .*(?:Booter failed with non-zero error code|failed to execute Booter)")
_NO_ROM = regex(
    r"NVRM: .*(?:did not find valid ROM signature|failed to find BIT header in VBIOS image)"
)
# The open module of branches before 560 drives GeForce and workstation GPUs only with an option
# (README of the driver, "Open Linux Kernel Modules"; NVIDIA/open-gpu-kernel-modules issues 246 and
# 326).
_NOT_READY = regex(r"NVRM: .*Open nvidia\.ko is only ready for use on Data Center GPUs")
_NOT_BOOTED = regex(r"NVRM: .*failed to wait for GFW[_ ]BOOT", re.IGNORECASE)
# Of Hopper and newer, whose firmware a processor of its own starts (FMC): kernel_gsp_gh100.c; issue
# 1120.
_FMC = regex(r"NVRM: .*GSP-FMC reported an error while attempting to boot GSP")
_FAILED = regex(
    rf"NVRM: *GPU (?:at )?(?:PCI:)?{_BUS}:? RmInitAdapter failed!? ?(\([0-9A-Fa-fx:]{{1,60}}\))?"
)
_CAUSES = {
    HALF_STARTED: _HALF, NOT_BOOTED: _NOT_BOOTED, NO_POWER: _NO_POWER, NO_LOADER: _NO_LOADER,
    NO_ROM: _NO_ROM, NOT_READY: _NOT_READY, NO_FMC: _FMC,
}  # fmt: skip
_PACKAGE = regex(r"nvidia-firmware(?:-.*)?|firmware-nvidia(?:-.*)?-gsp")
_KERNEL_COMMON = regex(r"nvidia-kernel-common(?:-.*)?")
# Of Debian, with its series: nvidia-kernel-dkms, nvidia-tesla-535-open-kernel-dkms.
_OF_DEBIAN = regex(
    r"nvidia(-tesla(?:-\d{3})?)?-(?:open-kernel|kernel|kernel-open)-(?:dkms|support)"
)
_NO_COMPONENT = (
    "if apt has none: name Debian's component non-free-firmware in the sources of apt, and sudo "
    "apt-get update"
)
_NUMBERED = regex(r"nvidia-(?:kernel-common|utils|compute-utils)-\d{3}")
UNLOAD = "sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia"
_RELOAD = f"{UNLOAD} && sudo modprobe nvidia"
_REBOOT = "drain the host and reboot"


_DESCRIBED = {
    HALF_STARTED: "an earlier start left {} half-way (kernel log: WPR2 already up), so that the "
    "firmware cannot start again before a reset",
    NOT_BOOTED: "the firmware on the board itself did not start for {} (kernel log: GFW_BOOT)",
    NO_POWER: "the power connectors of {} have no power (kernel log: necessary power cables)",
    NO_LOADER: "the loader of the firmware ended with an error for {} (kernel log: Booter)",
    NO_FMC: "the processor that starts the firmware ended with an error for {} (kernel log: "
    "GSP-FMC)",
    NO_ROM: "the driver found no valid ROM (VBIOS) of {} (kernel log)",
    NOT_READY: "the open kernel module of this release drives {} only with an option, as it is not "
    "a data-center GPU (kernel log: only ready for use on Data Center GPUs)",
}


_WAYS = {
    HALF_STARTED: f"{_REBOOT}\n"
    "if it is still so, power the host off and on, because only a reset of the GPU clears it\n"
    f"if it comes again, {RUN_REPORT}, and try another version of the driver",
    NOT_BOOTED: "drain the host, and power it off and on: a reboot may leave the GPU as it is\n"
    "if it is still so, seat the board anew, and look at power and riser\n"
    "if it comes again in another slot, it is the board",
    NO_POWER: "drain the host, power it off, and look at each power cable of this board: at the "
    "board, at the supply, and whether it is the cable that this board needs (some take the "
    "connector of CPUs)\n"
    "if all are in place, try another cable and another output of the supply, then another board",
    NO_LOADER: "drain the host, and power it off and on: a reboot may leave the GPU as it is\n"
    f"if it comes again, {RUN_REPORT}, and try another version of the driver",
}
_WAYS[NO_FMC] = _WAYS[NO_LOADER]
_OPTION = r"options nvidia NVreg_OpenRmEnableUnsupportedGpus=1\n"  # for printf(1)
_WAYS[NOT_READY] = (
    "take the closed kernel module of the same version, or a branch from 580 on, whose open module "
    "drives it\n"
    f"or give the option: printf {quote(_OPTION)} | sudo tee /etc/modprobe.d/nvidia-open.conf\n"
    f"{REBUILD}\n"
    f"{_REBOOT}"
)
_NO_ROM_IN_VM = (
    "ask who runs the host of this virtual machine to shut it down, reset the GPU or reboot that "
    "host, and give the machine the ROM of the board (libvirt: <rom file=...>; qemu: romfile=)\n"
    "a reboot in here does not change that"
)
_NO_ROM_HERE = (
    "drain the host, and power it off and on\n"
    f"if it comes again, {RUN_REPORT}, and ask the vendor of the board for its firmware (VBIOS)"
)

# NVIDIA/gpu-driver-container, _load_driver of its script nvidia-driver; NVIDIA/gpu-operator issue
# 1278.
_IN_POD = (
    "see where else the kernel looks for firmware: cat /sys/module/firmware_class/parameters/path\n"
    "if that is not /run/nvidia/driver/lib/firmware, see what sets it (firmware_class.path in "
    "/proc/cmdline): the driver pod writes its own folder there only if it is empty"
)


@frozen
class GspFailure(Fact):
    """A GPU that the driver could not set up when it was opened last."""

    slot: str  # 0000:18:00.0
    # missing | interrupted | unreadable | other version (of the firmware), half-started |
    # not booted | no power | no loader | no ROM | no FMC | not ready | not set up
    cause: str
    version: str  # of the firmware that was asked for; of another version: of the module
    file: str  # gsp_ga10x.bin; empty where the log does not name one
    error: int  # errno of the read, 0 for none
    words: str  # what the log has besides: the other version, or the codes of RmInitAdapter
    # the file is there by now, also as a compressed one; None where that is not known
    is_there: bool | None = None

    @property
    def path(self) -> str:
        """Of the firmware."""
        return f"{FOLDER}/{self.version}/{self.file}"

    def describe(self, where: str = "it") -> str:
        """What is known, as a sentence; `where`: the GPUs, which have this cause together."""
        if self.cause == NOT_SET_UP:
            codes = f" {self.words}" if self.words else ""
            words = f"the driver could not set {where} up (RmInitAdapter failed{codes})"
            return (
                f"{words}: that line does not name the cause, those before it may: driver, "
                "firmware, setup or board"
            )
        if described := _DESCRIBED.get(self.cause):
            return described.format(where)
        if self.cause == OTHER_VERSION:
            return f"the firmware for {where} is {self.words}, and the module is {self.version}"
        named = errorcode.get(self.error, "of no known name")
        words = f"error -{self.error}, {named}" if self.error else "the log has no error"
        if self.cause == INTERRUPTED:
            return (
                f"{self.path} was not read to its end for {where} ({words}): what opened the GPU "
                "was stopped meanwhile, which says nothing against the board"
            )
        if self.cause == MISSING:
            now = {
                True: "; the file is there by now",
                False: ", and it is not there now",
                None: "",
            }[self.is_there]
            return f"the firmware {self.path} was missing for {where} ({words}){now}"
        path = self.path if self.file else f"the firmware in {FOLDER}"
        return (
            f"the kernel could not read {path} for {where} ({words}), which says nothing against "
            "the board"
        )


@frozen
class GspFirmware(Subject):
    """The GPUs that do not answer and were not set up, as far as the log tells why."""

    # of each GPU one, by slot
    failures: tuple[GspFailure, ...] = read_with(
        lambda self: _find_failures(self.reader, self.facts)
    )

    def of(self, slot: str) -> GspFailure | None:
        return next((one for one in self.failures if one.slot == slot), None)


def failures_in(messages: Iterable[str]) -> Mapping[str, GspFailure]:
    """By slot what kept a GPU from being set up when that was tried last, since the module was
    loaded last.
    """
    found: dict[str, GspFailure] = {}
    fresh: set[str] = set()  # GPUs of which a read has failed in the try that has not ended yet
    # a cause of the GPU whose try ends next: cause, version, words
    reason: tuple[str, str, str] | None = None
    for message in messages:
        if is_load(message):
            found.clear()
            fresh.clear()
            reason = None
            continue
        line = split_stamp(message)[1]
        if load := _LOAD.match(line):
            if not load[6].startswith(_OF_A_LOG):
                slot, error = slot_of(*load.group(1, 2, 3, 4)), int(load[7])
                cause = {ENOENT: MISSING, EINTR: INTERRUPTED}.get(error, UNREADABLE)
                found[slot] = GspFailure(slot, cause, load[5], load[6], error, "")
                fresh.add(slot)
        elif other := _MISMATCH.match(line):
            reason = (OTHER_VERSION, other[2], other[1])
        elif cause := next((name for name, words in _CAUSES.items() if words.match(line)), ""):
            reason = (cause, "", "")
        elif _NO_IMAGE.match(line):
            # This line follows a more exact one where there is one, whose word stays.
            reason = reason or (UNREADABLE, "", "")
        elif failed := _FAILED.match(line):
            slot = slot_of(*failed.group(1, 2, 3, 4))
            # The kernel's line has the file and the error. RmInitAdapter's own line behind it says
            # less and must not replace it.
            if slot not in fresh:
                cause, version, words = reason or (NOT_SET_UP, "", failed[5] or "")
                found[slot] = GspFailure(slot, cause, version, "", 0, words)
            fresh.discard(slot)
            reason = None
    return found


def _find_failures(reader: Reader, facts: Facts) -> tuple[GspFailure, ...]:
    """The log is asked only where a GPU does not answer: one that does was set up since."""
    nvidia = facts.nvidia
    # With libraries of another version nvidia-smi refuses for every GPU, and old lines of the log
    # are not the reason.
    if nvidia.smi not in {"answers", "refused"} or nvidia.refusal == "mismatch":
        return ()
    answering = {gpu.slot for gpu in nvidia.gpus}
    held = {
        gpu.slot for gpu in known_items(facts.gpus.devices) if get_raw(gpu, "driver") == "nvidia"
    } - answering
    if not held:
        return ()
    found = failures_in(nvidia.messages)
    silent = attempt(lambda: nvidia.silent)
    # A GPU that fell off the bus cannot be set up either: no firmware brings it back.
    gone = (
        {one.slot for one in silent if one.sign == "log" or says_lost(one.why)}
        if isinstance(silent, tuple)
        else set()
    )
    return tuple(_looked_for(reader, found[slot]) for slot in sorted(held - gone) if slot in found)


def _looked_for(reader: Reader, failure: GspFailure) -> GspFailure:
    """With whether its file is there by now. The kernel also takes compressed ones."""
    names = attempt(names_in, reader, f"{FOLDER}/{failure.version}") if failure.file else None
    if not isinstance(names, tuple):
        return failure
    return replace(
        failure,
        is_there=bool({failure.file, f"{failure.file}.xz", f"{failure.file}.zst"} & set(names)),
    )


def way_out(failure: GspFailure, facts: Facts) -> str:
    """What a person does about it."""
    if failure.cause in _WAYS:
        return _WAYS[failure.cause]
    if failure.cause == NO_ROM:
        return _NO_ROM_IN_VM if attempt(lambda: facts.host.is_vm) is True else _NO_ROM_HERE
    if failure.cause == NOT_SET_UP:
        return (
            f"see what came before: {KERNEL_LOG}\n"
            f"{_REBOOT}, and power it off and on if that does not help\n"
            f"if it comes again, {RUN_REPORT}\n"
            "try another version of the driver, and the GPU in another slot: that shows whether it "
            "is the board"
        )
    again = f"drain the host, and {reload_driver(facts)}"
    # With a driver pod apt of this host has no package of the firmware to install again.
    if _is_in_pod(facts) and failure.cause in OF_FIRMWARE - {INTERRUPTED}:
        return f"{_IN_POD}\n{again}"
    if failure.cause == INTERRUPTED:
        opens = (
            "drain the host, and let nvidia-persistenced open the GPUs: sudo systemctl restart "
            "nvidia-persistenced"
        )
        return f"{opens}\nif that does not help, {again}" if facts.driver.persistenced else again
    if failure.cause == OTHER_VERSION:
        return f"{_describe_reinstall(failure, facts)}\n{REBUILD}\n{_REBOOT}"
    if failure.cause == MISSING and failure.is_there:
        return (
            f"{again}\n"
            f"if it is missing again after a boot, the initial RAM disk lacks it: {REBUILD}"
        )
    look = (
        ""
        if failure.cause == MISSING
        else f"see whether it can be read: sudo sha256sum {_name_files(failure)}\nif not, "
    )
    return f"{look}{_describe_reinstall(failure, facts)}\n{again}"


def _name_files(failure: GspFailure) -> str:
    return quote(failure.path) if failure.file else f"{FOLDER}/*/gsp*"


def _is_in_pod(facts: Facts) -> bool:
    """The GPU Operator's driver pod brings module and firmware, and the host has none of its
    own.
    """
    return attempt(lambda: facts.managers.gpu_operator and not facts.driver.is_installed) is True


def reload_driver(facts: Facts) -> str:
    """The steps that load the module anew; nvidia-persistenced holds it while it runs."""
    if _is_in_pod(facts):
        return (
            "delete its driver pod (nvidia-driver-daemonset-..., nvidia-vgpu-manager-...), which "
            "loads it anew"
        )
    stop, start = (
        "sudo systemctl stop nvidia-persistenced",
        "sudo systemctl start nvidia-persistenced",
    )
    before, after = (f"{stop}\n", f"\n{start}") if facts.driver.persistenced else ("", "")
    return f"{before}unload and load the module: {_RELOAD}\nif the module is in use, reboot{after}"


def _describe_reinstall(failure: GspFailure, facts: Facts) -> str:
    """How the firmware of the module's version comes back, in the way that the driver came."""
    driver, version = facts.driver, failure.version or facts.driver.loaded_version
    names = (
        [name for name in facts.packages.names if _PACKAGE.fullmatch(name)] if driver.branch else []
    )
    # Ubuntu has a package of firmware for each version, side by side: to reinstall another one
    # brings nothing.
    own = [name for name in names if name.endswith(f"-{version}")] or [
        name for name in names if "." not in name
    ]
    common = [one.name for one in driver.packages if _KERNEL_COMMON.fullmatch(one.name)]
    if not own and any(_NUMBERED.match(one.name) for one in driver.packages):
        server = "-server" if "server" in driver.flavour else ""
        own = [f"nvidia-firmware-{driver.branch}{server}-{version}"]  # as Ubuntu names them
    if own or common:
        return f"sudo apt-get install --reinstall {join([*own, *common])}"
    if debian := next(
        (found for one in driver.packages if (found := _OF_DEBIAN.fullmatch(one.name))), None
    ):
        name = f"firmware-nvidia{debian[1] or ''}-gsp"
        return f"sudo apt-get install {quote(f'{name}={version}*')}\n{_NO_COMPONENT}"
    if driver.runfile:
        return f"run NVIDIA's installer of {version} again, which brings its firmware"
    return f"bring the firmware of {version} in the way that this driver came"
