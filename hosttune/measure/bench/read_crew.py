"""Workers that read or decode side by side: processes of `read_program.py`, led by lines of JSON,
with time limits.

One pipe hands out the files, so that a pass is over for all workers at about the same time. What
workers say is a user's word where the interpreter is the user's: lines are bounded, and every
number of them is checked.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.host.processes.interpreter import NOT_STARTED
from hosttune.measure.bench.read_program import END
from hosttune.measure.bench.reading import Pass
from hosttune.textfiles import own_file

START_S: Final = 60.0  # until the libraries are loaded; torch from a cold disk takes its time
FILE_S: Final = 10.0  # for one file, decoded
LINE_LIMIT: Final = 1 << 16  # bytes of one answer
MOST_FILES: Final = 8192  # that one pass can hand out: they fit into the pipe


@frozen
class Probed:
    """How one file was decoded: `error` says why it was not."""

    number: int
    size: int
    pixels: int
    seconds: float
    error: str


class WorkerDied(HosttuneError):
    """A worker ended before its pass did; `status` as of subprocess (-14: the time for one file was
    over).
    """

    def __init__(self, status: int | None) -> None:
        super().__init__(f"a worker ended before its time: {_describe_ending(status)}")
        self.status = status


class Crew:
    """`count` workers, started with `command` (an interpreter, and who it becomes) and
    `environment` alone.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        count: int,
        *,
        most: int,
        memory: int,
    ) -> None:
        # Bounded by the kernel: a pass must fit into the pipe whole, so that feeding it never waits
        # for a worker during the time that is measured.
        self._queue, self._feed = os.pipe2(os.O_CLOEXEC)
        # A worker can make the pipe smaller (F_SETPIPE_SZ of fcntl(2)), and a blocking write would
        # then wait for ever.
        os.set_blocking(self._feed, False)
        self._workers: list[_Worker] = []
        settings = {"queue": self._queue, "most": most, "memory": memory, "limit_s": FILE_S}
        try:
            for _ in range(count):
                worker = _Worker(command, environment, (self._queue,))
                self._workers.append(worker)
                worker.tell({"settings": settings}, START_S)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Crew:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        return len(self._workers)

    def libraries(self, suffixes: Sequence[str]) -> Mapping[str, Any]:
        """Load the libraries in every worker; what the first one says of them."""
        return self._all({"libraries": list(suffixes)}, START_S)[0]

    def load(self, paths: Sequence[str]) -> None:
        """The files that the numbers of the passes mean."""
        self._all({"paths": list(paths)}, START_S)

    def probe(self, numbers: Sequence[int]) -> Iterator[Probed]:
        """Decode each file once with the first worker. Raises WorkerDied at a file that
        ended it: the one after the last that was reported."""
        worker = self._workers[0]
        worker.tell({"probe": list(numbers)}, 3 * FILE_S)
        while True:
            answer = worker.answer(3 * FILE_S)
            if "probed" in answer:
                return
            yield Probed(
                _require_whole(answer, "file"),
                _require_whole(answer, "bytes"),
                _require_whole(answer, "pixels"),
                require_positive(answer, "seconds"),
                str(answer.get("error", ""))[:200],
            )

    def run(self, numbers: Sequence[int], workers: int, how: str, timeout_s: float) -> Pass:
        """One pass of the first `workers` workers over these files; `how` is read or decode."""
        if len(numbers) + workers > MOST_FILES * 2:
            raise HosttuneError(f"{len(numbers)} files are too many for one pass")
        crew = self._workers[:workers]
        deadline = time.monotonic() + timeout_s
        for worker in crew:
            worker.tell({"go": how}, _compute_left(deadline))
        started = time.monotonic()
        # The start of the workers is not part of the pass, so the limit starts anew.
        deadline = started + timeout_s
        _write_all(
            self._feed,
            struct.pack(f"<{len(numbers) + workers}I", *numbers, *[END] * workers),
            _compute_left(deadline),
        )  # workers have its other end, and can make it small
        answers = [worker.answer(_compute_left(deadline)) for worker in crew]
        # By the workers' own clock, which is CLOCK_MONOTONIC of the same host: the time that an
        # answer takes through its pipe does not count.
        ended = max(require_positive(one, "end") for one in answers)
        return Pass(
            workers,
            sum(_require_whole(one, "files") for one in answers),
            sum(_require_whole(one, "failed") for one in answers),
            sum(_require_whole(one, "bytes") for one in answers),
            sum(_require_whole(one, "device") for one in answers),
            # A user's worker may report an end before the start; a rate must stay a number.
            max(ended - started, 1e-6),
            sum(require_positive(one, "cpu") for one in answers),
            sum(require_positive(one, "user") for one in answers),
        )

    def close(self) -> None:
        """End them all, whatever they are doing."""
        for fd in (self._queue, self._feed):
            with suppress(OSError):
                os.close(fd)
        for worker in self._workers:
            worker.end()

    def _all(self, what: Mapping[str, Any], timeout_s: float) -> list[dict[str, Any]]:
        deadline = time.monotonic() + timeout_s
        for worker in self._workers:
            worker.tell(what, _compute_left(deadline))
        return [worker.answer(_compute_left(deadline)) for worker in self._workers]


