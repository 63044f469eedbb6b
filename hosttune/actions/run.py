"""What surrounds a run of apply or undo: the lock, a first boot that is still going on, the
recovery of an interrupted run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from hosttune.actions.examine import open_session, open_way_back
from hosttune.actions.journal.interrupted import at_first_boot
from hosttune.actions.journal.journal import read_journal
from hosttune.actions.journal.recover import prune, recover
from hosttune.actions.journal.unended import find_half_done, resume
from hosttune.actions.trial.state import is_left_over, require_none
from hosttune.actions.trial.trial import finish
from hosttune.errors import Refused
from hosttune.host import open_writer
from hosttune.host.pager import switch_pager_off
from hosttune.host.writing.lock import hold_lock
from hosttune.host.writing.stopping import outlive_terminal
from hosttune.values import Unreadable
from hosttune.verdict_words import trial_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.actions.examine import Session
    from hosttune.host.door import Reader, Writer

CLOUD_INIT_S = 600.0
RETURN_S = 3600.0  # for another run to end


@contextmanager
def open_for_change(
    options: Mapping[str, Any],
    on_progress: Callable[[str], None],
    *,
    resumes: bool = False,
    waits: bool = True,
    agreed: Callable[[Session], None] = lambda _: None,
    beside_trial: bool = False,
    for_return: bool = False,
    is_way_back: bool = False,
    wait_s: float = 0.0,
    is_locked: bool = False,
) -> Iterator[tuple[Session, Writer]]:
    """A session on the host that is about to be changed, and the writer. `options` are those of
    `open_session`. `resumes`: first go on with the sets of packages at which earlier runs stopped
    half-way, unless `agreed` raises that this is not what was shown. `waits`: for the end of a
    first boot; what runs in it must not.

    A trial that is decided is brought to its end before anything else. Raises Refused when another
    run is at work, when cloud-init does not end, and, but for `beside_trial`, when a run is on
    trial. `for_return`: it takes back what is on trial, so it waits for another run. `is_way_back`,
    and `for_return` too: it needs neither rules nor a policy that can be read. `wait_s`: seconds
    for another run to end; `is_locked`: the caller holds the lock.

    From here on a dropped connection does not end this process.
    """
    outlive_terminal()
    switch_pager_off()  # no key is waited for under the lock
    writer = open_writer(root=options.get("root"), hardware=options.get("hardware"))
    if for_return or is_way_back:
        opened = partial(open_way_back, writer, on_progress, **options)
    else:
        opened = partial(open_session, reader=writer, **options)
    with nullcontext() if is_locked else hold_lock(wait_s=RETURN_S if for_return else wait_s):
        # Under the lock, so that no other run begins while this one waits for cloud-init.
        if waits:
            wait_for_first_boot(writer, on_progress)
        session = opened()
        if session.journal.interrupted:
            # What an earlier run left open is booked before a plan is made: the plan rests on what
            # is in force.
            recover(writer, on_progress=on_progress)
            session = opened()
        if is_left_over(writer):
            if ended := finish(session, writer, on_progress, may_reboot=for_return):
                on_progress(f"run {ended.trial.run}: {trial_text(ended.state.value)}")
            session = opened()
        if not beside_trial and not for_return:
            require_none(writer)
        if resumes and find_half_done(session.journal, writer):
            agreed(session)
            rules = frozenset(
                name
                for rule in session.selected
                for name in session.catalog.former(rule.id) | {rule.id}
            )
            resumed, run = resume(writer, session.journal, rules, on_progress)
            if resumed:
                session = opened()
                session.resumed, session.resumed_run = resumed, run
        yield session, writer
        prune(writer, read_journal(writer))  # with the run that has just ended


def wait_for_first_boot(reader: Reader, on_progress: Callable[[str], None]) -> None:
    """While cloud-init is at work on a first boot: wait for it, bounded. Raises Refused when it
    goes on.
    """
    if not at_first_boot(reader):
        return
    on_progress("waiting for cloud-init to end its first boot")
    answer = reader.query(("cloud-init", "status", "--wait"), timeout_s=CLOUD_INIT_S)
    # Only a timeout keeps the run out. A cloud-init that failed has ended as well, and writes
    # nothing any more.
    if isinstance(answer, Unreadable):
        message = f"cloud-init is still at work on this host after {CLOUD_INIT_S:.0f} s"
        raise Refused(message, hint="see what it waits for: cloud-init status --long")
