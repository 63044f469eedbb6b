# SPDX-License-Identifier: Apache-2.0
"""The action of both modules: hosttune, the policy and the rules travel with the task, in its one round trip."""

from __future__ import annotations

import json
import os

from ansible.errors import AnsibleError
from ansible.module_utils.json_utils import _filter_non_json_lines
from ansible.plugins.action import ActionBase
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import answers, bundle, settings


def refuse_empty(given):
    """An empty value is a variable that was never set: it would mean the policy of the host, or every plan."""
    for name, value in given.items():
        if value in ("", None, {}) or (isinstance(value, list) and ("" in value or None in value)):
            raise AnsibleError(f"{name}: the value is empty; name one, or leave it out")


class BringingAction(ActionBase):
    """Runs the module of the same name with what it needs from the controller."""

    TRANSFERS_FILES = False
    MODULE = ""
    SCHEMA = None  # of what the module returns

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        given = dict(self._task.args)
        try:
            settings.refuse_facts(task_vars or {})
            refuse_empty(given)
            given["_site"] = {
                "policy": self._policy(given),
                "policy_name": given.get("policy_file") or "",
                "rules": self._rules(given),
            }
            if not given.get("executable"):
                given["_payload"] = bundle.payload(bundle.bundle_path(self._found(given.get("bundle"))))
        except (AnsibleError, OSError, UnicodeDecodeError) as error:
            result.update(failed=True, msg=str(error))
            return result
        result.update(self._ask(given, task_vars))
        return result

    def _ask(self, given, task_vars):
        """What the module answers: its documented keys. Ansible acts on others, which therefore never get there:
        ansible_facts are variables that beat those of the inventory, add_host changes the inventory.
        """
        answer = self._execute_module(module_name=self.MODULE, module_args=given, task_vars=task_vars)
        try:
            taken = answers.parse_answer(answer, self.SCHEMA)
        except answers.MalformedAnswer as error:
            taken = {"failed": True, "changed": False, "msg": f"the answer of this host is none of hosttune: {error}"}
        # The interpreter that Ansible itself has found, so that it is searched for only once.
        if self._discovered_interpreter_key:
            taken["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        return taken

    def _parse_returned_data(self, res, *more):
        """Ansible shows warnings, deprecations and what else a module printed while it parses its answer. So only the
        documented keys get there.
        """
        res = dict(res, stdout=answers.clean_output(res["stdout"]), stderr=answers.clean_output(res["stderr"]))
        try:
            text, _junk = _filter_non_json_lines(res["stdout"], objects_only=True)
            res["stdout"] = json.dumps({name: one for name, one in json.loads(text).items() if name in self.SCHEMA})
        except (ValueError, RecursionError):
            pass  # Ansible says that this is no answer
        return super()._parse_returned_data(res, *more)

    def _found(self, name):
        """A file of the controller, looked for where the files of a role or a playbook are, then where the person
        stands: the playbooks of the collection lie in no folder of the site.
        """
        if not name:
            return None
        try:
            return self._find_needle("files", name)
        except AnsibleError:
            here = os.path.abspath(os.path.expanduser(name))
            if os.path.exists(here):
                return here
            raise AnsibleError(f"{here}: no such file on the controller, nor {name} beside the playbook") from None

    def _policy(self, given):
        if given.get("policy_file"):
            with open(self._found(given["policy_file"]), encoding="utf-8") as file:
                return file.read()
        if given.get("policy") is not None:
            return json.dumps(given["policy"], indent=1, default=str)
        return None

    def _rules(self, given):
        names = given.get("rules_files") or []
        texts = bundle.rule_texts([self._found(name) for name in ([names] if isinstance(names, str) else names)])
        return bundle.with_written_out(texts, given.get("rules") or [])
