"""`hosttune dataset PATH`: how much data, in what pieces, where, and whether it fits in memory."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Argument, DisplayOptions, Option

EXAMPLES = ("hosttune dataset PATH",)


def dataset(
    show: DisplayOptions,
    path: Annotated[str, Argument(metavar="PATH", help="A folder of data, or one file.")],
    exact: Annotated[
        bool, Option("--exact", help="Every size, header and row, however long that takes.")
    ] = False,
    budget: Annotated[
        float | None,
        Option(
            "--budget",
            metavar="SECONDS",
            min=0.1,
            help="End after so long, with what was seen until then.",
        ),
    ] = None,
    headers: Annotated[
        bool, Option("--headers/--no-headers", help="Read some headers for the decoded size.")
    ] = True,
    follow: Annotated[
        bool,
        Option(
            "--follow",
            help="Also other file systems below PATH, and folders behind symbolic links.",
        ),
    ] = False,
    gpu_processes: Annotated[
        int | None,
        Option("--gpu-processes", metavar="N", min=1, help="How many will load data here."),
    ] = None,
) -> int:
    """Measure a data set: size, formats, does it fit. It also reports the disk, the page cache and
    a number of workers to start with.

    All names and sizes are read, of headers a sample; no access time is moved where that can be
    avoided. Ctrl-C ends it with what was seen until then. Exit status: 0 reported, 130 after
    Ctrl-C, 2 trouble.
    """
    from hosttune.cli.within import end_within

    def act() -> int:
        import signal

        from hosttune.cli.common import open_page, say, write_json
        from hosttune.cli.ending import INTERRUPTED
        from hosttune.facts import Facts
        from hosttune.host.progress import note_step, show_progress
        from hosttune.host.reading.live import LiveReader
        from hosttune.measure.dataset.look import look
        from hosttune.measure.dataset.patience import Patience
        from hosttune.measure.views.dataset import dataset_json, dataset_text

        reader = LiveReader()
        patience = Patience(budget)
        stop = "Ctrl-C reports so far"
        with show_progress("measuring", most_s=budget or 0, stop=stop):

            def interrupt(*_: object) -> None:
                patience.stop()
                signal.signal(signal.SIGINT, before)  # a second one ends it at once

            before = signal.signal(signal.SIGINT, interrupt)
            try:
                found = look(
                    path,
                    Facts(reader),
                    patience,
                    is_exact=exact,
                    with_headers=headers,
                    follow=follow,
                    gpu_processes=gpu_processes,
                    tell=note_step,
                )
            finally:
                signal.signal(signal.SIGINT, before)
        if show.is_json:
            write_json(dataset_json(found))
        else:
            say(dataset_text(found, open_page(reader, None, show)))
        # A budget that is spent was asked for, and its report is the answer; Ctrl-C keeps the
        # status that shells expect.
        return INTERRUPTED if found.stopped == "interrupted" else 0

    return end_within(path, budget, act)
