"""Which NVIDIA driver this host should have: keep the one that is there, install one, leave it as
it is, or refuse.

A driver that is there keeps its branch: no one's branch is switched because a newer one exists,
unless the policy says so. Where there is none, the choice is made from what Ubuntu offers for the
GPUs on the PCI bus. `ubuntu-drivers` is asked only then, and where the GPUs need another driver
than that: it is slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.choices.driver_state import before_boot
from hosttune.choices.drivers.choice import DriverChoice
from hosttune.choices.drivers.decision import decide
from hosttune.facts import Facts

__all__ = ["DriverChoice", "choose"]


def choose(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    """`params`: track (lts | production | newest), branch (a pin, or empty), bringer (auto | host |
    external), use (auto | compute | desktop), update, switch_branch, allow_third_party, allow_dkms.

    Raises UnknownFact where what Ubuntu offers is not known, and the driver that is there hangs on
    it.
    """
    return decide(facts, params, lambda: before_boot(facts))
