"""The table of known holes: its rows, which versions they mean, and that it ends."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from hosttune.facts import Facts
from hosttune.facts.containers.known_holes import HoleRow, _find_holes, _find_versions, own_table
from hosttune.facts.gpu.archives import POLICY
from tests.unit.fake_reader import FakeReader


def test_table_of_the_package_has_dates_and_whole_rows():
    rows, as_of, good_until = own_table()
    assert as_of < good_until
    assert all(
        row.fixed and row.ids and all(part[0].isdigit() for part in row.fixed) for row in rows
    )


@pytest.mark.parametrize(
    ("package", "fixed", "version", "fix"),
    [
        ("docker-ce", ("29.7.0",), "29.6.9", "29.7.0"),
        ("docker-ce", ("29.7.0",), "29.7.0", ""),
        ("docker-ce", ("29.7.0",), "29.10.0", ""),
        ("containerd.io", ("1.7.29", "2.0.7"), "1.7.3", "1.7.29"),
        ("containerd.io", ("1.7.29", "2.0.7"), "2.1.0", ""),
        ("driver", ("535.309.01", "580.159.03"), "580.95.05", "580.159.03"),
        ("driver", ("535.309.01", "580.159.03"), "580.159.03", ""),
        ("driver", ("535.309.01", "580.159.03"), "550.54.15", ""),
    ],
)
def test_fix_for_a_version_is_that_of_its_line(package, fixed, version, fix):
    assert HoleRow(package, fixed, "CVE-1", True).fix_for(version) == fix


STATUS = "Package: docker-ce\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5:20.10.1~3-0~ubuntu-focal\n"


@pytest.mark.parametrize(("day", "is_current"), [("2027-02-28", True), ("2027-03-01", False)])
def test_table_past_its_date_says_so_and_accuses_nobody(day, is_current):
    now = datetime.fromisoformat(day).replace(tzinfo=timezone.utc).timestamp()
    host = FakeReader(
        {
            "/var/lib/dpkg/status": STATUS,
            "/proc/1/comm": "systemd",
            "/sys/module/x": "",
            "/sys/bus/x": "",
        },
        now=now,
    )
    facts = Facts(host)
    assert [hole.name for hole in facts.known_holes.found] == ["docker-ce"]
    assert facts.known_holes.is_current is is_current


@pytest.mark.parametrize(
    ("package", "version", "fixed"),
    [
        # the messages of containerd's release tags
        ("containerd.io", "1.7.32", "1.7.33"), ("containerd.io", "2.0.9", "2.0.10"), ("containerd.io", "2.1.8", "2.1.9"),
        ("containerd.io", "2.2.4", "2.2.10"), ("containerd.io", "2.3.1", "2.3.7"), ("containerd.io", "2.4.1", "2.4.2"),
        ("containerd.io", "1.7.33", ""), ("containerd.io", "2.0.10", ""), ("containerd.io", "2.1.9", ""),
        # NVIDIA's bulletins 5747, 5821 and 5861
        ("driver", "535.288.01", "535.309.01"), ("driver", "570.195.03", "570.211.01"), ("driver", "580.159.03", "580.178.04"),
        ("driver", "590.44.01", "590.48.01"), ("driver", "595.71.05", "595.91.07"), ("driver", "610.43.02", "610.57.04"),
        ("driver", "615.50.01", "615.71.09"), ("driver", "595.91.07", ""),
        ("operator-toolkit", "1.17.5", "1.19.1"), ("nvidia-container-toolkit", "1.19.0", "1.19.1"),
    ],
)  # fmt: skip
def test_the_version_to_go_to_has_none_of_the_holes_that_makers_tell(package, version, fixed):
    rows = own_table()[0]
    found = list(_find_holes(rows, {package: version}))
    assert [one.fixed for one in found] == [fixed] * bool(fixed)
    if found:
        rest = [row.ids for row in rows if row.package == package and row.fix_for(version)]
        assert found[0].ids == ", ".join(rest)
        assert not list(_find_holes(rows, {package: fixed}))


def test_what_ubuntu_or_debian_built_is_not_compared():
    text = STATUS.replace("docker-ce", "nvidia-container-toolkit").replace(
        "5:20.10.1~3-0~ubuntu-focal", "1.14.1-0ubuntu1"
    )
    assert (
        Facts(
            FakeReader({"/var/lib/dpkg/status": text, "/sys/module/x": "", "/sys/bus/x": ""})
        ).known_holes.found
        == ()
    )


LOADED = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs)\n"
)


@pytest.mark.parametrize(
    ("name", "version", "is_judged"),
    [
        ("nvidia-kernel-common-580", "580.95.05-0ubuntu0.24.04.2", False),
        ("nvidia-kernel-common-580", "580.95.05-1ubuntu1", True),
        ("nvidia-kernel-common", "580.95.05-0ubuntu1", True),
        (
            "nvidia-kernel-common-580",
            "580.95.05-0ubuntu1",
            True,
        ),  # whose it is nothing tells: no hole is denied
        ("nvidia-kernel-common-580", "580.95.05-0ubuntu0~gpu24.04.1", True),
    ],
)
def test_driver_is_judged_by_who_built_it_and_not_by_the_look_of_its_version(
    name, version, is_judged
):
    text = STATUS.replace("docker-ce", name).replace("5:20.10.1~3-0~ubuntu-focal", version)
    files = {
        "/var/lib/dpkg/status": text,
        "/proc/driver/nvidia/version": LOADED,
        "/sys/module/x": "",
        "/sys/bus/x": "",
    }
    found = Facts(FakeReader(files)).known_holes.found
    assert bool(found) is is_judged


def test_driver_of_a_vgpu_guest_is_fixed_by_its_hypervisors_release():
    slot = "/sys/bus/pci/devices/0000:01:00.0"
    part = {
        "vendor": "0x10de",
        "device": "0x2236",
        "class": "0x030200",
        "subsystem_vendor": "0x10de",
        "subsystem_device": "0x14ca",
    }
    files = {f"{slot}/{name}": text for name, text in part.items()}
    files |= {
        "/proc/driver/nvidia/version": LOADED,
        "/usr/bin/nvidia-uninstall": "",
        "/sys/module/x": "",
    }
    (hole,) = Facts(FakeReader(files | {"/var/lib/dpkg/status": ""})).known_holes.found
    assert "the vGPU release of this hypervisor" in hole.way_out


def test_driver_of_nvidias_archive_is_judged_as_apt_tells_it():
    name, version = "nvidia-kernel-common-580", "580.95.05-0ubuntu1"
    text = STATUS.replace("docker-ce", name).replace("5:20.10.1~3-0~ubuntu-focal", version)
    files = {
        "/var/lib/dpkg/status": text,
        "/proc/driver/nvidia/version": LOADED,
        "/sys/module/x": "",
        "/sys/bus/x": "",
    }
    for origin, is_judged in (("NVIDIA", True), ("Ubuntu", False)):
        answers = {
            POLICY: f"Package files:\n 500 http://a x\n     release o={origin}\n",
            (
                *POLICY,
                name,
            ): f"{name}:\n  Installed: {version}\n  Candidate: {version}\n  Version table:\n"
            f" *** {version} 500\n        500 http://a x\n        100 /var/lib/dpkg/status\n",
        }
        assert bool(Facts(FakeReader(files, queries=answers)).known_holes.found) is is_judged


def test_newest_library_of_the_operator_counts_and_not_the_last_name():
    folder = "/usr/local/nvidia/toolkit"
    files = {f"{folder}/libnvidia-container.so.{one}": "" for one in ("1.17.10", "1.17.9")}
    facts = Facts(FakeReader({**files, "/sys/module/x": "", "/sys/bus/x": ""}))
    versions = dict(_find_versions(facts.reader, facts, {"operator-toolkit"}))
    assert versions == {"operator-toolkit": "1.17.10"}
