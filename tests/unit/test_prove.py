"""`apply --prove`: which benches belong to a plan, what runs before and after, and that no bench stops an apply."""

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from hosttune.actions import prove
from hosttune.actions.prove import Proof, Prover, proofs_of
from hosttune.errors import HosttuneError
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.results import BenchFinding, BenchResult
from hosttune.measure.bench.statistics import Answer, Interval
from hosttune.values import ABSENT, Action, Activation, Address, Change, Outcome, Phase, Plan, Receipt, Stage
from hosttune.views.page import Page
from hosttune.views.prove import describe_intent, measured_sections, proven_json
from hosttune.views.terminal import Screen
from hosttune.views.text import blocks_text
from tests.unit.schemas import SCHEMAS, faults
from tests.unit.test_cli import run, surroundings

FLAG = Change(Address("mount", "/data"), Action.UPDATE, "relatime", "noatime", "storage-noatime")
LINE = Change(Address("fstab", "/data"), Action.UPDATE, "defaults", "defaults,noatime", "storage-noatime")
OTHER = Change(Address("mount", "/my data"), Action.UPDATE, "relatime", "noatime", "storage-noatime")
TMP = Change(
    Address("fstab-line", "/tmp"), Action.CREATE, ABSENT, "tmpfs /tmp tmpfs size=10% 0 0", "storage-tmp-tmpfs",
    activation=Activation.REBOOT,
)  # fmt: skip
SWAP = Change(Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", "memory-swappiness")
NOATIME = Proof("storage-noatime", "atime", "/data")


__all__ = ["run", "surroundings"]  # fixtures: commands that see an overlay of a built host


def plan_of(*changes):
    return Plan("0" * 64, "0", "", "", "", (Stage(changes),) if changes else (), ())


def receipt_of(*changes, phase=Phase.DONE):
    return Receipt("run", "0" * 64, tuple(Outcome(change, phase) for change in changes))


def result(mounted="relatime", base=0.0, other=15e6, seed=7):
    faster, same = Interval(1.046, 1.042, 1.049), Interval(1.001, 0.995, 1.005)
    return BenchResult(
        "atime", "2026-11-19T10:00:00+00:00", "6.8.0", "u", "ext4", "/data", "/data", seed,
        (BenchFinding("read", Answer.DIFFERS, faster, same, 160, 0.01, ""),),
        MappingProxyType({"written_bytes_base": base, "written_bytes_other": other, "copies": 4000.0}),
        MappingProxyType({"mounted": mounted, "other": "relatime"}),
    )  # fmt: skip


def prover_of(measure, *proofs):
    return Prover(proofs or (NOATIME,), measure, lambda _: None)


def closed(_):
    raise GateClosed("this host is busy", hint="wait")


@pytest.mark.parametrize(
    ("changes", "proofs"),
    [
        pytest.param((FLAG, LINE), (NOATIME,), id="one bench for a mount"),
        pytest.param((FLAG, OTHER), (NOATIME, replace(NOATIME, path="/my data")), id="each mount its own"),
        pytest.param((LINE,), (), id="only the line: nothing changes now"),
        pytest.param((TMP, TMP), (Proof("storage-tmp-tmpfs", "tmp", "/tmp", is_later=True),), id="/tmp at the reboot"),
        pytest.param((SWAP,), (), id="a rule without a bench"),
        pytest.param((), (), id="nothing to do"),
    ],
)
def test_proofs_of_plan_are_the_benches_of_its_rules(changes, proofs):
    assert proofs_of(plan_of(*changes)) == proofs


def test_prover_measures_before_and_after():
    asked = []
    results = iter([result(), result("noatime")])
    prover = prover_of(lambda proof: asked.append(proof) or next(results))
    prover.before()
    (proven,) = prover.after(receipt_of(FLAG, LINE))
    assert asked == [NOATIME, NOATIME]
    assert (proven.before, proven.after, proven.why) == (result(), result("noatime"), ())


@pytest.mark.parametrize("error", [GateClosed("busy"), HosttuneError("no room"), OSError(5, "Input/output error")])
def test_prover_bench_that_is_refused_is_said_and_stops_nothing(error):
    def measure(_):
        raise error

    prover = prover_of(measure)
    prover.before()
    (proven,) = prover.after(receipt_of(FLAG))
    assert proven == prove.Proven(NOATIME, None, None, (f"before: not measured: {error}",))


def test_prover_without_a_before_measures_no_after():
    asked = []

    def measure(proof):
        asked.append(proof)
        raise GateClosed("busy")

    prover = prover_of(measure)
    prover.before()
    prover.after(receipt_of(FLAG))
    assert len(asked) == 1


def test_prover_after_that_is_refused_keeps_the_before():
    asked = []

    def measure(proof):
        asked.append(proof)
        return result() if len(asked) == 1 else closed(proof)

    prover = prover_of(measure)
    prover.before()
    (proven,) = prover.after(receipt_of(FLAG))
    assert (proven.before, proven.after) == (result(), None)
    assert proven.why == ("after: not measured: this host is busy",)


@pytest.mark.parametrize("receipt", [receipt_of(FLAG, phase=Phase.FAILED), receipt_of(SWAP), receipt_of()])
def test_prover_change_that_was_not_made_has_no_after(receipt):
    asked = []
    prover = prover_of(lambda proof: asked.append(proof) or result())
    prover.before()
    (proven,) = prover.after(receipt)
    assert (len(asked), proven.after, proven.why) == (1, None, ("after: the change was not made",))


def test_prover_change_of_the_next_boot_has_its_after_later():
    proof = Proof("storage-tmp-tmpfs", "tmp", "/tmp", is_later=True)
    asked = []
    prover = prover_of(lambda one: asked.append(one) or result(), proof)
    prover.before()
    (proven,) = prover.after(receipt_of(TMP))
    assert (asked, proven.after) == ([proof], None)
    assert "after the reboot, type: sudo hosttune bench tmp --dir /var/tmp" in blocks_text(
        measured_sections((proven,), Page(sudo="sudo ")), Screen(120)
    )


def test_bench_runs_with_the_seed_and_keeps_the_result(monkeypatch):
    from hosttune.measure.bench import atime, results, tmp

    kept, asked = [], []
    monkeypatch.setattr(atime, "bench_atime", lambda path, seed, options, tell: asked.append((path, seed)) or result())
    monkeypatch.setattr(tmp, "bench_tmp", lambda seed, options, tell: asked.append((options.folder, seed)) or result())
    monkeypatch.setattr(results, "save", kept.append)
    measure = prove.bench(7, lambda _: None)
    assert measure(NOATIME) == result()
    measure(Proof("storage-tmp-tmpfs", "tmp", "/tmp", is_later=True))
    assert asked == [("/data", 7), ("/tmp", 7)]
    assert kept == [result(), result()]


def test_bench_result_that_cannot_be_kept_is_told_and_stands(monkeypatch):
    from hosttune.measure.bench import atime, results

    def save(_):
        raise HosttuneError("the disk is full")

    told = []
    monkeypatch.setattr(atime, "bench_atime", lambda *_: result())
    monkeypatch.setattr(results, "save", save)
    assert prove.bench(7, told.append)(NOATIME) == result()
    assert told == ["not kept: the disk is full"]


def test_proven_text_shows_both_with_what_the_mount_writes():
    proven = prove.Proven(NOATIME, result(), result("noatime"))
    text = " ".join(blocks_text(measured_sections((proven,), Page()), Screen()).split())
    assert "before: noatime reads 4.4 % faster [4.0, 4.7]" in text
    assert "as it is mounted (relatime) the first read of 4,000 files a day writes 14.3 MiB" in text
    assert "as it is mounted (noatime) the first read of 4,000 files a day writes 0.0 MiB" in text
    assert text.count("160 pairs, the same twice 1.001 [0.995, 1.005], seed 7") == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((FLAG,), ["(2 benches, about 2 minutes at the most)", "storage-noatime: bench atime /data, before and after"]),
        ((OTHER,), ["bench atime '/my data'"]),
        ((TMP,), ["(1 bench, about 1 minute at the most)", "bench tmp --dir /tmp, before; after it comes with the"]),
        ((SWAP,), ["no change of this plan has a bench"]),
    ],
)
def test_intent_text_says_what_would_be_measured_and_how_long(changes, said):
    text = blocks_text((describe_intent(proofs_of(plan_of(*changes)), prove.MOST_S),), Screen())
    assert [one for one in said if one not in text] == []


