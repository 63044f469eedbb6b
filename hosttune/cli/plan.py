"""`hosttune plan`: the exact diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import LookOnly, Option, ReportFormat, ShowReport

if TYPE_CHECKING:
    from hosttune.engine.trial import TrialPlan
    from hosttune.views.checked import Checked
    from hosttune.views.plan import PlannedTrial


def plan(
    look: LookOnly,
    show: ShowReport,
    out: Annotated[
        str | None, Option("--out", metavar="FILE", help="Save the plan for `apply FILE --yes`, readable by you alone.")
    ] = None,
) -> int:
    """Show the exact diff that apply --yes would make. Changes nothing.

    Exit status: 0 nothing to change, 1 something differs, is unknown or waits, 2 trouble.
    """
    from hosttune.cli import on_trial
    from hosttune.cli.common import open_session, tell, tell_idle
    from hosttune.cli.reports import deliver, of_session
    from hosttune.codec import dumps, plan_to_json
    from hosttune.errors import HosttuneError
    from hosttune.host.output import save
    from hosttune.views.summary import exit_status

    if out == "-":
        raise HosttuneError("--out -: the answer goes to standard output", hint="name a file")
    session = open_session(look)
    plan = session.plan()
    tell_idle(session, plan, everything=show.verbose)
    asked = on_trial.AskedTrial(None, None, without_return=False)
    planned = on_trial.foreseen(session, plan, asked)
    trial = on_trial.shown(session, plan, planned, asked)
    one = of_session(session, plan, look, show)
    if out is not None:
        save(out, dumps(plan_to_json(one.plan)).encode("ascii"))
        tell(f"hosttune: the plan is saved in {out}")
    deliver(_rendered(show.format, one, planned, trial), show.output)
    return exit_status(one.plan, strict=False)


def _rendered(form: ReportFormat, one: Checked, planned: TrialPlan | None, trial: PlannedTrial | None) -> str:
    """The plan in its format."""
    if form is ReportFormat.JSON:
        from hosttune.cli.on_trial import planned_json
        from hosttune.codec import dumps, plan_to_json
        from hosttune.views.masking import masked

        return dumps(masked(plan_to_json(one.plan) | planned_json(planned)))
    from hosttune.views.plan import plan_report

    return plan_report(one, trial=trial)
