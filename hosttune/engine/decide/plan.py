"""Findings -> plan: what blocks a boot, guards of running work, stages, triggers, digest. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.codec import encode_canonically
from hosttune.facts.base import UnknownFact
from hosttune.regex import regex
from hosttune.values import Activation, Disturbs, Finding, Hold, HoldKind, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.values import Change, Trigger

BREAKS = "breaks: "  # begins a line of a change that names what runs

_REBOOT = regex(r"(?<![\w-])reboots?(?![\w-])")  # not within the name of a rule


def digest(changes: Iterable[Change]) -> str:
    """The digest of a plan: sha256 over its changes alone, so that equal hosts have equal
    digests.
    """
    import hashlib  # OpenSSL with it, which takes its time: what shows no digest does without

    return hashlib.sha256(encode_canonically(tuple(changes))).hexdigest()


def standing_faults(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The faults that no change mends, and what blocks a boot."""
    return tuple(one for one in findings if (one.is_fault or one.blocks_reboot) and not one.changes)


def after_run(findings: Iterable[Finding], faults: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings before a run, with the faults as they are after it."""
    listed = tuple(findings)
    before = standing_faults(listed)
    return (*(one for one in listed if one not in before), *faults)


def waits_for_reboot(finding: Finding) -> bool:
    """Whether what is set up takes effect at the next boot."""
    return finding.hold.kind is HoldKind.WAITING and "reboot" in finding.hold.detail


def reboot_blockers(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The rules that say that something must be solved before the host is booted again, also where
    someone accepted that: a boot makes it worse.
    """
    return tuple(dict.fromkeys(finding.rule for finding in findings if finding.blocks_reboot))


def asks_for_reboot(todo: str) -> bool:
    """Whether a step names a reboot."""
    return bool(_REBOOT.search(todo))


def leads_to_boot(findings: Iterable[Finding], changes: Iterable[Change]) -> bool:
    """Whether a reboot follows from them, or is advised."""
    return any(one.activation is Activation.REBOOT for one in changes) or any(
        waits_for_reboot(one) or (asks_for_reboot(one.todo) and not one.blocks_reboot)
        for one in findings
    )


def guard_changes(
    changes: tuple[Change, ...], facts: Facts, *, may_break: bool
) -> tuple[tuple[Change, ...], Hold]:
    """The changes, those that disturb GPU work with a line for each thing that runs and that they
    will break; or the hold that lists it, where nothing may be broken.
    """
    # Before the work is looked at: that lists all processes, which most plans do not need.
    if not any(change.disturbs is Disturbs.GPU_WORK for change in changes):
        return changes, Hold()
    running = running_work(facts)
    if running and not may_break:
        return changes, Hold(HoldKind.BUSY, "; ".join(running))
    breaks = tuple(f"{BREAKS}{sentence}" for sentence in running)
    return tuple(
        replace(change, details=(*change.details, *breaks))
        if change.disturbs is Disturbs.GPU_WORK
        else change
        for change in changes
    ), Hold()


def running_work(facts: Facts) -> tuple[str, ...]:
    """What GPU work runs now, a sentence each; what cannot be read counts as running. Empty on an
    idle host.
    """
    try:
        return facts.work.evidence if facts.work.is_gpu_busy else ()
    except UnknownFact as unknown:
        return (f"perhaps: cannot find out whether GPU work runs ({unknown.reason})",)


def list_unannounced(change: Change, facts: Facts) -> tuple[str, ...]:
    """What runs now, would be disturbed by this change, and was not shown with it."""
    if change.disturbs is not Disturbs.GPU_WORK:
        return ()
    # Whole sentences are compared: a second job, of which the plan said nothing, is not covered.
    shown = {line.removeprefix(BREAKS) for line in change.details if line.startswith(BREAKS)}
    return tuple(sentence for sentence in running_work(facts) if sentence not in shown)


def stage(changes: Iterable[Change]) -> Stage:
    """One stage: its changes in the order of the rules, its triggers once each."""
    listed = tuple(changes)
    triggers: dict[Trigger, None] = dict.fromkeys(
        trigger for change in listed for trigger in change.triggers
    )
    return Stage(listed, tuple(triggers))
