"""Facts about transparent huge pages and pools."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

THP = "/sys/kernel/mm/transparent_hugepage"
POOL = "/sys/kernel/mm/hugepages/hugepages-"
FILES = {
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/defrag": "always defer [defer+madvise] madvise never\n",
    f"{THP}/hpage_pmd_size": "2097152\n",
    "/proc/cmdline": "ro transparent_hugepage=never transparent_hugepage=madvise quiet\n",
    "/proc/meminfo": "MemTotal: 1 kB\nAnonHugePages:   4096 kB\n",
}


def pool(size_kib, total, free, reserved):
    base = f"{POOL}{size_kib}kB"
    return {
        f"{base}/nr_hugepages": total,
        f"{base}/free_hugepages": free,
        f"{base}/resv_hugepages": reserved,
    }


def hugepages(**changes):
    files = {path: text for path, text in (FILES | changes).items() if text is not None}
    return Facts(FakeReader(files)).hugepages


def test_hugepages_words_in_brackets_and_the_last_argument_count():
    seen = hugepages()
    assert (seen.mode, seen.defrag, seen.boot_mode) == ("madvise", "defer+madvise", "madvise")
    assert (seen.anonymous_bytes, seen.pmd_bytes, seen.pools) == (4096 * 1024, 2 << 20, ())


def test_hugepages_of_a_kernel_without_them_are_empty():
    seen = hugepages(**{path: None for path in FILES if path.startswith(THP)})
    assert (seen.mode, seen.defrag, seen.pmd_bytes) == ("", "", 0)


def test_hugepages_pools_in_order_of_size_without_the_empty_ones():
    seen = hugepages(
        **pool(1048576, "2\n", "1\n", "0\n"),
        **pool(2048, "10\n", "8\n", "3\n"),
        **pool(64, "0", "0", "0"),
    )
    assert [(one.page_bytes, one.idle_bytes) for one in seen.pools] == [
        (2 << 20, 5 * (2 << 20)),
        (1 << 30, 1 << 30),
    ]
    assert seen.idle_pool_bytes == 10 * (1 << 20) + (1 << 30)


def test_hugepages_unreadable_word_or_pool_is_unknown_in_that_field_alone():
    seen = hugepages(**{f"{THP}/enabled": Unreadable("no"), f"{POOL}2048kB/nr_hugepages": "many\n"})
    assert seen.defrag == "defer+madvise"
    for name in ("mode", "pools", "idle_pool_bytes"):
        with pytest.raises(UnknownFact):
            getattr(seen, name)
