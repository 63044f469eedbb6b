"""A kind of wish is one file: put into the folder, it is compared, planned, applied, undone, told
and shown, and nothing else knows its name.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from hosttune import resources
from hosttune.actions.apply import apply, new_run
from hosttune.actions.examine import examine
from hosttune.actions.journal.journal import JournalWriter, read_journal
from hosttune.actions.journal.recover import recover
from hosttune.actions.undo import plan_undo, undo
from hosttune.cli.rule_frame import frame_rule
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import assemble_catalog, builtin_catalog
from hosttune.engine.rules.lint import checked_rule, key_faults
from hosttune.engine.rules.shapes import rule_shape
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import BadInput
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.resources.steps import CommandLine
from hosttune.values import ABSENT, Activation, Verdict
from hosttune.views.by_hand import describe_by_hand
from hosttune.views.change import diff_of
from hosttune.views.parts import parts_json
from hosttune.views.rule_words import describe_wishes, ways_of, wish_text
from hosttune.views.terminal import Screen
from hosttune.views.text import diff_lines
from hosttune.views.wording import Wording
from tests.unit.fake_reader import FakeReader

KIND = '''
"""The lamp of a disk."""

from hosttune.errors import Conflict
from hosttune.resources.base import OLD, AddressKind, Operator, WishKind, in_general
from hosttune.resources import address_kinds
from hosttune.resources.steps import CommandLine, list_steps
from hosttune.values import Action, Address, Change, Finding, Hold, Unreadable, Verdict


class DiskLampWish(WishKind):
    """`- disk-lamp: DISK` with `exactly`: the lamp by which a disk is found in its bay."""

    kind = "disk-lamp"
    operators = (Operator.EXACTLY,)

    def addresses(self, wish, facts):
        return (Address("disk-lamp", wish.name),)

    def compare(self, wishes, context):
        return tuple(_compare(wish, context) for wish in wishes)

    def writes(self, wishes):
        return tuple(in_general(one, Address("disk-lamp", one.name), one.bounds[0].value, before=OLD) for one in wishes)

    def doubt(self, name, entry):
        return "" if name.startswith("sd") else f"no disk is called {name}"


def _compare(wish, context):
    address, wanted = Address("disk-lamp", wish.name), wish.bounds[0].value
    present = context.state[address]
    if isinstance(present, Unreadable):
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=present.reason)
    if present == wanted:
        return Finding(wish.rule, wish.subject, Verdict.OK)
    change = Change(address, Action.UPDATE, present, wanted, wish.rule, context.risk, context.disturbs)
    return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(), f"the lamp of {wish.name} is {present}", (), (change,))


class DiskLampAddress(AddressKind):
    """`disk-lamp:DISK`: on or off."""

    kind = "disk-lamp"
    is_live = True
    is_in_parts = True

    def read(self, reader, name):
        data = reader.read(f"/sys/block/{name}/device/locate")
        return {b"0": "off", b"1": "on"}[data.strip()] if isinstance(data, bytes) else data

    def write(self, writer, change):
        if self.read(writer, change.address.name) != change.before:
            raise Conflict("somebody else is looking for it")
        writer.set_value(f"/sys/block/{change.address.name}/device/locate", {"off": "0", "on": "1"}[change.after])

    def by_hand(self, changes):
        return list_steps(changes, lambda change: CommandLine(f"ledctl locate{'_off' * (change.after == 'off')}=/dev/{change.address.name}"))

    def unit_of(self, name):
        return "lamps.service"

    def way_back(self, reader, back):
        from dataclasses import replace

        return replace(back, details=("the lamp goes out again",))


WISH = DiskLampWish()
ADDRESS = DiskLampAddress()
'''
RULE = """\
id: storage-lamp
title: The lamp of sda is on
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: somebody stands before the rack
sources: [site handbook]
want:
  - disk-lamp: sda
    exactly: "on"
