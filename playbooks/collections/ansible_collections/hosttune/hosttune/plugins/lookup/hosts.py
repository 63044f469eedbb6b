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
  - Returns the pattern, for C(hosts) of a play. Fails where a part of it matches no host, or C(--limit) leaves none,
    because Ansible then plays for nobody, or for the rest, and calls that a success.
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

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
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
            raise AnsibleError("hosttune_hosts: {} matches no host{}".format(",".join(terms), within))
        return terms
