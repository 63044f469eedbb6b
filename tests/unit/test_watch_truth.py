"""Ticks of jobs whose limit is known, recorded by tests.benchmarks.watch_truth (none of those that
it holds back), with other work of the machine taken out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hosttune.measure.views.watch_words import make_headline
from hosttune.measure.watch.recording import replay
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.tick import Want
from hosttune.measure.watch.verdict import Confidence
from tests.benchmarks import truth_job
from tests.benchmarks.truth_guest import job as guest_job
from tests.benchmarks.truth_scenario import stem
from tests.benchmarks.watch_truth import SCENARIOS, is_held_back, is_later, is_unseen
from tests.unit.watch_scenarios import judged

FOLDER = Path(__file__).resolve().parent / "watch_ticks/truth"
# name -> state, what it sleeps on, a word of the sentence
TRUTHS = {
    "C, one thread": ("WORKERS", None, "limit of one core"),
    "short gzips one after the other": ("WORKERS", None, "one after the other"),
    "gzip of 1 s each": ("WORKERS", None, "CPUs are free"),
    "make -j1": ("WORKERS", None, "one after the other"),
    "turns under a lock": ("WORKERS", None, "CPUs are free"),
    "quota half a CPU, one thread": ("LIMIT", None, "its quota gives it 0.5 of 2 CPUs"),
    "quota set late": ("LIMIT", None, "its quota gives it 0.4 of 2 CPUs"),
    "quota, short gzips": ("LIMIT", None, "its quota gives it 0.5 of 2 CPUs"),
    "affinity one CPU, four workers": ("LIMIT", None, "its affinity gives it 1 of 2 CPUs"),
    "cpuset of one CPU": ("LIMIT", None, "its cpuset gives it 1 of 2 CPUs"),
    "a connection for each request": ("WAIT", Want.NETWORK, "it waits for the network (127.0.0.1:"),
    "curl": ("WAIT", Want.NETWORK, "it waits for the network"),
    "fetch and compute a third": ("WAIT", Want.NETWORK, "it waits for the network"),
    "flock of a shell": ("WAIT", Want.LOCK, ".lock)"),
    "cat of a pipe": ("WAIT", Want.PEER, "the pipe /srv/job/"),
    "a shell that sleeps": ("IDLE", None, "it did next to nothing"),
    "a store, then one thread": ("WORKERS", Want.NETWORK, "(WORKERS 60 % and WAIT 40 %)"),
    "tar of a cold folder": ("DISK", None, "it waits for storage: "),
}


def seen(name):
    watched, ticks = replay(str(FOLDER / f"{stem(name)}.jsonl"))
    verdict, account = judged(ticks, watched)
    return verdict, account, make_headline(verdict, account)


def test_what_is_recorded_was_not_held_back_and_all_of_it_is_tried():
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == {stem(name) for name in TRUTHS}
    assert TRUTHS.keys() <= SCENARIOS.keys()
    assert not any(is_held_back(name) for name in TRUTHS)


@pytest.mark.parametrize("name", TRUTHS)
def test_job_whose_limit_is_known_gets_its_verdict(name):
    state, kind, words = TRUTHS[name]
    verdict, _, sentence = seen(name)
    assert (verdict.state.value, words in sentence) == (state, True), sentence
    assert verdict.waits_for is kind or kind is None
    assert verdict.confidence is (Confidence.LOW if state == "IDLE" else Confidence.MEDIUM)


@pytest.mark.parametrize("name", TRUTHS)
def test_advice_fits_a_host_without_gpu_and_programs_that_are_no_loaders(name):
    verdict, account, _ = seen(name)
    texts = " ".join(advice.text for advice in choose_remedies(verdict, account))
    assert "GPU" not in texts
    assert "pin_memory" not in texts
    if name in {"C, one thread", "make -j1", "short gzips one after the other", "gzip of 1 s each"}:
        assert "DataLoader" not in texts
        assert "run several" in texts


def test_limit_says_who_sets_it_and_where():
    verdict, account, _ = seen("quota half a CPU, one thread")
    assert [advice.text for advice in choose_remedies(verdict, account)] == [
        "give it more CPUs: /sys/fs/cgroup/cpu/job/cpu.cfs_quota_us sets it"
    ]
    verdict, account, _ = seen("affinity one CPU, four workers")
    assert "taskset" in choose_remedies(verdict, account)[0].text


def test_two_phases_are_both_named_with_their_shares_and_advised_on():
    verdict, account, sentence = seen("a store, then one thread")
    assert {share.state.value for share in verdict.shares if share.share >= 0.2} == {
        "WAIT",
        "WORKERS",
    }
    assert sentence.endswith("(WORKERS 60 % and WAIT 40 %)")
    texts = " ".join(advice.text for advice in choose_remedies(verdict, account))
    assert "run several of it at once" in texts
    assert "ask for more at once" in texts


def test_what_nobody_has_seen_is_held_back_and_more_than_thirty():
    unseen = [name for name in SCENARIOS if is_unseen(name)]
    assert 30 <= len(unseen) <= len({stem(name) for name in unseen})
    assert all(is_held_back(name) and not is_later(name) for name in unseen)
    assert {word for name in unseen for one in SCENARIOS[name].truths for word in re.split(r"[+ ]", one)} >= {
        "CPU", "DISK", "FOREIGN", "IDLE", "LIMIT", "MEM", "WAIT", "WORKERS",
    }  # fmt: skip


WORDS = {"seconds": "40", "data": "/mnt/truth", "dir": "/srv/truth", "port": "20001"}


@pytest.mark.parametrize("name", [name for name, one in SCENARIOS.items() if one.is_in_guest])
def test_job_in_a_guest_runs_in_a_scope_with_its_limits(name):
    one = SCENARIOS[name]
    line = guest_job(one, WORDS)
    assert ("--scope" in line) is bool(one.scope)
    for limit in one.scope:
        word = limit if not limit.startswith("Slice=") else "--slice=small.slice"
        assert word in line
    json.loads(line[-1])
    assert line[-2] == "40"
    assert not any("{" in word for word in line[:-1])


def test_steps_of_jobs_do_what_they_say(tmp_path):
    held = {}
    truth_job.KEPT, kept = held, truth_job.KEPT
    try:
        truth_job.touched(2)
        assert len(held["touched"]) == 2 << 20
        assert {held["touched"][0], held["touched"][4096]} == {held["touched"][(1 << 20) + 8192]}
    finally:
        truth_job.KEPT = kept
    (tmp_path / "file").write_bytes(bytes(200_000))
    truth_job.read_all(str(tmp_path / "file"))
    truth_job.produced(2, 1)
    assert {"touched", "produced", "listening", "read_all"} <= truth_job.STEPS.keys()


GUEST = Path(__file__).resolve().parent / "watch_ticks/guest"
# The first ticks of jobs that ran in a Debian guest (`watch_truth --guest`), once; nothing was
# tuned for them.
GUEST_TRUTHS = {
    "unseen: v2: quota of 40 %, one thread": ("LIMIT", None, "its quota gives it 0.4 of 2 CPUs"),
    "unseen: v2: quota of a slice": ("LIMIT", None, "its quota gives it 0.5 of 2 CPUs"),
    "unseen: v2: one CPU allowed, three processes": (
        "LIMIT",
        None,
        "its cpuset gives it 1 of 2 CPUs",
    ),
    "unseen: v2: a quota that is not reached": (
        "WAIT",
        Want.NETWORK,
        "it waits for the network (127.0.0.1:",
    ),
}


def test_all_records_of_a_guest_are_tried_and_were_held_back():
    assert {path.stem for path in GUEST.glob("*.jsonl")} == {stem(name) for name in GUEST_TRUTHS}
    assert all(is_held_back(name) and SCENARIOS[name].is_in_guest for name in GUEST_TRUTHS)


@pytest.mark.parametrize("name", GUEST_TRUTHS)
def test_job_of_a_guest_gets_its_verdict(name):
    state, kind, words = GUEST_TRUTHS[name]
    watched, ticks = replay(str(GUEST / f"{stem(name)}.jsonl"))
    verdict, account = judged(ticks, watched)
    assert (verdict.state.value, verdict.waits_for if kind else None) == (state, kind)
    assert words in make_headline(verdict, account)
    assert state in SCENARIOS[name].truth
