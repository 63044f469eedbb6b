"""The hooks that are shipped for Slurm and Kubernetes, with programs of ours in place of scontrol and kubectl."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOKS = Path(__file__).resolve().parents[2] / "playbooks/provisioning/ready.d"
SHELLS = ("dash", "bash")


def called(tmp_path: Path, hook: str, words: list[str], program: str, answer: str, shell: str) -> tuple[int, list[str]]:
    """The status, and what the program was called with; asked (show, get), it answers."""
    stub = tmp_path / program
    stub.write_text(
        f"#!/bin/sh\necho \"$*\" >> {tmp_path}/calls\ncase \" $* \" in *' show '* | *' get '*) cat {tmp_path}/answer ;; esac\n"
    )
    stub.chmod(0o755)
    (tmp_path / "answer").write_text(answer)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_NODE": "gpu01", "NODE_NAME": "gpu01"}
    done = subprocess.run([shell, HOOKS / hook, *words], env=environment, timeout=20, check=False, capture_output=True)
    calls = tmp_path / "calls"
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


NODE = "NodeName=gpu01 Arch=x86_64 State=IDLE{state} RealMemory=1 {reason}\n"
DRAINED = "Reason=hosttune: the plan is not approved [root@2026-11-24T10:00:00]"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "reason", "expected"),
    [
        (["leave", "why not"], "", "update NodeName=gpu01 State=DRAIN Reason=hosttune: why not"),
        (["leave", "why not"], DRAINED, "update NodeName=gpu01 State=DRAIN Reason=hosttune: why not"),
        (["leave", "why not"], "Reason=NHC: fan [root@2026-11-24T10:00:00]", None),
        (["leave", "why not"], "Reason=the hosttune: test [bob@2026-11-24T10:00:00]", None),
        (["join", "x"], DRAINED, "update NodeName=gpu01 State=UNDRAIN"),
        (["join", "x"], "Reason=repaired by bob [bob@2026-11-24T10:00:00]", None),
        (["join", "x"], "", None),
    ],
)
def test_slurm_touches_its_own_drain_alone(tmp_path, shell, words, reason, expected):
    status, calls = called(tmp_path, "slurm", words, "scontrol", NODE.format(state="", reason=reason), shell)
    assert (status, calls) == (0, ["--oneliner show node gpu01", *([expected] if expected else [])])


@pytest.mark.parametrize("shell", SHELLS)
def test_kubernetes_sets_and_takes_its_own_taint(tmp_path, shell):
    status, calls = called(tmp_path, "kubernetes", ["leave", "x"], "kubectl", "", shell)
    assert (status, calls) == (0, ["taint node gpu01 hosttune/not-ready=:NoSchedule --overwrite --request-timeout=20s"])
    (tmp_path / "calls").unlink()
    _, calls = called(tmp_path, "kubernetes", ["join", "x"], "kubectl", "other/key hosttune/not-ready", shell)
    assert calls[-1] == "taint node gpu01 hosttune/not-ready:NoSchedule- --request-timeout=20s"
    (tmp_path / "calls").unlink()
    status, calls = called(tmp_path, "kubernetes", ["join", "x"], "kubectl", "other/key", shell)
    assert (status, len(calls)) == (0, 1)


@pytest.mark.parametrize(("hook", "program"), [("slurm", "scontrol"), ("kubernetes", "kubectl")])
def test_another_word_is_no_order(tmp_path, hook, program):
    assert called(tmp_path, hook, ["drain"], program, "", "dash")[0] == 2


@pytest.mark.parametrize("hook", ["slurm", "kubernetes"])
def test_program_that_cannot_tell_is_an_error(tmp_path, hook):
    environment = {"PATH": "/usr/bin:/bin", "SLURM_NODE": "gpu01", "NODE_NAME": "gpu01"}
    done = subprocess.run(
        ["dash", HOOKS / hook, "leave", "x"], env=environment, timeout=20, check=False, capture_output=True
    )
    assert done.returncode != 0
