"""The expressions of rules: a subset of Python's expression grammar, typed against the facts,
evaluated with unknowns.

    expression = parse_expression("memory.total_bytes >= 64 * gib", where, {"memory": Memory})
    expression.type                     bool
    expression.subjects                 frozenset({"memory"})
    expression.evaluate({"memory": facts.memory})

There are: `and or not`, comparisons (also chained, `in`, `is None`), `+ - * / // %`, `a if test
else b`, attributes, `mapping["key"]`, `list[0]`, literals, `[x.a for x in items if test]`, and
calls of the functions in HELPERS, which take a comprehension without brackets too. There is one
kind of list, which compares by its items. A test is a bool: a number, a text or a list is compared,
never taken as true when it is not empty.

Touching a fact that could not be read raises UnknownFact. An expression is unknown then, unless its
answer is the same whatever the fact may be: `false and unknown` is false, in either order, and so
with `or`, `any` and `all`. A list of which a part could not be read (`KnownPart`, also what a
comprehension makes) answers as far as that part decides: for `any`, `all`, `in`, and where its
length is compared.

A text of a rule holds expressions in double braces (`parse_text`): `"{{ params.value }}"` keeps the
value and its type, `"size={{ params.gib }}G"` makes one text.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from hosttune.engine.expressions.evaluation import (
    ERRORS,
    MAX_LENGTH,
    Budget,
    OverBudget,
    value_of,
    whole_of,
)
from hosttune.engine.expressions.helpers import CONSTANTS, HELPERS, text_of
from hosttune.engine.expressions.judge import Judge
from hosttune.errors import BadInput, Fault, HosttuneError, Where
from hosttune.frozen import frozen
from hosttune.values import StepLines

__all__ = [
    "CONSTANTS",
    "HELPERS",
    "Expression",
    "Text",
    "compile_expression",
    "compile_text",
    "parse_expression",
    "parse_text",
]

# A source that is long or deep enough ends the interpreter (documentation of ast.parse), so the
# length is checked before it is parsed.
MAX_SOURCE = 4000


class Expression:
    """An expression of a rule, ready to evaluate.

    `type` is a typing object (`bool`, `tuple[str, ...]`), Any where types were not checked.
    `subjects` are the top-level names it uses (facts, params, item ...); `units` what it asks for
    by `units["x"]`, `sysctls` likewise. One that was checked before is parsed when it is needed: of
    all rules, a run evaluates a part.
    """

    __slots__ = ("_judge", "_node", "source", "type", "where")

    def __init__(
        self, source: str, where: Where, type_: Any = Any, node: ast.expr | None = None
    ) -> None:
        self.source = source.strip()
        self.where = where
        self.type = type_
        self._node = node
        self._judge: Judge | None = None

    @property
    def node(self) -> ast.expr:
        """Raises BadInput if it is no expression."""
        if self._node is None:
            self._node = _parse_expression(self.source, self.where, strict=False)
        return self._node

    def judge(self) -> Judge:
        """Raises BadInput with what may not stand in an expression."""
        if self._judge is None:
            self._judge = judge = Judge()
            judge.judge(self.node)
            _refuse(self.where, judge.faults)
        return self._judge

    @property
    def subjects(self) -> frozenset[str]:
        return frozenset(self.judge().subjects)

    @property
    def units(self) -> frozenset[str]:
        return frozenset(self.judge().asked["units"])

    @property
    def sysctls(self) -> frozenset[str]:
        return frozenset(self.judge().asked["sysctl"])

    def evaluate(self, names: Mapping[str, object]) -> Any:
        """The value. Raises UnknownFact, or HosttuneError when it cannot be worked out (1 / 0, a
        missing key, too much work).
        """
        return whole_of(self.evaluate_known(names))

    def evaluate_known(self, names: Mapping[str, object]) -> Any:
        """As `evaluate`; the KnownPart of a list of which a part could not be read."""
        try:
            return value_of(self._node or self.node, names, budget_of(names))
        except (*ERRORS, OverBudget) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise HosttuneError(
                f"{self.where}: cannot work out `{_shorten_text(self.source)}`: {reason}"
            ) from error


@frozen
class Text:
    """A text of a rule with its expressions; the attributes mean what they mean in Expression."""

    source: str
    where: Where
    parts: tuple[str | Expression, ...]

    @property
    def type(self) -> Any:
        return (
            self.parts[0].type
            if len(self.parts) == 1 and isinstance(self.parts[0], Expression)
            else str
        )

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(part for part in self.parts if isinstance(part, Expression))

    @property
    def subjects(self) -> frozenset[str]:
        return frozenset().union(*(part.subjects for part in self.expressions))

    @property
    def units(self) -> frozenset[str]:
        return frozenset().union(*(part.units for part in self.expressions))

    def evaluate(self, names: Mapping[str, object], *, has_steps: bool = False) -> Any:
        """The text, or the value where the whole text is one expression. Raises as
        Expression.evaluate does.

        `has_steps`: each line of the text is a step, so a line break within an inserted value, such
        as the name of a file, begins none.
        """
        budget = budget_of(names)
        try:
            if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
                value = self.parts[0].evaluate(names)
            else:
                pieces = self._pieces(names, budget, "\n" if has_steps else "")
                value = "".join(pieces)
            budget.read(value)
        except OverBudget as error:
            raise HosttuneError(f"{self.where}: cannot work out the text: {error}") from None
        return value

    def _pieces(self, names: Mapping[str, object], budget: Budget, escaped: str) -> Iterator[str]:
        length = 0
        for part in self.parts:
            piece = part if isinstance(part, str) else _insert_part(part, names, budget)
            if escaped and not isinstance(part, str) and not isinstance(piece, StepLines):
                piece = piece.replace(escaped, r"\n")
            length += len(piece)
            if length > MAX_LENGTH:
                raise HosttuneError(
                    f"{self.where}: cannot work out the text: the result is too long"
                )
            yield piece


def budget_of(names: Mapping[str, object]) -> Budget:
    """The budget that comes with the names of a rule; a fresh one where none does."""
    return getattr(names, "budget", None) or Budget()


def parse_expression(text: str, where: Where, scope: Mapping[str, Any]) -> Expression:
    """Read and type-check an expression.

    `scope` gives the type of each name: a fact class, `int`, `list[str]`, a mapping of field types
    for a plain record such as `params`. Raises BadInput with every fault: what may not stand in an
    expression, unknown names and fields with the nearest valid one, types that do not fit.
    """
    from hosttune.engine.expressions.checker import Checker

    judge, checker = Judge(), Checker(scope)
    node = _parse_expression(text, where, strict=True)
    judge.judge(node)
    inferred = Any if judge.is_deep else checker.type_of(node)
    _refuse(where, [*judge.faults, *checker.faults])
    return Expression(text, where, inferred, node)


def compile_expression(text: str, where: Where) -> Expression:
    """An expression that was checked before (the catalogue): it is read when it is needed."""
    return Expression(text, where)


def parse_text(text: str, where: Where, scope: Mapping[str, Any]) -> Text:
    """Read a text with `{{ expression }}` parts and type-check them. Raises BadInput with every
    fault.
    """
    from hosttune.engine.expressions.checker import text_fault

    parts, faults = _split_parts(text, where, scope)
    # A text of one expression keeps the value with its type, so a list or None is right there.
    if len(parts) > 1:
        for part in parts:
            fault = text_fault(part.type) if isinstance(part, Expression) else ""
            if fault and isinstance(part, Expression):
                may_be_none = f"write: {part.source} if {part.source} is not None else ..."
                hint = may_be_none if "may be None" in fault else "choose a field of it"
                faults.append(Fault(where, f"`{part.source}` {fault}", hint))
    if faults:
        raise BadInput(faults)
    return Text(text, where, parts)


def compile_text(text: str, where: Where) -> Text:
    """Read a text whose expressions were type-checked before."""
    parts, faults = _split_parts(text, where, None)
    if faults:
        raise BadInput(faults)
    return Text(text, where, parts)


def _split_parts(
    text: str, where: Where, scope: Mapping[str, Any] | None
) -> tuple[tuple[str | Expression, ...], list[Fault]]:
    if "{{" not in text and "}}" not in text:
        return (text,), []
    parts: list[str | Expression] = []
    faults: list[Fault] = []
    for number, piece in enumerate(_split_at_braces(text)):
        if number % 2 == 0:
            if "{{" in piece or "}}" in piece:
                faults.append(
                    Fault(
                        where,
                        "braces that do not pair up",
                        "an expression is written {{ like this }}",
                    )
                )
            if piece:
                parts.append(piece)
            continue
        try:
            parts.append(
                compile_expression(piece, where)
                if scope is None
                else parse_expression(piece, where, scope)
            )
        except BadInput as error:
            faults += error.faults
    return tuple(parts), faults


def _split_at_braces(text: str) -> Iterator[str]:
    """Pieces of a text; every other one is the inside of a pair of braces."""
    place = 0
    while (begin := text.find("{{", place)) >= 0 and (end := text.find("}}", begin + 2)) >= 0:
        yield text[place:begin]
        yield text[begin + 2 : end]
        place = end + 2
    yield text[place:]


def _insert_part(part: Expression, names: Mapping[str, object], budget: Budget) -> str:
    value = part.evaluate(names)
    budget.read(value)
    try:
        return text_of(value)
    except TypeError as error:
        raise HosttuneError(
            f"{part.where}: cannot write `{part.source}` into a text: {error}"
        ) from error


def _parse_expression(text: str, where: Where, *, strict: bool) -> ast.expr:
    try:
        return _node_of(text, strict=strict)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "too deeply nested"
        raise BadInput(
            [Fault(where, f"not an expression: {reason} in `{_shorten_text(text)}`")]
        ) from None


def _node_of(text: str, *, strict: bool) -> ast.expr:
    if len(text) > MAX_SOURCE:
        raise ValueError(f"longer than {MAX_SOURCE} characters")
    line = text.strip().replace("\n", " ")
    if not line:
        raise ValueError("it is empty")
    if "#" in line:
        _refuse_comments(line)
    if not strict:
        return ast.parse(line, mode="eval").body
    with warnings.catch_warnings():
        # "\d" and the like are faults of the rule, not lines on a terminal
        warnings.simplefilter("error")
        return ast.parse(line, mode="eval").body


def _refuse_comments(line: str) -> None:
    """Lines are joined, so a comment would swallow what follows it."""
    import io
    import tokenize

    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error.args[0])) from error
    if any(token.type == tokenize.COMMENT for token in tokens):
        raise ValueError("a comment")


def _refuse(where: Where, faults: list[tuple[str, str]]) -> None:
    if faults:
        raise BadInput([Fault(where, message, hint) for message, hint in dict.fromkeys(faults)])


def _shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."
