"""Write hosttune/tables/gpu-boards.tsv from the list of boards in NVIDIA's open kernel module.

    python -m tests.catalogues.boards g_nv_name_released.h 595.45.04 2027-03 > hosttune/tables/gpu-boards.tsv

The file is src/nvidia/generated/g_nv_name_released.h of github.com/NVIDIA/open-gpu-kernel-modules
at the tag of that version; the last word is the month until which the list can be expected to be
whole. It has the GPUs that this module drives (Turing and newer) and the vGPUs that are made of
them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

_ROW = re.compile(r'\s*\{ 0x([0-9A-F]{4}), 0x([0-9a-f]{4}), 0x(\w{4}), "(.*)" \},?')
_PROFILE = re.compile(
    r"(?:-\d+)?-\d+[A-Z]*\d*$"
)  # A10-24Q, H100XM-1-10CME, T4-2B4: what follows the card's name
HEAD = """\
# Which PCI ids are which board of NVIDIA's, and which are parts of one that a hypervisor lends (vGPU).
# Written by `python -m tests.catalogues.boards` (docs/project/tables.md).
#
# as of: {version}
# good until: {until}
# source: https://github.com/NVIDIA/open-gpu-kernel-modules (g_nv_name_released.h)
#
# board  device, subsystem devices of NVIDIA's own boards (* where the device alone tells), name
# vgpu   device, subsystem devices, name of the card that it is a part of
"""


def rows_in(text: str) -> list[tuple[str, str, str, str]]:
    """(device, subsystem device, subsystem vendor, name) in the order of the file."""
    return [
        match.group(1, 2, 3, 4)
        for line in text.splitlines()
        if (match := _ROW.fullmatch(line.rstrip()))
    ]


def ranges(numbers: Iterable[str]) -> str:
    """14b6-14cb,14d0."""
    found: list[list[int]] = []
    for number in sorted({int(one, 16) for one in numbers}):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a:04x}" if a == b else f"{a:04x}-{b:04x}" for a, b in found)


def written(text: str, version: str, until: str) -> str:
    boards: dict[tuple[str, str], list[str]] = {}
    parts: dict[tuple[str, str], list[str]] = {}
    rows = rows_in(text)
    first = next(
        place for place, row in enumerate(rows) if row[2] == "10DE"
    )  # capitals: the vGPUs, which stand last
    for place, (device, board, vendor, name) in enumerate(rows):
        if place >= first:
            parts.setdefault((device.lower(), _PROFILE.sub("", name)), []).append(board)
        elif vendor in {"0000", "10de"}:
            boards.setdefault((device.lower(), name), []).append(board)
    lines = [
        f"board\t{device}\t{'*' if set(found) == {'0000'} else ranges(set(found) - {'0000'})}\t{name}"
        for (device, name), found in sorted(boards.items())
    ]
    lines += [
        f"vgpu\t{device}\t{ranges(found)}\t{name}"
        for (device, name), found in sorted(parts.items())
    ]
    return HEAD.format(version=version, until=until) + "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(
        written(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2], sys.argv[3])
    )
