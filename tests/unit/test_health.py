"""What findings amount to for a scheduler, and how each of those who ask is told."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Event, get_native_id
from types import SimpleNamespace

import jsonschema
import pytest

from hosttune.actions.examine import examine
from hosttune.actions.health import LONGEST_S, ask, health_rules, name_gpus
from hosttune.cli import app
from hosttune.cli import health as health_command
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.decide.passes import merge_findings
from hosttune.engine.policy.policy import Drains, Policy
from hosttune.engine.policy.waiver import Waiver
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.facts.baseline import parse, why_not_alike
from hosttune.host import process
from hosttune.host.in_time import Waiting, forget_streams, in_time
from hosttune.host.known.wait_channels import waits_for_user
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.textfiles import own_file
from hosttune.values import FileValue, Finding, Hold, HoldKind, Verdict
from hosttune.verdict_words import FITNESS
from hosttune.views.health import (
    NPD_BYTES,
    SLURM_BYTES,
    health_json,
    health_line,
    health_prometheus,
    health_status,
    health_text,
)
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.hosts.built import HOSTS

ROOT = Path(__file__).resolve().parents[2]
OK = Finding("a-well", "", Verdict.OK)
GPUS = replace(OK, rule="gpu-errors")
SLOW = Finding(
    "b-slow", "0000:1b:00.0", Verdict.ADVICE, reason="8 lanes of 16", todo="reseat it", impairs=True
)
DEAD = Finding(
    "c-dead", "", Verdict.DIFFERS, reason="no GPU computes", todo="reset it", is_fault=True
)
UNSEEN = Finding("d-unseen", "", Verdict.UNKNOWN, reason="the kernel log: permission denied")
LATER = replace(DEAD, impairs=True)  # works up to the next boot
TUNABLE = Finding("e-tunable", "", Verdict.DIFFERS, reason="vm.swappiness is 60")
WAIVED = replace(DEAD, hold=Hold(HoldKind.WAIVED, "ours"))
FIT, UNKNOWN, IMPAIRED, UNFIT = Fitness


@pytest.mark.parametrize(
    ("findings", "fitness"),
    [
        ([OK], FIT), ([OK, TUNABLE], FIT), ([OK, WAIVED], FIT), ([OK, UNSEEN], UNKNOWN), ([UNSEEN, SLOW], IMPAIRED),
        ([OK, LATER], IMPAIRED), ([UNSEEN, SLOW, DEAD, OK], UNFIT),
        ([], UNKNOWN), ([replace(OK, verdict=Verdict.NOT_APPLICABLE)], UNKNOWN), ([WAIVED], UNKNOWN),
    ],
)  # fmt: skip
def test_the_worst_counts_and_what_nobody_judged_is_not_fit(findings, fitness):
    health = judge(findings)
    assert health.fitness is fitness
    assert bool(health.points) is (fitness is not FIT)
    assert [point.fitness.rank for point in health.points] == sorted(
        (p.fitness.rank for p in health.points), reverse=True
    )


def test_policy_says_what_drains():
    assert judge([DEAD], Drains(no_drain_for=frozenset({"c-dead"}))).fitness is IMPAIRED
    assert judge([SLOW], Drains(drain_for=frozenset({"b-slow"}))).fitness is UNFIT
    assert judge([LATER], Drains(drain_for=frozenset({"c-dead"}))).fitness is UNFIT


def test_fault_now_and_another_with_the_boot_is_a_fault_now():
    """Findings of one subject become one: what works up to the next boot does not hide what is dead
    already.
    """
    (both,) = merge_findings([DEAD, replace(LATER, reason="the next kernel has no module")])
    assert judge([both]).fitness is UNFIT
    assert judge(merge_findings([LATER, LATER])).fitness is IMPAIRED


CRITICAL = "HOSTTUNE CRITICAL - c-dead: no GPU computes (and 1 more) | unknown=1;;;0 impaired=0;;;0 unfit=1;;;0\n"
LONG = replace(DEAD, reason='a | "very" long\n reason ' * 40)


@pytest.mark.parametrize(
    ("form", "findings", "status", "line"),
    [
        ("slurm", [OK], 0, ""),
        ("slurm", [OK, SLOW], 0, ""),
        ("slurm", [OK, UNSEEN], 3, ""),
        ("slurm", [DEAD, SLOW], 1, "hosttune: c-dead: no GPU computes (and 1 more)\n"),
        ("nhc", [SLOW], 0, ""),
        ("nhc", [DEAD], 1, "ERROR:  nhc:  Health check failed:  hosttune:  c-dead: no GPU computes\n"),
        ("npd", [GPUS], 0, "fit\n"),
        ("npd", [OK], 0, "fit, no GPU was checked\n"),
        ("npd", [SLOW], 0, "b-slow: 0000:1b:00.0: 8 lanes of 16\n"),
        ("npd", [DEAD], 1, "c-dead: no GPU computes\n"),
        ("npd", [UNSEEN], 2, "d-unseen: the kernel log: permission denied\n"),
        ("nagios", [OK], 0, "HOSTTUNE OK - it may take work; no GPU was checked | unknown=0;;;0 impaired=0;;;0 unfit=0;;;0\n"),
        ("nagios", [GPUS], 0, "HOSTTUNE OK - it may take work | unknown=0;;;0 impaired=0;;;0 unfit=0;;;0\n"),
        ("nagios", [SLOW], 1, "HOSTTUNE WARNING - b-slow: 0000:1b:00.0: 8 lanes of 16 | unknown=0;;;0 impaired=1;;;0 unfit=0;;;0\n"),
        (
            "nagios", [UNSEEN, DEAD], 2,
            f"{CRITICAL}unknown: d-unseen: the kernel log: permission denied\n",
        ),
        ("nagios", [UNSEEN], 3, "HOSTTUNE UNKNOWN - d-unseen: the kernel log: permission denied | unknown=1;;;0 impaired=0;;;0 unfit=0;;;0\n"),
    ],
)  # fmt: skip
def test_every_consumer_gets_its_line_and_its_status(form, findings, status, line):
    health = judge(findings)
    assert health_line(health, form) == line
    assert health_status(health, form) == status


@pytest.mark.parametrize(
    ("form", "most"), [("slurm", SLURM_BYTES), ("npd", NPD_BYTES), ("nhc", 2000), ("nagios", 2000)]
)
def test_line_keeps_to_its_length_and_steers_nothing(form, most):
    text = health_line(judge([LONG]), form)
    assert len(text.encode()) <= most + 1
    assert text.count("\n") == 1
    assert '"' not in text
    assert text.count("|") == (form == "nagios")


@pytest.mark.parametrize("form", ["npd", "nagios"])
def test_fit_says_what_was_not_judged_of_gpus_of_others_than_nvidia(form):
    found = replace(OK, rule="gpu-other-vendors")
    line = health_line(judge([found]), form)
    assert "of AMD and Intel GPUs only driver, memory and resets are judged" in line
    assert health_status(judge([found]), form) == 0
    assert "only driver" in health_json(judge([found]), "gpu07", "")["note"]
    assert health_json(judge([GPUS]), "gpu07", "")["note"] == ""
    assert "only driver" not in health_line(judge([GPUS]), form)
    assert len(health_line(judge([found]), "npd").encode()) <= NPD_BYTES + 1


def test_fit_without_a_gpu_says_that_none_was_checked():
    """A node that lost all its GPUs, or never had one, is not taken for one whose GPUs are well."""
    assert (
        health_text(judge([OK]), Page(host="cpu01"), {}, {})
        == "cpu01: FIT; no GPU was checked (1 check)\n"
    )
    assert health_json(judge([OK]), "cpu01", "")["note"] == "no GPU was checked"
    assert health_json(judge([]), "cpu01", "")["note"] == ""
    counted = replace(
        OK, rule="gpu-count"
    )  # it counts those that vfio-pci holds for virtual machines, too
    assert health_json(judge([counted]), "kvm01", "")["note"] == "no GPU was checked"
    assert "no GPU" not in health_text(judge([GPUS]), Page(), {}, {}) + health_text(
        judge([SLOW]), Page(), {}, {}
    )


def test_metrics_name_one_fitness_and_each_thing_once():
    text = health_prometheus(judge([OK, SLOW, SLOW, DEAD]), 1764000000)
    assert [
        line
        for line in text.splitlines()
        if line.startswith("hosttune_health{") and line.endswith(" 1")
    ] == ['hosttune_health{fitness="unfit"} 1']
    assert text.count("hosttune_health_point{") == 2
    assert 'hosttune_health_points{fitness="impaired"} 2' in text
    assert "hosttune_health_timestamp_seconds 1764000000" in text


def sleep():
    return subprocess.run(["sleep", "3210"], check=True, capture_output=True).stdout


def test_work_is_done_side_by_side_and_nobody_waits_for_what_hangs(tmp_path):
    import time

    started = time.monotonic()
    answers = in_time(
        {
            "quick": lambda: b"there",
            "long": lambda: b"x" * 300_000,  # more than a pipe holds
            "hangs": sleep,
            "fails": lambda: b"%d" % (1 // 0),
        },
        1.0,
    )
    assert time.monotonic() - started < 60
    assert (answers["quick"], len(answers["long"])) == (b"there", 300_000)
    assert answers["hangs"] == Waiting("", stuck=False)
    assert answers["fails"] == Waiting("", stuck=False)
    listed = subprocess.run(
        ["pgrep", "-f", "sleep 3210"], capture_output=True, text=True, check=False
    ).stdout.split()
    assert listed == []  # what was started is ended with the child


def test_what_comes_after_many_that_hang_is_asked_all_the_same(monkeypatch):
    monkeypatch.setattr("hosttune.host.in_time._PATIENCE_S", 0.001)  # 30 times that, beside load
    hang = {f"hangs {number}": lambda: bytes(Event().wait()) for number in range(30)}
    answers = in_time({**hang, "last": lambda: b"there"}, 1.0)
    assert answers.pop("last") == b"there"
    assert set(answers.values()) == {Waiting("", stuck=False)}


def test_what_answers_at_once_is_done_by_one_thread(monkeypatch):
    monkeypatch.setattr("hosttune.host.in_time._PATIENCE_S", 60.0)
    answers = in_time(
        {str(number): lambda: str(get_native_id()).encode() for number in range(10)}, 600.0
    )
    assert len(set(answers.values())) == 1


def asks_long():
    """Asks as facts do: the program leads a session of its own, and has started another one."""
    done = process.look(["sh", "-c", "sleep 4217 & sleep 4217; echo"], timeout_s=100.0)
    return str(done).encode()


def test_programs_that_are_asked_end_with_the_time():
    answers = in_time({"asks": asks_long, "other": lambda: b"fine"}, 1.0)
    assert answers == {"asks": Waiting("sh", stuck=False), "other": b"fine"}
    listed = subprocess.run(
        ["pgrep", "-f", "sleep 4217"], capture_output=True, text=True, check=False
    ).stdout.split()
    assert listed == []


def test_program_that_waits_for_its_child_in_the_kernel_is_not_stuck(tmp_path):
    """vfork(2): its parent is in state D until the child has gone, and still ends with signal 9."""
    code = "import ctypes; ctypes.CDLL(None).vfork() or __import__('time').sleep(30)"
    answers = in_time(
        {
            "vfork": lambda: str(
                process.look([sys.executable, "-c", code], timeout_s=100.0)
            ).encode()
        },
        2.0,
    )
    waiting = answers["vfork"]
    assert isinstance(waiting, Waiting)
    assert not waiting.stuck


def test_what_another_thread_is_importing_is_imported_anew(tmp_path, monkeypatch):
    """That thread does not go on in the child, and nobody else would give back the lock of the
    module.
    """
    begun, goes_on, here = threading.Event(), threading.Event(), os.getpid()
    monkeypatch.setattr(
        sys,
        "wait_here",
        lambda: os.getpid() == here and (begun.set(), goes_on.wait()),
        raising=False,
    )
    (tmp_path / "slowly_imported.py").write_text(
        "import sys\nsys.wait_here()\nfound = b'imported'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    thread = threading.Thread(target=import_module, args=("slowly_imported",))
    thread.start()
    begun.wait()
    try:
        answers = in_time({"imports": lambda: import_module("slowly_imported").found}, 5.0)
    finally:
        goes_on.set()
        thread.join()
    assert answers == {"imports": b"imported"}


def test_status_names_no_rule_where_none_can_judge(capsys):
    options = [
        word for rule in health_rules(builtin_catalog(), Policy()) for word in ("--ignore", rule)
    ]
    assert app.run(["health", "--host", str(HOSTS / "a100-cloud-vm.json"), *options]) == 1
    assert "Exit status 1: UNKNOWN.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("--only", "memory-swappiness"),
            "--only memory-swappiness leaves no rule that can judge this host",
        ),
        (("--ignore", "ALL"), "no rule can judge this host"),
    ],
)
def test_host_that_no_rule_may_judge_is_not_fit(words, why, capsys):
    rules = [*health_rules(builtin_catalog(), Policy())]
    options = (
        [word for rule in rules for word in ("--ignore", rule)] if words[1] == "ALL" else [*words]
    )
    assert (
        app.run(
            ["health", "--host", str(HOSTS / "a100-cloud-vm.json"), "--format", "nagios", *options]
        )
        == 3
    )
    assert capsys.readouterr().out.startswith(f"HOSTTUNE UNKNOWN - hosttune: {why}")


@pytest.mark.parametrize(
    ("function", "is_of_user"),
    [
        ("request_wait_answer", True),
        ("fuse_get_req", True),
        ("do_lock_mount.part.0", True),
        ("ext4_buffered_write_iter", True),
        ("io_schedule", False),
        ("pipe_read", False),
    ],
)
def test_server_and_lock_of_a_user_are_no_fault(monkeypatch, function, is_of_user):
    """A FUSE server that knows no interrupts keeps who asks it in state D, and no signal ends
    that.
    """
    assert waits_for_user(function) is is_of_user
    stuck = Waiting("/data", stuck=True, is_of_user=is_of_user)
    monkeypatch.setattr(
        "hosttune.actions.health.in_time", lambda work, _: dict.fromkeys(work, stuck)
    )
    one = session()
    found = ask(examine(Live(one.reader, ""), one.catalog, one.policy, collect=False), 2)
    assert {rule.is_fault for rule in found} == {not is_of_user}


def test_output_that_is_the_input_too_is_let_go(monkeypatch):
    """As the socket of a service: who reads it waits for its end."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        for number in (0, 1, 2):
            os.dup2(theirs.fileno(), number)
        ours.close()
        theirs.close()
        forget_streams()
        os.read(0, 1)
        time.sleep(60)
        os._exit(0)
    theirs.close()
    ours.settimeout(20)
    try:
        assert ours.recv(1) == b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        ours.close()


