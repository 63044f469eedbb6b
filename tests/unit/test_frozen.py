"""Values are frozen dataclasses: equal by their fields, hashable, printable, never changed."""

from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from hosttune.facts.base import Fact, unread
from hosttune.frozen import frozen


@frozen
class Point:
    x: int
    y: tuple[str, ...] = ()
    note: str = field(default="", compare=False, repr=False)


@frozen
class Other:
    x: int
    y: tuple[str, ...] = ()


@frozen
class Seen(Fact):
    size_bytes: int


@frozen
class Silent:
    word: str

    def __repr__(self) -> str:
        return "silent"


def test_equal_fields_are_equal_values_of_one_hash():
    assert Point(1, ("a",)) == Point(1, ("a",), "later")
    assert {Point(1): "one"}[Point(1)] == "one"
    assert Point(1) != Point(2)


def test_another_class_is_another_value():
    assert Point(1) != Other(1)


def test_values_cannot_be_changed_and_have_no_other_fields():
    with pytest.raises(FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del Point(1).x
    assert not hasattr(Point(1), "__dict__")


def test_dataclass_functions_work():
    assert replace(Point(1), x=2) == Point(2)
    assert [one.name for one in fields(Point)] == ["x", "y", "note"]


def test_text_names_the_fields():
    assert repr(Point(1, ("a",))) == "Point(x=1, y=('a',))"
    assert repr(Silent("x")) == "silent"


def test_fact_that_was_not_read_can_be_compared_and_printed():
    one = Seen(unread("no permission"))
    assert one == Seen(unread("no permission"))
    assert one != Seen(1)
    assert "no permission" in repr(one)
