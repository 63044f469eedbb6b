"""NVLinks between GPUs: how many of them are up and how fast, as nvidia-smi tells.

It is asked only where GPUs can be joined so: those of SXM boards, and several cards of a model that takes bridges. What
`nvidia-smi nvlink -s` prints: NVIDIA/open-gpu-kernel-modules issue 1150, Azure/azhpc-diagnostics issue 73, and the
outputs that utkuozdemir/nvidia_gpu_exporter keeps (internal/captures); links and speeds of a model too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, raw, shared
from hosttune.facts.gpu.health import GpuHealth
from hosttune.facts.gpu.nvidia_smi import printed
from hosttune.facts.reading import require_known
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.host.door import Reader

STATUS = ("nvidia-smi", "nvlink", "-s")
_TIMEOUT_S = 30.0
# GPUs of SXM boards by PCI device id: links, and GB/s of each in one direction; 0 where that is not known.
_SXM: Mapping[str, tuple[int, float]] = {
    "0x1db1": (6, 25.781), "0x1db5": (6, 25.781), "0x1db8": (6, 25.781),  # V100
    "0x20b0": (12, 25.0), "0x20b2": (12, 25.0), "0x20b3": (0, 0.0),  # A100; one of 64 GB that was made to order
    "0x20bd": (0, 0.0), "0x20f3": (0, 0.0),  # A800
    "0x2330": (18, 26.562), "0x2335": (18, 26.562), "0x2339": (18, 26.562), "0x2324": (0, 0.0), "0x2329": (0, 0.0),
    "0x2901": (18, 53.125), "0x3182": (18, 53.125), "0x2941": (18, 53.125), "0x31c2": (18, 53.125),  # Blackwell
}  # fmt: skip
# Cards that take bridges, which join two, or four.
_BRIDGED = frozenset({
    "0x1dba", "0x1e30", "0x1e78", "0x2203", "0x2204", "0x2230", "0x2231", "0x2233", "0x2235", "0x20b5", "0x20b7",
    "0x20f1", "0x2321", "0x2331", "0x233a", "0x233b", "0x230e", "0x2348",
})  # fmt: skip
_GPU = regex(r"GPU (\d+): ")
_LINK = regex(r"\s*Link \d+: (?:(\d+(?:\.\d+)?) GB/s|(<inactive>))\s*")
_ALL_DOWN = regex(r"\s*(?:NVML: )?Unable to retrieve NVLink information as all links are inActive\s*", re.IGNORECASE)
_NO_LINKS = regex(
    r"\s*(?:Device does not have or support Nvlink|Nvlink queries are not supported .*)\s*", re.IGNORECASE
)
_SOUND = 0.97  # of the speed of a link: it is rounded
_DISABLED = "NVreg_NvLinkDisable"


@frozen
class Links:
    """What is printed of one GPU."""

    speeds: tuple[float, ...]  # GB/s of each link that is up
    down: int  # links that are told as inactive; -1 for all, however many these are


@frozen
class NvlinkGpu(Fact):
    """A GPU that has NVLinks, and no MIG: with MIG they are not told."""

    slot: str  # 0000:1b:00.0; GPU 3 where nvidia-smi tells no slot
    is_sxm: bool  # its board joins it to others; else a card with bridges, where some links are down by design
    up: int  # links that are up
    missing: int  # links of a GPU of an SXM board that are down and have to be up
    sibling_up: int  # the most links that are up on a GPU of its model here
    gbytes: float  # GB/s of its slowest link that is up, in one direction; 0 where none is
    model_gbytes: float  # what a link of its model moves; 0 where that is not known
    fabric_state: str  # Not Started, In Progress, Completed; empty without a fabric, or on drivers that do not say
    fabric_faults: tuple[str, ...]  # what keeps it from its fabric, phrases
    fabric_delays: tuple[str, ...]  # what makes it slow there

    @property
    def is_slow(self) -> bool:
        """A link is up at less than its model's speed."""
        return 0 < self.gbytes < _SOUND * self.model_gbytes


@frozen
class Nvlink(Fact):
    """The GPUs with NVLinks, by slot; none where there cannot be any."""

    gpus: tuple[NvlinkGpu, ...]
    is_possible: bool  # GPUs here can be joined by NVLinks
    is_disabled: bool  # a parameter of the driver switches them off (NVreg_NvLinkDisable)


