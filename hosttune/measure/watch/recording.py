"""Ticks as lines of JSON: written while they come, read back on any machine.

The first line is the head, `format_version` first; each other line is a tick, and the last one is
how the job ended, where the watch came to its end. A line that was cut off by a crash is the last
one, and is left out.
"""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from hosttune.codec import FORMAT_VERSION, decode_as, other_format, to_json
from hosttune.errors import BadInput, Fault, HosttuneError, Where
from hosttune.frozen import frozen
from hosttune.host.reading.named import can_hang, open_named, read_named, reason_of
from hosttune.host.writing.output import open_stream
from hosttune.measure.watch.account import Account, Watched
from hosttune.measure.watch.tick import Kills, Tick, round_tick

KIND: Final = "hosttune watch"
MOST_LINE: Final = 1 << 20  # bytes
# bytes of a record that comes from a pipe, or that a server can hold back
MOST_AT_ONCE: Final = 256 << 20
MOST: Final = 1e18  # no figure of a tick is larger, in whatever unit
LEAST: Final = 1e-9  # nor smaller, but for zero
_MOST_DIGITS: Final = 18
_END: Final = "end"


@frozen
class RecordedEnd:
    """The status of the command, None for a process that was watched, and whom the kernel killed
    for memory.
    """

    status: int | None = None
    kills: Kills = Kills()

    def tell(self, account: Account) -> None:
        """What is judged with the ticks."""
        account.status, account.kills = self.status, self.kills


class Ticks(Iterator[Tick]):
    """Those of a record, read as they are asked for. `end` is known once all were."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.end = RecordedEnd()
        self._ticks = self._read(file, path)

    def __next__(self) -> Tick:
        return next(self._ticks)

    def _read(self, file: BinaryIO, path: str) -> Iterator[Tick]:
        last_s = 0.0
        with file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_LINE + 1), b""), 2):
                if not line.endswith(b"\n") and len(line) <= MOST_LINE:
                    return  # the writer was killed while it wrote this line
                body = _parse_object(line, path, number)
                if body.keys() == {_END}:
                    self.end = decode_as(RecordedEnd, body[_END], f"{path}:{number}")
                    continue
                tick = decode_as(Tick, body, f"{path}:{number}")
                # Written so that a NaN fails as well.
                if not tick.seconds > 0 or tick.at_s < last_s:
                    raise _make_fault(path, number, "at_s", "time does not run backwards")
                last_s = tick.at_s
                yield tick


class Recorder:
    """Writes `path`, readable by its owner alone: command lines tell much. Raises HosttuneError
    where it cannot.
    """

    def __init__(self, path: str) -> None:
        self.problem = ""  # why it stopped
        self._path = path
        self._descriptor = open_stream(path)

    def begin(self, watched: Watched) -> None:
        self._write({"format_version": FORMAT_VERSION, "kind": KIND, **to_json(watched)})

    def add(self, tick: Tick) -> None:
        """A full disk ends the record, never the job."""
        self._write(without_unknown(to_json(round_tick(tick))))

    def end(self, account: Account) -> None:
        """How it ended: what is known only then."""
        self._write({_END: without_unknown(to_json(RecordedEnd(account.status, account.kills)))})

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: Any) -> None:
        if self._descriptor < 0:
            return
        line = (json.dumps(data, separators=(",", ":"), ensure_ascii=True) + "\n").encode("ascii")
        try:
            while line:  # what a disk that is nearly full takes of it may be a part
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}: the record ends here"
            self.close()


def without_unknown(data: Any) -> Any:
    """What is not there reads back as unknown."""
    if isinstance(data, dict):
        return {key: without_unknown(value) for key, value in data.items() if value is not None}
    return [without_unknown(item) for item in data] if isinstance(data, list) else data


def replay(path: str) -> tuple[Watched, Ticks]:
    """The head of a record, and its ticks as they are read. Raises BadInput with file and line,
    HosttuneError where the file cannot be read.
    """
    try:
        file = _open_record(path)
    except OSError as error:
        raise HosttuneError(
            f"{path}: {reason_of(error)}", hint="check the name and the rights"
        ) from error
    try:
        head = _parse_object(file.readline(MOST_LINE + 1), path, 1)
        if head.get("kind") != KIND:
            raise _make_fault(
                path, 1, "kind", f"expected {KIND!r}: this is not a record of hosttune watch"
            )
        if wrong := other_format(head):
            raise BadInput([Fault(Where(path, 1, "format_version"), *wrong)])
        body = {key: value for key, value in head.items() if key not in {"kind", "format_version"}}
        watched = decode_as(Watched, body, f"{path}:1")
    except BaseException:
        file.close()
        raise
    return watched, Ticks(file, path)


def _open_record(path: str) -> BinaryIO:
    """A file that no one can keep back is read while it is looked at, however long it is. Raises
    OSError.
    """
    if not can_hang(path) and stat.S_ISREG(os.stat(path).st_mode):
        return os.fdopen(open_named(path), "rb")
    return io.BytesIO(read_named(path, MOST_AT_ONCE))


def _parse_object(line: bytes, path: str, number: int) -> dict[str, Any]:
    if len(line) > MOST_LINE:
        raise _make_fault(path, number, "", f"the line is longer than {MOST_LINE >> 20} MiB")
    try:
        data = json.loads(
            line, parse_constant=_no_constant, parse_float=_parse_number, parse_int=_parse_whole
        )
    except (ValueError, RecursionError) as error:
        raise _make_fault(
            path, number, "", f"no JSON: {error}" if line.strip() else "the line is empty"
        ) from None
    if not isinstance(data, dict):
        raise _make_fault(path, number, "", "expected an object")
    return data


def _parse_number(word: str) -> float:
    """Within bounds in which sums and quotients of such numbers stay finite."""
    # Numbers with an exponent have no bound of digits: 1e400 is infinity for Python.
    number = float(word)
    if abs(number) > MOST:
        return _no_constant(word)
    return number if abs(number) >= LEAST else 0.0


def _parse_whole(word: str) -> int:
    # More digits fail in int() from 4,300 on, and cost quadratic time before.
    return int(_no_constant(word)) if len(word) > _MOST_DIGITS else int(word)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word[:20]} is not a number that was measured")


def _make_fault(path: str, line: int, field: str, message: str) -> BadInput:
    return BadInput(
        [
            Fault(
                Where(path, line, field),
                message,
                "records are made by: hosttune watch --record FILE",
            )
        ]
    )
