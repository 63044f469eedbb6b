"""Which unit has to be restarted before it knows what a drop-in says: one of a unit, or of
systemd's own programs (logind.conf.d).
"""

from __future__ import annotations

from hosttune.regex import regex

_DROPIN = regex(r"/etc/systemd/(?:system/(?P<unit>[^/]+)|(?P<program>[^/]+)\.conf)\.d/[^/]+")


def unit_of_dropin(path: str) -> str:
    """The unit whose restart makes a change of this file effective; empty where none does."""
    match = _DROPIN.fullmatch(path)
    if match is None:
        return ""
    return match["unit"] or f"systemd-{match['program']}.service"
