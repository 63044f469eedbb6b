"""Errors that NVLinks count since the driver was loaded, as `nvidia-smi nvlink -e` tells: two
vocabularies, one up to Hopper, one from Blackwell on.

What a link mends by itself all the time is no error: code words that forward error correction put
right (FEC), and what is counted before that (raw errors and rates). A sound link of Blackwell
counts billions of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from hosttune.facts.base import Fact
from hosttune.facts.gpu.nvidia_smi import slots_of
from hosttune.facts.gpu.nvlink import ask_smi
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex

QUESTION = ("nvidia-smi", "nvlink", "-e")
_GPU = regex(r"GPU (\d{1,9}): ")
# Digits with more behind them are a rate (15e-255), not a count.
_COUNT = regex(r"Link \d+: ([A-Za-z ]+): (\d{1,20})(?!\S)")
_ERRORS = frozenset({
    "replay errors", "recovery errors", "crc errors", "crc flit errors", "crc data errors",
    "ecc errors", "malformed packet errors", "buffer overrun errors", "rx errors",
    "rx remote errors", "rx general errors", "local link integrity errors", "symbol errors",
    "effective errors",
})  # fmt: skip
_FAILED = "link recovery failed events"


@frozen
class NvlinkCounts(Fact):
    """Of all links of a GPU together."""

    slot: str  # 0000:1b:00.0; GPU 3 where nvidia-smi tells no slot
    errors: int  # of all its links together, since the driver was loaded
    failed_recoveries: int  # links that did not come back


@frozen
class NvlinkErrors(Subject):
    """By GPU; none where there are no NVLinks."""

    @fact
    def gpus(self) -> tuple[NvlinkCounts, ...]:
        if not self.facts.nvlink.is_possible:
            return ()
        found = counts_in(ask_smi(self.reader, self.facts, QUESTION))
        slots = slots_of(self.facts.nvidia.gpus, found)
        return tuple(
            NvlinkCounts(slots[one] if slots else f"GPU {one}", *counts)
            for one, counts in found.items()
        )


def counts_in(output: str) -> Mapping[int, tuple[int, int]]:
    """By the number of each GPU its errors, and the recoveries that failed; only GPUs that
    count.
    """
    found: dict[int, tuple[int, int]] = {}
    number = -1
    for line in output.splitlines():
        if gpu := _GPU.match(line):
            number = int(gpu[1])
        for name, count in _COUNT.findall(line) if number >= 0 else ():
            errors, failed = found.get(number, (0, 0))
            kind = name.lower()
            found[number] = (
                errors + int(count) * (kind in _ERRORS),
                failed + int(count) * (kind == _FAILED),
            )
    return found
