"""What an administrator has decided in apt: pins, holds, archives that are switched off, each with
its place.
"""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.apt_decisions import (
    archive_of_other_system,
    decisions_about,
    decisions_about_offer,
    join_decisions,
    nvidia_local_copy,
    nvidia_of_other_release,
    nvidia_switched_off,
    pin_on,
)
from hosttune.facts.apt_pins import Pin, parse_preferences, read_pins
from hosttune.facts.apt_sources import parse_sources
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import POLICY, pinned_away, releases_in, word_for
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

PREFERENCES = """\
# of the site
Explanation: no driver on these hosts
Package: *nvidia*
Pin: release *
Pin-Priority: -1

package: libcuda1 libnvidia-compute-580
  libnvidia-compute-595
Pin: version 580.126.*
pin-priority: 1001
# no blank line, a comment

Package: *
Pin: origin "developer.download.nvidia.com"
Pin-Priority: -10

Package: half
Pin: version 1
"""
# As apt 2.6 prints it where these pins take effect.
POLICY_ALL = """\
Package files:
 100 /var/lib/dpkg/status
     release a=now
 -10 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages
     release o=NVIDIA,l=NVIDIA CUDA,c=
     origin developer.download.nvidia.com
 500 http://archive.ubuntu.com/ubuntu noble-updates/restricted amd64 Packages
     release v=24.04,o=Ubuntu,a=noble-updates,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin archive.ubuntu.com
Pinned packages:
     nvidia-utils-580-server -> 580.126.20-0ubuntu0.24.04.2 with priority -1
     nvidia-driver-580 -> 580.142-0ubuntu0.24.04.1 with priority -1
     nvidia-driver-580 -> 580.126.20-0ubuntu1 with priority 500
     vim -> 2:9 with priority -1
"""
STATUS = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"
ABSENT_AND_HELD = "Package: {}\nStatus: hold ok not-installed\nArchitecture: amd64\n\n"


def facts(files=None, policy=POLICY_ALL, status=STATUS, unreadable=()):
    return Facts(
        FakeReader(
            {"/var/lib/dpkg/status": status, **(files or {})},
            unreadable=dict(unreadable),
            queries={POLICY: policy},
        )
    )


def test_pins_have_their_line():
    pins = tuple(parse_preferences(PREFERENCES, "/etc/apt/preferences"))
    assert pins == (
        Pin(("*nvidia*",), "release *", -1, "/etc/apt/preferences", 3),
        Pin(("libcuda1", "libnvidia-compute-580", "libnvidia-compute-595"), "version 580.126.*", 1001, "/etc/apt/preferences", 7),
        Pin(("*",), 'origin "developer.download.nvidia.com"', -10, "/etc/apt/preferences", 13),
    )  # fmt: skip
    assert not tuple(parse_preferences("Package: a\nPin: release *\nPin-Priority: many\n", "x"))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("nvidia-*", True), ("src:*nvidia*:any", True), ("nvidia-utils-580:amd64", True), ("/nvidia/", True),
        ("/^nvidia-utils-580$/", True), ("/utils$/", False), ("/nvidia-(utils|x)/", False), ("nvidia-utils", False),
        ("[", False),
    ],
)  # fmt: skip
def test_pin_names_packages_by_glob_or_plain_regular_expression(pattern, names):
    assert Pin((pattern,), "release *", -1, "x", 1).names("nvidia-utils-580") is names


def test_pin_that_prefers_a_version_does_not_keep_it_away():
    assert Pin(("a",), "version 580.*", 1000, "x", 1).wants("580.142-1")
    assert not Pin(("a",), "version 580.126*", 1000, "x", 1).wants("580.142-1")
    assert not Pin(("a",), "version 580.*", -1, "x", 1).wants("580.142-1")


@pytest.mark.parametrize(
    ("pin", "fits"),
    [
        ("release *", True), ("release o=NVIDIA", True), ("release o=NVIDIA, l=*CUDA", True), ("release o=Ubuntu", False),
        ('origin "developer.download.nvidia.com"', True), ("origin *.nvidia.com", True), ("origin x", False),
        ("version 580*", False),
    ],
)  # fmt: skip
def test_pin_fits_archives(pin, fits):
    (nvidia, priority), (ubuntu, _) = releases_in(POLICY_ALL)
    assert (priority, ubuntu["a"]) == (-10, "noble-updates")
    assert Pin(("*",), pin, -1, "x", 1).fits_archive(nvidia) is fits


def test_package_with_a_version_that_may_come_is_not_pinned_away():
    assert pinned_away(POLICY_ALL) == ("nvidia-utils-580-server", "vim")


