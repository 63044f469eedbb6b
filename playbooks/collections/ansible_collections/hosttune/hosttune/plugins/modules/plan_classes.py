#!/usr/bin/python
# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: plan_classes
short_description: Fold the plans of many hosts into classes of equal plans
version_added: 0.1.0
description:
  - Takes what M(hosttune.hosttune.tune) or M(hosttune.hosttune.tune_info) returned on the hosts of
    a play, and prints each different plan once, with its digest, its diff and the hosts that have
    it.
  - Runs on the controller and reaches no host.
options:
  hosts:
    description: The hosts that were asked.
    type: list
    elements: str
    required: true
  lost:
    description:
      - Hosts of O(hosts) that dropped out of the play, whatever they answered before. Ansible takes
        them out of C(ansible_play_batch), so keep that list in a first task, and give what is
        missing of it.
    type: list
    elements: str
    default: []
  register:
    description: The name of the variable in which the answers were registered.
    type: str
    required: true
  folder:
    description:
      - A folder on the controller for one file a host, named after it in the inventory, with what
        C(hosttune check --format json) prints. A host that gave no answer has a file, too, which
        says why. C(hosttune report) reads both. Not written in check mode.
      - The records are in its folder C(records), if they were gathered.
      - Nothing is written with V(/dev/null). Prefer it to C(omit), whose place a fact of this name
        takes, and to V(null), of which a template of ansible-core 2.18 and older makes an empty
        text.
    type: path
  reviewed:
    description:
      - The folder that another play gave as O(folder). Of a host whose plan is not approved it
        tells what moved since.
    type: path
  max_fail_percentage:
    description:
      - How many of O(hosts) may fail or drop out until RV(ends) is true. Then what to type next is
        printed, too.
    type: float
  quiet:
    description: Print nothing.
    type: bool
    default: false
  act:
    description: What the hosts were asked for, so that the changes are told as to make, made or
      undone.
    type: str
    choices: [plan, apply, undo]
    default: plan
attributes:
  check_mode:
    description: Writes no file in check mode.
    support: full
  diff_mode:
    description: The diffs are what it prints.
    support: none
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
seealso:
  - module: hosttune.hosttune.tune
  - module: hosttune.hosttune.tune_info
author:
  - The hosttune authors (@hosttune)
"""

EXAMPLES = r"""
- name: Ask every host
  hosttune.hosttune.tune_info:
  become: true
  register: looked

- name: Show each different plan once
  hosttune.hosttune.plan_classes:
    hosts: "{{ ansible_play_hosts_all }}"
    register: looked
  run_once: true
"""

RETURN = r"""
classes:
  description: The classes, what there is to do first, the largest first.
  returned: always
  type: list
  elements: dict
  contains:
    standing:
      description: What becomes of the changes, in words.
      type: str
      returned: always
    digest:
      description: The digest to approve; empty where nothing is to change.
      type: str
      returned: always
    hosts:
      description: The hosts with this plan.
      type: list
      elements: str
      returned: always
    shown:
      description: How many of the hosts have the changes and the diff that are shown, old values
        and devices included.
      type: int
      returned: always
    runs:
      description: The run of each host that did something.
      type: dict
      returned: always
    changes:
      description: The changes of the plan.
      type: list
      elements: dict
      returned: always
    diff:
      description: The diff of the plan.
      type: list
      elements: dict
      returned: always
failed_hosts:
  description: The hosts that failed or gave no answer, each with the reason.
  returned: always
  type: dict
not_compliant:
  description: The hosts that answered and are not as they should be, or did not take all of it
    back.
  returned: always
  type: list
  elements: str
shortfalls:
  description: Of each host of RV(not_compliant) why it is not as it should be, on one line.
  returned: always
  type: dict
summary:
  description:
    - The lines that were printed. Where Ansible prints JSON (a callback such as
      C(ansible.posix.json)) they are on standard error.
  returned: always
  type: list
  elements: str
untouched:
  description: The hosts of the play whose batch has not begun, as its fact C(hosttune_batch) says.
  returned: always
  type: list
  elements: str
undone_runs:
  description: The runs that were found to be undone.
  returned: always
  type: list
  elements: str
ends:
  description: Whether more hosts failed or dropped out than O(max_fail_percentage) allows.
  returned: always
  type: bool
"""
