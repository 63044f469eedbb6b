"""How GPUs without NVLinks between them reach each other's memory over PCI Express, and what the
IOMMU stops.

A translating IOMMU gives a GPU other addresses than the bus has, and with ACS redirection
(facts/kernel/acs.py) each access to a neighbour goes up to it: NVIDIA/nccl issue 2079,
vllm-project/vllm issues 33041 and 51513.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt, get_raw
from hosttune.facts.gpu.platforms import Switches, platform_of
from hosttune.facts.kernel.acs import COMPLETION_REDIRECT, REQUEST_REDIRECT
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts.gpu.gpus import Gpu


@frozen
class PeerPaths(Subject):
    """The paths between the NVIDIA GPUs of this host."""

    @fact
    def has_pcie_peers(self) -> bool:
        """Two GPUs of one model have only PCI Express between them.

        Boards join all their GPUs, by NVSwitches or each to each. A bridge joins two cards, so of
        two with links that are up none is left apart; of more, some pairs are. What nvidia-smi does
        not tell joins nothing.
        """
        cards = [gpu for gpu in self.facts.gpus.ours if not _is_on_board(gpu)]
        if len(cards) < 2 or len(cards) == len({gpu.device_id for gpu in cards}):
            return False
        joined = attempt(lambda: self.facts.nvlink.gpus)
        if len(cards) > 2 or not isinstance(joined, tuple):
            return True
        links = {gpu.slot: get_raw(gpu, "up") for gpu in joined}
        # A count of links that could not be read is neither 0 nor absent, and reads as true here:
        # without a number no link is called missing.
        return not all(links.get(gpu.slot) for gpu in cards)

    @fact
    def translated(self) -> tuple[str, ...]:
        """Slots of GPUs whose accesses the IOMMU translates."""
        return tuple(
            one.slot for one in self.facts.iommu.devices if one.kind == "gpu" and one.is_translated
        )

    @fact
    def redirecting(self) -> tuple[str, ...]:
        """Ports above GPUs with ACS redirection; ports that cannot be read are left out.

        Root ports as well: of GPUs below two of them each access passes both.
        """
        found = [(port.slot, get_raw(port, "control")) for port in self.facts.acs.ports]
        return tuple(
            slot
            for slot, control in found
            if isinstance(control, int) and control & (REQUEST_REDIRECT | COMPLETION_REDIRECT)
        )

    @fact
    def stopped(self) -> tuple[str, ...]:
        """GPUs of which the IOMMU stopped accesses in the last day: `0000:41:00.0 (12 times)`."""
        faults = self.facts.device_log.iommu_faults
        ours = {gpu.slot for gpu in self.facts.gpus.ours}
        return tuple(
            f"{slot} ({count} {'time' if count == 1 else 'times'})"
            for slot, count in sorted(faults.items())
            if slot in ours
        )


def _is_on_board(gpu: Gpu) -> bool:
    board = platform_of(gpu.device_id)
    return board is not None and (board.switches is not Switches.NONE or not board.has_grace)