@pytest.mark.parametrize(("seconds", "way_out"), [(20, "--within 40s"), (600, "sudo dmesg")])
def test_no_longer_time_is_advised_than_may_be_given(monkeypatch, seconds, way_out):
    late = Waiting("nvidia-smi", stuck=False)
    monkeypatch.setattr(
        "hosttune.actions.health.in_time", lambda work, _: dict.fromkeys(work, late)
    )
    one = session()
    found = ask(examine(Live(one.reader, ""), one.catalog, one.policy, collect=False), seconds)
    assert all(way_out in finding.todo for finding in found)
    assert LONGEST_S == health_command.LONGEST_S


def test_waiver_covers_what_is_stuck(monkeypatch):
    stuck = Waiting("nvidia-smi", stuck=True)
    monkeypatch.setattr(
        "hosttune.actions.health.in_time", lambda work, _: dict.fromkeys(work, stuck)
    )
    one = session()
    waived = Waiver("gpu-errors", "known", owner="ops", until="2099-01-01")
    policy = replace(one.policy, waivers=(waived,))
    found = {
        finding.rule: finding
        for finding in ask(examine(Live(one.reader, ""), one.catalog, policy, collect=False), 2)
    }
    assert found["gpu-errors"].hold.kind is HoldKind.WAIVED
    assert found["gpu-fabric"].is_fault
    assert "nvidia-smi hangs in the kernel" in found["gpu-fabric"].reason


