"""Whether release and kernel still get security updates."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.facts.support import Support
from tests.unit.fake_reader import FakeReader

ESM = {"/etc/apt/sources.list.d/ubuntu-esm-infra.sources": "Types: deb\n"}


def support_of(
    version, kernel="6.8.0-60-generic", today="2026-11-27", os_id="ubuntu", files=None, held=()
):
    number, _, flavour = kernel.partition(".0-")
    packages = type(
        "Packages", (dict,), {"__missing__": lambda _, name: SimpleNamespace(is_held=name in held)}
    )()
    facts = SimpleNamespace(
        os=SimpleNamespace(id=os_id, version_id=version),
        host=SimpleNamespace(today=today),
        kernel=SimpleNamespace(
            release=kernel,
            flavour=flavour.partition("-")[2],
            version=tuple(map(int, number.split("."))),
        ),
        packages=packages,
    )
    return Support.look(FakeReader(files or {}), facts)


@pytest.mark.parametrize(
    ("version", "today", "ended"),
    [
        ("24.04", "2026-11-27", ""),
        ("22.04", "2027-06-01", ""),
        ("22.04", "2027-06-02", "2027-06-01"),
        ("25.10", "2026-07-10", "2026-07-09"),
        ("26.10", "2030-01-01", ""),
    ],
)
def test_release_ends_after_its_last_day(version, today, ended):
    assert support_of(version, today=today).release_ended == ended


def test_release_with_ubuntu_pro_ends_later():
    assert support_of("20.04").release_ended == "2025-05-29"
    assert support_of("20.04").release_ends_with_pro == "2030-04-23"
    assert support_of("20.04", today="2030-04-24").release_ends_with_pro == ""
    assert support_of("20.04", files=ESM).release_ended == ""
    assert support_of("20.04", files=ESM, today="2030-04-24").release_ended == "2030-04-23"
    assert (
        support_of("25.10", files=ESM).release_ended == "2026-07-09"
    )  # an interim release has no Pro


@pytest.mark.parametrize(
    ("version", "kernel", "today", "ended", "package"),
    [
        ("24.04", "6.8.0-60-generic", "2028-01-01", "", "linux-image-generic-hwe-24.04"),
        ("24.04", "6.17.0-5-generic", "2026-08-31", "", "linux-image-generic-hwe-24.04"),
        ("24.04", "6.17.0-5-generic", "2026-09-01", "2026-08", "linux-image-generic-hwe-24.04"),
        (
            "24.04",
            "6.11.0-1016-generic-64k",
            "2026-11-27",
            "2025-08",
            "linux-image-generic-64k-hwe-24.04",
        ),
        ("22.04", "6.5.0-1018-azure", "2026-11-27", "2024-08", "linux-image-azure"),
        ("24.04", "6.5.0-18-generic", "2026-11-27", "", "linux-image-generic-hwe-24.04"),
        ("24.04", "6.11.0-1016-nvidia", "2026-11-27", "", ""),
        ("24.04", "6.11.0-1016-oem", "2026-11-27", "", ""),
    ],
)
def test_hwe_kernel_ends_with_its_month(version, kernel, today, ended, package):
    found = support_of(version, kernel, today)
    assert (found.kernel_ended, found.kernel_package) == (ended, package)


def test_hold_of_either_package_counts():
    assert support_of("24.04").unhold == ""
    for name in ("linux-image-6.8.0-60-generic", "linux-image-generic-hwe-24.04"):
        assert (
            support_of("24.04", held=(name,)).unhold
            == f"when the hold has served: sudo apt-mark unhold {name}"
        )


def test_other_systems_are_not_judged():
    found = support_of("12", "6.1.0-35-amd64", os_id="linuxmint")
    assert (found.is_listed, found.release_ended, found.kernel_ended) == (False, "", "")
