"""`hosttune bench`: what a data set gives here, measured by reading it; no file of a user is
written.
"""

from __future__ import annotations

from typer import Typer

from hosttune.cli.help_page import GroupHelp
from hosttune.cli.options import ShowPlain
from hosttune.cli.words import make_command
from hosttune.measure.cli.bench_read import read
from hosttune.measure.cli.shared import page_of

app = Typer(
    cls=GroupHelp,
    help="Measure how fast a data set is read here.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

app.command("read")(make_command(read))


@app.command("list")
@make_command
def list_results(show: ShowPlain) -> int:
    """List the results of earlier benches, newest first."""
    from hosttune.cli.common import say, write_json
    from hosttune.codec import FORMAT_VERSION
    from hosttune.measure.bench import results
    from hosttune.measure.views.bench import list_text

    found = results.list_stored()
    if show.is_json:
        write_json(
            {"format_version": FORMAT_VERSION, "results": [results.to_json(one) for one in found]}
        )
    else:
        say(list_text(found, page_of(show)))
    return 0


@app.command("clean")
@make_command
def clean(show: ShowPlain) -> int:
    """Delete what interrupted benches of this user left."""
    from hosttune.cli.common import say, write_json
    from hosttune.measure.bench import scratch
    from hosttune.measure.views.bench import cleaned_text

    found = scratch.find_leftovers()
    left = [one for one in found if not scratch.clean(one)]
    if show.is_json:
        removed = [one.path for one in found if one not in left]
        write_json({"format_version": 1, "removed": removed, "kept": [one.path for one in left]})
    else:
        say(cleaned_text(found, left))
    return int(bool(left))
