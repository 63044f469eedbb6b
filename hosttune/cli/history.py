"""`hosttune history`: what was done here."""

from __future__ import annotations

from hosttune.cli.options import Look, Show


def history(look: Look, show: Show) -> int:
    """List the runs of apply and undo, newest first; --verbose with every change."""
    from hosttune.actions.journal import read_journal, still_back
    from hosttune.cli.common import one_host, open_page, say, write_json
    from hosttune.host import open_reader
    from hosttune.views.history import history_json, history_text
    from hosttune.views.masking import masked

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    journal = read_journal(reader)
    if show.is_json:
        write_json(masked(history_json(journal, still_back(journal, reader))))
    else:
        say(history_text(journal, open_page(reader, look, show)))
    return 2 if journal.unreadable else 0
