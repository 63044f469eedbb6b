"""The verdict over a watch: which state held, for how long, how sure that is, and what would make
it surer. Pure.
"""

from __future__ import annotations

from enum import Enum

from hosttune.frozen import frozen
from hosttune.measure.watch.account import Account
from hosttune.measure.watch.endings import was_out_of_memory
from hosttune.measure.watch.gaps import describe_gaps
from hosttune.measure.watch.history import HOLDS, Segment, cut_segments
from hosttune.measure.watch.states import State, Trust
from hosttune.measure.watch.tick import CpuLimit, Want, is_file_server

MIXED = 0.3
MOSTLY = 0.5
SECOND = 0.2  # a state with this share is named, and advised on, beside the leading one
SHORTEST_RUN_S = 5.0
SHORTEST_RUN_TICKS = 5
SURE_S = 20.0  # less than this many counted seconds never make a verdict of high confidence
CARRIED = 0.8  # of the seconds of the leading state that have to carry a confidence
COLD = 5.0  # times as much from the device in the first segment as in the last


class VerdictKind(str, Enum):
    """What kind of answer it is."""

    ONE = "one"  # one state held
    CHANGED = "changed"  # one after the other
    MIXED = "mixed"
    UNDECIDED = "undecided"
    IDLE = "idle"  # the job did next to nothing


class Confidence(str, Enum):
    """High: the pressure of the job's own control group. Medium: the host's and the job's
    processes. Low: neither.
    """

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@frozen
class Share:
    """A state's part of the counted time."""

    state: State
    share: float  # 0 to 1
    longest_run_s: float


@frozen
class WatchVerdict:
    """What a job waited for. `state` is the one to act on: the leading one, of a changed run the
    last; None where it is undecided. `would_decide` are sentences on what keeps it from being
    surer, and the way out.
    """

    outcome: VerdictKind
    state: State | None
    confidence: Confidence
    shares: tuple[Share, ...]  # the largest first
    segments: tuple[Segment, ...]  # more than one: the job changed what it waited for
    waits_for: Want | None  # where it is WAIT: what it slept on
    waited_for: tuple[str, ...]  # addresses, files and pipes, the most first
    limit: CpuLimit | None  # where it is LIMIT: which
    first_was_cold: bool  # the first segment read from devices what later ones found in memory
    counted_s: float
    warm_up_s: float
    idle_s: float  # within the counted
    paused_s: float
    seconds: float
    not_the_cause: tuple[State, ...]
    would_decide: tuple[str, ...]


def judge(account: Account) -> WatchVerdict:
    """The verdict on what was added up so far."""
    shares = _compute_shares(account)
    cuts = cut_segments(account.history.points)
    outcome, state = _decide_outcome(account, shares, cuts)
    confidence = _judge_confidence(account, state, outcome)
    return WatchVerdict(
        outcome=outcome,
        state=state,
        confidence=confidence,
        shares=shares,
        segments=cuts if len(cuts) > 1 else (),
        waits_for=account.waits_for,
        waited_for=tuple(
            sorted(account.waited_for, key=lambda what: -account.waited_for[what])[:3]
        ),
        limit=account.limit,
        first_was_cold=_was_cold(cuts),
        counted_s=account.counted_s,
        warm_up_s=account.warm_up_s,
        idle_s=account.idle_s,
        paused_s=account.paused_s,
        seconds=account.seconds,
        not_the_cause=_not_the_cause(account, shares),
        would_decide=()
        if confidence is Confidence.HIGH or outcome is VerdictKind.IDLE
        else describe_gaps(account),
    )


def _compute_shares(account: Account) -> tuple[Share, ...]:
    sums: dict[State, float] = {}
    for (state, _), seconds in account.states.items():
        sums[state] = sums.get(state, 0.0) + seconds
    ordered = sorted(sums, key=lambda state: -sums[state])
    return tuple(
        Share(state, sums[state] / account.counted_s, account.runs[state].longest_s)
        for state in ordered
    )


