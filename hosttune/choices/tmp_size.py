"""How large /tmp in memory should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact
from hosttune.frozen import frozen

_GIB = 1 << 30


@frozen
class TmpSize(Fact):
    """A size in whole GiB, and why this one."""

    size_bytes: int
    fits: bool  # what lies in /tmp today finds room in the largest size that is allowed
    reason: str


def choose(facts: Facts, params: Mapping[str, Any]) -> TmpSize:
    """The largest of a share of RAM, twice what lies in /tmp, and a floor; at most another share of RAM; in whole GiB.

    What lies in /tmp counts only while it is on a disk and nothing mounts it at boot: a tmpfs that fills up would
    otherwise ask for more at every run.
    """
    tmp = facts.tmp
    total = facts.memory.total_bytes
    limit = int(total * params["max_ram_share"]) // _GIB * _GIB
    is_disk = tmp.home == "none" and not tmp.is_tmpfs
    used = tmp.used_bytes if is_disk else 0
    sizes = {
        f"{params['ram_share']:.0%} of {_text(total)} RAM": int(total * params["ram_share"]),
        f"twice the {_text(used)} that lie in /tmp": 2 * used,
        "the least size of the rule": params["min_bytes"],
    }
    reason, size = max(sizes.items(), key=lambda item: item[1])
    size = -(-size // _GIB) * _GIB
    if size > limit:
        reason, size = f"at most {params['max_ram_share']:.0%} of {_text(total)} RAM", limit
    return TmpSize(size, used <= limit, reason)


def _text(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
