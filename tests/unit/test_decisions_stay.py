"""What an administrator decided (a mask, a hold, a pin, a file in /etc) is named, and no text tells
to undo it by the way.
"""

import re
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.services.unit_files import mask_of
from hosttune.facts.services.units import read_units, show_command
from tests.unit.fake_reader import FakeReader

SOURCE = Path(__file__).resolve().parents[2] / "hosttune"
LINES = [
    (path, number, line)
    for pattern in ("*.py", "*.yaml", "*.j2")
    for path in sorted(SOURCE.rglob(pattern))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
]
MASK = "/etc/systemd/system/x.timer"


def found(pattern):
    return [
        f"{path.relative_to(SOURCE)}:{number}"
        for path, number, line in LINES
        if re.search(pattern, line)
    ]


def test_no_text_tells_to_unmask_a_unit():
    assert found(r"\bunmask\b") == []


def test_a_hold_goes_only_when_it_has_served():
    """One function makes the command; what apt itself said of a hold is told in the same words."""
    told = [where.partition(":")[0] for where in found("apt-mark unhold")]
    assert told == ["facts/apt_decisions.py", "resources/packages/package_set.py"]
    for path in told:
        lines = [
            line
            for line in (SOURCE / path).read_text(encoding="utf-8").splitlines()
            if "apt-mark unhold" in line
        ]
        assert all("has served" in line for line in lines)


def test_no_text_takes_a_file_out_of_etc_unseen():
    """A file that an administrator wrote is named where it is to be changed; none is removed by a
    pattern.
    """
    assert (
        found(
            r"\b(?:rm|unlink) (?:-\w+ )*/etc/(?:systemd|apt|modprobe\.d|sysctl\.d|udev)/?[\w./]*\*"
        )
        == []
    )
    assert found(r"find who sets vm\.|grep -r \w+ /etc/sysctl\.d") == []


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_mask_of_a_unit_is_known_by_its_file(is_shown):
    shown = (
        "Id=x.timer\nNames=x.timer\nLoadState=masked\nActiveState=inactive\nUnitFileState=masked\n"
    )
    running = {"/run/systemd/system/a": ""} if is_shown else {}
    reader = FakeReader(
        {"/usr/lib/systemd/system/x.timer": "[Timer]\n", **running}, links={MASK: "/dev/null"},
        queries={show_command(("x.timer",)): shown},
    )  # fmt: skip
    assert mask_of(reader, "x.timer") == MASK
    assert read_units(reader, ("x.timer",))["x.timer"].fragment == MASK


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"/etc/sysctl.d/99-db.conf": "vm.overcommit_memory = 2\n"}, "/etc/sysctl.d/99-db.conf:1 sets it, an administrator's decision"),
        ({"/usr/lib/sysctl.d/50-x.conf": "vm.overcommit_memory = 2\n"}, "/usr/lib/sysctl.d/50-x.conf:1 sets it"),
        ({}, "no file sets vm.overcommit_memory at boot"),
    ],
)  # fmt: skip
def test_who_set_a_sysctl_is_told_where_it_is_to_be_changed(files, said):
    assert Facts(FakeReader(files)).sysctl_at_boot["vm.overcommit_memory"].set_by == said


def test_a_file_that_cannot_be_read_leaves_the_advice():
    reader = FakeReader({}, unreadable={"/etc/sysctl.d": "permission denied"})
    assert "not known which file" in Facts(reader).sysctl_at_boot["vm.overcommit_memory"].set_by


def test_option_of_a_module_is_told_with_its_file():
    seen = Facts(
        FakeReader({"/etc/modprobe.d/site.conf": "options nvidia NVreg_EnableGpuFirmware=0\n"})
    )
    assert seen.module_options["nvidia.NVreg_EnableGpuFirmware"].set_by == (
        "/etc/modprobe.d/site.conf:1 sets it, an administrator's decision"
    )
