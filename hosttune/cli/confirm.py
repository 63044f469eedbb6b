"""`hosttune confirm`: keep what is on trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, HostOptions, Option, ShowPlain

_LOCK_S = 120.0  # a look at the boot on trial may hold it for a moment

if TYPE_CHECKING:
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.host.door import Writer


ON_STOP = "Ctrl-C stops it between two changes"
EXAMPLES = ("sudo hosttune confirm",)


def confirm(
    look: HostOptions,
    show: ShowPlain,
    run: Annotated[
        str | None, Argument(metavar="[RUN]", help="The run on trial; the only one by default.")
    ] = None,
    anyway: Annotated[
        bool, Option("--anyway", help="Confirm even if something stopped working.")
    ] = False,
) -> int:
    """Keep the changes that are on trial. It shows first what this host has lost since before the
    run: failed units, mounts, routes, sshd, GPUs.

    Confirm over a new connection, or on the console: an older connection does not prove that new
    logins still work. If the run also changed something for the next boot, that boot is then on
    trial, and you confirm once more.

    Exit status: 0 confirmed, 1 not confirmed because something stopped working, or the trial boot
    cannot be scheduled, 2 nothing on trial, too late, or trouble.
    """
    from hosttune.actions.run import open_for_change
    from hosttune.actions.trial.trial import confirm as keep
    from hosttune.actions.trial.trial import look_for_losses, require_confirmable, still_coming_up
    from hosttune.cli import common
    from hosttune.codec import make_document
    from hosttune.errors import Refused
    from hosttune.views.masking import mask_data
    from hosttune.views.trial import ended_json, ended_report, trial_json, trial_report

    words = ["confirm", *([run] if run else []), *(["--anyway"] if anyway else [])]
    common.require_rights(look, show, words)
    with open_for_change(
        common.session_options(look),
        common.progress,
        beside_trial=True,
        is_way_back=True,
        wait_s=_LOCK_S,
    ) as (session, writer):
        page = common.open_page(session.reader, look, show)
        trial = require_confirmable(session, writer, run)
        if trial is None:
            common.tell(f"hosttune: run {run} is not on trial: it stays")
            if show.is_json:
                common.write_json(make_document(trial_json(None)))
            return 0
        try:
            found = look_for_losses(session, trial)
        # --anyway is also for a host on which the look itself fails.
        except Refused:
            if not anyway:
                raise
            found = ()
        if any(one.is_known for one in found) and not anyway:
            if show.is_json:
                common.write_json(mask_data(make_document(trial_json(trial, found, writer.now()))))
            else:
                common.say(trial_report(trial, found, page, writer.now()))
                common.tell("hosttune: not confirmed; to keep it all the same: --anyway")
            if early := still_coming_up(trial, writer):
                common.tell(f"hosttune: {early}")
            return 1
        ended: TrialEnd = keep(session, writer, trial, common.progress)
    if show.is_json:
        common.write_json(mask_data(ended_json(ended, found)))
    else:
        common.say(ended_report(ended, found, page))
    _tell_gate(writer, ended)
    receipt = ended.receipt
    is_kept = ended.state.value in {"confirmed", "on trial: next boot"}
    return int(not is_kept or bool(receipt and (receipt.failed or not receipt.verified)))


def _tell_gate(writer: Writer, ended: TrialEnd) -> None:
    """Work that the gate held because of the trial is still held."""
    from hosttune.actions.gate.ready import gate_units
    from hosttune.cli.common import tell
    from hosttune.errors import HosttuneError

    try:
        is_held = gate_units(writer).has_failed
    except HosttuneError:
        return
    if is_held and ended.state.value == "confirmed":
        tell(
            "hosttune: hosttune-ready.service held work in this boot; to let it ask again: "
            "systemctl start slurmd"
        )
