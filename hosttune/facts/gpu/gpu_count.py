"""How many GPUs are on the PCI bus, and how many there should be, as far as the host itself says.

Sources: hosttune/tables/gpu-counts.tsv (instance types and systems, with its own sources); SMBIOS'
product name, which is the instance type on EC2; what cloud-init keeps of Azure's and Oracle's
metadata (/run/cloud-init/instance-data.json; cloudinit/sources/DataSourceAzure.py,
DataSourceOracle.py). Of Google's it keeps no machine type (DataSourceGCE.py), and SMBIOS calls all
of them alike, so nothing on the host tells it, and the network is not asked. The kubelet's
checkpoint of devices (kubernetes, pkg/kubelet/cm/devicemanager/checkpoint); NVIDIA's HGX boards,
whose GPUs and NVSwitches come together (Fabric Manager User Guide). What Slurm's files ask for is
in services.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.containers.kubernetes import ROOTS
from hosttune.facts.globs import fits_glob
from hosttune.facts.gpu.platforms import Switches, platform_of
from hosttune.facts.own_tables import read_own_table
from hosttune.facts.reading import parse_or_unknown, read_texts
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.platforms import Platform
    from hosttune.host.door import Reader

TABLE = "gpu-counts"
INSTANCE_DATA = "/run/cloud-init/instance-data.json"
CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"
# Where the type of the machine is in what cloud-init keeps, by cloud.
TYPE_KEYS = {"azure": ("ds", "meta_data", "imds", "compute", "vmSize"), "oracle": ("ds", "shape")}
_RESOURCE = "nvidia.com/gpu"
# the card for the screen of a DGX Station, which computes nothing
_DGX_DISPLAY = ("0x1fb0", "10de:1485")


@frozen
class Expected:
    """What a machine has by its name."""

    kind: str  # instance | system | chassis; empty where no row fits
    name: str  # the machine, as its maker calls it
    count: int  # GPUs that it has


@frozen
class GpuCount(Subject):
    """GPUs that are on the bus, with any driver, and those that should be. A number is 0 where
    nothing says it.
    """

    # NVIDIA's; where there is none, those of AMD and Intel (other_gpus)
    present: int = read_with(lambda self: _count_present(self.facts))
    # from the instance type, or the product name
    by_name: Expected = read_with(lambda self: _by_name(self.reader, self.facts))

    @fact
    def by_kubelet(self) -> int:
        """GPUs that the device plugin has registered, MIG devices left out."""
        if not self.facts.managers.kubelet:
            return 0
        files = read_texts(self.reader, (f"{root}/{CHECKPOINT}" for root in ROOTS))
        return max((parse_or_unknown(registered_in, content) for _, content in files), default=0)

    @fact
    def by_board(self) -> int:
        """GPUs of a board such as theirs, where there are fewer; in virtual machines of racks
        only.
        """
        if not self.facts.gpus.has_gpu:
            return 0
        found = [one for gpu in self.facts.gpus.devices if (one := platform_of(gpu.device_id))]
        if len({one.name for one in found}) != 1 or (
            self.facts.host.is_vm and found[0].switches is not Switches.RACK
        ):
            # a virtual machine may be given a part of a board; a tray of a rack is always lent
            # whole
            return 0
        return board_of(len(found), found[0], self.facts.gpus.nvswitches)

    @fact
    def most(self) -> int:
        """As `present`; where that is not known, how many NVIDIA's can be at most."""
        present = attempt(_count_present, self.facts)
        if isinstance(present, Unreadable):
            if not self.facts.gpus.has_gpu:
                raise UnknownFact(present.reason)
            return self.facts.gpus.most
        return present


@cache
def _read_table() -> tuple[Expected, ...]:
    return tuple(
        Expected(kind, pattern, int(count)) for kind, pattern, count in read_own_table(TABLE).rows
    )


def expected_of(instance: str, product: str) -> Expected:
    """The row for an instance type, or else for a product name; both empty where nothing is
    known.
    """
    for one in _read_table():
        name = instance if one.kind == "instance" else product
        if name and fits_glob(name, one.name):
            return Expected(one.kind, name, one.count)
    return Expected("", "", 0)


def type_in(instance_data: str, cloud: str) -> str:
    """The size of an Azure machine (Standard_ND96isr_H100_v5), the shape of one of Oracle's
    (BM.GPU.H100.8) in what cloud-init keeps; empty where it is not there. Raises ValueError for
    what is no JSON.
    """
    value = _parse_json(instance_data, INSTANCE_DATA)
    for key in TYPE_KEYS[cloud]:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def registered_in(checkpoint: str) -> int:
    """The GPUs that the kubelet's checkpoint has as registered: MIG devices are parts of some, and
    shares of one GPU carry its name and a number (::2). Raises ValueError for what is no JSON.
    """
    value = _parse_json(checkpoint, "the kubelet's checkpoint of devices")
    for key in ("Data", "RegisteredDevices", _RESOURCE):
        value = value.get(key) if isinstance(value, Mapping) else None
    names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
    gpus = [name for name in names if name.startswith("GPU-")]
    shares = [name for name in gpus if "::" in name]
    return len({name.partition("::")[0] for name in shares}) if shares else len(gpus)


def board_of(sxm: int, platform: Platform, nvswitches: int) -> int:
    """How many GPUs a board with these has, where it has fewer; 0 where it has all, or no one
    knows. One or two GPUs of an SXM board are no board.
    """
    boards, rest = divmod(nvswitches, platform.chips or 1 << 30)
    # A number of NVSwitches that is not of whole boards says that a switch is missing, and so
    # nothing of the GPUs.
    whole = 8 * boards if boards and not rest else 0
    if not whole and sxm > 2:
        whole = next((size for size in platform.boards if size >= sxm), 0)
    return whole if 0 < sxm < whole else 0


def _count_present(facts: Facts) -> int:
    gpus = [gpu for gpu in facts.gpus.devices if (gpu.device_id, gpu.subsystem) != _DGX_DISPLAY]
    return len(gpus) or facts.other_gpus.count


def _by_name(reader: Reader, facts: Facts) -> Expected:
    product, cloud = facts.host.product, facts.host.cloud
    if cloud == "aws":
        # EC2 puts the instance type into SMBIOS. Other hypervisors put their own name there, so it
        # counts on bare metal only.
        return expected_of(product, "")
    if cloud in TYPE_KEYS:
        for _, content in read_texts(reader, (INSTANCE_DATA,)):
            return expected_of(parse_or_unknown(type_in, content, cloud), "")
        return expected_of("", "")
    return expected_of("", "" if facts.host.is_vm else product)


def _parse_json(content: str, what: str) -> object:
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        message = f"{what} is no JSON"
        raise ValueError(message) from None
    return value
