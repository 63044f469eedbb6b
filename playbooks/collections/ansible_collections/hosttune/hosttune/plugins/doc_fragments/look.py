# SPDX-License-Identifier: Apache-2.0
"""The options that both modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Which rules and which policy, and how hosttune gets to the host."""

    DOCUMENTATION = r"""
options:
  policy_file:
    description:
      - A policy on the controller, in place of C(/etc/hosttune/policy.yaml) on the host.
      - Looked for in the C(files) folder of the role or the playbook, beside the playbook, and in
        the folder where Ansible was started. It may be encrypted with ansible-vault.
    type: path
  policy:
    description:
      - A policy in place of C(/etc/hosttune/policy.yaml) on the host, written out in the task.
    type: dict
  rules_files:
    description:
      - Rules of the site on the controller, files or folders of them, besides those in
        C(/etc/hosttune/rules.d) on the host. Looked for where O(policy_file) is. They may be
        encrypted with ansible-vault.
    type: list
    elements: path
    default: []
  rules:
    description:
      - Rules of the site besides those in C(/etc/hosttune/rules.d) on the host, each written out in
        the task as its file would be.
    type: list
    elements: dict
    default: []
  profile:
    description:
      - The profile, in place of the policy's. C(hosttune profiles) lists them.
    type: str
  select:
    description:
      - Rules to apply besides those of the profile.
    type: list
    elements: str
    default: []
  ignore:
    description:
      - Rules not to apply.
    type: list
    elements: str
    default: []
  only:
    description:
      - These rules and no others, also one that nothing selects, as C(--only) of C(hosttune plan)
        has it. The policy's parameters and waivers hold for them. An undo takes no such list, but
        C(rule).
    type: list
    elements: str
    default: []
  max_risk:
    description:
      - What may be risked, in place of what the policy says; hosttune's own default is V(medium).
    type: str
    choices: [low, medium, high]
  disturb:
    description:
      - Whom a change may disturb, in place of what the policy says; hosttune's own default is
        V(nothing).
    type: str
    choices: [nothing, new sessions, a service, running GPU work]
  bundle:
    description:
      - The self-contained hosttune on the controller that travels with the task. By default the one
        of this collection; in a checkout of hosttune, one that is built from the sources when they
        change.
      - It stays on the host only where a task changed something, until all is undone.
    type: path
  executable:
    description:
      - The absolute path of the hosttune that is installed on the host, to use in place of
        O(bundle).
    type: path
  _payload:
    description:
      - Filled in on the controller with the content of O(bundle). Not for a playbook.
    type: str
  _site:
    description:
      - Filled in on the controller with the policy and the rules. Not for a playbook.
    type: str
attributes:
  platform:
    description: Target OS on which the module works.
    support: full
    platforms: debian
requirements:
  - Python 3.10 or newer on the host
"""
