"""Huge pages: the transparent ones of all processes, and the pools that are set aside.

Sources: kernel, Documentation/admin-guide/mm/transhuge.rst and hugetlbpage.rst; proc_meminfo(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.memory.memory import MEMINFO, parse_meminfo
from hosttune.facts.reading import derive, if_absent, names_in, read_integer, read_line, read_text
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_THP = "/sys/kernel/mm/transparent_hugepage"
_POOLS = "/sys/kernel/mm/hugepages"
_SIZE = regex(r"hugepages-(\d+)kB")


@frozen
class HugePagePool(Fact):
    """Pages of one size that are set aside for programs that ask for them (mmap with MAP_HUGETLB, hugetlbfs)."""

    page_bytes: int  # size of one page
    total: int  # pages
    free: int  # of them, what no program has
    reserved: int  # of the free ones, promised to a program

    @property
    def idle_bytes(self) -> int:
        """Memory that no one uses, and no one else can."""
        return (self.free - self.reserved) * self.page_bytes


@frozen
class Hugepages(Fact):
    """Transparent huge pages (texts are empty where the kernel has none), and the pools that are not empty."""

    mode: str  # always | madvise | never: which memory gets them
    defrag: str  # always | defer | defer+madvise | madvise | never: who waits while the kernel makes one
    boot_mode: str  # transparent_hugepage= on the kernel command line; empty without
    anonymous_bytes: int  # memory of processes that is on them now
    pmd_bytes: int  # size of a transparent huge page; 0 where the kernel has none
    default_bytes: int  # size of a page of vm.nr_hugepages; 0 where the kernel has none
    pools: tuple[HugePagePool, ...]  # the smallest pages first

    @property
    def idle_pool_bytes(self) -> int:
        """Memory in pools that no one uses."""
        return sum(pool.idle_bytes for pool in self.pools)


def chosen_of(content: str) -> str:
    """`always [madvise] never` -> madvise."""
    match = re.search(r"\[([^\[\]]+)\]", content)
    return match[1] if match else content.strip()


def boot_mode_in(command_line: str) -> str:
    """`transparent_hugepage=` on a kernel command line; the last one counts."""
    words = [word.partition("=")[2] for word in command_line.split() if word.startswith("transparent_hugepage=")]
    return words[-1] if words else ""


def collect(reader: Reader, facts: Facts) -> Hugepages:  # noqa: ARG001 - the interface of all subjects
    return Hugepages(
        mode=lazy(lambda: chosen_of(if_absent(read_text(reader, f"{_THP}/enabled"), ""))),
        defrag=lazy(lambda: chosen_of(if_absent(read_text(reader, f"{_THP}/defrag"), ""))),
        boot_mode=lazy(lambda: derive(read_line(reader, "/proc/cmdline"), "/proc/cmdline", boot_mode_in)),
        # The line is missing without CONFIG_TRANSPARENT_HUGEPAGE.
        anonymous_bytes=lazy(
            lambda: derive(read_text(reader, MEMINFO), MEMINFO, parse_meminfo).get("AnonHugePages", 0)
        ),
        pmd_bytes=lazy(lambda: if_absent(read_integer(reader, f"{_THP}/hpage_pmd_size"), 0)),
        default_bytes=lazy(lambda: derive(read_text(reader, MEMINFO), MEMINFO, parse_meminfo).get("Hugepagesize", 0)),
        pools=lazy(_read_pools, reader),
    )


def _read_pools(reader: Reader) -> tuple[HugePagePool, ...]:
    pools = []
    for name in names_in(reader, _POOLS):
        if match := _SIZE.fullmatch(name):
            files = (f"{_POOLS}/{name}/{file}_hugepages" for file in ("nr", "free", "resv"))
            pools.append(
                HugePagePool(int(match[1]) * 1024, *(if_absent(read_integer(reader, file), 0) for file in files))
            )
    return tuple(sorted((pool for pool in pools if pool.total), key=lambda pool: pool.page_bytes))
