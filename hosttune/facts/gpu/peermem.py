"""Whether network cards can read and write GPU memory (GPUDirect RDMA): by DMA-BUF, or by
nvidia_peermem.

Sources: /sys/class/infiniband (kernel: Documentation/ABI/stable/sysfs-class-infiniband),
modules-load.d(5), modules.dep(5); NVIDIA's GPU Operator and CUDA documentation (DMA-BUF needs Linux
5.12, the open module and CUDA 11.7).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.kernel.modules_at_boot import modules_at_boot
from hosttune.facts.reading import if_absent, is_there, names_in, read_text, require_known
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_CLASS = "/sys/class/infiniband"
# the class is there also where it is built in
_UMAD = ("/sys/module/ib_umad", "/sys/class/infiniband_mad")
_MLX5 = "/sys/module/mlx5_ib"
_NAME = regex(r"nvidia[-_]peermem|nv_peer_mem")
_MODULES = ("nvidia_peermem", "nv_peer_mem")
_FILE = regex(r"/([\w-]{1,64})\.ko(?=[.:\s]|$)", re.MULTILINE)
# Fabric Manager opens the umad and issm devices of the mlx5 functions
IB_MODULES = ("mlx5_ib", "ib_umad")
_FIRST_DMABUF = (5, 12)


@frozen
class RdmaDevice(Fact):
    """A device that can do RDMA."""

    name: str  # mlx5_0
    driver: str  # mlx5_core, efa, bnxt_en ...; empty where the kernel does not say


@frozen
class Peermem(Subject):
    """The ways of network cards to GPU memory."""

    devices: tuple[RdmaDevice, ...] = read_with(lambda self: _read_devices(self.reader))  # by name
    # nvidia_peermem, or the older nv_peer_mem
    is_loaded: bool = read_with(
        lambda self: any(is_there(self.reader, f"/sys/module/{name}") for name in _MODULES)
    )

    @fact
    def is_used(self) -> bool:
        """ib_core, which the cards' drivers share, has taken it.

        `holders` of a module are those that use it (kernel: sysfs of modules); where ib_core is
        built in it has none.
        """
        holders = self.reader.list("/sys/module/ib_core/holders")
        return holders is ABSENT or any(
            name in require_known(holders, "the holders of ib_core") for name in _MODULES
        )

    # the file that has it loaded at boot; empty for none
    at_boot: str = read_with(lambda self: _at_boot(self.reader))

    @fact
    def is_available(self) -> bool:
        """The running kernel has the module."""
        listed = if_absent(
            read_text(self.reader, f"/lib/modules/{self.facts.kernel.release}/modules.dep"), ""
        )
        return re.search(r"/nvidia[-_]peermem\.ko[.\w]*:", listed) is not None

    @fact
    def has_mlx5(self) -> bool:
        """mlx5_ib, which makes RDMA devices of ConnectX functions."""
        return is_there(self.reader, _MLX5) or any(
            one.driver.startswith("mlx5") for one in _read_devices(self.reader)
        )

    # ib_umad, by which Fabric Manager reaches the NVSwitches of HGX B200 and newer
    has_umad: bool = read_with(lambda self: any(is_there(self.reader, path) for path in _UMAD))

    @fact
    def lacks_files(self) -> tuple[str, ...]:
        """Of mlx5_ib and ib_umad, which are no file of the running kernel and no part of it.

        Nothing is claimed where a list of the kernel's modules cannot be read.
        """
        folder = f"/lib/modules/{self.facts.kernel.release}"
        lists = [
            require_known(read_text(self.reader, f"{folder}/{name}"), name)
            for name in ("modules.dep", "modules.builtin")
        ]
        there = {match[1].replace("-", "_") for one in lists for match in _FILE.finditer(one)}
        return tuple(name for name in IB_MODULES if name not in there)

    @fact
    def has_dmabuf(self) -> bool:
        """Kernel and driver can share GPU memory by DMA-BUF; NCCL and UCX use it by themselves."""
        return self.facts.kernel.version >= _FIRST_DMABUF and self.facts.driver.is_open

    @property
    def mellanox(self) -> tuple[str, ...]:
        """The names of the cards that nvidia_peermem works with."""
        return tuple(
            device.name for device in self.devices if device.driver.startswith(("mlx4", "mlx5"))
        )


def _read_devices(reader: Reader) -> tuple[RdmaDevice, ...]:
    links = (
        (name, reader.link(f"{_CLASS}/{name}/device/driver")) for name in names_in(reader, _CLASS)
    )
    return tuple(
        RdmaDevice(name, link.rsplit("/", 1)[-1] if isinstance(link, str) else "")
        for name, link in links
    )


def _at_boot(reader: Reader) -> str:
    return next((one.path for one in modules_at_boot(reader) if _NAME.fullmatch(one.value)), "")
