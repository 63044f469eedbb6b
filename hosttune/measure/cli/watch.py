"""`hosttune watch`: where a job waits, and what addresses it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from hosttune.cli.options import Argument, DisplayOptions, Option, Output

if TYPE_CHECKING:
    from hosttune.measure.watch.session import WatchEnd, WatchOptions

# What follows the command belongs to it, options too.
CONTEXT = {"allow_interspersed_args": False}


EXAMPLES = ("hosttune watch -- python train.py", "hosttune watch --pid 1234")


def watch(
    show: DisplayOptions,
    words: Annotated[
        list[str] | None, Argument(metavar="-- CMD...", help="The command to run and watch.")
    ] = None,
    pid: Annotated[
        int | None, Option("--pid", metavar="P", min=1, help="Watch this running process.")
    ] = None,
    replay: Annotated[
        str | None, Option("--replay", metavar="FILE", help="Judge a record, on any machine.")
    ] = None,
    seconds: Annotated[
        float | None, Option("--seconds", metavar="N", min=1, help="With --pid: end after so long.")
    ] = None,
    hz: Annotated[
        float, Option("--hz", metavar="N", min=0.1, max=10, help="Samples per second.")
    ] = 1.0,
    warm_up: Annotated[
        float | None,
        Option(
            "--warm-up",
            metavar="SECONDS",
            min=0,
            help="The beginning, which does not count (until the GPU works, at most 60).",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        Option("--gpus", metavar="LIST", help="Indexes or UUIDs (those that the job uses)."),
    ] = None,
    gpu_trace: Annotated[
        str | None,
        Option(
            "--gpu-trace", metavar="FILE", help="Take GPU figures from a trace instead of a GPU."
        ),
    ] = None,
    scope: Annotated[
        bool, Option("--scope", help="Give the command a control group of its own, by systemd.")
    ] = False,
    record: Annotated[
        str | None, Option("--record", metavar="FILE", help="Record samples to FILE.")
    ] = None,
    plot: Annotated[
        str | None, Option("--plot", metavar="FILE", help="A picture of the run: .html or .svg.")
    ] = None,
    live: Annotated[
        bool,
        Option(
            "--live/--no-live", help="A line while it runs: of a command in the window's title."
        ),
    ] = True,
    output: Output = None,
) -> int:
    """Find out what a training job waits for. It can be the GPU, the disk, CPUs, loaders, memory or
    others.

    The command's input, output and signals are its own; the report goes to standard error, and its
    exit status is passed on (126 and 127 where it cannot be started, 2 where watch itself cannot
    begin). With --pid and --replay the report goes to standard output; Ctrl-C ends --pid with the
    report. Nothing is changed, traced or loaded.
    """
    from hosttune.cli.common import tell
    from hosttune.errors import HosttuneError
    from hosttune.measure.watch.child import NotStarted
    from hosttune.measure.watch.session import WatchOptions

    given = [
        name for name, value in (("-- CMD", words), ("--pid", pid), ("--replay", replay)) if value
    ]
    if len(given) != 1:
        hint = (
            "hosttune watch -- python train.py; hosttune watch --pid 4242; hosttune watch --replay "
            "FILE"
        )
        raise HosttuneError(
            f"give only one of {', '.join(given)}"
            if given
            else "give a command (-- CMD), --pid or --replay",
            hint=hint,
        )
    live_only = "what runs: a record holds what was seen"
    _refuse_unused(
        ("--seconds", seconds, pid, "--pid"),
        ("--scope", scope, words, "a command"),
        ("--record", record, not replay, live_only),
        ("--gpus", gpus, not replay, live_only),
        ("--gpu-trace", gpu_trace, not replay, live_only),
        ("--hz", hz != 1, not replay, live_only),
    )
    _check(words, output, plot, show)
    wish = WatchOptions(
        1 / hz,
        warm_up,
        tuple((gpus or "").replace(",", " ").split()),
        gpu_trace or "",
        record or "",
        scope,
    )
    if words:
        try:
            seen = _watch_command(words, wish, is_live=live)
        except NotStarted as error:
            tell(f"hosttune: {error.message}")
            return error.status
    else:
        seen = (
            _watch_process(pid, wish, seconds, is_live=live)
            if pid
            else _watch_replay(replay or "", wish)
        )
    _report(seen, show, output, plot, is_command=bool(words))
    return (seen.status or 0) if words else 0


def _refuse_unused(*rows: tuple[str, object, object, str]) -> None:
    """Refuse an option that would do nothing: its name, its value, whether it does something, what
    it goes with.
    """
    from hosttune.errors import HosttuneError

    for name, value, is_used, what in rows:
        if value and not is_used:
            raise HosttuneError(f"{name} works only with {what}", hint="hosttune watch --help")


def _check(
    words: list[str] | None, output: str | None, plot: str | None, show: DisplayOptions
) -> None:
    """Refuse, before anything is started, what cannot be granted afterwards."""
    from hosttune.errors import HosttuneError
    from hosttune.host.writing.output import check_writable

    if words and show.is_json and not output:
        raise HosttuneError(
            "standard output belongs to the command", hint="--format json --output FILE"
        )
    if plot and not plot.endswith((".html", ".svg")):
        raise HosttuneError(f"{plot}: a picture is .html or .svg", hint="--plot run.html")
    for path in (output, plot):
        if path:
            check_writable(path)


def _watch_command(words: list[str], wish: WatchOptions, *, is_live: bool) -> WatchEnd:
    from hosttune.cli.status_title import StatusTitle
    from hosttune.measure.views.watch import live_text
    from hosttune.measure.watch.session import Show as Shown
    from hosttune.measure.watch.session import watch_command

    title = StatusTitle(is_wanted=is_live)
    try:
        return watch_command(
            tuple(words),
            wish,
            Shown(lambda tick, account: title.tell(live_text(tick, account)), title.close),
        )
    finally:
        title.close()


def _watch_process(
    pid: int, wish: WatchOptions, seconds: float | None, *, is_live: bool
) -> WatchEnd:
    from hosttune.cli.common import tell
    from hosttune.host.progress import end_progress, note_step, show_progress
    from hosttune.measure.views.watch import live_text
    from hosttune.measure.watch.session import Show as Shown
    from hosttune.measure.watch.session import watch_process
    from hosttune.measure.watch.target import find

    target = find(pid)
    if target.note:
        tell(f"hosttune: process {pid}: {target.note}")

    def on_tick(tick: Any, account: Any) -> None:
        note_step(live_text(tick, account).partition("  ")[2])

    progress = show_progress(
        f"process {pid}", most_s=seconds or 0, stop="Ctrl-C ends it with a report"
    )
    with progress if is_live else nullcontext():
        return watch_process(target, wish, Shown(on_tick, end_progress), seconds)


def _watch_replay(path: str, wish: WatchOptions) -> WatchEnd:
    from hosttune.measure.watch.session import watch_record

    return watch_record(path, wish)


def _report(
    seen: WatchEnd, show: DisplayOptions, output: str | None, plot: str | None, *, is_command: bool
) -> None:  # fmt: skip
    """To standard error for a command, which owns standard output; else to standard output, or to a
    file. A command has run by now: what goes wrong here is reported, and does not change its
    status.
    """
    from hosttune.cli.common import open_page, say, tell, tell_lines
    from hosttune.codec import dump_json
    from hosttune.errors import HosttuneError
    from hosttune.host.reading.live import LiveReader
    from hosttune.host.writing.output import save
    from hosttune.measure.views.watch import watch_json, watch_text
    from hosttune.views.masking import mask_data

    page = open_page(LiveReader(), None, show)
    text = dump_json(mask_data(watch_json(seen))) if show.is_json else watch_text(seen, page)
    try:
        if plot:
            save(plot, _draw_picture(seen, plot).encode("utf-8"), 0o644)
        if output:
            save(output, text.encode("utf-8"), 0o644)
    except HosttuneError as error:
        if not is_command:
            raise
        tell(f"hosttune: {error.message}")
    if not output and not is_command:
        say(text)
    elif is_command and not show.is_json:
        tell_lines(text.rstrip("\n"))


def _draw_picture(seen: WatchEnd, path: str) -> str:
    from hosttune.measure.views.watch import command_text, watch_text
    from hosttune.measure.views.watch_plot import Picture, render_plot, render_svg
    from hosttune.measure.views.watch_words import make_headline
    from hosttune.measure.watch.verdict import judge
    from hosttune.views.page import Page
    from hosttune.views.terminal import Screen

    account = seen.account
    verdict = judge(account)
    picture = Picture(
        title=command_text(account),
        headline=make_headline(verdict, account),
        # the first is the title
        report=tuple(watch_text(seen, Page(screen=Screen(width=100))).splitlines()[1:]),
        points=account.history.points,
        marks_s=tuple(cut.begin_s for cut in verdict.segments[1:]),
        gpu_gap=account.watched.gpu_reason if not account.gpus else "",
    )
    return render_svg(picture) if path.endswith(".svg") else render_plot(picture)
