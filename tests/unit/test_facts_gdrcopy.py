"""GDRCopy: the device node that its library opens."""

import os

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.gdrcopy import NODE, major_in
from hosttune.host.door import Stat
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

DEVICES = "Character devices:\n  1 mem\n195 nvidia\n511 gdrdrv\n\nBlock devices:\n  7 loop\n"


def problem(node):
    door = FakeReader({"/proc/devices": DEVICES}, stats={NODE: node} if node else {})
    return Facts(door).gdrcopy.node_problem


def node(mode=0o666, major=511):
    return Stat("character", mode, 0, 0, 0, 0, 1, 1, 1, os.makedev(major, 0))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (node(), ""),
        (None, "there is no /dev/gdrdrv"),
        (node(0o600), "/dev/gdrdrv is not open to all users (mode 0600)"),
        (
            Stat("directory", 0o755, 0, 0, 0, 0, 1, 1, 1),
            "/dev/gdrdrv is a directory and not a device (first: sudo rmdir /dev/gdrdrv)",
        ),
        (
            node(major=240),
            "/dev/gdrdrv is left of another time: it has the number 240, and the driver 511",
        ),
    ],
)
def test_what_keeps_users_from_the_device_node(found, said):
    assert problem(found) == said


def test_node_that_cannot_be_looked_at_is_unknown():
    with pytest.raises(UnknownFact, match="no way"):
        problem(Unreadable("no way"))


def test_number_that_the_kernel_does_not_tell():
    assert (major_in(DEVICES), major_in("511 other\n"), major_in("x gdrdrv\n")) == (511, -1, -1)


@pytest.mark.parametrize(
    ("library", "driver", "fits"), [("2.4.1-1", "2.3", True), ("2.4.1-1", "1.3", False)]
)
def test_library_and_driver_are_of_one_major_version(library, driver, fits):
    status = f"Package: libgdrapi\nStatus: install ok installed\nArchitecture: amd64\nVersion: {library}\n"
    door = FakeReader({"/var/lib/dpkg/status": status, "/sys/module/gdrdrv/version": f"{driver}\n"})
    found = Facts(door).gdrcopy
    assert (found.library, found.driver, found.fits) == ("2.4.1", driver, fits)
