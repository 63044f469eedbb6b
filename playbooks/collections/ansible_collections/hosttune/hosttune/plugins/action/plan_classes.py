# SPDX-License-Identifier: Apache-2.0
"""Folds what the hosts of a play answered, prints it, and writes it down on the controller."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
import time

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.hosttune.hosttune.plugins.module_utils.answer import diff_of
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import answers as taken
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import classes, settings

SAID = "it was not asked, or did not answer"
FAILURE = "_failure"  # of the registered variable: why the playbook gave this host up
BATCH = "hosttune_batch"  # what the playbook sets where a batch begins
# what a task that came to its end tells, also one that failed before it changed anything
TOLD = "reboot_reasons"
# of a task that did not come to its end: its action knows that nothing began there
UNBEGUN = "unbegun"
MISSING = "hosttune missing"  # the kind of a document that stands for a host without an answer
SCHEMA = taken.load_schema("tune_info") | taken.load_schema("tune")


class ActionModule(ActionBase):
    """The action of hosttune.hosttune.plan_classes. It runs on the controller and reaches no
    host.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        _checked, given = self.validate_argument_spec(
            argument_spec=dict(
                hosts=dict(type="list", elements="str", required=True),
                lost=dict(type="list", elements="str", default=[]),
                register=dict(type="str", required=True),
                folder=dict(type="path"),
                reviewed=dict(type="path"),
                act=dict(type="str", choices=["plan", "apply", "undo"], default="plan"),
                max_fail_percentage=dict(type="float"),
                quiet=dict(type="bool", default=False),
            )
        )
        for name in ("register", "folder", "reviewed", "act"):
            empty = ("",) if name in ("folder", "reviewed") else ("", None)
            if self._task.args.get(name, name) in empty:
                raise AnsibleError(f"{name}: the value is empty; name one, or leave it out")
        for name in ("folder", "reviewed"):
            given[name] = None if given[name] == os.devnull else given[name]
        act, most = given["act"], given["max_fail_percentage"]
        answers, failed = _answers(
            given["hosts"], given["register"], set(given["lost"] or ()), task_vars
        )
        is_planned = self._task.check_mode
        found = classes.folded(answers, act=act, is_planned=is_planned, failed=failed)
        ends = most is not None and len(failed) * 100 > len(given["hosts"]) * most
        moved = {} if given["quiet"] else _moved(answers, given["reviewed"])
        lines = [] if given["quiet"] else classes.summary(found, answers, failed, moved)
        lines = [taken.clean_line(line) for line in lines]
        asked = task_vars.get("ansible_play_hosts_all") or ()
        untouched = [host for host in asked if BATCH not in _known(host, task_vars)]
        if ends and not given["quiet"]:
            so_far, _failed = _answers(asked, given["register"], set(), task_vars)
            stands = {host: one for host, one in so_far.items() if not classes.is_lost(one)}
            runs = {host: one["run_id"] for host, one in stands.items() if one.get("run_id")}
            rest = [host for host in untouched if host not in given["hosts"]]
            asked_for = {host: _known(host, task_vars).get(given["register"]) for host in failed}
            silent = {
                host
                for host, one in asked_for.items()
                if one and host not in answers and TOLD not in one and not one.get(UNBEGUN)
            }
            way_on = classes.way_on(act, silent, rest, runs, _undo_command())
            lines += [taken.clean_line(line, longest=None) for line in way_on]  # a command is whole
        for line in lines:
            _show(line)
        if given["folder"] and not self._task.check_mode:
            silent = {host: reason for host, reason in failed.items() if host not in answers}
            try:
                lost = written(given["folder"], answers, silent)
            except OSError as error:
                raise AnsibleError(
                    f"the answers cannot be kept in {os.path.abspath(given['folder'])}: "
                    f"{error.strerror}; name another folder (results=DIR), or none (results=)"
                ) from None
            for host in lost.keys() - failed.keys():
                _show(taken.clean_line(f"{host}: {lost[host]}"))
            failed.update(lost)
            result["changed"] = bool(answers or silent)
        result.update(
            classes=found,
            failed_hosts=failed,
            not_compliant=[host for host, one in answers.items() if not one.get("compliant", True)],
            shortfalls={
                host: taken.clean_line(classes.shortfall(one, act, is_planned=is_planned))
                for host, one in answers.items()
                if not one.get("compliant", True)
            },
            summary=lines,
            untouched=untouched,
            undone_runs=[one["undone_run"] for one in answers.values() if one.get("undone_run")],
            ends=ends,
        )
        return result


def _show(line):
    """A line for people: on standard error where Ansible prints JSON for a program on standard
    output.
    """
    callback = (constants.DEFAULT_STDOUT_CALLBACK or "").rpartition(".")[2]
    Display().display(line, stderr="json" in callback)


