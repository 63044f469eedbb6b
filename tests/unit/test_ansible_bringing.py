"""What travels with a task and what is made of the answers, and what is said of words that do not
fit; without Ansible.
"""

from __future__ import annotations

import json
import re
import resource
import runpy
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

PLUGINS = (
    Path(__file__).resolve().parents[2]
    / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
)
OWN = "ansible_collections.hosttune.hosttune.plugins.plugin_utils"


class AnsibleError(Exception):
    pass


class AnsibleConnectionFailure(AnsibleError):
    pass


def shown(line, stderr=False):
    print(line, file=sys.stderr if stderr else sys.stdout)


class Loader:
    """The files of the controller. Those out of a vault, Ansible decrypts itself."""

    def _get_file_contents(self, path):
        return Path(path).read_bytes(), True


class ActionBase:
    """What the actions ask Ansible for. It finds no file in a role or beside a playbook."""

    _task = types.SimpleNamespace(check_mode=False)
    _loader = Loader()
    given: Mapping[str, object] = {}

    def run(self, tmp, task_vars):
        return {}

    def validate_argument_spec(self, argument_spec):
        return None, dict.fromkeys(argument_spec) | {"act": "plan"} | self.given

    def _find_needle(self, folder, name):
        raise AnsibleError(f"Could not find or access '{name}'")


def module(name, **holds):
    made = types.ModuleType(name)
    vars(made).update(holds)
    return made


class HostVars(dict):
    """The variables of hosts as Ansible has them: what is asked for by host comes out of the
    templates.
    """

    def get(self, host, default=None):
        raise AssertionError("everything that a host answered runs through the templates")

    def raw_get(self, host):
        return self[host]


@pytest.fixture
def ansible(monkeypatch):
    for name, holds in {
        "ansible": {
            "constants": types.SimpleNamespace(DEFAULT_STDOUT_CALLBACK="default"),
            "context": types.SimpleNamespace(
                CLIARGS={"inventory": ["my hosts"], "args": ["plays/apply.yml"]}
            ),
        },
        "ansible.errors": {
            "AnsibleConnectionFailure": AnsibleConnectionFailure,
            "AnsibleError": AnsibleError,
            "AnsibleValueOmittedError": AnsibleError,
        },
        "ansible.module_utils.json_utils": {"_filter_non_json_lines": lambda text, **_: (text, [])},
        "ansible.plugins.action": {"ActionBase": ActionBase},
        "ansible.utils.display": {"Display": lambda: types.SimpleNamespace(display=shown)},
    }.items():
        monkeypatch.setitem(sys.modules, name, module(name, **holds))


@pytest.fixture
def folding(ansible, monkeypatch):
    """The action of plan_classes on these hosts."""
    utilities = {
        name: types.SimpleNamespace(**runpy.run_path(str(PLUGINS / f"plugin_utils/{name}.py")))
        for name in ("answers", "classes", "settings")
    }
    monkeypatch.setitem(sys.modules, OWN, module(OWN, **utilities))
    documents = OWN.replace("plugin_utils", "module_utils.answer")
    monkeypatch.setitem(
        sys.modules,
        documents,
        module(documents, **runpy.run_path(str(PLUGINS / "module_utils/answer.py"))),
    )
    action = runpy.run_path(str(PLUGINS / "action/plan_classes.py"))["ActionModule"]()

    def fold(answers, earlier=None, poisoned=None, **more):
        action.given = {"hosts": list(answers), "register": "looked", **more}
        action._task = types.SimpleNamespace(check_mode=False, args=action.given)
        known = {
            host: {"looked": one, "hosttune_batch": []} if one else {}
            for host, one in ((earlier or {}) | answers).items()
        }
        for host, facts in (poisoned or {}).items():
            known[host].update(facts)
        return action.run(
            task_vars={"hostvars": HostVars(known), "ansible_play_hosts_all": list(known)}
        )

    return fold