def session(name="h100-8x-2socket.json"):
    catalog = builtin_catalog()
    policy = Policy(today="2026-11-01")
    return examine(
        read_record(str(HOSTS / name)),
        catalog,
        replace(policy, sole=health_rules(catalog, policy)),
        collect=False,
    )


def test_gpu_that_is_held_for_a_virtual_machine_is_not_called_fit():
    """canonical/lxd issue 12128: vfio-pci keeps it after its machine has ended; no check of this
    host reaches it.
    """
    one = session()
    links = one.reader.data["links"]
    links[next(name for name in links if name.endswith("/0000:1b:00.0/driver"))] = (
        "/sys/bus/pci/drivers/vfio-pci"
    )
    gpus = name_gpus(one, 1)
    assert gpus["0000:1b:00.0"] == ("NVIDIA H100 80GB HBM3", "vfio-pci")
    rows = health_text(judge([GPUS]), Page(screen=Screen(200)), {}, gpus).splitlines()
    assert [row.partition("HBM3")[2].strip() for row in rows if ":00.0" in row] == [
        "not checked: vfio-pci holds it for virtual machines", *["FIT"] * 7,
    ]  # fmt: skip


class Live:
    """A record that answers as the running host, and where asked for it, not."""

    def __init__(self, record, hangs):
        self.record, self.hangs, self.kind = record, hangs, "live"

    def __getattr__(self, name):
        return getattr(self.record, name)

    def query(self, argv, *, timeout_s=10.0):
        if argv[0] == self.hangs:
            import time

            time.sleep(3210)
        return self.record.query(argv, timeout_s=timeout_s)


