"""`hosttune`: the commands, and what becomes of an error.

Exit status as in diff(1): 0 as it should be, 1 not so, 2 trouble.
"""

from __future__ import annotations

import errno
import gc
import sys
from importlib import import_module
from typing import Annotated, NoReturn

from typer import Exit, Option, Typer

from hosttune import __version__
from hosttune.cli.options import Interrupted
from hosttune.errors import HosttuneError
from hosttune.host import slow
from hosttune.host.console import console, discard, talk

# In the order of the help. Each is a function of this name, or the typer `app`, of the module hosttune.cli.<name>.
COMMANDS = (
    "check", "plan", "apply", "undo", "history", "explain", "rules", "profiles", "policy", "facts", "disks", "driver",
    "fstab", "record", "diff", "dataset", "report", "bench", "watch",
)  # fmt: skip

TROUBLE = 2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of an open stream; with a file it is told by its name
INTERRUPTED = 130  # 128 + SIGINT, as shells report it

HELP = """Inspects a GPU server, shows the diff that would tune it, applies exactly that, and takes it back.

check, plan, and apply without --yes change nothing."""


def _version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"hosttune {__version__}", flush=True)
        raise Exit


def _root(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def build(names: tuple[str, ...] = COMMANDS) -> Typer:
    """The application with these commands; each one costs start-up time, so `main` builds the one that is asked for."""
    app = Typer(
        name="hosttune",
        help=HELP,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        module = import_module(f"hosttune.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name, context_settings=getattr(module, "CONTEXT", None))(getattr(module, name))
    return app


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us (>&-); what is opened here is not handed on
            setattr(sys, name, open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    slow.announce = _announce
    gc.set_threshold(50_000, 20, 20)  # a check makes many values that live to its end: looking for waste costs a tenth
    sys.exit(run(sys.argv[1:]))


def _announce(text: str) -> None:
    """A line of progress about a program that takes its time."""
    talk(f"  {text}\n")


def run(argv: list[str]) -> int:
    """The exit status of this command line; an error is told on standard error, without a traceback."""
    names = (argv[0],) if argv and argv[0] in COMMANDS else COMMANDS[:1] if argv == ["--version"] else COMMANDS
    try:
        build(names)(argv, prog_name="hosttune")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else TROUBLE if end.code else 0
    except HosttuneError as error:
        return _trouble(error.message, error.hint)
    except (Interrupted, KeyboardInterrupt):
        return _trouble("interrupted", "", INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            discard(sys.stdout)  # else the interpreter tries once more at its end, and says 120
            return _trouble(f"the output cannot be written: {error.strerror}", "")
        if "--debug" in argv:
            raise
        message = f"this is a fault of hosttune itself: {type(error).__name__}: {error}"
        return _trouble(message, "please report it with the output of the same command with --debug")
    return 0


def _trouble(message: str, hint: str, status: int = TROUBLE) -> int:
    for number, line in enumerate(message.splitlines() or [""]):
        _tell(line, "hosttune: " if number == 0 else "  ")
    for line in hint.splitlines():
        _tell(line, "  hint: ")
    return status


def _tell(text: str, head: str) -> None:
    """A line on standard error, in lines that fit where that is a terminal: a pipe gets it whole."""
    from hosttune.views.page import shown
    from hosttune.views.terminal import width_of, wrapped

    surface = console(sys.stderr)
    line = f"{head}{shown(text)}"
    if surface.is_terminal and width_of(line) > surface.columns:
        line = "\n".join(wrapped(shown(text), surface.columns, first=head, rest="    "))
    talk(line + "\n")
