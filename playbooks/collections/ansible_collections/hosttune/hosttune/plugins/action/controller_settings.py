# SPDX-License-Identifier: Apache-2.0
"""Takes variables as the controller defines them, once, so that no later answer of a host can change them."""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import bringing, settings


class ActionModule(ActionBase):
    """The action of hosttune.hosttune.controller_settings. It runs on the controller and reaches no host."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        _checked, given = self.validate_argument_spec(argument_spec=dict(names=dict(type="list", elements="str")))
        names = given["names"]
        try:
            if names is None:
                settings.refuse_facts(task_vars)
            found = settings.controller_values(names or settings.role_words(), self._task, task_vars, self._templar)
            if names is None:
                bringing.refuse_empty(found)
        except AnsibleError as error:
            result.update(failed=True, msg=str(error))
            return result
        result.update(changed=False, given={name.removeprefix(settings.PREFIX): one for name, one in found.items()})
        return result
