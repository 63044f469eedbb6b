"""Values are frozen dataclasses: equal by their fields, hashable, printable, never changed."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from hosttune.codec import make_document, to_json
from hosttune.facts.base import (
    Fact,
    UnknownFact,
    complete,
    get_raw,
    lazy,
    make_shared,
    make_unread,
    read_at_once,
)
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


def early():
    """A class of which no value was made yet."""

    @frozen
    class Early:
        x: int
        y: list[int] = field(default_factory=list)
        late: bool = field(default=False, kw_only=True)
        sum: int = field(default=0, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.x + len(self.y))

    return Early


MADE = (
    ((1,), {}), ((1, [2]), {}), ((), {"x": 1, "y": [3]}), ((1,), {"late": True}), ((1, [], True), {}), ((), {}),
    ((1,), {"x": 2}), ((1,), {"z": 2}),
)  # fmt: skip


@pytest.mark.parametrize(("given", "named"), MADE)
def test_first_values_of_a_class_are_as_the_later_ones(given, named):
    """`__init__` is written for those that come often."""
    written, first = early(), early()
    for _ in range(9):
        written(1)

    def made(kind):
        try:
            one = kind(*given, **named)
        except TypeError as error:
            return str(error)
        return one.x, one.y, one.late, one.sum

    assert made(first) == made(written)
    assert first(1).y is not first(1).y


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
    one = Seen(make_unread("no permission"))
    assert one == Seen(make_unread("no permission"))
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
    one = Named("a", make_unread("no permission"))
    assert one.type == "a"
    assert get_raw(one, "aside") == Unreadable("no permission")
    for name in ("aside", "half"):
        with pytest.raises(UnknownFact, match=r"^no permission$"):
            getattr(one, name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = one.nothing  # type: ignore[attr-defined]
    assert (
        replace(Named("a", 3), type="b").half,
        hash(one) == hash(Named("a", make_unread("no permission"))),
    ) == (
        1.5,
        True,
    )
    assert make_document(one) == {
        "format_version": 1,
        "type": "a",
        "aside": to_json(make_unread("no permission")),
    }


def counted(value):
    """A function that gives `value`, or raises it, and the list of its calls."""
    calls = []

    def make(*arguments):
        calls.append(arguments)
        if isinstance(value, Exception):
            raise value
        return value

    return make, calls


def test_lazy_field_is_made_when_it_is_touched_and_once():
    make, calls = counted("found")
    one, other = Named(lazy(make, 1, 2), lazy(make)), Named("x", lazy(make))
    assert calls == []
    assert (one.type, one.type, get_raw(one, "type")) == ("found", "found", "found")
    assert calls == [(1, 2)]
    assert other.type == "x"
    assert len(calls) == 1


@pytest.mark.parametrize("value", [None, 0, "", False])
def test_lazy_field_may_hold_nothing(value):
    make, calls = counted(value)
    one = Named(lazy(make))
    assert (one.type, one.type, calls) == (value, value, [()])


@pytest.mark.parametrize("found", [make_unread("no permission"), UnknownFact("no permission")])
def test_lazy_field_that_cannot_be_read_raises_as_any_other(found):
    make, calls = counted(found)
    one = Named("a", lazy(make))
    for _ in range(2):
        with pytest.raises(UnknownFact, match=r"^no permission$"):
            _ = one.half
    assert get_raw(one, "aside") == Unreadable("no permission")
    assert calls == [()]


def test_whole_fact_is_what_makes_it_or_raises_in_every_field():
    assert read_at_once(Named, Named, "a", aside=3) == Named("a", 3)
    gone = read_at_once(Named, counted(UnknownFact("no permission"))[0])
    for name in ("type", "aside"):
        with pytest.raises(UnknownFact, match=r"^no permission$"):
            getattr(gone, name)


def test_lazy_field_whose_making_fails_is_tried_again():
    make, calls = counted(ValueError("a fault of ours"))
    one = Named(lazy(make))
    for _ in range(2):
        with pytest.raises(ValueError, match="a fault of ours"):
            _ = one.type
    assert len(calls) == 2


def test_facts_are_compared_printed_and_sent_with_their_lazy_fields():
    one = Named(lazy(lambda: "a"), lazy(make_unread, "no permission"))
    same = Named("a", make_unread("no permission"))
    assert one == same
    for again in (Named(lazy(lambda: "a"), lazy(make_unread, "no permission")) for _ in range(3)):
        assert repr(again) == repr(same)
        assert to_json(again) == to_json(same)
        assert pickle.loads(pickle.dumps(again)) == same  # noqa: S301 - our own


def test_lazy_field_is_made_once_for_all_threads():
    calls = []

    def slow():
        calls.append(1)
        for _ in range(100000):
            pass
        return "a"

    one = Named(lazy(slow))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: one.type, range(64))) == {"a"}
    assert calls == [1]


def test_what_fields_share_is_made_once_and_its_problem_is_theirs():
    make, calls = counted((1, 2))
    pair = make_shared(make, "x")
    one = Named(lazy(lambda: pair()[0]), lazy(lambda: pair()[1]))
    assert calls == []
    assert (one.type, one.aside, calls) == (1, 2, [("x",)])
    gone = make_shared(make_unread, "no permission")
    with pytest.raises(UnknownFact, match=r"^no permission$"):
        _ = Named(lazy(lambda: gone()[0])).type


def test_complete_reads_what_is_left_in_a_fact_and_in_the_facts_in_it():
    make, calls = counted("a")
    inner = Named(lazy(make, "list")), {"key": Named(lazy(make, "table"))}
    complete(Named("x", lazy(lambda: inner)))
    assert calls == [("list",), ("table",)]


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


@pytest.mark.parametrize(
    "given", [((), {}), (("a", [], "x"), {}), (("a",), {"nope": 1}), (("a",), {"name": "b"})]
)
def test_wrong_arguments_are_refused_also_for_the_first_value(given):
    for made in (frozen(type("Fresh", (), {"__annotations__": {"name": str}})), Kept):
        with pytest.raises(TypeError):
            made(*given[0], **given[1])


@pytest.mark.parametrize(
    "again",
    [lambda value: pickle.loads(pickle.dumps(value)), copy.copy, copy.deepcopy],  # noqa: S301
)
def test_values_are_copied_and_sent_to_other_processes(again):
    value = Kept("a", [1], tag="z")
    assert again(value) == value
    unread_fact = Seen(make_unread("no such file"))
    assert again(unread_fact) == unread_fact
