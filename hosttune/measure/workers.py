"""With how many loader workers to start, and what limits them. Pure.

The figure is one to start from: where loading is CPU-bound the best number is as many as CPUs or
one more (measured on 2 CPUs: 696 pictures a second without workers, 676 with one, 1,176 with two,
1,202 with three, 1,006 with sixteen); where a worker waits for disk or network, more of them
overlap the waits (45 with one, 538 with sixteen at 20 ms an item). One worker alone brings less
than none, because what it decodes travels: with two CPUs the start is two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.numbers import say_count

if TYPE_CHECKING:
    from hosttune.measure.cpus import Cpus

MOST: Final = 32  # beyond it, what workers cost in memory and start-up outweighs what they overlap
WORKER_BYTES: Final = 512 << 20  # assumed: a fork with torch imported, and its prefetched batches


@frozen
class Workers:
    """`start` is num_workers for each GPU process; `formula` how it came about, with its numbers;
    `limits` what was taken into account, a sentence each.
    """

    start: int
    formula: str
    limits: tuple[str, ...]


def start_workers(
    cpus: Cpus,
    *,
    gpu_processes: int = 1,
    available_bytes: int | None = None,
    worker_bytes: int = WORKER_BYTES,
    wait_per_cpu: float | None = None,
    measured: int | None = None,
    shards: int | None = None,
) -> Workers:
    """num_workers to start with: usable CPUs / GPU processes - 1, two where there are CPUs for two,
    or what memory holds, at least 1.

    `available_bytes` is memory for all workers of this host (None: not known), `wait_per_cpu` the
    time an item waits for each second that it computes, as `bench read` measures it: from 1 on the
    CPUs count that much more. `measured` is what `bench read` found best, for all GPU processes
    together; it takes the place of the formula. `shards` are the files of a data set that is read
    shard by shard: a worker without one of its own does nothing.
    """
    ranks = max(1, gpu_processes)
    share = cpus.usable / ranks
    is_waiting = wait_per_cpu is not None and wait_per_cpu >= 1
    if measured is not None:
        by_cpu = measured // ranks
        formula = f"{measured} as bench read found here / {_count_processes(ranks)}"
    elif is_waiting:
        by_cpu = int(share * (1 + (wait_per_cpu or 0.0)))
        formula = (
            f"{round(cpus.usable, 2):g} CPUs / {ranks} x (1 + {wait_per_cpu:.1f} wait per CPU time)"
        )
    else:
        by_cpu = int(share) - 1
        formula = f"{round(cpus.usable, 2):g} CPUs / {_count_processes(ranks)} - 1"
        if by_cpu == 1:
            by_cpu = 2
            formula = (
                f"{round(cpus.usable, 2):g} CPUs / {_count_processes(ranks)}, one worker is slower "
                "than none"
            )
    limits = [cpus.reason]
    wanted = max(1, by_cpu)
    if wanted > MOST:
        limits.append(f"never more than {MOST}")
    wanted = min(wanted, MOST)
    if available_bytes is not None and worker_bytes > 0:
        by_memory = available_bytes // ranks // worker_bytes
        if by_memory < wanted:
            wanted = max(1, by_memory)
            shared = f"{available_bytes / 2**30:.1f} GiB / {_count_processes(ranks)}"
            formula = f"{shared} / {worker_bytes / 2**30:.1f} GiB a worker"
            limits.append("memory limits it before the CPUs do")
    # With fewer shards than ranks the division gives none, and one worker is still needed.
    if shards is not None and 0 < shards // ranks < wanted:
        wanted = shards // ranks
        formula = f"{say_count(shards, 'shard')} / {_count_processes(ranks)}"
        limits.append("one shard feeds one worker")
    if share < 2 and measured is None:
        limits.append(
            "less than two CPUs for each GPU process: a worker shares them with the training loop; "
            "try none, too"
        )
    return Workers(wanted, formula, tuple(limits))


def _count_processes(number: int) -> str:
    return f"{number} GPU process{'es' * (number != 1)}"
