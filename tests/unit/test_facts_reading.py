"""What facts read with: small files and programs."""

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.jobs import quota_of
from hosttune.facts.memory.memory_modules import modules_in
from hosttune.facts.network.reached import default_routes
from hosttune.facts.reading import ask, day_of, hint
from hosttune.resources.kernel.sysfs_set import number_paths
from hosttune.resources.services.systemd_setting import parse_amount
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader


def test_hint_is_empty_where_nothing_can_be_read():
    reader = FakeReader({"/a": b" x\xff\n", "/b": Unreadable("needs root")})
    assert [hint(reader, path) for path in ("/a", "/b", "/c")] == [" x\ufffd\n", "", ""]


def test_program_that_did_not_end_or_is_not_installed_is_unknown():
    reader = FakeReader(
        queries={("a", "-v"): "1\n", ("b",): Unreadable("b did not end within 10 s")}
    )
    assert ask(reader, ("a", "-v")).text == "1\n"
    with pytest.raises(UnknownFact, match="b did not end within 10 s"):
        ask(reader, ("b",))
    with pytest.raises(UnknownFact, match="c is not installed"):
        ask(reader, ("c",))


LONG = "9" * 5000  # int() fails for so many digits
GROUP = {"/proc/1/status": "Cpus_allowed_list:\t0-3\n", "/proc/1/cgroup": "0::/\n"}


@pytest.mark.parametrize(
    ("files", "read"),
    [
        (GROUP | {"/sys/fs/cgroup/cpu.max": "all 100000\n"}, lambda facts: facts.cpu.usable),
        ({"/proc/stat": f"btime {LONG}\n"}, lambda facts: facts.kernel.booted_at),
        (
            {
                "/proc/vmstat": "pswpin 3\n",
                "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "-8\n",
            },
            lambda facts: facts.pressure.swapped_in_bytes,
        ),
        ({"/proc/net/route": "head\neth0 x 0 1 0 0 0 0\n"}, lambda facts: default_routes(facts.reader)),
        ({"/proc/net/ipv6_route": "x 0 0 0 0 0 0 0 1 eth0\n"}, lambda facts: default_routes(facts.reader)),
        ({}, lambda _: day_of(1e20)),
        ({}, lambda _: day_of(-1e20)),
    ],
    ids=["quota", "boot", "huge page", "route", "route of IPv6", "a late day", "an early day"],
)  # fmt: skip
def test_number_that_no_kernel_writes_is_unknown_and_no_error(files, read):
    """A record, which others can write, may hold any text in the place of a number."""
    with pytest.raises(UnknownFact):
        read(Facts(FakeReader(files)))


def test_long_numbers_of_other_files_count_as_none():
    assert modules_in(f"E:MEMORY_DEVICE_{LONG}_SIZE=1\nE:MEMORY_DEVICE_0_TYPE=DDR5\n") == ()
    assert quota_of(f"{LONG} 100000") is None
    assert parse_amount(LONG) is None
    assert number_paths("/sys/cpu*/x", [f"/sys/cpu{LONG}/x"]) is None
