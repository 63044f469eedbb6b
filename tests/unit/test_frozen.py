"""Values are frozen dataclasses: equal by their fields, hashable, printable, never changed."""

import copy
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from hosttune.codec import document, to_json
from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.frozen import frozen
from hosttune.values import Unreadable


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


@frozen
class Named(Fact):
    """With names that the making of a value uses itself."""

    type: str
    aside: int = 0

    @property
    def half(self) -> float:
        return self.aside / 2


def test_fact_raises_where_a_field_was_not_read_and_nowhere_else():
    one = Named("a", unread("no permission"))
    assert one.type == "a"
    assert raw(one, "aside") == Unreadable("no permission")
    for name in ("aside", "half"):
        with pytest.raises(UnknownFact, match=r"Named\.aside: no permission"):
            getattr(one, name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = one.nothing  # type: ignore[attr-defined]
    assert (replace(Named("a", 3), type="b").half, hash(one) == hash(Named("a", unread("no permission")))) == (
        1.5,
        True,
    )
    assert document(one) == {"format_version": 1, "type": "a", "aside": to_json(unread("no permission"))}


def test_field_that_was_read_is_not_asked_for_in_python():
    assert "__getattribute__" not in vars(Fact)


@frozen
class Kept:
    name: str
    more: list[int] = field(default_factory=list)
    tag: str = field(default="x", kw_only=True)


def test_defaults_are_made_anew_and_names_may_be_given():
    one, other = Kept("a"), Kept(name="a", tag="y")
    assert (one.more, one.more is other.more, one.tag, other.tag) == ([], False, "x", "y")
    assert Kept("a", [1]).more == [1]


@pytest.mark.parametrize("given", [((), {}), (("a", [], "x"), {}), (("a",), {"nope": 1}), (("a",), {"name": "b"})])
def test_wrong_arguments_are_refused_also_for_the_first_value(given):
    for made in (frozen(type("Fresh", (), {"__annotations__": {"name": str}})), Kept):
        with pytest.raises(TypeError):
            made(*given[0], **given[1])


@pytest.mark.parametrize("again", [lambda value: pickle.loads(pickle.dumps(value)), copy.copy, copy.deepcopy])  # noqa: S301 - our own
def test_values_are_copied_and_sent_to_other_processes(again):
    value = Kept("a", [1], tag="z")
    assert again(value) == value
    unread_fact = Seen(unread("no such file"))
    assert again(unread_fact) == unread_fact
