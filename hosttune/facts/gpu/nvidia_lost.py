"""Which GPUs do not answer, and what says so: the kernel log, nvidia-smi, or that it leaves them
out; pure.

Sentences of the log: osapi.c and osinit.c in src/nvidia/arch/nvalloc/unix/src of
github.com/NVIDIA/open-gpu-kernel-modules. At the probe the driver breaks them over three lines, and
the first alone names the GPU (NVIDIA/NVSentinel issue 155); a module probes before it says that it
is loaded (kernel-open/nvidia/nv.c).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.gpu.gpu_errors import is_load, resets_asked, slot_of, split_stamp, xid_of
from hosttune.facts.gpu.nvidia_smi import SmiAnswer
from hosttune.facts.gpu.smi_words import asks_for_reset, says_lost
from hosttune.facts.reading import require_sure
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Unreadable

_BUS = r"(?:PCI:)?([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?"
_SENTENCE = regex(
    rf"NVRM: *GPU (?:at )?{_BUS}:? .*?(fallen off the bus|(?:RmInitA|rm_init_a)dapter failed.*)"
)
_BEGINS = regex(rf"NVRM: *The NVIDIA GPU {_BUS}(?![0-9A-Fa-f])(.*)")
# How what begins so may end: fallen off the bus, or a GPU that this driver does not take.
_ENDS = regex(
    r"(fallen off the bus)|requires use of the|not supported by|supported through|will ignore"
)
# kernel_gsp.c, which numbers the GPU in its own way: GPU6 does not mean a slot.
# The name of a program, which a user chooses, has 15 characters.
_FIRMWARE_HANGS = regex(
    r"NVRM: (?!Xid ).{0,200}(?:heartbeat timed out|\*{5} GSP Timeout \*{5})", re.IGNORECASE
)
_XID = 79
_GONE = "has fallen off the bus, as the kernel log says"


@frozen
class SilentGpu(Fact):
    """A GPU that is on the PCI bus, or was in this boot, and does not answer nvidia-smi."""

    slot: str  # 0000:1b:00.0
    why: str  # what says so, as the rest of a sentence: has fallen off the bus (Xid 79)
    # log (the kernel's), smi (nvidia-smi names it), left out (nvidia-smi shows others), firmware
    # (the same, and the log has a firmware that hangs), not known (whether)
    sign: str  # log | smi | left out | firmware | not known
    asks_reset: bool = False  # the last errors in the log are such that a reset of the GPU follows

    @property
    def action(self) -> str:
        """What NVIDIA asks for in such a case, as in gpu_errors.WAYS."""
        return "RESET_GPU" if self.asks_reset or asks_for_reset(self.why) else "RESTART_BM"

    @property
    def is_off_bus(self) -> bool:
        """It is not reached any more; one of which nvidia-smi prints errors only may have hung by
        its firmware.
        """
        return self.action != "RESET_GPU" and (
            self.sign not in {"smi", "firmware"} or says_lost(self.why)
        )


def find_gone(messages: Iterable[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """By slot how the log has GPUs as gone from the bus since the driver was loaded last, and as
    not to be set up.
    """
    gone: dict[str, str] = {}
    failed: dict[str, str] = {}
    at_probe: set[str] = set()  # gone at the probe of the load that comes next
    # GPUs whose sentence has not ended yet; the lines of two may be mixed
    begun: deque[str] = deque()
    for message in messages:
        if is_load(message):
            # A module probes its GPUs before it writes this line: what was gone then is of this
            # load, all else is of before.
            gone = dict.fromkeys(at_probe, _GONE)
            for memory in (failed, begun, at_probe):
                memory.clear()
        elif xid := xid_of(message):
            if xid[1] == _XID:
                gone[xid[0]] = f"has fallen off the bus (Xid {_XID})"
        elif (line := split_stamp(message)[1]).startswith("NVRM:"):
            if one := _SENTENCE.match(line):
                if one[5].startswith("fallen"):
                    gone.setdefault(slot_of(*one.group(1, 2, 3, 4)), _GONE)
                else:
                    failed.setdefault(slot_of(*one.group(1, 2, 3, 4)), one[5].strip()[:80])
            if start := _BEGINS.match(line):
                begun.append(slot_of(*start.group(1, 2, 3, 4)))
            if begun and not one and (end := _ENDS.search(line)):
                slot = begun.popleft()
                if end[1]:
                    gone.setdefault(slot, _GONE)
                    at_probe.add(slot)
    return gone, failed


def _hangs_in_firmware(messages: Iterable[str]) -> bool:
    """The driver waited in vain for the processor of a GPU since it was loaded last."""
    hangs = False
    for message in messages:
        hangs = not is_load(message) and (
            hangs or _FIRMWARE_HANGS.match(split_stamp(message)[1]) is not None
        )
    return hangs


def silent_gpus(
    answer: SmiAnswer | Unreadable,
    messages: tuple[str, ...] | Unreadable,
    expected: Collection[str],
    on_bus: Collection[str],
    narrowed: str,
) -> tuple[SilentGpu, ...]:
    """The GPUs that do not answer. One that does is not among them, whatever the log says of
    before.

    `expected` are the slots that the driver holds, `narrowed` is why nvidia-smi may show fewer of
    them to this process, or empty. Raises UnknownFact if nothing is known of any.
    """
    gone, failed = find_gone(messages) if isinstance(messages, tuple) else ({}, {})
    asked = resets_asked(messages) if isinstance(messages, tuple) else {}
    answering = {gpu.slot for gpu in answer.gpus} if isinstance(answer, SmiAnswer) else set()
    found = {
        slot: SilentGpu(slot, why, "log") for slot, why in gone.items() if slot not in answering
    }
    for slot, words in answer.lost.items() if isinstance(answer, SmiAnswer) else ():
        if slot not in answering:
            # A GPU that nvidia-smi calls lost is not brought back by a reset, whatever Xid came
            # before.
            xid = asked.get(slot, 0) if not says_lost(words) else 0
            after = f", after Xid {xid}" if xid else ""
            found.setdefault(
                slot,
                SilentGpu(slot, f"does not answer nvidia-smi: {words}{after}", "smi", bool(xid)),
            )
    if not isinstance(answer, SmiAnswer) or not answering:
        if not found:
            require_sure(messages)
        return tuple(found[slot] for slot in sorted(found))
    for slot, words in answer.unclear.items():
        unknown = f"nvidia-smi says {words} of the GPU at {slot}, and answers in part"
        found.setdefault(slot, SilentGpu(slot, unknown, "not known"))
    why_not = (
        ""
        if answering <= set(on_bus)
        else "nvidia-smi calls GPUs otherwise than the PCI bus does, and shows fewer"
    )
    # As many answer as are expected, only under other names: none is missing.
    if why_not and len(answering) >= len(expected):
        expected = ()
    for slot in set(expected) - answering - set(found):
        denied = f"nvidia-smi may not open the GPU at {slot}" if slot in answer.denied else ""
        if unknown := why_not or denied or narrowed:
            found[slot] = SilentGpu(slot, unknown, "not known")
        else:
            lists = f"nvidia-smi lists {len(answering)} of {len(expected)}"
            hangs = (
                slot not in failed and isinstance(messages, tuple) and _hangs_in_firmware(messages)
            )
            why = "the firmware of a GPU hangs (GSP timeout)" if hangs else failed.get(slot, "")
            words = f"{lists}; kernel log: {why}" if why else lists
            sign = "firmware" if hangs else "left out"
            found[slot] = SilentGpu(slot, f"is on the PCI bus and does not answer ({words})", sign)
    if answer.nameless and not found:
        raise UnknownFact(f"nvidia-smi says {answer.nameless} of a GPU, and not of which")
    return tuple(found[slot] for slot in sorted(found))
