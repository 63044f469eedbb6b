# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the self-contained hosttune lies on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: bundle
short_description: The self-contained hosttune on the controller
version_added: 0.1.0
author:
  - The hosttune authors (@hosttune)
description:
  - Returns the path of the file that travels with the tasks of this collection, to copy it to a
    host for good, or of the package that holds the same.
  - In a checkout of hosttune it is built first when a source has changed.
options:
  _terms:
    description:
      - Nothing, or the path of a file to use in its place. Looked for in the C(files) folder of the
        role or the playbook, beside the playbook, and in the folder where Ansible was started.
    type: list
    elements: path
  kind:
    description: One file that runs by itself, or a Debian package.
    type: str
    choices: [pyz, deb]
    default: pyz
"""

EXAMPLES = r"""
- name: Install it
  ansible.builtin.copy:
    src: "{{ lookup('hosttune.hosttune.bundle') }}"
    dest: /usr/local/sbin/hosttune
    mode: "0755"
  become: true
"""

RETURN = r"""
_list:
  description: The path, as the one element.
  type: list
  elements: path
"""

import os

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import bundle, settings


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        settings.refuse_facts(variables or {})
        if "" in terms:
            raise AnsibleError("the path of the file is empty; name one, or leave it out")
        return [
            bundle.bundle_path(
                self._found(next(iter(terms), None), variables or {}), self.get_option("kind")
            )
        ]

    def _found(self, name, variables):
        """Where files of the role and the playbook are, then where the person stands; so the
        modules look, too.
        """
        if name is None:
            return None
        path = self.find_file_in_search_path(variables, "files", name, ignore_missing=True)
        here = os.path.abspath(os.path.expanduser(name))
        if path or os.path.isfile(here):
            return path or here
        raise AnsibleError(
            f"{here}: no such file on the controller, nor {name} beside the playbook"
        )