class _Worker:
    """One process of the program."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], passed: tuple[int, ...]
    ) -> None:
        try:
            # A session of its own, so that one signal ends what the interpreter has started too;
            # stderr is thrown away because a user's library may print without end.
            self._process = subprocess.Popen(
                [*command, "-B", "-c", _load_program("measure/bench/read_program.py")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
                env=dict(environment), cwd="/", pass_fds=passed, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise HosttuneError(f"{command[-1]} cannot be started: {error.strerror}") from None
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._in, self._out = self._process.stdin, self._process.stdout
        for pipe in (self._in, self._out):
            os.set_blocking(pipe.fileno(), False)
        self._left = b""

    def tell(self, what: Mapping[str, Any], timeout_s: float) -> None:
        """Raises WorkerDied, and HosttuneError where the worker does not take it in time."""
        try:
            _write_all(self._in.fileno(), json.dumps(what).encode() + b"\n", timeout_s)
        except OSError:
            raise WorkerDied(self._status()) from None

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """The next line. Raises WorkerDied, and HosttuneError where it does not come in time or is
        no answer.
        """
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            while b"\n" not in self._left:
                # Without the bound a worker that never ends its line fills this process, which may
                # be root's.
                if len(self._left) > LINE_LIMIT:
                    raise HosttuneError("a worker says more than it should")
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise HosttuneError(f"a worker did not answer within {timeout_s:.0f} s")
                part = os.read(self._out.fileno(), LINE_LIMIT)
                if not part:
                    raise WorkerDied(self._status())
                self._left += part
        line, _, self._left = self._left.partition(b"\n")
        try:
            answer = json.loads(line)
        # Deep nesting raises RecursionError, not ValueError, in the C scanner of json.
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise HosttuneError("a worker's line is not an answer")
        return answer

    def end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            # SIGKILL at once: a library may handle SIGTERM, or block it while it decodes.
            os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(3.0)

    def _status(self) -> int | None:
        """A signal that ended the program behind host/processes/confined_child.py comes as 128 +
        number.
        """
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(3.0)
            # A program may also exit by itself with such a status; then a signal is named that
            # never was, which does no harm.
            return 128 - status if status > 128 else status
        return None


def _compute_left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _write_all(pipe: int, content: bytes, timeout_s: float) -> None:
    """Write to a pipe that does not block. Who has its other end may never read: HosttuneError
    after `timeout_s`.
    """
    deadline, left = time.monotonic() + timeout_s, memoryview(content)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        while left:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise HosttuneError(
                    f"a worker did not read what it was sent within {timeout_s:.0f} s"
                )
            with suppress(BlockingIOError):
                left = left[os.write(pipe, left) :]


def _load_program(path: str) -> str:
    text = own_file(path)
    if text is None:
        raise HosttuneError(f"{path} is missing: install hosttune again")
    return text.decode("utf-8")


def _describe_ending(status: int | None) -> str:
    if status == -signal.SIGALRM:
        return f"a file was not decoded within {FILE_S:.0f} s"
    if status == NOT_STARTED:
        return (
            "a program of another user cannot be started here so that nothing of it stays (needs "
            "CAP_SYS_ADMIN)"
        )
    if status is not None and status < 0:
        return f"ended by signal {-status}"
    return f"exit status {status}"


def _require_whole(answer: Mapping[str, Any], name: str) -> int:
    return int(require_positive(answer, name))


def require_positive(answer: Mapping[str, Any], name: str) -> float:
    """A number of a worker's answer, checked."""
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise HosttuneError(f"a worker's answer has no valid {name}")
    return value