def test_proven_json_holds_to_the_schema_of_receipts():
    proven = (prove.Proven(NOATIME, result(), None, ("after: not measured: busy",)),)
    document = proven_json(proven)
    items = SCHEMAS["receipt.json"]["properties"]["proofs"]["items"]
    assert set(document[0]) == set(items["required"])
    empty = {
        "format_version": 1,
        "run_id": "",
        "digest": "0" * 64,
        "outcomes": [],
        "waiting": [],
        "reboot_reasons": [],
        "verified": True,
        "reboot_obstacles": [],
    }
    assert faults({**empty, "proofs": document}, "receipt") == faults(empty, "receipt") == []


def test_apply_prove_without_yes_measures_nothing(run, changed, monkeypatch):
    monkeypatch.setattr(prove, "bench", lambda *_: pytest.fail("a bench was run"))
    status, out, err = run("apply", "--prove")
    assert (status, err) == (1, "")
    assert "Would be measured" in out


def test_apply_prove_runs_the_benches_around_the_changes(run, changed, monkeypatch):
    asked = []

    def bench(seed, tell):
        return lambda proof: asked.append((proof.kind, proof.path, seed)) or result()

    monkeypatch.setattr(prove, "bench", bench)
    _, out, err = run("apply", "--yes", "--prove", "--format", "json")
    document = json.loads(out)
    assert faults(document, "receipt") == []
    assert len({seed for _, _, seed in asked}) == 1
    measured = [(one["bench"], one["path"], bool(one["after"]) != one["is_later"]) for one in document["proofs"]]
    assert measured
    assert all(is_right for _, _, is_right in measured)
    assert "before the change: bench atime" in err


def test_apply_prove_with_closed_gates_ends_as_without(run, changed, monkeypatch):
    monkeypatch.setattr(prove, "bench", lambda *_: closed)
    status, out, _ = run("apply", "--yes", "--prove")
    assert "before: not measured: this host is busy" in out
    assert "are made and read back" in out
    assert run("apply", "--yes")[0] == status
