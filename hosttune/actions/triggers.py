"""Triggers: work that must follow changes, once per kind and run, and the reasons why it must
wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.gate import boot_triggers
from hosttune.errors import Refused
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Trigger

TIMEOUT_S = 90.0


def _has_manager(reader: Reader) -> bool:
    """Where no service manager runs under these files, the next boot reads them."""
    return not reader.persistent_only and reader.stat("/run/systemd/system") is not ABSENT


def _daemon_reload(writer: Writer, name: str) -> None:  # noqa: ARG001 - the interface of all triggers
    if _has_manager(writer):
        writer.run(("systemctl", "daemon-reload"), timeout_s=TIMEOUT_S)


def _restart(writer: Writer, name: str) -> None:
    """Restart a service if it runs; one that does not starts with its new settings anyway."""
    if _has_manager(writer):
        writer.run(("systemctl", "try-restart", name), timeout_s=TIMEOUT_S)


def _daemon_reload_waits(facts: Facts) -> str:
    """daemon-reload takes the GPUs away from running containers
    (NVIDIA/nvidia-container-toolkit#48), and a reload while the manager starts can deadlock
    (systemd/systemd#21214).
    """
    reader = facts.reader
    if not _has_manager(reader):
        return ""
    state = reader.query(("systemctl", "is-system-running"))
    # A reload is not urgent, and one that comes while the manager starts can hang it. So an unknown
    # state waits.
    if isinstance(state, Unreadable):
        return f"cannot find out whether the service manager is still starting ({state.reason})"
    if isinstance(state, Completed) and state.text.strip() in {"initializing", "starting"}:
        return "the service manager is still starting"
    try:
        containers = facts.work.gpu_containers
    except UnknownFact as unknown:
        return f"cannot find out whether GPU containers run ({unknown.reason})"
    return f"GPU containers run: {', '.join(containers)}" if containers else ""


def _restart_waits(facts: Facts) -> str:
    """A restart is for settings that a reload brings, so it waits with it; and while a GPU is at
    work, for the services of hosttune's rules belong to the driver.
    """
    if (reason := _daemon_reload_waits(facts)) or not _has_manager(facts.reader):
        return reason
    try:
        return f"GPU work runs: {'; '.join(facts.work.evidence)}" if facts.work.is_gpu_busy else ""
    except UnknownFact as unknown:
        return f"cannot find out whether GPU work runs ({unknown.reason})"


# What they write, which may be refused before anything is changed.
_WRITTEN: dict[str, Callable[[Reader], tuple[str, ...]]] = {
    "update-grub": boot_triggers.written_by_grub,
    "rebuild-initramfs": boot_triggers.written_by_initramfs,
}
_TRIGGERS: dict[str, tuple[Callable[[Writer, str], None], Callable[[Facts], str]]] = {
    "daemon-reload": (_daemon_reload, _daemon_reload_waits),
    "restart": (_restart, _restart_waits),
    "update-grub": (boot_triggers.update_grub, boot_triggers.image_waits),
    "rebuild-initramfs": (boot_triggers.rebuild_initramfs, boot_triggers.image_waits),
}


def in_order(triggers: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """Each once; a service is restarted after the manager has read its new settings."""
    # The sort is stable, so all others keep the order of the plan.
    return tuple(sorted(dict.fromkeys(triggers), key=lambda trigger: trigger.kind == "restart"))


def comes_after(trigger: Trigger, stuck: Iterable[Trigger]) -> str:
    """Why this trigger must wait for one that could not run, as a phrase; empty when it need
    not.
    """
    reload = next((one for one in stuck if one.kind == "daemon-reload"), None)
    return f"{reload} comes first" if reload and trigger.kind == "restart" else ""


def must_wait(trigger: Trigger, facts: Facts) -> str:
    """Why this trigger must not run now, as a phrase; empty when it may."""
    return _TRIGGERS[trigger.kind][1](facts) if trigger.kind in _TRIGGERS else ""


def require_possible(trigger: Trigger, reader: Reader) -> None:
    """Raise Refused where a file that it writes is known not to be writable."""
    for path in _WRITTEN[trigger.kind](reader) if trigger.kind in _WRITTEN else ():
        if refused := reader.refused_write(path):
            raise refused


def run_trigger(trigger: Trigger, writer: Writer) -> None:
    """Run it. Raises Refused when it fails."""
    if trigger.kind not in _TRIGGERS:
        message = f"no trigger is called {trigger}"
        raise Refused(message)
    _TRIGGERS[trigger.kind][0](writer, trigger.name)
