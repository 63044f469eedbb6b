"""Gates: programs of a site that say whether its host is at work."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containment import INITIAL
from hosttune.facts.gates import FOLDER, Gates, ask_gates
from hosttune.host.door import Completed, Stat
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import RecordingReader
from hosttune.values import ABSENT, FileValue, Unreadable
from tests.unit.fake_reader import FakeReader

PROGRAM = FileValue(b"#!/bin/sh\n", 0o755)


def host(answers, *, modes=None, more=None, **options):
    files = {f"{FOLDER}/{name}": PROGRAM for name in answers} | {
        f"{FOLDER}/{name}": FileValue(b"", mode, uid) for name, (mode, uid) in (modes or {}).items()
    }
    queries = {(f"{FOLDER}/{name}",): answer for name, answer in answers.items()}
    return FakeReader(files | (more or {}), queries=queries, **options)


def free(text=b""):
    return Completed(0, text, b"")


def test_no_folder_and_an_empty_one_are_free():
    assert ask_gates(FakeReader()) == Gates()
    assert ask_gates(FakeReader(folders=(FOLDER,))) == Gates()


def test_gates_are_asked_in_the_order_of_their_names_and_all_of_them():
    reader = host(
        {
            "20-b": Completed(1, b"second\n", b""),
            "10-a": Completed(1, b"\n first \nmore\n", b""),
            "9": free(),
        }
    )
    assert ask_gates(reader).busy == ("gate 10-a: first", "gate 20-b: second")
    assert reader.asked == [(f"{FOLDER}/{name}",) for name in ("10-a", "20-b", "9")]


@pytest.mark.parametrize(
    ("answer", "gates"),
    [
        (free(b"said all the same\n"), Gates()),
        (Completed(1, b"", b"noise"), Gates(busy=("gate g: the host is at work",))),
        (
            Completed(2, b"", b"no such cluster\n"),
            Gates(unknown=("gate g ended with status 2: no such cluster",)),
        ),
        (Completed(-15, b"", b""), Gates(unknown=("gate g ended with status -15",))),
        (
            Unreadable("g did not end within 10 s"),
            Gates(unknown=("gate g gave no answer: g did not end within 10 s",)),
        ),
        (ABSENT, Gates(unknown=("gate g gave no answer: it leads nowhere",))),
    ],
    ids=["free", "busy without a reason", "fails", "killed", "hangs", "gone"],
)
def test_answers_of_a_gate(answer, gates):
    assert ask_gates(host({"g": answer})) == gates


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"modes": {"g": (0o644, 0)}}, "is not executable"),
        ({"modes": {"g": (0o755, 1000)}}, "belongs to uid 1000"),
        ({"modes": {"g": (0o775, 0)}}, "others than root can write"),
        ({"modes": {"g": (0o757, 0)}}, "others than root can write"),
        (
            {"stats": {FOLDER: Stat("directory", 0o777, 0, 0, 0, 0, 1, 1, 2)}},
            f"others than root can write {FOLDER}",
        ),
        (
            {"stats": {"/etc": Stat("directory", 0o755, 7, 0, 0, 0, 1, 1, 2)}},
            "/etc belongs to uid 7",
        ),
        ({"links": {f"{FOLDER}/g": "/nowhere"}}, "it leads nowhere"),
    ],
)
def test_gate_that_somebody_else_could_have_written_is_not_run(options, why):
    reader = host({"g": free()}, **options)
    gates = ask_gates(reader)
    assert gates.busy == ()
    assert why in gates.unknown[0]
    assert reader.asked == []


def test_link_is_judged_by_where_it_leads():
    home = {"/home/alice/gate": FileValue(b"", 0o755)}
    alice = {"/home/alice": Stat("directory", 0o755, 1000, 1000, 0, 0, 1, 1, 2)}
    reader = FakeReader(home, links={f"{FOLDER}/g": "/home/alice/gate"}, stats=alice)
    assert "/home/alice belongs to uid 1000" in ask_gates(reader).unknown[0]
    own = FakeReader({"/opt/site/gate": PROGRAM}, links={f"{FOLDER}/g": "/opt/site/gate"},
                     queries={("/opt/site/gate",): Completed(1, b"drained", b"")})  # fmt: skip
    assert ask_gates(own).busy == ("gate g: drained",)


def test_names_of_editors_and_dpkg_and_folders_are_passed_over():
    names = (".hidden", "g~", "g.dpkg-dist", "g.dpkg-old")
    reader = host(dict.fromkeys(names, free()), more={f"{FOLDER}/lib/x": PROGRAM})
    assert ask_gates(reader) == Gates()
    assert reader.asked == []


def test_folder_that_cannot_be_listed_is_unknown():
    assert (
        "permission denied"
        in ask_gates(FakeReader(unreadable={FOLDER: "permission denied"})).unknown[0]
    )


def test_only_a_live_host_is_asked():
    answers = {"g": Completed(1, b"at work", b"")}
    assert ask_gates(Overlay(host(answers))).busy
    for reader in (host(answers, kind="record"), host(answers, kind="root", persistent_only=True)):
        assert ask_gates(reader) == ask_gates(Overlay(reader)) == Gates()
    recorder = RecordingReader(host(answers))
    assert ask_gates(recorder) == Gates()
    assert recorder.answers["queries"] == {}


def work(answers, **options):
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()}
    return Facts(host(answers, more={"/dev/nvidia0": ""}, links=links, **options)).work


def test_work_gate_that_says_so_is_busy_with_its_reason():
    seen = work({"slurm": Completed(1, b"allocated to job 17\n", b""), "free": free()})
    assert seen.is_gpu_busy
    assert seen.evidence == seen.gates == ("gate slurm: allocated to job 17",)


def test_work_gate_that_fails_is_unknown_not_idle():
    seen = work({"slurm": Completed(3, b"", b"no controller")})
    for name in ("is_gpu_busy", "gates"):
        with pytest.raises(UnknownFact, match="no controller"):
            getattr(seen, name)
    assert seen.gpu_processes == ()


def test_work_gates_that_are_free_is_idle():
    assert work({"slurm": free()}).is_gpu_busy is False


def test_work_gates_are_not_asked_by_an_ordinary_user_or_without_a_gpu():
    reader = host({"g": free()}, more={"/dev/nvidia0": ""}, is_privileged=False)
    with pytest.raises(UnknownFact, match="needs root"):
        _ = Facts(reader).work.is_gpu_busy
    assert reader.asked == []
    reader = host({"g": Completed(1, b"", b"")}, more={"/dev/null": ""})
    assert Facts(reader).work.is_gpu_busy is False


def test_work_gates_are_asked_once_and_only_where_it_matters_whether_the_host_is_busy():
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()}
    reader = host({"g": free()}, more={"/dev/nvidia0": ""}, links=links)
    seen = Facts(reader).work
    assert (seen.gpu_processes, seen.gpu_containers, seen.scheduler_jobs, reader.asked) == (
        (),
        (),
        (),
        [],
    )
    assert (seen.is_gpu_busy, seen.gates) == (False, ())
    assert reader.asked == [(f"{FOLDER}/g",)]
