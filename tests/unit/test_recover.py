"""What recovery books of a run that was interrupted, and what it leaves alone."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from hosttune.actions import run as running
from hosttune.actions.apply import new_run
from hosttune.actions.journal.journal import FOLDER, JournalWriter, read_journal
from hosttune.actions.journal.recover import recover
from hosttune.errors import Refused
from hosttune.facts import apt_get as apt
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import ABSENT, Action, Address, Change, FileValue, Phase, Unreadable
from tests.unit.fake_reader import FakeReader

SWAPPINESS, UNIT = Address("sysctl", "vm.a"), Address("unit", "x.service")
UNIT_FILE = "/usr/lib/systemd/system/x.service"
FILES = {
    "/proc/sys/vm/a": "60\n",
    "/proc/sys/kernel/random/boot_id": "boot\n",
    "/var/lib/dpkg/status": "",
    UNIT_FILE: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
}
ENABLED = {"/etc/systemd/system/multi-user.target.wants/x.service": UNIT_FILE}


def change(address, before, after):
    return Change(address, Action.UPDATE, before, after, "some-rule")


def begun(host, one, *, undoes=None, superseded=False):
    """A run that ended after the intent of its only change."""
    recorder = JournalWriter.start(
        host, new_run(host, read_journal(host), "undo" if undoes else "apply", "d")
    )
    return recorder, recorder.intent(one, undoes, superseded=superseded)


def done(host, one):
    recorder, step = begun(host, one)
    recorder.done(step)
    recorder.finish()
    return step


def test_packages_are_looked_at_only_when_the_package_managers_have_ended():
    host = Overlay(FakeReader(FILES))
    order = []
    plain = host.read
    host.run = lambda argv, *, timeout_s: order.append((argv, timeout_s >= apt.LOOK_TIMEOUT_S))
    host.read = lambda path: (order.append(path), plain(path))[1]
    begun(host, change(Address("package-set", "htop"), ABSENT, ("htop=1",)))
    recover(host)
    assert order.index((apt.check(), True)) < order.index("/var/lib/dpkg/status")


def test_undo_that_ended_half_way_is_failed_and_its_step_stands_at_what_was_found():
    host = Overlay(FakeReader(FILES, links=ENABLED))
    there = change(UNIT, ("disabled", "inactive"), ("enabled", "active"))
    step = done(host, there)
    begun(host, change(UNIT, ("enabled", "active"), ("disabled", "inactive")), undoes=step)
    recover(host)
    (last,) = read_journal(host).runs[-1].steps
    assert (last.phase, last.error, last.left.after) == (
        Phase.FAILED,
        "interrupted half-way",
        ("enabled", "inactive"),
    )
    (open_still,) = read_journal(host).in_force
    assert (open_still.id, open_still.change.after) == (step, ("enabled", "inactive"))


def test_undo_on_paper_is_done_whatever_the_host_holds():
    host = Overlay(FakeReader({**FILES, "/proc/sys/vm/a": "33\n"}))
    step = done(host, change(SWAPPINESS, "60", "10"))
    begun(host, change(SWAPPINESS, "10", "60"), undoes=step, superseded=True)
    recover(host)
    assert read_journal(host).in_force == ()


def test_intent_that_was_not_carried_out_is_failed_with_the_reason():
    host = Overlay(FakeReader(FILES))
    begun(host, change(SWAPPINESS, "60", "10"))
    recover(host)
    (step,) = read_journal(host).runs[0].steps
    assert (step.phase, step.error) == (Phase.FAILED, "interrupted before it was made")


@pytest.mark.parametrize("name", ["sysctl", "package-set"])
def test_intent_on_what_cannot_be_read_stays_open(name):
    host = Overlay(FakeReader(FILES))
    host.run = lambda argv, *, timeout_s: None
    said = []
    begun(host, change(Address(name, "vm.a"), ABSENT, "10"))
    lost = {"/proc/sys/vm/a", "/var/lib/dpkg/status"}
    plain = host.read
    host.read = lambda path: Unreadable("input/output error") if path in lost else plain(path)
    recover(host, on_progress=said.append)
    (step,) = read_journal(host).in_force
    assert step.phase is Phase.INTENT
    assert said[-1] == "vm.a is neither as before nor as planned: it is left as it is"


def test_intent_of_a_kind_that_is_not_known_here_stays_open():
    host = Overlay(FakeReader(FILES))
    said = []
    begun(host, change(Address("of-tomorrow", "x"), "a", "b"))
    recover(host, on_progress=said.append)
    assert [step.phase for step in read_journal(host).in_force] == [Phase.INTENT]
    assert "of-tomorrow:x is neither as before nor as planned" in said[-1]
    assert read_journal(host).interrupted == ()


@pytest.mark.parametrize("torn", [b"", b'{"seq":1,"phase":"done"'])
def test_half_a_line_is_cut_off_and_every_whole_line_stays(torn):
    host = Overlay(FakeReader(FILES))
    recorder, _ = begun(host, change(SWAPPINESS, "60", "10"))
    path = f"{FOLDER}/{recorder.run.id}.jsonl"
    whole = host.read(path)
    host.replace(path, FileValue(whole + torn, 0o600), expected=whole)
    written = []
    plain = host.replace
    host.replace = lambda path, value, **more: (written.append(value), plain(path, value, **more))[
        1
    ]
    recover(host)
    assert host.read(path).startswith(whole + b'{"seq":1,"phase":"failed"')
    assert written == ([FileValue(whole, 0o600)] if torn else [])


def test_nothing_is_looked_at_for_a_change_before_the_first_boot_has_ended(monkeypatch):
    wait = ("cloud-init", "status", "--wait")
    reader = FakeReader({"/run/cloud-init/enabled": ""}, queries={wait: Unreadable("timed out")})
    monkeypatch.setattr(running, "open_writer", lambda **_: Overlay(reader))
    monkeypatch.setattr(running, "hold_lock", lambda **_: nullcontext())
    monkeypatch.setattr(
        running, "open_session", lambda **_: pytest.fail("looked at a host that changes")
    )
    with pytest.raises(Refused, match="cloud-init"), running.open_for_change({}, lambda _: None):
        pass


@pytest.mark.parametrize("agrees", [True, False])
def test_nothing_is_gone_on_with_that_was_not_shown(monkeypatch, agrees):
    host, went_on = Overlay(FakeReader(FILES)), []
    catalog = SimpleNamespace(former=lambda _: set())
    session = SimpleNamespace(journal=read_journal(host), selected=(), catalog=catalog)
    monkeypatch.setattr(running, "open_writer", lambda **_: host)
    monkeypatch.setattr(running, "hold_lock", lambda **_: nullcontext())
    monkeypatch.setattr(running, "open_session", lambda **_: session)
    monkeypatch.setattr(running, "find_half_done", lambda *_: ("a set",))
    monkeypatch.setattr(running, "resume", lambda *_: (went_on.append(1), ((), ""))[1])

    def agreed(_):
        if not agrees:
            raise Refused("the plan has changed since it was shown")

    with (
        nullcontext() if agrees else pytest.raises(Refused),
        running.open_for_change({}, lambda _: None, resumes=True, agreed=agreed),
    ):
        pass
    assert went_on == [1] * agrees
