"""`hosttune bench read`: how fast files of a data set come, and what more workers bring."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Argument, DisplayOptions, Option
from hosttune.errors import HosttuneError

MOST_LEVEL = 64
# what it does besides passes: looking for files, starting workers with their libraries
_GRACE_S = 90.0


def read(
    show: DisplayOptions,
    path: Annotated[str, Argument(metavar="PATH", help="The folder of a data set.")],
    workers: Annotated[
        str, Option("--workers", metavar="N,N", help="How many processes to try.")
    ] = "1,2,4,8,16",
    decode: Annotated[
        bool, Option("--decode", help="Decode images, sounds and arrays, too.")
    ] = False,
    python: Annotated[
        str | None,
        Option(
            "--python",
            metavar="PATH",
            help="The Python that decodes, with its libraries (python3).",
        ),
    ] = None,
    budget: Annotated[
        float, Option("--budget", min=1.0, metavar="SECONDS", help="How long passes are run.")
    ] = 60.0,
    files: Annotated[
        int,
        Option(
            "--files", metavar="N", min=12, max=8000, help="Files to read, at most (1 GiB in all)."
        ),
    ] = 4000,
    drop_caches: Annotated[
        bool,
        Option(
            "--drop-caches",
            help="As root: drop the caches of the whole host before each cold pass.",
        ),
    ] = False,
    seed: Annotated[
        int | None,
        Option(
            "--seed",
            metavar="N",
            min=0,
            help="Repeat a run with the same files and order (its report names it).",
        ),
    ] = None,
    anyway: Annotated[
        bool,
        Option("--anyway", help="Measure a busy host, too: nothing is concluded from it then."),
    ] = False,
    allow_network: Annotated[
        bool, Option("--allow-network", help="Measure network and FUSE file systems, too.")
    ] = False,
) -> int:
    """Measure how fast files are read, and the best workers. Files are read cold, warm, packed and
    decoded; it reports whether the disk, latency or the CPU is the limit.

    The files are read only, and keep their access times. Exit status: 0 an answer, 1 inconclusive
    or not measured because of the state of the host, 2 trouble.
    """
    from hosttune.cli.common import say, write_json
    from hosttune.cli.within import end_within
    from hosttune.measure.bench import read_result, results
    from hosttune.measure.bench.read import Wanted, bench_read
    from hosttune.measure.bench.reading import Limit
    from hosttune.measure.cli.shared import (
        keep_result,
        page_of,
        run_measured,
        seed_of,
        warn_of_dropping,
    )
    from hosttune.measure.views.bench_read import describe_gist, read_text

    wanted = Wanted(
        path,
        parse_levels(workers),
        decode,
        python,
        budget,
        files,
        seed_of(seed),
        drop_caches,
        anyway,
        allow_network,
    )
    if drop_caches:
        warn_of_dropping()
    page = page_of(show)

    def act() -> int:
        result = run_measured(page, budget, lambda tell: bench_read(wanted, tell))
        if result is None:
            return 1
        if show.is_json:
            write_json(read_result.make_document(result))
        else:
            say(read_text(result, page))
        keep_result(lambda: results.save(read_result.make_kept(result, describe_gist(result))))
        return int(result.conclusion.limit is Limit.UNKNOWN)

    return end_within(path, budget, act, grace_s=_GRACE_S)


def parse_levels(text: str) -> tuple[int, ...]:
    """`1,2,4` as numbers of workers, ascending. Raises HosttuneError."""
    from hosttune.numbers import parse_digits

    words = [word.strip() for word in text.split(",")]
    if not all(0 < parse_digits(word, 0) <= MOST_LEVEL for word in words):
        raise HosttuneError(
            f"--workers {text}: these are not numbers from 1 to {MOST_LEVEL}",
            hint="such as: --workers 1,2,4,8",
        )
    # Ascending and each once: the knee and the last step are found by their places.
    return tuple(sorted({int(word) for word in words}))
