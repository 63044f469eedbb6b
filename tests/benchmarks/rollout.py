"""How long one controller takes to ask 10,000 hosts, by simulation: `python -m
tests.benchmarks.rollout [--hosts N] [--forks N...] [--cores N...] [--main MS] [--worker MS]
[--answer MS] [--size KB] [--line MBIT]`. Not a test.

What it is told of one host is what fleet.py measures: the controller's processor time, of which
`main` is spent in Ansible's one process that hands out tasks and takes the results in, and the rest
in the worker of the host with its ssh; how long the host works on its answer; the size of what
travels.

The model: the main process does one thing at a time and uses a core while it does. A worker is
started while fewer than `forks` are at work; it needs a core, then the line to send what travels
(one after the other: the line is what all share), then the host answers, then it needs the main
process again. Cores and line serve in the order in which they are asked. The table has the bounds
besides, which need no simulation: no order of things can be faster than the busiest of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace


@dataclass(frozen=True)
class Costs:
    """Of one host. Seconds."""

    main: float  # in Ansible's main process
    worker: float  # processor of its worker and ssh
    answer: float  # from the last byte sent until the host has answered
    line: float  # what travels, over the line of the controller


def simulated(hosts: int, forks: int, cores: int, costs: Costs) -> float:
    """Seconds until the last answer is taken in."""
    free = [0.0] * max(cores - 1, 1)  # when each core is free again; the main process keeps one
    heapify(free)
    line = main = 0.0
    answers: list[float] = []  # of the hosts that are at work: when each has answered
    begun = ended = 0
    while ended < hosts:
        # An answer that is there is taken in before another host is begun: that is what makes room
        # for one.
        if answers and (answers[0] <= main or begun == hosts or len(answers) == forks):
            main = max(main, heappop(answers)) + costs.main / 2
            ended += 1
            continue
        main += costs.main / 2
        begun += 1
        ready = max(main, free[0]) + costs.worker
        heapreplace(free, ready)
        line = max(line, ready) + costs.line
        heappush(answers, line + costs.answer)
    return main


def bounds(hosts: int, forks: int, cores: int, costs: Costs) -> dict[str, float]:
    """What each of the things that all hosts share takes by itself. Seconds."""
    alone = costs.main + costs.worker + costs.line + costs.answer
    return {
        "main process": hosts * costs.main,
        "cores": hosts * costs.worker / max(cores - 1, 1),
        "line": hosts * costs.line,
        "forks": hosts * alone / forks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--forks", type=int, nargs="+", default=[20, 50, 100, 200, 500])
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument(
        "--main", type=float, required=True, help="ms a host, as fleet.py prints it"
    )
    parser.add_argument(
        "--worker", type=float, required=True, help="ms: the controller's of fleet.py without main"
    )
    parser.add_argument("--answer", type=float, default=1500, help="ms until a host has answered")
    parser.add_argument("--size", type=float, default=1600, help="kB that travel to each host")
    parser.add_argument("--line", type=float, default=1000, help="Mbit/s of the controller")
    given = parser.parse_args()
    costs = Costs(
        given.main / 1000,
        given.worker / 1000,
        given.answer / 1000,
        given.size * 8 / 1000 / given.line,
    )
    print(f"{given.hosts} hosts; of one: {costs}")
    print("| cores | forks | simulated | bound by |")
    print("|---|---|---|---|")
    for cores in given.cores:
        for forks in given.forks:
            took = simulated(given.hosts, forks, cores, costs)
            name, least = max(
                bounds(given.hosts, forks, cores, costs).items(), key=lambda item: item[1]
            )
            print(f"| {cores} | {forks} | {took / 60:.1f} min | {name} ({least / 60:.1f} min) |")


if __name__ == "__main__":
    main()
