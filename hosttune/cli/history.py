"""`hosttune history`: what was done here."""

from __future__ import annotations

from hosttune.cli.options import ShowReport, TargetOptions

EXAMPLES = ("hosttune history", "hosttune history -v")


def history(look: TargetOptions, show: ShowReport) -> int:
    """List the runs of apply and undo, newest first. With --verbose every change is listed."""
    from hosttune.actions.journal.journal import read_journal, still_back
    from hosttune.actions.journal.receipts import kept_receipts, path_of
    from hosttune.cli.common import one_host, open_page, trial_of
    from hosttune.cli.reports import deliver
    from hosttune.codec import dump_json
    from hosttune.host import open_reader
    from hosttune.views.history import history_json, history_report
    from hosttune.views.masking import mask_data
    from hosttune.views.trial import standing_words, trial_json

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    journal = read_journal(reader)
    trial = trial_of(reader)
    if show.is_json:
        document = trial_json(trial, now=reader.now()) if trial else None
        deliver(
            dump_json(mask_data(history_json(journal, still_back(journal, reader), document))),
            show.output,
        )
    else:
        words = {trial.run: standing_words(trial, reader.now())} if trial else {}
        receipts = {run: path_of(run) for run in kept_receipts(reader)}
        deliver(
            history_report(journal, open_page(reader, look, show), words, receipts), show.output
        )
    return 2 if journal.unreadable else 0
