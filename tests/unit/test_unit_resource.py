"""What a rule wants of a service, against the states that systemd knows."""

from types import SimpleNamespace

import pytest

from hosttune.errors import Conflict, Refused
from hosttune.resources import address_kinds, wish_kinds
from hosttune.resources.base import Context, Wish
from hosttune.values import Action, Address, Change, Disturbs, HoldKind, Risk, Verdict
from tests.unit.wish_host import typed

NAME = "x.service"
ADDRESS = Address("unit", NAME)


MASK = f"/etc/systemd/system/{NAME}"


def compare(present, preset="unknown", **fields):
    facts = SimpleNamespace(units={NAME: SimpleNamespace(preset=preset, fragment=MASK)})
    wish = Wish("unit", NAME, "service-x", NAME, fields)
    context = Context(facts, {ADDRESS: present}, {}, Risk.LOW, Disturbs.NOTHING)
    (finding,) = typed(wish_kinds()["unit"].compare((wish,), context))
    return finding


@pytest.mark.parametrize(
    "present",
    [
        ("enabled", "active"),
        ("static", "active"),
        ("indirect", "reloading"),
        ("alias", "active"),
        ("generated", "active"),
    ],
)
def test_wanted_state_is_ok(present):
    assert compare(present, enabled=True, active=True).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("present", "after"),
    [
        (("disabled", "inactive"), ("enabled", "active")),
        (("disabled", "failed"), ("enabled", "active")),
        (("enabled", "failed"), ("enabled", "active")),
        (("static", "inactive"), ("static", "active")),
    ],
)
def test_what_systemctl_can_do_is_planned(present, after):
    (change,) = compare(present, enabled=True, active=True).changes
    assert (change.before, change.after) == (present, after)


@pytest.mark.parametrize("state", ["linked", "enabled-runtime", "linked-runtime", "bad", ""])
def test_state_that_is_not_ours_to_change_is_neither_ok_nor_changed(state):
    finding = compare((state, "active"), enabled=True, active=True)
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    )


@pytest.mark.parametrize("state", ["masked", "masked-runtime"])
def test_masked_unit_is_somebodys_decision(state):
    finding = compare((state, "inactive"), enabled=True)
    assert (finding.verdict, finding.hold.kind) == (Verdict.ADVICE, HoldKind.OWNED)
    assert finding.hold.detail == f"an administrator ({NAME} is masked by {MASK})"
    assert (
        finding.todo == "nothing, if that is meant: `ignore: [service-x]` in the policy records it"
    )
    assert compare((state, "inactive"), enabled=False).verdict is Verdict.OK


def test_unit_disabled_against_its_preset_is_somebodys_decision():
    assert compare(("disabled", "inactive"), "enabled", enabled=True).verdict is Verdict.ADVICE
    assert compare(("disabled", "inactive"), "disabled", enabled=True).changes


class Systemctl:
    """A manager that keeps one unit's state and what it was told."""

    persistent_only = False

    def __init__(self, *state):
        self.state = list(state)
        self.told = []

    def run(self, argv, *, timeout_s):
        assert timeout_s > 0
        self.told.append(argv[1])
        words = {
            "enable": (0, "enabled"),
            "disable": (0, "disabled"),
            "start": (1, "active"),
            "stop": (1, "inactive"),
        }
        place, word = words[argv[1]]
        self.state[place] = word


@pytest.fixture
def kind(monkeypatch):
    kind = address_kinds()["unit"]
    monkeypatch.setattr(type(kind), "read", lambda _, writer, __: tuple(writer.state))
    return kind


def write(kind, manager, before, after):
    kind.write(manager, Change(ADDRESS, Action.UPDATE, before, after, "service-x"))


def test_failed_unit_that_was_started_is_stopped_by_the_way_back(kind):
    manager = Systemctl("disabled", "failed")
    write(kind, manager, ("disabled", "failed"), ("enabled", "active"))
    assert manager.told == ["enable", "start"]
    write(kind, manager, ("enabled", "active"), ("disabled", "failed"))
    assert manager.told[2:] == ["disable", "stop"]
    assert kind.same(tuple(manager.state), ("disabled", "failed"))


def test_unit_in_another_state_than_planned_is_a_conflict(kind):
    with pytest.raises(Conflict):
        write(
            kind, Systemctl("masked", "inactive"), ("disabled", "inactive"), ("enabled", "active")
        )


def test_state_that_no_verb_reaches_is_refused_before_anything_is_done(kind):
    manager = Systemctl("enabled", "inactive")
    with pytest.raises(Refused, match="no way to make a unit linked"):
        write(kind, manager, ("enabled", "inactive"), ("linked", "active"))
    assert manager.told == []


def test_refusal_of_the_rule_is_a_hold_with_its_way_out():
    finding = compare(
        ("disabled", "inactive"),
        enabled=True,
        refused="versions differ",
        todo="apt-get",
        evidence=("x",),
    )
    assert (finding.verdict, finding.hold.kind, finding.hold.detail) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        "versions differ",
    )
    assert (finding.todo, finding.evidence, finding.changes) == ("apt-get", ("x",), ())
    assert compare(("disabled", "inactive"), refused="versions differ").todo == ""


def test_unit_that_its_package_leaves_disabled_is_enabled_against_the_preset():
    fields = {"enabled": True, "active": True, "off_by_default": True}
    (change,) = compare(("disabled", "inactive"), "enabled", **fields).changes
    assert change.after == ("enabled", "active")
    assert compare(("masked", "inactive"), "enabled", **fields).hold.kind is HoldKind.OWNED
