"""Huge pages: the transparent ones of all processes, and the pools that are set aside.

Sources: kernel, Documentation/admin-guide/mm/transhuge.rst and hugetlbpage.rst; proc_meminfo(5).
"""

from __future__ import annotations

import re

from hosttune.facts.base import Fact
from hosttune.facts.kernel.kernel import of_kernel, split_command_line
from hosttune.facts.memory.memory import MEMINFO, parse_meminfo
from hosttune.facts.reading import derive, if_absent, names_in, read_integer, read_line, read_text
from hosttune.facts.subject import Subject, fact, number, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

_THP = "/sys/kernel/mm/transparent_hugepage"
_POOLS = "/sys/kernel/mm/hugepages"
_SIZE = regex(r"hugepages-(\d+)kB")


@frozen
class HugePagePool(Fact):
    """Pages of one size that are set aside for programs that ask for them (mmap with MAP_HUGETLB,
    hugetlbfs).
    """

    page_bytes: int  # size of one page
    total: int  # pages
    free: int  # of them, what no program has
    reserved: int  # of the free ones, promised to a program

    @property
    def idle_bytes(self) -> int:
        """Memory that no one uses, and no one else can."""
        return (self.free - self.reserved) * self.page_bytes


@frozen
class Hugepages(Subject):
    """Transparent huge pages (texts are empty where the kernel has none), and the pools that are
    not empty.
    """

    # always | madvise | never: which memory gets them
    mode: str = read_with(
        lambda self: chosen_of(if_absent(read_text(self.reader, f"{_THP}/enabled"), ""))
    )
    # always | defer | defer+madvise | madvise | never: who waits while the kernel makes one
    defrag: str = read_with(
        lambda self: chosen_of(if_absent(read_text(self.reader, f"{_THP}/defrag"), ""))
    )

    @fact
    def boot_mode(self) -> str:
        """transparent_hugepage= on the kernel command line; empty without."""
        return derive(read_line(self.reader, "/proc/cmdline"), "/proc/cmdline", boot_mode_in)

    @fact
    def anonymous_bytes(self) -> int:
        """Memory of processes that is on them now."""
        # The line is missing without CONFIG_TRANSPARENT_HUGEPAGE.
        return derive(read_text(self.reader, MEMINFO), MEMINFO, parse_meminfo).get(
            "AnonHugePages", 0
        )

    # size of a transparent huge page; 0 where the kernel has none
    pmd_bytes: int = number(f"{_THP}/hpage_pmd_size", absent=0)

    @fact
    def default_bytes(self) -> int:
        """Size of a page of vm.nr_hugepages; 0 where the kernel has none."""
        return derive(read_text(self.reader, MEMINFO), MEMINFO, parse_meminfo).get(
            "Hugepagesize", 0
        )

    @fact
    def pools(self) -> tuple[HugePagePool, ...]:
        """The smallest pages first."""
        pools = []
        for name in names_in(self.reader, _POOLS):
            if match := _SIZE.fullmatch(name):
                files = (f"{_POOLS}/{name}/{file}_hugepages" for file in ("nr", "free", "resv"))
                pools.append(
                    HugePagePool(
                        int(match[1]) * 1024,
                        *(if_absent(read_integer(self.reader, file), 0) for file in files),
                    )
                )
        return tuple(
            sorted((pool for pool in pools if pool.total), key=lambda pool: pool.page_bytes)
        )

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
    words = [
        word.partition("=")[2]
        for word in of_kernel(split_command_line(command_line))
        if word.startswith("transparent_hugepage=")
    ]
    return words[-1] if words else ""
