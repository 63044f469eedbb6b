"""`hosttune`: the commands, by the words of a command line."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from hosttune import __version__
from hosttune.cli.ending import (
    INTERRUPTED,
    collect_seldom,
    go_on_in_child,
    report_error,
    run_command,
)
from hosttune.cli.help_page import GroupHelp, with_examples
from hosttune.cli.words import make_command
from hosttune.errors import HosttuneError
from hosttune.host.console import leave, spell_program
from hosttune.host.inherited import require_utf8, take_signals

# In the order of the help, by its groups. Each is a function of this name, or the typer `app`, of
# the module hosttune.cli.<name>, hosttune.measure.cli.<name> for those that measure; a dash in a
# name is an underscore there.
GROUPS = {
    "Look": ("check", "health", "driver", "disks", "fstab", "explain", "help", "completion"),
    "Change": ("plan", "apply", "undo", "history"),
    "Measure": ("watch", "dataset", "bench"),
    "Fleet": ("report", "diff", "record"),
    "Policy": ("init", "policy", "profiles", "rules", "facts"),
    "Nodes": ("status", "confirm", "reboot-required", "ready", "trial"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
# Units of systemd start `ready`; `trial` is the older name of a part of `status`.
HIDDEN = frozenset({"ready", "trial"})

# Of root these are done by a child. What `watch` starts has its output, its signals and its life
# from it, and it lasts as long as a training; the way back of a trial goes on when it is let go.
KEPT = frozenset(COMMANDS) - {"watch"}
_OF_ROOT = ("--version", "-V", "--help", "-h")
OF_UNITS = ("come-back",)  # what units of systemd start; no one types it

HELP = """Audits and tunes a GPU server: shows the exact diff, applies only that, and can undo it.

check, plan, and apply without --yes change nothing. `hosttune help COMMAND` has options and \
examples."""


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"hosttune {__version__}", flush=True)
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def module_of(name: str) -> str:
    """The module of a command."""
    room = "hosttune.measure.cli" if name in GROUPS.get("Measure", ()) else "hosttune.cli"
    return f"{room}.{name.replace('-', '_')}"


def build(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """The application with these commands; each one costs start-up time, so `main` builds the one
    that is asked for.
    """
    app = typer.Typer(
        name="hosttune",
        cls=type("Page", (GroupHelp,), {"groups": GROUPS}),
        help=HELP,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        own = name.replace("-", "_")
        module = import_module(module_of(name))
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            settings = getattr(module, "CONTEXT", None)
            page = with_examples(getattr(module, "EXAMPLES", ()))
            app.command(name, cls=page, context_settings=settings, hidden=name in HIDDEN)(
                make_command(getattr(module, own))
            )
    return app


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    take_signals()
    # Closed by our parent (<&-): a file has the lowest number that is free, so in this order each
    # gets its own, and no pipe of ours does. What is opened here is not handed on.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open("/dev/null", mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    require_utf8()
    if sys.argv[1:2] and sys.argv[1] in KEPT:
        go_on_in_child(sys.argv[1])
    collect_seldom()
    try:
        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # once more, while the first one is reported
        status = INTERRUPTED
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of the very end
    leave(status)


def _put_options_last(argv: list[str]) -> str:
    """The command line as it is to be typed, if options are before its command (as git takes them);
    else nothing.
    """
    if not argv or not argv[0].startswith("-") or argv[0] in _OF_ROOT:
        return ""
    from hosttune import quoting

    at = next((number for number, word in enumerate(argv) if word in COMMANDS), 0)
    return (
        f"{spell_program()} {quoting.join([argv[at], *argv[:at], *argv[at + 1 :]])}" if at else ""
    )


def run(argv: list[str], listed: tuple[str, ...] = ()) -> int:
    """The exit status of this command line; its help names only the commands that are `listed`,
    where some are.
    """
    is_one = bool(argv) and argv[0] in (*COMMANDS, *OF_UNITS)
    # --version needs none of the commands, but typer builds no application without one.
    names = (
        listed or (argv[0],)
        if is_one or listed
        else COMMANDS[:1]
        if argv in (["--version"], ["-V"])
        else COMMANDS
    )

    if hint := _put_options_last(argv):
        return report_error(
            HosttuneError(f"{argv[0]}: options come after the command", hint=f"type: {hint}")
        )

    def act() -> int:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as __main__ has left it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return build(names)(argv, prog_name=spell_program()) or 0  # "Try '... -h'" is to be typed

    return run_command(act, debug="--debug" in argv)
