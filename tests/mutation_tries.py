"""The half of `tests.mutation` that runs in its copy: the tests are collected and run once, then
each mutant gets a fork.

pytest starts once, so a mutant costs a fork and the tests that reach its function, up to the first
that fails: those that killed its neighbours before, then the files that name its module, then all
others, one case of each test before the second of any, the quickest first.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

KILLED, SURVIVED, UNTESTED, SLOW = "killed", "survived", "met by no test", "timed out"


class Tries:
    """A pytest plugin in place of its loop over the tests."""

    def __init__(self, setting: dict) -> None:
        self.mutants: dict[str, str] = setting["mutants"]
        self.children: int = setting["children"]
        self.seconds: float = setting["seconds"]
        self.took: dict[pytest.Item, float] = {}
        self.reach: dict[str, list[pytest.Item]] = defaultdict(list)
        self.killers: dict[str, Counter[pytest.Item]] = defaultdict(Counter)
        self.failed = False
        self.running: dict[int, tuple[str, list[pytest.Item], float, int]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.look(session.items)
        tried = Path("tried")
        before = (
            [json.loads(line) for line in tried.read_text(encoding="utf-8").splitlines()]
            if tried.exists()
            else []
        )
        done = {
            line["mutant"] for line in before if line["text"] == self.mutants.get(line["mutant"])
        }
        with tried.open("a", encoding="utf-8") as out:
            for name in self.mutants:
                if name not in done:
                    while len(self.running) >= self.children:
                        self.wait(out)
                    self.start(name, out)
            while self.running:
                self.wait(out)
        return True

    def look(self, items: list[pytest.Item]) -> None:
        """Runs each test unchanged: how long it takes, and which functions it reaches. One that
        fails is left out.
        """
        from mutmut.mutation.trampoline import set_mutant_under_test
        from mutmut.state import state

        set_mutant_under_test("stats")
        for item, following in zip(items, [*items[1:], None], strict=True):
            started = time.process_time()
            passed = self.passes(item, following)
            self.took[item] = time.process_time() - started
            if passed:
                for function in state()._stats:
                    self.reach[function].append(item)
            else:
                print("left out, it fails unchanged:", item.nodeid, flush=True)
            state()._stats.clear()
        set_mutant_under_test("")
        print(f"{len(items)} tests in {sum(self.took.values()):.0f} s", flush=True)

    def passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        self.failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    def chosen(self, function: str) -> list[pytest.Item]:
        """The tests of a function in order, as many as take `seconds`, and all that killed a
        neighbour.
        """
        dotted = function.rpartition(".")[0]
        word = dotted.rpartition(".")[2].partition("_")[0]
        killers = self.killers[function]

        rank: dict[pytest.Item, int] = {}
        seen: Counter[str] = Counter()
        for item in sorted(self.reach[function], key=self.took.__getitem__):
            test = item.nodeid.partition("[")[0]
            rank[item] = seen[test]
            seen[test] += 1

        def order(item: pytest.Item) -> tuple[int, bool, int, float]:
            is_near = f"_{word}" in item.path.name or dotted in text_of(item)
            return -killers[item], not is_near, rank[item], self.took[item]

        found, left = [], self.seconds
        for item in sorted(self.reach[function], key=order):
            left -= self.took[item]
            if left < 0 and not killers[item]:
                continue
            found.append(item)
        return found

    def start(self, name: str, out) -> None:
        function = name.partition("__mutmut_")[0]
        items = self.chosen(function)
        if not items:
            self.note(out, name, UNTESTED)
            return
        limit = int(10 * sum(self.took[item] for item in items)) + 10
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            self.running[child] = (name, items, time.monotonic(), reading)
            return
        from mutmut.mutation.trampoline import set_mutant_under_test

        spent = int(time.process_time()) + limit
        resource.setrlimit(resource.RLIMIT_CPU, (spent, spent))
        signal.alarm(4 * limit)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        set_mutant_under_test(name)
        for index, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            try:
                passed = self.passes(item, following)
            except BaseException:  # noqa: BLE001 - whatever the mutant made of pytest
                passed = False
            if not passed:
                os.write(writing, str(index).encode())
                os._exit(1)
        os._exit(0)

    def wait(self, out) -> None:
        child, status = os.wait()
        if child not in self.running:
            return
        name, items, started, reading = self.running.pop(child)
        with os.fdopen(reading, "rb") as pipe:
            index = pipe.read()
        code = os.waitstatus_to_exitcode(status)
        word = {0: SURVIVED, 1: KILLED}.get(code, SLOW)
        if index:
            self.killers[name.partition("__mutmut_")[0]][items[int(index)]] += 1
        by = items[int(index)].nodeid if index else ""
        self.note(
            out, name, word, by=by, met=len(items), seconds=round(time.monotonic() - started, 2)
        )

    def note(self, out, name: str, became: str, **more: object) -> None:
        out.write(
            json.dumps({"mutant": name, "became": became, **more, "text": self.mutants[name]})
            + "\n"
        )
        out.flush()


_TEXTS: dict[Path, str] = {}


def text_of(item: pytest.Item) -> str:
    """The text of the file that a test stands in."""
    if item.path not in _TEXTS:
        _TEXTS[item.path] = item.path.read_text(encoding="utf-8")
    return _TEXTS[item.path]


def main() -> int:
    setting = json.loads(Path("setting.json").read_text(encoding="utf-8"))
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--capture=no",
        "--tb=no",
        "-o",
        "tmp_path_retention_policy=none",
        "--rootdir=.",
    ]
    return int(pytest.main([*options, *sys.argv[1:]], plugins=[Tries(setting)]))


if __name__ == "__main__":
    sys.exit(main())
