"""Where the driver's packages come from, by what `apt-cache policy` prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.archives import (
    POLICY,
    Archives,
    components_in,
    parse_archives,
    parse_policy,
)
from hosttune.facts.gpu.candidates import DEVICES, LIST
from hosttune.host.door import Completed
from tests.unit.fake_reader import FakeReader
from tests.unit.test_facts_candidates import GPU, LISTED, LISTS, UBUNTU
from tests.unit.test_facts_driver import status

UPDATES = "http://archive.ubuntu.com/ubuntu noble-updates/restricted amd64 Packages"
SECURITY = "http://security.ubuntu.com/ubuntu noble-security/restricted amd64 Packages"
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages"
PPA = "https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu noble/main amd64 Packages"
ESM = "https://esm.ubuntu.com/infra/ubuntu focal-infra-security/main amd64 Packages"
LOCAL = "file:/srv/archive ./ Packages"
PRIVATE = "https://user:secret@apt.example.com/deb stable/main amd64 Packages"
ARCHIVES = f"""Package files:
 100 /var/lib/dpkg/status
     release a=now
 600 {CUDA}
     release o=NVIDIA,l=NVIDIA CUDA,c=
     origin developer.download.nvidia.com
 500 {PPA}
     release v=24.04,o=LP-PPA-graphics-drivers,a=noble,n=noble,l=Proprietary GPU Drivers,c=main,b=amd64
     origin ppa.launchpadcontent.net
 510 {ESM}
     release v=20.04,o=UbuntuESM,a=focal-infra-security,n=focal,l=UbuntuESM,c=main,b=amd64
     origin esm.ubuntu.com
 500 {LOCAL}
     release c=
 500 {PRIVATE}
     release c=main
     origin apt.example.com
 500 {UPDATES}
     release v=24.04,o=Ubuntu,a=noble-updates,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin archive.ubuntu.com
 500 {SECURITY}
     release v=24.04,o=Ubuntu,a=noble-security,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin security.ubuntu.com
Pinned packages:
     nvidia-driver-580 -> 580.126.09-0ubuntu0.24.04.1 with priority 1001
