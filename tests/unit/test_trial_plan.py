"""What of a plan is tried when, what cannot come back, and what an administrator may say of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.actions.trial.trial import require_promise
from hosttune.cli.on_trial import AskedTrial, wants_hint
from hosttune.engine.decide.trial import TrialPart, plan_trial
from hosttune.engine.trial_terms import TrialTerms, span_s
from hosttune.errors import HosttuneError, Refused
from hosttune.numbers import say_span
from hosttune.values import ABSENT, Action, Address, Confirmer, Disturbs, Trigger
from tests.unit.fake_reader import FakeReader
from tests.unit.trial_runs import argument_change, boot_change, file_change, plan_of, sysctl_change

TERMS = TrialTerms(900)
PACKAGES = replace(
    sysctl_change(),
    address=Address("package-set", "nvidia-driver-580"),
    before=ABSENT,
    after=("a=1",),
)
PAGES = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
MOUNT = replace(
    sysctl_change(),
    address=Address("data-mount", "/data"),
    before=ABSENT,
    after="xfs UUID=1 defaults",
)


def part(change, terms=TERMS, one_boot=()):
    (found,) = plan_trial(plan_of(change), terms, one_boot=one_boot).tried
    return found


@pytest.mark.parametrize(
    ("change", "tried"),
    [
        (sysctl_change(), TrialPart.NOW),
        (file_change(), TrialPart.NOW),
        (boot_change(), TrialPart.NEXT_BOOT),
        (argument_change(), TrialPart.ONE_BOOT),
        (boot_change(triggers=(Trigger("rebuild-initramfs"),)), TrialPart.NO_RETURN),
        (sysctl_change(reversible="no, it is gone"), TrialPart.NO_RETURN),
        (PACKAGES, TrialPart.NO_RETURN),
        (replace(sysctl_change(), disturbs=Disturbs.GPU_WORK), TrialPart.NO_RETURN),
        (replace(boot_change(), disturbs=Disturbs.GPU_WORK), TrialPart.NO_RETURN),
        (MOUNT, TrialPart.NO_RETURN),
        (
            replace(sysctl_change(), address=Address("sysctl", "vm.nr_hugepages")),
            TrialPart.NO_RETURN,
        ),
        (replace(sysctl_change(), address=Address("sysfs", PAGES)), TrialPart.NO_RETURN),
    ],
    ids=[
        "sysctl",
        "drop-in",
        "module option",
        "argument",
        "initial RAM disk",
        "irreversible",
        "packages",
        "disturbing",
        "disturbing at boot",
        "mount",
        "huge pages",
        "huge pages of a size",
    ],
)
def test_each_change_is_tried_when_it_takes_effect_or_cannot_come_back(change, tried):
    found = part(change)
    assert found.part is tried
    assert bool(found.reason) is (tried is TrialPart.NO_RETURN)


def test_entry_for_one_boot_has_what_the_drop_in_adds_and_lacks_what_it_drops():
    before = argument_change("iommu=pt quiet").after
    found = part(argument_change("iommu=pt nosmt", before))
    assert (found.arguments, found.dropped) == (("nosmt",), ("quiet",))
    gone = replace(argument_change("iommu=pt"), action=Action.DELETE, before=before, after=ABSENT)
    assert part(gone).dropped == ("iommu=pt", "quiet")


def test_argument_cannot_come_back_where_grub_would_loop():
    found = part(argument_change(), one_boot=("its environment block lies on lvm", "it is damaged"))
    assert (found.part, found.reason) == (
        TrialPart.NO_RETURN,
        "its environment block lies on lvm; it is damaged",
    )


def test_policy_may_leave_the_boot_out():
    found = plan_trial(
        plan_of(sysctl_change(), boot_change(), argument_change()), TrialTerms(900, boot=False)
    )
    assert [one.part for one in found.tried] == [
        TrialPart.NOW,
        TrialPart.UNTRIED,
        TrialPart.UNTRIED,
    ]
    assert (found.has_live, found.has_boot, found.later) == (True, False, ())


def test_run_makes_all_but_the_arguments_of_the_kernel_and_keeps_the_digest_that_was_shown():
    plan = plan_of(sysctl_change(), argument_change(), boot_change())
    made = plan_trial(plan, TERMS).make_plan(plan)
    assert made.changes == (sysctl_change(), boot_change())
    assert made.digest == plan.digest
    assert [trigger for one in made.stages for trigger in one.triggers] == []


def test_what_cannot_come_back_is_refused_unless_it_was_agreed_to():
    planned = plan_trial(plan_of(sysctl_change(), PACKAGES), TERMS)
    with pytest.raises(Refused, match="this cannot be rolled back: memory-swappiness") as caught:
        require_promise(planned, without_return=False)
    assert "--without-return" in caught.value.hint
    require_promise(planned, without_return=True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2m", 120), ("15m", 900), ("90m", 5400), ("24h", 86400), ("120s", 120)]
)
def test_time_for_a_trial(text, seconds):
    assert span_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "1m", "25h", "15", "15 m", "-15m", "015m", "1d", "15M", "1000000m"]
)
def test_time_that_is_none_is_refused(text):
    with pytest.raises(HosttuneError, match="is no time for a trial"):
        span_s(text)


def test_time_is_told_in_the_largest_unit_that_fits():
    assert [say_span(one) for one in (900, 7200, 125)] == ["15 min", "2 h", "125 s"]


class Says:
    """A session, as far as its policy is asked."""

    def __init__(self, confirm=None):
        self.policy = type("Policy", (), {"confirm": confirm})


def test_what_is_typed_comes_before_what_the_policy_says():
    says = Says(TrialTerms(1800, Confirmer.HEALTH, boot=False))
    assert AskedTrial(None, None, False).terms(Says()) is None
    assert AskedTrial(None, None, False).terms(says) == says.policy.confirm
    assert AskedTrial("15m", Confirmer.OPERATOR, False).terms(says) == TrialTerms(
        900, Confirmer.OPERATOR, boot=False
    )
    assert AskedTrial("off", None, False).terms(says) is None
    with pytest.raises(HosttuneError, match="there is no trial"):
        AskedTrial(None, Confirmer.HEALTH, False).terms(Says())


def over_ssh(name):
    stat = f"7 (python3) S 8 {'0 ' * 17}100 0\n"
    parent = f"8 ({name}) S 1 {'0 ' * 17}50 0\n"
    return FakeReader({"/proc/self/stat": stat, "/proc/8/stat": parent})


def test_hint_is_for_what_takes_effect_at_boot_and_came_over_ssh():
    assert wants_hint(plan_of(boot_change()), over_ssh("sshd-session"))
    assert not wants_hint(plan_of(boot_change()), over_ssh("login"))
    assert not wants_hint(plan_of(sysctl_change()), over_ssh("sshd-session"))
