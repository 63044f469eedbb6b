"""Facts about stalls, swapping and kills for want of memory."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.memory.pressure import HUGE_PAGE, parse_stall
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

STALLS = "some avg10=0.00 avg60=1.50 avg300=0.70 total=123\nfull avg10=0.00 avg60=0.25 avg300=0.10 total=99\n"
FILES = {
    "/proc/pressure/memory": STALLS,
    "/proc/pressure/io": STALLS,
    "/proc/vmstat": "nr_free_pages 7\npswpin 1024\npswpout 5\noom_kill 3\n",
    "/proc/uptime": "172800.50 1.00\n",
    HUGE_PAGE: "2097152\n",
    "/sys/fs/cgroup/user.slice/memory.events": "oom 1\noom_kill 1\n",
    "/sys/fs/cgroup/system.slice/memory.events": "oom 0\noom_kill 0\n",
    "/sys/fs/cgroup/init.scope/memory.events": "oom 4\n",
}


def pressure(**changes):
    files = {path: text for path, text in (FILES | changes).items() if text is not None}
    return Facts(FakeReader(files)).pressure


def test_pressure_averages_and_counters_are_read():
    seen = pressure()
    assert (seen.memory.some_60, seen.memory.full_60, seen.memory.full_300, seen.io.some_300) == (
        1.5,
        0.25,
        0.1,
        0.7,
    )
    assert seen.is_measured
    assert seen.swapped_in_bytes == 1024 * 4096
    assert (seen.oom_kills, seen.oom_groups) == (3, ("user.slice",))
    assert round(seen.uptime_days) == 2


def test_pressure_page_of_64_kib_is_told_by_the_huge_page():
    assert pressure(**{HUGE_PAGE: "536870912\n"}).swapped_in_bytes == 1024 * 65536


def test_pressure_without_psi_is_known_to_be_unmeasured_and_the_counters_are_there():
    seen = pressure(**{"/proc/pressure/memory": None, "/proc/pressure/io": None})
    assert (seen.is_measured, seen.oom_kills) == (False, 3)
    with pytest.raises(UnknownFact, match="psi=1"):
        _ = seen.memory


def test_pressure_switched_off_in_an_old_kernel_refuses_to_be_read():
    refused = Unreadable("Operation not supported")
    assert not pressure(
        **{"/proc/pressure/memory": refused, "/proc/pressure/io": refused}
    ).is_measured


def test_pressure_that_may_not_be_read_is_unknown():
    seen = pressure(**{"/proc/pressure/memory": Unreadable("permission denied")})
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = seen.is_measured


def test_pressure_without_vmstat_is_unknown_in_its_counters_alone():
    seen = pressure(**{"/proc/vmstat": None})
    assert seen.memory.full_60 == 0.25
    for name in ("oom_kills", "swapped_in_bytes"):
        with pytest.raises(UnknownFact, match="/proc/vmstat"):
            getattr(seen, name)


@pytest.mark.parametrize(
    "text", ["", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", "full nothing\n"]
)
def test_stall_of_a_mangled_file_is_refused(text):
    with pytest.raises(ValueError, match="says"):
        parse_stall(text)
