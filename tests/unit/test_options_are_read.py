"""Each command has only the options that it reads: one that does nothing takes a typing error for a
wish.
"""

from __future__ import annotations

import sys

import pytest

from hosttune.cli.command_tree import read_tree
from hosttune.cli.options import DetailedDisplay
from hosttune.engine.policy.policy import Policy
from hosttune.views.page import Page
from tests.hosts.built import HOSTS

H100 = str(HOSTS / "h100-8x-2socket.json")
WORDS = {
    "explain": ["memory-swappiness"],
    "report": [H100],
    "diff": [H100, H100],
    "facts": ["memory"],
}
OF_NAMES = {
    "--profile": "nosuch", "--select": "nosuch", "--ignore": "nosuch", "--policy": "/nosuch", "--rules": "/nosuch",
    "--only": "nosuch", "--again": "nosuch",
}  # fmt: skip
# `undo` and `confirm` change a host, so no record does. They go on where the policy has a fault,
# and say so, and a change that they make is held by what it may disturb.
ACTS = {"undo", "confirm"}
# These ask for a process, a folder or a terminal; a view of theirs reads it (views/measure), or a
# test of their own. `disks` folds devices that no host here has. Of two equal hosts a diff has
# nothing to unfold, and the same is true of a history without runs.
MEASURE = {"watch", "dataset", "bench read", "diff", "history", "report", "disks"}
COMMANDS = [one for one in read_tree().walk() if one.path and not one.commands]
NAMES = {
    " ".join(one.path): {name for option in one.options for name in option.names}
    for one in COMMANDS
}
PASSING = {
    "replace",
    "digest",
    "digest_with",
    "__init__",
    "asdict",
    "open_page",
}  # functions that only hand it on


def words_of(name):
    host = [] if name in {"report", "diff"} or "--host" not in NAMES[name] else ["--host", H100]
    return [*name.split(), *WORDS.get(name, []), *host]


def having(*options, but=()):
    return [
        (name, one) for name in NAMES for one in options if one in NAMES[name] and name not in but
    ]


@pytest.mark.parametrize(("name", "option"), having(*OF_NAMES, but=ACTS))
def test_unknown_name_is_an_error_of_every_command_that_takes_one(run, tmp_path, name, option):
    file = [str(tmp_path / "x.json")] if name == "record" else []
    status, _, err = run(*words_of(name), *file, option, OF_NAMES[option])
    assert status == 2
    assert "nosuch" in err


def readers_of(monkeypatch, kind, field):
    """The functions that read this field of a value of this kind, as they come."""
    seen = set()

    def get(self, name):
        if name == field:
            seen.add(sys._getframe(1).f_code.co_name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(kind, "__getattribute__", get)
    return seen


@pytest.mark.parametrize(
    ("name", "option"), having("--max-risk", "--disturb", but=ACTS), ids=lambda one: one.strip("-")
)
def test_limit_of_a_change_is_read(run, monkeypatch, name, option):
    seen = readers_of(monkeypatch, Policy, option.strip("-").replace("-", "_"))
    run(*words_of(name), option, "low" if option == "--max-risk" else "nothing")
    assert seen - PASSING


@pytest.mark.parametrize("name", [name for name, _ in having("--verbose", but=ACTS | MEASURE)])
def test_details_are_asked_for_by_a_view(run, monkeypatch, name):
    seen = readers_of(monkeypatch, Page, "is_verbose")
    given = readers_of(monkeypatch, DetailedDisplay, "verbose")
    run(*words_of(name), "--verbose")
    assert (seen | given) - PASSING


def test_command_refuses_an_option_that_it_does_not_read(run):
    for words in (
        ("health", "--max-risk", "low"),
        ("profiles", "-v"),
        ("status", "--root", "/"),
        ("facts", "-v"),
    ):
        status, _, err = run(*words)
        assert status == 2
        assert "No such option" in err
