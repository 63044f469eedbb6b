"""What the module and the action of `tune` make of a trial: kept over a new connection, come back,
or not told; without Ansible.
"""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path

import pytest

PLUGINS = (
    Path(__file__).resolve().parents[2]
    / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
)
OWN = "ansible_collections.hosttune.hosttune.plugins"
TRIAL = {
    "run": "r1", "state": "on trial: live", "is_open": True, "left_s": 590.0, "until": "2026-11-24T14:32:00+00:00", "by": "operator",
    "within_s": 600, "boot_within_s": 680, "live": ["memory-swappiness"], "next_boot": [], "one_boot": ["kernel-iommu"],
    "without_return": [], "reason": "", "losses": [],
}  # fmt: skip
NEXT = TRIAL | {"state": "on trial: next boot", "until": "", "left_s": None}
CHANGE = {
    "address": "sysctl:vm.swappiness",
    "rule": "memory-swappiness",
    "before": "60",
    "after": "10",
    "activation": "now",
}
PLAN = {
    "digest": "1" * 64, "findings": [], "stages": [{"changes": [CHANGE]}], "interrupted": [], "tool_version": "0.2.0",
}  # fmt: skip
RECEIPT = {
    "run_id": "r1", "outcomes": [{"change": CHANGE, "phase": "done", "error": "", "hint": ""}], "waiting": [], "verified": True,
    "reboot_reasons": [],
}  # fmt: skip
ENDED = {
    "format_version": 1,
    "run": "r1",
    "state": "confirmed",
    "reason": "",
    "needs_reboot": "",
    "losses": [],
    "receipt": None,
}
LOST = {"sentence": "ssh is not active any more", "is_known": True}


class Trouble(Exception):
    pass


class Ended(Exception):
    pass


def stand_in(name):
    return types.SimpleNamespace(**runpy.run_path(str(PLUGINS / f"{name}.py")))


@pytest.fixture
def tune(monkeypatch):
    """Play the module on a hosttune that answers so; what it returns, and what it asked for. Of a
    command that is asked for several times, each answer once.
    """

    def play(answers, *, is_check=False, has_trial=False, **params):
        asked, returned = [], {}

        class Client:
            look = types.MappingProxyType({})

            def __enter__(self):
                return self

            def __exit__(self, *_error):
                pass

            def ask(self, command, **words):
                asked.append(
                    (command, {name: value for name, value in words.items() if name != "look"})
                )
                answer = answers[command]
                answer = answer.pop(0) if isinstance(answer, list) else answer
                if isinstance(answer, Exception):
                    raise answer
                return (*(answer if isinstance(answer, tuple) else (answer, 0)), "")

        class Module:
            def __init__(self, argument_spec, **_more):
                self.params = {
                    name: one.get("default") for name, one in argument_spec.items()
                } | params
                self._diff, self.check_mode = False, is_check

            def exit_json(self, **result):
                returned.update(result)
                raise Ended

            def fail_json(self, **result):
                self.exit_json(failed=True, **result)

        for name, held in {
            "ansible.module_utils.basic": types.SimpleNamespace(AnsibleModule=Module),
            f"{OWN}.module_utils": types.SimpleNamespace(answer=stand_in("module_utils/answer")),
            f"{OWN}.module_utils.arguments": stand_in("module_utils/arguments"),
            f"{OWN}.module_utils.client": types.SimpleNamespace(
                Trouble=Trouble, client_of=lambda _params: Client(), program_here=lambda: "hosttune"
            ),
        }.items():
            monkeypatch.setitem(sys.modules, name, held)
        monkeypatch.setattr(
            "os.path.isdir", lambda path: has_trial and path == "/etc/hosttune/trial"
        )
        monkeypatch.setattr("os.geteuid", lambda: 0)
        with pytest.raises(Ended):
            runpy.run_path(str(PLUGINS / "modules/tune.py"), run_name="__main__")
        accepts = stand_in("plugin_utils/answers")
        schema = accepts.load_schema("tune") | {"kept": {"type": "bool"}}
        assert (
            accepts.parse_answer(returned, schema) == returned
        )  # the docs of the module name all that it returns
        warned = stand_in("module_utils/answer").warnings_of(
            returned, is_asked_trial="confirm_within" in params
        )
        return returned, asked, warned

    return play


def history(trial=None):
    return {"unreadable": "", "trial": trial, "runs": []}


