"""`hosttune undo`: the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, HostOptions, Option, ShowChange

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.actions.undo import UndoPlan


ON_STOP = "Ctrl-C stops it between two changes"
EXAMPLES = (
    "hosttune undo",
    "sudo hosttune undo --yes",
    "sudo hosttune undo --rule storage-noatime --yes",
)


def undo(
    look: HostOptions,
    show: ShowChange,
    run: Annotated[
        str | None,
        Argument(metavar="[RUN]", help="The run to undo, with those that went on with it."),
    ] = None,
    rule: Annotated[
        str | None, Option("--rule", metavar="RULE", help="All that this rule did.")
    ] = None,
    expect: Annotated[
        str | None,
        Option(
            "--expect", metavar="DIGEST", help="Only if what would be undone still has this digest."
        ),
    ] = None,
    yes: Annotated[
        bool, Option("--yes", help="Do it. Without it: show it, change nothing.")
    ] = False,
) -> int:
    """Undo a run or a rule, by default the last apply. All runs that belong to it are undone, also
    those after an interruption or a reboot. Without --yes it only shows how. It ends a trial at
    once.

    Exit status: 0 nothing is in the way (or all was undone), 1 something was, 2 trouble, 130
    stopped by Ctrl-C, 143 by SIGTERM.
    """
    from hosttune.actions.undo import plan_undo
    from hosttune.cli import common, going_on
    from hosttune.cli.apply import check_shown
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.errors import Refused
    from hosttune.views.masking import mask_data
    from hosttune.views.plan import undo_report
    from hosttune.views.receipt import receipt_report

    words = ["undo", *([run] if run else []), *(["--rule", rule] if rule else [])]
    if not yes:
        session = common.open_way_back(look)
        page = common.open_page(session.reader, look, show)
        # Without this check a user would be shown that nothing is to be undone.
        if session.journal.unreadable and not session.reader.is_privileged:
            message = f"the journal cannot be read: {session.journal.unreadable}"
            raise Refused(message, hint=f"type: {page.act(common.quote_for_shell(words))}")
        planned = plan_undo(session, run, rule)
        check_shown(planned.plan, expect, words=common.quote_for_shell(words))
        if show.is_json:
            common.write_json(mask_data(plan_to_json(planned.plan)))
        else:
            gone = sum(one.on_paper for one in planned.returns)
            common.say(
                undo_report(
                    planned.plan,
                    page,
                    words=common.quote_for_shell(words),
                    ignore=list_redone(planned, session),
                    on_paper=gone,
                    of=planned,
                )
            )
        return int(bool(planned.plan.findings))

    from hosttune.actions.left_program import remove_idle_program
    from hosttune.actions.run import open_for_change
    from hosttune.actions.trial.trial import begin_to_take_back, on_trial_to_undo, taken_back
    from hosttune.actions.undo import undo as carry_out

    common.require_rights(look, show, [*words, "--yes", *common.spell_expectation(expect)])
    with open_for_change(
        common.session_options(look), common.progress, beside_trial=True, is_way_back=True
    ) as (
        session,
        writer,
    ):
        trial = on_trial_to_undo(session, writer, run, rule)
        planned = plan_undo(session, trial.run if trial else run, rule)
        check_shown(planned.plan, expect, words=common.quote_for_shell(words))
        going_on.give_up(look, writer, "an undo came after it")
        if trial is not None:
            begin_to_take_back(writer, trial)
        receipt = carry_out(session, writer, planned, on_progress=common.progress)
        if trial is not None and not receipt.failed and not receipt.stopped:
            taken_back(writer, trial)
            common.tell(f"hosttune: run {trial.run} is on trial no more")
    if show.is_json:
        common.write_json(mask_data(receipt_to_json(receipt)))
    else:
        page = common.open_page(session.reader, look, show)
        gone = sum(one.on_paper for one in planned.returns)
        common.say(
            receipt_report(
                receipt,
                page,
                is_undo=True,
                ignore=list_redone(planned, session),
                left=planned.plan.findings,
                on_paper=gone,
                of=planned,
                words=common.quote_for_shell(words),
            )
        )
    status = int(bool(receipt.failed or planned.plan.findings or not receipt.verified))
    status = common.conclude_run("undo", writer, receipt, status)
    if look.root is None:  # last, for it may be this very file, from which Python imports
        remove_idle_program()
    return status


def list_redone(planned: UndoPlan, session: Session) -> tuple[str, ...]:
    """The rules of which the next apply would do again what is taken back."""
    selected = {rule.id for rule in session.selected}
    undone = {one.change.rule for one in planned.returns}
    return tuple(rule for rule in planned.rules if rule in selected & undone)
