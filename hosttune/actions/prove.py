"""`apply --prove`: the bench that belongs to a rule of the plan, before and after, with the same seed.

A bench never decides anything: what it could not measure is said, and the plan is carried out all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.values import Activation, Phase

if TYPE_CHECKING:
    from hosttune.measure.bench.results import BenchResult
    from hosttune.values import Plan, Receipt

ATIME, TMP = "atime", "tmp"
MOST_S: Final = 60.0  # of pairs, in each bench


@frozen
class Proof:
    """One bench that belongs to a rule of a plan. `is_later`: the change takes effect at the next boot, so what comes
    after it cannot be measured now."""

    rule: str
    kind: str
    path: str
    is_later: bool = False

    @property
    def words(self) -> str:
        """The command that does it by hand, without the program's name."""
        import shlex

        option = "--dir " if self.kind == TMP else ""
        return f"bench {self.kind} {option}{shlex.quote(self.path)}"

    @property
    def later(self) -> str:
        """The command for after the reboot; nothing where nothing waits for it. /tmp lies in memory then, and /var/tmp
        on the disk as before."""
        if not self.is_later:
            return ""
        return "bench tmp --dir /var/tmp" if self.kind == TMP else self.words


@frozen
class Proven:
    """What was measured before and after; `why` says what was not, and why not."""

    proof: Proof
    before: BenchResult | None = None
    after: BenchResult | None = None
    why: tuple[str, ...] = ()


Measure = Callable[[Proof], "BenchResult"]


def proofs_of(plan: Plan) -> tuple[Proof, ...]:
    """The benches that belong to the changes of a plan: atime for each mount whose live flag changes, tmp for /tmp."""
    found = []
    for change in plan.changes:
        is_later = change.activation is Activation.REBOOT
        if change.rule == "storage-noatime" and change.address.kind == "mount":
            found.append(Proof(change.rule, ATIME, change.address.name, is_later))
        elif change.rule == "storage-tmp-tmpfs":
            found.append(Proof(change.rule, TMP, "/tmp", is_later=True))
    return tuple(dict.fromkeys(found))


@dataclass
class Prover:
    """Measures before and after a plan. `measure` raises HosttuneError where a gate is closed or nothing works."""

    proofs: Sequence[Proof]
    measure: Measure
    tell: Callable[[str], None]
    _before: dict[Proof, BenchResult] = field(default_factory=dict)
    _why: dict[Proof, tuple[str, ...]] = field(default_factory=dict)

    def before(self) -> None:
        """Measure all of them as the host is now."""
        for proof in self.proofs:
            if result := self._measured(proof, "before"):
                self._before[proof] = result

    def after(self, receipt: Receipt) -> tuple[Proven, ...]:
        """Measure again what can be measured now, and was changed."""
        return tuple(self._proven(proof, receipt) for proof in self.proofs)

    def _proven(self, proof: Proof, receipt: Receipt) -> Proven:
        before = self._before.get(proof)
        after = None
        if not _is_made(proof, receipt):
            self._add(proof, "after: the change was not made")
        elif not proof.is_later and before:  # nothing to compare it with otherwise
            after = self._measured(proof, "after")
        return Proven(proof, before, after, self._why.get(proof, ()))

    def _measured(self, proof: Proof, when: str) -> BenchResult | None:
        self.tell(f"{when} the change: {proof.words}")
        try:
            return self.measure(proof)
        except (HosttuneError, OSError) as error:
            self._add(proof, f"{when}: not measured: {error}")
            return None

    def _add(self, proof: Proof, why: str) -> None:
        self._why[proof] = (*self._why.get(proof, ()), why)


def _is_made(proof: Proof, receipt: Receipt) -> bool:
    """Whether the rule's changes stand: none failed, and so none was taken back."""
    own = [outcome for outcome in receipt.outcomes if outcome.change.rule == proof.rule]
    return bool(own) and all(outcome.phase is Phase.DONE for outcome in own)


def bench(seed: int, tell: Callable[[str], None]) -> Measure:
    """The real benches, with one seed for all; each result is kept as one of `hosttune bench` is."""

    def measure(proof: Proof) -> BenchResult:
        from hosttune.measure.bench import atime, results, tmp

        if proof.kind == TMP:
            result = tmp.bench_tmp(seed, tmp.TmpOptions(proof.path, MOST_S), tell)
        else:
            result = atime.bench_atime(proof.path, seed, atime.AtimeOptions(MOST_S), tell)
        try:
            results.save(result)
        except HosttuneError as error:
            tell(f"not kept: {error}")
        return result

    return measure
