"""What the module `tune` asks hosttune for: a run where there is something to do, else the look
alone; without Ansible.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import pytest

from hosttune.actions import run as running
from hosttune.actions.journal.journal import FOLDER
from hosttune.cli import served
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import ABSENT, FileValue
from tests.hosts.built import HOSTS

PLUGINS = (
    Path(__file__).resolve().parents[2]
    / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
)
UTILS = "ansible_collections.hosttune.hosttune.plugins.module_utils"
RECORD = HOSTS / "workstation-rtx4090.json"


class Ended(Exception):
    pass


class Client:
    """hosttune in this process, on the host of the test. `asked` are the commands."""

    def __init__(self, capsys, look):
        self.capsys, self.asked, self.look = capsys, [], look

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def ask(self, command, **asked):
        self.asked.append(command)
        self.capsys.readouterr()
        status = served.answer({"command": command, **asked})
        out, err = self.capsys.readouterr()
        assert out, err
        return json.loads(out), status, err


@pytest.fixture
def host(monkeypatch):
    """A host that can be changed: it keeps what is done to it, in memory."""
    overlay = Overlay(read_record(str(RECORD)))
    monkeypatch.setattr(running, "open_writer", lambda **_: overlay)
    monkeypatch.setattr(running, "hold_lock", lambda **_: nullcontext())
    monkeypatch.setattr("hosttune.cli.common.require_rights", lambda *_: None)
    monkeypatch.setattr("hosttune.host.open_reader", lambda **_: overlay)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return overlay


@pytest.fixture
def tune(host, monkeypatch, capsys):
    """Play the task: what it returns, and what it asked for."""

    def play(*only, is_check=False, **params):
        client, returned = Client(capsys, {"only": [*only]} if only else {}), {}

        class Module:
            def __init__(self, argument_spec, **_more):
                self.params = {
                    name: one.get("default") for name, one in argument_spec.items()
                } | params
                self._diff, self.check_mode = False, is_check

            def warn(self, text):
                pass

            def exit_json(self, **result):
                returned.update(result)
                raise Ended

            fail_json = exit_json

        def module(name):
            return types.SimpleNamespace(**runpy.run_path(str(PLUGINS / f"module_utils/{name}.py")))

        clients = types.SimpleNamespace(
            Trouble=RuntimeError, client_of=lambda _params: client, program_here=lambda: "hosttune"
        )
        for name, held in {
            "ansible.module_utils.basic": types.SimpleNamespace(AnsibleModule=Module),
            UTILS: types.SimpleNamespace(answer=module("answer")),
            f"{UTILS}.arguments": module("arguments"),
            f"{UTILS}.client": clients,
        }.items():
            monkeypatch.setitem(sys.modules, name, held)
        with pytest.raises(Ended):
            runpy.run_path(str(PLUGINS / "modules/tune.py"), run_name="__main__")
        accepts = types.SimpleNamespace(**runpy.run_path(str(PLUGINS / "plugin_utils/answers.py")))
        assert (
            accepts.parse_answer(returned, accepts.load_schema("tune")) == returned
        )  # its docs name all that it returns
        return returned, client.asked

    return play


RULE = "limits-nofile"
LOOK = ["plan"]
RUN = ["plan", "apply"]
ANEW = [*RUN, "plan"]  # what was interrupted is told as it is afterwards


def cut_off(host):
    """The journal of the last run, as a power cut leaves it: without its end."""
    path = f"{FOLDER}/{host.list(FOLDER)[-1]}"
    kept = host.read(path)
    lines = kept.decode().splitlines(keepends=True)
    host.replace(path, FileValue("".join(lines[:-1]).encode(), 0o600), expected=kept)


def test_host_with_nothing_to_do_is_asked_once_and_answers_as_apply_would(tune, monkeypatch):
    first, asked = tune(RULE)
    assert first["changed"]
    assert asked == ["plan", "history", "apply", "plan"]
    answer, asked = tune(RULE)
    assert (answer["changed"], answer["changes"], asked) == (False, [], LOOK)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # apply says itself that it needs root
    other, asked = tune(RULE)
    assert asked == RUN
    assert other == answer


def test_interrupted_run_is_finished_where_the_plan_is_empty(tune, host):
    run = tune(RULE)[0]["run_id"]
    cut_off(host)
    seen, asked = tune(RULE, is_check=True)
    assert asked == LOOK
    assert (
        [text for text in seen["interrupted"] if run in text and "was interrupted" in text]
        == seen["interrupted"]
        != []
    )
    finished, asked = tune(RULE)
    assert (finished["interrupted"], asked) == ([], ANEW)
    assert tune(RULE)[1] == LOOK


def test_what_was_interrupted_is_told_where_the_plan_is_not_approved(tune, host):
    tune(RULE)
    cut_off(host)
    left = [tune(approved=["0" * 64], is_check=is_check)[0] for is_check in (True, False)]
    assert [one["approved"] for one in left] == [False, False]
    assert left[0]["interrupted"] == left[1]["interrupted"] != []


def test_first_boot_is_waited_for_where_the_plan_is_empty(tune, host, monkeypatch):
    tune(RULE)
    waited = []
    monkeypatch.setattr("hosttune.actions.run.wait_for_first_boot", lambda *_: waited.append(True))
    host.replace("/run/cloud-init/enabled", FileValue(b"", 0o644), expected=ABSENT)
    assert tune(RULE)[1] == ANEW
    assert waited
    host.replace("/run/cloud-init/result.json", FileValue(b"{}", 0o644), expected=ABSENT)
    assert tune(RULE)[1] == LOOK


def test_what_waits_is_tried_again_where_the_plan_is_empty(tune):
    assert tune()[0]["waiting"]
    again, asked = tune()
    assert (again["changes"], asked) == ([], ANEW)
    assert again["interrupted"] == tune(is_check=True)[0]["interrupted"] != []
    assert again["waiting"]


def test_way_back_of_a_choice_of_rules_is_refused_before_anything_is_asked(tune, host):
    """`undo` takes back a run or a rule: `only` would be passed over, and more taken back than was
    named.
    """
    before = dict(host.files)
    returned, asked = tune(state="undone", only=[RULE])
    assert returned["msg"] == "only: belongs to state=applied; rule says what to undo"
    assert (returned["changed"], asked, host.files == before) == (False, [], True)
