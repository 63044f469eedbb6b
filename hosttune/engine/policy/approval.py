"""Approvals: which plans someone has agreed to before they are made, one a line.

    # this plan: the first twelve digits of its digest, or more
    88e96cb46683
    # any plan of this policy, in which nothing risks more
    policy 5f0c1d22ab90 edition 2026.2 risk low

The second form is for what no one can foresee: after a reboot into another driver a plan has a
further stage, with a digest of its own, and a list of digests would hold the host for good. It
names all that decides: what the policy and the custom rules that it runs say, the state of the
defaults, and how much may be risked. A plan with nothing to change is always approved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import BadInput, Fault, HosttuneError, Where
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Risk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Plan

PATH = "/etc/hosttune/approved"
DIGITS = 12  # of a digest, at least: 48 bits, which no one meets by chance
# The state of what profiles run and parameters default to. Raised with each release that changes
# either, so that a line from before approves nothing new.
DEFAULTS = "2026.2"
_DIGEST = regex(r"[0-9a-f]{12,64}")
_EDITION = regex(r"[0-9]{4}\.[0-9]{1,4}")
_WORDS = ("policy", "edition", "risk")


@frozen
class PolicyApproval:
    """Any plan of one policy, by one state of the defaults, in which nothing risks more than
    `risk`.
    """

    policy: str  # the first digits of its digest
    edition: str
    risk: Risk

    def __str__(self) -> str:
        return f"policy {self.policy} edition {self.edition} risk {self.risk}"


@frozen
class Approvals:
    """What was agreed to, and where that is."""

    source: str
    digests: tuple[str, ...] = ()
    policies: tuple[PolicyApproval, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """As a file of approvals holds them."""
        return (*self.digests, *map(str, self.policies))

    def covers(self, plan: Plan) -> bool:
        """Whether this plan is approved."""
        # A host where nothing is to change must never be held because a line is missing.
        if not plan.changes or any(plan.digest.startswith(one) for one in self.digests):
            return True
        own = approval_of(plan)
        return any(
            plan.policy_digest.startswith(one.policy)
            # Other defaults make other plans of the same words, so a line from before approves none
            # of them.
            and one.edition == own.edition
            and own.risk <= one.risk
            for one in self.policies
        )

    def with_digests(self, more: Iterable[str], source: str) -> Approvals:
        """These, and single plans that another place approves."""
        digests = (*self.digests, *more)
        return Approvals(" and ".join(filter(None, (self.source, source))), digests, self.policies)


def approval_of(plan: Plan) -> PolicyApproval:
    """The line that approves this plan, and what follows from the same policy at no more risk."""
    risk = max((change.risk for change in plan.changes), default=Risk.LOW)
    return PolicyApproval(plan.policy_digest[:DIGITS], DEFAULTS, risk)


def parse_approvals(text: str, source: str) -> Approvals:
    """Approvals of a file, `#` begins a comment. Raises BadInput with every line that is none."""
    digests: list[str] = []
    policies: list[PolicyApproval] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) == 1 and _DIGEST.fullmatch(words[0]):
            digests.append(words[0])
            continue
        try:
            policies.append(_policy_approval(words))
        except HosttuneError as error:
            faults.append(Fault(Where(source, number), error.message, error.hint))
    if faults:
        raise BadInput(faults)
    return Approvals(source, tuple(digests), tuple(policies))


def _policy_approval(words: list[str]) -> PolicyApproval:
    if tuple(words[::2]) != _WORDS or len(words) != 2 * len(_WORDS):
        message = f"{' '.join(words)}: is not an approval"
        hint = (
            "write the digest of a plan (12 digits or more), or: policy DIGEST edition YEAR.NUMBER "
            "risk low|medium|high"
        )
        raise HosttuneError(message, hint=hint)
    policy, edition, risk = words[1::2]
    if not _DIGEST.fullmatch(policy):
        raise HosttuneError(
            f"{policy}: is not a digest of a policy", hint="12 to 64 digits 0-9a-f: hosttune status"
        )
    if not _EDITION.fullmatch(edition):
        raise HosttuneError(
            f"{edition}: not an edition", hint=f"the one of this version is {DEFAULTS}"
        )
    if risk not in list(map(str, Risk)):
        raise HosttuneError(f"{risk}: is no risk", hint=f"one of {', '.join(map(str, Risk))}")
    return PolicyApproval(policy, edition, Risk(risk))
