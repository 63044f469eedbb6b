"""What a host that is to take work only as approved does at a boot: apply, reboot once, let work
in, or hold it. Pure.

The marks of earlier boots are kept by boot id (/proc/sys/kernel/random/boot_id), never by time:
clocks jump at a first boot. They are forgotten when the host was ready, so that each change may
have its reboot, and none has two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.codec import make_document, read_document
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.policy.approval import approval_of
from hosttune.facts.kernel.kernel_log import MISSED_LINES
from hosttune.facts.services import units
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import Cleaned, clean
from hosttune.quoting import quote
from hosttune.resources import describe_place
from hosttune.values import Verdict, Word, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.policy.approval import Approvals
    from hosttune.engine.policy.policy import Drains
    from hosttune.engine.rules.rule import Rule
    from hosttune.values import Finding, Plan, Receipt

GATE, CONTINUE = units.GATE, units.CONTINUE


class Standing(Word):
    """Where a host is between its boot and its first job."""

    WORKING = "working"  # it is being brought to its plan; or that was cut off
    REBOOTING = "rebooting"
    READY = "ready"
    HELD = "held"
    LET_GO = "let go"  # not as approved, and the policy lets work start all the same
    STOPPED = "stopped"  # an `apply --yes --reboot` could not go on, and does not any more


@frozen
class ReadyState:
    """What is kept of this: the last boot that was looked at, and the reboots since the host was
    ready.
    """

    standing: Standing
    boot_id: str
    sentence: Cleaned
    digest: str = ""  # of the plan
    at: int = 0  # seconds since 1970
    reboots: tuple[str, ...] = ()  # ids of the boots that were ended so, since the last success
    allowed: int = 1  # reboots until the next success
    # of an `apply --yes --reboot` that goes on after the boot: what its yes covers
    approval: str = ""
    # `machine_id_hash` of the machine that it is of: no clone takes it for its own
    machine: str = ""
    run: str = ""  # the first run of what goes on after the boot: one undo takes back all of it

    @property
    def goes_on(self) -> bool:
        """Whether an `apply --yes --reboot` is not at its end."""
        return bool(self.approval)


def state_to_json(state: ReadyState) -> dict[str, Any]:
    """As it is in the state folder, and as `hosttune status --format json` tells it."""
    return make_document(state)


def parse_state(content: str | bytes, name: str) -> ReadyState:
    """What `state_to_json` made. Raises BadInput where it is something else."""
    return read_document(
        ReadyState, content, name, f"see what it says, then remove it: sudo rm {quote(name)}"
    )


@frozen
class GateUnits:
    """The gate and what goes on after a boot, as systemd has them in this boot."""

    holds: bool = False  # hosttune-ready.service is enabled, or something requires it
    is_open: bool = False  # it ended well in this boot
    has_failed: bool = False  # it did, and holds what requires it
    # a condition of it does not hold in this boot: hosttune.ready=off, a container
    is_left_out: bool = False
    is_running: bool = False  # it, or hosttune-continue.service
    goes_on: bool = False  # hosttune-continue.service is enabled


@frozen
class Outlook:
    """Whether work may start now, and why, where what is kept does not say that."""

    is_open: bool
    sentence: str = ""


def read_outlook(state: ReadyState | None, boot_id: str, units: GateUnits) -> Outlook:
    """Where a host is in this boot: what is kept counts for the boot that it is of alone."""
    is_known = state is not None and state.boot_id == boot_id
    standing = state.standing if state is not None and is_known else None
    # First, because what is kept is of the look before this one until it ends.
    if units.is_running:
        return Outlook(False, "this host is being brought to its plan")
    if standing is Standing.HELD or (standing is Standing.REBOOTING and units.goes_on):
        return Outlook(False)
    if units.has_failed:
        how = "was ended before it was done" if is_known else "failed before it could say why"
        return Outlook(
            False,
            f"hosttune-ready.service {how}, and holds work: "
            "journalctl --boot --unit=hosttune-ready",
        )
    if units.holds and not units.is_left_out:
        return _of_gate(units, is_known=is_known)
    return _without_gate(standing, units)


def _of_gate(units: GateUnits, *, is_known: bool) -> Outlook:
    if not units.is_open:
        return Outlook(False, "this boot was not looked at yet")
    return Outlook(
        True, "" if is_known else "hosttune-ready.service let work start; what it said then is lost"
    )


def _without_gate(standing: Standing | None, units: GateUnits) -> Outlook:
    if units.goes_on:
        return Outlook(False, "an apply --yes --reboot goes on, and has not begun in this boot")
    if standing in {Standing.WORKING, Standing.REBOOTING}:
        return Outlook(False, "what brought the host to its plan was ended before it was done")
    if standing:
        return Outlook(standing is not Standing.STOPPED)
    why = "is left out in this boot" if units.is_left_out else "is off"
    return Outlook(
        True,
        f"jobs may start: the boot gate (hosttune-ready.service) {why}, and no apply --reboot goes "
        "on",
    )


def begin_state(last: ReadyState | None, boot_id: str, at: int, machine: str) -> ReadyState:
    """The state while a boot is looked at, after what is known of earlier ones."""
    sentence = clean("the host is being brought to its plan")
    last = last or ReadyState(Standing.WORKING, boot_id, sentence)
    return replace(
        last, standing=Standing.WORKING, boot_id=boot_id, sentence=sentence, at=at, machine=machine
    )


def not_ready(state: ReadyState, on_failure: str, why: str, *, goes_on: bool = False) -> ReadyState:
    """The host is not as it should be: the policy says whether work starts on it (`on_failure`:
    hold or go), and what `goes_on` after a boot ends. The reboots that there were still count.
    """
    if goes_on:
        return replace(state, standing=Standing.STOPPED, sentence=clean(why), approval="", run="")
    standing = Standing.LET_GO if on_failure == "go" else Standing.HELD
    return replace(state, standing=standing, sentence=clean(why), run="")


def why_not_approved(plan: Plan, approvals: Approvals, plans: str) -> str:
    """Why this plan is not made at a boot; nothing where it is approved. `plans`: approved, all, or
    `yes`, for what goes on after a boot and is covered by the yes before it alone.
    """
    if plans == "all" or approvals.covers(plan):
        return ""
    if plans == "yes":
        return (
            f"the plan {plan.digest[:12]} is not covered by the yes to {approvals.source}; look, "
            "then type that again: hosttune apply --yes --reboot"
        )
    where = f"is not approved by {approvals.source}" if approvals.source else "is approved nowhere"
    return (
        f"the plan {plan.digest[:12]} {where}; one of these lines in /etc/hosttune/approved "
        f"approves it: {plan.digest[:12]} or: {approval_of(plan)}"
    )


def why_not_known(findings: Iterable[Finding], rules: Iterable[Rule], drains: Drains) -> str:
    """What cannot be read, so that a plan may lack changes, or what would hold the host is not
    seen, in a sentence; `rules` are those that were asked. A log that a user has flooded holds no
    host back: what a boot has lost is seen without it, and so is what the driver answers.
    """
    draining = {
        rule.id for rule in rules if rule.can_drain
    } - drains.no_drain_for | drains.drain_for
    telling = {rule.id for rule in rules if rule.want or rule.id in draining}
    unknown = (
        one
        for one in findings
        if one.verdict is Verdict.UNKNOWN and not one.hold and one.rule in telling
    )
    listed = [one for one in unknown if not one.reason.startswith(MISSED_LINES)]
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return f"{listed[0].rule}: {listed[0].reason}{more}" if listed else ""


def why_not_made(receipt: Receipt) -> str:
    """What of an approved plan was not made, in a sentence; nothing where all was."""
    if receipt.failed:
        first = receipt.failed[0]
        more = f" (and {len(receipt.failed) - 1} more)" if len(receipt.failed) > 1 else ""
        return (
            f"{describe_place(first.change.address)} ({first.change.rule}) failed: "
            f"{first.error.splitlines()[0]}{more}"
        )
    return "" if receipt.verified else "what was made did not verify"


def why_not_fit(findings: Iterable[Finding], drains: Drains) -> str:
    """What keeps this host from its work, and what to do, in a sentence; nothing where nothing
    does.
    """
    health = judge(findings, drains)
    # What only impairs does not hold the gate: a slower host still does its work.
    points = [point for point in health.points if point.fitness is Fitness.UNFIT]
    more = f" (and {len(points) - 1} more)" if len(points) > 1 else ""
    if not points:
        return ""
    steps = steps_of(points[0].todo)
    way_out = f" ({steps[0]})" if steps else ""
    return f"{points[0].rule}: {points[0].sentence}{way_out}{more}"


def why_no_reboot(
    state: ReadyState,
    reasons: Iterable[str],
    obstacles: Iterable[str],
    *,
    allowed: int,
    is_boot: bool,
    volatile: str,
) -> str:
    """Why a host that waits for a boot is not booted now; nothing where it is. `allowed`: reboots
    until the next success; `is_boot`: it is still starting up, so no one works here; `volatile`:
    what keeps its changes from lasting.
    """
    needed = "; ".join(reasons)
    if blocked := "; ".join(obstacles):
        return f"a reboot is required ({needed}), and something has to be solved before: {blocked}"
    if not allowed:
        return f"a reboot is required, and the policy allows none (at_boot: reboot): {needed}"
    # A machine without a lasting root comes up without the change, so its reboot is in vain.
    if volatile:
        return f"a reboot would lose what was made, because {volatile}: {needed}"
    if not is_boot:
        return (
            f"a reboot is required, and this is not the boot: users may be at work here: {needed}"
        )
    # systemd may be on its way down and wait for a job. Asked again, it would count as a second
    # reboot.
    if state.boot_id in state.reboots:
        return f"the reboot that was asked for has not come yet: {needed}"
    if len(state.reboots) >= allowed:
        was = "the reboot" if len(state.reboots) == 1 else f"{len(state.reboots)} reboots"
        return f"{was} did not bring: {needed}"
    return ""


def ready_metrics(state: ReadyState) -> Iterable[tuple[str, Mapping[str, str], int]]:
    """Samples for Prometheus (name, labels, value)."""
    for one in Standing:
        yield "hosttune_ready", {"standing": one.value}, int(one is state.standing)
    yield "hosttune_ready_timestamp_seconds", {}, state.at
    yield "hosttune_ready_reboots", {}, len(state.reboots)
