"""Reading for facts: a value, or ABSENT where it is certain that there is none. What could not be
looked at raises UnknownFact, which a lazy field keeps as its reason (facts/base.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from hosttune.facts.base import UnknownFact
from hosttune.numbers import parse_whole
from hosttune.values import ABSENT, Absent, Answer, OnlyRunning, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Completed, Reader

NOT_SUPPORTED = "Invalid argument"  # EINVAL, as the door words it
_NOT_COUNTED = frozenset({NOT_SUPPORTED, "Operation not supported"})

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")


def require_sure(answer: Answer[T]) -> T | Absent:
    """An answer of the door that is sure: raises UnknownFact for one that is not."""
    if isinstance(answer, Unreadable):
        raise UnknownFact(answer.reason)
    return answer


def make_unknown(reader: Reader, reason: str) -> UnknownFact:
    """What these files, or this machine, do not tell. Of an image the machine that runs it will."""
    return UnknownFact(OnlyRunning(reason) if reader.persistent_only else reason)


def all_sure(answers: Iterable[Answer[object]]) -> None:
    """Raises UnknownFact for the first that is not sure."""
    for answer in answers:
        require_sure(answer)


def require_known(answer: Answer[T], path: str) -> T:
    """What must be there: raises UnknownFact where it is not, too."""
    answer = require_sure(answer)
    if answer is ABSENT:
        raise UnknownFact(f"{path} does not exist")
    return answer


def if_absent(answer: Answer[T], value: D) -> T | D:
    """The answer; `value` where it is certain that there is none."""
    answer = require_sure(answer)
    return value if answer is ABSENT else answer


def read_text(reader: Reader, path: str) -> str | Absent:
    """A whole file as text; bytes that are not UTF-8 become U+FFFD."""
    content = require_sure(reader.read(path))
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


def read_line(reader: Reader, path: str) -> str | Absent:
    """A file that holds one value, without the white space and NULs (device tree) around it."""
    content = read_text(reader, path)
    return content.strip(" \t\n\0") if isinstance(content, str) else content


def hint(reader: Reader, path: str) -> str:
    """What a file says of what is decided elsewhere: empty where it is not there, and where it
    cannot be read, too.
    """
    content = reader.read(path)
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""


def ask(reader: Reader, argv: Sequence[str], *, timeout_s: float = 10.0) -> Completed:
    """What a program that only looks ended with; raises UnknownFact where it is not installed,
    too.
    """
    answer = require_sure(reader.query(argv, timeout_s=timeout_s))
    if answer is ABSENT:
        raise UnknownFact(f"{argv[0]} is not installed")
    return answer


def day_of(seconds: float) -> str:
    """The date, ISO 8601, UTC, of a time in seconds since the epoch. Raises UnknownFact for one
    that no calendar has, as a file of a record may give it.
    """
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise UnknownFact(f"{seconds:g} seconds since 1970 are no date") from None


def read_integer(reader: Reader, path: str) -> int | Absent:
    """A file that holds one decimal number; raises UnknownFact for anything else."""
    content = read_line(reader, path)
    if not isinstance(content, str):
        return content
    try:
        return parse_whole(content)
    except ValueError:
        raise UnknownFact(f"{path} holds {content[:40]!r}, not a number") from None


def read_counter(reader: Reader, path: str) -> int:
    """A counter of the kernel, 0 where its driver does not count: there is no such file, or a look
    answers EINVAL or EOPNOTSUPP. Such a counter is optional, and never makes a state unknown.
    """
    content = reader.read(path)
    if isinstance(content, Unreadable) and content.reason in _NOT_COUNTED:
        return 0
    return if_absent(read_integer(reader, path), 0)


def derive(answer: Answer[T], path: str, function: Callable[[T], D]) -> D:
    """What `function` makes of what must be there; the ValueError that it raises is the reason of
    UnknownFact. So is text that is nested too deeply.
    """
    value = require_known(answer, path)
    try:
        return function(value)
    except (ValueError, RecursionError) as error:
        raise UnknownFact(f"{path}: {error}") from error


def parse_or_unknown(parse: Callable[P, D], *arguments: P.args, **named: P.kwargs) -> D:
    """What a parser makes; the ValueError that it raises, a sentence, is the reason of
    UnknownFact.
    """
    try:
        return parse(*arguments, **named)
    except (ValueError, RecursionError) as error:
        raise UnknownFact(str(error)) from error


def names_in(reader: Reader, folder: str) -> tuple[str, ...]:
    """The names in a folder, sorted; none where there is no such folder."""
    return if_absent(reader.list(folder), ())


def read_texts(reader: Reader, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(path, text) of those of the files that are there."""
    for path in paths:
        content = read_text(reader, path)
        if content is not ABSENT:
            yield path, content


def is_there(reader: Reader, path: str) -> bool:
    """Whether a path leads to something."""
    return require_sure(reader.stat(path)) is not ABSENT


def _in_order(reader: Reader, folders: Iterable[str], suffix: str) -> list[str]:
    """The files of several configuration folders as they are read: by name, of one name that of the
    first folder. Of an image /run is no one's: it is made anew at boot.
    """
    chosen: dict[str, str] = {}
    for folder in folders:
        if reader.persistent_only and folder.startswith("/run/"):
            continue
        for name in names_in(reader, folder):
            if name.endswith(suffix):
                # The first folder wins, as the callers give /etc before /usr/lib. A file in /etc
                # hides one of the same name, also with another content.
                chosen.setdefault(name, f"{folder}/{name}")
    return [chosen[name] for name in sorted(chosen)]


def drop_ins(reader: Reader, folders: Iterable[str], suffix: str = ".conf") -> tuple[str, ...]:
    """The files of several configuration folders in the order in which they are read, without those
    that a link to /dev/null masks (sysctl.d(5), tmpfiles.d(5), modprobe.d(5), udev(7)).
    """
    return tuple(
        path for path in _in_order(reader, folders, suffix) if not _is_masked(reader, path)
    )


def drop_in_texts(
    reader: Reader, folders: Iterable[str], suffix: str = ".conf"
) -> Iterator[tuple[str, str]]:
    """(path, text) of these files. What can be read is no device, so only of the others it is asked
    whether they are masked.
    """
    for path in _in_order(reader, folders, suffix):
        try:
            yield from read_texts(reader, (path,))
        except UnknownFact:
            if not _is_masked(reader, path):
                raise


def _is_masked(reader: Reader, path: str) -> bool:
    return reader.link(path) == "/dev/null"


def run_looking(
    reader: Reader, argv: tuple[str, ...], statuses: tuple[int, ...] = (0,)
) -> Completed:
    """What a program that only looks says; raises UnknownFact where it is not installed, or ends
    with a status that is none of these.
    """
    answer = ask(reader, argv)
    if answer.status not in statuses:
        raise UnknownFact(f"{argv[0]} ended with status {answer.status}: {answer.errors.strip()}")
    return answer
