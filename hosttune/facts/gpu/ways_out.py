"""What a person does about a GPU that has to be reset, started anew or replaced: steps, in the
order in which they work on this host.

A way out is a text with a step on each line: a sentence, and the command behind its colon. Which
program holds the GPU decides what comes before a reset (nvidia-smi(1): -r needs a GPU that no other
process uses): nv-hostengine, exporters and the display do, and on Kubernetes the device plugin and
DCGM's pods. nvidia-persistenced does not where nvidia-smi sees its socket, by which it asks it to
let go; in a container without it the reset is refused.

Sources: NVIDIA/NVSentinel issues 126, 1243 and 1690; NVIDIA/mig-parted (reconfigure-mig.sh: the
labels by which the GPU Operator takes its pods from a node); IBM/CAST issue 551; NVIDIA's catalogue
of Xid errors for the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import attempt
from hosttune.facts.globs import fits_glob
from hosttune.facts.gpu.platforms import FABRIC_MANAGER
from hosttune.facts.managers import running_services
from hosttune.facts.reading import is_there
from hosttune.frozen import frozen
from hosttune.host.door import Stat, source_of
from hosttune.host.reading.driver_root import BESIDE, ROOT, words_beside
from hosttune.host.reading.mountinfo import folders_above
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import StepLines, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")

RUN_REPORT = "run nvidia-bug-report.sh and save its output"
SUPPORT = (
    "if it comes again, ask NVIDIA's or your vendor's support whether the board has to be replaced"
)
_HELD = "if the reset is refused, see what holds the GPU: sudo fuser -v /dev/nvidia*"
_REBOOT = "if that does not help, reboot: sudo reboot"
_DRAINS = regex(r"\bdrain the (?:node|host)\b|\bdrained (?:node|host)\b")
_SOCKET = "/run/nvidia-persistenced/socket"
_MONITORS = (
    "nvidia-dcgm*.service", "dcgm*.service", "snap.dcgm.*.service", "*nvidia*exporter*.service",
    "*gpu*exporter*.service", "gpud.service", "all-smi.service", "netdata.service",
    "telegraf.service", "nvsm*.service",
)  # fmt: skip
_DISPLAYS = (
    "display-manager.service", "gdm.service", "gdm3.service", "lightdm.service", "sddm.service",
    "xdm.service", "greetd.service",
)  # fmt: skip
# programs that a container may bring, besides those services
_IN_CONTAINERS = ("nv-hostengine", "dcgm-exporter")
# of the GPU Operator, that open GPUs
_OPERANDS = ("device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter")


@frozen
class RecoveryPlace:
    """What of this host decides how a GPU is reset; what cannot be read counts as absent."""

    host: str = ""  # its name
    is_kubernetes: bool = False
    has_operator: bool = False
    is_slurm: bool = False
    is_vm: bool = False
    is_vgpu: bool = False
    has_dcgm: bool = False  # dcgmi is installed
    monitors: tuple[str, ...] = ()  # services that run and hold GPUs
    displays: tuple[str, ...] = ()  # services of a desktop that run
    contained: tuple[str, ...] = ()  # programs that hold GPUs, and that no service here has started
    is_persistence_kept: bool = False  # nvidia-persistenced runs, and its socket is not seen
    has_report: bool = False  # what is read is a report of nvidia-bug-report.sh
    # of a driver in a container, or beside the host's programs, where the host has none of its
    driver_root: str = ""

    def prefix(self, command: str) -> str:
        """A command of the driver's, as it is typed here."""
        if self.driver_root == BESIDE:
            variable, smi = words_beside()
            path = f"{smi.removesuffix('nvidia-smi')}{command}"
            return f"sudo env {quote(variable)} {path}"
        return (
            f"sudo chroot {self.driver_root} {command}" if self.driver_root else f"sudo {command}"
        )


