#!/usr/bin/python
# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: controller_settings
short_description: Take variables as the controller defines them, whatever the facts of a host say
version_added: 0.2.0
description:
  - In Ansible the facts of a host override role defaults and inventory variables, and every module
    on that host can return facts. A compromised host could so choose files and switches of the
    controller.
  - Returns the variables as the inventory, the playbook, the role and C(-e) define them. A fact
    that has the name of such a variable does not count, also not in a template of another variable.
  - The role C(hosttune.hosttune.hosttune) and the playbooks of this collection take their variables
    with it once, before they ask a host.
  - Runs on the controller and reaches no host.
options:
  names:
    description:
      - The names of the variables.
      - Not given, the variables of the role C(hosttune.hosttune.hosttune). An empty value then
        fails.
      - Then a host fails, too, that has a fact whose name begins with C(hosttune_), is C(omit), or
        says which host it is (C(inventory_hostname) and the like). V(ansible.builtin.set_fact)
        makes such facts only with C(cacheable).
    type: list
    elements: str
attributes:
  check_mode:
    description: Changes nothing anyway.
    support: full
  diff_mode:
    description: Changes nothing.
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
- name: Read the settings, which no host can change
  hosttune.hosttune.controller_settings:
    names: [site_policy_folder, hosttune_approved]
  register: settings

- name: Tune
  hosttune.hosttune.tune:
    policy_file: "{{ settings.given.site_policy_folder }}/gpu.yaml"
    approved: "{{ settings.given.approved | default(omit) }}"
  become: true
"""

RETURN = r"""
given:
  description: The values, by the name of the variable without C(hosttune_). A variable that is not
    defined is missing.
  returned: success
  type: dict
"""
