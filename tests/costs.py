"""What each test costs in processor time, and which tests `./run test` takes so that it ends in two
minutes.

`costs.tsv` holds what was measured: seconds, cases and the name of each test function that took
MEASURED_S or more, its cases together; and for each file what the others of it take. It is a hint:
a test that is not in it counts nothing, and figures that are out of date only move the end of
`./run test`. `./run test costs` writes it again.
"""

from __future__ import annotations

import resource
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "costs.tsv"
MEASURED_S = 0.1
CAP_S = 0.1  # processor seconds of each test in `./run test`, so that it ends in two minutes on two quiet cores
# Not bounded: what most changes break, in twenty seconds.
WHOLE = ("tests/golden/", "tests/rules/test_cases.py", "tests/unit/test_names.py")
UNKNOWN_S = 1.0  # of a file that was not measured, in shares of a ring


@dataclass(frozen=True)
class Cost:
    """Processor seconds of all cases of a test function together, with what they start, and how
    many cases there were.
    """

    seconds: float
    cases: int


def read_costs(path: Path = TABLE) -> dict[str, Cost]:
    """By the name of the function, `tests/unit/test_x.py::test_y`, or of the file for the rest of
    it.
    """
    if not path.exists():
        return {}
    rows = (
        line.split("\t")
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    )
    return {name: Cost(float(seconds), int(cases)) for seconds, cases, name in rows}


def dump_costs(measured: Mapping[str, Sequence[float]]) -> str:
    """The table from the seconds of each case, by function."""
    costs: dict[str, list[float]] = defaultdict(list)
    for name, seconds in measured.items():
        costs[name if sum(seconds) >= MEASURED_S else name.partition("::")[0]] += seconds
    rows = [
        f"{sum(seconds):.2f}\t{len(seconds)}\t{name}" for name, seconds in sorted(costs.items())
    ]
    return "\n".join(["# processor seconds, cases, test: `./run test costs` writes it", *rows, ""])


def sum_file_costs(costs: Mapping[str, Cost], cap_s: float | None = None) -> dict[str, float]:
    """Seconds of each file; with a cap, of what `choose_cases` leaves of it."""
    files: dict[str, float] = defaultdict(float)
    for name, cost in costs.items():
        path, is_function, _ = name.partition("::")
        kept = (
            cost.cases
            if cap_s is None or not is_function
            else count_kept(name, cost, cap_s, cost.cases)
        )
        files[path] += cost.seconds * kept / max(cost.cases, 1)
    return dict(files)


def count_kept(name: str, cost: Cost | None, cap_s: float, cases: int) -> int:
    """How many of these cases fit into the cap; all of a test that is not bounded, or was not
    measured.
    """
    if cost is None or cost.seconds <= cap_s or name.startswith(WHOLE):
        return cases
    return min(cases, int(cap_s * cost.cases / cost.seconds))


def choose_cases(ids: Iterable[str], costs: Mapping[str, Cost], cap_s: float) -> set[str]:
    """Of each test function as many cases as fit into the cap: always the same ones, spread over
    hosts and rules by a checksum of their names. A test of which one case takes longer than the cap
    is left out.
    """
    functions: dict[str, list[str]] = defaultdict(list)
    for one in ids:
        functions[one.partition("[")[0]].append(one)
    chosen: set[str] = set()
    for name, cases in functions.items():
        kept = count_kept(name, costs.get(name), cap_s, len(cases))
        chosen.update(
            cases
            if kept == len(cases)
            else sorted(cases, key=lambda one: zlib.crc32(one.encode()))[:kept]
        )
    return chosen


def share_out(costs: Mapping[str, float], shares: int) -> list[list[str]]:
    """The names in so many lists that take about as long, the longest name first; empty lists are
    left out.
    """
    lists: list[list[str]] = [[] for _ in range(shares)]
    sums = [0.0] * shares
    for name in sorted(costs, key=lambda one: (-costs[one], one)):
        place = sums.index(min(sums))
        lists[place].append(name)
        sums[place] += costs[name]
    return [sorted(names) for names in lists if names]


def read_processor_s() -> float:
    """Processor seconds of this process and of the children that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