def find_place(reader: Reader, facts: Facts) -> RecoveryPlace:
    """What of this host decides how a GPU is reset."""
    services = sorted(_know_or(lambda: running_services(reader), frozenset[str]()))

    def running(patterns: Iterable[str]) -> tuple[str, ...]:
        return tuple(
            name for name in services if any(fits_glob(name, pattern) for pattern in patterns)
        )

    monitors = running(_MONITORS)
    has_operator = _know_or(lambda: facts.managers.gpu_operator, False)
    is_kubernetes = has_operator or _know_or(lambda: facts.managers.kubelet, False)
    contained = tuple(
        name for name in _IN_CONTAINERS if _know_or(partial(_is_running, facts, name), False)
    )
    is_kept = "nvidia-persistenced.service" not in services and _know_or(
        lambda: _is_running(facts, "nvidia-persistenced") and not is_there(reader, _SOCKET), False
    )
    has_own = _know_or(lambda: is_there(reader, "/usr/bin/nvidia-smi"), True)
    is_contained = not has_own and _know_or(
        lambda: is_there(reader, f"{ROOT}/usr/bin/nvidia-smi"), False
    )
    is_beside = (
        not has_own
        and not is_contained
        and _is_of_root(reader, words_beside()[1], f"{BESIDE}/lib64")
    )
    return RecoveryPlace(
        host=_know_or(lambda: facts.host.hostname, ""),
        has_report=source_of(reader).startswith("nvidia-bug-report.sh"),
        is_kubernetes=is_kubernetes,
        has_operator=has_operator,
        is_slurm=_know_or(lambda: facts.managers.slurm, False),
        is_vm=_know_or(lambda: facts.host.is_vm, False),
        is_vgpu=_know_or(lambda: facts.nvidia.is_vgpu, False),
        has_dcgm=bool(_know_or(lambda: facts.dcgm.version, "")),
        monitors=monitors,
        displays=running(_DISPLAYS),
        # A service that is stopped, or a pod that is taken away, has its own step, and is the
        # process that was seen.
        contained=() if monitors or is_kubernetes else contained,
        is_persistence_kept=is_kept and not is_contained,
        driver_root=ROOT if is_contained else BESIDE if is_beside else "",
    )


def _is_of_root(reader: Reader, *paths: str) -> bool:
    """Whether these are there and only root can change them, from / on: no step runs what a user
    could put there.
    """
    places = dict.fromkeys(place for path in paths for place in (*folders_above(path), path))
    stats = (reader.stat(place, follow=False) for place in places)
    return all(isinstance(one, Stat) and one.uid == 0 and not one.mode & 0o022 for one in stats)


def _know_or(look: Callable[[], T], otherwise: T) -> T:
    found = attempt(look)
    return otherwise if isinstance(found, Unreadable) else found


def _is_running(facts: Facts, name: str) -> bool:
    return bool(facts.processes[name].commands)


def _kubernetes_name(host: str) -> str:
    # The kubelet registers a node by its host name in small letters.
    return quote(host.lower() or "NODE")


def _slurm_name(host: str) -> str:
    # Without NodeHostname a NodeName is the short name of a host (slurm.conf(5)).
    return quote(host.partition(".")[0] or "NODE")


def take_again(way_out: str, facts: Facts) -> str:
    """The step that lets a node take work again, after a way out that drains it; empty for another
    one, and where no scheduler is known whose command that is.
    """
    if not _DRAINS.search(way_out) or "State=RESUME" in way_out or "kubectl uncordon" in way_out:
        return ""
    host = _know_or(lambda: facts.host.hostname, "")
    if _know_or(lambda: facts.managers.gpu_operator or facts.managers.kubelet, False):
        command = f"kubectl uncordon {_kubernetes_name(host)}"
    elif _know_or(lambda: facts.managers.slurm, False):
        command = f"sudo scontrol update NodeName={_slurm_name(host)} State=RESUME"
    else:
        return ""
    return f"when `hosttune health` calls it fit, let it take work again: {command}"


def _drain(place: RecoveryPlace, slot: str) -> list[str]:
    if place.is_kubernetes:
        node = _kubernetes_name(place.host)
        what = "drain the node, which deletes the emptyDir volumes of its pods"
        return [f"{what}: kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"]
    if place.is_slurm:
        node = _slurm_name(place.host)
        why = quote(f"GPU {slot}" if slot else "GPU")
        return [f"drain the node: sudo scontrol update NodeName={node} State=DRAIN Reason={why}"]
    return ["drain the node: let no new work start, and wait for the end of what runs"]


