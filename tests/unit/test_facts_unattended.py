"""What unattended-upgrades may upgrade: its lists in apt's order, origins and patterns as it
matches them.
"""

from __future__ import annotations

import time

import pytest

from hosttune.choices.night_upgrade import choose
from hosttune.choices.update_hold import choose as choose_hold
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.archives import POLICY
from hosttune.facts.unattended import matches_start
from tests.unit.fake_reader import FakeReader

SECURITY = "http://security.ubuntu.com/ubuntu noble-security/restricted amd64 Packages"
RELEASE = "http://archive.ubuntu.com/ubuntu noble/restricted amd64 Packages"
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages"
ARCHIVES = f"""Package files:
 100 /var/lib/dpkg/status
     release a=now
 500 {SECURITY}
     release v=24.04,o=Ubuntu,a=noble-security,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin security.ubuntu.com
 500 {RELEASE}
     release v=24.04,o=Ubuntu,a=noble,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin archive.ubuntu.com
 500 {CUDA}
     release o=NVIDIA,l=NVIDIA CUDA,c=
     origin developer.download.nvidia.com
Pinned packages:
"""
RELEASE_FILE = b"ID=ubuntu\nVERSION_ID=24.04\nVERSION_CODENAME=noble\n"
FOLDER = "/etc/apt/apt.conf.d"
ON = 'APT::Periodic::Unattended-Upgrade "1";\n'
SHIPPED = 'Unattended-Upgrade::Allowed-Origins { "${distro_id}:${distro_codename}"; "${distro_id}:${distro_codename}-security"; };\n'
VERSION = "580.126.20-0ubuntu1"


def night(
    conf=SHIPPED,
    source=SECURITY,
    names=("libnvidia-compute-580",),
    on=ON,
    held=(),
    version=VERSION,
    **files,
):
    stanzas = [
        f"Package: {name}\nStatus: {'hold' if name in held else 'install'} ok installed\nArchitecture: amd64\nVersion: {VERSION}\n"
        for name in ("dpkg", *names)
    ]
    told = "".join(
        f"{name}:\n  Installed: {VERSION}\n  Candidate: {version}\n  Version table:\n"
        f" {'***' if version == VERSION else '   '} {version} 500\n        500 {source}\n"
        for name in sorted(names)
    )
    reader = FakeReader(
        {
            "/var/lib/dpkg/status": "\n".join(stanzas), "/etc/os-release": RELEASE_FILE, f"{FOLDER}/20auto-upgrades": on,
            f"{FOLDER}/50unattended-upgrades": conf, **{f"{FOLDER}/{name}": text for name, text in files.items()},
        },
        queries={POLICY: ARCHIVES, (*POLICY, *sorted(names)): told},
    )  # fmt: skip
    return Facts(reader)


def test_shipped_origins_take_ubuntus_driver():
    found = choose(night(), {})
    assert (found.packages, found.allowed_by) == (
        ("libnvidia-compute-580",),
        f"{FOLDER}/50unattended-upgrades:1",
    )


def test_fabric_manager_counts_by_itself():
    """Beside a driver of NVIDIA's own installer it is the only package."""
    assert choose(night(names=("nvidia-fabricmanager-580",)), {}).packages == (
        "nvidia-fabricmanager-580",
    )


REASONS = {
    "NVIDIA's archive": ({"source": CUDA}, "no allowed origin has it"),
    "the release pocket gets nothing new": ({"source": RELEASE}, "no allowed origin has it"),
    "held": ({"held": ("libnvidia-compute-580",)}, "held by apt-mark"),
    "switched off": ({"on": ""}, "APT::Periodic::Unattended-Upgrade is 0 (no file sets it)"),
    "whitelist": (
        {"w": 'Unattended-Upgrade::Package-Whitelist { "openssl"; };\n'}, f"Package-Whitelist does not have it ({FOLDER}/w:1)",
    ),
    "blacklist": (
        {"b": '\nUnattended-Upgrade::Package-Blacklist:: "lib.*nvidia";\n'},
        f"Package-Blacklist has lib.*nvidia ({FOLDER}/b:2)",
    ),
    "only modules": ({"names": ("linux-modules-nvidia-580-generic", "nvidia-settings")}, "no package of the driver"),
    "a line that ends it": (
        {"b": 'Unattended-Upgrade::Origins-Pattern:: "o=Ubuntu,nonsense=x";\n'},
        f"cannot follow 'o=Ubuntu,nonsense=x' ({FOLDER}/b:1), and upgrades nothing",
    ),
    "three parts": ({"b": 'Unattended-Upgrade::Allowed-Origins:: "a:b:c";\n'}, "cannot follow 'a:b:c'"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "reason"), REASONS.values(), ids=REASONS)