def test_what_a_running_host_says_is_what_its_record_says():
    one = session()
    told = ask(one, 60)
    live = examine(Live(one.reader, ""), one.catalog, one.policy, collect=False)
    assert {(f.rule, f.subject, f.verdict, f.reason) for f in ask(live, 60)} == {
        (f.rule, f.subject, f.verdict, f.reason) for f in told
    }


def test_nvidia_smi_that_does_not_answer_in_time_is_unknown_and_named():
    one = session()
    live = examine(Live(one.reader, "nvidia-smi"), one.catalog, one.policy, collect=False)
    found = {f.rule: f for f in ask(live, 2)}
    assert found["gpu-errors"].verdict is Verdict.UNKNOWN
    assert "has not answered within 2 s" in found["gpu-errors"].reason
    assert found["storage-stopped"].verdict in {Verdict.OK, Verdict.NOT_APPLICABLE}
    assert judge(found.values()).fitness is UNKNOWN


def test_a_rule_of_ours_that_breaks_hides_no_other(monkeypatch):
    one = session()
    live = examine(Live(one.reader, ""), one.catalog, one.policy, collect=False)
    looks = type(live).look

    def look(self, facts, *more):
        if self.policy.sole == ("gpu-errors",):
            raise KeyError("a bug")
        return looks(self, facts, *more)

    monkeypatch.setattr(type(live), "look", look)
    found = {f.rule: f for f in ask(live, 60)}
    assert "hosttune itself failed here: KeyError: 'a bug'" in found["gpu-errors"].reason
    assert found["gpu-pcie-link"].verdict is Verdict.OK


