"""What `apply` and those beside it share about a run on trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.engine.trial_terms import TrialTerms, span_s
from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.values import Activation, Confirmer

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.actions.trial.state import TrialRun
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.engine.decide.trial import TrialPlan
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Plan, Receipt
    from hosttune.views.document import Block
    from hosttune.views.page import Page
    from hosttune.views.plan import PlannedTrial

OFF = "off"  # no trial, whatever the policy says


@frozen
class AskedTrial:
    """The options of a trial, as typed."""

    within: str | None
    by: Confirmer | None
    without_return: bool

    @property
    def words(self) -> list[str]:
        """The same again."""
        words = ["--confirm-within", self.within] if self.within else []
        words += ["--confirm-by", self.by.value] if self.by else []
        return [*words, *(["--without-return"] if self.without_return else [])]

    def terms(self, session: Session) -> TrialTerms | None:
        """What was typed, else what the policy says; None for no trial."""
        says = session.policy.confirm
        if self.within == OFF or (self.within is None and says is None):
            if self.by or (self.without_return and self.within == OFF):
                raise HosttuneError(
                    "there is no trial to confirm", hint="say how long: --confirm-within 15m"
                )
            return None
        within_s = span_s(self.within) if self.within else says.within_s if says else 0
        by = self.by or (says.by if says else Confirmer.OPERATOR)
        return TrialTerms(within_s, by, boot=says.boot if says else True)


def foresee_trial(session: Session, plan: Plan, asked: AskedTrial) -> TrialPlan | None:
    """How the plan would be tried; None where nothing is to be, or there is nothing to do. What a
    policy says of trials is meant for the machines that run it, not for their image.
    """
    terms = asked.terms(session)
    is_elsewhere = session.reader.kind == "record" or (
        session.reader.persistent_only and not asked.within
    )
    if terms is None or not plan.changes or is_elsewhere:
        return None
    from hosttune.actions.trial.trial import foresee

    return foresee(session, plan, terms)


def describe_trial(
    session: Session, plan: Plan, planned: TrialPlan | None, asked: AskedTrial
) -> PlannedTrial | None:
    """The part of the plan that tells of a trial; of none, whether one should be asked for."""
    from hosttune.cli.common import quote_for_shell
    from hosttune.views.document import Say
    from hosttune.views.plan import PlannedTrial

    if planned is not None:
        from hosttune.views.trial import planned_trial

        words = f" {quote_for_shell(asked.words)}" if asked.words else ""
        return PlannedTrial((planned_trial(planned),), words)
    if asked.within is None and wants_hint(plan, session.reader):
        text = (
            "It takes effect at the next boot, and you came over ssh: with --confirm-within 15m it "
            "is rolled back unless you confirm it."
        )
        return PlannedTrial((Say(text, is_hanging=True),))
    return None


def wants_hint(plan: Plan, reader: Reader) -> bool:
    """Whether a boot is to show what was done to it, and no one sits at the console."""
    from hosttune.actions.trial.connection import read_login

    at_boot = any(change.activation is Activation.REBOOT for change in plan.changes)
    return at_boot and reader.kind == "live" and read_login(reader).is_remote


def planned_json(planned: TrialPlan | None) -> dict[str, Any]:
    """The key `trial` of a plan; nothing without a trial."""
    from hosttune.views.trial import planned_json as encode

    return {"trial": encode(planned)} if planned else {}


def is_promised(planned: TrialPlan, asked: AskedTrial) -> bool:
    """Whether the plan is made on trial; False where all of it is made without one, as was agreed.
    Raises Refused where this host cannot promise to come back.
    """
    from hosttune.actions.trial.trial import require_promise

    require_promise(planned, without_return=asked.without_return)
    return planned.is_any


def carry_out(
    session: Session, writer: Writer, plan: Plan, planned: TrialPlan
) -> tuple[Receipt, TrialRun | TrialEnd]:
    """Make the plan on trial."""
    from hosttune.actions.trial.trial import apply_on_trial
    from hosttune.cli.common import progress

    return apply_on_trial(session, writer, plan, planned, progress)


def receipt_blocks(
    trial: TrialRun | TrialEnd | None, page: Page, reader: Reader
) -> tuple[Block, ...]:
    """What a receipt says of the trial."""
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.views.trial import standing_blocks

    if trial is None:
        return ()
    if isinstance(trial, TrialEnd):
        from hosttune.host.masking.cleaned import clean
        from hosttune.views.document import Say

        return (Say(f"Nothing is on trial: {clean(trial.reason)}."),)
    return standing_blocks(trial, page, reader.now())


def receipt_json(trial: TrialRun | TrialEnd | None, reader: Reader) -> dict[str, Any]:
    """The key `trial` of a receipt; nothing without a trial."""
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.views.trial import trial_json

    if trial is None:
        return {}
    one = trial.trial if isinstance(trial, TrialEnd) else trial
    return {"trial": trial_json(one, now=reader.now())}


def status_of_trial(trial: TrialRun | TrialEnd | None, of_run: int) -> int:
    """The exit status: what could not be put on trial and went back is no success."""
    from hosttune.actions.trial.state import TrialState
    from hosttune.actions.trial.trial import TrialEnd

    if (
        isinstance(trial, TrialEnd)
        and trial.receipt is not None
        and trial.state is not TrialState.CONFIRMED
    ):
        return max(of_run, 1)
    return of_run