def _decide_outcome(
    account: Account, shares: tuple[Share, ...], cuts: tuple[Segment, ...]
) -> tuple[VerdictKind, State | None]:  # fmt: skip
    # Asked first: the other shares of a job that mostly idles are of the little time in which it
    # did something.
    if account.counted_s >= SHORTEST_RUN_S and account.idle_s > HOLDS * account.counted_s:
        return VerdictKind.IDLE, State.IDLE
    if not shares or account.counted_s < SHORTEST_RUN_S:
        return VerdictKind.UNDECIDED, None
    top = shares[0]
    holds = (
        # Both: at ten looks a second five of them are half a second, at one in ten seconds five
        # seconds are one look.
        top.longest_run_s >= SHORTEST_RUN_S and account.ticks_of[top.state] >= SHORTEST_RUN_TICKS
    )
    known = [cut.state for cut in cuts if cut.state is not State.UNKNOWN]
    if top.share >= HOLDS and holds:
        return (
            (VerdictKind.UNDECIDED, None)
            if top.state is State.UNKNOWN
            else (VerdictKind.ONE, top.state)
        )
    # A change into what is not known is not an answer to what the job waits for now.
    if len(cuts) > 1 and len(known) == len(cuts):
        return VerdictKind.CHANGED, cuts[-1].state
    if top.state is not State.UNKNOWN and (
        (top.share >= MIXED and holds) or _comes_in_turns(account, top)
    ):
        return VerdictKind.MIXED, top.state
    return VerdictKind.UNDECIDED, None


def _comes_in_turns(account: Account, top: Share) -> bool:
    """It held most of the time, never long: a checkpoint every few steps, a request before each of
    them.
    """
    # of those it is what comes between that matters
    is_wait = top.state not in {State.GPU, State.COLD_GPU}
    return is_wait and top.share >= MOSTLY and top.share * account.counted_s >= 2 * SHORTEST_RUN_S


def _judge_confidence(account: Account, state: State | None, outcome: VerdictKind) -> Confidence:
    """What 80 % of the state's seconds carry; short watches and mixtures at most medium."""
    if state is None or outcome in {VerdictKind.UNDECIDED, VerdictKind.IDLE}:
        return Confidence.LOW
    by_trust = {level: account.states.get((state, level), 0.0) for level in Trust}
    needed = CARRIED * sum(by_trust.values())
    if state is State.WAIT and account.waits_for is None:
        return Confidence.LOW
    if outcome is VerdictKind.MIXED and account.runs[state].longest_s < SHORTEST_RUN_S:
        return Confidence.LOW
    is_long = account.counted_s >= SURE_S - account.watched.interval_s
    if by_trust[Trust.HIGH] >= needed and is_long and outcome is not VerdictKind.MIXED:
        return Confidence.HIGH
    return (
        Confidence.MEDIUM
        if by_trust[Trust.HIGH] + by_trust[Trust.MEDIUM] >= needed
        else Confidence.LOW
    )


def _was_cold(cuts: tuple[Segment, ...]) -> bool:
    """The first pass over the data came from the device, the later ones from the page cache."""
    if len(cuts) < 2 or cuts[0].state is not State.DISK or cuts[-1].state is State.DISK:
        return False
    first, last = cuts[0].device_bytes, cuts[-1].device_bytes
    return first is not None and last is not None and first > COLD * last


# Names for one thing that is short: who has it decides between them.
_TWINS = {
    State.GPU: (State.COLD_GPU,), State.DISK: (State.MEM,), State.CPU: (State.FOREIGN, State.LIMIT),
    State.FOREIGN: (State.CPU,),
}  # fmt: skip
# a state with less than this share, though its signal was seen all the time, was not the cause
RULED_OUT = 0.05


def _not_the_cause(account: Account, shares: tuple[Share, ...]) -> tuple[State, ...]:
    """States that could have been seen and were not. What idles waits for none of them, so that
    none is reported.
    """
    if account.active_s < SHORTEST_RUN_S:
        return ()
    share = {one.state: one.share for one in shares}
    seen = {
        State.GPU: "gpu_percent", State.DISK: "io_full", State.MEM: "memory_some",
        State.CPU: "room_percent", State.FOREIGN: "run_delay_cores",
    }  # fmt: skip
    return tuple(
        state
        for state, signal in seen.items()
        if share.get(state, 0.0) < RULED_OUT
        # A signal that was seen for a part of the time rules nothing out in the rest.
        and account.means[signal].seconds >= CARRIED * account.active_s
        and not (state is State.MEM and (account.drops_cache or was_out_of_memory(account)))
        and not (state is State.DISK and any(map(is_file_server, account.waited_for)))
        and all(share.get(twin, 0.0) < RULED_OUT for twin in _TWINS.get(state, ()))
    )
