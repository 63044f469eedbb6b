"""`hosttune plan`: the exact diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import LookOnly, Option, ReportFormat, ShowReport

if TYPE_CHECKING:
    from hosttune.engine.decide.trial import TrialPlan
    from hosttune.views.checked import Checked
    from hosttune.views.plan import PlannedTrial


EXAMPLES = ("hosttune plan", "hosttune plan --only gpu-driver", "hosttune plan --save plan.json")


def plan(
    look: LookOnly,
    show: ShowReport,
    save: Annotated[
        str | None,
        Option("--save", metavar="FILE", help="Save the plan for `apply FILE --yes` (mode 0600)."),
    ] = None,
    out: Annotated[
        str | None, Option("--out", metavar="FILE", hidden=True, help="Older name of --save.")
    ] = None,
) -> int:
    """Show the exact changes that apply would make. Changes nothing.

    Exit status: 0 nothing to change, 1 something is to change (skipped and blocked, too), waits or
    could not be checked, 2 it could not run.
    """
    from hosttune.cli import on_trial
    from hosttune.cli.common import open_session, tell, tell_idle
    from hosttune.cli.reports import deliver, of_session
    from hosttune.codec import dump_json, plan_to_json
    from hosttune.errors import HosttuneError
    from hosttune.host.door import source_of
    from hosttune.host.writing import output
    from hosttune.views.summary import exit_status

    if out is not None:
        tell("hosttune: --out is now called --save")
    file = save if save is not None else out
    if file == "-":
        raise HosttuneError("--save -: the answer goes to standard output", hint="name a file")
    session = open_session(look)
    if source := source_of(session.reader):
        raise HosttuneError(
            f"{session.reader.name} is a report of {source}: it does not hold all that a plan "
            "needs; on that host, type: sudo hosttune plan"
        )
    plan = session.plan()
    tell_idle(session, plan, everything=show.verbose)
    asked = on_trial.AskedTrial(None, None, without_return=False)
    planned = on_trial.foresee_trial(session, plan, asked)
    trial = on_trial.describe_trial(session, plan, planned, asked)
    one = of_session(session, plan, look, show)
    # Before the answer: an output that cannot be written must not leave the plan unsaved.
    if file is not None:
        output.save(file, dump_json(plan_to_json(one.plan)).encode("ascii"))
        tell(f"hosttune: the plan is saved in {file}")
    deliver(_render_plan(show.format, one, planned, trial), show.output)
    return exit_status(one.plan, strict=False)


def _render_plan(
    form: ReportFormat, one: Checked, planned: TrialPlan | None, trial: PlannedTrial | None
) -> str:
    """The plan in its format."""
    if form is ReportFormat.JSON:
        from hosttune.cli.on_trial import planned_json
        from hosttune.codec import dump_json, plan_to_json
        from hosttune.views.masking import mask_data

        return dump_json(mask_data(plan_to_json(one.plan) | planned_json(planned)))
    from hosttune.views.plan import plan_report

    return plan_report(one, trial=trial)