def _known(host, task_vars):
    """The variables of a host as they were registered: hostvars[host] runs every word of them
    through the templates, which for thousands of hosts takes minutes, and what a host answered is
    no template.
    """
    known = task_vars["hostvars"].raw_get(host)
    return known if isinstance(known, dict) else {}


def _answers(hosts, register, lost, task_vars):
    """What the hosts answered, by host, and why others failed or gave no answer."""
    answers, failed = {}, {}
    for host in hosts:
        known = _known(host, task_vars)
        one = known.get(register) or {}
        why = settings.refusal(known, host) or known.get(register + FAILURE)
        try:
            taken.check_answer(one, SCHEMA)
            one = _as_compared(one)
        except taken.MalformedAnswer as error:
            one, why = {}, why or f"the answer of this host is none of hosttune: {error}"
        if "digest" in one and not settings.refused_facts(known):
            answers[host] = one
        if host in lost:
            run = "run {} was made; ".format(one["run_id"]) if one.get("run_id") else ""
            failed[host] = (
                f"no answer any more; {run}whether it is drained, or has rebooted, is not known"
            )
        elif one.get("failed") or "digest" not in one or why:
            failed[host] = taken.clean_message(_reason(str(why or one.get("msg") or SAID)))
    return answers, failed


def _as_compared(one):
    """The answer with a diff of the changes that are compared with those of other hosts, not one of
    the host's own.
    """
    if "plan_diff" not in one:
        return one
    changes = [
        change | {"details": change.get("details") or []} for change in one.get("changes") or ()
    ]
    diff = diff_of(changes)
    taken.check_answer({"plan_diff": diff}, SCHEMA)
    return one | {"plan_diff": taken.clean_diff(diff)}


def _moved(answers, folder):
    """For each host whose plan is not approved what is other than at its review, which `folder`
    keeps.
    """
    found = {}
    for host, one in answers.items():
        if one.get("approved", True):
            continue
        try:
            if taken.why_no_file_name(host):
                continue
            with open(
                os.path.join(folder or "", taken.file_stem(host) + ".json"), encoding="utf-8"
            ) as file:
                (before,) = json.load(file)["hosts"]
            found[host] = classes.moved_since(before, one["changes"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            found[host] = (
                f"no review of this host in {folder}: check.yml keeps one" if folder else ""
            )
    return {host: what for host, what in found.items() if what}


def _undo_command():
    """The command that takes runs back, as far as the names of the runs."""
    words = ["ansible-playbook"]
    for inventory in context.CLIARGS.get("inventory") or ():
        words += ["-i", inventory]
    own = os.path.join(os.path.dirname((context.CLIARGS.get("args") or [""])[0]), "undo.yml")
    words.append(own if os.path.isfile(own) else "hosttune.hosttune.undo")
    return shlex.join(words) + " -e run_id="


def _reason(text):
    """A reason without what Ansible puts before every one of them."""
    text = re.sub(r"^Task failed: .*The lookup plugin '\S+' failed: ", "", text, flags=re.DOTALL)
    for prefix in ("Task failed: ", "Action failed: ", "Module failed: "):
        text = text.removeprefix(prefix)
    return text


def written(folder, answers, silent):
    """One file a host; the records in a folder of their own, so that FOLDER/*.json names each host
    once. Returns the hosts of which something is not kept, each with the reason: one of them costs
    the others nothing.
    """
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lost, mine = {}, set()
    for host in [*answers, *silent]:
        one = answers.get(host, {})
        if host in silent:
            document = {
                "format_version": 1,
                "kind": MISSING,
                "host": host,
                "at": at,
                "reason": silent[host],
            }
        elif one.get("check"):
            document = {"format_version": 1, "hosts": [dict(one["check"], host=host)]}
        else:
            document = one
        try:
            replace(folder, host, json.dumps(document, indent=1, default=str) + "\n", mine)
            if one.get("record"):
                replace(
                    os.path.join(folder, "records"), host, taken.parse_record(one["record"]), mine
                )
        except (BadName, taken.MalformedAnswer) as error:
            lost[host] = f"not all that it answered is kept: {error}"
    return lost


class BadName(Exception):
    """The name of a host in the inventory that cannot be that of a file."""


def replace(folder, host, text, mine):
    """Write the file of a host at once, readable by its owner only. `mine` are the files that are
    written already, as device and inode: two names can be one on a file system that does not tell
    upper case from lower.
    """
    if why := taken.why_no_file_name(host):
        raise BadName(f"its name in the inventory is not a valid file name: {why}")
    path = os.path.join(folder, taken.file_stem(host) + ".json")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.lexists(path) and _identity(os.lstat(path)) in mine:
        raise BadName(
            f"its file {path} is that of another host, whose name differs in upper and lower case "
            "only"
        )
    descriptor, draft = tempfile.mkstemp(dir=folder, prefix=".hosttune-")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        mine.add(_identity(os.fstat(descriptor)))
    os.replace(draft, path)


def _identity(status):
    return status.st_dev, status.st_ino
