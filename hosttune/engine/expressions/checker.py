"""Checks the types of an expression against the facts, and finds every fault at once.

It supposes that expression_judge has judged which parts may stand in an expression. After a fault
it goes on with Any, so one mistake makes one message.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from hosttune.engine.expressions.helpers import CONSTANTS, HELPERS, Form, list_of
from hosttune.engine.expressions.hints import (
    base_of_literal,
    bound,
    describe,
    fields_of,
    fits,
    goes_with,
    is_number,
    is_numbers,
    is_optional,
    item_of,
    join_types,
    name_type,
    record,
    simplify_hint,
    text_fault,
    value_of,
    without_none,
)
from hosttune.engine.expressions.judge import suggest_nearest

__all__ = ["Checker", "describe", "item_of", "name_type", "record", "text_fault"]

_NUMBERS = {int, float}


class Checker:
    """Infers the type of one expression; `faults` are (message, hint)."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope
        self.faults: list[tuple[str, str]] = []
        self.local: dict[str, Any] = {}  # comprehension variables
        # what a test around this place has shown not to be None
        self.present: frozenset[str] = frozenset()

    def type_of(self, node: ast.expr) -> Any:
        # What the judge refuses has no check here, so that one fault makes one message.
        make = _CHECKS.get(type(node))
        inferred = make(self, node) if make is not None else Any
        if is_optional(inferred) and _spell_path(node) in self.present:
            return without_none(inferred)
        return inferred

    def fault(self, message: str, hint: str = "") -> Any:
        self.faults.append((message, hint))
        return Any

    def name(self, node: ast.Name) -> Any:
        if node.id in self.local:
            return self.local[node.id]
        if node.id in CONSTANTS:
            return int
        if node.id in HELPERS or node.id.startswith("_"):
            return Any
        if node.id in self.scope:
            return simplify_hint(self.scope[node.id], node.id)
        names = (*self.scope, *self.local, *CONSTANTS)
        return self.fault(f"unknown name {node.id!r}", suggest_nearest(node.id, names))

    def attribute(self, node: ast.Attribute) -> Any:
        owner = self.type_of(node.value)
        if owner is Any or node.attr.startswith("_"):
            return Any
        text = ast.unparse(node.value)
        if is_optional(owner):
            return self.fault(
                f"`{text}` may be None",
                f"test first: {text} is not None and {text}.{node.attr} ...",
            )
        fields = fields_of(owner)
        if node.attr in fields:
            return fields[node.attr]
        if not fields:
            return self.fault(
                f"`{text}` is {name_type(owner)} and has no field {node.attr!r}",
                _use_of(owner, text),
            )
        return self.fault(
            f"{name_type(owner)} has no field {node.attr!r}", suggest_nearest(node.attr, fields)
        )

    def subscript(self, node: ast.Subscript) -> Any:
        owner, index = self.type_of(node.value), self.type_of(node.slice)
        text = ast.unparse(node.value)
        if is_optional(owner):
            return self.fault(f"`{text}` may be None", f"test first: {text} is not None and ...")
        if owner is Any:
            return Any
        item, value = item_of(owner), value_of(owner)
        # of a fact whose items are asked for by name
        name_fault = getattr(owner, "name_fault", None)
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if name_fault is not None and isinstance(name, str) and (wrong := name_fault(name)):
            return self.fault(*wrong)
        if item is None and value is None:
            return self.fault(f"`{text}` is {name_type(owner)} and has no items")
        wanted = int if item is not None else str
        if not fits(index, wanted, {}) and not (
            item is None and get_args(owner) and goes_with(index, get_args(owner)[0])
        ):
            return self.fault(f"`{text}[...]` takes {name_type(wanted)}, not {name_type(index)}")
        return value if item is None else item

    def display(self, node: ast.Tuple | ast.List) -> Any:
        return list_of(join_types([self.type_of(item) for item in node.elts]))

    def boolean(self, node: ast.BoolOp) -> Any:
        outer = self.present
        for value in node.values:
            self.test(value)
            self.present |= _find_shown_paths(value, truth=isinstance(node.op, ast.And))
        self.present = outer
        return bool

    def test(self, node: ast.expr) -> None:
        """A place where only true or false makes sense."""
        hint = self.type_of(node)
        if hint is Any or fits(hint, bool, {}):
            return
        text = ast.unparse(node)
        if is_optional(hint):
            advice = f"it may be None: write {text} == True, or test {text} is not None first"
        elif item_of(hint) is not None or value_of(hint) is not None:
            advice = f"write len({text}) > 0"
        else:
            advice = (
                f"compare it: {text} {'!= ' + repr('') if base_of_literal(hint) is str else '> 0'}"
            )
        self.fault(f"`{text}` is {name_type(hint)}, but a test is true or false", advice)

    def unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            self.test(node.operand)
            return bool
        hint = self.type_of(node.operand)
        if hint is not Any and not is_number(hint):
            return self.fault(f"`-{ast.unparse(node.operand)}`: {name_type(hint)} is not a number")
        return base_of_literal(hint)

    def binary(self, node: ast.BinOp) -> Any:
        left, right = (
            base_of_literal(self.type_of(node.left)),
            base_of_literal(self.type_of(node.right)),
        )
        if left is Any or right is Any:
            return Any
        if is_number(left) and is_number(right):
            whole = left is int and right is int and not isinstance(node.op, ast.Div)
            return int if whole else float
        if isinstance(node.op, ast.Add) and left is str and right is str:
            return str
        if (
            isinstance(node.op, ast.Add)
            and get_origin(left) is tuple
            and get_origin(right) is tuple
        ):
            return list_of(join_types((item_of(left), item_of(right))))
        sides = f"{name_type(left)} and {name_type(right)}"
        hint = "str(number) makes text of a number" if {left, right} <= {int, float, str} else ""
        if is_optional(left) or is_optional(right):
            hint = "test for None first: x is not None and ..."
        return self.fault(f"`{ast.unparse(node)}`: the operator does not take {sides}", hint)

    def compare(self, node: ast.Compare) -> Any:
        kinds = [(item, self.type_of(item)) for item in (node.left, *node.comparators)]
        for (one, left), op, (other, right) in zip(kinds, node.ops, kinds[1:], strict=False):
            if left is Any or right is Any:
                continue
            if isinstance(op, (ast.In, ast.NotIn)):
                self.membership(one, left, other, right)
            elif isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                self.order(one, left, other, right)
            else:
                self.equality(one, left, other, right)
        return bool

    def equality(self, one: ast.expr, left: Any, other: ast.expr, right: Any) -> None:
        if goes_with(left, right):
            return
        text, hint = (one, left) if right is NoneType else (other, right)
        if NoneType in (left, right):
            if _spell_path(text) not in self.present:  # asked once more is superfluous, not wrong
                self.fault(f"`{ast.unparse(text)}` is {name_type(hint)}, never None")
        elif Literal in (get_origin(left), get_origin(right)) and base_of_literal(
            left
        ) == base_of_literal(right):
            self.fault(
                f"`{ast.unparse(one)}` is {name_type(left)}, never {name_type(right)}",
                _list_choices(left, right),
            )
        else:
            self.mismatch(one, left, other, right)

    def order(self, one: ast.expr, left: Any, other: ast.expr, right: Any) -> None:
        for text, hint in ((one, left), (other, right)):
            if is_optional(hint):
                self.fault(
                    f"`{ast.unparse(text)}` may be None, which has no order",
                    f"test first, in the same expression: {ast.unparse(text)} is not None and ...",
                )
                return
        if (is_number(left) and is_number(right)) or (is_numbers(left) and is_numbers(right)):
            return
        if base_of_literal(left) is str and base_of_literal(right) is str:
            sides = f"`{ast.unparse(one)}` and `{ast.unparse(other)}`"
            self.fault(
                f"{sides} are texts, which have no order here",
                "compare version(text), a list of numbers, or int(text)",
            )
            return
        self.mismatch(one, left, other, right)

    def membership(self, one: ast.expr, left: Any, other: ast.expr, right: Any) -> None:
        if base_of_literal(right) is str:
            fit = base_of_literal(left) is str
        elif item_of(right) is not None:
            fit = goes_with(left, item_of(right))
        elif get_args(right) and value_of(right) is not None:
            fit = goes_with(left, get_args(right)[0])
        else:
            hint = "test for None first" if is_optional(right) else ""
            self.fault(
                f"`in` looks into a list, a mapping or a text; `{ast.unparse(other)}` is "
                f"{name_type(right)}",
                hint,
            )
            return
        if not fit:
            self.fault(
                f"`{ast.unparse(one)}` is {name_type(left)}, never in `{ast.unparse(other)}`, a "
                f"{name_type(right)}",
                _list_choices(left, right),
            )

    def mismatch(self, one: ast.expr, left: Any, other: ast.expr, right: Any) -> None:
        hint = (
            "int(text) makes a number of text"
            if {base_of_literal(left), base_of_literal(right)} in ({int, str}, {float, str})
            else ""
        )
        sides = (
            f"`{ast.unparse(one)}` is {name_type(left)}, `{ast.unparse(other)}` is "
            f"{name_type(right)}"
        )
        self.fault(f"these cannot be compared: {sides}", hint)

    def conditional(self, node: ast.IfExp) -> Any:
        self.test(node.test)
        outer = self.present
        self.present = outer | _find_shown_paths(node.test, truth=True)
        body = self.type_of(node.body)
        self.present = outer | _find_shown_paths(node.test, truth=False)
        orelse = self.type_of(node.orelse)
        self.present = outer
        # A union of int and float fits no helper that takes one type of number.
        if {base_of_literal(body), base_of_literal(orelse)} == _NUMBERS:
            return float
        return (
            body if body == orelse else join_types((base_of_literal(body), base_of_literal(orelse)))
        )

    def call(self, node: ast.Call) -> Any:
        helper = HELPERS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        kinds = [
            self.comprehension(item) if isinstance(item, ast.GeneratorExp) else self.type_of(item)
            for item in node.args
        ]
        if helper is None:
            return Any
        for form in helper.forms:
            bindings: dict[Any, Any] = {}
            wanted = _spread_arguments(form, len(kinds))
            if wanted is not None and all(
                fits(kind, want, bindings) for kind, want in zip(kinds, wanted, strict=True)
            ):
                return bound(form.result, bindings)
        given = ", ".join(name_type(kind) for kind in kinds) or "nothing"
        return self.fault(
            f"`{ast.unparse(node)}`: {ast.unparse(node.func)} does not take {given}",
            f"{helper.usage}: {helper.doc}",
        )

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        outer, present = dict(self.local), self.present
        for clause in node.generators:
            items = self.type_of(clause.iter)
            item = item_of(items)
            if item is None:
                hint = (
                    "test for None first"
                    if is_optional(items)
                    else _use_of(items, ast.unparse(clause.iter))
                )
                item = self.fault(
                    f"`for` goes through a list; `{ast.unparse(clause.iter)}` is "
                    f"{name_type(items)}",
                    hint,
                )
            if isinstance(clause.target, ast.Name):
                name = clause.target.id
                # Evaluation looks at variables first. A subject that is hidden would be read as the
                # item, without an error.
                if name in self.scope or name in outer:
                    self.fault(f"`for {name}` hides {name}", "choose another name")
                self.local[name] = item
            for test in clause.ifs:
                self.test(test)
                self.present |= _find_shown_paths(test, truth=True)
        element = self.type_of(node.elt)
        self.local, self.present = outer, present
        return list_of(element)


