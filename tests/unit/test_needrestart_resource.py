"""Services that needrestart leaves alone: its configuration as Perl reads it, as far as it is
plain.
"""

import shutil
import subprocess

import pytest

from hosttune.facts import Facts
from hosttune.facts.services.needrestart import entries_for, mode_of, settings_in
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds, wish_kinds
from hosttune.resources.base import Context, Wish
from hosttune.values import (
    ABSENT,
    Address,
    Disturbs,
    FileValue,
    HoldKind,
    Risk,
    Unreadable,
    Verdict,
)
from tests.hosts.service_files import NEEDRESTART
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import typed

MAIN, FOLDER = "/etc/needrestart/needrestart.conf", "/etc/needrestart/conf.d"
OURS = f"{FOLDER}/60-hosttune-services-needrestart.conf"


def compare(files, services=("slurmd", "docker"), absent="", fields=None):
    units = {
        f"/usr/lib/systemd/system/{one}.service": "[Service]\n"
        for one in services
        if one not in (absent if isinstance(absent, tuple) else (absent,))
    }
    reader = FakeReader({MAIN: NEEDRESTART, **units, **files})
    wish = Wish("needrestart", " ".join(services), "services-needrestart", fields=fields or {})
    state = {Address("file", OURS): address_kinds()["file"].read(reader, OURS)}
    context = Context(
        Facts(reader), state, {}, Risk.LOW, Disturbs.NOTHING, journal_problem="none here"
    )
    return typed(wish_kinds()["needrestart"].compare((wish,), context))


def test_settings_of_the_shipped_file_are_its_table():
    said = settings_in(NEEDRESTART, MAIN)
    assert [one.what for one in said] == ["clear", *["entry"] * 4]
    assert [one.pattern for one in entries_for(said, "docker")] == ["^docker"]
    assert mode_of(said) is None


@pytest.mark.parametrize(
    ("text", "service", "value"),
    [
        ("$nrconf{override_rc}{qr(^slurmd\\.service$)} = 0;", "slurmd", "0"),
        ("$nrconf{override_rc}->{ qr/^slurm/i } = 1; # ours", "Slurmd", "1"),
        ("$nrconf{'override_rc'}{qr(^(slurmd|munge))} = '0';", "munge", "0"),
        ("$nrconf{override_rc} = { %{$nrconf{override_rc}}, qr(^ray) => 0 };", "ray", "0"),
        ("  # $nrconf{override_rc}{qr(^slurmd)} = 0;", "slurmd", None),
    ],
)
def test_entry_is_read_in_every_spelling(text, service, value):
    found = entries_for(settings_in(text, "a"), service)
    assert [one.value for one in found] == ([value] if value else [])


def test_table_that_starts_anew_drops_what_was_there():
    said = (
        *settings_in(NEEDRESTART, MAIN),
        *settings_in("$nrconf{override_rc} = { qr(^ssh) => 0 };", "b"),
    )
    assert entries_for(said, "docker") == ()


def test_table_that_takes_the_old_one_along_keeps_it():
    said = (
        *settings_in(NEEDRESTART, MAIN),
        *settings_in("$nrconf{override_rc} = { %{$nrconf{override_rc}}, qr(^ray) => 0 };", "b"),
    )
    assert entries_for(said, "docker")
    assert entries_for(said, "ray")


@pytest.mark.parametrize(
    "text", ["$nrconf{override_rc} = f();", "$nrconf{override_rc}{qr(^(?1{x)} = 0;"]
)
def test_perl_that_is_more_than_a_value_is_unclear(text):
    assert [one.what for one in settings_in(text, "a")] == ["unclear"]


@pytest.mark.parametrize(
    "pattern",
    [
        "^(([a-z.-]+)+)+!$",
        "(?:.|.)" * 40 + "!",
        ".?" * 40 + "!",
        ".*" * 40 + "!",
        "a{9}",
        "[a\u0100-\ud7ff]",
        "a" * 1001,
    ],
)
def test_pattern_that_may_take_for_ever_is_unclear(pattern):
    """In a record it is text of the host; matched with a service, each of the first ones takes
    years. To compile a set of letters beyond Latin-1 takes some milliseconds.
    """
    (found,) = settings_in(f"$nrconf{{override_rc}}->{{qr/{pattern}/}} = 0;", "a")
    assert (found.what, len(found.pattern) <= 80) == ("unclear", True)
    assert entries_for([found], "nvidia-persistenced-of-a-long-name") == ()