def test_pins_that_keep_drivers_away_are_named_with_their_place():
    found = decisions_about_offer(facts({"/etc/apt/preferences.d/no-nvidia": PREFERENCES}))
    assert [one.what for one in found] == [
        (
            "/etc/apt/preferences.d/no-nvidia:3 keeps nvidia-utils-580-server from being installed "
            "(Package: *nvidia*, Pin: release *, Pin-Priority: -1)"
        ),
        (
            "/etc/apt/preferences.d/no-nvidia:13 keeps what its archives have from being installed "
            '(Package: *, Pin: origin "developer.download.nvidia.com", Pin-Priority: -10)'
        ),
    ]
    assert "edit /etc/apt/preferences.d/no-nvidia (line 3)" in found[0].undo


def test_pin_counts_only_where_apt_shows_its_effect():
    quiet = POLICY_ALL.partition("Pinned")[0].replace(" -10 ", " 500 ")
    assert decisions_about_offer(facts({"/etc/apt/preferences": PREFERENCES}, policy=quiet)) == ()


def test_pin_that_no_file_shows_is_said_without_one():
    ignored = facts(
        {"/etc/apt/preferences.d/no-nvidia.bak": PREFERENCES},
        policy=POLICY_ALL.replace(" -10 ", " 500 "),
    )
    (found,) = decisions_about_offer(ignored)
    assert found.what.startswith("a pin of apt's preferences keeps nvidia-utils-580-server")


def test_pin_on_what_goes_beside_a_driver_is_that_packages_own():
    pin = "Package: *fabricmanager*\nPin: release *\nPin-Priority: -1\n"
    away = POLICY_ALL.replace("nvidia-utils-580-server", "nvidia-fabricmanager-580")
    found = facts({"/etc/apt/preferences.d/fabric": pin}, policy=away.replace(" -10 ", " 500 "))
    assert decisions_about_offer(found) == ()
    meta = away.replace("nvidia-fabricmanager-580", "cuda-drivers-fabricmanager-580").replace(
        " -10 ", " 500 "
    )
    assert decisions_about_offer(facts({"/etc/apt/preferences.d/fabric": pin}, policy=meta)) == ()
    assert pin_on(found, "nvidia-fabricmanager-580") == (
        "/etc/apt/preferences.d/fabric:1 keeps nvidia-fabricmanager-580 from being installed (Package: *fabricmanager*, "
        "Pin: release *, Pin-Priority: -1): an administrator's decision: to change it, edit "
        "/etc/apt/preferences.d/fabric (line 1)"
    )
    assert pin_on(found, "libnvidia-nscq-580") == ""


def test_preferences_that_cannot_be_read_explain_nothing():
    hidden = facts(unreadable={"/etc/apt/preferences": Unreadable("no rights").reason})
    assert decisions_about_offer(hidden) == ()


def test_holds_of_absent_packages_are_named_with_the_command():
    names = (
        "libnvidia-compute-580-server",
        "nvidia-utils-580-server",
        "nvidia-utils-535",
        "nvidia-container-toolkit",
    )
    host = facts(
        status=STATUS + "".join(map(ABSENT_AND_HELD.format, names)), policy="Package files:\n"
    )
    (found,) = decisions_about(
        host, ("nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server")
    )
    assert found.what == (
        "an administrator holds libnvidia-compute-580-server, nvidia-utils-580-server (apt-mark showhold; not installed)"
    )
    assert found.undo == (
        "when the hold has served: sudo apt-mark unhold libnvidia-compute-580-server nvidia-utils-580-server, then run it again"
    )
    assert decisions_about(host, ("tuned",)) == ()
    assert join_decisions(()) is None


CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/"


def switched_off(content, path):
    return [one for one, is_on in parse_sources(content, path) if not is_on]


def test_archives_that_are_switched_off():
    lists = (
        "deb http://archive.ubuntu.com/ubuntu noble main\n"
        "# deb [arch=amd64] http://user:secret@archive.ubuntu.com/ubuntu noble restricted  # disabled on upgrade\n"
        "#deb-src http://archive.ubuntu.com/ubuntu noble restricted\n# a comment about deb packages\n"
    )
    (found,) = switched_off(lists, "/etc/apt/sources.list")
    assert (found.value, found.place) == (
        "http://archive.ubuntu.com/ubuntu noble restricted",
        "/etc/apt/sources.list:2",
    )
    stanzas = "Types: deb\nURIs: https://x/\nSuites: a\nComponents: main\nEnabled: no\n\nTypes: deb\nURIs: https://y/\n"
    (found,) = switched_off(stanzas, "/etc/apt/sources.list.d/x.sources")
    assert (found.value, found.line) == ("https://x/ a main", 5)
    whole = switched_off(stanzas, "/etc/apt/sources.list.d/x.sources.disabled")
    assert [one.place for one in whole] == ["/etc/apt/sources.list.d/x.sources.disabled"] * 2
    assert not tuple(switched_off(lists, "/etc/apt/sources.list.d/old.list.distUpgrade"))