def list_report(place: RecoveryPlace) -> list[str]:
    """The step of NVIDIA's report; none for who reads one."""
    return [] if place.has_report else [f"{RUN_REPORT}: {place.prefix('nvidia-bug-report.sh')}"]


def _test(place: RecoveryPlace) -> list[str]:
    return ["test the GPU: sudo dcgmi diag -r 3"] if place.has_dcgm else []


def _reset(place: RecoveryPlace, slot: str) -> list[str]:
    """What holds the GPU lets go of it, it is reset, and what was stopped is started again."""
    if place.is_vgpu:
        return [
            "restart the virtual machine, because a vGPU cannot be reset from inside: sudo reboot"
        ]
    before, after = _let_go(place, slot)
    which = f" -i {quote(slot)}" if slot else ""
    test = (
        ["test the GPU before it takes work again: sudo dcgmi diag -r 3"] if place.has_dcgm else []
    )
    what = "the GPU" if slot else "all GPUs of this host together"
    return [
        *before,
        f"reset {what}: {place.prefix(f'nvidia-smi -r{which}')}",
        _HELD,
        _REBOOT,
        *after,
        *test,
    ]


def _let_go(place: RecoveryPlace, slot: str) -> tuple[list[str], list[str]]:
    """The steps before a reset, and those that take them back."""
    before, after = [], []
    if place.has_operator:
        node = _kubernetes_name(place.host)
        off, on = (
            " ".join(f"nvidia.com/gpu.deploy.{one}={word}" for one in _OPERANDS)
            for word in ("false", "true")
        )
        before.append(
            f"take the GPU Operator's pods from the node: kubectl label node {node} --overwrite "
            f"{off}"
        )
        after.append(f"let them come again: kubectl label node {node} --overwrite {on}")
    elif place.is_kubernetes:
        before.append(
            "delete the pods of the device plugin and of DCGM on this node: kubectl get pods -A -o "
            "wide shows them"
        )
    if place.monitors:
        before.append(
            f"stop what watches the GPU: sudo systemctl stop {' '.join(map(quote, place.monitors))}"
        )
        after.append(f"start it again: sudo systemctl start {' '.join(map(quote, place.monitors))}")
    if place.contained:
        before.append(
            f"stop the container that runs {' and '.join(place.contained)}, and start it after the "
            "reset"
        )
    if place.displays:
        before.append(
            "end the desktop and its sessions: sudo systemctl stop "
            f"{' '.join(map(quote, place.displays))}"
        )
        after.append(
            f"start the desktop again: sudo systemctl start {' '.join(map(quote, place.displays))}"
        )
    if place.is_persistence_kept:
        which = f" -i {quote(slot)}" if slot else ""
        before.append(
            "switch persistence mode off, as a container has its daemon: "
            f"{place.prefix(f'nvidia-smi{which} -pm 0')}"
        )
        after.append(
            f"switch persistence mode on again: {place.prefix(f'nvidia-smi{which} -pm 1')}"
        )
    return before, after


def _restart(place: RecoveryPlace, slot: str) -> list[str]:
    cold = (
        "if the GPU is still missing, stop the instance and start it again, which may give another "
        "board"
        if place.is_vm
        else "if the GPU is still missing, power the host off and on"
    )
    return [*_drain(place, slot), *list_report(place), "reboot: sudo reboot", cold, SUPPORT]


def _replace(place: RecoveryPlace, slot: str) -> list[str]:
    change = "ask the provider for another instance" if place.is_vm else "have the board replaced"
    return [*_drain(place, slot), *_test(place), *list_report(place), change]


def _reset_fabric(place: RecoveryPlace, slot: str) -> list[str]:
    """NVSwitches are reset with all GPUs of their board, while Fabric Manager does not run."""
    if place.is_vm:
        return WAYS["RESTART_VM"](place, slot)
    if place.driver_root:
        reboot = "reboot, because Fabric Manager runs in the container of the driver: sudo reboot"
        return [*_drain(place, slot), *list_report(place), reboot, SUPPORT]
    # Fabric Manager drives the NVSwitches, and a reset is refused while it has them open.
    before, after = _let_go(place, "")
    return [
        *_drain(place, slot), *list_report(place), *before,
        f"stop Fabric Manager: sudo systemctl stop {FABRIC_MANAGER}",
        f"reset all GPUs and NVSwitches: {place.prefix('nvidia-smi -r')}", _HELD, _REBOOT,
        f"start Fabric Manager: sudo systemctl start {FABRIC_MANAGER}", *after, SUPPORT,
    ]  # fmt: skip


