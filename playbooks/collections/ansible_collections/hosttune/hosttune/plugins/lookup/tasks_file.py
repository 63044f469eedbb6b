# Copyright: The hosttune authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a file of tasks lies on the controller, after a look at whether it holds tasks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tasks_file
short_description: A file of tasks on the controller that holds what Ansible can run
version_added: 0.1.0
author:
  - The hosttune authors (@hosttune)
description:
  - Returns the absolute path of each file, for C(include_tasks). It is loaded first, as
    C(include_tasks) would do it, so that a missing file, a slip in it or a module that is not
    installed is found before a host is changed.
options:
  _terms:
    description:
      - The files. Looked for in the C(tasks) folder of the role or the playbook, beside the
        playbook, and in the folder where Ansible was started.
    type: list
    elements: path
    required: true
"""

EXAMPLES = r"""
- name: Refuse a drain that cannot be run
  ansible.builtin.debug:
    msg: "{{ lookup('hosttune.hosttune.tasks_file', 'drain.yml') }}"
"""

RETURN = r"""
_list:
  description: The absolute paths.
  type: list
  elements: path
"""

import os

from ansible.errors import AnsibleError
from ansible.playbook.helpers import load_list_of_tasks
from ansible.playbook.play import Play
from ansible.plugins.lookup import LookupBase
from ansible.vars.manager import VariableManager
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import settings


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        settings.refuse_facts(variables or {})
        found = [self._path(str(name), variables or {}) for name in terms]
        for path in found:
            self._load(path)
        return found

    def _path(self, name, variables):
        path = self.find_file_in_search_path(variables, "tasks", name, ignore_missing=True)
        here = os.path.abspath(os.path.expanduser(name))
        if path or os.path.isfile(here):
            return path or here
        raise AnsibleError(
            f"{here}: no such file of tasks on the controller, nor {name} beside the playbook"
        )

    def _load(self, path):
        manager = VariableManager(loader=self._loader)
        try:
            tasks = self._loader.load_from_file(path)
            if not isinstance(tasks, list) or not tasks:
                raise AnsibleError("no list of tasks")
            load_list_of_tasks(tasks, play=Play(), variable_manager=manager, loader=self._loader)
        except (AnsibleError, AssertionError) as error:
            raise AnsibleError(f"{path}: cannot be run as tasks: {error}") from error
