"""What a run on trial tries, when, and how it goes back unless someone confirms it. Pure.

What takes effect at once is tried now; what the next boot reads is tried in that boot, and its
files are put back where no one confirms; an argument of the kernel is tried in an entry of GRUB's
menu that is taken once, and is written down for good when it is confirmed. What cannot come back by
itself is refused on trial before the first change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.engine.decide.plan import stage
from hosttune.frozen import frozen
from hosttune.resources import kind_of
from hosttune.resources.kernel import kernel_argument
from hosttune.values import Activation, Disturbs, Plan, Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.trial_terms import TrialTerms
    from hosttune.values import Change

_PACKAGES = frozenset({"package-set"})
_MOUNT = "data-mount"
# of those that a process holds the kernel gives none back
_PAGES = ("vm.nr_hugepages", "vm.nr_hugepages_mempolicy")


class TrialPart(Word):
    """When a change is tried."""

    NOW = "now"
    NEXT_BOOT = "next boot"
    ONE_BOOT = "one boot"  # an argument of the kernel, by an entry that GRUB takes once
    UNTRIED = "not on trial"  # the policy wants no boot on trial
    NO_RETURN = "cannot come back"


@frozen
class TriedChange:
    """A change, and when it is tried; `reason` is why it cannot come back, a phrase."""

    change: Change
    part: TrialPart
    reason: str = ""
    arguments: tuple[str, ...] = ()  # of ONE_BOOT: what the kernel gets
    dropped: tuple[str, ...] = ()  # of ONE_BOOT: what it does not get any more


@frozen
class TrialPlan:
    """How a plan is tried."""

    terms: TrialTerms
    tried: tuple[TriedChange, ...]
    obstacles: tuple[str, ...] = ()  # why this host cannot promise to come back: a sentence each
    notes: tuple[str, ...] = ()  # what else has to be known before the yes: a sentence each
    boot_within_s: int = 0  # the time of the boot on trial, which its GPUs need

    def of(self, *parts: TrialPart) -> tuple[TriedChange, ...]:
        return tuple(one for one in self.tried if one.part in parts)

    @property
    def has_live(self) -> bool:
        return bool(self.of(TrialPart.NOW))

    @property
    def has_boot(self) -> bool:
        return bool(self.of(TrialPart.NEXT_BOOT, TrialPart.ONE_BOOT))

    @property
    def is_any(self) -> bool:
        """Whether anything of the plan is on trial."""
        return self.has_live or self.has_boot

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the kernel of the boot on trial gets besides, in the order of the plan."""
        return tuple(
            dict.fromkeys(word for one in self.of(TrialPart.ONE_BOOT) for word in one.arguments)
        )

    @property
    def dropped(self) -> tuple[str, ...]:
        """What it does not get any more."""
        return tuple(
            dict.fromkeys(word for one in self.of(TrialPart.ONE_BOOT) for word in one.dropped)
        )

    @property
    def later(self) -> tuple[Change, ...]:
        """The changes that are made when the trial is confirmed: those that the kernel's arguments
        stand in.
        """
        return tuple(one.change for one in self.of(TrialPart.ONE_BOOT))

    def make_plan(self, plan: Plan) -> Plan:
        """The plan without what is made on confirmation; its digest stays that of all that was
        shown.
        """
        later = self.later
        if not later:
            return plan
        stages = (tuple(one for one in part.changes if one not in later) for part in plan.stages)
        return replace(plan, stages=tuple(stage(changes) for changes in stages if changes))


def plan_trial(
    plan: Plan,
    terms: TrialTerms,
    obstacles: Iterable[str] = (),
    notes: Iterable[str] = (),
    one_boot: Iterable[str] = (),
) -> TrialPlan:
    """How the changes of a plan are tried under these terms. `one_boot`: why GRUB cannot be asked
    for one boot with other arguments, a sentence each.
    """
    why = "; ".join(one_boot)
    tried = tuple(_try_change(change, terms, why) for change in plan.changes)
    return TrialPlan(terms, tried, tuple(obstacles), tuple(notes))


def _try_change(change: Change, terms: TrialTerms, one_boot: str) -> TriedChange:
    kind = kind_of(change.address)
    if change.address.kind in _PACKAGES:
        return _keep_change(change, "only a person can undo packages, with their archives at hand")
    if change.reversible.startswith("no") or kind.invert(change) is None:
        return _keep_change(change, f"it cannot be undone: {change.reversible}")
    if change.disturbs is Disturbs.GPU_WORK:
        return _keep_change(
            change, "it disturbs GPU work, so the work of any user would hold up its way back"
        )
    if change.address.kind == _MOUNT:
        return _keep_change(
            change, "a user with a file open there would hold up its way back, which unmounts it"
        )
    if change.address.name.rpartition("/")[2] in (*_PAGES, "nr_hugepages"):
        return _keep_change(
            change, "a process that holds huge pages would hold up its way back, which frees them"
        )
    if change.activation is not Activation.REBOOT:
        return TriedChange(change, TrialPart.NOW)
    return (
        _tried_at_boot(change, one_boot) if terms.boot else TriedChange(change, TrialPart.UNTRIED)
    )


def _tried_at_boot(change: Change, one_boot: str) -> TriedChange:
    triggers = {trigger.kind for trigger in change.triggers}
    # Tried without writing /etc/default/grub.d: the menu and its default stay as they are, whatever
    # becomes of that boot.
    if "update-grub" in triggers:
        before, after = (
            kernel_argument.arguments_in(value) for value in (change.before, change.after)
        )
        added = tuple(word for word in after if word not in before)
        dropped = tuple(word for word in before if word not in after)
        if one_boot or not (added or dropped):
            return _keep_change(
                change, one_boot or "it is not clear which arguments of the kernel it changes"
            )
        return TriedChange(change, TrialPart.ONE_BOOT, arguments=added, dropped=dropped)
    if "rebuild-initramfs" in triggers:
        return _keep_change(
            change,
            "it goes into the initial RAM disk, and a boot that ends there cannot put it back",
        )
    # The guard is a script that has only the root file system. All that it can put back are bytes
    # of a file.
    if not kind_of(change.address).file_of(change.address.name):
        return _keep_change(change, "it is not a file that could be put back where a boot stops")
    return TriedChange(change, TrialPart.NEXT_BOOT)


def _keep_change(change: Change, reason: str) -> TriedChange:
    return TriedChange(change, TrialPart.NO_RETURN, reason)
