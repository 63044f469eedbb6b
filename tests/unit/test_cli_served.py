"""Requests of programs: the answers, errors and statuses of the command line, without what parses
words.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.cli import app
from hosttune.cli.served import answer
from hosttune.values import Disturbs
from tests.hosts.built import HOSTS

ROOT = Path(__file__).resolve().parents[2]
H100 = str(HOSTS / "h100-8x-2socket.json")


@pytest.fixture
def told(capsys):
    def told(act, asked):
        status = act(asked)
        out, err = capsys.readouterr()
        return status, out, err

    return told


def words(command, look, *more):
    look = look | ({"disturb": Disturbs(look["disturb"]).word} if "disturb" in look else {})
    options = [
        (f"--{name.replace('_', '-')}", one)
        for name, value in look.items()
        for one in [value] * (value != [])
    ]
    flat = [
        word
        for name, value in options
        for one in (value if isinstance(value, list) else [value])
        for word in (name, one)
    ]
    return [command, *flat, *more, *([] if command == "record" else ["--format", "json"])]


@pytest.mark.parametrize(
    ("command", "look", "status"),
    [
        ("check", {"host": [H100]}, 1),
        ("plan", {"host": [H100], "only": ["memory-max-map-count", "storage-noatime"]}, 1),
        (
            "plan",
            {
                "host": [H100],
                "max_risk": "low",
                "disturb": "a service",
                "ignore": ["memory-swappiness"],
            },
            1,
        ),
        ("apply", {"host": [H100], "profile": "cloud-vm"}, 1),
        ("history", {"host": [H100]}, 0),
        ("plan", {"host": [H100], "profile": "no-such"}, 2),
        ("plan", {"host": [H100], "select": ["no-such-rule"]}, 2),
        ("plan", {"host": ["/no/such/record"]}, 2),
        ("record", {"host": [H100]}, 2),
    ],
)
def test_request_is_answered_as_the_words_are(told, command, look, status):
    more = {"record": {"file": "-"}}.get(command, {})
    asked = told(answer, {"command": command, "look": look, **more})
    assert asked == told(app.run, words(command, look, *more.values()))
    assert (asked[0], bool(asked[1])) == (status, status < 2)


def test_parameters_beside_the_look_are_taken_by_their_names(told, monkeypatch):
    monkeypatch.setattr("hosttune.cli.common.spell_program", lambda: "hosttune")
    look = {"host": [H100]}
    asked = told(answer, {"command": "apply", "look": look, "expect": "0" * 64})
    assert asked == told(app.run, words("apply", look, "--expect", "0" * 64))
    assert asked[0] == 2
    refused = told(answer, {"command": "undo", "look": look, "rule": "memory-x", "yes": True})
    assert refused[2] == told(app.run, words("undo", look, "--rule", "memory-x", "--yes"))[2]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (["plan"], "a request names one of check, plan,"),
        ({"command": "watch"}, "not watch"),
        ({"command": "plan", "out": "", "look": {}}, "out: the value is empty"),
        ({"command": "plan", "look": {"policy": ""}}, "policy: the value is empty"),
        ({"command": "plan", "look": {"select": ["a", ""]}}, "select: the value is empty"),
        ({"command": "plan", "look": {"polcy": "x"}}, "plan has no parameter polcy"),
        (
            {"command": "plan", "look": {"max_risk": "none"}},
            "max_risk: expected one of low, medium, high",
        ),
        ({"command": "plan", "look": {"select": "a"}}, "select: expected a list, found text"),
        ({"command": "plan", "force": True}, "plan has no parameter force"),
    ],
)
def test_request_that_cannot_be_meant_is_refused_before_the_host_is_looked_at(
    told, monkeypatch, request_, sentence
):
    monkeypatch.setattr(
        "hosttune.host.open_reader", lambda **_: pytest.fail("the host was looked at")
    )
    status, out, err = told(answer, request_)
    assert (status, out) == (2, "")
    assert sentence in err


PLAN = """
import json, sys
from hosttune.cli.served import answer
answer({"command": "plan", "look": {"host": [sys.argv[1]], "only": ["memory-max-map-count"]}})
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
OF_WORDS = ("typer", "click", "rich", "shellingham", "hosttune.cli.app", "hosttune.cli.words")
OF_OTHERS = (
    "jinja2",
    "tempfile",
    "shutil",
    "hosttune.measure",
    "hosttune.views.html",
    "hosttune.views.markdown",
    "ctypes",
)


def test_plan_that_is_asked_for_by_a_program_imports_nothing_that_parses_words():
    done = subprocess.run(
        [sys.executable, "-c", PLAN, H100],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=True,
    )
    imported = json.loads(done.stderr.splitlines()[-1])
    assert "hosttune.actions.examine" in imported
    assert [name for name in imported if name.startswith((*OF_WORDS, *OF_OTHERS))] == []
