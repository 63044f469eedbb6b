"""A list of a dozen characters names more numbers than memory holds: it is refused, with its
place.
"""

from __future__ import annotations

import json
import tracemalloc

import pytest

from hosttune.cli import app, reports
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.slurm_conf import hosts_in, names_host
from hosttune.facts.storage.raid import _is_lost
from hosttune.measure.watch.limits import parse_numbers
from hosttune.ranges import MOST, number_list, number_list_text, parse_ranges
from tests.unit.fake_reader import FakeReader
from tests.unit.test_cli import H100

ENDLESS = "0-99999999999"


@pytest.fixture
def typed(capsys):
    """The exit status, the output and the errors of a command."""

    def run(*argv):
        return app.run(list(argv)), *capsys.readouterr()

    return run


def test_list_of_numbers_is_written_out_to_a_limit():
    assert len(number_list(f"0-{MOST - 1}")) == MOST
    with pytest.raises(ValueError, match=f"'0-{MOST}' names more than {MOST} numbers"):
        number_list(f"0-{MOST}")
    assert number_list_text(number_list("8,0-3")) == "0-3,8"
    assert parse_ranges(ENDLESS) == ((0, 99999999999),)


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "1--2", "3-1", "1;2", "\u0661-\u0663", "1" * 30, "0-" + "9" * 5000]
)
def test_text_that_is_not_a_list_of_numbers_is_refused(text):
    with pytest.raises(ValueError, match=r"not a list of numbers|ends before it begins") as refused:
        number_list(text)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("text", [ENDLESS, ",".join(["0-60000"] * 1000)])
def test_endless_list_costs_no_memory(text):
    tracemalloc.start()
    with pytest.raises(ValueError, match="names more than"):
        number_list(text)
    assert parse_numbers(text.encode()) == frozenset()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_endless_list_of_cpus_is_unknown_and_names_the_file():
    folder = "/sys/devices/system/node/node0"
    reader = FakeReader(
        {f"{folder}/cpulist": f"{ENDLESS}\n", f"{folder}/meminfo": "Node 0 MemTotal: 1 kB\n"}
    )
    with pytest.raises(UnknownFact, match=rf"{folder}/cpulist: '{ENDLESS}' names more than"):
        _ = Facts(reader).numa.nodes[0].cpus


@pytest.mark.parametrize(
    "expression",
    [
        f"node[{ENDLESS}]",
        ",".join(["n[0-65535]"] * 20),
        "n[0-999][0-999]",
        "a" * 10_000 + "[0-9999]",
        f"n[{'0' * 17}0-65535]" + "x" * 300,
    ],
)
def test_endless_list_of_hosts_is_refused(expression):
    with pytest.raises(ValueError, match="names more than 65536 hosts"):
        hosts_in(expression)


@pytest.mark.parametrize(
    "expression", ["n[3-1]", "n[]", "n[1" + "0" * 30 + "]", "n" + "[1]" * 1000, "n[a-b]"]
)
def test_text_that_is_not_a_list_of_hosts_is_refused(expression):
    for ask in (hosts_in, lambda one: names_host(one, "n1")):
        with pytest.raises(ValueError, match="not a list of hosts"):
            ask(expression)


@pytest.mark.parametrize(
    ("host", "is_named"),
    [
        ("node7", True),
        ("node07", False),
        ("node99999999998", True),
        ("node", False),
        ("nodex", False),
    ],
)
def test_host_is_found_in_an_endless_list_without_writing_it_out(host, is_named):
    assert names_host(f"node[{ENDLESS}]", host) is is_named


def test_widths_and_several_brackets_of_hosts():
    assert hosts_in("r[1-2]n[01-02]x") == ("r1n01x", "r1n02x", "r2n01x", "r2n02x")
    assert names_host("r[1-2]n[01-10]x", "r2n10x")
    assert not names_host("r[1-2]n[01-10]x", "r2n1x")


def test_number_of_copies_in_a_text_is_no_size_in_memory():
    assert not _is_lost("raid10", "UUUU", "99999999999 near-copies")


def endless_record(tmp_path):
    with open(H100) as file:
        data = json.load(file)
    for path in data["files"]:
        if path.endswith(("list", "/online", "/possible")):
            data["files"][path] = f"{ENDLESS}\n"
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(data))
    return str(bad)


def test_record_with_an_endless_list_is_looked_at_to_its_end(typed, tmp_path):
    bad = endless_record(tmp_path)
    status, out, err = typed("check", "--host", bad, "--host", H100)
    assert (status, err) == (1, "")
    assert "names more than 65536 numbers" in " ".join(out.split())
    assert bad in out
    assert H100 in out


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("x"), RecursionError()])
def test_record_that_makes_hosttune_fail_hides_no_other(typed, monkeypatch, form, error):
    real = reports.check_host
    monkeypatch.setattr(
        reports,
        "check_host",
        lambda look, show, host: fail(error) if host == "bad" else real(look, show, host),
    )
    status, out, err = typed("check", "--host", "bad", "--host", H100, "--format", form)
    assert status == 2
    assert H100 in out
    assert f"bad: a fault of hosttune itself, please report it: {type(error).__name__}" in err


def fail(error):
    raise error
