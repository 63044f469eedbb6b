"""Work on many things side by side, in processes of this program."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from concurrent.futures import Future

A = TypeVar("A")
R = TypeVar("R")
_AHEAD = 4  # things handed out before their answers are asked for, for each worker


def usable_cpus() -> int:
    """The CPUs that this process may run on; at least 1."""
    return max(1, len(os.sched_getaffinity(0)))


def map_in_order(work: Callable[[A], R], things: Iterable[A], jobs: int) -> Iterator[R]:
    """The answer for each thing, in their order. With `jobs` above 1 in so many forked processes, which know what this
    one knows by now; `work` must be a function of a module, or a partial of one.
    """
    if jobs <= 1:
        yield from map(work, things)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _ignore_interrupts)
    waiting: deque[Future[R]] = deque()
    try:
        for thing in things:
            waiting.append(pool.submit(work, thing))
            if len(waiting) >= jobs * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        message = "a worker process ended before its answer, perhaps for want of memory"
        raise HosttuneError(message, hint="run fewer side by side: --jobs 1") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; the one that hands out the work ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
