# SPDX-License-Identifier: Apache-2.0
"""Brings what the module hosttune.hosttune.tune needs, and confirms over a new connection what is
on trial.
"""

from __future__ import annotations

import shlex
import time

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.hosttune.hosttune.plugins.module_utils.answer import rules_of, warnings_of
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import answers
from ansible_collections.hosttune.hosttune.plugins.plugin_utils.bringing import BringingAction

LIVE = "on trial: live"
PAUSE_S = 10
UNTOLD_S = 120  # of a run that the task does not name
RETURN_S, BOOT_S = 60, 900  # what taking it back needs: at once, or with a boot
# what is not as before may still come: of what is live, and late in a boot
LATE_S = {True: 30, False: 300}


class ActionModule(BringingAction):
    """The action of hosttune.hosttune.tune."""

    MODULE = "hosttune.hosttune.tune"
    SCHEMA = answers.load_schema("tune") | {"kept": {"type": "bool"}}  # kept: for this action only

    def _ask(self, given, task_vars):
        if given.get("state") == "confirmed" and not self._task.check_mode:
            return self._confirmed(given, task_vars)
        answer = super()._ask(given, task_vars)
        answer.pop("kept", None)
        if "reboot_required" in answer:  # it came to its end
            warnings = warnings_of(answer, is_asked_trial=bool(given.get("confirm_within")))
            answer["warnings"] = answers.shortened([answers.clean_line(one) for one in warnings])
        return answer

    def _confirmed(self, given, task_vars):
        """Ask until it is kept, has come back, or will not be confirmed any more."""
        trial = given.get("trial") or {}
        end = time.monotonic() + waited_s(trial)
        while True:
            answer = self._anew(given, task_vars)
            if answer.pop("kept", False) or answer.get("failed"):
                return answer
            now = time.monotonic()
            if answer.get("losses"):
                end = min(end, now + LATE_S[(answer.get("trial") or {}).get("state") == LIVE])
            if now + PAUSE_S >= end:
                return dict(
                    answer,
                    failed=True,
                    msg=answers.clean_message(not_kept(trial, answer)),
                    unreachable=False,
                )
            time.sleep(PAUSE_S)

    def _anew(self, given, task_vars):
        """What the module answers over a new connection: an older one goes on where no new one is
        let in.
        """
        try:
            self._connection.reset()
            return super()._ask(given, task_vars)
        except AnsibleConnectionFailure as error:
            return {"unreachable": True, "msg": answers.clean_message(str(error).strip())}


def waited_s(trial):
    """How long a host may take to answer and to be as before: until it has taken the run back by
    itself.
    """
    if not trial:
        return UNTOLD_S
    name, more = ("within_s", RETURN_S) if trial.get("state") == LIVE else ("boot_within_s", BOOT_S)
    return min(trial.get(name) or 0, answers.MAX_WAIT_S) + more


def not_kept(trial, answer):
    """Why a run was not confirmed, and what becomes of it, in one sentence."""
    now = dict(trial, **(answer.get("trial") or {}))
    rules = ", ".join(rules_of(now))
    until = " until {} UTC".format(now["until"][11:16]) if now.get("until") else ""
    run = "run {} ({})".format(now["run"], rules) if now.get("run") else "what is on trial"
    if answer.get("unreachable"):
        return (
            f"{run} was on trial{until}, and this host did not answer over a new connection: it "
            "takes the run back by itself; when it answers again, sudo hosttune history there "
            f"tells what became of it ({answer['msg']})"
        )
    lost = answers.clean_line(
        "; ".join(answer.get("losses") or ["it was not told"]), longest=answers.MAX_LINE // 2
    )
    run_id = shlex.quote(now["run"]) + " " if now.get("run") else ""
    keep = f"sudo hosttune confirm {run_id}--anyway"
    return (
        f"{run} was not confirmed, because this host is not as before: {lost};"
        f" it takes the run back by itself{until and ' at' + until[6:]}, unless: {keep}"
    )
