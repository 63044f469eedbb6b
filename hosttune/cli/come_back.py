"""`hosttune come-back`: what units of systemd start while a run is on trial. No one has to type
it.
"""

from __future__ import annotations

import time
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, DisplayOptions, HostOptions
from hosttune.quoting import quote

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hosttune.actions.examine import Session
    from hosttune.actions.trial.state import TrialRun
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.facts.losses import Loss
    from hosttune.host.door import Reader, Writer

_LIVE_GRACE_S = 10.0  # what is in force at once shows at once
WHO_BY_HEALTH = "hosttune, by this host's health"


class ReturnMoment(str, Enum):
    """Why it is started."""

    # the time is up, if it had begun with the changes: of a run that was cut off before their end
    CUT_OFF = "cut-off"
    DEADLINE = "deadline"  # the time is up
    LOOK = "look"  # the boot on trial is through, or a live trial is to be confirmed by health


def come_back(
    look: HostOptions,
    show: DisplayOptions,
    moment: Annotated[ReturnMoment, Argument(metavar="MOMENT", help="cut-off, deadline, or look.")],
    run: Annotated[str, Argument(metavar="RUN", help="The run on trial.")],
) -> int:
    """Take back the run on trial, unless it was confirmed; or look whether this host is as it was
    before.

    Exit status: 0 done, or nothing is on trial any more; 2 it could not be taken back.
    """
    from hosttune.actions.trial.state import TrialState
    from hosttune.cli import common

    common.require_rights(look, show, ["come-back", moment.value, run])
    if moment is ReturnMoment.LOOK:
        ended = _look(look, run)
    else:
        ended = _take_back(look, run, "", is_cut_off=moment is ReturnMoment.CUT_OFF)
    return 2 if ended is not None and ended.state is TrialState.FAILED else 0


def _open_for_return(look: HostOptions) -> AbstractContextManager[tuple[Session, Writer]]:
    from hosttune.actions.run import open_for_change
    from hosttune.cli.common import progress, session_options

    return open_for_change(session_options(look), progress, for_return=True)


def _take_back(
    look: HostOptions, run: str, reason: str, *, is_cut_off: bool = False
) -> TrialEnd | None:
    """Take it back, and reboot where that is needed and this is the boot on trial; None where
    nothing is on trial, or it is not cut off but made, and its time has begun.
    """
    from hosttune.actions.trial.state import TrialState, read_trial
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.actions.trial.trial import come_back as take_back
    from hosttune.cli.common import progress
    from hosttune.numbers import say_span

    with _open_for_return(look) as (session, writer):
        trial = read_trial(writer)
        if trial is not None and trial.run == run and trial.state is TrialState.FAILED:
            # where hosttune failed, the guard still can
            return TrialEnd(trial, trial.state, trial.reason)
        if (
            trial is None
            or trial.run != run
            or trial.state not in {TrialState.LIVE, TrialState.THIS_BOOT}
        ):
            return None
        is_boot = trial.state is TrialState.THIS_BOOT
        if is_cut_off and (is_boot or trial.record.made_s):
            return None
        within_s = trial.record.boot_within_s if is_boot else trial.record.within_s
        none = (
            "it was cut off before all was made"
            if is_cut_off
            else f"it was not confirmed within {say_span(within_s)}"
        )
        why = reason or none
        return take_back(session, writer, trial, why, progress, may_reboot=is_boot)


def _look(look: HostOptions, run: str) -> TrialEnd | None:
    """Compare with before until that is decided, and do what was agreed: confirm, roll back, or
    only report.
    """
    from hosttune.actions.trial.clock import announce
    from hosttune.actions.trial.standing import GRACE_S, LATER_SMI_S, await_health
    from hosttune.actions.trial.state import TrialState, read_trial
    from hosttune.actions.trial.trial import confirm, look_for_losses
    from hosttune.cli.common import progress
    from hosttune.host import open_writer
    from hosttune.host.masking.cleaned import clean
    from hosttune.values import Confirmer

    writer = open_writer(root=look.root)
    trial = read_trial(writer)
    if trial is not None and not trial.state.is_open:
        with _open_for_return(look) as (_, writer):  # books what came back in an earlier boot
            trial = read_trial(writer)
    if (
        trial is None
        or trial.run != run
        or trial.state not in {TrialState.LIVE, TrialState.THIS_BOOT}
    ):
        return None
    if trial.state is TrialState.LIVE and not trial.record.made_s:
        return None  # it is started when all is made
    while True:
        judged = await_health(
            partial(_find_losses, look, trial),
            left_s=partial(_left_s, writer, run),
            wait=time.sleep,
            now=time.monotonic,
            grace_s=GRACE_S if trial.state is TrialState.THIS_BOOT else _LIVE_GRACE_S,
        )
        losses = "; ".join(one.sentence for one in judged.losses if one.is_known)
        if trial.record.by is not Confirmer.HEALTH:
            if _left_s(writer, run):
                how = (
                    f"something is not as before: {losses}" if losses else "this host is as before"
                )
                announce(
                    writer,
                    clean(
                        f"{how}; run {run} is rolled back, unless: sudo hosttune confirm "
                        f"{quote(run)}"
                    ),
                )
            return None
        if not judged.is_healthy:
            return _take_back(look, run, f"not as before: {losses or 'it could not be determined'}")
        with _open_for_return(look) as (session, writer):
            now = read_trial(writer)
            if (
                now is None
                or now.run != run
                or now.state is not trial.state
                or now.record.made_s == 0
            ):
                return None
            # who had the lock may have changed something
            if not look_for_losses(session, now, smi_s=LATER_SMI_S):
                return confirm(session, writer, now, progress, WHO_BY_HEALTH)


def _find_losses(look: HostOptions, trial: TrialRun, smi_s: float) -> tuple[Loss, ...]:
    from hosttune.actions.trial.trial import look_for_losses
    from hosttune.cli.common import open_way_back

    return look_for_losses(open_way_back(look), trial, smi_s=smi_s)


def _left_s(reader: Reader, run: str) -> float:
    """Seconds up to the deadline; none where it is not on trial any more."""
    from hosttune.actions.trial.state import read_trial

    trial = read_trial(reader)
    return trial.left_s or 0.0 if trial is not None and trial.run == run else 0.0
