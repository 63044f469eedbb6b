"""What hosts of one plan show alike, so that the changes of one of them can stand for all. Pure.

A digest is about what changes do. What only describes them (details, risk, disturbance) comes from
a host, too: a host that says something else is of another class. What equal hosts have of their own
is shown where all have the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.codec import WORKED_OUT, to_json
from hosttune.values import Address, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Change

# Their values say it all, and the details quote a line of this host, with its number and its UUID.
_QUOTING = frozenset({"fstab", "fstab-line"})
_OTHERS = Unreadable("these hosts have different values")


def in_common(change: Change) -> Change:
    """The change without what equal hosts have of their own: the kernel's name of a device, the
    value that a live setting has (codec.encode_canonically tells why), a line of its fstab, and a
    reason, which names sizes.
    """
    address, before = change.address, change.before
    if change.device:
        address = Address(address.kind, f"{change.device} {address.name.rpartition('/')[2]}")
    if address.kind in WORKED_OUT:
        before = _OTHERS
    details = () if address.kind in _QUOTING else change.details
    return replace(change, address=address, before=before, reason="", details=details)


def digest_content(changes: Iterable[Change]) -> str:
    """The digest of all that is shown of these changes, whatever their order."""
    rows = sorted(json.dumps(to_json(change), sort_keys=True) for change in changes)
    return hashlib.sha256("\n".join(rows).encode("ascii")).hexdigest()
