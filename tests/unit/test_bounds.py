"""Bounds of several rules on one thing: when some value satisfies them all."""

import pytest

from hosttune.engine.decide.evaluate import is_satisfiable, merge_bounds
from hosttune.resources.base import Bound, Operator, Wish
from hosttune.resources.bounds import choose_nearest, satisfies_wish

LEAST, MOST, EXACT = Operator.AT_LEAST, Operator.AT_MOST, Operator.EXACTLY


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (((LEAST, 10), (MOST, 10)), True),  # the one value that they share
        (((LEAST, 11), (MOST, 10)), False),
        (((LEAST, 1), (LEAST, 11), (MOST, 10)), False),
        (((LEAST, 1), (MOST, 20), (MOST, 0)), False),
        (((LEAST, 11),), True),
        (((MOST, 10),), True),
        (((EXACT, 10), (LEAST, 10), (MOST, 10)), True),
        (((EXACT, 10), (LEAST, 11)), False),
        (((EXACT, 10), (MOST, 9)), False),
        (((EXACT, "madvise"), (LEAST, 1)), False),
        (((EXACT, -1), (MOST, 0)), True),
        (((EXACT, 10), (EXACT, "10")), True),
        (((EXACT, 10), (EXACT, 11)), False),
    ],
)
def test_bounds_are_satisfiable_where_some_value_keeps_all_of_them(bounds, expected):
    assert is_satisfiable(tuple(Bound(*one) for one in bounds)) is expected


def test_rules_that_contradict_each_other_are_named_and_rules_that_meet_are_not():
    def wish(rule, operator, value):
        return Wish("sysctl", "vm.x", rule, "vm.x", {}, (Bound(operator, value),))

    merged, clashes = merge_bounds((wish("one", LEAST, 10), wish("two", MOST, 10)))
    assert clashes == {}
    assert {one.bounds for one in merged} == {(Bound(LEAST, 10), Bound(MOST, 10))}
    wishes = (wish("one", LEAST, 11), wish("two", MOST, 10), wish("three", MOST, 90))
    merged, clashes = merge_bounds(wishes)
    what = "sysctl vm.x (at_least 11, at_most 10, at_most 90)"
    assert clashes == {"one": (("two",), what), "two": (("one",), what)}
    assert merged == wishes  # each keeps its own


@pytest.mark.parametrize(
    ("present", "bounds", "within", "written"),
    [
        ("10", ((LEAST, 10),), True, "10"),  # what is just enough stays
        ("9", ((LEAST, 10),), False, "10"),
        ("11", ((LEAST, 10),), True, "11"),  # and what is better, too
        ("10", ((MOST, 10),), True, "10"),
        ("11", ((MOST, 10),), False, "10"),
        ("9", ((MOST, 10),), True, "9"),
        ("3", ((LEAST, 5), (MOST, 20)), False, "5"),  # to the bound that is broken, no further
        ("30", ((LEAST, 5), (MOST, 20)), False, "20"),
        ("1 2", ((EXACT, "1  2"),), True, "1 2"),
        ("many", ((LEAST, 5),), False, "5"),
        ("", ((LEAST, 5),), False, "5"),
    ],
)
def test_value_is_changed_only_as_far_as_its_bounds_ask(present, bounds, within, written):
    wish = Wish("sysctl", "vm.x", "rule", "vm.x", {}, tuple(Bound(*one) for one in bounds))
    assert satisfies_wish(present, wish) is within
    assert choose_nearest(present, wish) == written