"""
LAMP = "/sys/block/sda/device/locate"


@pytest.fixture(autouse=True)
def one_file(tmp_path, monkeypatch):
    """The file in a folder of the package; nothing else is told of it."""
    caches = (resources.list_modules, resources.wish_kinds, resources.address_kinds, rule_shape)
    (tmp_path / "disk_lamp.py").write_text(KIND)
    monkeypatch.setattr(resources, "__path__", [*resources.__path__, str(tmp_path)])
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()
    sys.modules.pop("hosttune.resources.disk_lamp", None)


def host():
    return Overlay(FakeReader({LAMP: "0\n", "/proc/sys/kernel/random/boot_id": "boot\n"}))


def catalog():
    found = builtin_catalog()
    return assemble_catalog(
        {**found.rules, "storage-lamp": checked_rule(RULE, "storage-lamp.yaml")}, found.profiles
    )


def session(writer):
    return examine(writer, catalog(), Policy(sole=("storage-lamp",), select=("storage-lamp",)))


def applied(writer):
    plan = session(writer).plan()
    assert not apply(session(writer), writer, plan).failed
    return plan


def lamp(writer):
    return address_kinds()["disk-lamp"].read(writer, "sda")


def test_it_is_compared_planned_applied_and_right_then():
    writer = host()
    (stage,) = applied(writer).stages
    assert [str(change.address) for change in stage.changes] == ["disk-lamp:sda"]
    assert lamp(writer) == "on"
    (finding,) = session(writer).plan().findings
    assert finding.verdict is Verdict.OK


def test_it_is_undone_and_the_way_back_is_shown_in_its_words():
    writer = host()
    applied(writer)
    planned = plan_undo(session(writer))
    assert [change.details for change in planned.plan.changes] == [("the lamp goes out again",)]
    assert not undo(session(writer), writer, planned).failed
    assert lamp(writer) == "off"


def test_what_is_gone_with_its_disk_is_taken_back_on_paper():
    writer = host()
    applied(writer)
    writer.files[LAMP] = ABSENT
    assert [one.on_paper for one in plan_undo(session(writer)).returns] == [True]


def test_step_of_several_acts_that_was_interrupted_stands_at_what_is_found():
    writer = host()
    change = replace(session(writer).plan().changes[0], before="blinking")
    recorder = JournalWriter.start(writer, new_run(writer, read_journal(writer), "apply", "d"))
    recorder.intent(change)
    writer.set_value(LAMP, "0")
    (step,) = recover(writer).in_force
    assert (step.change.after, step.planned.after) == ("off", "on")


def test_it_is_told_by_hand_and_shown_as_a_change():
    change = replace(session(host()).plan().changes[0], activation=Activation.RESTART)
    restart = "when it is not in use: systemctl restart lamps.service"
    assert describe_by_hand([change]) == (
        ["ledctl locate=/dev/sda", restart],
        ["ledctl locate_off=/dev/sda", restart],
    )
    assert isinstance(describe_by_hand([change])[0][0], CommandLine)
    line = "~ sda  off -> on  (in effect after a restart of lamps.service)"
    assert line in "\n".join(diff_lines(diff_of(change), Screen(100), "  "))


def test_it_is_told_where_no_host_is_known():
    rule = catalog().rules["storage-lamp"]
    (wish,) = describe_wishes(rule, Wording(rule.defaults))
    assert wish_text(wish) == "disk-lamp sda: exactly on"
    assert ways_of((wish,))[0] == ["ledctl locate=/dev/sda"]


def test_it_is_framed_listed_checked_and_doubted():
    assert {"kind": "disk-lamp", "about": "`- disk-lamp: DISK` with `exactly`: the lamp by which a disk is found in its bay.",
            "rules": 1} in parts_json(catalog())["wishes"]  # fmt: skip
    rule, _ = frame_rule("storage-lamp", "0.1", "disk-lamp", catalog().rules)
    assert "- disk-lamp: " in rule
    assert "example: hosttune explain storage-lamp --source" in rule
    with pytest.raises(BadInput, match="unknown key"):
        checked_rule(RULE.replace("exactly", "at_least"), "storage-lamp.yaml")
    (fault,) = key_faults(
        load_document(RULE.replace("disk-lamp: sda", "disk-lamp: nvme0"), "x.yaml")
    )
    assert fault.message == "no disk is called nvme0"
