"""`hosttune bench`: whether a change pays here, measured on scratch copies; no file of a user is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

from typer import Typer

from hosttune.cli.bench_read import read
from hosttune.cli.measuring import keep_result, measured, page_of, seed_of, warn_of_dropping
from hosttune.cli.options import Argument, DisplayOptions, Option
from hosttune.cli.words import command

if TYPE_CHECKING:
    from hosttune.measure.bench.results import BenchResult
    from hosttune.views.page import Page

app = Typer(
    help="Measure whether a change pays here: pairs of runs on scratch copies, in random order.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Budget: TypeAlias = Annotated[float, Option("--budget", min=1.0, metavar="SECONDS", help="How long pairs are run.")]
Seed: TypeAlias = Annotated[
    int | None, Option("--seed", min=0, help="Repeat a run with the same files and order (its report names it).")
]
Anyway: TypeAlias = Annotated[
    bool, Option("--anyway", help="Measure a busy host, too: the times are then inconclusive, the counters hold.")
]

AllowNetwork: TypeAlias = Annotated[bool, Option("--allow-network", help="Measure network and FUSE file systems, too.")]


@app.command("atime")
@command
def atime(
    show: DisplayOptions,
    path: Annotated[str, Argument(metavar="PATH", help="The folder of a data set.")],
    budget: Budget = 60.0,
    files: Annotated[int, Option("--files", min=20, max=100_000, help="Scratch copies, at most.")] = 4000,
    drop_caches: Annotated[
        bool, Option("--drop-caches", help="As root: drop the caches of the whole host before each chunk.")
    ] = False,
    same: Annotated[
        bool, Option("--same", help="Compare noatime with itself: how much of a difference is noise here. Not kept.")
    ] = False,
    seed: Seed = None,
    anyway: Anyway = False,
    allow_network: AllowNetwork = False,
) -> int:
    """What noatime saves on the file system of PATH: time, and bytes written.

    Exit status: 0 an answer, 1 inconclusive or not measured because of the state of the host, 2 trouble.
    """
    from hosttune.measure.bench.atime import AtimeOptions, bench_atime
    from hosttune.views.measure.bench import atime_text, same_text

    options = AtimeOptions(budget, files, drop_caches, anyway, allow_network, same=same)
    if drop_caches:
        warn_of_dropping()
    text = same_text if same else atime_text
    return _answer(show, lambda tell: bench_atime(path, seed_of(seed), options, tell), text, keeps=not same)


@app.command("tmp")
@command
def tmp(
    show: DisplayOptions,
    folder: Annotated[str, Option("--dir", metavar="DIR", help="Compare this folder with memory.")] = "/tmp",
    budget: Budget = 60.0,
    seed: Seed = None,
    anyway: Anyway = False,
    allow_network: AllowNetwork = False,
) -> int:
    """What /tmp in memory saves: unpacking, compiling, deleting.

    Exit status: 0 an answer, 1 inconclusive or not measured because of the state of the host, 2 trouble.
    """
    from hosttune.measure.bench.tmp import TmpOptions, bench_tmp
    from hosttune.views.measure.bench import tmp_text

    options = TmpOptions(folder, budget, anyway, allow_network)
    return _answer(show, lambda tell: bench_tmp(seed_of(seed), options, tell), tmp_text)


app.command("read")(command(read))


@app.command("list")
@command
def list_results(show: DisplayOptions) -> int:
    """Show what earlier benches found, the newest first."""
    from hosttune.cli.common import say, write_json
    from hosttune.measure.bench import results
    from hosttune.views.measure.bench import list_text

    found = results.stored()
    if show.is_json:
        write_json({"format_version": results.FORMAT_VERSION, "results": [results.to_json(one) for one in found]})
    else:
        say(list_text(found, page_of(show)))
    return 0


@app.command("clean")
@command
def clean(show: DisplayOptions) -> int:
    """Remove the scratch folders that killed benches of this user left behind, and nothing else."""
    from hosttune.cli.common import say, write_json
    from hosttune.measure.bench import scratch
    from hosttune.views.measure.bench import cleaned_text

    found = scratch.leftovers()
    left = [one for one in found if not scratch.clean(one)]
    if show.is_json:
        removed = [one.path for one in found if one not in left]
        write_json({"format_version": 1, "removed": removed, "kept": [one.path for one in left]})
    else:
        say(cleaned_text(found, left))
    return int(bool(left))


def _answer(
    show: DisplayOptions,
    bench: Callable[[Callable[[str], None]], BenchResult],
    text: Callable[[BenchResult, Page], str],
    *,
    keeps: bool = True,
) -> int:
    """Run a bench, keep and print what it found. A closed gate is an answer, too."""
    from hosttune.cli.common import say, write_json
    from hosttune.measure.bench import results
    from hosttune.views.measure.bench import status_of

    page = page_of(show)
    result = measured(page, bench)
    if result is None:
        return 1
    if show.is_json:
        write_json(results.to_json(result))
    else:
        say(text(result, page))
    if keeps:
        keep_result(lambda: results.save(result))
    return status_of(result)
