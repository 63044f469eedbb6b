#!/usr/bin/python
# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: tune
short_description: Tune a GPU server with hosttune, or undo it
version_added: 0.1.0
description:
  - Runs hosttune on the host. It makes the plan there, from the same rules and with the same code
    as C(hosttune plan), and with O(state=applied) makes it true, verifies it and keeps what undoing
    it takes.
  - The whole catalogue is one task and one round trip. hosttune travels with the task. A host that
    it changes keeps what it configured, the journal in C(/var/lib/hosttune), and hosttune itself
    for the way back (RV(program)). The host needs Python and nothing else.
  - A host never reboots by this module, but once by itself to roll back what was on trial. It says
    whether it needs to with RV(reboot_required), which comes from the state of the host and not
    from what this task did.
options:
  state:
    description:
      - V(applied) makes the plan true.
      - V(confirmed) keeps the run that is on trial, after the host was reached over a new
        connection. It asks until the host answers and is as it was before the run, or has taken the
        run back; that fails, and says why. A host that does not answer even then fails, too. Where
        nothing is on trial there is nothing to do.
      - V(undone) takes a run of hosttune back, the last one unless O(run_id), O(undo_digest) or
        O(rule) says otherwise. What somebody changed since is left as it is, and reported.
    type: str
    choices: [applied, confirmed, undone]
    default: applied
  confirm_within:
    description:
      - Only with O(state=applied). Put the run on trial for so long (V(15m), V(2h); between 2
        minutes and a day), the boot that it needs ten minutes at least. Unless O(state=confirmed)
        confirms it in time, the host rolls it back by itself.
      - V(off) makes it without a trial. Where it is not given, C(confirm) of the policy says
        whether there is one.
    type: str
  confirm_by:
    description:
      - Only with O(state=applied). Who confirms what is on trial. V(operator) is whoever types
        C(hosttune confirm), or O(state=confirmed); V(health) is the host itself as well, once it is
        as it was before.
    type: str
    choices: [operator, health]
  without_return:
    description:
      - Only with O(state=applied). Make on trial also what cannot be rolled back, such as driver
        packages.
    type: bool
    default: false
  trial:
    description:
      - Only with O(state=confirmed). RV(trial) of the task that put the run on trial, so that no
        other run is confirmed, and that a host that does not answer can be told of. Without it,
        what is on trial is confirmed.
    type: dict
  approved:
    description:
      - Only with O(state=applied). Digests of plans that somebody has looked at, or their first
        twelve digits or more. A host whose plan has another digest is left as it is, with
        RV(approved=false). What is not a digest fails.
      - A plan's digest covers its changes alone, so equal hosts have equal digests.
    type: list
    elements: str
  run_id:
    description:
      - Only with O(state=undone). The runs to undo, as RV(run_id) named them, each on the host
        where it was; so one list serves a fleet. A host that has none of them is left as it is, and
        one that has several of them fails.
    type: list
    elements: str
  undo_digest:
    description:
      - Only with O(state=undone). Take back the latest run that made the plan with this digest, or
        with these first twelve digits or more; so one value serves a whole class of hosts. A host
        without such a run is left as it is.
    type: str
  rule:
    description:
      - Only with O(state=undone). Take back all that this rule did.
    type: str
extends_documentation_fragment:
  - hosttune.hosttune.look
attributes:
  check_mode:
    description: Says what it would do and writes nothing, also on a host that never saw hosttune
      before.
    support: full
  diff_mode:
    description: Texts of files, hunks of files that belong to others, and live values.
    support: full
seealso:
  - module: hosttune.hosttune.tune_info
  - module: hosttune.hosttune.plan_classes
author:
  - The hosttune authors (@hosttune)
"""

EXAMPLES = r"""
- name: Tune, and see what changes
  hosttune.hosttune.tune:
  become: true
  diff: true
  register: tuned

- name: Reboot where the running state is not yet the configured one
  ansible.builtin.reboot:
  become: true
  when: tuned.reboot_required

- name: Tune with a policy of the site, only where the plan was reviewed
  hosttune.hosttune.tune:
    policy_file: gpu-policy.yaml
    rules_files: [rules.d]
    approved:
      - 88e96cb4668340054386072014fd9a9fa016719b84e3d4f3e0659df62f95ae71
  become: true

