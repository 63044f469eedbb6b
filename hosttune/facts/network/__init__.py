"""Network cards, bonds, RDMA ports, and NCCL's settings for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.network.bonds import Bonds
    from hosttune.facts.network.nccl import Nccl
    from hosttune.facts.network.network import Network
    from hosttune.facts.network.portless import Portless
    from hosttune.facts.network.rails import Rails
    from hosttune.facts.network.rdma import Rdma


class NetworkFacts:
    """The subjects in this folder."""

    bonds: Bonds
    nccl: Nccl
    network: Network
    portless: Portless
    rails: Rails
    rdma: Rdma