def test_answers_are_folded_as_they_were_registered(folding, tmp_path, capsys):
    lost = {"unreachable": True, "msg": "Task failed: Failed to connect to the host via ssh"}
    told = {"digest": "", "changes": [], "check": {"host": "its own name"}}
    result = folding({"a": told, "b": lost, "c": None}, folder=str(tmp_path / "results"))
    assert [one["hosts"] for one in result["classes"]] == [["a"]]
    assert result["failed_hosts"] == {
        "b": "Failed to connect to the host via ssh",
        "c": "it was not asked, or did not answer",
    }
    assert "  b: Failed to connect to the host via ssh\n" in capsys.readouterr().out
    kept = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "results").iterdir()}
    assert kept["a"]["hosts"] == [{"host": "a"}]
    assert kept["b"]["reason"] == "Failed to connect to the host via ssh"


def test_diff_that_is_shown_is_made_of_the_changes_that_are_compared(folding, capsys):
    harmless = [{"before_header": "x", "after_header": "x", "before": "", "after": "harmless"}]
    folding({"evil": {"digest": "1" * 64, "changes": [CHANGE], "plan_diff": harmless}})
    printed = capsys.readouterr().out
    assert "+sysctl:vm.swappiness = 10" in printed
    assert "harmless" not in printed


CHANGE = {
    "address": "sysctl:vm.swappiness",
    "action": "update",
    "before": "60",
    "after": "10",
    "rule": "memory-swappiness",
}


def made(run, **more):
    return {
        "digest": "1" * 64,
        "changes": [CHANGE | {"phase": "done"}],
        "run_id": run,
        "approved": True,
        **more,
    }


def test_host_that_dropped_out_after_its_answer_is_no_success(folding, capsys):
    result = folding(
        {"a": made("r1"), "b": made("r2")}, lost=["b"], act="apply", max_fail_percentage=0
    )
    assert result["failed_hosts"] == {
        "b": "no answer any more; run r2 was made; whether it is drained, or has rebooted, is not known"
    }
    assert result["ends"]


def test_host_that_says_itself_why_nothing_was_begun_may_not_be_made_in_part(folding, capsys):
    refused = {
        "failed": True,
        "changed": False,
        "msg": "no rule is called TYPO",
        "reboot_reasons": [],
    }
    folding({"a": refused}, act="undo", max_fail_percentage=0)
    printed = capsys.readouterr().out
    assert "a: no rule is called TYPO" in printed
    assert "made in part" not in printed


def test_host_that_was_never_asked_may_not_be_made_in_part(folding, capsys):
    """It failed at a wrong word of the role."""
    folding({"a": None}, act="apply", max_fail_percentage=0)
    printed = capsys.readouterr().out
    assert "It ends here" in printed
    assert "made in part" not in printed


def test_address_that_was_made_and_taken_back_is_named_once(folding, capsys):
    changes = [
        CHANGE | {"phase": "done"},
        CHANGE | {"phase": "failed", "address": "x:y"},
        CHANGE | {"phase": "done"},
    ]
    folding({"a": made("r1") | {"changes": changes, "msg": "no"}}, act="apply")
    assert f"  memory-swappiness: {CHANGE['address']}, x:y\n" in capsys.readouterr().out


def test_what_is_to_know_of_earlier_runs_stands_in_the_summary(folding, capsys):
    told = {"digest": "", "changes": [], "interrupted": ["run r1 was interrupted"]}
    for act in ("plan", "apply"):
        folding({"a": told, "b": told | {"interrupted": []}}, act=act)
        assert (
            "1 host: to know of earlier runs\n  a: run r1 was interrupted\n"
            in capsys.readouterr().out
        )


@pytest.mark.parametrize(("most", "ends"), [(None, False), (0, True), (49, True), (50, False)])
def test_rollout_ends_where_more_of_a_batch_failed_than_may(most, ends, folding, capsys):
    earlier = {"c": made("r0"), "later": None}
    lost = {"unreachable": True, "msg": "Failed to connect to the host via ssh"}
    result = folding(
        {"a": made("r1"), "b": lost}, earlier=earlier, act="apply", max_fail_percentage=most
    )
    assert result["ends"] is ends
    printed = capsys.readouterr().out
    ended = "It ends here; of later batches, nothing is touched: later.\nNext\n  b: see `hosttune history` there"
    assert (ended in printed) is ends
    back = "    ansible-playbook -i 'my hosts' hosttune.hosttune.undo -e run_id=r0,r1\n"
    assert (back in printed) is ends