def test_why_it_cannot_happen(changes, reason):
    found = choose(night(**changes), {})
    assert found.packages == ()
    assert reason in found.why_not


@pytest.mark.parametrize(
    ("entry", "source", "takes"),
    [
        ('Origins-Pattern:: "site=developer.download.nvidia.com"', CUDA, True),
        ('Origins-Pattern:: "origin=NVIDIA, label=NVIDIA*"', CUDA, True),
        ('Origins-Pattern:: "origin=NVIDIA,label=x"', CUDA, False),
        ('Origins-Pattern:: "o=*"', CUDA, True),
        ('Origins-Pattern:: "codename=$distro_codename,archive=noble-security,c=restricted"', SECURITY, True),
        ('Origins-Pattern:: ""', SECURITY, False),
        ('Allowed-Origins:: "Ubuntu noble-security"', SECURITY, True),
        ('Allowed-Origins:: "ubuntu:noble-security"', SECURITY, False),
        ('Allowed-Origins:: "NVIDIA:"', CUDA, True),
    ],
)  # fmt: skip
def test_origins_are_matched_as_unattended_upgrades_does(entry, source, takes):
    assert bool(choose(night(f"Unattended-Upgrade::{entry};\n", source), {}).packages) is takes


def test_release_pocket_counts_while_it_has_a_newer_version():
    assert choose(night(source=RELEASE, version="580.142-0ubuntu1"), {}).packages


def test_clear_takes_away_what_files_before_it_say():
    late = '#clear Unattended-Upgrade::Allowed-Origins;\nUnattended-Upgrade::Allowed-Origins:: "x:y";\n'
    assert not choose(night(**{"51x": late}), {}).packages
    assert choose(night(**{"40x": late}), {}).packages


def test_hold_looks_past_its_own_file():
    own = {
        "60-hosttune-gpu-update-hold.conf": 'Unattended-Upgrade::Package-Blacklist:: "^libnvidia-";\n'
    }
    assert choose(night(**own), {}).why_not
    assert choose_hold(night(**own), {"kernel": "auto"}).why_not == ""


def test_timer_that_is_masked_runs_nothing():
    facts = night()
    facts.reader.links = {"/etc/systemd/system/apt-daily-upgrade.timer": "/dev/null"}
    assert choose(facts, {}).why_not.endswith("apt-daily-upgrade.timer is masked")


def test_entry_without_an_archive_is_unknown():
    with pytest.raises(UnknownFact, match="names no archive: 'Ubuntu'"):
        choose(night('Unattended-Upgrade::Allowed-Origins:: "Ubuntu";\n'), {})


def test_lists_that_are_missing_are_unknown():
    facts = night()
    del facts.reader.queries[POLICY]
    with pytest.raises(UnknownFact):
        choose(facts, {})
    hold = choose_hold(facts, {"kernel": "auto"})
    assert hold.why_not == ""
    assert any("is not known" in one for one in hold.evidence)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "a*a*a*a*b", "(?P<x>a)(?P=x)", "[", "x" * 300]
)
def test_pattern_that_could_take_long_is_not_tried(pattern):
    began = time.process_time()
    assert matches_start(pattern, "a" * 5000 + "!")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("nvidia", True),
        ("utils", False),
        ("(lib)?nvidia-.*-580$", True),
        ("^nvidia-(?!utils)", False),
        ("NVIDIA", False),
    ],
)
def test_patterns_match_at_the_start(pattern, matches):
    assert matches_start(pattern, "nvidia-utils-580") is matches


def test_lists_with_very_many_lines_are_unknown():
    with pytest.raises(
        UnknownFact, match="more than 500 lines of Unattended-Upgrade::Package-Blacklist"
    ):
        choose(
            night(
                SHIPPED
                + "".join(f'Unattended-Upgrade::Package-Blacklist:: "x{n}";\n' for n in range(501))
            ),
            {},
        )


@pytest.mark.parametrize("pattern", ["a{99999999999999}", "(?a)(?u)a", "(?L)a", "[a"])
def test_pattern_that_python_refuses_counts_as_one_that_matches(pattern):
    assert matches_start(pattern, "nvidia-utils-580")
