"""What the figures of `bench read` say: a table of hosts, the limits of each answer."""

import math
from pathlib import Path

import pytest

from hosttune.engine.rules.catalog import load_catalog
from hosttune.measure.bench.reading import (
    Figures,
    Limit,
    Pass,
    conclude_limit,
    knee_of,
    measure_of,
    still_grows,
)
from hosttune.measure.cpus import Cpus
from tests.unit.fake_reader import FakeReader

MIB = 1 << 20


def level(workers, rate, busy, cpus=2.0, device=1.0, size=32 << 10):
    """Passes of `workers` workers at `rate` files a second that keep `busy` of the CPUs they can
    use.
    """
    files = 400
    seconds = files / rate
    cpu = busy * seconds * min(workers, cpus)
    read = files * size
    return measure_of([Pass(workers, files, 0, read, int(device * read), seconds, cpu)] * 5, 1)


def sweep(rates, busy, cpus=2.0, device=1.0):
    return tuple(
        level(workers, rate, share, cpus, device)
        for (workers, rate), share in zip(rates.items(), busy, strict=True)
    )


# The rates are those measured on two CPUs for the reference: JPEG of 500 x 375 decoded and resized,
# the same with 20 ms of waiting for each item, a hard disk's model.
DECODING = sweep(
    {1: 676, 2: 1176, 3: 1202, 4: 1149, 8: 1120, 16: 1006}, [0.95, 0.97, 0.98, 0.98, 0.98, 0.98]
)
WAITING = sweep({1: 45, 2: 88, 4: 178, 8: 326, 16: 538}, [0.06, 0.06, 0.13, 0.24, 0.4])
HARD_DISK = sweep({1: 108, 2: 113, 4: 115, 8: 116, 16: 114}, [0.02] * 5)
OPENING = sweep({1: 60_000, 2: 110_000, 4: 118_000, 8: 117_000}, [0.99, 0.98, 0.97, 0.97])
MANY_CPUS = sweep({1: 700, 2: 1400, 4: 2790, 8: 5500, 16: 10_900}, [0.97] * 5, cpus=32)


def figures(
    levels, *, cold=8_080, warm=88_000, device=1.0, decode=None, packed=None, cpus=2.0, **more
):
    return Figures(
        level(1, cold, 0.4, device=device), level(1, warm, 0.99, device=0.0),
        packed and level(1, packed, 0.3), decode and level(1, decode, 0.99, device=0.0), levels, Cpus(cpus, ""), **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "limit", "knee", "workers"),
    [
        pytest.param(
            figures(DECODING, decode=676), Limit.DECODE, 3, 3, id="decoding keeps the CPUs busy"
        ),
        pytest.param(
            figures(MANY_CPUS, decode=700, cpus=32),
            Limit.DECODE,
            16,
            32,
            id="decoding, and CPUs are left",
        ),
        pytest.param(
            figures(WAITING, cold=45, decode=676),
            Limit.LATENCY,
            16,
            32,
            id="each file takes 20 ms to come",
        ),
        pytest.param(figures(WAITING[:3], cold=45), Limit.LATENCY, 4, 32, id="waiting, few levels"),
        pytest.param(
            figures(HARD_DISK, cold=108), Limit.DISK, 4, 4, id="a hard disk gives what it can"
        ),
        pytest.param(
            figures(HARD_DISK, cold=108, decode=676),
            Limit.DISK,
            4,
            4,
            id="a hard disk below a decoder",
        ),
        pytest.param(figures(OPENING), Limit.CPU, 4, 4, id="small files on a quick disk"),
        pytest.param(figures(OPENING, device=0.02), Limit.MEMORY, 4, 4, id="a tmpfs"),
        pytest.param(
            figures(DECODING, device=0.0, decode=676),
            Limit.DECODE,
            3,
            3,
            id="a tmpfs below a decoder",
        ),
        pytest.param(
            figures(HARD_DISK, device=0.0, decode=676),
            Limit.UNKNOWN,
            4,
            4,
            id="in memory, and yet waiting",
        ),
        pytest.param(
            figures(WAITING, cold=45, device=0.0, is_network=True), Limit.LATENCY, 16, 32, id="NFS"
        ),
        pytest.param(
            figures(OPENING, cold=85_000, device=0.0, is_network=True),
            Limit.MEMORY,
            4,
            4,
            id="NFS, cached",
        ),
        pytest.param(
            figures(HARD_DISK[:1], cold=108), Limit.UNKNOWN, 1, 1, id="one level says not for what"
        ),
        pytest.param(figures((), cold=108), Limit.UNKNOWN, 0, 0, id="no level at all"),
        pytest.param(
            figures(DECODING, decode=676, spoiled="the host is busy"),
            Limit.UNKNOWN,
            3,
            3,
            id="a busy host",
        ),
    ],
)
def test_conclude_table_names_the_limit(given, limit, knee, workers):
    found = conclude_limit(given)
    assert (found.limit, found.knee, found.workers) == (limit, knee, workers)
    assert found.reason


