"""A rule looks at what it asks about and no further. A look is a question through the door: a file,
a folder, a program.
"""

from __future__ import annotations

from functools import cache

import pytest

from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.record.record import read_record
from tests.hosts.built import BUILT, RECORDED
from tests.hosts.looks import looks_of

HOSTS = [*BUILT, *RECORDED]
CATALOG = builtin_catalog()
# What a rule may ask of the largest server, eight GPUs and 224 processors, where it is about each
# of them.
OF_EACH_DEVICE = 600
OTHERS = 250
ABOUT_DEVICES = {
    "cpu-governor",
    "cpu-idle-states",
    "gpu-pcie-link",
    "network-pcie-link",
    "storage-pcie-link",
}


reader_of = cache(lambda path: read_record(str(path)))


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_swappiness_needs_little_of_a_host(path):
    looks = looks_of("memory-swappiness", reader_of(path), CATALOG)
    assert looks.total() <= 30, sorted(looks)
    strange = ("/sys/devices/system/cpu", "/proc/cpuinfo", "/sys/class/dmi", "/sys/bus/pci")
    assert not [one for one in looks if one[1].startswith(strange)]


@pytest.mark.parametrize("rule", sorted(CATALOG.rules))
def test_no_rule_walks_through_a_host(rule):
    most = max((looks_of(rule, reader_of(path), CATALOG).total(), path.stem) for path in HOSTS)
    assert most[0] <= (OF_EACH_DEVICE if rule in ABOUT_DEVICES else OTHERS), most
