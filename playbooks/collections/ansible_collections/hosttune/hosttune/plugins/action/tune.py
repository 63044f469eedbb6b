# SPDX-License-Identifier: Apache-2.0
"""Brings what the module hosttune.hosttune.tune needs, and confirms over a new connection what is on trial."""

from __future__ import annotations

import time

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.hosttune.hosttune.plugins.plugin_utils.bringing import BringingAction

LIVE = "on trial: live"
PAUSE_S = 10
UNTOLD_S = 120  # of a run that the task does not name
RETURN_S, BOOT_S = 60, 900  # what taking it back needs: at once, or with a boot
LATE_S = {True: 30, False: 300}  # what is not as before may still come: of what is live, and late in a boot


class ActionModule(BringingAction):
    """The action of hosttune.hosttune.tune."""

    MODULE = "hosttune.hosttune.tune"

    def _ask(self, given, task_vars):
        if given.get("state") == "confirmed" and not self._task.check_mode:
            return self._confirmed(given, task_vars)
        answer = super()._ask(given, task_vars)
        answer.pop("kept", None)
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
                end = min(end, now + LATE_S[answer["trial"].get("state") == LIVE])
            if now + PAUSE_S >= end:
                return dict(answer, failed=True, msg=not_kept(trial, answer), unreachable=False)
            time.sleep(PAUSE_S)

    def _anew(self, given, task_vars):
        """What the module answers over a new connection: an older one goes on where no new one is let in."""
        try:
            self._connection.reset()
            return super()._ask(given, task_vars)
        except AnsibleConnectionFailure as error:
            return {"unreachable": True, "msg": str(error).strip()}


def waited_s(trial):
    """How long a host may take to answer and to be as before: until it has taken the run back by itself."""
    if not trial:
        return UNTOLD_S
    return trial["within_s"] + RETURN_S if trial["state"] == LIVE else trial["boot_within_s"] + BOOT_S


def not_kept(trial, answer):
    """Why a run was not confirmed, and what becomes of it, in one sentence."""
    now = dict(trial, **(answer.get("trial") or {}))
    rules = ", ".join(dict.fromkeys(now.get("live", []) + now.get("next_boot", []) + now.get("one_boot", [])))
    until = " until {} UTC".format(now["until"][11:16]) if now.get("until") else ""
    run = "run {} ({})".format(now["run"], rules) if now.get("run") else "what is on trial"
    if answer.get("unreachable"):
        return (
            f"{run} was on trial{until}, and this host did not answer over a new connection: it takes the run back by"
            f" itself; when it answers again, sudo hosttune history there tells what became of it ({answer['msg']})"
        )
    lost = "; ".join(answer.get("losses") or ["it was not told"])
    keep = f"sudo hosttune confirm {now.get('run', '')} --anyway".replace("  ", " ")
    return (
        f"{run} was not confirmed, because this host is not as before: {lost};"
        f" it takes the run back by itself{until and ' at' + until[6:]}, unless: {keep}"
    )