@pytest.mark.parametrize(
    ("handed", "cpus", "workers"),
    [(0.7, 2.0, 2), (1.0, 2.0, 1), (0.7, 1.0, 1)],
    ids=["less", "as much", "one CPU"],
)
def test_one_worker_is_not_advised_where_it_brings_less_than_none(handed, cpus, workers):
    levels = sweep({1: 700, 2: 690}, [0.97, 0.97], cpus)
    found = conclude_limit(
        figures(levels, decode=700, cpus=cpus, handed=level(1, 700 * handed, 0.99, device=0.0))
    )
    assert (found.knee, found.workers) == (1, workers)
    assert any("delivers 70%" in one.text for one in found.advice) == (handed < 1)


def test_conclude_busy_host_keeps_its_reason():
    assert (
        conclude_limit(figures(DECODING, spoiled="another job takes 2 CPUs")).reason
        == "another job takes 2 CPUs"
    )


@pytest.mark.parametrize(("levels", "ratio"), [(DECODING, 1 / 0.95 - 1), (WAITING, 1 / 0.06 - 1)])
def test_conclude_wait_ratio_is_of_one_worker(levels, ratio):
    assert conclude_limit(figures(levels)).wait_ratio == pytest.approx(ratio)


def test_conclude_storage_that_outruns_decoding_is_said_not_to_limit():
    texts = [one.text for one in conclude_limit(figures(DECODING, decode=676)).advice]
    assert any("12.0 times as fast as it decodes" in text for text in texts)


@pytest.mark.parametrize(
    ("levels", "more", "is_said"),
    [
        (HARD_DISK, {"cold": 108}, True),
        (DECODING, {"cold": 108, "decode": 676}, False),  # shards do not decode
    ],
)
def test_conclude_packed_file_that_is_quicker_is_advised_where_storage_limits(
    levels, more, is_said
):
    texts = [one.text for one in conclude_limit(figures(levels, packed=464, **more)).advice]
    assert any("4.3 times as fast" in text for text in texts) is is_said


def test_conclude_every_rule_in_advice_exists():
    rules = load_catalog(FakeReader()).rules
    given = [DECODING, WAITING, HARD_DISK, OPENING]
    found = [
        conclude_limit(figures(one, cold=45, is_network=network))
        for one in given
        for network in (False, True)
    ]
    named = {advice.rule for one in found for advice in one.advice} - {""}
    assert named
    assert named <= set(rules)


def test_knee_is_the_fewest_workers_within_two_percent():
    assert knee_of(sweep({1: 97, 2: 98.1, 4: 100}, [1, 1, 1])) == 2
    assert knee_of(()) == 0


@pytest.mark.parametrize(
    ("rates", "grows"),
    [
        ({4: 100, 8: 131}, True),
        ({4: 100, 8: 129}, False),
        ({4: 100, 5: 108}, True),
        ({1: 5}, False),
    ],
)
def test_still_grows_asks_for_a_third_of_what_was_added(rates, grows):
    assert still_grows(sweep(rates, [0.1] * len(rates))) is grows


def test_measure_of_passes_adds_bytes_and_keeps_every_rate():
    one, other = (
        Pass(2, 100, 1, 10 * MIB, 5 * MIB, 1.0, 0.5),
        Pass(2, 100, 0, 10 * MIB, 5 * MIB, 4.0, 0.5),
    )
    made = measure_of([one, other, one], 7)
    assert (made.rates, made.rate.estimate, made.failed) == ((100.0, 25.0, 100.0), 100.0, 2)
    assert (made.bytes_read, made.device_share) == (30 * MIB, 0.5)
    assert math.isclose(made.bytes_per_s, 5 * MIB)
    assert math.isclose(made.wait_ratio, (12 - 1.5) / 1.5)


def test_pure_module_imports_nothing_that_looks():
    text = (
        Path(__file__)
        .resolve()
        .parents[2]
        .joinpath("hosttune/measure/bench/reading.py")
        .read_text()
    )
    assert not {"import os", "import time", "import subprocess"} & {
        line.strip() for line in text.splitlines()
    }
