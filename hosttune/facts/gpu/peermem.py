"""Whether network cards can read and write GPU memory (GPUDirect RDMA): by DMA-BUF, or by nvidia_peermem.

Sources: /sys/class/infiniband (kernel: Documentation/ABI/stable/sysfs-class-infiniband), modules-load.d(5),
modules.dep(5); NVIDIA's GPU Operator and CUDA documentation (DMA-BUF needs Linux 5.12, the open module and CUDA 11.7).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.kernel.modules_at_boot import modules_at_boot
from hosttune.facts.reading import if_absent, is_there, names_in, read_text, require_known
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CLASS = "/sys/class/infiniband"
_UMAD = ("/sys/module/ib_umad", "/sys/class/infiniband_mad")  # the class is there also where it is built in
_MLX5 = "/sys/module/mlx5_ib"
_NAME = regex(r"nvidia[-_]peermem|nv_peer_mem")
_MODULES = ("nvidia_peermem", "nv_peer_mem")
_FILE = regex(r"/([\w-]{1,64})\.ko(?=[.:\s]|$)", re.MULTILINE)
IB_MODULES = ("mlx5_ib", "ib_umad")  # Fabric Manager opens the umad and issm devices of the mlx5 functions
_FIRST_DMABUF = (5, 12)


@frozen
class RdmaDevice(Fact):
    """A device that can do RDMA."""

    name: str  # mlx5_0
    driver: str  # mlx5_core, efa, bnxt_en ...; empty where the kernel does not say


@frozen
class Peermem(Fact):
    """The ways of network cards to GPU memory."""

    devices: tuple[RdmaDevice, ...]  # by name
    is_loaded: bool  # nvidia_peermem, or the older nv_peer_mem
    is_used: bool  # ib_core, which the cards' drivers share, has taken it
    at_boot: str  # the file that has it loaded at boot; empty for none
    is_available: bool  # the running kernel has the module
    has_mlx5: bool  # mlx5_ib, which makes RDMA devices of ConnectX functions
    has_umad: bool  # ib_umad, by which Fabric Manager reaches the NVSwitches of HGX B200 and newer
    lacks_files: tuple[str, ...]  # of mlx5_ib and ib_umad, which are no file of the running kernel and no part of it
    has_dmabuf: bool  # kernel and driver can share GPU memory by DMA-BUF; NCCL and UCX use it by themselves

    @property
    def mellanox(self) -> tuple[str, ...]:
        """The names of the cards that nvidia_peermem works with."""
        return tuple(device.name for device in self.devices if device.driver.startswith(("mlx4", "mlx5")))


def collect(reader: Reader, facts: Facts) -> Peermem:
    return Peermem(
        devices=lazy(_read_devices, reader),
        is_loaded=lazy(lambda: any(is_there(reader, f"/sys/module/{name}") for name in _MODULES)),
        has_mlx5=lazy(
            lambda: is_there(reader, _MLX5) or any(one.driver.startswith("mlx5") for one in _read_devices(reader))
        ),
        has_umad=lazy(lambda: any(is_there(reader, path) for path in _UMAD)),
        is_used=lazy(_is_used, reader),
        at_boot=lazy(_at_boot, reader),
        is_available=lazy(_is_available, reader, facts),
        lacks_files=lazy(_without_file, reader, facts),
        has_dmabuf=lazy(lambda: facts.kernel.version >= _FIRST_DMABUF and facts.driver.is_open),
    )


def _read_devices(reader: Reader) -> tuple[RdmaDevice, ...]:
    links = ((name, reader.link(f"{_CLASS}/{name}/device/driver")) for name in names_in(reader, _CLASS))
    return tuple(RdmaDevice(name, link.rsplit("/", 1)[-1] if isinstance(link, str) else "") for name, link in links)


def _is_used(reader: Reader) -> bool:
    """`holders` of a module are those that use it (kernel: sysfs of modules); where ib_core is built in it has none."""
    holders = reader.list("/sys/module/ib_core/holders")
    return holders is ABSENT or any(name in require_known(holders, "the holders of ib_core") for name in _MODULES)


def _at_boot(reader: Reader) -> str:
    return next((one.path for one in modules_at_boot(reader) if _NAME.fullmatch(one.value)), "")


def _without_file(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """Nothing is claimed where a list of the kernel's modules cannot be read."""
    folder = f"/lib/modules/{facts.kernel.release}"
    lists = [require_known(read_text(reader, f"{folder}/{name}"), name) for name in ("modules.dep", "modules.builtin")]
    there = {match[1].replace("-", "_") for one in lists for match in _FILE.finditer(one)}
    return tuple(name for name in IB_MODULES if name not in there)


def _is_available(reader: Reader, facts: Facts) -> bool:
    listed = if_absent(read_text(reader, f"/lib/modules/{facts.kernel.release}/modules.dep"), "")
    return re.search(r"/nvidia[-_]peermem\.ko[.\w]*:", listed) is not None
