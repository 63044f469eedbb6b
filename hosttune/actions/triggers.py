"""Triggers: work that must follow changes, once per kind and run, and the reasons why it must wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Writer
    from hosttune.values import Trigger

TIMEOUT_S = 90.0


def _daemon_reload(writer: Writer) -> None:
    if writer.persistent_only or writer.stat("/run/systemd/system") is ABSENT:
        return  # no manager runs under these files: the next boot reads them
    writer.run(("systemctl", "daemon-reload"), timeout_s=TIMEOUT_S)


def _daemon_reload_waits(facts: Facts) -> str:
    """daemon-reload takes the GPUs away from running containers (NVIDIA/nvidia-container-toolkit#48), and a reload
    while the manager starts can deadlock (systemd/systemd#21214).
    """
    reader = facts.reader
    if reader.persistent_only or reader.stat("/run/systemd/system") is ABSENT:
        return ""
    state = reader.query(("systemctl", "is-system-running"))
    if isinstance(state, Unreadable):
        return f"cannot tell whether the service manager is still starting ({state.reason})"
    if isinstance(state, Completed) and state.text.strip() in {"initializing", "starting"}:
        return "the service manager is still starting"
    try:
        containers = facts.work.gpu_containers
    except UnknownFact as unknown:
        return f"cannot tell whether GPU containers run ({unknown.reason})"
    return f"GPU containers run: {', '.join(containers)}" if containers else ""


_TRIGGERS: dict[str, tuple[Callable[[Writer], None], Callable[[Facts], str]]] = {
    "daemon-reload": (_daemon_reload, _daemon_reload_waits),
}


def must_wait(trigger: Trigger, facts: Facts) -> str:
    """Why this trigger must not run now, as a phrase; empty when it may."""
    return _TRIGGERS[trigger.kind][1](facts) if trigger.kind in _TRIGGERS else ""


def run_trigger(trigger: Trigger, writer: Writer) -> None:
    """Run it. Raises Refused when it fails."""
    if trigger.kind not in _TRIGGERS:
        message = f"no trigger is called {trigger}"
        raise Refused(message)
    _TRIGGERS[trigger.kind][0](writer)