def test_archives_that_apt_reads():
    path, other = "/etc/apt/sources.list.d/cuda.list", "/etc/apt/sources.list.d/cuda.sources"
    one_line = f"# deb https://x/ a\ndeb [signed-by=/k] {CUDA} /\ndeb-src {CUDA} /\n"
    stanza = f"Types: deb\nURIs: {CUDA}\nSuites: /\n\nURIs: https://off/\nSuites: a\nEnabled: no\n"
    files = {path: one_line, other: stanza, f"{path}.disabled": one_line}
    found = sorted((one.place, one.value) for one in facts(files).apt.sources)
    assert found == [(f"{path}:2", f"{CUDA} /"), (f"{other}:2", f"{CUDA} /")]


def test_line_that_switches_a_missing_component_off_is_named():
    lists = {"/etc/apt/sources.list": "# deb http://archive.ubuntu.com/ubuntu noble multiverse\n"}
    off = facts(lists, policy=POLICY_ALL.partition("Pinned")[0].replace(" -10 ", " 500 "))
    (found,) = decisions_about_offer(off)
    assert found.what.startswith(
        "/etc/apt/sources.list:1 has the archive http://archive.ubuntu.com/ubuntu noble multiverse"
    )
    assert (
        found.undo == "take the # away in line 1 of /etc/apt/sources.list, then sudo apt-get update"
    )


def test_archive_of_nvidia_that_a_file_name_switches_off():
    path = "/etc/apt/sources.list.d/cuda.list.disabled"
    host = facts(
        {
            path: "deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/ /\n"
        }
    )
    found = nvidia_switched_off(host)
    assert found is not None
    assert found.undo == f"sudo mv {path} {path.removesuffix('.disabled')} && sudo apt-get update"


def test_preferences_that_name_more_packages_than_are_matched_explain_nothing():
    names = "".join(f" a{number}\n" for number in range(5001))
    reader = FakeReader(
        {"/etc/apt/preferences": f"Package:\n{names}Pin: release *\nPin-Priority: -1\n"}
    )
    with pytest.raises(UnknownFact, match="more than 5,000 packages"):
        read_pins(reader)


def test_preferences_longer_than_what_is_kept_compiled_explain_nothing():
    names = "".join(f" {'a' * 4000}{number}\n" for number in range(101))
    reader = FakeReader(
        {"/etc/apt/preferences": f"Package:\n{names}Pin: release *\nPin-Priority: -1\n"}
    )
    with pytest.raises(UnknownFact, match="in more than 400,000 characters"):
        read_pins(reader)


def test_address_of_an_archive_that_is_none_names_no_site():
    assert word_for("", "", "http://[x noble/main") == "http://[x"


@pytest.mark.parametrize(
    ("release", "repository", "is_other"),
    [
        ("ID=debian\nPRETTY_NAME='Debian GNU/Linux 12'\n", "ubuntu2204", True),
        ("ID=ubuntu\n", "debian12", True),
        ("ID=debian\n", "debian12", False),
        ("ID=debian\nVERSION_ID=13\n", "debian12", False),
        ("ID=ubuntu\n", "ubuntu2404", False),
        ("ID=linuxmint\nID_LIKE=ubuntu\n", "ubuntu2404", False),
    ],
)
def test_archive_of_nvidia_for_another_distribution_is_named_with_its_line(
    release, repository, is_other
):
    """k4yt3x/video2x issue 1029: the driver for Ubuntu needs libraries that Debian has not."""
    archive = f"https://developer.download.nvidia.com/compute/cuda/repos/{repository}/x86_64/ /"
    path = "/etc/apt/sources.list.d/cuda.list"
    facts = Facts(
        FakeReader(
            files={
                "/etc/os-release": release,
                path: f"# NVIDIA\ndeb [signed-by=/k.gpg] {archive}\n",
            }
        )
    )
    found = archive_of_other_system(facts)
    assert bool(found) is is_other
    if found:
        assert (
            f"{path}:2 has NVIDIA's archive for {'Ubuntu' if 'ubuntu' in repository else 'Debian'}"
            in found.what
        )
        assert "take that line out" in found.undo