# What a person does about NVIDIA's action; what asks for most comes first, and counts where there
# are several.
WAYS: Mapping[str, Callable[[RecoveryPlace, str], list[str]]] = {
    "REPLACE_BOARD": _replace,
    "SUSPECT_BOARD": lambda place, slot: [
        *_drain(place, slot),
        *_test(place),
        *list_report(place),
        "ask NVIDIA's or your vendor's support whether the board has to be replaced",
    ],
    "RESTART_BM": _restart,
    "RESET_FABRIC": _reset_fabric,
    "CHECK_MECHANICALS": lambda place, slot: [
        *_drain(place, slot),
        "power the host off: sudo poweroff",
        "see that the power cables of the board are connected",
    ],
    "RESTART_VM": lambda place, slot: [
        *_drain(place, slot),
        "restart the virtual machine: sudo reboot",
        SUPPORT,
    ],
    "RESET_GPU": lambda place, slot: [
        *_drain(place, slot),
        *list_report(place),
        *_reset(place, slot),
        SUPPORT,
    ],
    "RESTART_APP": lambda place, slot: [
        "restart the affected program",
        "wait until the GPU is idle",
        *_reset(place, slot),
        "keep the board: it is not to be replaced for this error",
    ],
    "DRAIN_RESET": lambda place, slot: [
        "let no new job start on this GPU",
        "wait until the running ones have ended",
        *_reset(place, slot),
    ],
    "DRAIN_P2P": lambda place, slot: [  # noqa: ARG005
        "end the jobs on this GPU that talk to other GPUs: the other jobs can go on"
    ],
    "RECOVER_IMEX": lambda place, slot: [  # noqa: ARG005
        "stop the jobs of this NVLink domain",
        "on each of its nodes: sudo systemctl restart nvidia-imex.service",
    ],
    "CONTACT_SUPPORT": lambda place, slot: [  # noqa: ARG005
        *list_report(place),
        "ask NVIDIA's or your vendor's support: no other way is published",
    ],
    "UPDATE_SWFW": lambda place, slot: [  # noqa: ARG005
        (
            "bring the driver of this guest and that of its hypervisor to one release of NVIDIA's "
            "vGPU software"
        ),
    ],
    "WATCH": lambda place, slot: [
        "watch it, and go on only if jobs on this GPU hang or fail",
        *WAYS["LATER"](place, slot),
    ],
    "LATER": lambda place, slot: ["wait until the GPU is idle", *_reset(place, slot), SUPPORT],
}
_AS = {
    "WORKFLOW_XID_48": "RESET_GPU", "WORKFLOW_NVLINK_ERR": "RESET_GPU",
    "WORKFLOW_NVLINK5_ERR": "RESET_GPU", "CHECK_UVM": "RESET_GPU", "IGNORE": "LATER",
    "-": "CONTACT_SUPPORT",
}  # fmt: skip


def reset_idle(slot: str, place: RecoveryPlace) -> StepLines:
    """The steps of a reset that puts a changed mode in force."""
    return StepLines("\n".join(["wait until the GPU is idle", *_reset(place, slot)]))


def reset_all(facts: Facts) -> str:
    """The steps of a reset of all GPUs of this host together, a step on each line."""
    return "\n".join(_reset(find_place(facts.reader, facts), ""))


def way_of(actions: Iterable[str], slot: str, place: RecoveryPlace) -> str:
    """What a person does about these actions of NVIDIA's, by the one that asks for most: a step on
    each line; empty for none. With an empty `slot`, of all GPUs.
    """
    wanted = {_AS.get(action, action) for action in actions}
    best = next((name for name in WAYS if name in wanted), "CONTACT_SUPPORT" if wanted else "")
    return "\n".join(WAYS[best](place, slot)) if best else ""
