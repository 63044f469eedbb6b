"""How expressions calculate: a walk over the parsed expression, within bounds, with numbers and
texts kept apart.

Values are Python's, with one kind of list: displays and comprehensions make tuples, lists from
outside become tuples. What could not be read raises UnknownFact when it is touched. It flows
through every operator: `and`, `or`, `any` and `all` still answer where the unknown part cannot
matter, everything else becomes unknown.

Records and images bring rules of others, so all that an evaluation does is charged to a `Budget`:
each part that is looked at, each item, each character that is made or read.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from hosttune.engine.expressions.helpers import CONSTANTS, HELPERS
from hosttune.facts.base import Fact, KnownPart, UnknownFact, known_part
from hosttune.facts.globs import MOST_KEPT
from hosttune.facts.globs import PER_PATTERN as PER_KEPT
from hosttune.facts.lookups import Lookup
from hosttune.host.reading.effort import EFFORT
from hosttune.values import Unreadable

MAX_INTEGER = 1 << 128
MAX_LENGTH = 1 << 20  # characters of a text, items of a list
MAX_STEPS = 100_000  # of all comprehensions of one evaluation together
# Parts, items and characters of one rule on one host, and of all its rules. On the largest built
# host ours take at most 164,218 and 747,608; of 23,000 mounts a rule takes 6,122,961.
MAX_RULE = 1 << 24
MAX_HOST = 1 << 26
PER_PATTERN = 64  # what each character of a pattern costs to compile
# characters that a pattern counts for besides, as the compiler takes its time for the shortest, too
PER_COMPILE = 8
# what it costs to ask a fact by name, besides each byte that is read and each item that is gone
# through
PER_LOOK = 100

# What an expression can do wrong while it is evaluated, as against a fact that is unknown.
# OverBudget is none of them: nothing may go on after it.
ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

# By type: isinstance would ask every fact for its __class__ as well.
_MAPPINGS = frozenset({dict, MappingProxyType})
_UNDECIDED = object()

Bound: TypeAlias = Mapping[str, Any]  # the variables of the comprehensions around
# a value, or _UNDECIDED, and what makes it doubtful
Outcome: TypeAlias = "tuple[Any, UnknownFact | None]"


class _AtLeast:
    """The length of a list of which a part is known. It compares as a number where that part
    decides.
    """

    __slots__ = ("count", "reason")

    def __init__(self, part: KnownPart) -> None:
        self.count = len(part.known)
        self.reason = part.reason

    def decide(self, other: Any, *, answer: bool, or_equal: bool = False) -> bool:
        """The answer, if the number that it is compared with is below the known count, or equal to
        it.
        """
        if other < self.count or (or_equal and other == self.count):
            return answer
        raise UnknownFact(self.reason)

    def __eq__(self, other: object) -> bool:
        return self.decide(other, answer=False)

    def __ne__(self, other: object) -> bool:
        return self.decide(other, answer=True)

    def __lt__(self, other: object) -> bool:
        return self.decide(other, answer=False, or_equal=True)

    def __le__(self, other: object) -> bool:
        return self.decide(other, answer=False)

    def __gt__(self, other: object) -> bool:
        return self.decide(other, answer=True)

    def __ge__(self, other: object) -> bool:
        return self.decide(other, answer=True, or_equal=True)

    # In a set Python compares hashes before it compares values, and would never ask `decide`.
    __hash__ = None  # type: ignore[assignment]


class OverBudget(Exception):
    """An evaluation makes or reads too much."""


class Budget:
    """What the expressions of one rule may still use on a host. It counts and measures no time, so
    that each run gives the same answer.
    """

    __slots__ = ("_patterns", "_room", "kept", "left")

    def __init__(self, left: int = MAX_RULE) -> None:
        self.left = left
        # what a property gave, with whose it is
        self.kept: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._patterns: set[str] = set()  # those that are kept compiled
        self._room = MOST_KEPT

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            rule, host = f"{MAX_RULE:,}", f"{MAX_HOST:,}"
            raise OverBudget(
                f"it takes more than {rule} steps and characters, or all rules of this host over "
                f"{host}"
            )

    def read(self, value: Any) -> None:
        """Charge all characters and items of a value. What it holds twice counts twice, as if it
        were written out.
        """
        kind = type(value)
        if kind is str:
            self.spend(len(value))
        elif kind is tuple or kind is list or kind is frozenset or kind is KnownPart:
            items = value.known if kind is KnownPart else value
            self.spend(len(items))
            for item in items:
                self.read(item)

    def compile(self, pattern: str) -> None:
        """Charge a pattern that facts/globs.py has to compile: once, and again after it has dropped
        all.
        """
        if pattern in self._patterns:
            return
        self.spend((len(pattern) + PER_COMPILE) * PER_PATTERN)
        self._room -= len(pattern) + PER_KEPT
        if self._room < 0:
            self._patterns.clear()
            self._room = MOST_KEPT - len(pattern) - PER_KEPT
        self._patterns.add(pattern)


def value_of(node: ast.expr, names: Mapping[str, Any], budget: Budget) -> Any:
    """The value of an expression that was judged; a KnownPart of a list where not all of it is
    known. Raises UnknownFact, OverBudget, or one of ERRORS.
    """
    return _Evaluation(names, budget).of(node, {})


def whole_of(value: Any) -> Any:
    """A value that is known as a whole. Raises UnknownFact for a list of which a part is."""
    if type(value) is KnownPart:
        raise UnknownFact(value.reason)
    return value


class _Evaluation:
    """One evaluation; `steps` counts those of all its comprehensions. `lacking`, of the names, is
    there for words that people read: they name the known part of a list, and the reason why there
    may be more is added to it.
    """

    __slots__ = ("budget", "lacking", "names", "steps")

    def __init__(self, names: Mapping[str, Any], budget: Budget) -> None:
        self.names = names
        self.budget = budget
        self.steps = 0
        self.lacking: list[str] | None = getattr(names, "lacking", None)

    def of(self, node: ast.expr, bound: Bound) -> Any:
        self.budget.spend(1)
        return _VALUES[type(node)](self, node, bound)

    def require_known(self, value: Any) -> Any:
        if type(value) is Unreadable:
            raise UnknownFact(value.reason)
        if type(value) is list:
            self.budget.spend(len(value))
            return tuple(value)
        if self.lacking is not None and type(value) is KnownPart:
            self.lacking.append(value.reason)
            return value.known
        return value

    def constant(self, node: ast.Constant, _bound: Bound) -> Any:
        return node.value

    def name(self, node: ast.Name, bound: Bound) -> Any:
        name = node.id
        if name in bound:
            return bound[name]
        return CONSTANTS[name] if name in CONSTANTS else self.require_known(self.names[name])

    def attribute(self, node: ast.Attribute, bound: Bound) -> Any:
        value, name = self.of(node.value, bound), node.attr
        if type(value) in _MAPPINGS:
            return self.require_known(value[name])
        # The fields of a subject are few, and each is made once. Those of what was asked by name
        # are as many as names.
        is_of_subject = type(node.value) is ast.Name and node.value.id not in bound
        before = EFFORT.spent
        try:
            return self.field(value, name)
        finally:
            # Also when it raises. What fails after it has read much has cost as much.
            if not is_of_subject:
                self.budget.spend(EFFORT.spent - before)

    def field(self, value: Any, name: str) -> Any:
        if not isinstance(getattr(type(value), name, None), property):
            return self.require_known(getattr(value, name))
        kept = self.budget.kept  # a property may go through all things of a host: once is enough
        if (id(value), name) not in kept:
            # With the value itself: once it is freed, its id may be that of another object.
            kept[id(value), name] = value, self.require_known(getattr(value, name))
        return kept[id(value), name][1]

    def subscript(self, node: ast.Subscript, bound: Bound) -> Any:
        value, key = self.of(node.value, bound), self.of(node.slice, bound)
        # Python would give a character. In a rule it is a mistake for a list, or for `in`.
        if isinstance(value, str):
            raise TypeError("a text has no items")
        self.budget.read(key)
        is_asked = isinstance(value, (Fact, Lookup))
        if not is_asked:
            return self.require_known(value[key])
        before = EFFORT.spent
        try:
            return self.require_known(value[key])
        finally:
            self.budget.spend(PER_LOOK + EFFORT.spent - before)

    def display(self, node: ast.Tuple | ast.List, bound: Bound) -> Any:
        return tuple([whole_of(self.of(item, bound)) for item in node.elts])

    def boolean(self, node: ast.BoolOp, bound: Bound) -> Any:
        return self.kleene(node.values, bound, decisive=isinstance(node.op, ast.Or))

    def kleene(self, tests: Iterable[ast.expr], bound: Bound, *, decisive: bool) -> Any:
        """`or` (decisive True) and `and` (decisive False). A test after an unknown one may be there
        only thanks to what is unknown (`x is not None and x.y > 1`), so its failure counts as
        unknown too.
        """
        unknown: UnknownFact | None = None
        value: Any = not decisive
        for test in tests:
            try:
                value = self.of(test, bound)
            except UnknownFact as error:
                unknown = unknown or error
                continue
            except ERRORS:
                if unknown is None:
                    raise
                break
            if bool(value) is decisive:
                # Behind an unknown part only True or False may decide. `x or 5` could also be the
                # value of x.
                if unknown is None or value is decisive:
                    return value
                break
        if unknown is not None:
            raise unknown
        return value

    def unary(self, node: ast.UnaryOp, bound: Bound) -> Any:
        value = self.of(node.operand, bound)
        return not value if isinstance(node.op, ast.Not) else -value

    def binary(self, node: ast.BinOp, bound: Bound) -> Any:
        made = OPERATORS[type(node.op)](self.of(node.left, bound), self.of(node.right, bound))
        if isinstance(made, (str, tuple)):
            self.budget.spend(len(made))
        return made

    def compare(self, node: ast.Compare, bound: Bound) -> Any:
        left, holds = self.operand(node.left, bound), True
        for op, operand in zip(node.ops, node.comparators):  # noqa: B905 - of one length
            right = self.operand(operand, bound)
            self.budget.read(left)
            if type(right) is not frozenset:  # one look
                self.budget.read(right)
            holds = _COMPARISONS[type(op)](left, right)
            if not holds:
                break
            left = right
        return holds

    def operand(self, node: ast.expr, bound: Bound) -> Any:
        """A side of a comparison. The known part of a list decides whether it is empty, or longer
        than a number.
        """
        if type(node) is not ast.Call or node.func.id != "len" or len(node.args) != 1:  # type: ignore[attr-defined]
            return self.of(node, bound)
        self.budget.spend(1)
        items = self.of(node.args[0], bound)
        return (
            _AtLeast(items)
            if type(items) is KnownPart
            else check_bounds(HELPERS["len"].function(items))
        )

    def conditional(self, node: ast.IfExp, bound: Bound) -> Any:
        try:
            chosen = node.body if self.of(node.test, bound) else node.orelse
        except UnknownFact as unknown:
            try:
                # Both ways are worked out: where they agree, what the test asks does not matter.
                one, other = self.of(node.body, bound), self.of(node.orelse, bound)
                self.budget.read(one)
                if _is_same(one, other):
                    return one
            except (UnknownFact, *ERRORS):
                pass
            raise unknown from None
        return self.of(chosen, bound)

    def call(self, node: ast.Call, bound: Bound) -> Any:
        name: str = node.func.id  # type: ignore[attr-defined]
        if name in {"any", "all"} and len(node.args) == 1:
            return self.quantifier(node.args[0], bound, decisive=name == "any")
        arguments = [self.of(argument, bound) for argument in node.args]
        self.charge(name, arguments)
        made = check_bounds(HELPERS[name].function(*arguments))
        self.budget.read(made)
        return made

    def charge(self, name: str, arguments: list[Any]) -> None:
        """What a helper reads: all of its arguments; some of it often, where it compares or
        searches.
        """
        if name == "len":
            return
        before = self.budget.left
        for argument in arguments:
            self.budget.read(argument)
        if name == "sorted":
            # A sort compares each item about log2(n) times, and reads it each time.
            self.budget.spend((before - self.budget.left) * len(arguments[0]).bit_length())
        elif name == "like":
            text, pattern = arguments
            self.budget.spend(len(text) * len(pattern) // 16)
            self.budget.compile(pattern)

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp, bound: Bound) -> Any:
        """The list; a KnownPart where elements, or whether they belong to it, are unknown."""
        found: list[Any] = []
        unknown: UnknownFact | None = None
        try:
            for value, doubt in self.outcomes(node, 0, bound, None):
                if doubt is not None:
                    unknown = unknown or doubt
                elif type(value) is KnownPart:  # a list in a list is known as a whole, or not
                    unknown = unknown or UnknownFact(value.reason)
                else:
                    found.append(value)
        except ERRORS:
            if unknown is None:
                raise
        return self.require_known(known_part(found, unknown))

    def items_of(self, value: Any) -> Iterator[Any]:
        """The items. Raises UnknownFact behind the last one where there may be more."""
        if not isinstance(value, (tuple, frozenset, dict, MappingProxyType, KnownPart)):
            raise TypeError(f"{type(value).__name__} is not a list")
        # Counted before the first item: a list inside a list multiplies, and the work is known by
        # then.
        self.steps += len(value.known if type(value) is KnownPart else value)
        if self.steps > MAX_STEPS:
            raise OverflowError(f"more than {MAX_STEPS} steps")
        return map(self.require_known, value)

    def quantifier(self, node: ast.expr, bound: Bound, *, decisive: bool) -> bool:
        """For any (decisive True) and all (decisive False): unknown items matter only where no
        known one decides.
        """
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            outcomes = self.outcomes(node, 0, bound, None)
        elif isinstance(node, (ast.Tuple, ast.List)):
            outcomes = (self.attempt(item, bound, None) for item in node.elts)
        else:
            items = self.items_of(self.of(node, bound))
            return any(items) if decisive else all(items)
        unknown: UnknownFact | None = None
        try:
            for value, doubt in outcomes:
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

    def outcomes(
        self,
        node: ast.ListComp | ast.GeneratorExp,
        level: int,
        bound: Bound,
        doubt: UnknownFact | None,
    ) -> Iterator[Outcome]:
        """The elements of a comprehension, each with what makes it doubtful: its value (_UNDECIDED)
        or its being there.

        What fails behind a doubt is undecided: without the doubt it might not be there.
        """
        if level == len(node.generators):
            yield self.attempt(node.elt, bound, doubt)
            return
        clause = node.generators[level]
        items, missing = self.attempt(clause.iter, bound, doubt)
        if items is _UNDECIDED:
            yield items, missing
            return
        name = clause.target.id  # type: ignore[attr-defined]
        test = ast.BoolOp(ast.And(), clause.ifs) if clause.ifs else None
        try:
            for item in self.items_of(items):
                self.budget.spend(len(bound))
                inner = {**bound, name: item}
                passed, unsure = self.attempt(test, inner, doubt) if test else (True, doubt)
                if passed:  # _UNDECIDED too: the element still may not matter
                    yield from self.outcomes(node, level + 1, inner, unsure)
        except UnknownFact as more:
            yield _UNDECIDED, doubt or more

    def attempt(self, node: ast.expr, bound: Bound, doubt: UnknownFact | None) -> Outcome:
        try:
            return self.of(node, bound), doubt
        except UnknownFact as unknown:
            return _UNDECIDED, doubt or unknown
        except ERRORS:
            if doubt is None:
                raise
            return _UNDECIDED, doubt


def _is_same(one: Any, other: Any) -> bool:
    """Equal and of one type, so that True is not 1."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and bool(one == other)


