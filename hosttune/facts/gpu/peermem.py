"""Whether network cards can read and write GPU memory (GPUDirect RDMA): by DMA-BUF, or by nvidia_peermem.

Sources: /sys/class/infiniband (kernel: Documentation/ABI/stable/sysfs-class-infiniband), modules-load.d(5),
modules.dep(5); NVIDIA's GPU Operator and CUDA documentation (DMA-BUF needs Linux 5.12, the open module and CUDA 11.7).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.answers import text
from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CLASS = "/sys/class/infiniband"
_FOLDERS = (
    "/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d",
    "/lib/modules-load.d",
)  # fmt: skip
_NAME = regex(r"nvidia[-_]peermem|nv_peer_mem")
_FIRST_DMABUF = (5, 12)


@frozen
class RdmaDevice(Fact):
    """A device that can do RDMA."""

    name: str  # mlx5_0
    driver: str  # mlx5_core, efa, bnxt_en ...; empty where the kernel does not say


@frozen
class Peermem(Fact):
    """The ways of network cards to GPU memory."""

    devices: tuple[RdmaDevice, ...]
    is_loaded: bool  # nvidia_peermem, or the older nv_peer_mem
    at_boot: str  # the file that has it loaded at boot; empty for none
    is_available: bool  # the running kernel has the module
    has_dmabuf: bool  # kernel and driver can share GPU memory by DMA-BUF; NCCL and UCX use it by themselves

    @property
    def mellanox(self) -> tuple[str, ...]:
        """The names of the cards that nvidia_peermem works with."""
        return tuple(device.name for device in self.devices if device.driver.startswith(("mlx4", "mlx5")))


def collect(reader: Reader, facts: Facts) -> Peermem:
    loaded = [reader.stat(f"/sys/module/{name}") for name in ("nvidia_peermem", "nv_peer_mem")]
    hidden = next((stat for stat in loaded if isinstance(stat, Unreadable)), None)
    return Peermem(
        devices=_devices(reader),
        is_loaded=hidden or any(stat is not ABSENT for stat in loaded),  # type: ignore[arg-type]
        at_boot=_at_boot(reader),
        is_available=_available(reader, facts),
        has_dmabuf=_dmabuf(facts),
    )


def _devices(reader: Reader) -> Any:
    names = reader.list(_CLASS)
    if isinstance(names, Unreadable):
        return names
    links = ((name, reader.link(f"{_CLASS}/{name}/device/driver")) for name in (names if names is not ABSENT else ()))
    return tuple(RdmaDevice(name, link.rsplit("/", 1)[-1] if isinstance(link, str) else "") for name, link in links)


def _at_boot(reader: Reader) -> Any:
    paths = ["/etc/modules"]
    for folder in _FOLDERS:
        names = reader.list(folder)
        paths += [f"{folder}/{name}" for name in names if name.endswith(".conf")] if isinstance(names, tuple) else []
    for path in paths:
        content = text(reader, path)
        if isinstance(content, Unreadable):
            return content
        lines = content.splitlines() if isinstance(content, str) else []
        if any(_NAME.fullmatch(line.strip()) for line in lines):
            return path
    return ""


def _available(reader: Reader, facts: Facts) -> Any:
    try:
        content = text(reader, f"/lib/modules/{facts.kernel.release}/modules.dep")
    except UnknownFact as unknown:
        return unread(unknown.reason)
    if isinstance(content, Unreadable):
        return content
    return isinstance(content, str) and re.search(r"/nvidia[-_]peermem\.ko[.\w]*:", content) is not None


def _dmabuf(facts: Facts) -> Any:
    version, is_open = raw(facts.kernel, "version"), raw(facts.driver, "is_open")
    for answer in (version, is_open):
        if isinstance(answer, Unreadable):
            return answer
    return isinstance(version, tuple) and version >= _FIRST_DMABUF and bool(is_open)
