# SPDX-License-Identifier: Apache-2.0
"""Folds what the hosts of a play answered, prints it, and writes it down on the controller."""

from __future__ import annotations

import json
import os
import tempfile
import time

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import classes

SAID = "it was not asked, or did not answer"
FAILURE = "hosttune_failure"  # why the playbook gave this host up
MISSING = "hosttune missing"  # the kind of a document that stands for a host without an answer


class ActionModule(ActionBase):
    """The action of hosttune.hosttune.plan_classes. It runs on the controller and reaches no host."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        _checked, given = self.validate_argument_spec(
            argument_spec=dict(
                hosts=dict(type="list", elements="str", required=True),
                register=dict(type="str", required=True),
                folder=dict(type="path"),
                act=dict(type="str", choices=["plan", "apply", "undo"], default="plan"),
            )
        )
        for name in ("register", "folder", "act"):
            if self._task.args.get(name, name) in ("", None):
                raise AnsibleError(f"{name}: the value is empty; name one, or leave it out")
        answers, failed, silent = {}, {}, {}
        for host in given["hosts"]:
            # As they were registered: hostvars[host] runs every word of them through the templates, which for
            # thousands of hosts takes minutes, and what a host answered is no template.
            known = task_vars["hostvars"].raw_get(host)
            known = known if isinstance(known, dict) else {}
            one = known.get(given["register"]) or {}
            if "digest" in one:
                answers[host] = one
            if one.get("failed") or "digest" not in one or known.get(FAILURE):
                failed[host] = _reason(known.get(FAILURE) or one.get("msg") or SAID)
            if host in failed and host not in answers:
                silent[host] = failed[host]
        found = classes.folded(answers, act=given["act"], is_planned=self._task.check_mode)
        for line in classes.summary(found, answers, failed):
            Display().display(line)
        if given["folder"] and not self._task.check_mode:
            try:
                written(given["folder"], answers, silent)
            except OSError as error:
                raise AnsibleError(
                    f"the answers cannot be kept in {os.path.abspath(given['folder'])}: {error.strerror};"
                    " name another folder (results=DIR), or none (results=)"
                ) from None
            result["changed"] = bool(answers or silent)
        result["classes"] = found
        result["failed_hosts"] = failed
        return result


def _reason(text):
    """A reason without what Ansible puts before every one of them."""
    for prefix in ("Task failed: ", "Action failed: ", "Module failed: "):
        text = text.removeprefix(prefix)
    return text


def written(folder, answers, silent):
    """One file a host; the records in a folder of their own, so that FOLDER/*.json names each host once."""
    for host, one in answers.items():
        document = {"format_version": 1, "hosts": [dict(one["check"], host=host)]} if one.get("check") else one
        replace(os.path.join(folder, host + ".json"), json.dumps(document, indent=1, default=str) + "\n")
        if one.get("record"):
            replace(os.path.join(folder, "records", host + ".json"), one["record"])
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for host, reason in silent.items():
        document = {"format_version": 1, "kind": MISSING, "host": host, "at": at, "reason": reason}
        replace(os.path.join(folder, host + ".json"), json.dumps(document, indent=1) + "\n")


def replace(path, text):
    """Write a file at once, readable by its owner alone."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".hosttune-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)
