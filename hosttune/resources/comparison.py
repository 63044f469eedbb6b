"""How a comparison of one wish makes its finding: what the kinds that compare a wish by itself have
in common.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import UnknownFact
from hosttune.values import Finding, Hold, Verdict, prefix_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.resources.base import Wish
    from hosttune.resources.file import Dropin
    from hosttune.values import Change, HoldKind

C = TypeVar("C", bound="Comparison")
D = TypeVar("D", bound="InDropin")
T = TypeVar("T")


def or_unknown(compare: Callable[[C], T]) -> Callable[[C], T | Finding]:
    """A method that compares: its answer, or that it is unknown, where it touches a fact that could
    not be read.
    """

    @wraps(compare)
    def answer(self: C) -> T | Finding:
        try:
            return compare(self)
        except UnknownFact as unknown:
            return self._says(Verdict.UNKNOWN, prefix_reason(self.wish.name, unknown.reason))

    return answer


class Comparison:
    """One wish against the state; a subclass says in `_wants` what should be, which is the reason
    of a finding.
    """

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
        """The finding where a drop-in is needed: what it would change, or why it cannot be
        written.
        """
        if dropin.unknown:
            return self._says(Verdict.UNKNOWN, dropin.unknown)
        if dropin.hold:
            return self._make_held(
                dropin.hold.kind, dropin.hold.detail, dropin.todo, dropin.evidence
            )
        return self._says(Verdict.DIFFERS, self._wants, evidence=self._there, changes=changes)

    def _make_held(
        self, kind: HoldKind, detail: str, todo: str = "", evidence: tuple[str, ...] = ()
    ) -> Finding:
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
        return Finding(
            self.wish.rule, self.wish.subject, verdict, hold, reason, evidence, changes, todo
        )


class InDropin(Comparison):
    """One of the wishes of a rule that share a drop-in: at `path`, which holds it now where
    `is_kept`.
    """

    __slots__ = ()

    @property
    def path(self) -> str:
        raise NotImplementedError

    @property
    def is_kept(self) -> bool:
        raise NotImplementedError

    def find_answer(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        raise NotImplementedError


def in_dropins(looks: Sequence[D], compared: Callable[[list[D]], Dropin]) -> tuple[Finding, ...]:
    """The findings of wishes that share drop-ins. Each file has one change, carried by the first
    wish that needs it; `compared` looks at one for the wishes that need it and those that it keeps.
    """
    answers = [(look, look.find_answer()) for look in looks]
    dropins: dict[str, Dropin] = {}
    findings = []
    for look, answer in answers:
        changes: tuple[Change, ...] = ()
        # Two changes of one file would be made one after the other, and the second would not find
        # what it was planned from: so one change carries all wishes.
        if answer is None and look.path not in dropins:
            own = [
                one
                for one, its in answers
                if one.path == look.path and (its is None or one.is_kept)
            ]
            dropins[look.path] = dropin = compared(own)
            changes = (dropin.change,) if dropin.change else ()
        findings.append(answer or look.missing(dropins[look.path], changes))
    return tuple(findings)
