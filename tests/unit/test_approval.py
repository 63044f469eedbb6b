"""Approvals: which plans somebody agreed to before they were made."""

from __future__ import annotations

import json

import pytest

from hosttune.cli import app
from hosttune.engine.policy.approval import approval_of, parse_approvals
from hosttune.errors import BadInput
from hosttune.values import Action, Address, Change, Plan, Risk, Stage
from tests.hosts.built import HOSTS

H100 = str(HOSTS / "h100-8x-2socket.json")
DIGEST, POLICY = "ab" * 32, "cd" * 32


def plan(*risks: Risk) -> Plan:
    changes = tuple(
        Change(Address("sysctl", f"vm.{number}"), Action.UPDATE, "1", "2", "a-rule", risk)
        for number, risk in enumerate(risks)
    )
    return Plan(
        DIGEST,
        "0",
        "m",
        "2026-01-01T00:00:00+00:00",
        POLICY,
        (Stage(changes),) if changes else (),
        (),
    )


def covers(text: str, made: Plan) -> bool:
    return parse_approvals(text, "approved").covers(made)


def test_digest_of_the_plan_approves_it_whole_or_by_twelve_digits():
    assert covers(DIGEST, plan(Risk.HIGH))
    assert covers(f"# of May\n\n  {DIGEST[:12]}   # gpu-h100\n", plan(Risk.HIGH))
    assert not covers("0" * 64, plan(Risk.LOW))
    assert not covers("", plan(Risk.LOW))


def test_plan_with_nothing_to_change_is_approved_by_any_file():
    assert covers("", plan())


@pytest.mark.parametrize(
    ("line", "risks", "expected"),
    [
        (f"policy {POLICY[:12]} edition 2026.2 risk low", [Risk.LOW], True),
        (f"policy {POLICY} edition 2026.2 risk medium", [Risk.LOW, Risk.MEDIUM], True),
        (f"policy {POLICY[:12]} edition 2026.2 risk low", [Risk.LOW, Risk.MEDIUM], False),
        (f"policy {'0' * 12} edition 2026.2 risk high", [Risk.LOW], False),
    ],
)
def test_policy_with_edition_and_risk_approves_what_follows_from_it(line, risks, expected):
    assert covers(line, plan(*risks)) is expected


@pytest.mark.parametrize("edition", ["2026.1", "2027.1"])
def test_line_by_other_defaults_is_read_and_approves_no_plan_of_this_version(edition):
    assert not covers(f"policy {POLICY} edition {edition} risk high", plan(Risk.LOW))


def test_line_that_would_approve_a_plan_approves_it():
    made = plan(Risk.LOW, Risk.MEDIUM)
    line = str(approval_of(made))
    assert line == f"policy {POLICY[:12]} edition 2026.2 risk medium"
    assert covers(line, made)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("abc123", "is not an approval"),  # too short: met by chance
        ("AB" * 32, "is not an approval"),
        (f"{DIGEST} {DIGEST}", "is not an approval"),
        (f"policy {POLICY}", "is not an approval"),
        (f"policy {POLICY} edition 2026.1 risk low low", "is not an approval"),
        ("policy xyz edition 2026.1 risk low", "is not a digest of a policy"),
        (f"policy {POLICY} edition latest risk low", "latest: not an edition"),
        (f"policy {POLICY} edition 2026.1 risk huge", "huge: is no risk"),
    ],
)
def test_line_that_is_none_is_told_with_its_number(line, words):
    with pytest.raises(BadInput, match=f"approved:2: .*{words}"):
        parse_approvals(f"{DIGEST}\n{line}\n", "approved")


def test_every_fault_of_a_file_is_told():
    with pytest.raises(BadInput) as caught:
        parse_approvals("x\ny\n", "approved")
    assert len(caught.value.faults) == 2


def test_command_takes_what_the_file_approves_and_tells_the_lines_that_would(tmp_path, capsys):
    file = tmp_path / "approved"
    file.write_text("# nothing yet\n")
    words = ["apply", "--host", H100, "--approved", str(file)]
    assert app.run(words) == 2
    err = capsys.readouterr().err
    assert f"is not approved by {file}" in err
    lines = [line.removeprefix("  hint: ") for line in err.splitlines()]
    own = [line for line in lines if line.startswith("policy ")]
    digests = [line for line in lines if len(line) == 12]
    assert (len(own), len(digests)) == (1, 1)
    for line in (*own, *digests):
        file.write_text(line + "\n")
        assert app.run([*words, "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out)["digest"].startswith(digests[0])


def test_file_that_is_not_there_or_has_faults_is_trouble(tmp_path, capsys):
    assert app.run(["apply", "--host", H100, "--approved", str(tmp_path / "none")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    (tmp_path / "bad").write_text("yes\n")
    assert app.run(["apply", "--host", H100, "--approved", str(tmp_path / "bad")]) == 2
    assert "bad:1: yes: is not an approval" in capsys.readouterr().err
