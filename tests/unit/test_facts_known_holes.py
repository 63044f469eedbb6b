"""The table of known holes: its rows, which versions they mean, and that it ends."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from hosttune.facts import Facts
from hosttune.facts.containers.known_holes import Row, own_table
from tests.unit.fake_reader import FakeReader


def test_table_of_the_package_has_dates_and_whole_rows():
    rows, as_of, good_until = own_table()
    assert as_of < good_until
    assert all(row.fixed and row.ids and all(part[0].isdigit() for part in row.fixed) for row in rows)


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
    assert Row(package, fixed, "CVE-1", True).fix_for(version) == fix


STATUS = "Package: docker-ce\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5:20.10.1~3-0~ubuntu-focal\n"


@pytest.mark.parametrize(("day", "is_current"), [("2027-02-28", True), ("2027-03-01", False)])
def test_table_past_its_date_says_so_and_accuses_nobody(day, is_current):
    now = datetime.fromisoformat(day).replace(tzinfo=timezone.utc).timestamp()
    host = FakeReader(
        {"/var/lib/dpkg/status": STATUS, "/proc/1/comm": "systemd", "/sys/module/x": "", "/sys/bus/x": ""}, now=now
    )
    facts = Facts(host)
    assert [hole.name for hole in facts.known_holes.found] == ["docker-ce"]
    assert facts.known_holes.is_current is is_current


def test_what_ubuntu_or_debian_built_is_not_compared():
    text = STATUS.replace("docker-ce", "nvidia-container-toolkit").replace(
        "5:20.10.1~3-0~ubuntu-focal", "1.14.1-0ubuntu1"
    )
    assert (
        Facts(FakeReader({"/var/lib/dpkg/status": text, "/sys/module/x": "", "/sys/bus/x": ""})).known_holes.found == ()
    )