def test_quiet_fold_prints_nothing_and_tells_who_is_not_as_it_should_be(folding, capsys):
    result = folding(
        {"a": made("r1", compliant=False), "b": made("r2", compliant=True)}, quiet=True
    )
    assert result["not_compliant"] == ["a"]
    assert capsys.readouterr().out == ""


def test_plan_that_is_not_approved_is_told_by_what_moved_since_the_review(
    folding, tmp_path, capsys
):
    fstab = CHANGE | {"address": "fstab:/data", "before": "defaults", "after": "defaults,noatime"}
    gone, other = CHANGE | {"address": "sysctl:gone"}, CHANGE | {"before": "30"}
    seen = {"hosts": [{"findings": [{"changes": [CHANGE, gone]}]}]}
    for host in ("a", "same"):
        (tmp_path / f"{host}.json").write_text(json.dumps(seen))
    (tmp_path / "torn.json").write_text("{")
    left = {"digest": "2" * 64, "approved": False}
    answers = {
        "a": left | {"changes": [other, fstab]},
        "same": left | {"changes": [CHANGE, gone]},
        "torn": left | {"changes": [CHANGE]},
        "never": left | {"changes": [CHANGE]},
        "approved": made("r1"),
    }
    folding(answers, act="apply", reviewed=str(tmp_path))
    told = "sysctl:vm.swappiness is 30 now, and was 60 at the review"
    assert capsys.readouterr().out.partition("4 hosts: not approved\n")[2].splitlines()[:4] == [
        f"  a: fstab:/data is new since the review; sysctl:gone is no longer needed; {told}",
        f"  never: no review of this host in {tmp_path}: check.yml keeps one",
        "  same: its plan is that of the review, which is not among the approved ones",
        f"  torn: no review of this host in {tmp_path}: check.yml keeps one",
    ]


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"before": 30}, "is 30 now, and was 60 at the review"),
        ({"after": "1"}, "would become 1, at the review 10"),
        ({"before": "x" * 41}, "would go from or to another value than at the review"),
        (
            {"before": None, "action": "create"},
            "would go from or to another value than at the review",
        ),
    ],
)
def test_what_moved_is_told_by_its_values_where_they_are_short(
    now, told, folding, tmp_path, capsys
):
    (tmp_path / "a.json").write_text(json.dumps({"hosts": [{"findings": [{"changes": [CHANGE]}]}]}))
    left = {"digest": "2" * 64, "approved": False, "changes": [CHANGE | now]}
    folding({"a": left}, act="apply", reviewed=str(tmp_path))
    assert f"  a: sysctl:vm.swappiness {told}\n" in capsys.readouterr().out


