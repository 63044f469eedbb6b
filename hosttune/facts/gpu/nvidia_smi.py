"""What nvidia-smi prints, and what the driver writes to the kernel log; pure.

Sources: nvidia-smi(1) (its exit statuses are NVML's return codes; errors go to standard output),
NVIDIA's NVML API reference (nvmlReturn_t), the list of Xid errors
(docs.nvidia.com/deploy/xid-errors), kernel-open/nvidia/nv.c and src/nvidia/arch/nvalloc/unix of
github.com/NVIDIA/open-gpu-kernel-modules for the sentences of the log, kernel/module and certs/ of
Linux for the refusal of a signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.gpu.gpu_errors import STAMP, is_load, kind_of, slot_of, split_stamp
from hosttune.facts.gpu.smi_words import BROKEN, SmiWord, is_denied, word_of, worst_of
from hosttune.facts.kernel.kernel_log import OF_GPUS, message_of, messages_with
from hosttune.frozen import frozen
from hosttune.host.masking.command_secrets import MASK
from hosttune.host.masking.secrets import mask_text
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Completed

QUERY = (
    "nvidia-smi", "--query-gpu=pci.bus_id,driver_version,persistence_mode,name",
    "--format=csv,noheader",
)  # fmt: skip
_COMMAS = 3  # of a row
MAX_MESSAGES = 200

_BUS_ID = r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?"
# The name is last: it is the only field that may hold a comma.
_ROW = regex(rf"{_BUS_ID}, ([^,]*), ([^,]*), (.*\S)\s*")
_VERSION = regex(r"\d+\.\d[\d.]*")
# Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error; branches differ in
# what is before it.
_HANDLE = regex(rf"device handle for GPU ?\d*:? ?{_BUS_ID}:?(.*)", re.IGNORECASE)
_LOST = regex(
    rf"GPU ?\d*:? ?{_BUS_ID}:? .{{0,200}}?((?:GPU is lost|GPU requires re|Unknown Error"
    rf"|fallen off the bus).*)",
    re.IGNORECASE,
)
_CORRUPTED = regex(rf"\s*WARNING: infoROM is corrupted at gpu {_BUS_ID}\s*", re.IGNORECASE)
_LONGEST = 300  # of a sentence: what is printed where an answer should be may be anything
_NO_SENTENCE = regex(r"\s*$|\$ |modprobe: |[-+|=]+$|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8}")
# kernel_nvlink.c of the open modules: the firmware does not tell of links. In the hang of issue 971
# of NVIDIA/open-gpu-kernel-modules it comes every four seconds; with other faults of NVLink, too.
LINKS_LOST = "knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask"
# NVML's return codes, as far as they are states of a host.
_STATUSES = {
    4: "no permission", 6: "no devices", 9: "not loaded", 12: "no library", 15: "gpu lost",
    16: "gpu lost", 18: "mismatch",
}  # fmt: skip
_WORDS = (
    ("mismatch", "version mismatch"),
    ("not loaded", "couldn't communicate with the nvidia driver"),
    ("not loaded", "driver not loaded"),
    ("no library", "couldn't find libnvidia-ml"),
    ("no devices", "no devices were found"),
    ("gpu lost", "gpu is lost"),
    ("gpu lost", "gpu requires reset"),
    ("gpu lost", "gpu requires restart"),
    ("no permission", "insufficient permissions"),
)

_MESSAGE = regex(rf"(?:\(\d+ times[^()]*\) )?(?:{OF_GPUS})")  # how often is in a record
# The kernel's own sentences do not always name the module that it refused.
_REJECTED = regex(
    r"(?:module: )?Loading of (?:unsigned module|module with (?:unavailable"
    r"|unsupported)[\w ]*) is rejected|"
    r"PKCS#7 signature not signed with a trusted key"
    r"|Lockdown: .{1,15}: unsigned module loading is restricted"
)
_SERIAL = regex(r"(serial number is )\S+", re.IGNORECASE)
_PREFIX = regex(STAMP + "NVRM: *")
_KERNEL = regex(r"^(\d{9,}\.\d+) kernel: ")  # journalctl -o short-unix --no-hostname
_MISFIT = regex(
    r"nvidia: (version magic|disagrees about version of symbol|no symbol version for"
    r"|Unknown symbol) '?([\w.+-]{1,64})"
)
_LEGACY = regex(r"supported through the NVIDIA (\d{3})\.[x\d]+ Legacy", re.IGNORECASE)
_OPEN_ONLY = regex(r"requires use of the NVIDIA open kernel modules", re.IGNORECASE)
_NOT_FOR_OPEN = regex(r"not supported by open nvidia\.ko", re.IGNORECASE)
_PROBE_FAILED = regex(r"NVIDIA probe routine failed for", re.IGNORECASE)
_NO_INTERRUPT = regex(r"Can't find an IRQ for your NVIDIA card", re.IGNORECASE)
_NO_ROOM = regex(rf"NVRM: *BAR\d is \d{{1,9}}M @ 0x[0-9A-Fa-f]{{1,16}} \(PCI:{_BUS_ID}\)")
_NOT_IN_RELEASE = regex(r"not supported by the NVIDIA \d[\d.]* driver release", re.IGNORECASE)
# GRID T4-16Q, NVIDIA A100-4-20C: the profile, with what it is for (A, B, C, Q), is at the end.
_VGPU_NAME = regex(r"(?:GRID|NVIDIA) .*-\d+[ABCQ]")


@frozen
class NvidiaGpu(Fact):
    """A GPU that answers nvidia-smi."""

    slot: str  # as in sysfs: 0000:1b:00.0
    name: str  # the product
    driver_version: str  # as nvidia-smi prints it
    persistence: bool  # the driver keeps it ready while no one uses it


@frozen
class SmiAnswer:
    """What nvidia-smi printed for `QUERY`."""

    gpus: tuple[NvidiaGpu, ...]
    # slots of GPUs that it could not reach, with the words that it has for that
    lost: Mapping[str, str]
    denied: tuple[str, ...]  # slots of GPUs that this user may not open
    sentence: str  # the first line that is not a row of the table: an error, or a warning before it
    # no permission | no devices | not loaded | no library | gpu lost | mismatch | other; empty for
    # none
    refusal: str
    corrupted: tuple[str, ...] = ()  # slots of GPUs whose InfoROM is corrupted, as a warning says
    # slots of GPUs that answer in part, with the error
    unclear: Mapping[str, str] = field(default_factory=dict)
    nameless: str = ""  # the error in a row that does not say of which GPU it is


def parse_smi(output: str, status: int) -> SmiAnswer:
    """The answer to `QUERY`: rows, and of a GPU that is lost a line, or a row with the words of an
    error.

    The version is the driver's, so a row can have it, and of its GPU nothing but errors. A GPU
    without a name does not answer; of one that has a name, and an error beside it, that is not
    known.
    """
    gpus, sentences, corrupted = [], [], []
    lost: dict[str, str] = {}
    unclear: dict[str, str] = {}
    nameless = ""
    for line in output.splitlines():
        row = _ROW.fullmatch(line.strip())
        if row:
            slot, version, mode, name = (
                slot_of(*row.group(1, 2, 3, 4)),
                row[5].strip(),
                row[6],
                row[7],
            )
            error = worst_of((version, mode, name))
            is_named = word_of(name) is SmiWord.VALUE and _VERSION.fullmatch(version)
            if not is_named or word_of(error) in BROKEN:
                lost[slot] = clean_line(error or (name if _VERSION.fullmatch(version) else version))
                continue
            gpus.append(NvidiaGpu(slot, name, version, lazy(_switch, mode)))
            if word_of(error) is SmiWord.ERROR:
                unclear[slot] = clean_line(error)
        elif line.count(",") == _COMMAS and (error := worst_of(line.split(","))):
            nameless = nameless or clean_line(error.strip())
            sentences.append(clean_line(line))
        elif slot := corrupted_in(line):
            corrupted.append(slot)
        elif not _NO_SENTENCE.match(line):
            sentences.append(clean_line(line))
            if gone := _HANDLE.search(line) or _LOST.search(line):
                lost[slot_of(*gone.group(1, 2, 3, 4))] = clean_line(gone[5]) or "no device handle"
    denied = tuple(slot for slot, words in lost.items() if is_denied(words))
    refusal = "" if gpus else _describe_refusal(output, status)
    unreached = {slot: words for slot, words in lost.items() if slot not in denied}
    first = next(iter(sentences), "")
    return SmiAnswer(
        tuple(gpus), unreached, denied, first, refusal, tuple(corrupted), unclear, nameless
    )


def slots_of(gpus: Sequence[NvidiaGpu], numbers: Iterable[int]) -> tuple[str, ...]:
    """The slots of GPUs by their number: nvidia-smi numbers them as it lists them. Empty where one
    of these numbers is none of a GPU that it lists.
    """
    slots = tuple(gpu.slot for gpu in gpus)
    return slots if set(numbers) <= set(range(len(slots))) else ()


def clean_line(line: str) -> str:
    """A line that is no answer, as it may be shown: without serials and control characters, and not
    long.
    """
    # The cut to the shown length comes after the masking: half of a serial number would not be
    # known as one.
    return mask_text("".join(one for one in line[: 10 * _LONGEST] if one.isprintable()).strip())[
        :_LONGEST
    ]


def describe_failure(done: Completed) -> str:
    """The first line of what is no answer, or how the program ended without one."""
    lines = (done.text or done.errors).strip().splitlines()
    return clean_line(lines[0]) if lines else f"exit status {done.status}, and nothing printed"


def corrupted_in(line: str) -> str:
    """The slot of the GPU of which nvidia-smi warns, in a line before or after its answer, that its
    InfoROM is corrupted; empty for another line.
    """
    match = _CORRUPTED.fullmatch(line)
    return slot_of(*match.group(1, 2, 3, 4)) if match else ""


def _describe_refusal(output: str, status: int) -> str:
    lower = output.lower()
    kind = next((name for name, words in _WORDS if words in lower), "")
    return kind or _STATUSES.get(status) or "other"


def _switch(spelled: str) -> bool:
    known, word = {"Enabled": True, "On": True, "Disabled": False, "Off": False}, spelled.strip()
    if word not in known:
        raise UnknownFact(f"nvidia-smi says {word!r} of the persistence mode")
    return known[word]


# What it quotes is the client's, line breaks too: any user may send it a version
# (RmPerformVersionCheck of NVIDIA's open-gpu-kernel-modules,
# src/nvidia/arch/nvalloc/unix/src/osapi.c).
_OF_CLIENT = regex(r"NVRM: API mismatch")


def messages_in(log: str) -> tuple[str, ...]:
    """The lines of a kernel log that the driver, nouveau, or the kernel about a refused module
    wrote; the last ones.

    A line begins with its time (seconds since the epoch) where the log tells it. An Xid that comes
    again before its device is reset is one line, the last, with how often and until when: a job in
    a loop writes thousands.
    """
    lines: list[str] = []
    places: dict[str, int] = {}  # what an error is counted by -> its line
    is_of_client = False
    for line in messages_with(_MESSAGE, log):
        is_more = line[:1] in {" ", "\t"}
        is_of_client = (
            is_of_client if is_more else _OF_CLIENT.match(message_of(line)[1]) is not None
        )
        # An indented line goes on the message before it, which may quote a user: an Xid there is
        # not the driver's.
        if is_of_client or (is_more and kind_of(line.strip())):
            continue
        message = _SERIAL.sub(rf"\1{MASK}", mask_text(_KERNEL.sub(r"\1 ", line.strip())))
        kind = kind_of(message)
        if kind == "reset":
            # What comes after a reset is a new error, and is not folded into the line of the old
            # one.
            places.clear()
        elif kind in places:
            lines[places[kind]] = _join_lines(lines[places[kind]], message)
            continue
        elif kind:
            places[kind] = len(lines)
        lines.append(message)
    spare = len(lines) - MAX_MESSAGES
    kept = []
    for line in lines:  # errors go last
        if spare > 0 and not kind_of(line):
            spare -= 1
        else:
            kept.append(line)
    return tuple(kept[-MAX_MESSAGES:])


def _join_lines(first: str, last: str) -> str:
    """Two lines of one error as one."""
    (before, _), (after, text) = split_stamp(first), split_stamp(last)
    one, two = re.match(STAMP, before), re.match(STAMP, after)
    began, many = (one[1], int(one[2] or 1)) if one else (None, 1)
    until, more = (two[3] or two[1], int(two[2] or 1)) if two else (None, 1)
    count = many + more
    return (
        f"{began} ({count} times until {until}) {text}"
        if began and until
        else f"({count} times) {text}"
    )


def sentences_of(messages: Iterable[str]) -> str:
    """The driver's own words in one line: it breaks a sentence over several lines of the log."""
    return " ".join(_PREFIX.sub("", line).strip() for line in messages if _PREFIX.match(line))


