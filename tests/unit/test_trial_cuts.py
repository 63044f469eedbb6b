"""The power is cut, or the process killed, at each write of a trial: arming, applying, confirming,
taking back. What is left is brought to its end by whoever looks next, and is as before, or as it
was confirmed.
"""

from __future__ import annotations

import pytest

from hosttune.actions.journal.journal import read_journal
from hosttune.actions.journal.recover import recover
from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial.state import read_trial
from hosttune.actions.trial.trial import apply_on_trial, come_back, confirm, finish, foresee
from hosttune.engine.trial_terms import TrialTerms
from hosttune.values import ABSENT
from tests.unit.trial_host import PowerCut
from tests.unit.trial_runs import (
    SWAPPINESS,
    TrialRunHost,
    boot_change,
    file_change,
    plan_of,
    sysctl_change,
)

CHANGES = (sysctl_change(), file_change(), boot_change())
ACTS = ("replace", "remove", "append", "set_value", "make_folder", "remove_folder", "run")


class CutHost(TrialRunHost):
    """Nothing comes about after `left` more writes."""

    left: int | None = None
    made = 0

    def _act(self, name, *args, **more):
        if self.left is not None and self.made >= self.left:
            raise PowerCut(name)
        self.made += 1
        return getattr(TrialRunHost, name)(self, *args, **more)


for _name in ACTS:
    setattr(
        CutHost, _name, lambda self, *args, _name=_name, **more: self._act(_name, *args, **more)
    )


def begin(host):
    plan = plan_of(*CHANGES)
    planned = foresee(host.session, plan, TrialTerms(900))
    apply_on_trial(host.session, host, plan, planned, lambda _: None)


def keep(host):
    confirm(host.session, host, read_trial(host), lambda _: None)


def take_back(host):
    come_back(host.session, host, read_trial(host), "nobody confirmed it")


def begun():
    host = CutHost()
    begin(host)
    return host


def writes_of(act, host):
    host.made = 0
    act(host)
    return host.made


def cut(act, host, after):
    host.made, host.left = 0, after
    with pytest.raises(PowerCut):
        act(host)
    host.left = None


def look(host):
    """What the next command of hosttune does first."""
    if read_journal(host).interrupted:
        recover(host)
    finish(host.session, host, lambda _: None)


def is_old(host):
    files = [host.read(change.address.name) for change in CHANGES[1:]]
    return host.read(SWAPPINESS).strip() == b"60" and files == [ABSENT, ABSENT]


def is_new(host):
    files = [host.read(change.address.name) for change in CHANGES[1:]]
    return host.read(SWAPPINESS).strip() == b"10" and all(isinstance(one, bytes) for one in files)


def is_gone(host):
    units = [path for path in trial_guard.UNIT_PATHS if host.read(path) is not ABSENT]
    return not units and not isinstance(host.list(trial_guard.FOLDER), tuple)


ARMING, CONFIRMING, RETURNING = (
    writes_of(begin, CutHost()), writes_of(keep, begun()), writes_of(take_back, begun()),
)  # fmt: skip


@pytest.mark.parametrize("after", range(ARMING))
def test_cut_while_it_begins_ends_as_before(after):
    host = CutHost()
    cut(begin, host, after)
    armed = host.read(
        f"{trial_guard.FOLDER}/trial.json"
    ) is not ABSENT and "armed" in trial_guard.read_marks(host)
    assert armed or is_old(host)  # nothing was changed that nobody watches
    look(host)
    if read_trial(host) is not None:
        take_back(host)
    assert is_old(host)
    assert is_gone(host)


@pytest.mark.parametrize("after", range(CONFIRMING))
def test_cut_while_the_live_part_is_confirmed_is_on_trial_or_confirmed_and_can_go_on(after):
    host = begun()
    cut(keep, host, after)
    look(host)
    assert is_new(host)
    assert read_trial(host).state.is_open
    take_back(host)
    assert is_old(host)
    assert is_gone(host)


@pytest.mark.parametrize("after", range(RETURNING))
def test_cut_while_it_is_taken_back_ends_as_before(after):
    host = begun()
    cut(take_back, host, after)
    look(host)
    if read_trial(host) is not None:
        take_back(host)
    assert is_old(host)
    assert is_gone(host)
    assert not read_journal(host).in_force
