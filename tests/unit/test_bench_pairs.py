"""The runner of pairs and the gates before it: what is done again, what is refused, what ends a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hosttune.errors import HosttuneError
from hosttune.measure.bench import gates
from hosttune.measure.bench.counters import DiskReading, Moment, parse_disk, parse_host_cpu, parse_stall
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.noise import idle_noise, work_noise
from hosttune.measure.bench.pairs import ARMS, BASE, CONTROL, OTHER, Timed, compare
from hosttune.measure.bench.place import Place
from hosttune.measure.bench.statistics import Answer

PLACE = Place("/data", "/data", 30, "/dev/sdb1", "ext4", "relatime", "8:17", "0b9c", 1000 << 30, 500 << 30, False)


class Work:
    """Times by arm, with a clock of its own: each piece of work takes a tenth of a second of the budget."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = {BASE: 1.0, OTHER: 1.0, CONTROL: 1.0, **seconds}
        self.done: list[tuple[str, int]] = []

    def __call__(self, arm: str, chunk: int):
        self.done.append((arm, chunk))
        return {"read": Timed(self.seconds[arm] * (1 + chunk % 7 / 10), 0.5, 100, None)}

    def clock(self) -> float:
        return len(self.done) / 10

    def run(self, **words):
        return compare(self, **{"seed": 3, "budget_s": 1000.0, "clock": self.clock, **words})


def test_run_that_is_precise_ends_at_the_first_look():
    work = Work(other=1.05)
    (found,) = work.run().comparisons
    assert (found.judgement.pairs, found.judgement.answer) == (20, Answer.DIFFERS)
    assert found.effects == tuple([1.05] * 20) or max(abs(one - 1.05) for one in found.effects) < 1e-9
    assert found.totals[BASE].cpu_s == 10.0
    assert (found.totals[OTHER].read_bytes, found.totals[OTHER].written_bytes) == (2000, None)


def test_run_that_is_not_precise_goes_on_to_the_last_look():
    work = Work()

    def shaky(arm, chunk):
        found = work(arm, chunk)["read"]
        return {"read": replace(found, seconds=found.seconds * (1 + len(work.done) * 7919 % 13 / 10))}

    assert compare(shaky, seed=1, budget_s=1e9, clock=work.clock).comparisons[0].judgement.pairs == 160


def test_work_that_one_arm_could_not_do_is_left_out_of_its_chunk():
    work = Work()

    def compiles_until_it_fails(arm, chunk):
        found = work(arm, chunk)
        return found if len(work.done) > 5 else {**found, "compile": Timed(1.0)}

    read, compiled = compare(compiles_until_it_fails, seed=1, budget_s=1e9, clock=work.clock).comparisons
    assert (read.judgement.pairs, compiled.judgement.pairs) == (20, 1)
    assert compiled.judgement.answer is Answer.INCONCLUSIVE


def test_each_chunk_runs_once_under_each_arm_in_an_order_that_changes_and_comes_from_the_seed():
    work, again = Work(), Work()
    work.run()
    again.run()
    assert work.done == again.done
    orders = Counter(tuple(arm for arm, _ in work.done[place : place + 3]) for place in range(0, 60, 3))
    assert len(orders) > 3
    assert all(sorted(order) == sorted(ARMS) for order in orders)
    assert [chunk for _, chunk in work.done[::3]] == list(range(20))


def test_run_out_of_budget_says_how_few_pairs_it_has():
    (found,) = Work(other=1.05).run(budget_s=1.0).comparisons
    assert (found.judgement.pairs, found.judgement.answer) == (4, Answer.INCONCLUSIVE)
    with pytest.raises(GateClosed, match="not one pair"):
        Work().run(budget_s=0.0)


def disturbed(*which: int):
    """Chunks, by the number of the try, that somebody disturbed."""
    tries = iter(range(1000))

    def begin():
        number = next(tries)
        return lambda: ("other programs use 2.0 processors",) if number in which else ()

    return begin


def test_disturbed_chunk_is_done_again_and_does_not_count():
    work = Work()
    found = work.run(begin_chunk=disturbed(0, 5))
    assert found.skipped == 2
    assert found.comparisons[0].judgement.pairs == 20
    assert Counter(chunk for _, chunk in work.done)[0] == 6


def test_run_that_is_disturbed_too_often_is_refused():
    with pytest.raises(GateClosed, match="4 of 10 chunks were disturbed"):
        Work().run(begin_chunk=disturbed(1, 3, 5, 9))


def test_host_that_gets_busy_is_measured_anyway_where_that_was_asked_and_nothing_is_concluded():
    (found,) = Work(other=1.5).run(begin_chunk=disturbed(*range(1, 100)), anyway=True).comparisons
    assert found.judgement.answer is Answer.INCONCLUSIVE
    assert found.judgement.reason.startswith("9 of 10 chunks were disturbed, other programs use 2.0 processors")


