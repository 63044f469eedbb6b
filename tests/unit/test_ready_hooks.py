"""The hooks that are shipped for Slurm and Kubernetes, with programs of ours in place of scontrol
and kubectl.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from hosttune.actions.gate.ready import HOOK_S

HOOKS = Path(__file__).resolve().parents[2] / "playbooks/provisioning/ready.d"
SHELLS = ("dash", "bash")
# Asked (show, get), it answers; at the call number `fails` it ends as a program does that cannot.
STUB = """\
#!/bin/sh
printf '%s\\n' "$*" >> {folder}/calls
[ "$(wc -l < {folder}/calls)" != {fails} ] || {{ echo "first line
  of what * went wrong" >&2; exit 3; }}
case " $* " in *' show '* | *' get '*) cat {folder}/answer ;; esac
"""


class Called(NamedTuple):
    """How a hook ended, and what it called its program with."""

    status: int
    calls: list[str]
    said: str


def called(
    tmp_path: Path,
    hook: str,
    words: list[str],
    answer: str = "",
    *,
    fails: int = 0,
    shell: str = "dash",
    **more: str,
) -> Called:
    stub = tmp_path / {"slurm": "scontrol", "kubernetes": "kubectl"}[hook]
    stub.write_text(STUB.format(folder=tmp_path, fails=fails))
    stub.chmod(0o755)
    (tmp_path / "answer").write_text(answer)
    (tmp_path / "kubeconfig").touch()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_NODE": "gpu01", "NODE_NAME": "gpu01"}
    environment |= {"KUBECONFIG": f"{tmp_path}/kubeconfig", **more}
    done = subprocess.run(
        [shell, HOOKS / hook, *words],
        env=environment,
        timeout=20,
        check=False,
        capture_output=True,
        text=True,
    )
    calls = tmp_path / "calls"
    return Called(
        done.returncode,
        calls.read_text().splitlines() if calls.exists() else [],
        done.stdout + done.stderr,
    )


def node(state: str = "IDLE", reason: str = "", comment: str = "") -> str:
    """A part of what `scontrol show node` says."""
    lines = [
        "NodeName=gpu01 Arch=x86_64 CoresPerSocket=64 ",
        f"State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 ",
    ]
    lines += [f"Reason={reason} [root@2026-11-24T10:00:00]"] if reason else []
    lines += [f"Comment={comment}"] if comment else []
    return "\n   ".join(lines) + "\n\n"


OURS, WHY = "hosttune ready: the plan is not approved", "why not"
DRAIN = f"update NodeName=gpu01 State=DRAIN Reason=hosttune ready: {WHY}"
UNDRAIN, RESUME = "update NodeName=gpu01 State=UNDRAIN", "update NodeName=gpu01 State=RESUME"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("word", "answer", "expected"),
    [
        ("leave", node(), DRAIN),
        ("leave", node("IDLE+DRAIN", OURS), DRAIN),
        ("leave", node("ALLOCATED+DRAIN", "NHC: fan"), ""),
        ("leave", node("IDLE+DRAIN", "the hosttune ready: test"), ""),
        (
            "leave",
            node("IDLE+DRAIN", "hosttune: gpu-errors: GPU lost"),
            "",
        ),  # of the HealthCheckProgram, which takes it back
        (
            "leave",
            node("IDLE+DRAIN"),
            "",
        ),  # somebody's drain, by another way than scontrol, which asks for a reason
        ("leave", node("DOWN*", "Not responding"), ""),  # ReturnToService=1 looks for this reason
        ("leave", node("IDLE", "Node unexpectedly rebooted"), DRAIN),  # of Slurm, and no drain
        ("leave", node(comment="rack 7 Reason=hosttune ready: x"), DRAIN),
        ("join", node("IDLE+DRAIN", OURS), UNDRAIN),
        ("join", node("MIXED*+DRAIN", OURS), UNDRAIN),
        ("join", node("DOWN*+DRAIN", OURS), RESUME),
        ("join", node("DOWN+DRAIN+REBOOT_ISSUED", OURS), UNDRAIN),
        ("join", node("DOWN*+DRAIN", "repaired by bob, hosttune ready: no"), ""),
        ("join", node("IDLE+DRAIN", "hosttune: gpu-errors: GPU lost"), ""),
        ("join", node("IDLE+DRAIN"), ""),
        ("join", node("IDLE+DRAIN", "fan", comment="x Reason=hosttune ready: x"), ""),
        ("join", node("IDLE+DRAIN", "first\n          hosttune ready: second"), ""),
        ("join", node(), ""),
    ],
)
def test_slurm_touches_its_own_drain_alone(tmp_path, shell, word, answer, expected):
    done = called(tmp_path, "slurm", [word, WHY], answer, shell=shell)
    assert done == (0, ["show node gpu01", *([expected] if expected else [])], "")


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ('/etc/x: "no"', "hosttune ready: /etc/x: 'no'"),
        ("one\nState=RESUME\ttwo", "hosttune ready: one State=RESUME two"),
        ("100 % of \\n $(reboot) `id` 'x'", "hosttune ready: 100 % of \\n $(reboot) `id` 'x'"),
        ("für \x1b[31m", "hosttune ready: fr [31m"),
        ("x" * 400, f"hosttune ready: {'x' * 184}"),
        ("", "hosttune ready: "),
    ],
)
def test_slurm_is_told_one_line_of_plain_text(tmp_path, sentence, reason):
    done = called(tmp_path, "slurm", ["leave", sentence], node())
    assert (done.status, done.calls[1:]) == (
        0,
        [f"update NodeName=gpu01 State=DRAIN Reason={reason}"],
    )


TAINT = "hosttune/not-ready:NoSchedule"
ASK = '--request-timeout=10s get node gpu01 --ignore-not-found -o jsonpath={.metadata.name}{"\\n"}{range .spec.taints[*]}{.key}:{.effect}{"\\n"}{end}'
SET = "--request-timeout=10s taint node gpu01 hosttune/not-ready=:NoSchedule --overwrite"
TAKE = f"--request-timeout=10s taint node gpu01 {TAINT}-"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("word", "answer", "expected"),
    [
        ("leave", "gpu01\n", SET),
        ("leave", f"gpu01\n{TAINT}\n", SET),
        ("join", f"gpu01\nother/key:NoExecute\n{TAINT}\n", TAKE),
        ("join", "gpu01\nother/key:NoSchedule\n", ""),
        ("join", "gpu01\nhosttune/not-ready-yet:NoSchedule\n", ""),
        (
            "join",
            "gpu01\nhosttune/not-ready:NoExecute\n",
            "",
        ),  # somebody's: taking it away is an error of kubectl
        ("join", "", ""),  # it has not joined yet
    ],
)
def test_kubernetes_sets_and_takes_its_own_taint(tmp_path, shell, word, answer, expected):
    done = called(tmp_path, "kubernetes", [word, WHY], answer, shell=shell)
    assert done == (0, [ASK, *([expected] if expected else [])], "")


def test_kubernetes_knows_a_node_by_the_name_that_its_kubelet_takes(tmp_path):
    """The host name in small letters."""
    hostname = tmp_path / "hostname"
    hostname.write_text("#!/bin/sh\necho GPU01.example.org\n")
    hostname.chmod(0o755)
    done = called(tmp_path, "kubernetes", ["leave", WHY], "gpu01.example.org\n", NODE_NAME="")
    assert [line.split()[3] for line in done.calls] == ["gpu01.example.org"] * 2


def test_kubernetes_says_that_nobody_knows_the_node(tmp_path):
    done = called(tmp_path, "kubernetes", ["leave", WHY], "")
    assert done.status == 1
    assert "the cluster knows no node gpu01" in done.said


def test_kubernetes_asks_nobody_without_a_kubeconfig(tmp_path):
    """Without one, kubectl asks whatever listens on port 8080 of this host."""
    done = called(tmp_path, "kubernetes", ["leave", WHY], KUBECONFIG=f"{tmp_path}/none")
    assert done == (1, [], f"kubernetes: leave: there is no kubeconfig {tmp_path}/none\n")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("fails", [1, 2])
@pytest.mark.parametrize(
    ("hook", "word", "answer"),
    [
        ("slurm", "leave", node()),
        ("slurm", "join", node("IDLE+DRAIN", OURS)),
        ("slurm", "join", node("DOWN+DRAIN", OURS)),
        ("kubernetes", "leave", "gpu01\n"),
        ("kubernetes", "join", f"gpu01\n{TAINT}\n"),
    ],
)
def test_each_step_that_fails_ends_the_hook_with_one_sentence(
    tmp_path, shell, fails, hook, word, answer
):
    done = called(tmp_path, hook, [word, WHY], answer, fails=fails, shell=shell)
    assert (done.status, len(done.calls)) == (1, fails)
    assert done.said.startswith(f"{hook}: {word}: ")
    assert done.said.endswith("first line of what * went wrong\n")
    assert done.said.count("\n") == 1


@pytest.mark.parametrize(
    "answer", ["", "Node gpu01 not found\n", node().replace("gpu01", "gpu011"), "NodeName=gpu01 \n"]
)
@pytest.mark.parametrize("word", ["join", "leave"])
def test_answer_of_slurm_that_tells_nothing_is_no_answer(tmp_path, word, answer):
    done = called(tmp_path, "slurm", [word, WHY], answer)
    assert (done.status, len(done.calls)) == (1, 1)


@pytest.mark.parametrize("hook", ["slurm", "kubernetes"])
def test_host_without_a_name_is_an_error(tmp_path, hook):
    hostname = tmp_path / "hostname"
    hostname.write_text("#!/bin/sh\nexit 1\n")
    hostname.chmod(0o755)
    done = called(tmp_path, hook, ["join", WHY], SLURM_NODE="", NODE_NAME="")
    assert (done.status, done.calls) == (1, [])
    assert "does not tell the name of this host" in done.said


@pytest.mark.parametrize("words", [["drain"], [""], []])
@pytest.mark.parametrize("hook", ["slurm", "kubernetes"])
def test_another_word_is_no_order(tmp_path, hook, words):
    assert called(tmp_path, hook, words)[:2] == (2, [])


@pytest.mark.parametrize(("hook", "program"), [("slurm", "scontrol"), ("kubernetes", "kubectl")])
def test_program_that_is_missing_is_named(tmp_path, hook, program):
    (tmp_path / "kubeconfig").touch()
    for name in ("timeout", "tr", "cat"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    environment = {
        "PATH": str(tmp_path), "SLURM_NODE": "gpu01", "NODE_NAME": "gpu01", "KUBECONFIG": f"{tmp_path}/kubeconfig",
    }  # fmt: skip
    done = subprocess.run(
        ["/usr/bin/dash", HOOKS / hook, "leave", WHY],
        env=environment,
        timeout=20,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"{hook}: leave: {program} is not found in {tmp_path}:" in done.stderr


@pytest.mark.parametrize(("hook", "program"), [("slurm", "scontrol"), ("kubernetes", "kubectl")])
def test_program_that_hangs_is_ended_before_the_hook_is(tmp_path, hook, program):
    """Two of them, each with the time that the hook gives it, within what hosttune gives the
    hook.
    """
    text = (HOOKS / hook).read_text()
    (limit,) = {
        line.split("timeout -k 1 ")[1].split()[0]
        for line in text.splitlines()
        if "timeout -k" in line
    }
    assert 2 * (int(limit) + 1) < HOOK_S
    (tmp_path / "kubeconfig").touch()
    stub = tmp_path / program
    stub.write_text("#!/bin/sh\ntrap '' TERM\nsleep 3\n")
    stub.chmod(0o755)
    quick = tmp_path / hook
    quick.write_text(text.replace(f"-k 1 {limit}", "-k 0.1 0.1"))
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_NODE": "gpu01", "NODE_NAME": "gpu01", "KUBECONFIG": f"{tmp_path}/kubeconfig",
    }  # fmt: skip
    done = subprocess.run(
        ["dash", quick, "join", WHY],
        env=environment,
        timeout=20,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "did not answer within" in done.stderr
