"""What a host that is to take work only as approved does at a boot: apply, reboot once, let work in, or hold it. Pure.

The marks of earlier boots are kept by boot id (/proc/sys/kernel/random/boot_id), never by time: clocks jump at a first
boot. They are forgotten when the host was ready, so that each change may have its reboot, and none has two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.engine.approval import approval_of
from hosttune.engine.health import Fitness, judge
from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.values import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.approval import Approvals
    from hosttune.engine.policy import AtBoot, Drains
    from hosttune.values import Finding, Plan, Receipt

FORMAT_VERSION = 1


class Standing(Word):
    """Where a host stands between its boot and its first job."""

    WORKING = "working"  # it is being brought to its plan; or that was cut off
    REBOOTING = "rebooting"
    READY = "ready"
    HELD = "held"
    LET_GO = "let go"  # not as approved, and the policy lets work start all the same
    STOPPED = "stopped"  # an `apply --yes --reboot` could not go on, and does not any more


@frozen
class ReadyState:
    """What is kept of this: the last boot that was looked at, and the reboots since the host was ready."""

    standing: Standing
    boot_id: str
    sentence: str
    digest: str = ""  # of the plan
    at: int = 0  # seconds since 1970
    reboots: tuple[str, ...] = ()  # ids of the boots that were ended so, since the last success
    allowed: int = 1  # reboots until the next success
    approval: str = ""  # of an `apply --yes --reboot` that goes on after the boot: what its yes covers

    @property
    def goes_on(self) -> bool:
        """Whether an `apply --yes --reboot` is not at its end."""
        return bool(self.approval)


def state_to_json(state: ReadyState) -> dict[str, Any]:
    """As it lies in the state folder, and as `hosttune status --format json` tells it."""
    return {
        "format_version": FORMAT_VERSION,
        "standing": state.standing.value,
        "boot_id": state.boot_id,
        "sentence": state.sentence,
        "digest": state.digest,
        "at": state.at,
        "reboots": list(state.reboots),
        "allowed": state.allowed,
        "approval": state.approval,
    }


def state_from_json(data: Any, name: str) -> ReadyState:
    """Raises HosttuneError where it is not what `state_to_json` made."""
    try:
        if data["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format_version {data['format_version']}")
        found = ReadyState(
            Standing(data["standing"]), data["boot_id"], data["sentence"], data["digest"], data["at"],
            tuple(data["reboots"]), data["allowed"], data["approval"],
        )  # fmt: skip
        texts = (found.boot_id, found.sentence, found.digest, found.approval, *found.reboots)
        numbers = (found.at, found.allowed)
        if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, int) for one in numbers):
            raise TypeError("a field is of another type")
    except (KeyError, TypeError, ValueError) as error:
        message = f"{name}: is not what hosttune keeps there: {error}"
        raise HosttuneError(message, hint=f"see what it says, then remove it: sudo rm {name}") from error
    return found


def begun(last: ReadyState | None, boot_id: str, at: int) -> ReadyState:
    """The state while a boot is looked at, after what is known of earlier ones."""
    sentence = "the host is being brought to its plan"
    if last is None:
        return ReadyState(Standing.WORKING, boot_id, sentence, at=at)
    return replace(last, standing=Standing.WORKING, boot_id=boot_id, sentence=sentence, at=at)


def refusal(plan: Plan, approvals: Approvals, at_boot: AtBoot, edition: str) -> str:
    """Why this plan is not made at a boot; nothing where it is approved."""
    if at_boot.plans == "all" or approvals.covers(plan, edition):
        return ""
    where = f"is not approved by {approvals.source}" if approvals.source else "is approved nowhere"
    return (
        f"the plan {plan.digest[:12]} {where}; one of these lines in /etc/hosttune/approved approves it: "
        f"{plan.digest[:12]} or: {approval_of(plan, edition)}"
    )


def unmade(receipt: Receipt) -> str:
    """What of an approved plan was not made, in a sentence; nothing where all was."""
    if receipt.failed:
        first = receipt.failed[0]
        more = f" (and {len(receipt.failed) - 1} more)" if len(receipt.failed) > 1 else ""
        return f"{first.change.address} ({first.change.rule}) failed: {first.error.splitlines()[0]}{more}"
    return "" if receipt.verified else "what was made did not verify"


def unfit(findings: Iterable[Finding], drains: Drains) -> str:
    """What keeps this host from its work, in a sentence; nothing where nothing does."""
    health = judge(findings, drains)
    points = [point for point in health.points if point.fitness is Fitness.UNFIT]
    more = f" (and {len(points) - 1} more)" if len(points) > 1 else ""
    return f"{points[0].rule}: {points[0].sentence}{more}" if points else ""


def why_no_reboot(
    state: ReadyState, reasons: Iterable[str], obstacles: Iterable[str], *, may: bool, is_boot: bool, volatile: str
) -> str:
    """Why a host that waits for a boot is not booted now; nothing where it is. `is_boot`: it is still starting up, so
    nobody works here; `volatile`: what keeps its changes from lasting.
    """
    needed = "; ".join(reasons)
    if blocked := "; ".join(obstacles):
        return f"a reboot is required ({needed}), and something has to be solved before: {blocked}"
    if not may:
        return f"a reboot is required, and the policy allows none (at_boot: reboot): {needed}"
    if volatile:
        return f"a reboot would lose what was made, because {volatile}: {needed}"
    if not is_boot:
        return f"a reboot is required, and this is not the boot: somebody may be at work here: {needed}"
    if len(state.reboots) >= state.allowed:
        was = "the reboot" if state.allowed == 1 else f"{state.allowed} reboots"
        return f"{was} did not bring: {needed}"
    return ""


def ready_metrics(state: ReadyState) -> Iterable[tuple[str, Mapping[str, str], int]]:
    """Samples for Prometheus (name, labels, value)."""
    for one in Standing:
        yield "hosttune_ready", {"standing": one.value}, int(one is state.standing)
    yield "hosttune_ready_timestamp_seconds", {}, state.at
    yield "hosttune_ready_reboots", {}, len(state.reboots)
