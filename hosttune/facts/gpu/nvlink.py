"""NVLinks between GPUs: how many of them are up and how fast, as nvidia-smi reports.

It is asked only where GPUs can be joined so: those of SXM boards, and several cards of a model that
takes bridges. What `nvidia-smi nvlink -s` prints: NVIDIA/open-gpu-kernel-modules issue 1150,
Azure/azhpc-diagnostics issue 73, and the outputs that utkuozdemir/nvidia_gpu_exporter keeps
(internal/captures); links and speeds of a model too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, attempt, get_raw, lazy, make_shared
from hosttune.facts.gpu.gpu_count import Expected
from hosttune.facts.gpu.gpus import is_vfio
from hosttune.facts.gpu.nvidia_smi import clean_line, corrupted_in, slots_of
from hosttune.facts.gpu.platforms import platform_of
from hosttune.facts.reading import require_known
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.host.door import Reader

STATUS = ("nvidia-smi", "nvlink", "-s")
_TIMEOUT_S = 30.0
_SOLD_ALONE = "0x2342"  # GH200: one is joined to no one, four on a board are
# V100 (SXM2): eight are joined to each other without switches, each to four of the others; or four,
# each to all.
_MESH = frozenset({"0x1db1", "0x1db5"})
# Cards that take bridges, which join two, or four.
_BRIDGED = frozenset({
    "0x1dba", "0x1e30", "0x1e78", "0x2203", "0x2204", "0x2230", "0x2231", "0x2233", "0x2235",
    "0x20b5", "0x20b7", "0x20f1", "0x2321", "0x2331", "0x233a", "0x233b", "0x230e", "0x2348",
})  # fmt: skip
# Sizes of virtual machines that are lent with the bridges of their cards: Azure/azhpc-images issue
# 443.
_WITH_BRIDGES = frozenset({"Standard_NC80adis_H100_v5"})
_GPU = regex(r"GPU (\d{1,9}): ")
_LINK = regex(r"\s*Link \d+: (?:(\d+(?:\.\d+)?) GB/s|(<inactive>))\s*")
_ALL_DOWN = regex(
    r"\s*(?:NVML: )?Unable to retrieve NVLink information as all links are inActive\s*",
    re.IGNORECASE,
)
_NO_LINKS = regex(r"\s*Device does not have or support Nvlink\s*", re.IGNORECASE)
_IN_MIG = regex(r"\s*Nvlink queries are not supported .*", re.IGNORECASE)
_SOUND = 0.97  # of the speed of a link: it is rounded
_DISABLED = "NVreg_NvLinkDisable"
_ASKED = "in progress"
# nvmlGpuFabricState_t; a GPU without a fabric says Not Supported
_APART = frozenset({"not started", _ASKED})


@frozen
class Links:
    """What is printed of one GPU."""

    speeds: tuple[float, ...]  # GB/s of each link that is up
    down: int  # links that are reported as inactive; -1 for all, however many these are
    unclear: str = ""  # the first line about them that says something else


_ALL_OFF = Links((), -1)


@frozen
class NvlinkGpu(Fact):
    """A GPU that has NVLinks, and no MIG: with MIG they are not reported."""

    slot: str  # 0000:1b:00.0; GPU 3 where nvidia-smi tells no slot
    # its board joins it to others; else a card with bridges, where some links are down by design
    is_sxm: bool
    up: int  # links that are up; unread where nvidia-smi tells of them in words that are not known
    missing: int  # links of a GPU of an SXM board that are down and have to be up
    sibling_up: int  # the most links that are up on a GPU of its model here
    gbytes: float  # GB/s of its slowest link that is up, in one direction; 0 where none is
    model_gbytes: float  # what a link of its model moves; 0 where that is not known
    # Not Started, In Progress, Completed; empty without a fabric, or on drivers that do not say
    fabric_state: str
    # it has not joined a fabric that it could join: until then CUDA does not start (error 802)
    awaits_fabric: bool
    fabric_faults: tuple[str, ...]  # what keeps it from its fabric, phrases
    fabric_delays: tuple[str, ...]  # what makes it slow there
    # the size of this virtual machine, where that has bridges between its cards; else empty
    bridged_by: str = ""

    @property
    def is_slow(self) -> bool:
        """A link is up at less than its model's speed."""
        return 0 < self.gbytes < _SOUND * self.model_gbytes