def needs_open(sentences: str) -> bool:
    """A GPU was refused because it works only with the open kernel module."""
    return _OPEN_ONLY.search(sentences) is not None


def not_for_open(sentences: str) -> bool:
    """A GPU was refused because the open kernel module cannot drive it."""
    return _NOT_FOR_OPEN.search(sentences) is not None


def legacy_branch(sentences: str) -> str:
    """The branch that the driver names for a GPU that is too old for it: 580; empty where it names
    none.
    """
    match = _LEGACY.search(sentences)
    return match[1] if match else ""


def not_in_release(sentences: str) -> bool:
    """A GPU was refused as one that this release does not know: too new, or a vGPU."""
    return _NOT_IN_RELEASE.search(sentences) is not None


def without_room(messages: Iterable[str]) -> tuple[str, ...]:
    """The slots of GPUs that the driver refused in this boot, because a window of theirs (BAR) has
    no address on the bus; sorted. The driver says so before the line by which it is loaded
    (nv-pci.c), and no load changes it.
    """
    found = (_NO_ROOM.match(split_stamp(line)[1]) for line in messages)
    return tuple(sorted({slot_of(*match.group(1, 2, 3, 4)) for match in found if match}))


def why_refused(messages: Iterable[str]) -> str:
    """Why the driver took no GPU when it was loaded last, and left the kernel again: `legacy` (too
    old for it), `open` or `closed` (the kernel module that cannot drive it), `release` (this
    release does not know it), `interrupt` (the kernel has none for it), `other`; empty where it did
    not refuse any, as where another driver held them.
    """
    last: list[str] = []
    for line in messages:
        last = [] if is_load(line) else [*last, line]
    words = sentences_of(last)
    reasons = {
        "legacy": legacy_branch(words),
        "open": not_for_open(words),
        "closed": needs_open(words),
        "release": not_in_release(words),
        "interrupt": _NO_INTERRUPT.search(words),
        "other": _PROBE_FAILED.search(words),
    }
    return next((name for name, found in reasons.items() if found), "")


def is_rejected(messages: Sequence[str]) -> bool:
    """The kernel refused a module for its signature."""
    return any(_REJECTED.match(split_stamp(line)[1]) for line in messages)


def misfit_in(messages: Iterable[str]) -> tuple[str, str]:
    """Why the kernel did not take the module when it was to be loaded last: (`version magic`,
    `disagrees about version of symbol` or `Unknown symbol`, the release or the symbol); two empty
    words where it did not say so.
    """
    found = ("", "")
    for line in messages:
        if match := _MISFIT.match(split_stamp(line)[1]):
            found = (match[1], match[2])
        elif is_load(line):
            found = ("", "")
    return found


def is_vgpu_name(name: str) -> bool:
    """The name of a GPU is that of a vGPU profile."""
    return _VGPU_NAME.fullmatch(name) is not None