def test_rules_are_those_that_tell_health_whatever_the_profile(tmp_path):
    catalog = builtin_catalog()
    names = health_rules(catalog, Policy(profile="workstation"))
    assert {"gpu-errors", "gpu-driver-health", "storage-stopped", "gpu-fabric"} <= {*names}
    assert "memory-swappiness" not in names
    assert "gpu-errors" not in health_rules(catalog, Policy(ignore=("gpu-errors",)))
    assert health_rules(catalog, Policy(sole=("gpu-errors", "memory-swappiness"))) == (
        "gpu-errors",
    )


@pytest.mark.parametrize("record", sorted(HOSTS.glob("*.json")), ids=lambda path: path.stem)
def test_command_on_every_built_host(record, capsys):
    status = app.run(["health", "--host", str(record), "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, json.loads(own_file("schemas/health.json")))
    assert status == (data["fitness"] != "fit")
    assert app.run(["health", "--host", str(record)]) == status
    assert f": {FITNESS[data['fitness']].verdict}" in capsys.readouterr().out
    expected = {
        "a100-cloud-vm": "unfit",
        "workstation-rtx4090": "unfit",
        "container-docker": "unknown",
    }
    assert data["fitness"] == expected.get(record.stem, "fit")


@pytest.mark.parametrize("text", ["0", "0.1s", "5h", "-1s", "x", "11m", ""])
def test_time_that_is_none_is_refused(text, capsys):
    assert app.run(["health", "--within", text]) == 2
    assert "--within" in capsys.readouterr().err


def test_policy_file_names_what_drains(tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text("no_drain_for: [gpu-driver]\n")
    words = [
        "health",
        "--host",
        str(HOSTS / "workstation-rtx4090.json"),
        "--policy",
        str(policy),
        "--format",
        "nagios",
    ]
    assert app.run(words) == 1
    assert capsys.readouterr().out.startswith("HOSTTUNE WARNING - gpu-driver: ")
    policy.write_text("drain_for: [no-such-rule]\n")
    assert app.run(words) == 3
    assert capsys.readouterr().out.startswith("HOSTTUNE UNKNOWN - hosttune: ")
    assert app.run([*words[:-1], "npd"]) == 2
    capsys.readouterr()
    policy.write_text("hosts: {'*': {drain_for: [memory-swappiness]}}\n")
    assert app.run(words) == 3
    assert "health` never asks memory-swappiness" in capsys.readouterr().out
    policy.write_text("drain_for: [no-such-rule]\n")
    assert app.run(words[:-2]) == 2
    assert "no-such-rule" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fitness", "reason", "acts"),
    [
        ("unfit", "", "update NodeName=gpu07 State=DRAIN Reason=hosttune: a GPU is lost\n"),
        (
            "unfit",
            "DRAIN",
            "",
        ),  # somebody's, without a reason: the next look would take it for its own
        ("fit", "DRAIN", ""),
        ("unfit", "hosttune: a GPU is lost [root@2026-11-22T10:00:00]", ""),
        ("unfit", "disk swap, do not touch [ann@2026-11-22T10:00:00]", ""),
        (
            "fit",
            "hosttune: a GPU is lost [root@2026-11-22T10:00:00]",
            "update NodeName=gpu07 State=RESUME\n",
        ),
        ("fit", "disk swap, do not touch [ann@2026-11-22T10:00:00]", ""),
        ("fit", "", ""),
        ("unknown", "hosttune: a GPU is lost [root@2026-11-22T10:00:00]", ""),
        ("trouble", "hosttune: a GPU is lost [root@2026-11-22T10:00:00]", ""),
    ],
)
def test_script_for_slurm_drains_and_takes_back_only_its_own(tmp_path, fitness, reason, acts):
    """The script of docs/how-to/health.md, with programs of ours in the place of hosttune, hostname
    and scontrol.
    """
    text = (ROOT / "docs" / "how-to" / "health.md").read_text(encoding="utf-8")
    script = next(block for block in text.split("```") if block.startswith("sh\n"))[3:]
    says = {
        "unfit": "echo hosttune: a GPU is lost; exit 1",
        "fit": "exit 0",
        "trouble": "exit 2",
        "unknown": "exit 3",
    }
    state, why = ("IDLE+DRAIN", "") if reason == "DRAIN" else ("IDLE", reason)
    rows = [
        "NodeName=gpu07 Arch=x86_64",
        f"State={state} Weight=1",
        *([f"Reason={why}"] if why else []),
    ]
    node = "\n   ".join((*rows, "Comment=rack 7 Reason=hosttune: x"))
    programs = {
        "hosttune": says[fitness],
        "hostname": "echo gpu07",
        "scontrol": f'case $1 in update) echo "$@" >>"$0.acts" ;; *) echo "{node}" ;; esac',
        "health": script.partition("\n")[2],
    }
    for name, lines in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "health").write_text(
        (tmp_path / "health").read_text().replace("PATH=/usr/sbin", f"PATH={tmp_path}:/usr/sbin")
    )
    subprocess.run(
        [tmp_path / "health"], check=False, env={**os.environ, "SLURMD_NODENAME": ""}, timeout=60
    )
    done = tmp_path / "scontrol.acts"
    assert (done.read_text() if done.exists() else "") == acts


@pytest.mark.parametrize(
    "rule", ["storage-noatime", "host-baseline"]
)  # says nothing of health; not applicable here
def test_rules_that_only_leaves_out_are_why_nobody_judges(capsys, rule):
    assert app.run(["health", "--only", rule, "--host", str(HOSTS / "h100-8x-2socket.json")]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert f"--only {rule} leaves no rule that can judge this host do: ask without --only" in told
    assert "container" not in told


def test_health_ends_with_the_rules_that_decide_and_with_what_explains_them(capsys):
    app.run(["health", "--host", str(HOSTS / "a100-cloud-vm.json")])
    end = capsys.readouterr().out.partition("Exit status 1: ")[2].splitlines()
    assert end[0] == "NOT FIT by gpu-driver."
    assert end[1:3] == ["", "Next"]
    assert "explain --host" in end[3]
    assert " gpu-driver  says why, and what to do" in end[3]
    app.run(["health", "--host", str(HOSTS / "h100-8x-2socket.json")])
    fit = capsys.readouterr().out
    assert ("Exit status" in fit, "Next" in fit) == (False, False)


@pytest.mark.parametrize("name", ["h100-8x-2socket", "a100-cloud-vm"])
def test_verbose_lists_what_was_asked_and_found_nothing(capsys, name):
    words = ["health", "--host", str(HOSTS / f"{name}.json")]
    app.run([*words, "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    fine = {*told["asked"]} - {point["rule"] for point in told["points"]}
    app.run(words)
    assert "Asked, and" not in capsys.readouterr().out
    app.run([*words, "-v"])
    long = capsys.readouterr().out
    assert fine
    assert f"\nAsked, and nothing against work ({len(fine)})\n" in long
    asked = long.partition("Asked, and")[2].partition("\nNext\n")[0]
    listed = {line.split()[0] for line in asked.splitlines()[1:] if line.startswith("  ")}
    assert listed == fine


def test_only_root_learns_and_only_of_a_healthy_host(capsys, monkeypatch):
    words = ["health", "--learn", "--host", str(HOSTS / "h100-8x-2socket.json")]
    monkeypatch.setattr("hosttune.host.reading.live.LiveReader.is_privileged", False)
    assert app.run(words) == 2
    assert f" health --learn --host {words[-1]}\n" in capsys.readouterr().err
    monkeypatch.setattr("hosttune.host.reading.live.LiveReader.is_privileged", True)
    monkeypatch.setattr(
        "hosttune.cli.health._look_at_health", lambda *_, **__: (judge([DEAD]), None)
    )
    assert app.run(words) == 2
    assert (
        "nothing was learned, for the host is NOT FIT: no GPU computes" in capsys.readouterr().err
    )
    assert app.run(["health", "--learn", "--root", "/"]) == 2


def test_what_is_learned_of_a_sibling_is_kept_for_this_host(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "hosttune.host.writing.state.name_folder", lambda part: str(tmp_path / part)
    )
    own = Overlay(read_record(str(HOSTS / "h100-8x-2socket.json")))
    other = FileValue(b"0123456789abcdef0123456789abcdef\n")
    own.replace("/etc/machine-id", other, expected=own.read("/etc/machine-id"))
    monkeypatch.setattr("hosttune.host.reading.live.LiveReader", lambda: own)
    assert app.run(["health", "--learn", "--host", str(HOSTS / "h100-8x-2socket.json")]) == 0
    told = capsys.readouterr().out
    assert "is learned: this host is compared with it from now on" in told
    assert "counters" not in told
    assert "GPUs: 8\n" in told
    kept = parse((tmp_path / "health" / "baseline.json").read_text())
    assert [part.amount for part in kept.parts if part.name == "GPUs"] == [8]


@pytest.mark.parametrize(
    ("sibling", "own", "words"),
    [
        ("h100-8x-2socket", "h100-8x-2socket", []),
        (
            "gh200-arm64",
            "h100-8x-2socket",
            ["architecture aarch64, here x86_64", "product ", "processor Neoverse-V2"],
        ),
    ],
)
def test_only_a_host_of_the_same_model_is_a_sibling(sibling, own, words):
    found = why_not_alike(
        *(Facts(read_record(str(HOSTS / f"{name}.json"))) for name in (sibling, own))
    )
    assert bool(found) is bool(words)
    assert all(word in "; ".join(found) for word in words)


def test_gpu_that_the_sibling_alone_has_may_be_lost_here():
    def host(**boards):
        devices = tuple(
            SimpleNamespace(device_id=board, name=name) for board, name in boards.items()
        )
        return SimpleNamespace(
            kernel=SimpleNamespace(architecture="x86_64"), host=SimpleNamespace(product="a server"),
            cpu=SimpleNamespace(model="a processor"), gpus=SimpleNamespace(devices=devices),
        )  # fmt: skip

    one, both = {"0x20b0": "A100"}, {"0x20b0": "A100", "0x2330": "H100"}
    assert why_not_alike(host(**both), host(**one)) == ()
    assert why_not_alike(host(**one), host(**both)) == ("GPUs A100, here A100, H100",)
    assert why_not_alike(host(), host(**one)) == ("GPUs none, here A100",)


def test_record_of_another_machine_is_not_learned(capsys, monkeypatch, tmp_path):
    own = read_record(str(HOSTS / "h100-8x-2socket.json"))
    monkeypatch.setattr("hosttune.host.reading.live.LiveReader", lambda: own)
    monkeypatch.setattr(
        "hosttune.host.writing.state.name_folder", lambda part: str(tmp_path / part)
    )
    assert app.run(["health", "--learn", "--host", str(HOSTS / "gh200-arm64.json")]) == 2
    assert (
        "is not a sibling of this host (architecture aarch64, here x86_64; "
        in capsys.readouterr().err
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("form", "status"), [("nagios", 3), ("npd", 2)])
@pytest.mark.parametrize("words", [[], ["--host", str(HOSTS / "a100-cloud-vm.json")]])
def test_fault_of_hosttune_itself_is_unknown_to_who_reads_one_line(
    form, status, words, monkeypatch, capfd
):
    """2, the usual status of trouble, is that of a host that is not fit to Nagios."""

    def fail(*_, **__):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("hosttune.actions.health.ask", fail)
    monkeypatch.setattr("sys.stdout", sys.__stdout__)
    assert app.run(["health", *words, "--format", form]) == status
    assert "fault of hosttune itself: ZeroDivisionError: boom" in capfd.readouterr().out


@pytest.mark.parametrize("words", [[], ["--debug"]])
def test_host_on_which_no_process_can_be_started_is_unknown(words, monkeypatch, capsys):
    def fail():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fail)
    assert app.run(["health", "--format", "nagios", *words]) == 3
    assert "no process could be started: Resource temporarily" in capsys.readouterr().out
    assert app.run(["health", *words]) == 2
    assert "fault of hosttune" not in capsys.readouterr().err
