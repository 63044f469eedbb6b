"""How a subject of facts is declared."""

from __future__ import annotations

import pytest

from hosttune.codec import to_json
from hosttune.facts.base import Fact, UnknownFact, complete, lazy
from hosttune.facts.lookups import Lookup
from hosttune.facts.subject import Subject, fact, number, read_with
from hosttune.frozen import frozen
from tests.unit.fake_reader import FakeReader

PATH = "/proc/sys/vm/dirty_ratio"


@frozen
class Writing(Subject):
    """Of a test."""

    ratio: int = number(PATH, absent=7)

    @fact
    def half(self) -> int:
        """Of the ratio."""
        return self._twice // 4

    _twice: int = read_with(lambda self: self._count_looks() * 2)

    @fact
    def _looks(self) -> list[int]:
        return []

    def _count_looks(self) -> int:
        self._looks.append(1)
        return self.ratio


def test_private_fact_of_one_expression_is_no_field_and_made_once():
    found = Writing.look(FakeReader({PATH: "40\n"}), None)

    assert (found.half, found._twice, found.half) == (20, 80, 20)
    assert found._looks == [1]
    assert list(Writing.MAKERS) == ["ratio", "half"]
    assert found == Writing(40, 20)


def test_reason_of_a_private_fact_is_that_of_the_fields_made_of_it_and_kept():
    reader = FakeReader(unreadable={PATH: "permission denied"})
    found = Writing.look(reader, None)

    for name in ("half", "_twice", "half"):
        with pytest.raises(UnknownFact, match="permission denied"):
            getattr(found, name)
    assert reader.seen.count(PATH) == 1
    assert found._looks == [1]


def test_field_that_a_test_leaves_out_is_unknown():
    with pytest.raises(UnknownFact, match="not given"):
        Writing(ratio=1).half  # noqa: B018


@pytest.mark.parametrize("members", [{"limit": "int"}, {"limit": "int", "ratio": "int"}])
def test_field_that_nothing_reads_is_refused(members):
    with pytest.raises(TypeError, match="Limits does not say how limit is read"):
        type(Subject)("Limits", (Subject,), {"__annotations__": members, "ratio": number(PATH)})


@frozen
class Named(Fact):
    """Of a test."""

    value: int  # of a test


@pytest.mark.parametrize("show", [complete, to_json])
def test_table_may_grow_while_it_is_gone_through(show):
    names = iter("bc")

    def look(_):
        return Named(
            lazy(lambda: len(table[name].__class__.__name__) if (name := next(names, "")) else 0)
        )

    table = Lookup(look)
    _ = table["a"]
    show(table)

    assert sorted(table) == ["a", "b"]
