"""`hosttune history`: what was done here."""

from __future__ import annotations

from hosttune.cli.options import Look, ShowReport


def history(look: Look, show: ShowReport) -> int:
    """List the runs of apply and undo, newest first; --verbose with every change."""
    from hosttune.actions.journal import read_journal, still_back
    from hosttune.cli.common import one_host, open_page
    from hosttune.cli.reports import deliver
    from hosttune.codec import dumps
    from hosttune.host import open_reader
    from hosttune.views.history import history_json, history_report
    from hosttune.views.masking import masked

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    journal = read_journal(reader)
    if show.is_json:
        deliver(dumps(masked(history_json(journal, still_back(journal, reader)))), show.output)
    else:
        deliver(history_report(journal, open_page(reader, look, show)), show.output)
    return 2 if journal.unreadable else 0
