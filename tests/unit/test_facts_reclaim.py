"""Facts about reclaim and write-back."""

import pytest

from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

VM = "/proc/sys/vm/"
FILES = {
    f"{VM}min_free_kbytes": "90112\n",
    f"{VM}watermark_scale_factor": "10\n",
    f"{VM}zone_reclaim_mode": "1\n",
    f"{VM}dirty_ratio": "0\n",
    f"{VM}dirty_background_ratio": "10\n",
    f"{VM}dirty_bytes": "800000000\n",
    f"{VM}dirty_background_bytes": "0\n",
    "/proc/meminfo": "MemTotal: 9 kB\nDirty:  3 kB\nWriteback:  1 kB\n",
}


def reclaim(*without, **options):
    return Facts(
        FakeReader({path: text for path, text in FILES.items() if path not in without}, **options)
    ).reclaim


def test_reclaim_sizes_are_bytes():
    seen = reclaim()
    assert (seen.min_free_bytes, seen.dirty_bytes, seen.waiting_bytes) == (
        90112 * 1024,
        800_000_000,
        4096,
    )
    assert (seen.zone_reclaim_mode, seen.watermark_scale_factor, seen.dirty_background_ratio) == (
        1,
        10,
        10,
    )


def test_reclaim_kernel_without_numa_never_reclaims_by_zone():
    assert reclaim(f"{VM}zone_reclaim_mode").zone_reclaim_mode == 0


def test_reclaim_without_proc_is_unknown():
    seen = reclaim(unreadable={"/proc": "not mounted"})
    for name in ("min_free_bytes", "zone_reclaim_mode", "waiting_bytes"):
        with pytest.raises(UnknownFact, match="not mounted"):
            getattr(seen, name)
