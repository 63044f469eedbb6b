"""What `apply --yes` and `undo --yes` share: root's rights, one run at a time, what an interrupted run left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hosttune.cli.common import one_host, open_page, open_session, require_root, tell

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.cli.options import Look, Show
    from hosttune.host.door import Writer


@contextmanager
def changing(look: Look, show: Show, words: str) -> Iterator[tuple[Session, Writer]]:
    """A session and a writer, under the lock, with interrupted runs finished; `words` name this command again."""
    from hosttune.actions.recover import prune, recover
    from hosttune.host import open_reader, open_writer
    from hosttune.host.lock import locked

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    require_root(reader, open_page(reader, look, show), words)
    with locked():
        writer = open_writer(root=look.root, hardware=look.hardware)
        session = open_session(look)
        if session.journal.interrupted:
            recover(writer, session.facts, on_progress=progress)
            session = open_session(look)
        yield session, writer
        prune(writer, session.journal)


def progress(text: str) -> None:
    """One line of progress; the escaping is for names that come from the host."""
    from hosttune.views.page import shown

    tell(shown(text))