def test_terms_of_the_task_go_to_the_plan_and_to_the_apply(tune):
    answers = {"apply": [PLAN, RECEIPT | {"trial": TRIAL}], "history": history(), "plan": PLAN}
    made, asked, warned = tune(
        answers, confirm_within="10m", confirm_by="health", without_return=True
    )
    terms = {"confirm_within": "10m", "confirm_by": "health", "without_return": True}
    assert asked[0] == ("apply", terms)
    assert asked[2] == ("apply", {"yes": True, "expect": "1" * 64, **terms})
    assert (made["changed"], made["trial"], warned) == (True, TRIAL, [])


def test_off_is_off_however_yaml_reads_it(tune):
    _, asked, _ = tune({"apply": PLAN}, is_check=True, confirm_within="False")
    assert asked == [("apply", {"confirm_within": "off"})]


def test_check_mode_shows_that_it_would_be_on_trial(tune):
    planned = {
        "within_s": 600,
        "boot_within_s": 680,
        "by": "operator",
        "obstacles": ["no systemd"],
        "notes": [],
        "changes": [],
    }
    made, asked, warned = tune(
        {"apply": PLAN | {"trial": planned}}, is_check=True, confirm_within="10m"
    )
    assert made["trial"] == planned | {"state": "planned"}
    assert warned == ["no trial is possible here: no systemd"]
    assert len(asked) == 1


def test_what_the_policy_alone_puts_on_trial_is_told_and_wants_a_boot_where_it_does(tune):
    answers = {"plan": PLAN, "apply": RECEIPT | {"trial": NEXT}, "history": history()}
    made, _, warned = tune(answers)
    why = "run r1 (memory-swappiness, kernel-iommu) is on trial at the next boot"
    assert warned == [f"{why}: unless state=confirmed keeps it, this host rolls it back"]
    assert (made["reboot_reasons"], made["reboot_required"]) == ([why], True)


def test_run_that_could_not_be_put_on_trial_is_a_failure(tune):
    back = TRIAL | {
        "state": "came back",
        "is_open": False,
        "reason": "the boot on trial cannot be asked for",
    }
    made, *_ = tune({"plan": PLAN, "apply": RECEIPT | {"trial": back}, "history": history()})
    assert made["failed"]
    assert (
        made["msg"]
        == "run r1 was not put on trial and came back: the boot on trial cannot be asked for"
    )


def test_run_that_somebody_else_has_on_trial_is_left_alone_also_where_nothing_is_to_be_made(tune):
    empty = PLAN | {"stages": []}
    made, asked, _ = tune({"plan": empty, "history": history(TRIAL)}, has_trial=True)
    assert made["failed"]
    assert made["msg"].startswith(
        "run r1 (memory-swappiness, kernel-iommu) is on trial until 14:32 UTC, and was not put there by"
    )
    assert [command for command, _ in asked] == ["plan", "history"]


def test_boot_that_is_asked_for_already_is_gone_on_with(tune):
    made, asked, _ = tune({"plan": PLAN, "history": history(NEXT)}, has_trial=True)
    assert (made["changed"], made["changes"], made["trial"], made["reboot_required"]) == (
        False,
        [],
        NEXT,
        True,
    )
    assert [command for command, _ in asked] == ["plan", "history"]


def test_named_run_alone_is_confirmed(tune):
    made, asked, _ = tune({"confirm": ENDED}, state="confirmed", trial=TRIAL)
    assert asked == [("confirm", {"run": "r1"})]
    assert (made["changed"], made["kept"], made["trial"]["state"], made["trial"]["is_open"]) == (
        True,
        True,
        "confirmed",
        False,
    )
    then = ENDED | {"state": "on trial: next boot"}
    made, *_ = tune({"confirm": then}, state="confirmed", trial=TRIAL)
    assert (made["trial"]["state"], made["trial"]["is_open"]) == ("on trial: next boot", True)


def test_run_that_stands_already_is_kept_and_no_change(tune):
    for answers in (
        {"confirm": {"run": "", "state": "none"}},
        {"confirm": Trouble("not there yet"), "history": history(NEXT)},
    ):
        made, *_ = tune(answers, state="confirmed", trial=TRIAL, has_trial=True)
        assert (made["changed"], made["kept"], made["trial"]["run"]) == (False, True, "r1")


def test_nothing_on_trial_is_nothing_to_confirm(tune):
    made, asked, _ = tune({}, state="confirmed")
    assert (made["changed"], made["kept"], asked) == (False, True, [])


def test_losses_are_told_and_nothing_is_kept(tune):
    seen = TRIAL | {"losses": [LOST, {"sentence": "not known: clock", "is_known": False}]}
    made, *_ = tune({"confirm": (seen, 1)}, state="confirmed", trial=TRIAL)
    assert (made["changed"], made["kept"], made["losses"]) == (
        False,
        False,
        ["ssh is not active any more"],
    )


