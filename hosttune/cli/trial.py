"""`hosttune trial`: the older name of what `hosttune status` shows of a trial, which scripts use."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from hosttune.cli.options import Option, ShowPlain, TargetOptions
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

EXAMPLES = ("sudo hosttune trial",)


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


def trial(
    look: TargetOptions,
    show: ShowPlain,
    wait: Annotated[bool, Option("--wait", help="Wait until it is confirmed or rolled back.")] = False,
) -> int:
    """Show the changes on trial and what stopped working. This is the older name of a part of `hosttune status`.

    Exit status: 0 nothing on trial (any more), 1 on trial or rolled back, 2 the rollback failed, or trouble.
    """
    from hosttune.cli import common
    from hosttune.cli.options import HostOptions
    from hosttune.codec import make_document
    from hosttune.host import open_reader
    from hosttune.views.masking import mask_data

    if not show.is_json:
        common.tell("hosttune: `trial` is now a part of: sudo hosttune status")
    options = HostOptions(root=look.root, host=look.host, hardware=look.hardware)
    reader = open_reader(root=look.root, host=common.one_host(look), hardware=look.hardware)
    common.tell_chroot(reader, options)
    seen = look_at_trial(reader, partial(common.open_way_back, options), wait=wait)
    if show.is_json:
        common.write_json(mask_data(make_document(seen.to_json())))
    else:
        common.say(seen.to_report(common.open_page(reader, look, show)))
    return seen.exit_status


def look_at_trial(reader: Reader, open_session: Callable[[], Session], *, wait: bool) -> SeenTrial:
    """What is on trial, after its end if it is waited for; a session is opened only to find what stopped working."""
    from hosttune.actions.journal.journal import read_journal
    from hosttune.actions.trial.trial import look_for_losses
    from hosttune.cli.common import tell
    from hosttune.errors import HosttuneError

    found = _read(reader)
    while wait and found is not None and found.state.is_open:
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
        raise HosttuneError(f"the trial cannot be read: {unknown.reason}", hint="run it as root") from None
