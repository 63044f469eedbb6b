"""Lists of numbers and ranges, "0-3,8": of CPUs, of memory nodes, of Slurm's hosts. The one place
that writes them out.

Twelve characters name more numbers than memory holds ("0-99999999999"), and such a list comes from
records, from configuration files and from /sys. So a list is parsed as pairs, and written out only
up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# numbers of a list. Kernels have at most 8,192 CPUs and 1,024 nodes; Slurm has 65,536 hosts
MOST: Final = 1 << 16
_DIGITS: Final = 18  # of one number
_SHOWN: Final = 40  # characters of a list in an error


def parse_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """The pairs (first, last) of "0-3,8"; empty parts are left out. Raises ValueError, with the
    text.
    """
    return tuple(
        _parse_pair(part.strip(), text) for part in text.strip().split(",") if part.strip()
    )


def number_list(text: str, most: int = MOST) -> tuple[int, ...]:
    """The kernel's list format for CPUs and nodes: "0-3,8" is 0, 1, 2, 3, 8 (cpuset(7), "List
    format").

    Raises ValueError for anything else, and for more than `most` numbers.
    """
    found = parse_ranges(text)
    if sum(last - first + 1 for first, last in found) > most:
        raise ValueError(f"{_quote_shortened(text)} names more than {most} numbers")
    return tuple(number for first, last in found for number in range(first, last + 1))


def number_list_text(numbers: Iterable[int]) -> str:
    """Numbers in the kernel's list format: 0, 1, 2, 3, 8 is "0-3,8"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _parse_pair(part: str, text: str) -> tuple[int, int]:
    first, dash, last = (one.strip() for one in part.partition("-"))
    ends = (first, last) if dash else (first, first)
    if not all(one.isascii() and one.isdecimal() and len(one) <= _DIGITS for one in ends):
        raise ValueError(f"{_quote_shortened(text)} is not a list of numbers such as 0-3,8")
    if int(ends[1]) < int(ends[0]):
        raise ValueError(f"{_quote_shortened(text)} has a range that ends before it begins")
    return int(ends[0]), int(ends[1])


def _quote_shortened(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