- name: A policy written out
  hosttune.hosttune.tune:
    policy:
      profile: train-multinode
      ignore: [storage-tmp-tmpfs]
  become: true

- name: Tune on trial
  hosttune.hosttune.tune:
    confirm_within: 10m
  become: true
  register: tuned

- name: Keep it, unless this host cannot be reached any more
  hosttune.hosttune.tune:
    state: confirmed
    trial: "{{ tuned.trial }}"
  become: true
  when: tuned.trial.is_open | default(false)

- name: Take the last run back
  hosttune.hosttune.tune:
    state: undone
  become: true

- name: Take these runs back, each on its host
  hosttune.hosttune.tune:
    state: undone
    run_id: [20261121T093012-4711, 20261121T093015-815]
  become: true
"""

RETURN = r"""
reboot_required:
  description:
    - Whether something is configured that runs only after a reboot, whoever configured it and when.
    - V(false) where RV(reboot_obstacles) names what has to be solved before, whatever
      RV(reboot_reasons) say.
    - In check mode also whether the plan would need one.
  returned: success
  type: bool
reboot_reasons:
  description: What needs the reboot. Also what an undo in this boot left to the next one.
  returned: always
  type: list
  elements: str
  sample: ["storage-tmp-tmpfs: /tmp"]
reboot_obstacles:
  description: What has to be solved before the host is booted again, for a boot makes it worse.
  returned: success
  type: list
  elements: str
  sample: ["gpu-next-kernel-modules: the next boot starts kernel 6.8.0-71-generic, which has no
    nvidia module"]
digest:
  description: The digest of the plan, over its changes alone.
  returned: when a plan was made
  type: str
approved:
  description: Whether the plan was one of O(approved); V(true) where nothing was asked for or
    nothing is to change.
  returned: when a plan was made
  type: bool
changes:
  description:
    - The changes of the plan, in the order in which they are made.
    - Where they were made, C(phase) is C(done), C(failed) or C(undone) (rolled back, because
      another one of its rule failed), C(error) says why, and C(hint) what to do.
  returned: when a plan was made
  type: list
  elements: dict
  contains:
    rule:
      description: The rule that asks for it.
      type: str
      returned: always
    address:
      description: What changes, as C(kind:name).
      type: str
      returned: always
    action:
      description: What is done there.
      type: str
    before:
      description: The value before.
      type: raw
      returned: always
    after:
      description: The value after.
      type: raw
      returned: always
    activation:
      description: When it takes effect.
      type: str
    details:
      description: Lines for people, such as a hunk of a file.
      type: list
      elements: str
    device:
      description: What udev knows a device by whose name in C(address) the next boot may give to
        another one.
      type: str
    phase:
      description: What became of it.
      type: str
    error:
      description: Why it failed.
      type: str
    hint:
      description: What to do.
      type: str
  sample:
    - address: sysctl:vm.swappiness
      action: update
      before: "60"
      after: "10"
      rule: memory-swappiness
      activation: now
      phase: done
      error: ""
      hint: ""
findings:
  description:
    - What every rule says of the host after the run, or before it where nothing was done.
      C(is_planned) is whether the next run would change something for it.
    - Where the task failed, without those that are as they should be or do not apply.
  returned: when a plan was made
  type: list
  elements: dict
  contains:
    rule:
      description: The rule.
      type: str
      returned: always
    subject:
      description: What of the host it is about; empty for all of it.
      type: str
    verdict:
      description: What the rule says.
      type: str
      returned: always
    hold:
      description: Why a difference is not acted on.
      type: dict
      returned: always
      contains:
        kind:
          description: The kind of reason.
          type: str
          returned: always
        detail:
          description: The reason itself.
          type: str
          returned: always
    reason:
      description: Why it is so.
      type: str
      returned: always
    evidence:
      description: What was found.
      type: list
      elements: str
    todo:
      description: What a person should do.
      type: str
    is_planned:
      description: Whether the next run would change something for it.
      type: bool
    is_fault:
      description: Whether the host does not do its work.
      type: bool
    is_waiver_over:
      description: Whether it was accepted for a time that has passed.
      type: bool
  sample:
    - rule: memory-swappiness
      subject: ""
      verdict: ok
      hold: {kind: none, detail: ""}
      reason: ""
      evidence: []
      todo: ""
      is_planned: false
compliant:
  description:
    - Whether every selected rule is as it should be after the run, as the exit status of C(hosttune
      check) tells it. Advice does not count, a fault does.
    - With O(state=undone) whether nothing stands in the way of taking it all back.
  returned: when a plan was made
  type: bool
deferred:
  description: What waits until the GPUs of the host are free, each with what runs on them.
  returned: when a plan was made
  type: list
  elements: dict
  contains:
    rule:
      description: The rule.
      type: str
      returned: always
    subject:
      description: What of the host it is about.
      type: str
    reason:
      description: What runs on the GPUs.
      type: str
      returned: always
waiting:
  description: Work that follows a change and that the next run finishes.
  returned: when a plan was made
  type: list
  elements: str
interrupted:
  description:
    - What earlier runs left to be finished, and runs that only a newer hosttune can tell, each in a
      sentence.
    - As it is after the run, or before it where nothing was done.
  returned: with O(state=applied), when a plan was made
  type: list
  elements: str
run_id:
  description: The run, to undo it with O(run_id). Empty where nothing was done.
  returned: when a plan was made
  type: str
trial:
  description:
    - What is on trial, as C(hosttune trial --format json) tells it, without what was lost. C(state)
      says whether it is so now, in the next boot (a boot is wanted, then O(state=confirmed)) or in
      this one, or how it ended; C(is_open) whether it can still be confirmed.
    - In check mode C(state) is V(planned), with the terms and with what would be tried when.
    - Empty where nothing is on trial.
  returned: with O(state=applied) and O(state=confirmed), success
  type: dict
  contains:
    run:
      description: The run.
      type: str
    state:
      description: Where the trial is.
      type: str
      returned: always
    is_open:
      description: Whether it can still be confirmed.
      type: bool
    until:
      description: When the host rolls it back, as ISO 8601.
      type: str
    left_s:
      description: Seconds until then.
      type: float
    within_s:
      description: Seconds in which it has to be confirmed.
      type: int
    boot_within_s:
      description: Seconds in which the boot on trial has to be confirmed.
      type: int
    live:
      description: The rules that are tried at once.
      type: list
      elements: str
    next_boot:
      description: The rules that are tried in the next boot.
      type: list
      elements: str
    one_boot:
      description: The rules that are tried in one boot only.
      type: list
      elements: str
    obstacles:
      description: Why no trial is possible here.
      type: list
      elements: str
losses:
  description: What this host has lost since before the run, each in a sentence.
  returned: with O(state=confirmed)
  type: list
  elements: str
undone_run:
  description: The run of which this is the way back. Empty where the host has none of those asked
    for.
  returned: with O(state=undone)
  type: str
program:
  description:
    - The hosttune that can be typed on this host. Where a task with O(bundle) changed something, it
      leaves one there for the way back and for C(hosttune history), until all is undone.
    - Empty where there is none. RV(findings) and RV(interrupted) then name the playbooks in place
      of commands.
  returned: when a plan was made
  type: str
hosttune_version:
  description: The version of hosttune that made the plan.
  returned: when a plan was made
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.hosttune.hosttune.plugins.module_utils import answer
from ansible_collections.hosttune.hosttune.plugins.module_utils.arguments import (
    LOOK,
    LOOK_EXCLUSIVE,
)
from ansible_collections.hosttune.hosttune.plugins.module_utils.client import (
    Trouble,
    client_of,
    program_here,
)

GONE = ("undone", "came back", "nothing taken")  # runs of which nothing is left to undo
NOTHING = dict(
    digest="",
    approved=True,
    compliant=True,
    changes=[],
    findings=[],
    deferred=[],
    waiting=[],
    run_id="",
    undone_run="",
)
BOOT_ID = "/proc/sys/kernel/random/boot_id"
TRIAL = "/etc/hosttune/trial"  # it is there while a run is on trial


def main():
    module = AnsibleModule(
        argument_spec=dict(
            LOOK,
            state=dict(type="str", choices=["applied", "confirmed", "undone"], default="applied"),
            confirm_within=dict(type="str"),
            confirm_by=dict(type="str", choices=["operator", "health"]),
            without_return=dict(type="bool", default=False),
            trial=dict(type="dict"),
            approved=dict(type="list", elements="str"),
            run_id=dict(type="list", elements="str"),
            undo_digest=dict(type="str"),
            rule=dict(type="str"),
        ),
        mutually_exclusive=[*LOOK_EXCLUSIVE, ("run_id", "undo_digest")],
        supports_check_mode=True,
    )
    result = dict(changed=False, reboot_reasons=[], reboot_obstacles=[])
    for name, words in (
        ("approved", module.params["approved"]),
        ("undo_digest", [module.params["undo_digest"]]),
    ):
        if wrong := answer.no_digests(one for one in words or () if one is not None):
            module.fail_json(msg=f"{name}: {wrong}", **result)
    if module.params["state"] == "undone" and module.params["only"]:
        module.fail_json(msg="only: belongs to state=applied; rule says what to undo", **result)
    try:
        with client_of(module.params) as client:
            if module.params["state"] == "confirmed":
                module.exit_json(**confirmed(module, client))
            if module.params["state"] == "undone":
                undo(module, client, result)
            else:
                apply(module, client, result)
    except Trouble as error:
        result.pop("unverified", None)
        if "findings" in result:
            result["findings"] = unsettled(result["findings"])
        told(result)
        module.fail_json(
            msg=str(error) if program_here() else answer.as_played(str(error)), **result
        )
    told(result)
    result["reboot_required"] = bool(result["reboot_reasons"]) and not result["reboot_obstacles"]
    failed = [one for one in result["changes"] if one.get("phase") in ("failed", "undone")]
    if result.pop("unverified", False) or failed:
        result["findings"] = unsettled(result["findings"])
        module.fail_json(msg=what_failed(failed), **result)
    module.exit_json(**result)


def told(result):
    """What a person can type on this host, after the run."""
    if "findings" in result:
        result["program"] = program_here()
        result["findings"] = answer.with_todo(result["findings"], result["program"])
        if not result["program"]:
            result["interrupted"] = [answer.as_played(one) for one in result.get("interrupted", ())]


def apply(module, client, result):
    """Make the plan; make it true unless this is check mode or it is not approved."""
    terms = terms_of(module.params)
    plan = planned(client, result, terms)
    shown(module, plan, result)
    changes = result["changes"]
    result["trial"] = dict(plan["trial"], state="planned") if plan.get("trial") else {}
    result["approved"] = (
        not changes
        or module.params["approved"] is None
        or answer.is_approved(plan["digest"], module.params["approved"])
    )
    if not result["approved"]:
        result.update(changed=False, trial={})
        result.pop("diff", None)
        return
    if module.check_mode:
        result["changed"] = bool(changes)
        coming = [
            "{rule}: {address}".format(**one) for one in changes if one["activation"] == "reboot"
        ]
        result["reboot_reasons"] += [one for one in coming if one not in result["reboot_reasons"]]
        return
    result["trial"] = on_trial(client)
    if result["trial"].get("is_open"):
        goes_on(result)
        return
    if not has_work(plan):
        return
    receipt = carried_out(client, result, "apply", expect=plan["digest"], look=client.look, **terms)
    done(receipt, result)
    result["trial"] = receipt.get("trial", {})
    if receipt["run_id"] or result["interrupted"]:
        planned(client, result)
    reasons = result["reboot_reasons"]
    reasons += [one for one in receipt["reboot_reasons"] if one not in reasons and not reasons]
    if result["trial"] and not result["trial"]["is_open"]:
        raise Trouble(
            "run {run} was not put on trial and {state}: {reason}".format(**result["trial"])
        )
    reasons += answer.asked_boot(result["trial"])


def terms_of(params):
    """What the task says of a trial, as `hosttune apply` takes it."""
    terms = {
        name: params[name]
        for name in ("confirm_within", "confirm_by", "without_return")
        if params.get(name)
    }
    if terms.get("confirm_within") == "False":  # what YAML makes of off
        terms["confirm_within"] = "off"
    return terms


def on_trial(client):
    """What is on trial on this host; empty where nothing is."""
    if not os.path.isdir(TRIAL):
        return {}
    return client.ask("history")[0].get("trial") or {}


def goes_on(result):
    """A run of before is on trial. Its boot may be asked for by anybody; whatever else time runs on
    is for those who have put it on trial.
    """
    trial = result["trial"]
    result.update(changed=False, changes=[])
    result.pop("diff", None)
    if trial["state"] != answer.NEXT_BOOT:
        raise Trouble(
            "{}, and was not put there by this play; nothing else is changed meanwhile\n"
            "  hint: look at this host, then sudo hosttune confirm {run}; or undo it: sudo "
            "hosttune undo {run} --yes".format(answer.standing(trial), run=trial["run"])
        )
    result["reboot_reasons"] += answer.asked_boot(trial)


def confirmed(module, client):
    """Keep what is on trial; what the task returns. Not kept is no error of the module: its action
    asks once more.
    """
    known = module.params["trial"] or {}
    asked = {"run": known["run"]} if known.get("run") else {}
    if module.check_mode or not (asked or on_trial(client)):
        return dict(changed=False, trial=known, losses=[], kept=True)
    try:
        said, status, _said = client.ask("confirm", **asked)
    except Trouble:
        trial = on_trial(client)
        if trial.get("state") == answer.NEXT_BOOT:  # its health has confirmed what was live
            return dict(changed=False, trial=trial, losses=[], kept=True)
        raise
    losses = [one["sentence"] for one in said.get("losses", ()) if one["is_known"]]
    if said.get("receipt"):
        failed = [
            one
            for one in answer.outcomes_of(said["receipt"])
            if one["phase"] in ("failed", "undone")
        ]
        if failed or not said["receipt"]["verified"]:
            raise Trouble("run {} is confirmed, but {}".format(said["run"], what_failed(failed)))
    trial = dict(
        known,
        **{
            name: said[name] for name in said if name not in ("losses", "receipt", "format_version")
        },
    )
    if said["state"] == "none":  # it stands: its health was quicker
        trial = dict(known, state="confirmed", is_open=False)
    elif not status:
        trial["is_open"] = said["state"] == answer.NEXT_BOOT
    return dict(
        changed=not status and said["state"] != "none", trial=trial, losses=losses, kept=not status
    )


def has_work(plan):
    """Whether `apply` would do anything, or refuse to: without root's rights it does. An older
    hosttune, which the task may name as its executable, does not tell what was interrupted.
    """
    return bool(answer.changes_of(plan) or plan.get("interrupted", True) or os.geteuid() != 0)


def undo(module, client, result):
    """Show the way back; go it unless this is check mode."""
    params = module.params
    history, _status, _said = client.ask("history")
    untold = [history["unreadable"], *(run.get("unread") for run in history["runs"])]
    if any(untold):  # what is found there may not be all that is to be undone
        raise Trouble(next(filter(None, untold)))
    named = [run["id"] for run in history["runs"] if run["id"] in (params["run_id"] or ())]
    if len(named) > 1:
        raise Trouble(
            "these are runs of one host, to be undone one after the other: " + ", ".join(named)
        )
    runs = [run for run in history["runs"] if run["command"] == "apply"]
    if params["undo_digest"]:
        runs = [run for run in runs if answer.is_approved(run["digest"], [params["undo_digest"]])]
        named = [run["id"] for run in runs[:1]]
    elif params["run_id"] is not None:
        runs = [run for run in runs if run["id"] in named]
    runs = [run for run in runs if run["status"] not in GONE]
    by_rule_alone = params["rule"] and not params["undo_digest"] and params["run_id"] is None
    with open(BOOT_ID, encoding="ascii") as file:
        result["reboot_reasons"] = answer.undone_until_reboot(history, file.read().strip())
    if not runs and not by_rule_alone:  # of a rule hosttune knows whether there is such a one
        # A run that was undone before counts as found, not as work.
        result.update(NOTHING, undone_run="".join(named))
        return
    asked = dict(look=client.look)
    if not by_rule_alone:
        asked["run"] = first_of(runs, named)
    if params["rule"]:
        asked["rule"] = params["rule"]
    result["undone_run"] = asked.get("run", "")
    plan, status, _said = client.ask("undo", **asked)
    left, obstacles = result["reboot_reasons"], []
    described(plan, status, result)
    shown(module, plan, result)
    result["approved"] = True
    result["changed"] = bool(result["changes"])
    if not module.check_mode and result["changes"]:
        receipt = carried_out(client, result, "undo", expect=plan["digest"], **asked)
        done(receipt, result)
        result["reboot_reasons"], obstacles = receipt["reboot_reasons"], receipt["reboot_obstacles"]
    result["reboot_reasons"] += [one for one in left if one not in result["reboot_reasons"]]
    if result["reboot_reasons"]:  # what else is so on this host, the way back does not tell
        found, _status, _said = client.ask("plan", look=client.look)
        seen = answer.reboot_obstacles(found["findings"])
        result["reboot_obstacles"] = seen + [one for one in obstacles if one not in seen]


def first_of(runs, named):
    """The run to undo: of the last intention its first one, with which hosttune undoes those that
    went on with it. An older hosttune, which the task may name as its executable, knows no parts.
    """
    last = runs[0]
    begun = last.get("part_of") or last["id"]
    own = [run["id"] for run in runs if (run.get("part_of") or run["id"]) == begun]
    return last["id"] if named else own[-1]


def carried_out(client, result, command, **asked):
    """The receipt. Where there is none, Trouble says whether anything was begun: then the journal
    has a run of it.
    """
    before = runs_of(client) if result["changes"] else None
    try:
        return client.ask(command, yes=True, **asked)[0]
    except Trouble as error:
        after = runs_of(client)
        if before is None or after is None:
            raise
        begun = [run for run in after if run not in before]
        if not begun:
            raise Trouble(f"nothing was tried: {error}") from error
        result.update(changed=True, run_id=begun[0])
        raise Trouble(
            f"run {begun[0]} did not end, and the next one finishes or undoes it: {error}"
        ) from error


def runs_of(client):
    """The names of the runs in the journal, newest first; None where they cannot be told."""
    try:
        history, _status, _said = client.ask("history")
    except Trouble:
        return None
    return None if history["unreadable"] else [run["id"] for run in history["runs"]]


def planned(client, result, terms=None):
    """The plan for the host as it is now, and what it says of the host; with `terms`, how it would
    be tried.
    """
    plan, status, _said = client.ask(
        "apply" if terms else "plan", look=client.look, **(terms or {})
    )
    described(plan, status, result)
    result["interrupted"] = plan.get("interrupted", [])
    return plan


def described(plan, status, result):
    """What a plan says of the host. `status` is that of the command: 0 where every rule is as it
    should be.
    """
    findings = plan["findings"]
    result.update(
        findings=answer.flat(findings),
        compliant=status == 0,
        deferred=answer.deferred(findings),
        reboot_reasons=answer.reboot_reasons(findings),
        reboot_obstacles=answer.reboot_obstacles(findings),
        hosttune_version=plan["tool_version"],
    )


def shown(module, plan, result):
    result.update(digest=plan["digest"], changes=answer.changes_of(plan), run_id="", waiting=[])
    if module._diff:
        result["diff"] = answer.diff_of(result["changes"])


def done(receipt, result):
    """What became of the changes. Failure or not, what was done is told."""
    result.update(
        changes=answer.outcomes_of(receipt),
        run_id=receipt["run_id"],
        waiting=receipt["waiting"],
        unverified=not receipt["verified"],
    )
    result["changed"] = any(one["phase"] == "done" for one in result["changes"])


def unsettled(findings):
    """The findings that say more than that all is well: what a failure is read for."""
    return [one for one in findings if one["verdict"] not in answer.SETTLED]


def what_failed(failed):
    if not failed:
        return "what was written did not read back as planned"
    causes = [
        "{rule}: {address}: {error}".format(**one)
        + (" (do: {hint})".format(**one) if one.get("hint") else "")
        for one in failed
        if one["phase"] == "failed"
    ]
    return "; ".join(causes) or "a rule was rolled back"


if __name__ == "__main__":
    main()
