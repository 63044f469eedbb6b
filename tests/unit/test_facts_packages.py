"""Package facts from dpkg's status file."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.packages import DATABASE, parse_status
from tests.unit.fake_reader import FakeReader

STATUS = """Package: dpkg
Essential: yes
Status: install ok installed
Priority: required
Architecture: amd64
Version: 1.22.6ubuntu6

Package: nvidia-driver-570-server
Status: hold ok installed
Priority: optional
Architecture: amd64
Version: 570.172.08-0ubuntu0.24.04.1
Conffiles:
 /etc/x 0123 obsolete
Description: NVIDIA driver
 Version: 1 is not a field here

Package: tuned
Status: deinstall ok config-files
Architecture: all
Version: 2.21.0-1ubuntu1

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.39-0ubuntu8

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.39-0ubuntu8

Package: wine32
Status: install ok installed
Architecture: i386
Version: 9.0

Package: half
Status: install reinstreq half-installed
Architecture: amd64

Package: man-db
Status: install ok triggers-pending
Architecture: amd64
Version: 2.12.0-4build2

Package: gone
Status: purge ok not-installed
Architecture: amd64
"""


def packages(files=None, **options):
    return Facts(FakeReader({"/var/lib/dpkg/status": STATUS} | (files or {}), **options)).packages


def test_packages_installed_and_held():
    package = packages()["nvidia-driver-570-server"]
    assert (package.is_installed, package.is_held, package.status) == (True, True, "installed")
    assert package.version == "570.172.08-0ubuntu0.24.04.1"


def test_packages_removed_with_configuration_left_is_not_installed():
    package = packages()["tuned"]
    assert (package.is_installed, package.status, package.version) == (
        False,
        "config-files",
        "2.21.0-1ubuntu1",
    )


def test_packages_unknown_name_is_not_installed():
    package = packages()["nowhere"]
    assert (package.is_installed, package.is_held, package.version, package.status) == (
        False,
        False,
        "",
        "not-installed",
    )


def test_packages_half_installed_is_not_installed_and_pending_triggers_are():
    seen = packages()
    assert (seen["half"].is_installed, seen["half"].status) == (
        False,
        "half-installed, reinst-required",
    )
    assert seen["man-db"].is_installed


def test_packages_of_a_foreign_architecture_have_a_name_of_their_own():
    seen = packages()
    assert seen["libc6"].is_installed
    assert seen["libc6:i386"].is_installed
    assert not seen["wine32"].is_installed
    assert seen["wine32:i386"].is_installed


def test_packages_names_are_the_installed_ones():
    assert packages().names == (
        "dpkg", "libc6", "libc6:i386", "man-db", "nvidia-driver-570-server", "wine32:i386",
    )  # fmt: skip


def test_packages_fields_in_another_order_are_found():
    table = parse_status(
        b"Version: 2\nArchitecture: all\nPackage: odd\nStatus: install ok installed\n"
    )
    assert table["odd"] == ("2", "install ok installed")


def test_packages_journal_of_an_interrupted_dpkg_wins():
    files = {
        "/var/lib/dpkg/updates/0000": "Package: tuned\nStatus: install ok unpacked\nArchitecture: all\nVersion: 2.22\n",
        "/var/lib/dpkg/updates/0001": "Package: man-db\nStatus: purge ok not-installed\nArchitecture: amd64\n",
        "/var/lib/dpkg/updates/tmp.i": "garbage",
    }
    seen = packages(files)
    assert (seen["tuned"].status, seen["tuned"].version) == ("unpacked", "2.22")
    assert seen["man-db"].status == "not-installed"


def test_packages_empty_and_mangled_files_hold_nothing():
    assert parse_status(b"") == {}
    assert parse_status(b"\n\nPackage: x\nStatus: what\n\n\n") == {}


def test_packages_without_a_database_are_unknown():
    seen = Facts(FakeReader()).packages
    with pytest.raises(UnknownFact, match="/var/lib/dpkg/status does not exist"):
        _ = seen["tuned"]
    with pytest.raises(UnknownFact):
        _ = seen.names


STATES = {
    "install ok installed": (True, False),
    "hold ok installed": (True, False),
    "install ok unpacked": (False, True),
    "install ok half-configured": (False, True),
    "install reinstreq half-installed": (False, True),
    "install reinstreq installed": (False, True),
    "install ok triggers-awaited": (True, True),
    "install ok triggers-pending": (True, True),
    "deinstall ok half-configured": (False, True),
    "purge ok half-installed": (False, True),
    "deinstall ok config-files": (False, False),
}


@pytest.mark.parametrize(("status", "expected"), STATES.items(), ids=STATES)
def test_package_in_each_state_of_dpkg_is_installed_or_unfinished(status, expected):
    text = f"Package: one\nStatus: {status}\nArchitecture: all\nVersion: 1\n"
    seen = Facts(FakeReader({"/var/lib/dpkg/status": text})).packages
    assert (seen["one"].is_installed, seen["one"].is_unfinished) == expected
    assert [one.name for one in seen.unfinished] == ["one"] * expected[1]


def test_packages_are_interrupted_while_dpkg_has_its_own_journal():
    files = {"/var/lib/dpkg/status": STATUS, "/var/lib/dpkg/updates/tmp.i": "half a paragraph"}
    assert not Facts(FakeReader(files)).packages.is_interrupted
    files["/var/lib/dpkg/updates/0001"] = (
        "Package: dpkg\nStatus: install ok installed\nVersion: 1.22.6ubuntu6\n"
    )
    assert Facts(FakeReader(files)).packages.is_interrupted


def test_repair_names_what_has_to_be_reinstalled():
    by_hand = "sudo dpkg --configure -a; sudo apt-get -f install"
    row = "Package: {}\nStatus: {}\nArchitecture: all\nVersion: 1\n\n"
    half = row.format("b", "install ok unpacked")
    lost = "".join(row.format(name, "install reinstreq half-installed") for name in ("c", "a"))
    assert Facts(FakeReader({"/var/lib/dpkg/status": half})).packages.repair == by_hand
    reinstalled = Facts(FakeReader({"/var/lib/dpkg/status": half + lost})).packages.repair
    assert reinstalled == f"{by_hand}\nsudo apt-get install --reinstall a c"


def test_package_that_dpkg_never_configured_is_new():
    stanzas = (
        "Package: a\nStatus: install ok unpacked\nArchitecture: all\nVersion: 2\n",
        "Package: b\nStatus: install ok unpacked\nArchitecture: all\nVersion: 2\nConfig-Version: 1\n",
        "Package: c\nStatus: install reinstreq half-installed\nArchitecture: all\n",
        "Package: d\nStatus: install ok installed\nArchitecture: all\nVersion: 2\n",
        "Package: e\nStatus: install ok half-configured\nArchitecture: all\nVersion: 2\n",
    )
    packages = Facts(FakeReader({DATABASE: "\n".join(stanzas)})).packages
    assert [name for name in "abcdef" if packages.is_new[name]] == ["a", "c"]
