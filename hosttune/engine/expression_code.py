"""Turns a parsed expression into a tree of closures, and decides what may stand in an expression at all.

Values are Python's, with one kind of list: displays and comprehensions make tuples, lists from outside become tuples.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hosttune.engine.expression_helpers import CONSTANTS, HELPERS
from hosttune.engine.expression_values import (
    COMPARISONS,
    ERRORS,
    OPERATORS,
    Run,
    bounded,
    each,
    items_of,
    kleene,
    known,
    outcomes_of,
    quantify,
    same,
)
from hosttune.facts.base import UnknownFact

MAX_DEPTH = 60

# Read by name, one by one: which names are asked must be known before.
ASKED = frozenset({"units", "packages"})
NOTED = ASKED | {"sysctl"}  # names in quotes are kept: those of sysctls, so that lint can look them up

# By type: isinstance would ask every fact for its __class__ as well.
_MAPPINGS = frozenset({dict, MappingProxyType})

_ONLY_IN = "any, all, sum, min, max, len, sorted or join"


class Shape:
    """What a source text asks for, found while its closures are made."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str]] = []  # message, hint
        self.subjects: set[str] = set()
        self.asked: dict[str, set[str]] = {name: set() for name in NOTED}
        self.slots = 1


class Compiler:
    """Makes the closures of one expression."""

    def __init__(self) -> None:
        self.shape = Shape()
        self.depth = 0
        self.bound: dict[str, int] = {}  # comprehension variable -> slot

    def run_of(self, node: ast.expr) -> Run:
        make = _MAKERS.get(type(node))
        if make is None:
            return self.fault(f"{_NAMES.get(type(node).__name__, type(node).__name__)} cannot stand in an expression")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.depth -= 1
            if not any(message.startswith("nested") for message, _ in self.shape.faults):
                self.fault(f"nested more than {MAX_DEPTH} levels deep", "split it, or make it a fact")
            return _nothing
        run = make(self, node)
        self.depth -= 1
        return run

    def fault(self, message: str, hint: str = "") -> Run:
        self.shape.faults.append((message, hint))
        return _nothing

    def constant(self, node: ast.Constant) -> Run:
        value = node.value
        if value is not None and not isinstance(value, (str, int, float)):
            return self.fault(
                f"{node.value!r} cannot stand in an expression", "texts, numbers, True, False and None can"
            )
        try:
            bounded(value)
        except OverflowError as error:
            return self.fault(str(error))
        return lambda _names, _slots: value

    def name(self, node: ast.Name) -> Run:
        name = node.id
        if name in self.bound:
            slot = self.bound[name]
            return lambda _names, slots: slots[slot]
        if name in CONSTANTS:
            value = CONSTANTS[name]
            return lambda _names, _slots: value
        if name in HELPERS:
            return self.fault(f"{name} is a function: call it", HELPERS[name].usage)
        if not _is_plain(name):
            return self.fault(f"{name!r}: names that start with _ cannot be used")
        if name in ASKED:
            self.fault(f"{name} cannot be used as a whole", f'ask by name: {name}["..."]')
        return self.subject(name)

    def subject(self, name: str) -> Run:
        self.shape.subjects.add(name)

        def run(names: Mapping[str, Any], _slots: list[Any]) -> Any:
            return known(names[name])

        return run

    def attribute(self, node: ast.Attribute) -> Run:
        name = node.attr
        if not _is_plain(name):
            return self.fault(f"{name!r}: names that start with _ cannot be used")
        base = self.base_of(node.value)

        def run(names: Mapping[str, Any], slots: list[Any]) -> Any:
            value = base(names, slots)
            if type(value) in _MAPPINGS:
                return known(value[name])
            return known(getattr(value, name))

        return run

    def base_of(self, node: ast.expr) -> Run:
        """What stands before a dot or a bracket; only there may `units` and `packages` stand."""
        if isinstance(node, ast.Name) and node.id in ASKED and node.id not in self.bound:
            return self.subject(node.id)
        return self.run_of(node)

    def subscript(self, node: ast.Subscript) -> Run:
        base = self.base_of(node.value)
        name = node.value.id if isinstance(node.value, ast.Name) and node.value.id not in self.bound else ""
        if name in NOTED:
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if isinstance(key, str):
                self.shape.asked[name].add(key)
            elif name in ASKED:
                return self.fault(f"{name}[...] takes a name in quotes", f'such as {name}["..."]')
        index = self.run_of(node.slice)

        def run(names: Mapping[str, Any], slots: list[Any]) -> Any:
            value, key = base(names, slots), index(names, slots)
            if isinstance(value, str):
                raise TypeError("a text has no items")
            return known(value[key])

        return run

    def display(self, node: ast.Tuple | ast.List) -> Run:
        runs = tuple(self.run_of(item) for item in node.elts)
        return lambda names, slots: tuple([run(names, slots) for run in runs])

    def boolean(self, node: ast.BoolOp) -> Run:
        return kleene(tuple(self.run_of(value) for value in node.values), decisive=isinstance(node.op, ast.Or))

    def unary(self, node: ast.UnaryOp) -> Run:
        run = self.run_of(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda names, slots: not run(names, slots)
        if isinstance(node.op, ast.USub):
            return lambda names, slots: -run(names, slots)
        return self.fault(f"the operator {'~' if isinstance(node.op, ast.Invert) else '+'} cannot stand before a value")

    def binary(self, node: ast.BinOp) -> Run:
        left, right = self.run_of(node.left), self.run_of(node.right)
        function = OPERATORS.get(type(node.op))
        if function is None:
            return self.fault("there is no such operator in expressions", "the operators are + - * / // %")
        return lambda names, slots: function(left(names, slots), right(names, slots))

    def compare(self, node: ast.Compare) -> Run:
        for one, op, other in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if isinstance(op, (ast.Is, ast.IsNot)) and not (_is_none(one) or _is_none(other)):
                self.fault("`is` compares with None only", "write == or !=")
        first = self.run_of(node.left)
        rest = tuple(
            (COMPARISONS[type(op)], self.run_of(value)) for op, value in zip(node.ops, node.comparators, strict=True)
        )
        if len(rest) == 1:
            function, second = rest[0]
            return lambda names, slots: function(first(names, slots), second(names, slots))

        def run(names: Mapping[str, Any], slots: list[Any]) -> Any:
            left = first(names, slots)
            for function, operand in rest:
                right = operand(names, slots)
                if not function(left, right):
                    return False
                left = right
            return True

        return run

    def conditional(self, node: ast.IfExp) -> Run:
        test, body, orelse = self.run_of(node.test), self.run_of(node.body), self.run_of(node.orelse)

        def run(names: Mapping[str, Any], slots: list[Any]) -> Any:
            try:
                chosen = body if test(names, slots) else orelse
            except UnknownFact as unknown:
                try:
                    one, other = body(names, slots), orelse(names, slots)
                    if same(one, other):
                        return one
                except (UnknownFact, *ERRORS):
                    pass
                raise unknown from None
            return chosen(names, slots)

        return run

    def call(self, node: ast.Call) -> Run:
        if not isinstance(node.func, ast.Name) or node.func.id in self.bound:
            return self.fault("only the functions of expressions can be called", ", ".join(HELPERS))
        helper = HELPERS.get(node.func.id)
        if helper is None:
            return self.fault(f"no function is called {node.func.id!r}", nearest(node.func.id, HELPERS))
        if node.keywords:
            self.fault(f"{node.func.id} takes no named arguments", helper.usage)
        if node.func.id in {"any", "all"} and len(node.args) == 1:
            return self.quantifier(node.args[0], decisive=node.func.id == "any")
        takes_many = node.func.id in {"sum", "min", "max", "len", "sorted", "join"}
        runs = tuple(
            self.comprehension(argument)
            if isinstance(argument, ast.GeneratorExp) and takes_many
            else self.run_of(argument)
            for argument in node.args
        )
        function = helper.function
        if len(runs) == 1:
            only = runs[0]
            return lambda names, slots: bounded(function(only(names, slots)))
        return lambda names, slots: bounded(function(*[run(names, slots) for run in runs]))

    def generator(self, _node: ast.GeneratorExp) -> Run:
        return self.fault(f"`... for ... in ...` stands in brackets, or inside {_ONLY_IN}", "write [x for x in items]")

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Run:
        clauses, element = self.clauses(node)

        def collect(names: Mapping[str, Any], slots: list[Any], level: int, found: list[Any]) -> None:
            slot, source, test = clauses[level]
            for item in items_of(source(names, slots), slots):
                slots[slot] = item
                if test is not None and not test(names, slots):
                    continue
                if level + 1 < len(clauses):
                    collect(names, slots, level + 1, found)
                else:
                    found.append(element(names, slots))

        def run(names: Mapping[str, Any], slots: list[Any]) -> tuple[Any, ...]:
            found: list[Any] = []
            collect(names, slots, 0, found)
            return tuple(found)

        return run

    def clauses(self, node: ast.ListComp | ast.GeneratorExp) -> tuple[tuple[tuple[int, Run, Run | None], ...], Run]:
        """The (slot, items, filter) of each `for`, and the element; variables end with the comprehension."""
        outer = dict(self.bound)
        clauses: list[tuple[int, Run, Run | None]] = []
        for clause in node.generators:
            source = self.run_of(clause.iter)
            slot = self.variable(clause)
            tests = tuple(self.run_of(test) for test in clause.ifs)
            clauses.append((slot, source, kleene(tests, decisive=False) if tests else None))
        element = self.run_of(node.elt)
        self.bound = outer
        return tuple(clauses), element

    def variable(self, clause: ast.comprehension) -> int:
        target = clause.target
        slot = self.shape.slots
        self.shape.slots += 1
        if clause.is_async:
            self.fault("`async` cannot stand in an expression")
        if not isinstance(target, ast.Name) or not _is_plain(target.id):
            self.fault("`for` takes one plain name", "write x for x in items")
        elif target.id in HELPERS or target.id in CONSTANTS or target.id in ASKED:
            self.fault(f"`for {target.id}` hides {target.id}", "choose another name")
        else:
            self.bound[target.id] = slot
        return slot

    def quantifier(self, node: ast.expr, *, decisive: bool) -> Run:
        """For any (decisive True) and all (decisive False): unknown items matter only where no known one decides."""
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            clauses, element = self.clauses(node)
            return quantify(
                lambda names, slots: outcomes_of(clauses, element, names, slots, 0, None), decisive=decisive
            )
        if isinstance(node, (ast.Tuple, ast.List)):
            runs = tuple(self.run_of(item) for item in node.elts)
            return quantify(lambda names, slots: each(runs, names, slots), decisive=decisive)
        run = self.run_of(node)
        function = any if decisive else all
        return lambda names, slots: function(items_of(run(names, slots), slots))


def _nothing(_names: Mapping[str, Any], _slots: list[Any]) -> Any:
    """Stands where a fault was found; never evaluated, because faults raise before."""
    raise AssertionError


def _is_plain(name: str) -> bool:
    return not name.startswith("_")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def nearest(name: str, names: Mapping[str, Any] | tuple[str, ...]) -> str:
    """The hint for a wrong name: the nearest valid one, then the valid ones."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(names), n=1, cutoff=0.6)
    valid = ", ".join(sorted(names)[:40])
    return (f"did you mean {close[0]}? " if close else "") + f"valid: {valid}"


_MAKERS: Mapping[type[ast.AST], Callable[[Compiler, Any], Run]] = {
    ast.Constant: Compiler.constant,
    ast.Name: Compiler.name,
    ast.Attribute: Compiler.attribute,
    ast.Subscript: Compiler.subscript,
    ast.Tuple: Compiler.display,
    ast.List: Compiler.display,
    ast.BoolOp: Compiler.boolean,
    ast.UnaryOp: Compiler.unary,
    ast.BinOp: Compiler.binary,
    ast.Compare: Compiler.compare,
    ast.IfExp: Compiler.conditional,
    ast.Call: Compiler.call,
    ast.ListComp: Compiler.comprehension,
    ast.GeneratorExp: Compiler.generator,
}

_NAMES = {
    "Lambda": "lambda",
    "NamedExpr": ":=",
    "JoinedStr": "an f-string",
    "TemplateStr": "a t-string",
    "Dict": "a mapping",
    "Set": "a set",
    "SetComp": "a set",
    "DictComp": "a mapping",
    "Slice": "a slice",
    "Starred": "*",
    "Await": "await",
    "Yield": "yield",
    "YieldFrom": "yield",
}