def test_file_of_ours_has_an_entry_for_each_service_that_nobody_excepts():
    (finding,) = compare({}, ("slurmd", "docker", "k3s-agent"))
    (change,) = finding.changes
    lines = change.after.content.decode().splitlines()
    assert lines[-2:] == [
        r"$nrconf{override_rc}{qr(^slurmd\.service$)} = 0;",
        r"$nrconf{override_rc}{qr(^k3s\-agent\.service$)} = 0;",
    ]
    (again,) = compare({OURS: change.after}, ("slurmd", "docker", "k3s-agent"))
    assert (again.verdict, again.changes) == (Verdict.OK, ())


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is in every Debian and Ubuntu")
def test_perl_takes_the_file_and_keeps_what_the_distribution_excepts(tmp_path):
    (finding,) = compare({}, ("slurmd", "k3s-agent", "getty@tty1"))
    ours = tmp_path / "ours.conf"
    ours.write_bytes(finding.changes[0].after.content)
    program = (
        "use strict; our %nrconf = (override_rc => {qr(^dbus) => 0}); my $fn = shift; "
        "eval do { local(@ARGV, $/) = $fn; <>}; die $@ if $@; "
        "for my $rc (@ARGV) { print $rc, ' ', (grep { $rc =~ /$_/ } keys %{$nrconf{override_rc}}) + 0, \"\\n\" }"
    )
    names = (
        "dbus.service",
        "slurmd.service",
        "k3s-agent.service",
        "slurmdx.service",
        "ssh.service",
    )
    done = subprocess.run(
        ["perl", "-e", program, str(ours), *names], capture_output=True, text=True, check=True
    )
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["1", "1", "1", "0", "0"]


def test_list_mode_needs_no_file():
    (finding,) = compare({f"{FOLDER}/50-a.conf": "$nrconf{restart} = 'l';"})
    assert (finding.verdict, finding.changes) == (Verdict.OK, ())


def test_last_mode_counts():
    files = {
        f"{FOLDER}/50-a.conf": "$nrconf{restart} = 'l';",
        f"{FOLDER}/99-b.conf": "$nrconf{restart} = 'a';",
    }
    (finding,) = compare(files)
    assert finding.changes


def test_table_that_a_later_file_starts_anew_is_theirs_and_the_way_out_is_told():
    (finding,) = compare({f"{FOLDER}/99-z.conf": "$nrconf{override_rc} = { qr(^a) => 0 };"})
    assert (finding.hold.kind, finding.hold.detail) == (HoldKind.OWNED, f"{FOLDER}/99-z.conf")
    assert "one by one" in finding.todo


def test_service_that_somebody_wants_restarted_is_theirs_and_the_others_are_written():
    ours, contested = compare(
        {f"{FOLDER}/50-a.conf": "$nrconf{override_rc}{qr(^slurm)} = 1;"}, ("slurmd", "kubelet")
    )
    assert b"slurmd" not in ours.changes[0].after.content
    assert (contested.subject, contested.hold.kind) == ("slurmd", HoldKind.OWNED)


@pytest.mark.parametrize("name", ["x)} = 0; system('id'); #", "a/b", ""])
def test_name_that_is_none_of_a_service_is_refused_before_it_reaches_perl(name):
    wish = Wish("needrestart", name or "$", "services-needrestart")
    state = {Address("file", OURS): ABSENT}
    context = Context(Facts(FakeReader({})), state, {}, Risk.LOW, Disturbs.NOTHING)
    (finding, *_) = typed(wish_kinds()["needrestart"].compare((wish,), context))
    assert (finding.verdict, finding.changes) == (Verdict.UNKNOWN, ())


def test_file_that_cannot_be_read_is_unknown():
    (finding,) = compare({f"{FOLDER}/50-a.conf": Unreadable("needs root: permission denied")})
    assert (finding.verdict, "needs root" in finding.reason) == (Verdict.UNKNOWN, True)


def test_overlay_reads_back_what_was_written_there():
    overlay = Overlay(FakeReader({MAIN: NEEDRESTART}))
    overlay.files[OURS] = FileValue(b"$nrconf{override_rc}{qr(^slurmd\\.service$)} = 0;\n")
    said = Facts(overlay).needrestart.settings
    assert entries_for(said, "slurmd")[0].file == OURS


def test_only_services_that_are_here_are_named_and_where_none_is_nothing_is_written():
    (found,) = compare({}, ("slurmd", "kubelet"), absent="kubelet")
    assert found.reason == "after an upgrade needrestart may restart slurmd"
    assert (
        b"kubelet" in found.changes[0].after.content
    )  # also one that is installed later is left to people
    (none,) = compare({}, ("kubelet",), absent="kubelet")
    assert (none.verdict, none.changes) == (Verdict.OK, ())


INSTALLED = {"entries": "installed"}


def test_installed_services_alone_get_an_entry_which_stays_when_they_go():
    (found,) = compare({}, ("slurmd", "k3s"), absent="k3s", fields=INSTALLED)
    (change,) = found.changes
    text = change.after.content.decode()
    assert ("slurmd" in text, "k3s" in text) == (True, False)
    (every,) = compare({}, ("slurmd", "k3s"), absent="k3s")
    assert "k3s" in every.changes[0].after.content.decode()
    for absent in (("k3s",), ("slurmd", "k3s")):
        (again,) = compare({OURS: text}, ("slurmd", "k3s"), absent=absent, fields=INSTALLED)
        assert (again.verdict, again.changes) == (Verdict.OK, ())
