"""The fuzzer itself: each target reads its samples, and what it finds, reduces and saves."""

from __future__ import annotations

import json
import time

import pytest

from tests.benchmarks import fuzz
from tests.benchmarks.fuzz import Sample, Target
from tests.benchmarks.fuzz_targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_target_finds_nothing_in_a_few_inputs(name):
    target = TARGETS[name]
    samples = target.samples(2)
    assert samples
    plain = Target(name, target.samples, target.read, has_growth=False)
    assert fuzz.fuzz(plain, samples, runs=10, seed=7).findings == []


def read_badly(content, _):
    """A reader with three faults."""
    if b"\xff" in content:
        raise KeyError("a reader that is not used to this byte")
    if b"nan" in content:
        time.sleep(0)
        while True:
            pass
    if b"1e400" in content:
        return bytearray(fuzz.MEMORY_BYTES * 2)
    return None


def test_faults_of_a_reader_are_found_reduced_and_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "CPU_S", 0.2)
    target = Target("bad", lambda _: [], read_badly, has_growth=False)
    report = fuzz.fuzz(target, [Sample(b"a line\nanother line = 5\n", "here")], runs=400, seed=1)
    found = {one["what"].partition(" ")[0]: one for one in report.findings}
    assert set(found) == {"KeyError", "TooSlow", "MemoryError"}
    assert found["KeyError"]["input"] == b"\xff"
    assert found["MemoryError"]["input"] == b"1e400"
    path = fuzz.save(tmp_path / "out", "bad", found["KeyError"])
    assert path.read_bytes() == b"\xff"
    assert "not used to this byte" in path.with_suffix(".txt").read_text()


def test_child_that_the_kernel_ends_is_a_finding_and_the_next_one_goes_on():
    def read(content, _):
        if b"9999" in content:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)

    report = fuzz.fuzz(
        Target("dies", lambda _: [], read, has_growth=False), [Sample(b"a = 5\n")], runs=60, seed=2
    )
    assert {one["what"] for one in report.findings} == {"ended by the kernel: signal 9"}
    assert all(b"9999" in one["input"] for one in report.findings)
    assert report.runs == 60


def test_time_that_grows_with_the_square_of_the_input_is_told_from_one_that_grows_with_it(
    monkeypatch,
):
    monkeypatch.setattr(fuzz, "GROWN_S", 0.0)
    clock = [0.0]

    def spending(power):
        def read(content, _):
            clock[0] += len(content) ** power / 1e12

        return Target("grows", lambda _: [], read)

    monkeypatch.setattr(fuzz.time, "process_time", lambda: clock[0])
    grown = [fuzz.growth_of(spending(power), lambda size: b"a" * size, None) for power in (1, 2)]
    assert grown[0] is None
    assert grown[1] is not None


def test_json_stays_json_when_one_value_of_it_changes():
    text = json.dumps({"a": [1, "b", {"c": None}], "d": "text"}).encode()
    for seed in range(200):
        found = fuzz._changed_json(text, fuzz.random.Random(seed))
        json.loads(found)