def test_folder_that_cannot_be_written_is_named_with_the_way_out(folding, tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(
        AnsibleError, match=r"cannot be kept in .*/results: .*; name another folder \(results=DIR\)"
    ):
        folding({"a": {"digest": "", "changes": []}}, folder=str(tmp_path / "results"))


@pytest.fixture
def bundle(ansible):
    return runpy.run_path(str(PLUGINS / "plugin_utils/bundle.py"))


@pytest.fixture
def action(monkeypatch, bundle):
    utilities = {
        name: types.SimpleNamespace(**runpy.run_path(str(PLUGINS / f"plugin_utils/{name}.py")))
        for name in ("answers", "settings")
    }
    monkeypatch.setitem(
        sys.modules, OWN, module(OWN, bundle=types.SimpleNamespace(**bundle), **utilities)
    )
    return runpy.run_path(str(PLUGINS / "plugin_utils/bringing.py"))["BringingAction"]()


def test_file_is_found_where_the_person_stands(action, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpu.yaml").write_text("max_risk: low\n")
    assert action._policy({"policy_file": "gpu.yaml"}) == "max_risk: low\n"
    with pytest.raises(
        AnsibleError, match=r"/nope\.yaml: no such file on the controller, nor nope\.yaml beside"
    ):
        action._policy({"policy_file": "nope.yaml"})


OPTIONS = (
    "policy_file", "policy", "rules_files", "rules", "profile", "select", "ignore", "only", "max_risk", "disturb", "bundle",
    "executable", "approved", "run_id", "undo_digest", "rule", "state", "gather", "confirm_within", "confirm_by",
    "without_return", "trial",
)  # fmt: skip


@pytest.mark.parametrize("empty", ["", None, [""], ["a", None], {}], ids=repr)
@pytest.mark.parametrize("name", OPTIONS)
def test_empty_value_of_a_task_is_refused_before_any_host_is_asked(name, empty, action):
    """It would mean the policy of the host, every plan, or the last run."""
    action._task = types.SimpleNamespace(args={name: empty})
    action._execute_module = lambda **_: pytest.fail("a host was asked")
    answer = action.run(task_vars={})
    assert answer == {
        "failed": True,
        "msg": f"{name}: the value is empty; name one, or leave it out",
    }


def test_every_option_of_the_modules_is_tried_with_an_empty_value():
    fragment = (PLUGINS / "doc_fragments/look.py").read_text()
    documented = yaml.safe_load(fragment.partition('r"""')[2].partition('"""')[0])["options"]
    for name in ("tune", "tune_info"):
        text = (
            (PLUGINS / f"modules/{name}.py")
            .read_text()
            .partition('DOCUMENTATION = r"""')[2]
            .partition('"""')[0]
        )
        documented |= yaml.safe_load(text)["options"]
    assert {name for name in documented if not name.startswith("_")} == set(OPTIONS)


@pytest.mark.parametrize("name", ["register", "folder", "reviewed", "act"])
def test_empty_value_of_plan_classes_is_refused(folding, name):
    with pytest.raises(AnsibleError, match=f"{name}: the value is empty"):
        folding({}, **{name: ""})


def test_role_has_no_empty_default_and_refuses_what_it_uses_itself():
    role = PLUGINS.parent / "roles/hosttune"
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"][
        "main"
    ]["options"]
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    assert all(value not in ("", [], {}, None) for value in defaults.values())
    assert {name: one["default"] for name, one in specs.items() if "default" in one} == defaults
    for name in ("main", "look", "undo"):
        first = yaml.safe_load((role / f"tasks/{name}.yml").read_text())[0]
        assert first["ansible.builtin.include_tasks"] == "check_words.yml"
    (reads, *_rest) = yaml.safe_load((role / "tasks/check_words.yml").read_text())
    assert (reads["register"], reads["ignore_errors"]) == ("hosttune_settings", False)
    assert (
        reads["hosttune.hosttune.controller_settings"] is None
    )  # the variables of the role, none of them empty


def test_role_takes_its_variables_from_the_settings_of_the_controller_only():
    """A variable named as such would be that of the host, if one of its modules returns a fact of
    this name.
    """
    role = PLUGINS.parent / "roles/hosttune"
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    names = {name for entry in specs.values() for name in entry["options"]}
    for path in [*role.glob("tasks/*.yml"), *role.glob("templates/*"), role / "vars/main.yml"]:
        used = set(
            re.findall(
                r"\bhosttune_[a-z_]+", re.sub(r"#.*|fail_msg: \"hosttune_.*", "", path.read_text())
            )
        )
        assert not used & names, path


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["nonsense"], r"rules\[0\]: is no rule written out; files of rules go into rules_files"),
        ({"id": "site-a"}, "rules: is not a list of rules"),
        ([{"id": "site-b"}, {"id": "site-b"}], r"rules\[1\]: the rule site-b is there twice"),
        ([{"id": "site-a"}], r"rules\[0\]: the rule site-a is there twice"),
    ],
)
def test_rules_of_a_task_that_are_none_are_named(rules, said, action, tmp_path):
    (tmp_path / "site-a.yaml").write_text("id: site-a\n")
    with pytest.raises(AnsibleError, match=said):
        action._rules({"rules_files": [str(tmp_path / "site-a.yaml")], "rules": rules})