def _spread_arguments(form: Form, count: int) -> tuple[Any, ...] | None:
    """The argument types of a form for so many arguments."""
    if form.more and count >= len(form.arguments):
        return (*form.arguments, *[form.arguments[-1]] * (count - len(form.arguments)))
    return form.arguments if count == len(form.arguments) else None


def _list_choices(left: Any, right: Any) -> str:
    for hint in (left, right):
        if get_origin(hint) is Literal and len(get_args(hint)) > 1:
            return f"valid: {', '.join(str(value) for value in get_args(hint))}"
    return ""


def _use_of(hint: Any, text: str) -> str:
    if item_of(hint) is not None:
        return f"it is a list: any(x ... for x in {text})"
    if value_of(hint) is not None:
        return f'ask by name: {text}["..."]'
    return ""


def _spell_path(node: ast.expr) -> str:
    """The spelling of a value that stays the same wherever it is written; empty for what is worked
    out.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _spell_path(node.value)
        return owner and f"{owner}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = _spell_path(node.value)
        return owner and f"{owner}[{node.slice.value!r}]"
    return ""


def _find_shown_paths(node: ast.expr, *, truth: bool) -> frozenset[str]:
    """The paths that are not None when this test has come out true (or false)."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _find_shown_paths(node.operand, truth=not truth)
    # Each part of an `and` holds when the whole is true, and each part of an `or` fails when it is
    # false. The other two cases show nothing of a single part.
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) is truth:
        return frozenset().union(*(_find_shown_paths(value, truth=truth) for value in node.values))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        op, other = node.ops[0], node.comparators[0]
        is_none = isinstance(other, ast.Constant) and other.value is None
        differs = (
            isinstance(op, (ast.IsNot, ast.NotEq)) if truth else isinstance(op, (ast.Is, ast.Eq))
        )
        if is_none and differs and _spell_path(node.left):
            return frozenset({_spell_path(node.left)})
    return frozenset()


def _type_of_constant(_checker: Checker, node: ast.Constant) -> Any:
    value = node.value
    if isinstance(value, str):
        return Literal[value]
    return type(value) if value is None or isinstance(value, (int, float)) else Any


_CHECKS: Mapping[type[ast.AST], Callable[[Checker, Any], Any]] = {
    ast.Constant: _type_of_constant,
    ast.Name: Checker.name,
    ast.Attribute: Checker.attribute,
    ast.Subscript: Checker.subscript,
    ast.Tuple: Checker.display,
    ast.List: Checker.display,
    ast.BoolOp: Checker.boolean,
    ast.UnaryOp: Checker.unary,
    ast.BinOp: Checker.binary,
    ast.Compare: Checker.compare,
    ast.IfExp: Checker.conditional,
    ast.Call: Checker.call,
    ast.ListComp: Checker.comprehension,
}
