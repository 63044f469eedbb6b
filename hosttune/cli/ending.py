"""How a command ends: its exit status, and what becomes of an error.

Exit status as in diff(1): 0 ok, 1 not so, 2 trouble.
"""

from __future__ import annotations

import atexit
import errno
import gc
import signal
import sys
from math import inf
from typing import TYPE_CHECKING

from hosttune.cli.options import Interrupted
from hosttune.errors import HosttuneError
from hosttune.host.console import discard_output, leave, make_console, write_to_stderr
from hosttune.host.keeper import MOST_CPU_S, stay_outside_as_root

if TYPE_CHECKING:
    from collections.abc import Callable

TROUBLE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
CHANGING = ("apply", "undo", "confirm", "trial", "ready")  # these write the journal
AS_LONG_AS_DATA = ("bench", "dataset")  # these last as long as the data needs, or as long as asked
# of an open stream; with a file the name is shown
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def collect_seldom() -> None:
    """A check makes many values that live to its end: looking for waste costs a tenth, and at the
    end a twentieth.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def run_command(act: Callable[[], int], *, debug: bool = False) -> int:
    """The exit status of a command; an error is printed to standard error, without a traceback
    unless `debug`.
    """
    try:
        return act()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else TROUBLE if end.code else 0
    except HosttuneError as error:
        return report_error(error)
    except (Interrupted, KeyboardInterrupt) as error:
        return _status_of_signal(error.args)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            # else the interpreter tries once more at its end, and says 120
            discard_output(sys.stdout)
            return _report_trouble(f"the output cannot be written: {error.strerror}", "")
        if debug:
            raise
        return _report_trouble(
            describe_fault(error),
            "please report it with the output of the same command with --debug",
        )


def describe_fault(error: Exception) -> str:
    """The sentence on an error that hosttune did not expect."""
    return f"this is a fault of hosttune itself: {type(error).__name__}: {error}"


def _status_of_signal(number: tuple[object, ...]) -> int:
    """128 + the signal, as shells report it; none is Ctrl-C's."""
    came = number[0] if number and isinstance(number[0], int) else signal.SIGINT
    return _report_trouble(
        "interrupted" if came == signal.SIGINT else f"ended by {signal.Signals(came).name}",
        "",
        128 + came,
    )


def report_error(error: HosttuneError) -> int:
    """Tell an error on standard error; the exit status."""
    return _report_trouble(error.message, error.hint)


def go_on_in_child(command: str) -> None:
    """With root's rights, go on in a child, so that the command ends whatever it comes upon
    (host/keeper.py).
    """
    limit_s = inf if command in AS_LONG_AS_DATA else MOST_CPU_S
    if (end := stay_outside_as_root(most_cpu_s=limit_s)) is None:
        return
    if not isinstance(end, int):
        history = (
            ("what it has changed until then: sudo hosttune history",)
            if command in CHANGING
            else ()
        )
        hints = "\n".join((*filter(None, (end.hint,)), *history))
        end = _report_trouble(f"{command} was cut off: {end.message}", hints)
    leave(end)


def _report_trouble(message: str, hint: str, status: int = TROUBLE) -> int:
    for number, line in enumerate(message.splitlines() or [""]):
        _tell(line, "hosttune: " if number == 0 else "  ")
    for line in hint.splitlines():
        _tell(line, "  hint: ")
    return status


def _tell(text: str, head: str) -> None:
    """A line on standard error, in lines that fit where that is a terminal: a pipe gets it
    whole.
    """
    from hosttune.host.masking.cleaned import clean
    from hosttune.views.terminal import width_of, wrap_text

    surface = make_console(sys.stderr)
    line = f"{head}{clean(text)}"
    if surface.is_terminal and width_of(line) > surface.columns:
        line = "\n".join(wrap_text(clean(text), surface.columns, first=head, rest="    "))
    write_to_stderr(line + "\n")
