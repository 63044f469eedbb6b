"""Work on many things side by side, in processes of this program.

What a thing holds is someone else's, and may take all memory or time. So a worker has a share of
both, and where it ends at a thing, that thing has no answer; the others lose nothing.
"""

from __future__ import annotations

import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from hosttune.errors import HosttuneError
from hosttune.host.in_time import forget_imports
from hosttune.host.reading.bounded import head_text
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

A = TypeVar("A")
R = TypeVar("R")
MOST_BYTES: Final = 1 << 30  # of memory that a worker may take beside what this process has
MOST_CPU_S: Final = 120  # of CPU for one thing
_AHEAD = 32  # answers that wait for an earlier one, for each worker
_NO_MEMORY = 3  # exit status
_WHY = {
    _NO_MEMORY: f"takes more than {MOST_BYTES >> 30} GiB of memory",
    -signal.SIGPROF: f"takes more than {MOST_CPU_S} s of CPU",
    -signal.SIGKILL: "the process that read it was ended, perhaps for want of memory",
}


def usable_cpus() -> int:
    """The CPUs that this process may run on; at least 1."""
    return max(1, len(os.sched_getaffinity(0)))


def fit_workers(wanted: int) -> int:
    """So many of these workers as the memory that is available has room for; at least 1."""
    kib = next(
        (
            line.split()[1]
            for line in head_text("/proc/meminfo").split("\n")
            if line.startswith("MemAvail")
        ),
        "",
    )
    available = parse_digits(kib, -1) << 10
    return wanted if available < 0 else max(1, min(wanted, available // MOST_BYTES))


def map_in_order(
    work: Callable[[A], R], things: Iterable[A], jobs: int, lost: Callable[[A, str], R]
) -> Iterator[R]:
    """The answer for each thing, in their order, by so many forked processes, which know what this
    one knows by now. Where a worker ends before its answer, it is what `lost` makes of the thing
    and a sentence.
    """
    from multiprocessing.connection import wait

    waiting = deque(enumerate(things))
    answers: dict[int, R] = {}
    busy: dict[Connection, tuple[int, A]] = {}
    crew: dict[Connection, ForkProcess] = {}
    due = 0
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs and waiting[0][0] < due + jobs * _AHEAD:
                idle = next((one for one in crew if one not in busy), None) or _start_worker(
                    work, crew
                )
                if idle is None:
                    if not busy:
                        raise HosttuneError("no process could be started")
                    break
                busy[idle] = waiting.popleft()
                with suppress(OSError):  # a worker that has ended: as one that ends at this thing
                    idle.send(busy[idle][1])
            answering = wait(list(busy))
            for pipe in [one for one in busy if one in answering]:
                number, thing = busy.pop(pipe)
                try:
                    answer, error = pipe.recv()
                except (EOFError, OSError):
                    answer, error = lost(thing, _end_worker(pipe, crew.pop(pipe))), None
                if error is not None:
                    raise error
                answers[number] = answer
            while due in answers:
                yield answers.pop(due)
                due += 1
    finally:
        for pipe, process in crew.items():
            process.kill()
            _end_worker(pipe, process)


def _start_worker(work: Callable[[A], R], crew: dict[Connection, ForkProcess]) -> Connection | None:
    """The pipe to one more worker; None where there are no more processes or descriptors."""
    from multiprocessing import get_context

    context = get_context("fork")
    try:
        ours, theirs = context.Pipe()
    except OSError:
        return None
    process = context.Process(target=_serve, args=(work, theirs, [*crew, ours]), daemon=True)
    try:
        process.start()
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()
    crew[ours] = process
    return ours


def _end_worker(pipe: Connection, process: ForkProcess) -> str:
    """Take leave of a worker that has ended. Why it gave no answer."""
    pipe.close()
    process.join()
    return _WHY.get(
        process.exitcode or 0, f"the process that read it ended with {process.exitcode}"
    )


def _serve(work: Callable[[A], R], pipe: Connection, others: list[Connection]) -> NoReturn:
    status = 1
    try:
        forget_imports()
        # Ctrl-C reaches all; who hands out the work ends the others
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        for other in others:  # a worker ends when no end of its pipe is left elsewhere
            other.close()
        _limit_memory()
        while True:
            thing = pipe.recv()
            # Of CPU time, so that a slow disk ends nothing. RLIMIT_CPU would count all things of a
            # worker together.
            signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
            answer: tuple[R | None, Exception | None]
            try:
                answer = work(thing), None
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - for who asks
                answer = None, error
            pipe.send(answer)
    except MemoryError:
        status = _NO_MEMORY
    except EOFError:
        status = 0
    finally:
        os._exit(status)


def _limit_memory() -> None:
    """By the kernel, which counts what can be written and is of no file (getrlimit(2),
    RLIMIT_DATA).
    """
    words = head_text("/proc/self/statm").split()
    if len(words) > 5:
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = int(words[5]) * resource.getpagesize() + MOST_BYTES
        limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