@frozen
class Nvlink(Subject):
    """The GPUs with NVLinks or a fabric, by slot; none where there cannot be any."""

    @fact
    def gpus(self) -> tuple[NvlinkGpu, ...]:
        return _read_gpus(self.reader, self.facts) if self.is_possible else ()

    @fact
    def is_possible(self) -> bool:
        """GPUs here can be joined by NVLinks."""
        return may_have_links(
            [gpu for gpu in self.facts.gpus.devices if gpu.driver == "nvidia"]
        ) or bool(_find_apart(self.facts))

    @fact
    def is_disabled(self) -> bool:
        """A parameter of the driver switches them off (NVreg_NvLinkDisable).

        As the loaded driver has it; where it does not tell, as files say.
        """
        live = attempt(lambda: self.facts.parameters.nvlink_disabled)
        if isinstance(live, bool):
            return live
        return any(
            one.key == _DISABLED and one.wins and one.value not in {"", "0"}
            for one in self.facts.parameters.options
        )


def status_in(output: str) -> Mapping[int, Links | None]:
    """By the number of each GPU its links; None for one in MIG mode, of which they are unknown.
    Nothing is printed of GPUs whose links the driver leaves off (seen on an H200, driver 580).
    Raises ValueError for an answer that is none.
    """
    found: dict[int, Links | None] = {}
    number = -1
    for line in output.splitlines():
        if gpu := _GPU.match(line):
            number = int(gpu[1])
            found[number] = Links((), 0)
        elif number < 0 or not line.strip() or _NO_LINKS.fullmatch(line) or corrupted_in(line):
            continue
        elif _ALL_DOWN.fullmatch(line):
            found[number] = Links((), -1)
        elif _IN_MIG.fullmatch(line):
            found[number] = None
        else:
            links, link = found[number] or Links((), 0), _LINK.fullmatch(line)
            if link and float(link[1] or 0):
                found[number] = replace(links, speeds=(*links.speeds, float(link[1])))
            elif link:
                found[number] = replace(links, down=links.down + 1)
            else:
                found[number] = replace(links, unclear=links.unclear or clean_line(line))
    if not found and output.strip():
        message = f"nvidia-smi: {clean_line(next(iter(output.strip().splitlines()), ''))}"
        raise ValueError(message)
    return found


def is_of_sxm(device_id: str) -> bool:
    """Whether a GPU of this PCI device id (0x2330) sits on an SXM board."""
    return platform_of(device_id) is not None


def may_have_links(gpus: Sequence[Gpu]) -> bool:
    """Some of these can be joined by NVLinks."""
    models = [gpu.device_id for gpu in gpus]
    # A bridge joins cards of one model, so only a model that is here more than once can have one.
    several = [model for model in models if model in _BRIDGED or model == _SOLD_ALONE]
    return any(is_of_sxm(model) and model != _SOLD_ALONE for model in models) or len(several) > len(
        set(several)
    )


