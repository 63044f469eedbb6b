"""Facts about the holes of the processors."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

FOLDER = "/sys/devices/system/cpu/vulnerabilities"


def vulnerabilities(command_line="ro quiet\n", smt="1\n", **holes):
    files = {f"{FOLDER}/{name}": text for name, text in holes.items()}
    files |= {"/proc/cmdline": command_line} | (
        {} if smt is None else {"/sys/devices/system/cpu/smt/active": smt}
    )
    return Facts(FakeReader(files, folders=("/sys/devices/system/cpu",))).vulnerabilities


@pytest.mark.parametrize(
    ("status", "is_open", "is_open_between_threads"),
    [
        ("Not affected", False, False),
        ("Mitigation: PTI", False, False),
        ("Mitigation: Clear CPU buffers; SMT vulnerable", False, True),
        ("Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT vulnerable", False, True),
        ("Vulnerable", True, False),
        ("Vulnerable: Clear CPU buffers attempted, no microcode; SMT vulnerable", True, False),
        ("KVM: Vulnerable", True, False),
        ("Processor vulnerable", True, False),
        ("Mitigation: Retpolines; IBPB: conditional; BHI: Vulnerable", True, False),
        ("Unknown: No mitigations", False, False),
    ],
)
def test_vulnerability_is_open_in_the_words_of_the_kernel(status, is_open, is_open_between_threads):
    seen = vulnerabilities(mds=f"{status}\n")
    assert (bool(seen.open), bool(seen.open_between_threads)) == (is_open, is_open_between_threads)


@pytest.mark.parametrize(
    ("command_line", "switched_off"),
    [
        ("ro quiet", ()),
        ("mitigations=off ro", ("mitigations=off",)),
        ("mitigations=auto,nosmt spectre_v2=on mds=full", ()),
        (
            "nopti nospectre_v2 mds=off retbleed=off",
            ("nopti", "nospectre_v2", "mds=off", "retbleed=off"),
        ),
        ("iommu=off pti=on", ()),
    ],
)
def test_arguments_that_leave_holes_open(command_line, switched_off):
    assert vulnerabilities(command_line).switched_off == switched_off


def test_smt_is_off_where_the_kernel_knows_none():
    assert vulnerabilities(smt=None).is_smt_on is False
    assert vulnerabilities().is_smt_on is True


def test_vulnerabilities_unread_are_unknown():
    seen = vulnerabilities(mds=Unreadable("denied"), command_line=Unreadable("masked"))
    for name in ("open", "switched_off"):
        with pytest.raises(UnknownFact):
            getattr(seen, name)


def test_vulnerabilities_of_an_old_kernel_are_none():
    assert vulnerabilities().all == ()
