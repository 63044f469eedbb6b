"""GPUs: what the bus, the driver, the kernel log and the package sources say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.gpu.activity import Activity
    from hosttune.facts.gpu.archives import Archives
    from hosttune.facts.gpu.branches import Branches
    from hosttune.facts.gpu.candidates import Candidates
    from hosttune.facts.gpu.components import Components
    from hosttune.facts.gpu.dcgm import Dcgm
    from hosttune.facts.gpu.driver import Driver
    from hosttune.facts.gpu.gdrcopy import Gdrcopy
    from hosttune.facts.gpu.gpu_count import GpuCount
    from hosttune.facts.gpu.gpu_memory import GpuMemories
    from hosttune.facts.gpu.gpus import Gpus
    from hosttune.facts.gpu.gsp_firmware import GspFirmware
    from hosttune.facts.gpu.health import Health
    from hosttune.facts.gpu.imex import Imex
    from hosttune.facts.gpu.licence import Licence
    from hosttune.facts.gpu.nvidia import Nvidia
    from hosttune.facts.gpu.nvlink import Nvlink
    from hosttune.facts.gpu.nvlink_errors import NvlinkErrors
    from hosttune.facts.gpu.offers import Offers
    from hosttune.facts.gpu.other_gpus import OtherGpus
    from hosttune.facts.gpu.packaging import Packaging
    from hosttune.facts.gpu.parameters import Parameters
    from hosttune.facts.gpu.pcie import Pcie
    from hosttune.facts.gpu.peermem import Peermem
    from hosttune.facts.gpu.power_caps import PowerCaps


class GpuFacts:
    """The subjects in this folder."""

    activity: Activity
    archives: Archives
    branches: Branches
    candidates: Candidates
    components: Components
    dcgm: Dcgm
    driver: Driver
    gdrcopy: Gdrcopy
    gpu_count: GpuCount
    gpu_memory: GpuMemories
    gpus: Gpus
    gsp_firmware: GspFirmware
    health: Health
    imex: Imex
    licence: Licence
    nvidia: Nvidia
    nvlink: Nvlink
    nvlink_errors: NvlinkErrors
    offers: Offers
    other_gpus: OtherGpus
    packaging: Packaging
    parameters: Parameters
    pcie: Pcie
    peermem: Peermem
    power_caps: PowerCaps
