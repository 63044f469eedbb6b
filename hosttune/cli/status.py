"""`hosttune status`: what this host waits for: a trial, an apply that goes on after a boot, the
gate before jobs.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from hosttune.cli.options import Option, ShowPlain
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.actions.journal.lines import Run
    from hosttune.actions.trial.state import TrialRun
    from hosttune.facts.losses import Loss
    from hosttune.host.door import Reader
    from hosttune.views.page import Page

_EVERY_S = 5.0

EXAMPLES = ("sudo hosttune status", "sudo hosttune status --wait")


@frozen
class SeenTrial:
    """The run on trial, or the last one if it was rolled back."""

    reader: Reader
    found: TrialRun | None
    ended: tuple[Run, Run] | None = None  # the run and its rollback
    word: str = ""  # what became of it
    losses: tuple[Loss, ...] = ()

    @property
    def is_any(self) -> bool:
        return self.found is not None or self.ended is not None

    @property
    def exit_status(self) -> int:
        from hosttune.actions.trial.state import TrialState

        state = self.word or (self.found.state.value if self.found else "")
        return 0 if not self.is_any else 2 if state == TrialState.FAILED.value else 1

    def to_json(self) -> dict[str, Any]:
        from hosttune.views.trial import returned_json, trial_json

        if self.ended:
            return returned_json(*self.ended, self.word)
        return trial_json(self.found, self.losses, self.reader.now())

    def to_report(self, page: Page) -> str:
        from hosttune.views.trial import returned_report, trial_report

        if self.ended:
            return returned_report(*self.ended, self.word, page)
        return trial_report(self.found, self.losses, page, self.reader.now())


def status(
    show: ShowPlain,
    wait: Annotated[
        bool, Option("--wait", help="Wait until the trial is confirmed or rolled back.")
    ] = False,
) -> int:
    """Show whether jobs may start, and the changes on trial. Of a trial it shows the deadline, what
    stopped working, and what to type to keep it or to undo it. It also shows what `apply --yes
    --reboot` still has to do.

    Exit status: 0 jobs may start, 1 not yet, 2 trouble. With --wait that of the trial: 0 none, or
    it was confirmed; 1 it was rolled back; 2 the rollback failed.
    """
    from hosttune.actions.gate.ready import gate_units, missing_metrics, read_state
    from hosttune.actions.journal.journal import boot_id
    from hosttune.cli.common import (
        open_page,
        open_screen,
        open_way_back,
        require_root,
        say,
        write_json,
    )
    from hosttune.cli.options import HostOptions
    from hosttune.engine.decide.ready import read_outlook, state_to_json
    from hosttune.host import open_reader
    from hosttune.views.masking import mask_data
    from hosttune.views.prometheus import render_metrics
    from hosttune.views.ready import READY_METRICS, status_text

    require_root(["status"])
    reader = open_reader()
    trial = look_at_trial(reader, partial(open_way_back, HostOptions()), wait=wait)
    state, boot = read_state(reader), boot_id(reader)
    now = read_outlook(state, boot, gate_units(reader))
    is_this_boot = state is not None and state.boot_id == boot
    gap = (
        missing_metrics(reader, state, lambda rows: render_metrics(READY_METRICS, rows))
        if state and is_this_boot
        else ""
    )
    if show.is_json:
        kept = (
            state_to_json(state) | {"this_boot": is_this_boot, "metrics": gap}
            if state
            else {"format_version": 1}
        )
        more = {"trial": mask_data(trial.to_json())} if trial.is_any else {}
        write_json(kept | {"is_open": now.is_open, "now": now.sentence} | more)
    else:
        text = status_text(state, boot, now, gap, open_screen(show).columns)
        say(f"{text}\n{trial.to_report(open_page(reader, None, show))}" if trial.is_any else text)
    return trial.exit_status if wait else int(not now.is_open)


def look_at_trial(reader: Reader, open_session: Callable[[], Session], *, wait: bool) -> SeenTrial:
    """What is on trial, after its end if it is waited for; a session is opened only to find what
    stopped working.
    """
    from hosttune.actions.journal.journal import read_journal
    from hosttune.actions.trial.trial import look_for_losses
    from hosttune.cli.common import tell
    from hosttune.errors import HosttuneError

    found = _read(reader)
    while wait and found is not None and found.state.is_open:
        # Not longer than the time that it has left: a script waits for its end.
        time.sleep(min(_EVERY_S, found.left_s) if found.left_s else _EVERY_S)
        found = _read(reader)
    journal = read_journal(reader)  # after the wait, in which it may have been rolled back
    if found is None and (ended := journal.last_return()):
        return SeenTrial(reader, None, ended, journal.status(ended[0]))
    losses: tuple[Loss, ...] = ()
    if found is not None and found.state.is_open:
        try:
            losses = look_for_losses(open_session(), found)
        except HosttuneError as error:  # what is on trial is shown all the same
            tell(f"hosttune: {error.message}")
    return SeenTrial(reader, found, losses=losses)


def _read(reader: Reader) -> TrialRun | None:
    from hosttune.actions.trial.state import read_trial
    from hosttune.errors import HosttuneError
    from hosttune.facts.base import UnknownFact

    try:
        return read_trial(reader)
    except UnknownFact as unknown:
        raise HosttuneError(
            f"the trial cannot be read: {unknown.reason}", hint="run it as root"
        ) from None