def test_run_that_came_back_is_a_failure_with_its_reason(tune):
    said = "run r1 came back at 2026-11-24 14:32 UTC, because it was not confirmed within 10 min"
    made, *_ = tune(
        {"confirm": Trouble(said), "history": history()}, state="confirmed", trial=TRIAL
    )
    assert (made["failed"], made["msg"]) == (True, said)


def test_confirmed_argument_that_could_not_be_written_down_is_a_failure(tune):
    failed = RECEIPT | {
        "outcomes": [{"change": CHANGE, "phase": "failed", "error": "the disk is full", "hint": ""}]
    }
    made, *_ = tune({"confirm": (ENDED | {"receipt": failed}, 1)}, state="confirmed", trial=TRIAL)
    assert made["failed"]
    assert (
        "run r1 is confirmed, but memory-swappiness: sysctl:vm.swappiness: the disk is full"
        in made["msg"]
    )


class NoConnection(Exception):
    pass


@pytest.fixture
def action(monkeypatch):
    """The action over these answers of the module, the last one again and again; what it returns,
    its connections and the seconds that it has waited.
    """

    def confirm(*answers, trial=TRIAL):
        clock, opened, left = [0.0], [], list(answers)

        class Bringing:
            _task = types.SimpleNamespace(check_mode=False)
            _connection = types.SimpleNamespace(reset=lambda: opened.append(clock[0]))

            def _ask(self, given, task_vars):
                answer = left.pop(0) if len(left) > 1 else left[0]
                if isinstance(answer, Exception):
                    clock[0] += 10
                    raise answer
                return dict(answer)

        answers = stand_in("plugin_utils/answers")
        held = {
            f"{OWN}.module_utils.answer": stand_in("module_utils/answer"),
            f"{OWN}.plugin_utils": types.SimpleNamespace(answers=answers),
            "ansible.errors": types.SimpleNamespace(AnsibleConnectionFailure=NoConnection),
            f"{OWN}.plugin_utils.bringing": types.SimpleNamespace(BringingAction=Bringing),
        }
        for name, module in held.items():
            monkeypatch.setitem(sys.modules, name, module)
        found = runpy.run_path(str(PLUGINS / "action/tune.py"))["ActionModule"]
        wait = types.SimpleNamespace(
            monotonic=lambda: clock[0],
            sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds),
        )
        monkeypatch.setitem(found._ask.__globals__, "time", wait)
        given = {"state": "confirmed"} | ({"trial": trial} if trial else {})
        return found()._ask(given, {}), opened, clock[0]

    return confirm


KEPT = {
    "changed": True,
    "trial": TRIAL | {"state": "confirmed", "is_open": False},
    "losses": [],
    "kept": True,
}
AWAY = NoConnection("Failed to connect to the host via ssh: No route to host")


def test_host_is_asked_over_a_new_connection_each_time_until_it_answers(action):
    answer, opened, _ = action(AWAY, AWAY, KEPT)
    assert (answer["changed"], "kept" in answer, len(opened)) == (True, False, 3)


def test_host_that_never_answers_is_waited_for_until_it_has_come_back_and_told(action):
    answer, opened, waited = action(AWAY)
    assert answer["failed"]
    assert not answer["unreachable"]
    assert 640 <= waited <= 680
    assert len(opened) > 10
    assert answer["msg"] == (
        "run r1 (memory-swappiness, kernel-iommu) was on trial until 14:32 UTC, and this host did not answer over a new"
        " connection: it takes the run back by itself; when it answers again, sudo hosttune history there tells what"
        f" became of it ({AWAY})"
    )
    assert (
        action(AWAY, trial=NEXT)[2] > 680 + 800
    )  # the boot on trial, and the one that takes it back
    assert action(AWAY, trial=None)[2] <= 140


@pytest.mark.parametrize(
    ("trial", "seconds"), [(TRIAL, 30), (NEXT | {"state": "on trial: this boot"}, 300)]
)
def test_what_comes_late_is_waited_for_and_what_stays_lost_is_told(trial, seconds, action):
    lost = {
        "changed": False,
        "trial": trial,
        "losses": ["ssh is not active any more"],
        "kept": False,
    }
    answer, _, waited = action(lost, lost, KEPT, trial=trial)
    assert answer["changed"]
    answer, _, waited = action(lost, trial=trial)
    assert waited <= seconds
    assert (
        "was not confirmed, because this host is not as before: ssh is not active any more;"
        in answer["msg"]
    )
    assert answer["msg"].endswith("unless: sudo hosttune confirm r1 --anyway")


def test_host_that_came_back_is_not_asked_again(action):
    answer, opened, _ = action({"failed": True, "msg": "run r1 came back at ..."})
    assert (answer["msg"], len(opened)) == ("run r1 came back at ...", 1)
