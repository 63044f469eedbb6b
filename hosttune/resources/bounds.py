"""Whether a kernel value satisfies the bounds of a wish, and which value would. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.numbers import parse_whole
from hosttune.resources.base import Operator

if TYPE_CHECKING:
    from hosttune.resources.base import Wish

_WORDS = {Operator.EXACTLY: "", Operator.AT_LEAST: "at least ", Operator.AT_MOST: "at most "}


def parse_whole_number(text: object) -> int | None:
    """The whole number that a value is, else None."""
    try:
        return parse_whole(str(text).strip())
    except ValueError:
        return None


def satisfies_wish(text: str, wish: Wish) -> bool:
    """Whether a value, blanks normalised, is within all bounds of the wish."""
    value = parse_whole_number(text)
    for bound in wish.bounds:
        wanted = parse_whole_number(bound.value)
        if bound.operator is Operator.EXACTLY or value is None or wanted is None:
            if text.split() != str(bound.value).split():
                return False
        elif (bound.operator is Operator.AT_LEAST and value < wanted) or (
            bound.operator is Operator.AT_MOST and value > wanted
        ):
            return False
    return True


def choose_nearest(text: str, wish: Wish) -> str:
    """The value to write: the present one where it satisfies the wish (never lower a better value),
    else the bound that satisfies all of them, of those that the present value breaks first.
    """
    if text and satisfies_wish(text, wish):
        return text
    broken = [
        bound for bound in wish.bounds if not satisfies_wish(text, replace(wish, bounds=(bound,)))
    ]
    values = [" ".join(str(bound.value).split()) for bound in (*broken, *wish.bounds)]
    return next((value for value in values if satisfies_wish(value, wish)), values[0])


def is_better(text: str, than: str, wish: Wish) -> bool:
    """Whether a value goes further than another one in the direction of the wish: not with bounds
    on both sides.
    """
    value, other = parse_whole_number(text), parse_whole_number(than)
    if value is None or other is None:
        return False
    sides = {bound.operator for bound in wish.bounds}
    return (sides == {Operator.AT_LEAST} and value > other) or (
        sides == {Operator.AT_MOST} and value < other
    )


def describe_wish(wish: Wish, *, stays: bool = False) -> str:
    """What the wish says, as a sentence; `stays`: it is so now, and would not be after a reboot."""
    bounds = " and ".join(f"{_WORDS[bound.operator]}{bound.value}" for bound in wish.bounds)
    if stays:
        return f"{wish.name} should stay {bounds} after a reboot"
    return f"{wish.name} should be {bounds}"
