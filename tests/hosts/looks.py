"""How often a rule looks at a host: each question through the door counts, asked once or again."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog
from hosttune.host.door import Reader

QUESTIONS = (
    "read",
    "list",
    "link",
    "stat",
    "resolve",
    "space",
    "usage",
    "query",
    "processes",
    "os_release",
)


class Counted:
    """A Reader that counts the questions it is asked, each with what it was about."""

    def __init__(self, base: Reader) -> None:
        self.base = base
        self.looks: Counter[tuple[Any, ...]] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.base, name)
        return partial(self._counted, name, found) if name in QUESTIONS else found

    def _counted(self, name: str, ask: Any, *about: Any, **more: Any) -> Any:
        self.looks[(name, *map(str, about))] += 1
        return ask(*about, **more)


def looks_of(
    rule: str, reader: Reader, catalog: Catalog, policy: Policy | None = None
) -> Counter[tuple[Any, ...]]:
    """The questions that one rule asks of a host, up to what it would change, with their
    numbers.
    """
    counted: Any = Counted(reader)
    session = examine(counted, catalog, (policy or Policy()).only(rule))
    counted.looks.clear()  # those for hosttune's own journal
    session.look(session.facts)
    return counted.looks
