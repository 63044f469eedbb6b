"""`apply --prove`: benches before and after, told as they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.cli.common import progress, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.actions.prove import Proven, Prover
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Plan
    from hosttune.views.document import Block
    from hosttune.views.page import Page


def describe_intent(plan: Plan, reader: Reader) -> Block:
    """What would be measured; nothing is."""
    from hosttune.actions.prove import MOST_S, proofs_of
    from hosttune.views import prove

    return prove.describe_intent(proofs_of(plan) if _runs(reader) else (), MOST_S)


def _runs(reader: Reader) -> bool:
    """Whether these are the files of a host that runs: neither a record nor an image can be measured."""
    return reader.kind != "record" and not reader.persistent_only


def open_prover(plan: Plan, writer: Writer) -> Prover | None:
    """Measure what belongs to the plan, on a running host; None where there is nothing to measure."""
    import secrets

    from hosttune.actions.prove import Prover, bench, proofs_of
    from hosttune.cli.measuring import progress_line

    proofs = proofs_of(plan) if _runs(writer) else ()
    if not proofs:
        tell("hosttune: --prove: no change of this plan can be measured here")
        return None

    def measure(proof: Any) -> Any:
        with progress_line() as line:
            return bench(seed, line)(proof)

    seed = secrets.randbelow(1_000_000)
    prover = Prover(proofs, measure, progress)
    prover.before()
    return prover


def sections(proven: Sequence[Proven] | None, page: Page) -> list[Block]:
    """What was measured, for people."""
    from hosttune.views.prove import measured_sections

    return measured_sections(proven, page) if proven else []


def as_json(proven: Sequence[Proven] | None) -> dict[str, Any]:
    """The part of the receipt's document that tells it; nothing without --prove."""
    from hosttune.views.prove import proven_json

    return {} if proven is None else {"proofs": proven_json(proven)}
