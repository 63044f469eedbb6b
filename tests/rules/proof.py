"""What a plan's own proof found: a rule that fails on the overlay is held, and says so in these
words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.values import HoldKind

if TYPE_CHECKING:
    from hosttune.values import Finding, Plan

_WORDS = ("still differs after it was set", "it contradicts ", " is no longer ")


def failing(plan: Plan) -> list[Finding]:
    """The findings whose changes the proof refused; none where everything that was planned could be
    made, and stayed.
    """
    return [
        finding
        for finding in plan.findings
        if finding.hold.kind is HoldKind.REFUSED
        and any(words in finding.hold.detail for words in _WORDS)
    ]
