"""Which unit has to be restarted before it knows what a file says: the drop-ins of units, of systemd's own programs
(logind.conf.d), and docker's daemon.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.values import Address

_DROPIN = regex(r"/etc/systemd/(?:system/(?P<unit>[^/]+)|(?P<program>[^/]+)\.conf)\.d/[^/]+")


def unit_of(address: Address) -> str:
    """The unit whose restart makes a change of this address effective; empty where none does."""
    if address.kind in {"docker-daemon", "docker-config"}:
        return "docker.service"
    match = _DROPIN.fullmatch(address.name) if address.kind == "file" else None
    if match is None:
        return ""
    return match["unit"] or f"systemd-{match['program']}.service"


WISHES = ()
ADDRESSES = ()