"""
OLD, NEW, FOREIGN = "580.95.05-0ubuntu0.24.04.2", "580.126.20-0ubuntu0.24.04.1", "580.142-0ubuntu1"


def test_components_are_those_of_ubuntu_alone():
    assert components_in(ARCHIVES) == ("restricted",)
    more = ARCHIVES + " 500 x\n     release v=24.04,o=Ubuntu,a=noble,l=Ubuntu,c=universe,b=amd64\n"
    assert components_in(more) == ("restricted", "universe")
    assert components_in(ARCHIVES.replace("o=Ubuntu,", "o=Mirror,")) == ()
    assert components_in("") == ()


def policy(name: str, installed: str, candidate: str, *table: tuple[str, tuple[str, ...]]) -> str:
    lines = [
        f"{name}:",
        f"  Installed: {installed or '(none)'}",
        f"  Candidate: {candidate or '(none)'}",
    ]
    lines.append("  Version table:")
    for version, sources in table:
        lines.append(f" {'***' if version == installed else '   '} {version} 500")
        lines += [f"        500 {source}" for source in sources]
        if version == installed:
            lines.append("        100 /var/lib/dpkg/status")
    return "\n".join(lines) + "\n"


UTILS = policy("nvidia-utils-580-server", OLD, NEW, (NEW, (UPDATES, SECURITY)), (OLD, (SECURITY,)))
CURRENT = policy("nvidia-compute-utils-580-server", NEW, NEW, (NEW, (UPDATES,)))
GONE = policy("libnvidia-compute-580-server", OLD, NEW, (NEW, (UPDATES,)), (OLD, ()))
MIXED = policy(
    "nvidia-kernel-common-580-server", FOREIGN, FOREIGN, (FOREIGN, (CUDA,)), (NEW, (UPDATES,))
)
NAMES = tuple(text.partition(":")[0] for text in (GONE, CURRENT, MIXED, UTILS))


INSTALLED = {NAMES[0]: OLD, NAMES[1]: NEW, NAMES[2]: FOREIGN, NAMES[3]: OLD}


def archives_of(answers, installed=INSTALLED):
    database = status("dpkg") + "".join(
        status(name, version=version) for name, version in installed.items()
    )
    return Facts(FakeReader({"/var/lib/dpkg/status": database}, queries=answers)).archives


def test_parse_archives_words():
    assert parse_archives(ARCHIVES) == {
        CUDA: "NVIDIA", PPA: "LP-PPA-graphics-drivers", ESM: "Ubuntu", LOCAL: "file:/srv/archive",
        PRIVATE: "apt.example.com", UPDATES: "Ubuntu", SECURITY: "Ubuntu",
    }  # fmt: skip


def test_parse_archives_never_shows_a_password():
    text = ARCHIVES.replace("     origin apt.example.com\n", "")
    assert parse_archives(text)[PRIVATE] == "https://apt.example.com/deb"


def test_parse_archives_knows_nvidia_by_its_site():
    text = ARCHIVES.replace("     release o=NVIDIA,l=NVIDIA CUDA,c=\n", "     release c=\n")
    assert parse_archives(text)[CUDA] == "NVIDIA"


def test_parse_archives_counts_debians_backports_to_debian():
    text = ARCHIVES.replace("o=LP-PPA-graphics-drivers", "o=Debian Backports")
    assert parse_archives(text)[PPA] == "Debian"


def test_origins_are_those_of_the_driver_itself():
    """Ubuntu's driver with Fabric Manager of NVIDIA's archive, in the same version, is a usual
    pair.
    """
    text = "".join(
        policy(name, OLD, OLD, (OLD, (where,)))
        for name, where in (
            ("nvidia-utils-580-server", UPDATES),
            ("nvidia-fabricmanager-580", CUDA),
            ("nvlsm", CUDA),
        )
    )
    assert Archives(parse_policy(text, parse_archives(ARCHIVES))).origins == ("Ubuntu",)


def test_parse_policy_tells_version_and_origin():
    offers = parse_policy(UTILS + GONE + MIXED, parse_archives(ARCHIVES))
    utils = offers["nvidia-utils-580-server"]
    assert (utils.installed, utils.candidate, utils.installed_from, utils.candidate_from) == (
        OLD, NEW, "Ubuntu", "Ubuntu",
    )  # fmt: skip
    assert utils.is_newer
    assert offers["libnvidia-compute-580-server"].installed_from == ""
    assert offers["nvidia-kernel-common-580-server"].installed_from == "NVIDIA"


def test_parse_policy_not_installed_and_not_available():
    offers = parse_policy(
        policy("a", "", NEW, (NEW, (PPA,))) + policy("b", OLD, ""), parse_archives(ARCHIVES)
    )
    assert (offers["a"].installed, offers["a"].candidate_from) == ("", "LP-PPA-graphics-drivers")
    assert (offers["b"].installed, offers["b"].candidate) == (OLD, "")
    assert not offers["a"].is_newer
    assert not offers["b"].is_newer


def test_parse_policy_takes_ubuntu_before_others_and_phased_versions():
    text = policy("a", NEW, NEW, (NEW, (PPA, UPDATES))).replace(
        f"{NEW} 500", f"{NEW} 500 (phased 20%)"
    )
    assert parse_policy(text, parse_archives(ARCHIVES))["a"].installed_from == "Ubuntu"


def test_parse_policy_of_a_foreign_architecture():
    text = policy("libnvidia-compute-580:i386", OLD, NEW, (NEW, (UPDATES,)))
    assert (
        parse_policy(text, parse_archives(ARCHIVES))["libnvidia-compute-580:i386"].candidate == NEW
    )


def test_archives_of_installed_packages():
    answers = {POLICY: ARCHIVES, (*POLICY, *sorted(NAMES)): UTILS + CURRENT + GONE + MIXED}
    found = archives_of(answers)
    assert [offer.name for offer in found.updates] == [
        "libnvidia-compute-580-server",
        "nvidia-utils-580-server",
    ]
    assert found.origins == ("NVIDIA", "Ubuntu")
    assert found.without_origin == ("libnvidia-compute-580-server",)


def test_archives_go_by_dpkg_where_a_plan_is_tried():
    """On an overlay the status file is the plan's, and apt-cache still answers for the host
    below.
    """
    answers = {POLICY: ARCHIVES, (*POLICY, *sorted(NAMES)): UTILS + CURRENT + GONE + MIXED}
    found = archives_of(answers, {**INSTALLED, NAMES[0]: NEW, NAMES[3]: NEW})
    assert found.updates == ()
    assert found.packages[NAMES[3]].installed_from == "Ubuntu"
    assert found.without_origin == ()


def test_archives_without_driver_packages_ask_nothing():
    reader = FakeReader({"/var/lib/dpkg/status": status("dpkg")})
    assert Facts(reader).archives.packages == {}
    assert POLICY not in reader.asked


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({}, "apt-cache is not installed"),
        ({POLICY: "Package files:\n 100 /var/lib/dpkg/status\n     release a=now\nPinned packages:\n"}, "sudo apt-get update"),
        ({POLICY: Completed(100, b"", b"E: The list of sources could not be read.\n")}, "list of sources could not"),
        ({POLICY: ARCHIVES, (*POLICY, *sorted(NAMES)): Completed(100, b"", b"")}, "exit status 100"),
    ],
)  # fmt: skip
def test_archives_that_cannot_be_told_are_unread(answers, reason):
    found = archives_of(answers)
    for name in ("packages", "updates", "origins"):
        with pytest.raises(UnknownFact, match=reason):
            getattr(found, name)


def test_archives_unread_packages_are_passed_on():
    reader = FakeReader(unreadable={"/var/lib/dpkg": "needs root"})
    with pytest.raises(UnknownFact, match="needs root"):
        _ = Facts(reader).archives.packages


def test_offers_are_versions_of_what_ubuntu_drivers_lists():
    names = (
        "linux-modules-nvidia-580-server-open-generic", "linux-modules-nvidia-595-open-generic", "nvidia-dkms-580",
        "nvidia-driver-580", "nvidia-driver-580-server-open", "nvidia-driver-595-open", "nvidia-driver-600-open",
    )  # fmt: skip
    text = policy("nvidia-driver-580-server-open", "", NEW, (NEW, (UPDATES,)))
    text += policy("nvidia-driver-600-open", "", "", ("600.1-1", (PPA,)))
    answers = {DEVICES: GPU, LIST: LISTED, POLICY: ARCHIVES, (*POLICY, *names): text}
    reader = FakeReader(LISTS | UBUNTU, queries=answers)
    offers = Facts(reader).offers
    assert offers.versions == {"nvidia-driver-580-server-open": NEW}
    assert offers.packages["nvidia-driver-580-server-open"].candidate_from == "Ubuntu"
    assert [argv for argv in reader.asked if argv[0] == "apt-cache"] == [POLICY, (*POLICY, *names)]


def test_offers_without_candidates_ask_apt_nothing():
    reader = FakeReader(UBUNTU)
    assert Facts(reader).offers.versions == {}
    assert ("apt-cache", "policy") not in reader.asked


WHOLE = ARCHIVES + UTILS + CURRENT + GONE + MIXED


@given(st.lists(st.sampled_from(WHOLE.splitlines())), st.integers(0, len(WHOLE)))
def test_parsers_bear_any_order_and_cut(lines, cut):
    for text in ("\n".join(lines), WHOLE[:cut]):
        for offer in parse_policy(text, parse_archives(text)).values():
            assert offer.installed in {"", OLD, NEW, FOREIGN} or text.endswith(offer.installed)
