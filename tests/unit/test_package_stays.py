"""What packages leave on the disk is said."""

from hosttune.actions.apply import left_by as of_all
from hosttune.resources.packages.package_set import describe_changes
from hosttune.resources.packages.package_stays import left_by
from hosttune.values import ABSENT, Action, Address, Change, Outcome, Phase, Unreadable
from tests.unit.fake_reader import FakeReader

STATUS = """Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.22

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
Conffiles:
 /etc/gone.conf 0123
Description: x

Package: kept
Status: install ok installed
Architecture: amd64
Version: 2
Conffiles:
 /etc/kept.conf 0123
 /etc/kept.d/a 4567 obsolete
Description: y
 /etc/no.conf is not one of them
"""
CHANGE = Change(
    Address("package-set", "gone + kept"), Action.DELETE, ("gone=1", "kept=1"), ("kept=2",), "rule"
)


def host(*files, status=STATUS):
    return FakeReader({"/var/lib/dpkg/status": status, **dict.fromkeys(files, "")})


def test_configuration_of_what_is_gone_is_named_with_the_command():
    (one,) = left_by((CHANGE,), host("/etc/kept.conf"))
    assert one == "the configuration files of gone: sudo apt-get purge gone"


def test_text_of_a_package_that_is_no_utf_8_hides_none_of_its_files():
    status = STATUS.encode().replace(b"Description: y", b"Description: \xe9")
    said = left_by((CHANGE,), host("/etc/kept.conf.dpkg-dist", status=status))
    assert said[1].startswith("/etc/kept.conf.dpkg-dist: ")


def test_files_that_dpkg_put_beside_changed_ones_are_named():
    said = left_by(
        (CHANGE,),
        host("/etc/kept.conf.dpkg-dist", "/etc/kept.d/a.dpkg-old", "/etc/no.conf.dpkg-dist"),
    )
    assert said[1].startswith("/etc/kept.conf.dpkg-dist, /etc/kept.d/a.dpkg-old: ")


def test_nothing_is_said_of_other_changes_or_where_dpkg_cannot_be_read():
    other = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", "rule")
    assert of_all((Outcome(other, Phase.DONE),), host()) == ()
    assert of_all((Outcome(CHANGE, Phase.DONE),), host()) == left_by((CHANGE,), host()) != ()
    assert left_by((CHANGE,), host(status=Unreadable("no"))) == ()


def test_way_back_names_versions_and_what_stays():
    before, after = ("a=2", "b=1 (half-configured)", "new=1"), ("a=1 (auto)", "b=1", "old=7")
    assert describe_changes(before, after) == (
        "install old 7",
        "put back a 2 -> 1",
        "configure b 1",
        "remove new 1",
        "their configuration files stay: sudo apt-get purge new",
    )
    assert describe_changes(("a=1",), ABSENT)[0] == "remove a 1"
    assert describe_changes(("a=1", "b=2", "c=1"), ABSENT)[:2] == (
        "remove 2 packages, 1: a, c",
        "remove b 2",
    )
