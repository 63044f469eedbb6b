"""Which files set a sysctl at boot."""

from hosttune.resources import address_kinds
from tests.unit.fake_reader import FakeReader


def test_masked_file_sets_nothing_and_leaves_the_rest_known():
    reader = FakeReader(
        {"/etc/sysctl.d/10-a.conf": "vm.swappiness = 5\n", "/usr/lib/sysctl.d/20-b.conf": "vm.swappiness = 9\n"},
        links={"/etc/sysctl.d/20-b.conf": "/dev/null"}, unreadable={"/dev/null": "not a regular file"},
    )  # fmt: skip
    assert address_kinds()["sysctl-files"].read(reader, "vm.swappiness") == ("5\t/etc/sysctl.d/10-a.conf:1",)
