# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pattern of hosts that matches some."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts
short_description: A pattern of hosts, all parts of which match hosts of the inventory
version_added: 0.1.0
author:
  - The hosttune authors (@hosttune)
description:
  - Returns the pattern, for C(hosts) of a play. Fails where a part of it matches no host, or
    C(--limit) leaves none, because Ansible then plays for nobody, or for the rest, and calls that a
    success.
  - Fails as well where a playbook of this collection is played by itself with C(--tags) or
    C(--skip-tags) that leave none of its tasks.
options:
  _terms:
    description: The pattern.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Tune
  hosts: "{{ query('hosttune.hosttune.hosts', 'gpu:!spare') }}"
  tasks: []
"""

RETURN = r"""
_list:
  description: The pattern.
  type: list
  elements: str
"""

import os

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.plugins.lookup import LookupBase
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import bundle

OWN = ("check", "apply", "undo")


def refuse_tags(arguments):
    """Raises AnsibleError where `ansible-playbook` was given playbooks of this collection alone,
    and tags that leave no task of them, which Ansible calls a success. Another playbook that
    imports them may have such tags.
    """
    playbooks = arguments.get("args") or ()
    if not playbooks or not all(map(is_own, playbooks)):
        return
    chosen, skipped = (set(arguments.get(name) or ()) for name in ("tags", "skip_tags"))
    untagged = {"all", "untagged"}
    if (chosen and not chosen & untagged) or skipped & untagged:
        words = " and ".join(
            f"--{name} {','.join(sorted(given))}"
            for name, given in (("tags", chosen - {"all"}), ("skip-tags", skipped))
            if given
        )
        raise AnsibleError(
            f"{words}: no task of this playbook has a tag, so nothing would be played; rules are "
            "chosen by hosttune_only=RULE, hosts by hosttune_hosts=PATTERN"
        )


def is_own(playbook):
    """Whether this is a playbook of the collection, or the one in a checkout that imports it."""
    folders = [
        os.path.join(bundle.COLLECTION, "playbooks"),
        os.path.realpath(os.path.join(bundle.COLLECTION, *[".."] * 4)),
    ]
    paths = [os.path.join(folder, f"{name}.yml") for folder in folders for name in OWN]
    return (
        playbook in [f"hosttune.hosttune.{name}" for name in OWN]
        or os.path.realpath(playbook) in paths
    )


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        refuse_tags(context.CLIARGS)
        inventory = InventoryManager(self._loader, parse=False)
        for group, hosts in variables["groups"].items():
            inventory.add_group(group)
            for host in hosts:
                inventory.add_host(host, group=group)
        if terms == ["all"] and not inventory.get_hosts():
            return terms  # no inventory at all, as with --syntax-check: Ansible itself warns of it
        for part in split_host_pattern(terms):
            if not inventory.get_hosts(part.lstrip("!&")):
                raise AnsibleError(f"hosttune_hosts: {part} matches no host of the inventory")
        if limit := variables.get("ansible_limit"):
            inventory.subset(limit)
        if not inventory.get_hosts(terms):
            within = f" within --limit {limit}" if limit else ""
            raise AnsibleError(
                "hosttune_hosts: {} matches no host{}".format(",".join(terms), within)
            )
        return terms