def read_text(path):
    return Path(path).read_text()


def test_rule_files_of_one_name_are_refused(bundle, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "site-a.yaml").write_text("id: site-a\n")
    assert set(bundle["rule_texts"]([str(tmp_path / "a"), str(tmp_path / "a")], read_text)) == {
        "site-a.yaml"
    }
    with pytest.raises(AnsibleError, match=r"a/site-a\.yaml and .*/b/site-a\.yaml have one name"):
        bundle["rule_texts"]([str(tmp_path / "a"), str(tmp_path / "b")], read_text)


FAULTY = """\
#!/bin/sh
echo "hosttune: run r1 is on trial" >&2
echo "  + file:/etc/fstab" >&2
echo "hosttune: $3:1: profle: is no key" >&2
echo "    hint: did you mean profile?" >&2
echo "  $3:2: max_risk: is none of low, medium, high" >&2
exit 2
"""


def test_where_the_folder_in_memory_cannot_be_used_another_private_one_is(tmp_path, monkeypatch):
    client = runpy.run_path(str(PLUGINS / "module_utils/client.py"))
    names = client["Client"].__init__.__globals__
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    names["MEMORY"] = str(tmp_path / "gone")
    with client["Client"]("/bin/true", policy="x: 1\n", look={"profile": "base"}) as asked:
        assert asked.folder.startswith(str(tmp_path / "disk"))
        assert Path(asked.folder).stat().st_mode & 0o777 == 0o700
        assert asked.look == {"profile": "base", "policy": f"{asked.folder}/policy.yaml"}
    assert list((tmp_path / "disk").iterdir()) == []
    (tmp_path / "disk").rmdir()
    with pytest.raises(
        client["Trouble"], match="hosttune cannot be laid down: No such file or directory"
    ):
        client["Client"]("/bin/true").__enter__()


def test_fault_of_a_policy_names_the_file_of_the_controller_and_each_fault_in_a_line(tmp_path):
    client = runpy.run_path(str(PLUGINS / "module_utils/client.py"))
    program = tmp_path / "hosttune"
    program.write_text(FAULTY)
    program.chmod(0o755)
    made = client["Client"](str(program), policy="profle: base\n", policy_name="site/gpu.yaml")
    with made as asked, pytest.raises(client["Trouble"]) as raised:
        asked.ask("plan", look=asked.look)
    assert str(raised.value).splitlines() == [
        "site/gpu.yaml:1: profle: is no key",
        "  hint: did you mean profile?",
        "site/gpu.yaml:2: max_risk: is none of low, medium, high",
    ]


def test_task_in_the_background_is_refused_before_any_host_is_asked(action):
    action._task = types.SimpleNamespace(args={}, async_val=60)
    action._execute_module = lambda **_: pytest.fail("a host was asked")
    answer = action.run(task_vars={})
    assert answer["failed"]
    assert answer["msg"].startswith("async: this module does not run in the background, because ")


def test_lists_are_also_words_with_commas(action):
    split = type(action).run.__globals__["split_lists"]
    given = {"only": "a, b", "approved": ["1 ", 2], "select": "", "profile": "a, b"}
    assert split(given) == {
        "only": ["a", "b"],
        "approved": ["1", 2],
        "select": "",
        "profile": "a, b",
    }


REFUSED = (
    "Failed to connect to the host via ssh: ssh: connect to host gpu01 port 22: Connection refused"
)
CUT_OFF = "Failed to connect to the host via ssh: Shared connection to gpu01 closed."


@pytest.mark.parametrize(
    ("is_handed_over", "retries", "text", "is_unbegun"),
    [
        (False, 3, CUT_OFF, True),
        (True, 0, REFUSED, True),
        (True, 1, REFUSED, False),  # of the second connection
        (True, 0, CUT_OFF, False),
    ],
)
def test_action_knows_where_nothing_can_have_begun(
    is_handed_over, retries, text, is_unbegun, action
):
    action._is_handed_over = is_handed_over
    action._connection = types.SimpleNamespace(get_option=lambda _name: retries)
    answer = action._unanswered(AnsibleConnectionFailure(text))
    assert (answer["unreachable"], answer.get("unbegun", False)) == (True, is_unbegun)


