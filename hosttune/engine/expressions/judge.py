"""Judges which parts of Python may stand in an expression, and what an expression asks for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hosttune.engine.expressions.evaluation import OPERATORS, check_bounds
from hosttune.engine.expressions.helpers import CONSTANTS, HELPERS

# Each level takes several calls of Python in the evaluation. With 60 they stay far below its limit
# of 1,000.
MAX_DEPTH = 60

# Read by name, one by one: which names are asked must be known before.
ASKED = frozenset({"units", "packages"})
# names in quotes are kept: those of sysctls, so that lint can look them up
NOTED = ASKED | {"sysctl"}

_TAKE_MANY = ("any", "all", "sum", "min", "max", "len", "sorted", "join")


class Judge:
    """What is wrong with one expression (message, hint), the top-level names it uses, and what it
    asks for by name.
    """

    def __init__(self) -> None:
        self.faults: list[tuple[str, str]] = []
        self.subjects: set[str] = set()
        self.asked: dict[str, set[str]] = {name: set() for name in NOTED}
        self.bound: frozenset[str] = frozenset()  # the variables of the comprehensions around
        self.depth = 0
        self.is_deep = False  # too deep to go on with

    def judge(self, *nodes: ast.expr) -> None:
        self.depth += 1
        for node in nodes:
            if self.depth > MAX_DEPTH:
                if not self.is_deep:
                    self.is_deep = True
                    self.fault(
                        f"nested more than {MAX_DEPTH} levels deep", "split it, or make it a fact"
                    )
            elif one := _JUDGES.get(type(node)):
                one(self, node)
            else:
                name = type(node).__name__
                self.fault(f"{_NAMES.get(name, name)} cannot stand in an expression")
        self.depth -= 1

    def fault(self, message: str, hint: str = "") -> None:
        self.faults.append((message, hint))

    def constant(self, node: ast.Constant) -> None:
        if node.value is not None and not isinstance(node.value, (str, int, float)):
            self.fault(
                f"{node.value!r} cannot stand in an expression",
                "texts, numbers, True, False and None can",
            )
            return
        try:
            check_bounds(node.value)
        except OverflowError as error:
            self.fault(str(error))

    def name(self, node: ast.Name) -> None:
        name = node.id
        if name in self.bound or name in CONSTANTS:
            return
        if name in HELPERS:
            self.fault(f"{name} is a function: call it", HELPERS[name].usage)
        elif self.is_plain(name):
            self.subjects.add(name)
            if name in ASKED:
                self.fault(f"{name} cannot be used as a whole", f'ask by name: {name}["..."]')

    def is_plain(self, name: str) -> bool:
        # From __class__ every object of Python can be reached, and rules come from records and
        # images.
        if name.startswith("_"):
            self.fault(f"{name!r}: names that start with _ cannot be used")
        return not name.startswith("_")

    def attribute(self, node: ast.Attribute) -> None:
        if self.is_plain(node.attr):
            self.base(node.value)

    def base(self, node: ast.expr) -> str:
        """What is before a dot or a bracket; only there may `units` and `packages` stand. Returns
        its name.
        """
        name = node.id if isinstance(node, ast.Name) and node.id not in self.bound else ""
        if name in ASKED:
            self.subjects.add(name)
        else:
            self.judge(node)
        return name

    def subscript(self, node: ast.Subscript) -> None:
        name = self.base(node.value)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if name in NOTED and isinstance(key, str):
            self.asked[name].add(key)
        elif name in ASKED:
            self.fault(f"{name}[...] takes a name in quotes", f'such as {name}["..."]')
            return
        self.judge(node.slice)

    def unary(self, node: ast.UnaryOp) -> None:
        self.judge(node.operand)
        if not isinstance(node.op, (ast.Not, ast.USub)):
            sign = "~" if isinstance(node.op, ast.Invert) else "+"
            self.fault(f"the operator {sign} cannot stand before a value")

    def binary(self, node: ast.BinOp) -> None:
        self.judge(node.left, node.right)
        if type(node.op) not in OPERATORS:
            self.fault("there is no such operator in expressions", "the operators are + - * / // %")

    def compare(self, node: ast.Compare) -> None:
        for one, op, other in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            if isinstance(op, (ast.Is, ast.IsNot)) and not (_is_none(one) or _is_none(other)):
                self.fault("`is` compares with None only", "write == or !=")
        self.judge(node.left, *node.comparators)

    def call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name) or node.func.id in self.bound:
            self.fault("only the functions of expressions can be called", ", ".join(HELPERS))
            return
        name = node.func.id
        if name not in HELPERS:
            self.fault(f"no function is called {name!r}", suggest_nearest(name, HELPERS))
            return
        if node.keywords:
            self.fault(f"{name} takes no named arguments", HELPERS[name].usage)
        for argument in node.args:
            if isinstance(argument, ast.GeneratorExp) and name in _TAKE_MANY:
                self.comprehension(argument)
            else:
                self.judge(argument)

    def generator(self, _node: ast.GeneratorExp) -> None:
        places = f"{', '.join(_TAKE_MANY[:-1])} or {_TAKE_MANY[-1]}"
        self.fault(
            f"`... for ... in ...` belongs in brackets, or inside {places}",
            "write [x for x in items]",
        )

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> None:
        outer = self.bound
        for clause in node.generators:
            self.judge(clause.iter)
            self.variable(clause)
            self.judge(*clause.ifs)
        self.judge(node.elt)
        self.bound = outer

    def variable(self, clause: ast.comprehension) -> None:
        target = clause.target
        if clause.is_async:
            self.fault("`async` cannot stand in an expression")
        if not isinstance(target, ast.Name) or target.id.startswith("_"):
            self.fault("`for` takes one plain name", "write x for x in items")
        elif target.id in HELPERS or target.id in CONSTANTS or target.id in ASKED:
            self.fault(f"`for {target.id}` hides {target.id}", "choose another name")
        else:
            # Only from here on: the list of a clause does not see its own variable.
            self.bound |= {target.id}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def suggest_nearest(name: str, names: Iterable[str]) -> str:
    """The hint for a wrong name: the nearest valid one, then the valid ones."""
    from difflib import get_close_matches

    valid = sorted(names)
    close = get_close_matches(name, list(names), n=1, cutoff=0.6)
    return (f"did you mean {close[0]}? " if close else "") + f"valid: {', '.join(valid[:40])}"


_JUDGES: Mapping[type[ast.expr], Callable[[Judge, Any], None]] = {
    ast.Constant: Judge.constant,
    ast.Name: Judge.name,
    ast.Attribute: Judge.attribute,
    ast.Subscript: Judge.subscript,
    ast.Tuple: lambda self, node: self.judge(*node.elts),
    ast.List: lambda self, node: self.judge(*node.elts),
    ast.BoolOp: lambda self, node: self.judge(*node.values),
    ast.UnaryOp: Judge.unary,
    ast.BinOp: Judge.binary,
    ast.Compare: Judge.compare,
    ast.IfExp: lambda self, node: self.judge(node.test, node.body, node.orelse),
    ast.Call: Judge.call,
    ast.ListComp: Judge.comprehension,
    ast.GeneratorExp: Judge.generator,
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
