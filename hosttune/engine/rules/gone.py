"""Rules that were taken out, each with why, and the key `edition`. A policy that names one still
holds: the name counts for nothing, and a note says so, because an error would stop every host of a
fleet that shares the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

GONE: Final[Mapping[str, str]] = {
    "cpu-irqbalance": "it changed nothing, and no gain was measured",
    "framework-idle-gpu-watch": "it looked for five seconds; hosttune watch says what a job waits "
    "for",
    "framework-modern-tools": "it was about jobs, not about the host; hosttune watch says what "
    "pays there",
}
EDITION_NOTE: Final = (
    "does nothing any more: delete this line (docs/reference/policy.md, Editions: what keeps the "
    "plans of 2026.1)"
)
_LISTS = ("select", "ignore", "drain_for", "no_drain_for")


def gone_note(name: str) -> str:
    """The note for a policy that names a rule that was taken out."""
    return f"{name} was taken out: {GONE[name]}"


def without_gone(data: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a policy (the top, or one section of `hosts`) without what it says of rules that
    were taken out.
    """
    kept = dict(data)
    for key in _LISTS:
        if key in kept:
            kept[key] = [
                one
                for one in kept[key]
                if (one["rule"] if isinstance(one, dict) else one) not in GONE
            ]
    if "params" in kept:
        kept["params"] = {
            rule: values for rule, values in kept["params"].items() if rule not in GONE
        }
    return kept