@pytest.mark.parametrize(
    ("failure", "found"),
    [
        (
            {
                "msg": "MODULE FAILURE",
                "rc": 1,
                "module_stderr": "ops is not in the sudoers file.\n",
            },
            {
                "msg": "hosttune gave no answer there: ops is not in the sudoers file.",
                "unbegun": True,
            },
        ),
        (
            {
                "msg": "MODULE FAILURE",
                "rc": 1,
                "module_stderr": "Traceback\nMemoryError\nShared connection to a closed.\n",
            },
            {"msg": "hosttune gave no answer there: MemoryError"},
        ),
        (
            {
                "msg": "MODULE FAILURE",
                "rc": 127,
                "module_stderr": "pyenv: python3: command not found\n\n   It exists in others.\n",
            },
            {
                "msg": "hosttune gave no answer there: pyenv: python3: command not found",
                "unbegun": True,
            },
        ),
        ({"msg": "The module interpreter '/x' was not found.", "rc": 127}, {"unbegun": True}),
        ({"msg": "gpu.yaml:1: no key"}, {}),
    ],
)
def test_module_without_an_answer_is_told_by_the_words_of_what_failed(failure, found, action):
    assert type(action).run.__globals__["_explained"](failure) == found


def test_host_where_nothing_began_may_not_be_made_in_part(folding, capsys):
    lost = {"unreachable": True, "msg": "Failed to connect to the host via ssh"}
    folding({"a": lost | {"unbegun": True}, "b": lost}, act="apply", max_fail_percentage=0)
    assert (
        "  b: see `hosttune history` there; what was begun may be made in part"
        in capsys.readouterr().out
    )


def test_summary_is_on_standard_error_where_a_program_reads_json(folding, capsys, monkeypatch):
    monkeypatch.setattr(
        sys.modules["ansible"].constants, "DEFAULT_STDOUT_CALLBACK", "ansible.posix.json"
    )
    result = folding({"a": {"digest": "", "changes": []}})
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "".join(f"{line}\n" for line in result["summary"]))
    assert result["summary"][0] == "1 host: nothing to change"


def test_output_without_an_end_costs_its_host_alone(action, monkeypatch):
    """Ansible reads all that a host prints: here 1 GiB, a part at a time."""
    read = []

    def execute(**_):
        read.extend(
            bytes(16 << 20) for _ in range(64)
        )  # zeros that are never touched cost this test no memory
        return {}

    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(type(action), "SCHEMA", {})
    action._discovered_interpreter_key = None
    action._execute_module = execute
    said = "the answer of this host is none of hosttune: it printed more than the controller has memory for"
    assert action._ask({}, {}) == {"failed": True, "changed": False, "msg": said}
    assert 0 < len(read) < 20
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize("gather", [(), ("record",)])
def test_output_that_is_larger_than_any_answer_is_not_looked_at(gather, action, monkeypatch):
    bounds = type(action).run.__globals__["answers"]
    monkeypatch.setattr(bounds, "MAX_OUTPUT", 1 << 20)
    monkeypatch.setattr(bounds, "MAX_RECORD_OUTPUT", 2 << 20)
    monkeypatch.setattr(type(action), "SCHEMA", {"msg": {"type": "str"}})
    monkeypatch.setattr(
        ActionBase, "_parse_returned_data", lambda _, res: json.loads(res["stdout"]), raising=False
    )
    action._discovered_interpreter_key = None
    for size, is_taken in ((1000, True), (1 << 21, False)):
        printed = json.dumps({"msg": "x", "more": "x" * size})
        action._execute_module = lambda printed=printed, **_: action._parse_returned_data(
            {"stdout": printed, "stderr": ""}
        )
        answer = action._ask({"gather": gather}, {})
        said = f"the answer of this host is none of hosttune: it printed more than {1 + len(gather)} MiB"
        assert answer == (
            {"msg": "x"} if is_taken else {"failed": True, "changed": False, "msg": said}
        )