def status_in(output: str) -> Mapping[int, Links | None]:
    """By the number of each GPU its links; None for one that has none, or whose links are not told. Raises ValueError
    for an answer that is none.
    """
    found: dict[int, Links | None] = {}
    number = -1
    for line in output.splitlines():
        if gpu := _GPU.match(line):
            number = int(gpu[1])
            found[number] = Links((), 0)
        elif number < 0 or not line.strip():
            continue
        elif link := _LINK.fullmatch(line):
            links = found[number] or Links((), 0)
            speed = (float(link[1]),) if link[1] else ()
            found[number] = Links(links.speeds + speed, links.down + (not speed))
        elif _ALL_DOWN.fullmatch(line):
            found[number] = Links((), -1)
        elif _NO_LINKS.fullmatch(line):
            found[number] = None
    if not found:
        message = f"nvidia-smi: {printed(next(iter(output.strip().splitlines()), ''))}"
        raise ValueError(message)
    return {gpu: None if links == Links((), 0) else links for gpu, links in found.items()}


def is_of_sxm(device_id: str) -> bool:
    """Whether a GPU of this PCI device id (0x2330) sits on an SXM board."""
    return device_id in _SXM


def may_have_links(gpus: Sequence[Gpu]) -> bool:
    """Some of these can be joined by NVLinks."""
    bridged = [gpu.device_id for gpu in gpus if gpu.device_id in _BRIDGED]
    return any(is_of_sxm(gpu.device_id) for gpu in gpus) or len(bridged) > len(set(bridged))


def asked(reader: Reader, facts: Facts, question: tuple[str, ...]) -> str:
    """What nvidia-smi prints. Raises UnknownFact where it is not asked, or does not answer."""
    if facts.nvidia.smi != "answers":
        raise UnknownFact(facts.nvidia.problem)
    done = require_known(reader.query(question, timeout_s=_TIMEOUT_S), "nvidia-smi")
    return done.text or done.errors


def slots_of(facts: Facts, numbers: Sequence[int]) -> tuple[str, ...]:
    """The slots of GPUs by their number: nvidia-smi numbers them as it lists them. Empty where it lists others."""
    slots = tuple(gpu.slot for gpu in facts.nvidia.gpus)
    return slots if list(numbers) == list(range(len(slots))) else ()


def collect(reader: Reader, facts: Facts) -> Nvlink:
    is_possible = shared(lambda: may_have_links([gpu for gpu in facts.gpus.devices if gpu.driver == "nvidia"]))
    return Nvlink(
        gpus=lazy(lambda: _gpus(reader, facts) if is_possible() else ()),
        is_possible=lazy(is_possible),
        is_disabled=lazy(_is_disabled, facts),
    )


def _is_disabled(facts: Facts) -> bool:
    return any(one.key == _DISABLED and one.wins and one.value not in {"", "0"} for one in facts.parameters.options)


def _gpus(reader: Reader, facts: Facts) -> tuple[NvlinkGpu, ...]:
    output = asked(reader, facts, STATUS)
    try:
        told = status_in(output)
    except ValueError as error:
        raise UnknownFact(str(error)) from None
    slots = slots_of(facts, tuple(told))
    devices = {gpu.slot: gpu.device_id for gpu in facts.gpus.devices}
    names = [slots[number] if slots else f"GPU {number}" for number in told]
    # without slots all are of one model, or of none that is known
    only = next(iter(set(devices.values())), "") if len(set(devices.values())) == 1 else ""
    models = [devices.get(name, only) for name in names]
    every = list(zip(names, models, told.values(), strict=True))
    up: dict[str, list[int]] = {}
    for _, model, links in every:
        up.setdefault(model, []).append(len(links.speeds) if links else 0)
    nobody = not any(map(sum, up.values()))
    return tuple(
        _gpu(facts, name, model, links, up[model], lambda: nobody and facts.host.is_vm)
        for name, model, links in every
        if links
    )


def _gpu(
    facts: Facts, name: str, model: str, links: Links, siblings: list[int], are_kept_away: Callable[[], bool]
) -> NvlinkGpu:
    count, gbytes = _SXM.get(model, (0, 0.0))
    health = shared(lambda: next((gpu for gpu in facts.health.gpus if gpu.slot == name), None))
    up = len(links.speeds)

    def missing() -> int:
        """One GPU alone has nobody to be joined to; a virtual machine may be given GPUs without their links."""
        wanted = count or max(up + max(links.down, 0), *siblings)
        if not is_of_sxm(model) or up >= wanted or len(siblings) < 2 or are_kept_away():
            return 0
        mine = attempt(health)
        has_mig = isinstance(mine, GpuHealth) and raw(mine, "mig") == "Enabled"
        return 0 if has_mig else wanted - up  # older drivers tell links of MIG as inactive

    return NvlinkGpu(
        slot=name,
        is_sxm=is_of_sxm(model),
        up=up,
        missing=lazy(missing),
        sibling_up=max(siblings),
        gbytes=min(links.speeds, default=0.0),
        model_gbytes=gbytes,
        fabric_state=lazy(lambda: one.fabric_state if (one := health()) else ""),
        fabric_faults=lazy(lambda: one.fabric_faults if (one := health()) else ()),
        fabric_delays=lazy(lambda: one.fabric_delays if (one := health()) else ()),
    )