def check_bounds(value: Any) -> Any:
    """The value. Raises OverflowError for a number that is too large, and what is too long."""
    if isinstance(value, int):
        if not -MAX_INTEGER < value < MAX_INTEGER:
            raise OverflowError("the number is too large")
    elif isinstance(value, float):
        # Infinity and not-a-number give not-a-number, which equals nothing.
        if value - value != 0:
            raise OverflowError("the number is too large")
    elif isinstance(value, (str, tuple)) and len(value) > MAX_LENGTH:
        raise OverflowError("the result is too long")
    return value


def _take_only_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Arithmetic of numbers only: Python's * would repeat text, its % would format it."""

    def run(one: Any, other: Any) -> Any:
        if not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
            raise TypeError(
                "a number is needed, not "
                f"{type(other if isinstance(one, (int, float)) else one).__name__}"
            )
        return check_bounds(function(one, other))

    return run


OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda one, other: check_bounds(one + other),
    ast.Sub: _take_only_numbers(operator.sub),
    ast.Mult: _take_only_numbers(operator.mul),
    ast.Div: _take_only_numbers(operator.truediv),
    ast.FloorDiv: _take_only_numbers(operator.floordiv),
    ast.Mod: _take_only_numbers(operator.mod),
}

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
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

_VALUES: Mapping[type[ast.expr], Callable[[_Evaluation, Any, Bound], Any]] = {
    ast.Constant: _Evaluation.constant,
    ast.Name: _Evaluation.name,
    ast.Attribute: _Evaluation.attribute,
    ast.Subscript: _Evaluation.subscript,
    ast.Tuple: _Evaluation.display,
    ast.List: _Evaluation.display,
    ast.BoolOp: _Evaluation.boolean,
    ast.UnaryOp: _Evaluation.unary,
    ast.BinOp: _Evaluation.binary,
    ast.Compare: _Evaluation.compare,
    ast.IfExp: _Evaluation.conditional,
    ast.Call: _Evaluation.call,
    ast.ListComp: _Evaluation.comprehension,
    ast.GeneratorExp: _Evaluation.comprehension,
}
