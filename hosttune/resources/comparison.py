"""How a comparison of one wish makes its finding: what the kinds that compare a wish by itself have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.values import Finding, Hold, Verdict

if TYPE_CHECKING:
    from hosttune.resources.base import Wish
    from hosttune.resources.file import Dropin
    from hosttune.values import Change, HoldKind


class Comparison:
    """One wish against the state; a subclass says in `_wants` what should be, which is the reason of a finding."""

    __slots__ = ()
    wish: Wish

    @property
    def _wants(self) -> str:
        raise NotImplementedError

    @property
    def _there(self) -> tuple[str, ...]:
        """What there is now: the evidence where a drop-in is needed."""
        return ()

    def missing(self, dropin: Dropin, changes: tuple[Change, ...]) -> Finding:
        """The finding where a drop-in is needed: what it would change, or why it cannot be written."""
        if dropin.unknown:
            return self._says(Verdict.UNKNOWN, dropin.unknown)
        if dropin.hold:
            return self._held(dropin.hold.kind, dropin.hold.detail, dropin.todo, dropin.evidence)
        return self._says(Verdict.DIFFERS, self._wants, evidence=self._there, changes=changes)

    def _held(self, kind: HoldKind, detail: str, todo: str = "", evidence: tuple[str, ...] = ()) -> Finding:
        return self._says(Verdict.DIFFERS, self._wants, Hold(kind, detail), evidence, todo)

    def _says(
        self,
        verdict: Verdict,
        reason: str = "",
        hold: Hold = Hold(),
        evidence: tuple[str, ...] = (),
        todo: str = "",
        changes: tuple[Change, ...] = (),
    ) -> Finding:
        return Finding(self.wish.rule, self.wish.subject, verdict, hold, reason, evidence, changes, todo)
