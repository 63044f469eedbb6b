"""Huge pages: the transparent ones of all processes, and the pools that are set aside.

Sources: kernel, Documentation/admin-guide/mm/transhuge.rst and hugetlbpage.rst; proc_meminfo(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.memory.memory import parse_meminfo
from hosttune.facts.reading import integer, known, line, text
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_THP = "/sys/kernel/mm/transparent_hugepage"
_POOLS = "/sys/kernel/mm/hugepages"
_SIZE = regex(r"hugepages-(\d+)kB")


@frozen
class HugePagePool(Fact):
    """Pages of one size that are set aside for programs that ask for them (mmap with MAP_HUGETLB, hugetlbfs)."""

    page_bytes: int
    total: int
    free: int
    reserved: int  # of the free ones, promised to a program

    @property
    def idle_bytes(self) -> int:
        """Memory that nobody uses, and nobody else can."""
        return (self.free - self.reserved) * self.page_bytes


@frozen
class Hugepages(Fact):
    """Transparent huge pages (texts are empty where the kernel has none), and the pools that are not empty."""

    mode: str  # always | madvise | never: which memory gets them
    defrag: str  # always | defer | defer+madvise | madvise | never: who waits while the kernel makes one
    boot_mode: str  # transparent_hugepage= on the kernel command line; empty without
    anonymous_bytes: int  # memory of processes that lies on them now
    pmd_bytes: int  # size of a transparent huge page; 0 where the kernel has none
    pools: tuple[HugePagePool, ...]

    @property
    def idle_pool_bytes(self) -> int:
        """Memory in pools that nobody uses."""
        return sum(pool.idle_bytes for pool in self.pools)


def chosen_of(content: str) -> str:
    """`always [madvise] never` -> madvise."""
    match = re.search(r"\[([^\]]+)\]", content)
    return match[1] if match else content.strip()


def collect(reader: Reader, facts: Facts) -> Hugepages:  # noqa: ARG001 - the interface of all subjects
    return Hugepages(
        mode=_word(text(reader, f"{_THP}/enabled")),
        defrag=_word(text(reader, f"{_THP}/defrag")),
        boot_mode=_boot_mode(line(reader, "/proc/cmdline")),
        anonymous_bytes=_anonymous(text(reader, "/proc/meminfo")),
        pmd_bytes=_or_zero(integer(reader, f"{_THP}/hpage_pmd_size")),
        pools=_pools(reader),
    )


def _word(answer: Answer[str]) -> Any:
    return chosen_of(answer) if isinstance(answer, str) else "" if answer is ABSENT else answer


def _boot_mode(answer: Answer[str]) -> Any:
    if not isinstance(answer, str):
        return known(answer, "/proc/cmdline")
    words = [word.partition("=")[2] for word in answer.split() if word.startswith("transparent_hugepage=")]
    return words[-1] if words else ""


def _anonymous(answer: Answer[str]) -> Any:
    if not isinstance(answer, str):
        return known(answer, "/proc/meminfo")
    return parse_meminfo(answer).get("AnonHugePages", 0)  # the line is missing without CONFIG_TRANSPARENT_HUGEPAGE


def _or_zero(answer: Answer[int]) -> Any:
    return 0 if answer is ABSENT else answer


def _pools(reader: Reader) -> Any:
    names = reader.list(_POOLS)
    if not isinstance(names, tuple):
        return () if names is ABSENT else names
    pools = []
    for name in names:
        if match := _SIZE.fullmatch(name):
            numbers = [integer(reader, f"{_POOLS}/{name}/{file}_hugepages") for file in ("nr", "free", "resv")]
            problem = next((number for number in numbers if isinstance(number, Unreadable)), None)
            if problem:
                return problem
            total, free, reserved = (number if isinstance(number, int) else 0 for number in numbers)
            if total:
                pools.append(HugePagePool(int(match[1]) * 1024, total, free, reserved))
    return tuple(sorted(pools, key=lambda pool: pool.page_bytes))