def test_busy_host_measured_anyway_is_never_better_than_inconclusive():
    (found,) = Work(other=1.5).run(begin_chunk=disturbed(*range(100)), spoiled="the host was busy").comparisons
    assert (found.judgement.answer, found.judgement.reason) == (Answer.INCONCLUSIVE, "the host was busy")


@pytest.mark.parametrize(
    ("changes", "words", "said"),
    [
        ({"available_bytes": 99 << 30}, {}, "nearly full: 10% free"),
        ({"available_bytes": 0}, {}, "nearly full: 0% free"),
        ({"total_bytes": 1 << 30, "available_bytes": 300 << 20}, {}, "too little room"),
        ({"is_read_only": True}, {}, "read-only"),
        ({"fstype": "nfs4"}, {}, "nfs4"),
        ({"fstype": "fuse.sshfs"}, {}, "fuse.sshfs"),
        ({"fstype": "fuse"}, {}, "fuse"),
        ({"fstype": "tmpfs"}, {"allow_network": True}, "lies in memory"),
    ],
)
def test_place_that_is_nothing_to_measure_on_now_is_refused(changes, words, said):
    with pytest.raises(GateClosed, match=said):
        gates.require_disk(replace(PLACE, **changes), **{"allow_network": False, **words})


def test_place_where_the_kernel_shows_itself_is_no_closed_gate():
    with pytest.raises(HosttuneError, match="holds no data") as refused:
        gates.require_disk(replace(PLACE, fstype="sysfs"), allow_network=True)
    assert not isinstance(refused.value, GateClosed)


def test_place_may_be_used_within_bounds():
    assert gates.require_disk(PLACE, allow_network=False) == 1 << 30
    assert gates.require_disk(replace(PLACE, fstype="nfs4"), allow_network=True) == 1 << 30
    small = replace(PLACE, total_bytes=20 << 30, available_bytes=10 << 30)
    assert gates.require_disk(small, allow_network=False) == (10 << 30) * 2 // 100


START = Moment(100.0, 50.0, 5.0, 10.0, 20.0, DiskReading(1000 << 20, 0, 7.0), 900 << 20)


def after(**changes) -> Moment:
    return replace(START, at_s=101.0, **changes)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (after(), ()),
        (after(host_cpu_s=50.2), ()),
        (after(host_cpu_s=51.0, own_cpu_s=6.0), ()),
        (after(host_cpu_s=51.5), ("other programs use 1.5 processors",)),
        (after(stolen_s=0.4), ("the hypervisor keeps back 0.4 processors",)),
        (after(cpu_stall_s=10.5), ("tasks wait for a processor for 50% of the time",)),
        (after(io_stall_s=20.9), ("tasks wait for the disk for 90% of the time",)),
        (after(disk=DiskReading(0, 0, 7.6)), ("the disk is busy for 60% of the time",)),
        (after(cpu_stall_s=None, io_stall_s=None, disk=None), ()),
    ],
)
def test_idle_noise_names_what_keeps_the_host_busy(end, said):
    assert idle_noise(START, end) == said


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (after(io_stall_s=20.9, disk=DiskReading(1100 << 20, 0, 7.9), own_read_bytes=1000 << 20), ()),
        (
            after(disk=DiskReading(1100 << 20, 0, 7.9), own_read_bytes=950 << 20),
            ("others read 50% of what the disk gave",),
        ),
        (after(stolen_s=0.4), ()),
        (after(host_cpu_s=52.0, own_cpu_s=5.9), ("other programs use 1.1 processors",)),
        (after(cpu_stall_s=10.5), ("tasks waited for a processor for 50% of the time",)),
    ],
)
def test_work_noise_leaves_out_what_the_bench_does_itself(end, said):
    assert work_noise(START, end) == said


def test_gate_of_a_busy_host_refuses_or_spoils(monkeypatch):
    moments = iter([START, after(host_cpu_s=52.0)] * 2 + [START, after()])
    monkeypatch.setattr(gates, "now", lambda _device: next(moments))
    monkeypatch.setattr(gates, "WATCHED_S", 0.0)
    with pytest.raises(GateClosed, match="this host is busy: other programs") as refused:
        gates.require_quiet(PLACE, anyway=False)
    assert "--anyway" in refused.value.hint
    assert gates.require_quiet(PLACE, anyway=True) == "the host was busy: other programs use 2.0 processors"
    assert gates.require_quiet(PLACE, anyway=False) == ""


def test_counters_are_read_as_the_kernel_writes_them():
    line = "  8013 12 640128 4321 991 33 20480 876 0 5100 5197 0 0 0 0 0 0\n"
    assert parse_disk(line) == DiskReading(640128 * 512, 20480 * 512, 5.1)
    assert parse_disk("") is None
    assert parse_disk("a b c d e f g h i j k") is None
    assert parse_host_cpu("cpu  1000 20 300 9000 50 6 7 80 0 0\ncpu0 1 2 3\n", 100) == (10.2, 0.8)
    assert parse_stall("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0 total=1\n") == 2.5
    assert parse_stall("") is None
