"""How expressions calculate: within bounds, with numbers and texts kept apart, and with facts that are unknown.

What could not be read raises UnknownFact when it is touched. It flows through every operator: `and`, `or`, `any` and
`all` still answer where the unknown part cannot matter, everything else becomes unknown.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from hosttune.facts.base import UnknownFact
from hosttune.values import Unreadable

# A closure takes the names and the slots of comprehension variables; slot 0 counts steps.
Run: TypeAlias = Callable[[Mapping[str, Any], list[Any]], Any]

MAX_INTEGER = 1 << 128
MAX_LENGTH = 1 << 20  # characters of a text, items of a list
MAX_STEPS = 100_000  # of all comprehensions of one evaluation together

# What an expression can do wrong while it is evaluated, as against a fact that is unknown.
ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

_UNDECIDED = object()


def known(value: Any) -> Any:
    if type(value) is Unreadable:
        raise UnknownFact(value.reason)
    return tuple(value) if type(value) is list else value


def same(one: Any, other: Any) -> bool:
    """Equal and of one type, so that True is not 1."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def bounded(value: Any) -> Any:
    if isinstance(value, int):
        if not -MAX_INTEGER < value < MAX_INTEGER:
            raise OverflowError("the number is too large")
    elif isinstance(value, float):
        if value - value != 0:
            raise OverflowError("the number is too large")
    elif isinstance(value, (str, tuple)) and len(value) > MAX_LENGTH:
        raise OverflowError("the result is too long")
    return value


def _add(one: Any, other: Any) -> Any:
    return bounded(one + other)


def _numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Arithmetic of numbers only: Python's * would repeat text, its % would format it."""

    def run(one: Any, other: Any) -> Any:
        if not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
            raise TypeError(f"a number is needed, not {type(other if isinstance(one, (int, float)) else one).__name__}")
        return bounded(function(one, other))

    return run


OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _add,
    ast.Sub: _numbers(operator.sub),
    ast.Mult: _numbers(operator.mul),
    ast.Div: _numbers(operator.truediv),
    ast.FloorDiv: _numbers(operator.floordiv),
    ast.Mod: _numbers(operator.mod),
}

COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}


def items_of(value: Any, slots: list[Any]) -> Iterator[Any]:
    if not isinstance(value, (tuple, frozenset, dict, MappingProxyType)):
        raise TypeError(f"{type(value).__name__} is not a list")
    slots[0] += len(value)
    if slots[0] > MAX_STEPS:
        raise OverflowError(f"more than {MAX_STEPS} steps")
    return (known(item) for item in value)


def kleene(runs: tuple[Run, ...], *, decisive: bool) -> Run:
    """`or` (decisive True) and `and` (decisive False). An operand after an unknown one may be there only thanks to
    what is unknown (`x is not None and x.y > 1`), so its failure counts as unknown too."""

    def run(names: Mapping[str, Any], slots: list[Any]) -> Any:
        unknown: UnknownFact | None = None
        value: Any = not decisive
        for operand in runs:
            try:
                value = operand(names, slots)
            except UnknownFact as error:
                unknown = unknown or error
                continue
            except ERRORS:
                if unknown is None:
                    raise
                break
            if bool(value) is decisive:
                if unknown is None or value is decisive:
                    return value
                break
        if unknown is not None:
            raise unknown
        return value

    return run


Outcome: TypeAlias = "tuple[Any, UnknownFact | None]"


def quantify(outcomes: Callable[[Mapping[str, Any], list[Any]], Iterator[Outcome]], *, decisive: bool) -> Run:
    def run(names: Mapping[str, Any], slots: list[Any]) -> Any:
        unknown: UnknownFact | None = None
        try:
            for value, doubt in outcomes(names, slots):
                if value is not _UNDECIDED and bool(value) is not decisive:
                    continue
                if doubt is None:
                    return decisive
                unknown = unknown or doubt
        except ERRORS:
            if unknown is None:
                raise
        if unknown is not None:
            raise unknown
        return not decisive

    return run


def each(runs: tuple[Run, ...], names: Mapping[str, Any], slots: list[Any]) -> Iterator[Outcome]:
    for run in runs:
        try:
            outcome: Outcome = run(names, slots), None
        except UnknownFact as unknown:
            outcome = _UNDECIDED, unknown
        yield outcome


def outcomes_of(
    clauses: tuple[tuple[int, Run, Run | None], ...],
    element: Run,
    names: Mapping[str, Any],
    slots: list[Any],
    level: int,
    doubt: UnknownFact | None,
) -> Iterator[Outcome]:
    """The elements of a comprehension, each with what makes it doubtful: its value (_UNDECIDED) or its being there.

    What fails behind a doubt is undecided: without the doubt it might not be there.
    """
    if level == len(clauses):
        yield _attempt(element, names, slots, doubt)
        return
    slot, source, test = clauses[level]
    items, missing = _attempt(source, names, slots, doubt)
    if items is _UNDECIDED:
        yield items, missing
        return
    for item in items_of(items, slots):
        slots[slot] = item
        passed, unsure = _attempt(test, names, slots, doubt) if test is not None else (True, doubt)
        if passed:  # _UNDECIDED too: the element still may not matter
            yield from outcomes_of(clauses, element, names, slots, level + 1, unsure)


def _attempt(run: Run, names: Mapping[str, Any], slots: list[Any], doubt: UnknownFact | None) -> Outcome:
    try:
        return run(names, slots), doubt
    except UnknownFact as unknown:
        return _UNDECIDED, doubt or unknown
    except ERRORS:
        if doubt is None:
            raise
        return _UNDECIDED, doubt
