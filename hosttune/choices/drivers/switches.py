"""Whether NVSwitches join the GPUs of a host, and the service that sets them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt, keep_known, known_items
from hosttune.facts.gpu.peermem import IB_MODULES
from hosttune.facts.gpu.platforms import FABRIC_MANAGER, is_bridged, is_of_rack, is_switched
from hosttune.facts.gpu.ways_out import find_place, reset_all, way_of
from hosttune.facts.processes import NAME_LENGTH, is_of_system
from hosttune.facts.reading import if_absent
from hosttune.facts.services.units import Unit
from hosttune.quoting import quote

if TYPE_CHECKING:
    from hosttune.facts import Facts

SERVICE = FABRIC_MANAGER
LOG = f"sudo journalctl -b -u {SERVICE}, and /var/log/fabricmanager.log"

_LINKS_OFF = (
    "echo 'options nvidia NVreg_NvLinkDisable=1' | sudo tee /etc/modprobe.d/nvidia-nvlink.conf"
)
_AT_BOOT = "/etc/modules-load.d/nvlink-fabric.conf"
# NVIDIA, GPU Operator documentation: names of the daemon set, of its container and of the namespace
# by default.
POD_LOG = "kubectl -n gpu-operator logs -c nvidia-driver-ctr"
_PROGRAM = "nv-fabricmanager"[:NAME_LENGTH]


def without_umad(facts: Facts) -> tuple[str, str] | None:
    """What keeps Fabric Manager from the NVSwitches that are not on the PCI bus, and the command:
    it reaches those by InfiniBand's management datagrams (NVIDIA, Fabric Manager User Guide,
    "NVLink 5"). None where nothing is missing.
    """
    loads = _load_modules(facts)
    if not loads:
        return None
    names, command = loads
    evidence = f"{names} not loaded, by which Fabric Manager reaches the NVSwitches"
    return (
        evidence,
        f"{command}\nsudo systemctl enable {SERVICE} && sudo systemctl restart {SERVICE}",
    )


def _load_modules(facts: Facts) -> tuple[str, str] | None:
    """The kernel modules that a board lacks whose NVSwitches are behind ConnectX functions, and the
    command.
    """
    try:
        has = {"mlx5_ib": facts.peermem.has_mlx5, "ib_umad": facts.peermem.has_umad}
        if facts.gpus.nvswitches or not any(
            is_bridged(gpu.device_id) for gpu in facts.gpus.devices
        ):
            return None
    except UnknownFact:
        return None
    missing = [name for name in IB_MODULES if not has[name]]
    if not missing:
        return None
    both = " and ".join(missing)
    named = (
        f"the kernel module {both} is" if len(missing) == 1 else f"the kernel modules {both} are"
    )
    load = (
        f"sudo modprobe -a {' '.join(missing)} && printf '%s\\n' {' '.join(missing)} | sudo tee "
        f"{_AT_BOOT}"
    )
    return named, f"{_bring_files(facts, missing)}{load}"


def _bring_files(facts: Facts, missing: list[str]) -> str:
    """A step before, where the running kernel has no file of such a module: images of clouds leave
    out the package of Ubuntu's kernels that has them (NVIDIA/gpu-operator issue 2781). Empty where
    that is not known.
    """
    lacking = attempt(lambda: facts.peermem.lacks_files)
    names = [name for name in missing if name in lacking] if isinstance(lacking, tuple) else []
    if not names:
        return ""
    release = facts.kernel.release
    if attempt(lambda: facts.os.is_ubuntu) is True:
        return f"sudo apt-get install {quote(f'linux-modules-extra-{release}')}\n"
    return f"bring a kernel that has {' and '.join(names)}, as {release} has not\n"


def way_into_fabric(facts: Facts, *, is_run_here: bool) -> str:
    """What to do about a GPU that is outside of its fabric, by what runs that fabric."""
    if any(is_of_rack(gpu.device_id) for gpu in facts.gpus.devices):
        return (
            "drain the node\n"
            "ask the administrator of the rack whether NMX-C and the switch trays, which run this "
            "fabric, are well and know this tray\n"
            f"{reset_all(facts)}"
        )
    loads = _load_modules(facts)
    first = f"drain the node\n{loads[1]}\n" if loads else "drain the node\n"
    if (
        not is_run_here
        and attempt(lambda: facts.managers.gpu_operator and not facts.driver.branch) is True
    ):
        own = attempt(lambda: facts.driver.fabricmanager_version)
        # beside a driver of another version (canonical/microk8s issue 2119)
        if own and isinstance(own, str):
            stop = f"sudo systemctl disable --now {SERVICE}"
            first += (
                f"stop Fabric Manager {own} of the host's packages, as its driver pod runs "
                f"another: {stop}\n"
            )
        return (
            f"{first}read the log of its driver pod, which runs Fabric Manager: {POD_LOG} "
            "nvidia-driver-daemonset-...\n"
            "if it says that the versions do not match, give the driver another image "
            # gpu-driver-container issue 735
            "(driver.version of the ClusterPolicy): a restart starts the same one\n"
            "delete that pod, so that it starts again\n"
            f"{reset_all(facts)}"
        )
    unit = attempt(lambda: facts.units[SERVICE])
    if unit.exists if isinstance(unit, Unit) else is_run_here:
        return f"{first}read why: {LOG}\nsudo systemctl restart {SERVICE}\n{reset_all(facts)}"
    if facts.host.is_vm and not is_run_here:
        if len(facts.gpus.devices) == 1:
            first += (
                f"one GPU by itself needs no NVLinks, so leave them off: {_LINKS_OFF}\n"
                "reboot: sudo reboot\n"
            )
        return (
            f"{first}if your provider's guide has Fabric Manager in the virtual machine, start it\n"
            "if not, stop and start the machine, so that it comes up elsewhere\n"
            "report it to your provider"
        )
    return (
        f"{first}install Fabric Manager in exactly the version of the driver, from where the "
        "driver came\n"
        f"sudo systemctl enable --now {SERVICE}\n"
        f"{reset_all(facts)}"
    )


def is_manager_running(facts: Facts) -> bool:
    """Whether Fabric Manager runs, this host's or that of a container, whose processes a host sees.
    Raises UnknownFact where the processes of root are hidden from this user (hidepid of proc(5)).
    """
    listed = [
        one for one in if_absent(facts.reader.processes(), ()) if one.uid < 0 or is_of_system(one)
    ]
    # With hidepid of proc(5) every process of root is missing, Fabric Manager with them. "Not in
    # the list" would then read as "does not run".
    if not listed:
        raise UnknownFact(
            "whether Fabric Manager runs is not known: no process of root can be seen"
        )
    return any(one.name[:NAME_LENGTH] == _PROGRAM for one in listed)


def way_to_links(facts: Facts) -> str:
    """What to do about NVLinks of a board that are down or slow."""
    look = "see what gpu-errors and gpu-nvswitch-errors say, and /var/log/fabricmanager.log"
    return f"{look}\n{way_of(('RESET_GPU',), '', find_place(facts.reader, facts))}"


def has_switches(facts: Facts) -> bool:
    """NVSwitches join the GPUs of this host, whether the PCI bus shows them or the GPUs tell."""
    return not why_no_switches(facts)


def count_switches(facts: Facts) -> int:
    """Of the NVSwitches on the PCI bus; 0 also where one function there cannot be read."""
    count = attempt(lambda: facts.gpus.nvswitches)
    return count if isinstance(count, int) else 0


def why_no_switches(facts: Facts) -> str:
    """As `without_switches`, also for a host whose PCI bus shows NVSwitches, which is empty. One
    function that cannot be read does not hide what the GPUs tell; without that UnknownFact is
    raised.
    """
    if count_switches(facts) or not (why_not := without_switches(facts)):
        return ""
    _ = facts.gpus.nvswitches  # raises if one may be there
    return why_not


def without_switches(facts: Facts) -> str:
    """Why a host that shows no NVSwitch needs no Fabric Manager; empty where its GPUs say that it
    does.
    """
    found = keep_known(lambda gpu: (gpu,) if is_switched(gpu.device_id) else (), facts.gpus.devices)
    switched = known_items(found)
    if len(switched) < 2:
        # One GPU by itself needs no fabric, but one that is known beside others that are not must
        # not be taken for a single one.
        switched = list(found)  # raises if there may be more
    if not switched:
        return "there is no NVSwitch on the PCI bus"
    if facts.kernel.architecture == "aarch64" or any(is_of_rack(gpu.device_id) for gpu in switched):
        return (
            "the NVSwitches of an NVL rack are in trays of their own, which this host cannot see "
            "(nvidia-imex)"
        )
    if facts.host.is_vm:
        return (
            "the NVSwitches of HGX B200 and newer do not show on the PCI bus, and outside of this "
            "virtual machine someone else may run the fabric: whether it does cannot be seen from "
            "here"
        )
    if len(switched) < 2:
        return (
            "one GPU alone needs no fabric, and NVSwitches of HGX B200 and newer do not show on "
            "the PCI bus"
        )
    return ""
