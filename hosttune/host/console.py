"""The terminal, the environment and the command line of this very process, its end, and the files
that its user names to be read (those that are written: `host/writing/output.py`).
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.host.progress import beside_progress
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from typing import TextIO

DEFAULT_COLUMNS = 80
_gone: set[int] = set()  # descriptors that lead to /dev/null since
LARGEST_INPUT = 64 << 20  # bytes
# sudo looks for commands in these folders alone (`secure_path` of sudoers(5), as Debian and Ubuntu
# set it).
SECURE_PATH = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/snap/bin",
)


@frozen
class Console:
    """What a stream can show. `columns` is 0 for no terminal, unless COLUMNS is set: a pipe gets
    whole lines.
    """

    columns: int
    is_terminal: bool
    has_colour: bool


def make_console(stream: TextIO) -> Console:
    """What `stream` can show, by COLUMNS, NO_COLOR (https://no-color.org), FORCE_COLOR
    (https://force-color.org) and TERM.
    """
    is_terminal = stream.isatty()
    asked = os.environ.get("COLUMNS", "")
    columns = parse_digits(asked, 0)
    if not columns and is_terminal:
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(stream.fileno()).columns
    can_colour = is_terminal and os.environ.get("TERM", "dumb") != "dumb"
    has_colour = not os.environ.get("NO_COLOR") and (
        can_colour or bool(os.environ.get("FORCE_COLOR"))
    )
    return Console(columns or (DEFAULT_COLUMNS if is_terminal else 0), is_terminal, has_colour)


_NO_TITLES = ("dumb", "linux", "vt100", "vt220", "cons25")


def has_title(stream: TextIO) -> bool:
    """Whether it is a terminal whose window has a title, and that this job may write to now: no
    other job has it.
    """
    try:
        return (
            os.environ.get("TERM", "dumb") not in _NO_TITLES
            and os.tcgetpgrp(stream.fileno()) == os.getpgrp()
        )
    except (OSError, ValueError):
        return False


def program_words(
    argv0: str | None = None, executable: str | None = None, *, python: str = ""
) -> tuple[str, ...]:
    """How systemd starts this program again, from any folder: an absolute path first. `python`
    starts a file that is as a download leaves it, not executable.
    """
    name = os.path.abspath(sys.argv[0] if argv0 is None else argv0)
    folder, _, last = name.rpartition("/")
    # `python -m` puts the path of this file into argv[0], and started by that path it would find no
    # package.
    if last == "__main__.py":
        starter = os.path.join(os.path.dirname(folder), "run")
        if os.path.isfile(starter) and os.path.isfile(
            os.path.join(os.path.dirname(folder), "pyproject.toml")
        ):
            return (starter,)
        return (executable or sys.executable, "-I", "-m", "hosttune")
    return (
        (python or sys.executable, name)
        if last.endswith(".pyz") and not os.access(name, os.X_OK)
        else (name,)
    )


def spell_program(argv0: str | None = None, executable: str | None = None) -> str:
    """How a shell starts this program again, also under sudo: `hosttune` on secure_path, else an
    absolute path.
    """
    from hosttune import quoting

    words = program_words(argv0, executable, python="python3")
    folder, _, last = words[-1].rpartition("/")
    return last if len(words) == 1 and folder in SECURE_PATH else quoting.join(words)


def find_archive() -> str:
    """The path of the self-contained file that this runs from; empty where it runs from no such
    file.
    """
    import zipfile

    path = os.path.abspath(sys.argv[0])
    return path if zipfile.is_zipfile(path) else ""


def starting_words(carried: str) -> tuple[str, ...]:
    """How systemd starts this program at another time: the self-contained file may be gone by then,
    or another's, so a copy of it is `carried` along.
    """
    # Isolated, because root starts it at a time when someone else may have set PYTHONPATH. The
    # archive brings all that it imports, so site-packages are not needed.
    return (sys.executable, "-I", "-S", carried) if find_archive() else program_words()


def load(path: str) -> str:
    """A text file that the user named. Raises HosttuneError."""
    try:
        return load_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise HosttuneError(f"{path}: is not UTF-8 text") from error


def load_bytes(path: str) -> bytes:
    """A file that the user named, as it is; `-` is standard input. Raises HosttuneError."""
    from hosttune.host.reading.named import read_named, reason_of

    name = "standard input" if path == "-" else path
    try:
        return read_named(path, LARGEST_INPUT)
    except OSError as error:
        raise HosttuneError(
            f"{name}: {reason_of(error)}", hint="check the name and the rights"
        ) from error


def write_to_stderr(text: str) -> None:
    """Text for standard error, at once. Where no one can read it (a full disk, a closed pipe) it is
    lost, and nothing else: what is under way is not to end half-way for it.
    """
    with beside_progress():
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            discard_output(sys.stderr)


def is_gone(stream: TextIO) -> bool:
    """Whether the terminal has hung up, or nothing reads the pipe any more (poll(2): POLLERR,
    POLLHUP).
    """
    import select

    try:
        watch = select.poll()
        watch.register(stream.fileno(), 0)
        return stream.fileno() in _gone or bool(watch.poll(0))
    except (OSError, ValueError):
        return False


def discard_output(stream: TextIO) -> None:
    """Point a stream, whose reader has gone away, to /dev/null: the interpreter flushes it once
    more at its end.
    """
    with suppress(OSError, ValueError):
        if is_gone(stream):
            # After dup2(2) the descriptor leads to /dev/null, where poll(2) sees no hang-up any
            # more.
            _gone.add(stream.fileno())
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)


def leave(status: int) -> NoReturn:
    """End this process. What the interpreter gives back piece by piece at its own end the kernel
    takes at once; it is waited for where threads are at work, or an output still has to be
    complained about.
    """
    if all(one.daemon for one in threading.enumerate() if one is not threading.current_thread()):
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)
