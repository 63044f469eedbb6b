"""What surrounds a run of apply or undo: the lock, a first boot that is still going on, the recovery of an
interrupted run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hosttune.actions.examine import Session, open_session
from hosttune.actions.interrupted import at_first_boot
from hosttune.actions.journal import read_journal
from hosttune.actions.recover import prune, recover
from hosttune.actions.unended import half_way, resume
from hosttune.errors import Refused
from hosttune.host import open_writer
from hosttune.host.lock import locked
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.host.door import Reader, Writer

CLOUD_INIT_S = 600.0


@contextmanager
def changing(
    options: Mapping[str, Any],
    on_progress: Callable[[str], None],
    *,
    resumes: bool = False,
    agreed: Callable[[Session], None] = lambda _: None,
) -> Iterator[tuple[Session, Writer]]:
    """A session on the host that is about to be changed, and the writer. `options` are those of `open_session`.
    `resumes`: first go on with the sets of packages at which earlier runs stopped half-way, unless `agreed` raises that
    this is not what was shown.

    Raises Refused when another run is at work, or cloud-init does not end.
    """
    writer = open_writer(root=options.get("root"), hardware=options.get("hardware"))
    with locked():
        wait_for_first_boot(writer, on_progress)
        session = open_session(reader=writer, **options)
        if session.journal.interrupted:
            recover(writer, on_progress=on_progress)
            session = open_session(reader=writer, **options)
        if resumes and half_way(session.journal, writer):
            agreed(session)
            rules = frozenset(name for rule in session.selected for name in session.catalog.former(rule.id) | {rule.id})
            resumed, run = resume(writer, session.journal, rules, on_progress)
            if resumed:
                session = open_session(reader=writer, **options)
                session.resumed, session.resumed_run = resumed, run
        yield session, writer
        prune(writer, read_journal(writer))  # with the run that has just ended


def wait_for_first_boot(reader: Reader, on_progress: Callable[[str], None]) -> None:
    """While cloud-init is at work on a first boot: wait for it, bounded. Raises Refused when it goes on."""
    if not at_first_boot(reader):
        return
    on_progress("waiting for cloud-init to end its first boot")
    answer = reader.query(("cloud-init", "status", "--wait"), timeout_s=CLOUD_INIT_S)
    if isinstance(answer, Unreadable):
        message = f"cloud-init is still at work on this host after {CLOUD_INIT_S:.0f} s"
        raise Refused(message, hint="see what it waits for: cloud-init status --long")
