# SPDX-License-Identifier: Apache-2.0
"""The action of both modules: hosttune, the policy and the rules travel with the task, in its one
round trip.
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
from contextlib import contextmanager

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.json_utils import _filter_non_json_lines
from ansible.plugins.action import ActionBase
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import answers, bundle, settings

LISTS = ("approved", "gather", "ignore", "only", "rules_files", "run_id", "select")
NO_ASYNC = (
    "async: this module does not run in the background, because Ansible would then take what the "
    "host answers unchecked; leave async and poll out: a run that loses its connection is finished "
    "by the next one"
)
# Words of ssh and of sudo before they start anything on the host.
UNREACHED = re.compile(
    r"ssh: (?:connect to host|Could not resolve)|Permission denied \(|Host key verification failed"
)
NOT_ROOT = re.compile(
    r"(?:Missing|Incorrect) \w+ password|sudo: a (?:password|terminal) is required|(?:not|NOT) in "
    r"the sudoers"
)
NO_INTERPRETER = (126, 127)
# Words of ansible-core before it says that the reason is on standard error.
NO_ANSWER = (
    "MODULE FAILURE",
    "Module result deserialization failed",
    "The module failed to execute correctly",
)

# So many bytes of memory the controller takes for each byte that a module may print: as it came, as
# text, parsed.
MEMORY_PER_BYTE = 12
VM_DATA = re.compile(r"^VmData:\s+(\d+) kB$", re.MULTILINE)


class TooMuch(AnsibleError):
    """A host printed more than any answer of hosttune has."""


@contextmanager
def bounded_memory(more):
    """Let this process take at most `more` bytes: Ansible itself reads all that a host prints,
    which may have no end. Then there is a MemoryError here, and no other host loses its answer:
    Ansible forks a process for each task of a host. Without Linux nothing is bounded
    (proc_pid_status(5); RLIMIT_DATA of getrlimit(2)).
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            taken = VM_DATA.search(file.read())
    except OSError:
        taken = None
    if taken is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [one for one in (soft, hard) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([*limits, int(taken[1]) * 1024 + more]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def split_lists(given):
    """The same arguments, with lists of words as `a, b` gives them, too."""
    found = dict(given)
    for name in LISTS:
        value = given.get(name)
        words = value.split(",") if isinstance(value, str) else value
        if value and isinstance(words, (list, tuple)):
            found[name] = [one.strip() if isinstance(one, str) else one for one in words]
    return found


def refuse_empty(given):
    """An empty value is a variable that was never set: it would mean the policy of the host, or
    every plan.
    """
    for name, value in given.items():
        if value in ("", None, {}) or (isinstance(value, list) and ("" in value or None in value)):
            raise AnsibleError(f"{name}: the value is empty; name one, or leave it out")


class BringingAction(ActionBase):
    """Runs the module of the same name with what it needs from the controller."""

    TRANSFERS_FILES = False
    MODULE = ""
    SCHEMA = None  # of what the module returns
    _is_handed_over = False  # whether the host may have begun to run the module
    _most = answers.MAX_OUTPUT  # characters that it may print

    def run(self, tmp=None, task_vars=None):
        if getattr(self._task, "async_val", 0):
            return {"failed": True, "msg": NO_ASYNC}
        result = super().run(tmp, task_vars)
        del tmp
        given = split_lists(self._task.args)
        try:
            settings.refuse_facts(task_vars or {})
            refuse_empty(given)
            site = {
                "policy": self._policy(given),
                "policy_name": given.get("policy_file") or "",
                "rules": self._rules(given),
            }
            # Encoded, so that no part of it can be masked in the answer, as Ansible masks what it
            # does not log.
            given["_site"] = base64.b64encode(json.dumps(site).encode()).decode()
            # The host logs its arguments, and these may be out of a vault.
            given.update(
                {name: type(given[name])() for name in ("policy", "rules") if given.get(name)}
            )
            if not given.get("executable"):
                given["_payload"] = bundle.payload(
                    bundle.bundle_path(self._found(given.get("bundle")))
                )
        except (AnsibleError, OSError, UnicodeDecodeError) as error:
            result.update(failed=True, msg=str(error))
            return result
        result.update(self._ask(given, task_vars))
        return result

    def _ask(self, given, task_vars):
        """What the module answers: its documented keys. Ansible acts on others, which therefore
        never get there: ansible_facts are variables that beat those of the inventory, add_host
        changes the inventory.
        """
        self._is_handed_over = False
        has_record = "record" in (given.get("gather") or ())
        self._most = answers.MAX_RECORD_OUTPUT if has_record else answers.MAX_OUTPUT
        try:
            with bounded_memory(self._most * MEMORY_PER_BYTE):
                answer = self._execute_module(
                    module_name=self.MODULE, module_args=given, task_vars=task_vars
                )
                taken = answers.parse_answer(answer, self.SCHEMA)
        except (answers.MalformedAnswer, TooMuch) as error:
            taken = _refused(str(error))
        except MemoryError:
            taken = _refused("it printed more than the controller has memory for")
        except AnsibleError as error:
            return self._unanswered(error)
        if taken.get("failed") and "reboot_reasons" not in taken:
            taken.update(_explained(taken))
        # The interpreter that Ansible itself has found, so that it is searched for only once.
        if self._discovered_interpreter_key:
            taken["ansible_facts"] = {
                self._discovered_interpreter_key: self._discovered_interpreter
            }
        return taken

    def _unanswered(self, error):
        """The result of a task whose host was not reached, or is not any more."""
        is_reached = not isinstance(error, AnsibleConnectionFailure)
        text = str(error)
        is_unbegun = not self._is_handed_over
        if is_reached:
            is_unbegun = is_unbegun or bool(NOT_ROOT.search(text))
        else:  # with retries ssh may tell of the second connection, after the first one was cut off
            is_unbegun = is_unbegun or bool(UNREACHED.search(text) and not self._retries())
        failure = {"failed": True} if is_reached else {"unreachable": True}
        message = {**failure, "changed": False, "msg": answers.clean_message(text.strip())}
        return message | {"unbegun": True} if is_unbegun else message

    def _retries(self):
        try:
            return self._connection.get_option("reconnection_retries")
        except KeyError:
            return 0

    def _low_level_execute_command(self, cmd, *more, **named):
        # The one of all commands that starts the module: its text goes along, or lies there.
        self._is_handed_over = (
            self._is_handed_over or bool(named.get("in_data")) or "AnsiballZ_" in cmd
        )
        return super()._low_level_execute_command(cmd, *more, **named)

    def _parse_returned_data(self, res, *more):
        """Ansible shows warnings, deprecations and what else a module printed while it parses its
        answer. So only the documented keys get there.
        """
        if max(len(res["stdout"]), len(res["stderr"])) > self._most:
            raise TooMuch(f"it printed more than {self._most >> 20} MiB")
        res = dict(
            res,
            stdout=answers.clean_output(res["stdout"]),
            stderr=answers.clean_output(res["stderr"]),
        )
        try:
            text, _junk = _filter_non_json_lines(res["stdout"], objects_only=True)
            res["stdout"] = json.dumps(
                {name: one for name, one in json.loads(text).items() if name in self.SCHEMA}
            )
        except (ValueError, RecursionError):
            pass  # Ansible says that this is no answer
        return super()._parse_returned_data(res, *more)

    def _found(self, name):
        """A file of the controller, looked for where the files of a role or a playbook are, then
        where the person stands: the playbooks of the collection lie in no folder of the site.
        """
        if not name:
            return None
        try:
            return self._find_needle("files", name)
        except AnsibleError:
            here = os.path.abspath(os.path.expanduser(name))
            if os.path.exists(here):
                return here
            raise AnsibleError(
                f"{here}: no such file on the controller, nor {name} beside the playbook"
            ) from None

    def _text(self, path):
        """The text of a file of the controller, also of one that ansible-vault has encrypted."""
        try:
            content, _is_shown = self._loader._get_file_contents(path)
        except AnsibleError as error:
            raise AnsibleError(f"{path}: {error}") from None
        return content.decode("utf-8")

    def _policy(self, given):
        if given.get("policy_file"):
            return self._text(self._found(given["policy_file"]))
        if given.get("policy") is not None:
            return json.dumps(given["policy"], indent=1, default=str)
        return None

    def _rules(self, given):
        names = given.get("rules_files") or []
        texts = bundle.rule_texts([self._found(name) for name in names], self._text)
        return bundle.with_written_out(texts, given.get("rules") or [])


def _refused(why):
    return {
        "failed": True,
        "changed": False,
        "msg": f"the answer of this host is none of hosttune: {why}",
    }


def _explained(failure):
    """What is known of a module that gave no answer: why, in the words of what was to start it;
    whether it began.
    """
    said = failure.get("module_stderr") or failure.get("module_stdout") or ""
    lines = [
        line
        for line in said.splitlines()
        if line.strip() and not line.startswith("Shared connection to ")
    ]
    is_unbegun = failure.get("rc") in NO_INTERPRETER or NOT_ROOT.search(
        failure.get("msg", "") + said
    )
    found = {"unbegun": True} if is_unbegun else {}
    if lines and failure.get("msg", "").startswith(NO_ANSWER):
        # of a traceback the last line is the error; of a shell without interpreter, the first one
        line = lines[0 if failure.get("rc") in NO_INTERPRETER else -1]
        found["msg"] = "hosttune gave no answer there: " + answers.clean_line(line.strip())
    return found
