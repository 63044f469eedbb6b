# SPDX-License-Identifier: Apache-2.0
"""The variables of a host as the controller defines them. Ansible lets the facts of a host override
role defaults and inventory variables, and any module on that host can return facts. No host may
choose files and switches of the controller.
"""

from __future__ import annotations

import os

import yaml
from ansible.errors import AnsibleError

try:
    from ansible.errors import AnsibleValueOmittedError
except ImportError:  # ansible-core 2.18 and older: the value is then that of the variable `omit`

    class AnsibleValueOmittedError(Exception):
        """Never raised."""


PREFIX = "hosttune_"
# A fact of these names would say which host it is, and a fact `omit` what each default(omit) is.
# Ansible keeps them.
RESERVED = (
    "inventory_hostname",
    "inventory_hostname_short",
    "group_names",
    "inventory_file",
    "inventory_dir",
    "omit",
)
SPEC = os.path.join(
    os.path.dirname(os.path.abspath(__file__)),
    "..",
    "..",
    "roles",
    "hosttune",
    "meta",
    "argument_specs.yml",
)


class _NoFacts(dict):
    """The facts of any host: none."""

    def __missing__(self, host):
        return {}

    def get(self, host, default=None):  # noqa: ARG002 - that of a dictionary
        return {}


def refused_facts(variables):
    """The names among the facts of a host that only the controller may define."""
    facts = variables.get("ansible_facts")
    return sorted(name for name in facts if is_reserved(name)) if isinstance(facts, dict) else []


def is_reserved(name):
    """Whether only the controller may define a variable of this name."""
    return isinstance(name, str) and (name.startswith(PREFIX) or name in RESERVED)


def refusal(variables, host=None):
    """The sentence that refuses a host for such facts; empty if it has none."""
    names = refused_facts(variables)
    if not names:
        return ""
    if host is None:
        host = (
            "this host"
            if "inventory_hostname" in names
            else variables.get("inventory_hostname", "this host")
        )
    # The names begin with a known prefix and go on as the host likes.
    shown = ", ".join(ascii(name)[1:-1][:80] for name in names[:8]) + (
        " and more" if len(names) > 8 else ""
    )
    return (
        f"{host}: its facts set {shown}, which only the controller may set: this host is left as "
        "it is, because it may be compromised\n"
        "  hint: find out which module returned them, or whether a set_fact of yours is cacheable; "
        "meta: clear_facts removes them from a cache"
    )


def refuse_facts(variables):
    """Raises AnsibleError for a host whose facts set what only the controller may set."""
    if why := refusal(variables):
        raise AnsibleError(why)


def role_words():
    """The variables that the role takes, as its argument specs document them. hosttune_gather of
    its look.yml is in no spec, which Ansible would check in one more task on each host: the module
    checks it.
    """
    with open(SPEC, encoding="utf-8") as file:
        specs = yaml.safe_load(file)["argument_specs"]
    return list(
        dict.fromkeys(
            ["hosttune_gather", *(name for entry in specs.values() for name in entry["options"])]
        )
    )


def controller_values(names, task, task_vars, templar):
    """The values of these variables where the controller defines them. Templates in them see the
    facts of the host, but no fact that has the name of a variable of the controller.
    """
    variables = _below_facts(names, task, task_vars)
    templar = templar.copy_with_new_env(available_variables=variables)
    found = {}
    for name in names:
        if name in variables:
            try:
                value = templar.template(variables[name])
            except AnsibleValueOmittedError:
                continue
            if not isinstance(value, str) or value != variables.get("omit"):
                found[name] = value
    return found


def _twin(thing):
    """A copy with the same attributes, of which copy.copy loses some with ansible-core 2.18 and
    older.
    """
    twin = object.__new__(type(thing))
    vars(twin).update(vars(thing))
    return twin


def _below_facts(asked, task, task_vars):
    """The variables of a task, with a fact only if the controller defines no variable of its name,
    and if it is not one of those that are asked for.
    """
    facts = task_vars.get("ansible_facts") or {}
    names = {name for fact in facts for name in (fact, f"ansible_{fact}") if name in task_vars}
    host = task_vars["inventory_hostname"]
    # The one place of Ansible that knows which variables are facts. A copy, so that the facts stay
    # as they are.
    manager = _twin(task_vars["hostvars"]._variable_manager)
    manager._fact_cache = _NoFacts()
    # hostvars[HOST].x is the same variable as x, so no fact of any host may be behind it.
    hostvars = _twin(task_vars["hostvars"])
    hostvars._variable_manager = manager
    if not names:
        return dict(task_vars, hostvars=hostvars)
    defined = manager.get_vars(
        play=task.get_play(), host=manager._inventory.get_host(host), task=task
    )
    kept = {name: value for name, value in task_vars.items() if name not in names} | {
        "hostvars": hostvars
    }
    for name in names:
        if name in defined:
            kept[name] = defined[name]
        elif name not in asked and not is_reserved(name):
            kept[name] = task_vars[name]
    return kept
