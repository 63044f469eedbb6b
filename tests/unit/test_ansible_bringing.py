"""What travels with a task, and what is said of words that do not fit, without Ansible."""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parents[2] / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
OWN = "ansible_collections.hosttune.hosttune.plugins.plugin_utils"


class AnsibleError(Exception):
    pass


class ActionBase:
    """What the action asks Ansible for. It finds no file in a role or beside a playbook."""

    def _find_needle(self, folder, name):
        raise AnsibleError(f"Could not find or access '{name}'")


def module(name, **holds):
    made = types.ModuleType(name)
    vars(made).update(holds)
    return made


@pytest.fixture
def bundle(monkeypatch):
    monkeypatch.setitem(sys.modules, "ansible.errors", module("ansible.errors", AnsibleError=AnsibleError))
    return runpy.run_path(str(PLUGINS / "plugin_utils/bundle.py"))


@pytest.fixture
def action(monkeypatch, bundle):
    monkeypatch.setitem(sys.modules, "ansible.plugins.action", module("ansible.plugins.action", ActionBase=ActionBase))
    monkeypatch.setitem(sys.modules, OWN, module(OWN, bundle=types.SimpleNamespace(**bundle)))
    return runpy.run_path(str(PLUGINS / "plugin_utils/bringing.py"))["BringingAction"]()


def test_file_is_found_where_the_person_stands(action, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpu.yaml").write_text("edition: 2026.1\n")
    assert action._policy({"policy_file": "gpu.yaml"}) == "edition: 2026.1\n"
    with pytest.raises(AnsibleError, match=r"/nope\.yaml: no such file on the controller, nor nope\.yaml beside"):
        action._policy({"policy_file": "nope.yaml"})


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["nonsense"], r"rules\[0\]: is no rule written out; files of rules go into rules_files"),
        ({"id": "site-a"}, "rules: is no list of rules"),
        ([{"id": "site-b"}, {"id": "site-b"}], r"rules\[1\]: the rule site-b is there twice"),
        ([{"id": "site-a"}], r"rules\[0\]: the rule site-a is there twice"),
    ],
)
def test_rules_of_a_task_that_are_none_are_named(rules, said, action, tmp_path):
    (tmp_path / "site-a.yaml").write_text("id: site-a\n")
    with pytest.raises(AnsibleError, match=said):
        action._rules({"rules_files": [str(tmp_path / "site-a.yaml")], "rules": rules})


def test_rule_files_of_one_name_are_refused(bundle, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "site-a.yaml").write_text("id: site-a\n")
    assert set(bundle["rule_texts"]([str(tmp_path / "a"), str(tmp_path / "a")])) == {"site-a.yaml"}
    with pytest.raises(AnsibleError, match=r"a/site-a\.yaml and .*/b/site-a\.yaml have one name"):
        bundle["rule_texts"]([str(tmp_path / "a"), str(tmp_path / "b")])


FAULTY = """\
#!/bin/sh
echo "hosttune: $4:1: profle: is no key" >&2
echo "    hint: did you mean profile?" >&2
echo "  $4:2: max_risk: is none of low, medium, high" >&2
exit 2
"""


def test_fault_of_a_policy_names_the_file_of_the_controller_and_each_fault_in_a_line(tmp_path):
    client = runpy.run_path(str(PLUGINS / "module_utils/client.py"))
    program = tmp_path / "hosttune"
    program.write_text(FAULTY)
    program.chmod(0o755)
    made = client["Client"](str(program), policy="profle: base\n", policy_name="site/gpu.yaml")
    with made as asked, pytest.raises(client["Trouble"]) as raised:
        asked.ask("plan", "x", *asked.look)
    assert str(raised.value).splitlines() == [
        "site/gpu.yaml:1: profle: is no key",
        "  hint: did you mean profile?",
        "site/gpu.yaml:2: max_risk: is none of low, medium, high",
    ]