@pytest.mark.parametrize(
    ("release", "archive", "is_other"),
    [
        ("ID=debian\n", "http://archive.ubuntu.com/ubuntu noble main restricted", True),
        ("ID=debian\n", "https://de.archive.ubuntu.com/ubuntu/ noble main", True),
        ("ID=ubuntu\n", "http://deb.debian.org/debian trixie main", True),
        ("ID=ubuntu\n", "http://security.debian.org/debian-security trixie-security main", True),
        ("ID=debian\n", "http://deb.debian.org/debian trixie main", False),
        ("ID=ubuntu\n", "http://archive.ubuntu.com/ubuntu noble main", False),
        ("ID=debian\n", "https://download.example.com/ubuntu.com/ubuntu noble main", False),
        ("ID=linuxmint\nID_LIKE=ubuntu\n", "http://deb.debian.org/debian trixie main", False),
    ],
)
def test_archive_of_another_distribution_is_named_with_its_line(release, archive, is_other):
    """k4yt3x/video2x issue 1029: Debian 11 with Ubuntu's archive, whose libraries need a newer
    libc6.
    """
    files = {"/etc/os-release": release, "/etc/apt/sources.list": f"deb {archive}\n"}
    found = archive_of_other_system(Facts(FakeReader(files=files)))
    assert bool(found) is is_other
    assert not found or found.what.startswith("/etc/apt/sources.list:1 has the archive of ")


@pytest.mark.parametrize(
    ("release", "repositories", "undo"),
    [
        (
            "ID=debian\nVERSION_ID=13\nPRETTY_NAME='Debian GNU/Linux 13'\n",
            ["debian12"],
            "write debian13 there",
        ),
        ("ID=ubuntu\nVERSION_ID=24.04\n", ["ubuntu2204"], "write ubuntu2404 there"),
        ("ID=ubuntu\nVERSION_ID=24.04\n", ["ubuntu2204", "ubuntu2404"], ""),
        (
            "ID=debian\nVERSION_ID=13\n",
            ["ubuntu2204"],
            "",
        ),  # said as an archive for another distribution
        (
            "ID=debian\n",
            ["debian12"],
            "take that line out",
        ),  # testing has no number, and NVIDIA nothing for it
        ("ID=linux\n", ["debian12"], ""),
    ],
)
def test_archive_of_nvidia_for_another_release_is_named_where_there_is_no_other(
    release, repositories, undo
):
    """NVIDIA/open-gpu-kernel-modules issue 855: its newest driver does not build for the kernel of
    the newer release.
    """
    path, site = (
        "/etc/apt/sources.list.d/cuda.list",
        "https://developer.download.nvidia.com/compute/cuda/repos",
    )
    lines = "".join(f"deb {site}/{one}/x86_64/ /\n" for one in repositories)
    found = nvidia_of_other_release(
        Facts(FakeReader(files={"/etc/os-release": release, path: lines}))
    )
    assert (found.undo if found else "").startswith(undo)
    assert bool(found) is bool(undo)


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ("", True),
        (
            "deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /\n",
            False,
        ),
    ],
)
def test_copy_of_nvidias_archive_on_this_disk_gets_nothing_newer(more, is_told):
    """GoogleCloudDataproc/initialization-actions pull request 1400: 550 of CUDA 12.4's copy does
    not build for a newer kernel.
    """
    path = "/etc/apt/sources.list.d/cuda-debian12-12-4-local.list"
    lines = f"deb [signed-by=/usr/share/keyrings/x.gpg] file:///var/cuda-repo-debian12-12-4-local /\n{more}"
    found = nvidia_local_copy(
        Facts(FakeReader(files={"/etc/os-release": "ID=debian\nVERSION_ID=12\n", path: lines}))
    )
    assert bool(found) is is_told
    assert not found or (f"{path}:1" in found.what and "cuda-keyring" in found.undo)


def test_address_on_a_row_of_its_own_counts():
    """deb822(5): a row that begins with a blank goes on with the field above it."""
    stanza = "Types: deb\nURIs:\n https://developer.download.nvidia.com/a/\n http://b/\nSuites: /\nEnabled: no\n"
    (found,) = switched_off(stanza, "/etc/apt/sources.list.d/x.sources")

    assert (found.value, found.line) == ("https://developer.download.nvidia.com/a/ http://b/ /", 6)


def test_stanza_of_sources_only_is_no_archive_of_packages():
    text = "Types: {}\nURIs: http://a\nSuites: x\nComponents: main\n"
    found = [
        [*parse_sources(text.format(types), "/etc/apt/sources.list.d/a.sources")]
        for types in ("deb-src", "deb deb-src", "deb")
    ]
    assert [len(one) for one in found] == [0, 1, 1]
