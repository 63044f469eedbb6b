"""`hosttune trial`: what is on trial, until when, and what is not as before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import DisplayOptions, HostOptions, Option

if TYPE_CHECKING:
    from hosttune.actions.trial_state import TrialRun
    from hosttune.facts.losses import Loss
    from hosttune.host.door import Reader

_EVERY_S = 5.0


EXAMPLES = ("sudo hosttune trial", "sudo hosttune trial --wait")


def trial(
    look: HostOptions,
    show: DisplayOptions,
    wait: Annotated[bool, Option("--wait", help="Wait until it is confirmed or rolled back.")] = False,
) -> int:
    """Show the changes on trial and what stopped working. Also the deadline, or that the last run was rolled back, and
    why. Needs root, changes nothing.

    Exit status: 0 nothing on trial (any more), 1 on trial or rolled back, 2 the rollback failed, or trouble.
    """
    from hosttune.actions.journal import read_journal
    from hosttune.actions.trial import look_for_losses
    from hosttune.actions.trial_state import TrialState
    from hosttune.cli import common
    from hosttune.codec import make_document
    from hosttune.errors import HosttuneError
    from hosttune.views.masking import mask_data
    from hosttune.views.trial import returned_json, returned_report, trial_json, trial_report

    session = common.open_way_back(look)
    found = _read(session.reader)
    while wait and found is not None and found.state.is_open:
        time.sleep(min(_EVERY_S, found.left_s) if found.left_s else _EVERY_S)
        found = _read(session.reader)
    journal = read_journal(session.reader)  # after the wait, in which it may have come back
    if found is None and (ended := journal.last_return()):
        run, back = ended
        word = journal.status(run)
        if show.is_json:
            common.write_json(mask_data(make_document(returned_json(run, back, word))))
        else:
            common.say(returned_report(run, back, word, common.open_page(session.reader, look, show)))
        return 2 if word == TrialState.FAILED.value else 1
    losses: tuple[Loss, ...] = ()
    if found is not None and found.state.is_open:
        try:
            losses = look_for_losses(session, found)
        except HosttuneError as error:  # what is on trial is told all the same
            common.tell(f"hosttune: {error.message}")
    if show.is_json:
        common.write_json(mask_data(make_document(trial_json(found, losses, session.reader.now()))))
    else:
        page = common.open_page(session.reader, look, show)
        common.say(trial_report(found, losses, page, session.reader.now()))
    return 0 if found is None else 2 if found.state is TrialState.FAILED else 1


def _read(reader: Reader) -> TrialRun | None:
    from hosttune.actions.trial_state import read_trial
    from hosttune.errors import HosttuneError
    from hosttune.facts.base import UnknownFact

    try:
        return read_trial(reader)
    except UnknownFact as unknown:
        raise HosttuneError(f"it cannot be told: {unknown.reason}", hint="run it as root") from None
