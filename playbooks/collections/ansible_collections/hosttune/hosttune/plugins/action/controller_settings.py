# SPDX-License-Identifier: Apache-2.0
"""Takes variables as the controller defines them, once, so that no later answer of a host can
change them.
"""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible_collections.hosttune.hosttune.plugins.plugin_utils import bringing, settings


def refuse_wrong(found):
    """What the role uses itself; the modules check the rest. No type in the argument specs does:
    see there.
    """
    try:
        for name in ("hosttune_reboot", "hosttune_timer"):
            boolean(found.get(name, False))
        name = "hosttune_reboot_timeout"
        int(found.get(name, 0))
    except (TypeError, ValueError):
        raise AnsibleError(f"{name}: {found[name]!r} is not what the role takes") from None
    if found.get("hosttune_install", "deb") not in ("deb", "pyz"):
        raise AnsibleError(
            f"hosttune_install: {found['hosttune_install']!r} is neither deb nor pyz"
        )


class ActionModule(ActionBase):
    """The action of hosttune.hosttune.controller_settings. It runs on the controller and reaches no
    host.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        _checked, given = self.validate_argument_spec(
            argument_spec=dict(names=dict(type="list", elements="str"))
        )
        names = given["names"]
        try:
            if names is None:
                settings.refuse_facts(task_vars)
            found = settings.controller_values(
                names or settings.role_words(), self._task, task_vars, self._templar
            )
            if names is None:
                bringing.refuse_empty(found)
                refuse_wrong(found)
                self._refuse_missing(found, task_vars)
        except AnsibleError as error:
            result.update(failed=True, msg=str(error))
            return result
        result.update(
            changed=False,
            given={name.removeprefix(settings.PREFIX): one for name, one in found.items()},
        )
        return result

    def _refuse_missing(self, found, task_vars):
        """Raises AnsibleError where a file that the role needs after the change is not there, or
        holds no tasks.
        """
        hooks = [
            found[f"hosttune_{name}_tasks"]
            for name in ("drain", "undrain")
            if f"hosttune_{name}_tasks" in found
        ]
        self._look_up("tasks_file", hooks, task_vars)
        if kind := found.get("hosttune_install"):
            named = found.get("hosttune_deb" if kind == "deb" else "hosttune_bundle")
            self._look_up("bundle", [named] if named else [], task_vars, kind=kind)

    def _look_up(self, name, terms, task_vars, **options):
        lookup = lookup_loader.get(
            f"hosttune.hosttune.{name}", loader=self._loader, templar=self._templar
        )
        lookup.run(terms, variables=task_vars, **options)
