"""Whether NVSwitches join the GPUs of a host, and the service that sets them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.nvidia_tables import is_switched

if TYPE_CHECKING:
    from hosttune.facts import Facts

SERVICE = "nvidia-fabricmanager.service"
LOG = f"sudo journalctl -b -u {SERVICE}, and /var/log/fabricmanager.log"

_UMAD = "sudo modprobe ib_umad && echo ib_umad | sudo tee /etc/modules-load.d/ib_umad.conf"


def without_umad(facts: Facts) -> tuple[str, str] | None:
    """What keeps Fabric Manager from the NVSwitches that are not on the PCI bus, and the command: it reaches those by
    InfiniBand's management datagrams (NVIDIA, Fabric Manager User Guide, "NVLink 5"). None where nothing is missing.
    """
    try:
        if facts.gpus.nvswitches or facts.peermem.has_umad:
            return None
    except UnknownFact:
        return None
    said = "the kernel module ib_umad is not loaded, by which Fabric Manager reaches the NVSwitches"
    return said, f"{_UMAD}; sudo systemctl enable {SERVICE} && sudo systemctl restart {SERVICE}"


def has_switches(facts: Facts) -> bool:
    """NVSwitches join the GPUs of this host, whether the PCI bus shows them or the GPUs tell."""
    return bool(facts.gpus.nvswitches) or not without_switches(facts)


def without_switches(facts: Facts) -> str:
    """Why a host that shows no NVSwitch needs no Fabric Manager; empty where its GPUs say that it does."""
    switched = [gpu for gpu in facts.gpus.devices if is_switched(gpu.device_id)]
    if not switched:
        return "there is no NVSwitch on the PCI bus"
    if facts.kernel.architecture == "aarch64":
        return "the NVSwitches of an NVL rack are in trays of their own, which this host cannot see (nvidia-imex)"
    if facts.host.is_vm:
        return (
            "the NVSwitches of HGX B200 and newer do not show on the PCI bus, and outside of this virtual machine "
            "somebody else may run the fabric: whether it does cannot be seen from here"
        )
    if len(switched) < 2:
        return "one GPU alone needs no fabric, and NVSwitches of HGX B200 and newer do not show on the PCI bus"
    return ""
