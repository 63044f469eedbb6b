"""What the first look at a host found, rule by rule and address by address, for the look behind a plan that was tried:
what the plan cannot have changed is taken over, the rest is looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hosttune.facts.tracing import TRACED, Noting, Reach, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.engine.evaluate import Evaluation
    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.values import Address, Value

T = TypeVar("T")


class Memory:
    """Belongs to one session: one host, one catalogue, one policy."""

    def __init__(self) -> None:
        self._evaluations: dict[str, tuple[Evaluation, Trace]] = {}
        self._values: dict[Address, tuple[Value, Trace]] = {}

    def evaluated(self, rule: str, facts: Facts, reach: Reach | None, make: Callable[[Any], Evaluation]) -> Evaluation:
        """What a rule says; `make` is told the facts to use."""
        return self._recalled(self._evaluations, rule, facts, reach, make)

    def value(self, address: Address, facts: Facts, reach: Reach | None, read: Callable[[Reader], Value]) -> Value:
        """What stands at an address; `read` is told the door to use."""
        return self._recalled(self._values, address, facts, reach, lambda noting: read(noting.reader))

    def _recalled(
        self, kept: dict[Any, tuple[T, Trace]], key: Any, facts: Facts, reach: Reach | None, make: Callable[[Any], T]
    ) -> T:
        if reach is not None:
            known = kept.get(key)
            return known[0] if known and known[1].stands(facts, reach) else make(facts)
        if facts.reader.kind not in TRACED:
            return make(facts)
        trace = Trace()
        found = make(Noting(facts, trace))
        kept[key] = (found, trace)
        return found
