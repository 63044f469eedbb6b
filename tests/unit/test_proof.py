"""The proof of a plan on the overlay: what it looks at again."""

from __future__ import annotations

import pytest

from hosttune.actions import examine
from hosttune.actions.journal.journal import FOLDER
from hosttune.engine.decide import passes
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import Refused
from hosttune.host.record.record import RecordReader, read_record
from hosttune.values import HoldKind
from tests.hosts.built import BUILT


@pytest.mark.parametrize("host", BUILT, ids=lambda path: path.stem)
def test_plan_is_tried_with_the_rules_that_can_change_something_alone(host, monkeypatch):
    looked, evaluate = [], passes.evaluate
    monkeypatch.setattr(
        passes, "evaluate", lambda rule, *rest: looked.append(rule) or evaluate(rule, *rest)
    )
    session = examine.examine(read_record(str(host)), builtin_catalog(), Policy(today="2026-01-01"))
    plan = session.plan()
    every, wishing = list(session.selected), [rule for rule in session.selected if rule.want]
    assert looked[: len(every)] == every
    assert looked[len(every) :] == wishing * len(plan.stages)
    assert 0 < len(wishing) < len(every) / 2


@pytest.mark.parametrize("host", BUILT, ids=lambda path: path.stem)
def test_rules_without_wishes_change_nothing(host):
    session = examine.examine(read_record(str(host)), builtin_catalog(), Policy(today="2026-01-01"))
    wishing = {rule.id for rule in session.selected if rule.want}
    plan = session.plan()
    assert {change.rule for change in plan.changes} <= wishing
    assert {finding.rule for finding in plan.findings if finding.changes} <= wishing


class Guarded(RecordReader):
    """A host on which nothing can be written at these paths."""

    refused: tuple[str, ...] = ()

    def refused_write(self, path):
        return (
            Refused(f"{path} is immutable (chattr +i)") if path.startswith(self.refused) else None
        )


def planned(*refused):
    record = read_record(str(next(path for path in BUILT if path.stem == "h100-8x-2socket")))
    host = Guarded(record.data, record.file)
    host.refused = refused
    return examine.examine(host, builtin_catalog(), Policy(today="2026-01-01")).plan()


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/etc/fstab", {"fstab", "fstab-line"}),
        ("/boot/grub/grub.cfg", {"kernel-argument"}),
        (f"{FOLDER}/", None),
        ("/usr/", {"package-set"}),
    ],
)
def test_file_that_cannot_be_written_is_refused_before_anything_is_changed(path, kinds):
    """So are what update-grub and apt write, and the journal, without which no run begins."""
    before, now = planned(), planned(path)
    touched = {one.rule for one in before.changes if kinds is None or one.address.kind in kinds}
    held = {one.rule: str(one.hold) for one in now.findings if one.hold.kind is HoldKind.REFUSED}
    assert touched - {one.rule for one in now.changes} == touched
    assert touched <= held.keys()
    assert {one.rule for one in before.changes} - touched <= {one.rule for one in now.changes}
