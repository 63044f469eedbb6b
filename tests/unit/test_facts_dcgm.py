"""DCGM: which version, whether it is as new as the driver, and how many host engines run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.host.door import Process
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

ENGINE = "/usr/bin/nv-hostengine"


def dcgm_of(packages, driver="", *, device="0x2330", **queries):
    status = "\n\n".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
        for name, version in packages.items()
    )
    slot = "/sys/bus/pci/devices/0000:1b:00.0"
    files = {
        "/var/lib/dpkg/status": status,
        f"{slot}/vendor": "0x10de",
        f"{slot}/class": "0x030200",
        f"{slot}/device": device,
    }
    files |= {"/sys/module/nvidia/version": f"{driver}\n"} if driver else {"/sys/module/x": ""}
    return Facts(FakeReader(files, **queries)).dcgm


@pytest.mark.parametrize(
    ("packages", "driver", "device", "version", "is_too_old"),
    [
        ({"datacenter-gpu-manager": "1:3.3.9"}, "580.126.20", "0x2330", "3.3.9", True),
        ({"datacenter-gpu-manager": "1:3.3.9"}, "550.163.01", "0x2330", "3.3.9", False),
        ({"datacenter-gpu-manager": "1:3.3.9"}, "550.163.01", "0x2901", "3.3.9", True),
        ({"datacenter-gpu-manager-4-core": "1:4.2.3-2"}, "580.126.20", "0x2901", "4.2.3", False),
        ({"datacenter-gpu-manager-exporter": "4.2.3"}, "580.126.20", "0x2330", "", False),
    ],
)
def test_version_and_driver(packages, driver, device, version, is_too_old):
    dcgm = dcgm_of(packages, driver, device=device)
    assert (dcgm.version, dcgm.is_too_old) == (version, is_too_old)


def test_host_engines_that_run():
    engine = Process(
        7,
        "nv-hostengine",
        "root",
        ("nv-hostengine", "-n"),
        0,
        0,
        (),
        "/",
        0.0,
        uid=0,
        program=ENGINE,
    )
    called = replace(engine, pid=9, user="eve", uid=1001, program="/tmp/nv-hostengine")
    assert dcgm_of({}, processes=(engine, replace(engine, pid=8), called)).engines == 2
    with pytest.raises(UnknownFact, match="hidden"):
        _ = dcgm_of({}, processes=Unreadable("hidden")).engines