def lacks_peers(model: str, ups: Sequence[int]) -> bool:
    """Whether links of GPUs of a model may lead to GPUs that belong to another machine, by how many
    are up on each of those that are here: a part of a board without NVSwitches.
    """
    board, here = platform_of(model), len(ups)
    links = board.links if board else 0
    if model in _MESH:  # four that have all their links are a board of four
        return here < 8 and (here > 4 or max(ups) < links)
    # of four, each joined to all others
    return links > 0 and 1 < here < 4 and {*ups} == {links // 3 * (here - 1)}


def ask_smi(reader: Reader, facts: Facts, question: tuple[str, ...]) -> str:
    """What nvidia-smi prints. Raises UnknownFact where it is not asked, or does not answer."""
    if facts.nvidia.smi != "answers":
        raise UnknownFact(facts.nvidia.problem)
    done = require_known(reader.query(question, timeout_s=_TIMEOUT_S), "nvidia-smi")
    text = done.text or done.errors
    if done.status != 0 and not text.strip():
        raise UnknownFact(
            f"`{' '.join(question)}` ends with status {done.status}, and says nothing"
        )
    return text


def _read_gpus(reader: Reader, facts: Facts) -> tuple[NvlinkGpu, ...]:
    """Where its links are not known, a GPU that says that it is outside of its fabric is still
    looked at.
    """
    try:
        return _read_linked(reader, facts)
    except UnknownFact as error:
        apart, why = _find_apart(facts), str(error)
        if not apart:
            raise
        return tuple(_make_unlinked(facts, slot, why) for slot in apart)


def _read_linked(reader: Reader, facts: Facts) -> tuple[NvlinkGpu, ...]:
    output = ask_smi(reader, facts, STATUS)
    try:
        links_of = status_in(output)
    except ValueError as error:
        raise UnknownFact(str(error)) from None
    every = _list_named(facts, links_of)
    if all(":" not in name for name, _, _ in every) and _find_apart(facts):
        raise UnknownFact("nvidia-smi tells of the NVLinks of other GPUs than it lists")
    boards = _Boards(facts, every)
    apart = (
        _find_apart(facts)
        if any(links and boards.has_none(model, links) for _, model, links in every)
        else ()
    )
    return tuple(
        _make_gpu(facts, name, model, _ALL_OFF if boards.has_none(model, links) else links, boards)
        for name, model, links in every
        if links and (name in apart or not boards.has_none(model, links))
    )


def _find_apart(facts: Facts) -> tuple[str, ...]:
    """The slots of the GPUs that say that they have a fabric and are not in it."""
    gpus = attempt(lambda: facts.health.gpus)
    return (
        tuple(one.slot for one in gpus if _is_apart(get_raw(one, "fabric_state")))
        if isinstance(gpus, tuple)
        else ()
    )


def _is_apart(state: object) -> bool:
    return isinstance(state, str) and state.lower() in _APART


def _make_unlinked(facts: Facts, slot: str, why: str) -> NvlinkGpu:
    model = next((gpu.device_id for gpu in facts.gpus.devices if gpu.slot == slot), "")

    def unknown() -> Any:
        raise UnknownFact(why)

    return NvlinkGpu(
        slot=slot,
        is_sxm=is_of_sxm(model),
        up=lazy(unknown),
        missing=lazy(unknown),
        sibling_up=0,
        gbytes=0.0,
        model_gbytes=0.0,
        awaits_fabric=lazy(lambda: True if len(facts.gpus.devices) > 1 else unknown()),
        **_read_fabric(facts, slot),
    )


def _read_fabric(facts: Facts, slot: str) -> dict[str, Any]:
    """What the GPU says of its fabric; nothing of one that does not answer."""
    health = make_shared(lambda: next((gpu for gpu in facts.health.gpus if gpu.slot == slot), None))
    return {
        "fabric_state": lazy(lambda: one.fabric_state if (one := health()) else ""),
        "fabric_faults": lazy(lambda: one.fabric_faults if (one := health()) else ()),
        "fabric_delays": lazy(lambda: one.fabric_delays if (one := health()) else ()),
    }


def _list_named(
    facts: Facts, links_of: Mapping[int, Links | None]
) -> list[tuple[str, str, Links | None]]:
    """(slot, model, links) of each GPU that nvidia-smi lists, also of one of which it tells no
    links. Raises UnknownFact where it is not known which are left out.
    """
    slots, listed = slots_of(facts.nvidia.gpus, links_of), len(facts.nvidia.gpus)
    if not slots and len(links_of) < listed:
        raise UnknownFact(
            f"nvidia-smi tells of the NVLinks of {len(links_of)} GPUs, and lists {listed}"
        )
    devices = {gpu.slot: gpu.device_id for gpu in facts.gpus.devices}
    # without slots all are of one model, or of none that is known
    only = next(iter(set(devices.values())), "") if len(set(devices.values())) == 1 else ""
    left_out = dict.fromkeys(set(range(len(slots))) - set(links_of), Links((), 0, "it is left out"))
    every = sorted({**links_of, **left_out}.items())
    names = [slots[number] if slots else f"GPU {number}" for number, _ in every]
    return [
        (name, devices.get(name, only), links)
        for name, (_, links) in zip(names, every, strict=True)
    ]


class _Boards:
    """What the links of a GPU are judged by: those of the others."""

    def __init__(self, facts: Facts, every: Sequence[tuple[str, str, Links | None]]) -> None:
        # links that are up on each GPU of a model; 0 for one in MIG mode
        self.ups: dict[str, list[int]] = {}
        for _, model, links in every:
            self.ups.setdefault(model, []).append(len(links.speeds) if links else 0)
        self.are_all_down = not any(
            links and (links.speeds or links.unclear) for _, _, links in every
        )
        self.is_vm = make_shared(lambda: facts.host.is_vm)
        self.lent = make_shared(
            lambda: {gpu.device_id for gpu in facts.gpus.devices if is_vfio(gpu.driver)}
        )

    def has_none(self, model: str, links: Links) -> bool:
        """Nothing is reported of them, as of a GPU that cannot have any."""
        if links.speeds or links.down:
            return False
        if not is_of_sxm(model):
            can_be_joined = model in _BRIDGED or not model
            return not (links.unclear and can_be_joined) and not any(self.ups[model])
        return self.are_all_down and self.is_vm()

    def is_kept_away(self, model: str) -> bool:
        """Its links, or some of them, lead out of this machine: it was given the GPU without them,
        or without the GPUs at their other ends; or it gave these away itself.
        """
        if self.are_all_down:
            return self.is_vm()
        return lacks_peers(model, self.ups[model]) and (model in self.lent() or self.is_vm())


def _size_with_bridges(facts: Facts) -> str:
    """The size of this machine, as its cloud calls it; empty where it has no bridges, or is not
    known.
    """
    expected = attempt(lambda: facts.gpu_count.by_name)
    return (
        expected.name if isinstance(expected, Expected) and expected.name in _WITH_BRIDGES else ""
    )


def _make_gpu(facts: Facts, name: str, model: str, links: Links, boards: _Boards) -> NvlinkGpu:
    board, siblings = platform_of(model), boards.ups[model]
    count, gbytes = (board.links, board.gbytes) if board else (0, 0.0)
    health = make_shared(lambda: next((gpu for gpu in facts.health.gpus if gpu.slot == name), None))
    unclear = links.unclear or ("" if links.speeds or links.down else "it prints none")
    if not model:
        unclear = unclear or "which of the GPUs here it means is not known"

    def up() -> int:
        """Words that are not known are no links that are up, unless all of them are so anyway."""
        # If as many links are up as the model has, a line that is not understood can take none of
        # them away.
        if unclear and not links.down and not 0 < count <= len(links.speeds):
            raise UnknownFact(f"nvidia-smi does not tell which of its NVLinks are up: {unclear}")
        return len(links.speeds)

    def missing() -> int:
        """One GPU alone has no one to be joined to; a virtual machine may be given GPUs without
        their links.
        """
        if not is_of_sxm(model) or len(siblings) < 2 or boards.is_kept_away(model):
            return 0
        # A model whose links are not in the table (0) is held against the most that any GPU of it
        # shows here.
        wanted = count or max(len(links.speeds) + max(links.down, 0), *siblings)
        lacking = max(0, wanted - up())
        if lacking and (mine := health()) and mine.mig == "Enabled":
            return 0  # older drivers tell links of MIG as inactive
        return lacking

    def awaits_fabric() -> bool:
        """One GPU in a virtual machine may have been lent without its links: it has no fabric to
        join, unless it has asked to be taken in (civo/docs pull request 213, huggingface_hub issue
        4134: CUDA says error 802 then).
        """
        one = health()
        state = one.fabric_state if one else ""
        return _is_apart(state) and (
            len(facts.gpus.devices) > 1 or state.lower() == _ASKED or up() > 0
        )

    return NvlinkGpu(
        slot=name,
        is_sxm=is_of_sxm(model),
        up=lazy(up),
        missing=lazy(missing),
        sibling_up=max(siblings),
        gbytes=min(links.speeds, default=0.0),
        model_gbytes=gbytes,
        awaits_fabric=lazy(awaits_fabric),
        bridged_by="" if is_of_sxm(model) else _size_with_bridges(facts),
        **_read_fabric(facts, name),
    )
