#!/usr/bin/python
# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: tune_info
short_description: Look at a GPU server with hosttune
version_added: 0.1.0
description:
  - Runs hosttune on the host and returns what it prints, as documents. Changes nothing.
  - hosttune travels with the task and leaves nothing behind. The host needs Python and nothing
    else.
options:
  gather:
    description:
      - What to return.
      - V(check) is the report of C(hosttune check), V(plan) the plan with its digest and its diff,
        V(history) the runs that can be undone, V(record) one document with what this host answers,
        without secrets, that hosttune can replay elsewhere.
    type: list
    elements: str
    choices: [check, plan, history, record]
    default: [check, plan]
extends_documentation_fragment:
  - hosttune.hosttune.look
attributes:
  check_mode:
    description: Changes nothing anyway.
    support: full
  diff_mode:
    description: The plan's diff is in RV(plan_diff), because Ansible shows a diff only where
      something changed.
    support: none
seealso:
  - module: hosttune.hosttune.tune
  - module: hosttune.hosttune.plan_classes
author:
  - The hosttune authors (@hosttune)
"""

EXAMPLES = r"""
- name: What holds these servers back?
  hosttune.hosttune.tune_info:
  become: true
  register: looked

- name: A gate for a pipeline
  ansible.builtin.assert:
    that: looked.compliant
    fail_msg: "{{ looked.check.summary }}"

- name: The runs that can be undone
  hosttune.hosttune.tune_info:
    gather: [history]
  become: true
"""

RETURN = r"""
check:
  description: The host's entry of C(hosttune check --format json).
  returned: with O(gather=check)
  type: dict
plan:
  description: What C(hosttune plan --format json) prints.
  returned: with O(gather=plan)
  type: dict
  contains:
    findings:
      description: What every rule says of the host.
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
plan_diff:
  description: The diff of the plan, as hosttune.hosttune.tune would show it.
  returned: with O(gather=plan)
  type: list
  elements: dict
  contains:
    before_header:
      description: What it is about.
      type: str
    after_header:
      description: The same.
      type: str
    before:
      description: The text before.
      type: str
    after:
      description: The text after.
      type: str
    prepared:
      description: A hunk, in place of the four others.
      type: str
digest:
  description: The digest of the plan, over its changes alone, so that equal hosts have equal
    digests.
  returned: with O(gather=plan)
  type: str
changes:
  description: The changes of the plan.
  returned: with O(gather=plan)
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
compliant:
  description: Whether every selected rule is as it should be. Advice does not count, a fault does.
  returned: with O(gather=plan)
  type: bool
deferred:
  description: What waits until the GPUs of the host are free.
  returned: with O(gather=plan)
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
interrupted:
  description: What earlier runs left to be finished, and runs that only a newer hosttune can tell,
    each in a sentence.
  returned: with O(gather=plan)
  type: list
  elements: str
reboot_required:
  description:
    - Whether something is configured that runs only after a reboot.
    - V(false) where RV(reboot_obstacles) names what has to be solved before.
  returned: with O(gather=plan)
  type: bool
reboot_reasons:
  description: What needs the reboot.
  returned: with O(gather=plan)
  type: list
  elements: str
reboot_obstacles:
  description: What has to be solved before the host is booted again, for a boot makes it worse.
  returned: with O(gather=plan)
  type: list
  elements: str
program:
  description: The hosttune that can be typed on this host; empty where there is none.
  returned: with O(gather=plan)
  type: str
history:
  description: What C(hosttune history --format json) prints.
  returned: with O(gather=history)
  type: dict
  contains:
    runs:
      description: The runs, the latest first.
      type: list
      elements: dict
      contains:
        command:
          description: The command that made the run.
          type: str
          returned: always
        steps:
          description: What it did, step by step.
          type: list
          elements: dict
record:
  description: The text of the record, as C(hosttune record) writes it.
  returned: with O(gather=record)
  type: str
"""

import os
import tempfile

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


def main():
    kinds = ["check", "plan", "history", "record"]
    module = AnsibleModule(
        argument_spec=dict(
            LOOK, gather=dict(type="list", elements="str", choices=kinds, default=["check", "plan"])
        ),
        mutually_exclusive=LOOK_EXCLUSIVE,
        supports_check_mode=True,
    )
    result = dict(changed=False)
    try:
        with client_of(module.params) as client:
            for kind in module.params["gather"]:
                GATHER[kind](client, result)
    except Trouble as error:
        module.fail_json(msg=str(error), **result)
    module.exit_json(**result)


def check(client, result):
    document, _status, _said = client.ask("check", look=client.look)
    result["check"] = document["hosts"][0]
    result["check"]["findings"] = answer.with_todo(result["check"]["findings"], program_here())


def plan(client, result):
    document, status, _said = client.ask("plan", look=client.look)
    findings = document["findings"]
    reasons, obstacles = answer.reboot_reasons(findings), answer.reboot_obstacles(findings)
    changes = answer.changes_of(document)
    program = program_here()
    document["findings"] = answer.with_todo(findings, program)
    interrupted = document.get("interrupted", [])
    result.update(
        plan=document,
        program=program,
        plan_diff=answer.diff_of(changes),
        digest=document["digest"],
        changes=changes,
        compliant=status == 0,
        deferred=answer.deferred(findings),
        interrupted=interrupted if program else [answer.as_played(one) for one in interrupted],
        reboot_required=bool(reasons) and not obstacles,
        reboot_reasons=reasons,
        reboot_obstacles=obstacles,
    )


def history(client, result):
    result["history"], _status, _said = client.ask("history")


def record(client, result):
    folder = tempfile.mkdtemp(prefix="hosttune-record-", dir=client.folder)
    path = os.path.join(folder, "record.json")
    status, _out, said = client.run("record", file=path)
    if status != 0:
        raise Trouble(said.strip())
    with open(path, encoding="utf-8") as file:
        result["record"] = file.read()


GATHER = dict(check=check, plan=plan, history=history, record=record)


if __name__ == "__main__":
    main()
