"""Rule + facts + parameters -> findings that need no comparison, and wishes that do. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.evaluation import Budget, OverBudget
from hosttune.engine.expressions.expression import Text
from hosttune.engine.expressions.helpers import text_of
from hosttune.engine.rules.declared import NOTHING, Declared
from hosttune.errors import HosttuneError
from hosttune.facts import MODULES
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.frozen import frozen
from hosttune.resources import wish_kinds
from hosttune.resources.base import NUMERIC, Bound, Operator, Wish
from hosttune.values import Activation, Finding, Hold, HoldKind, Verdict

_TYPES: Mapping[type, tuple[type, ...]] = {
    str: (str, int, float),
    int: (int,),
    bool: (bool,),
    list: (tuple, list),
    dict: (dict, MappingProxyType),
}
_CALLED = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}
# Guards that ask only where hosttune runs (a container, an image, WSL) explain no fault away, as
# others do ("the driver is set to leave NVLinks off"): with such a guard in doubt what was read
# still proves a fault. Of a rule that tells no faults a condition that does not hold decides,
# whatever is not known of those about other subjects.
_PLACE = frozenset({"host"})
_MOST_COMPARED = 100  # wishes for one thing; of more that contradict each other all are held
# What a finding and a wish cost: a wish is compared with the others of its kind. 2,048 of a rule,
# 8,192 of a host.
PER_FINDING, PER_WISH = 500, 1 << 13

if TYPE_CHECKING:
    from hosttune.engine.expressions.expression import Expression
    from hosttune.engine.rules.rule import Literal, Rule, WishSpec, Written
    from hosttune.facts import Facts
    from hosttune.resources.base import WishKind


@frozen
class Evaluation:
    """What a rule says before anything is compared: findings that stand already, and wishes."""

    rule: Rule
    findings: tuple[Finding, ...] = ()
    wishes: tuple[Wish, ...] = ()


@frozen
class ExpressionNames(Mapping[str, Any]):
    """The names an expression sees: fact subjects and the choice (made when touched), params,
    policy, item. `budget` is what may still be spent on looking at them.
    """

    facts: Facts
    own: dict[str, Any] = field(default_factory=dict)
    choose: Callable[[], Any] | None = None
    budget: Budget = field(default_factory=Budget)
    # of words for people: gets why they name a part of a list only
    lacking: list[str] | None = None

    def __getitem__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        if name == "choice" and self.choose:
            return self.own.setdefault(name, self.choose())
        if name in MODULES:
            return getattr(self.facts, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*self.own, *MODULES))

    def __len__(self) -> int:
        return len(self.own) + len(MODULES)

    def with_(self, **own: Any) -> ExpressionNames:
        return ExpressionNames(self.facts, {**self.own, **own}, self.choose, self.budget)

    def for_words(self) -> ExpressionNames:
        """The same names for a text of a finding, which shows what is known."""
        return ExpressionNames(self.facts, self.own, self.choose, self.budget, [])


def names_of(
    rule: Rule,
    facts: Facts,
    params: Mapping[str, Any],
    declared: Declared = NOTHING,
    budget: Budget | None = None,
) -> ExpressionNames:
    """What the expressions of a rule see on a host, but for the item that they look at."""
    choose = (lambda: rule.choose(facts, params)) if rule.choice else None
    return ExpressionNames(
        facts, {"params": params, "policy": declared}, choose, budget or Budget()
    )


def evaluate(
    rule: Rule,
    facts: Facts,
    params: Mapping[str, Any],
    declared: Declared = NOTHING,
    budget: Budget | None = None,
) -> Evaluation:
    """Evaluate one rule. An unread fact makes an `unknown` finding that says which fact and why.
    Raises HosttuneError where its expressions cannot be worked out.
    """
    try:
        return _evaluate_rule(rule, names_of(rule, facts, params, declared, budget))
    except OverBudget as error:
        raise HosttuneError(f"{rule.where}: cannot work out what it says: {error}") from None


def _evaluate_rule(rule: Rule, names: ExpressionNames) -> Evaluation:
    items: list[tuple[str, ExpressionNames]] = []
    doubt, doubted = None, frozenset[str]()
    try:
        otherwise, doubt, doubted = _check_conditions(rule, names)
        if otherwise:
            return Evaluation(
                rule,
                (_make_finding(rule, Verdict.NOT_APPLICABLE, _render_words(otherwise, names)),),
            )
        for item in _list_items(rule, names) if doubted <= _PLACE else ():
            items.append(item)  # noqa: PERF402 - those that are known stay where there may be more
    except UnknownFact as unknown:
        doubt = doubt or unknown
    if doubt:
        return Evaluation(
            rule, (*_find_faults(rule, items), _make_finding(rule, Verdict.UNKNOWN, doubt.reason))
        )
    if rule.for_each is not None and not items:
        return Evaluation(rule, (_make_finding(rule, Verdict.NOT_APPLICABLE, rule.none),))
    findings: list[Finding] = []
    wishes: list[Wish] = []
    for subject, inner in items:
        names.budget.spend(PER_WISH * len(rule.want) + PER_FINDING * len(rule.expect))
        try:
            findings += _give_advice(rule, subject, inner)
            wishes += [_make_wish(rule, spec, subject, inner) for spec in rule.want]
        except UnknownFact as unknown:
            findings.append(_make_finding(rule, Verdict.UNKNOWN, unknown.reason, subject))
    return Evaluation(rule, tuple(findings), tuple(wishes))


def _check_conditions(
    rule: Rule, names: ExpressionNames
) -> tuple[Text | None, UnknownFact | None, frozenset[str]]:
    """What is said of a condition that does not hold, None where all that are known do; the first
    doubt, and the subjects in doubt.
    """
    doubt, doubted = None, frozenset[str]()
    for guard in rule.applies_when:
        subjects = guard.condition.subjects
        try:
            applies = guard.condition.evaluate(names)
        except UnknownFact as unknown:
            if subjects != _PLACE and (rule.tells_faults or rule.tells_health):
                return None, doubt or unknown, doubted | subjects
            doubt, doubted = doubt or unknown, doubted | subjects
        except HosttuneError:
            if doubt is None:
                raise  # else it may count on a condition before it
        else:
            if not applies and (doubted <= _PLACE or not doubted & subjects):
                return guard.otherwise, None, frozenset()
    return None, doubt, doubted


def _find_faults(rule: Rule, items: Iterable[tuple[str, ExpressionNames]]) -> Iterator[Finding]:
    """What is proven where it is not known whether the rule applies, or whether there are more
    items: a fault is one whatever else was not read.
    """
    for subject, inner in items:
        inner.budget.spend(PER_FINDING * len(rule.expect))
        yield from (
            one for one in _give_advice(rule, subject, inner) if one.is_fault or one.impairs
        )


def _list_items(rule: Rule, names: ExpressionNames) -> Iterator[tuple[str, ExpressionNames]]:
    if rule.for_each is None:
        yield "", names
        return
    found: Any = rule.for_each.evaluate_known(names)
    for item in found:
        names.budget.read(item)
        subject = subject_of(item)
        names.budget.spend(len(subject))
        yield subject, names.with_(item=item)


def subject_of(item: object) -> str:
    """How a report calls an item: its target, slot, name or path, or the item itself."""
    for name in ("target", "slot", "name", "path"):
        if hasattr(type(item), name):
            return str(getattr(item, name))
    return str(item)


def _give_advice(rule: Rule, subject: str, names: ExpressionNames) -> list[Finding]:
    failed = []
    unknown: UnknownFact | None = None
    for expectation in rule.expect:
        try:
            if not expectation.condition.evaluate(names):
                is_fault, impairs = (
                    _answer(one, names) for one in (expectation.fault, expectation.impairs)
                )
                if is_fault or impairs:
                    message = _render_proven(rule, expectation.message, names)
                    todo = _way_out(expectation.todo, names) if expectation.todo else ""
                    # What is not known makes it no milder: it waits for no boot, and a boot may
                    # make it worse.
                    waits = _answer(expectation.waits_for_reboot, names, unknown=False)
                    blocks = _answer(expectation.blocks_reboot, names, unknown=True)
                else:
                    message = _render_words(expectation.message, names)
                    todo = _render_steps(expectation.todo, names) if expectation.todo else ""
                    waits, blocks = False, _answer(expectation.blocks_reboot, names)
                verdict = Verdict.DIFFERS if is_fault else Verdict.ADVICE
                hold = (
                    Hold(HoldKind.WAITING, str(Activation.REBOOT)) if is_fault and waits else Hold()
                )
                failed.append(
                    Finding(
                        rule.id,
                        subject,
                        verdict,
                        hold,
                        message,
                        todo=todo,
                        is_fault=is_fault,
                        blocks_reboot=blocks,
                        impairs=impairs,
                        yields_to=expectation.yields_to,
                    )
                )
        except UnknownFact as problem:
            unknown = unknown or problem
    if unknown:
        failed.append(_make_finding(rule, Verdict.UNKNOWN, unknown.reason, subject))
    if rule.expect and not failed:
        return [_make_finding(rule, Verdict.OK, "", subject)]
    return failed


def _make_wish(rule: Rule, spec: WishSpec, subject: str, names: ExpressionNames) -> Wish:
    kind = wish_kinds()[spec.kind]
    fields = {
        name: _evaluate_field(rule, kind, name, value, names) for name, value in spec.fields.items()
    }
    bounds = tuple(_bound(rule, kind, operator, value, names) for operator, value in spec.bounds)
    name = spec.name.evaluate(names)
    message = _render_words(spec.message, names) if spec.message else ""
    todo = _render_steps(spec.todo, names) if spec.todo else ""
    if isinstance(name, (tuple, list)):  # a set of things has no name of its own
        called = " ".join(map(text_of, name))
    else:
        called = text_of(name)
        subject = subject or called
    is_fault = bool(spec.fault and spec.fault.evaluate(names))
    return Wish(spec.kind, called, rule.id, subject, fields, bounds, message, todo, is_fault)


def _render_words(text: Written, names: ExpressionNames) -> str:
    return text_of(text.evaluate(names))


def _render_proven(rule: Rule, text: Written, names: ExpressionNames) -> str:
    """The words for what is proven. They name what is known, and are lost for nothing that is
    not.
    """
    words = names.for_words()
    try:
        found = _render_words(text, words)
    except UnknownFact as unknown:
        return f"{rule.title}: a fault, but its details are unknown: {unknown.reason}"
    return f"{found} (perhaps more: {words.lacking[0]})" if words.lacking else found


def _way_out(text: Written, names: ExpressionNames) -> str:
    """The steps for what is proven; none where they depend on what is not known."""
    return read_or_default(lambda: _render_steps(text, names.for_words()), "")


def _answer(
    question: Expression | Literal | None, names: ExpressionNames, *, unknown: bool | None = None
) -> bool:
    """Whether it holds; `unknown` where that cannot be worked out. Raises UnknownFact if there is
    no such answer.
    """
    try:
        return bool(question and question.evaluate(names))
    except UnknownFact:
        if unknown is None:
            raise
        return unknown


def _render_steps(text: Written, names: ExpressionNames) -> str:
    value = text.evaluate(names, has_steps=True) if isinstance(text, Text) else text.evaluate(names)
    return text_of(value)


def _evaluate_field(
    rule: Rule, kind: WishKind, name: str, written: Written, names: ExpressionNames
) -> Any:
    """A field of a wish. Its value is checked here, too: of an expression, lint knows no more than
    the type.
    """
    value, spec = written.evaluate(names), kind.fields[name]
    if spec.choices and value not in spec.choices:
        raise _make_unfit_error(rule, written, name, f"one of {', '.join(spec.choices)}", value)
    if not isinstance(value, _TYPES[spec.type]) or (isinstance(value, bool) and spec.type is int):
        raise _make_unfit_error(rule, written, name, _CALLED[spec.type], value)
    return value


def _bound(
    rule: Rule, kind: WishKind, operator: Operator, written: Written, names: ExpressionNames
) -> Bound:
    value, name = written.evaluate(names), f"{operator} of a {kind.kind}"
    if operator in NUMERIC and (isinstance(value, bool) or not isinstance(value, int)):
        raise _make_unfit_error(rule, written, name, _CALLED[int], value)
    if not all(
        isinstance(one, (str, int, float))
        for one in (value if isinstance(value, (tuple, list)) else [value])
    ):
        raise _make_unfit_error(
            rule, written, name, "a text, a number, true, false, or a list of those", value
        )
    return Bound(operator, value)


def _make_unfit_error(
    rule: Rule, written: Written, name: str, wanted: str, value: object
) -> HosttuneError:
    shown = (
        repr(value)
        if isinstance(value, (str, int, float))
        else "empty"
        if value is None
        else "a value of another type"
    )
    message = (
        f"{getattr(written, 'where', rule.where)}: {name} must be {wanted}, and is {shown[:100]}"
    )
    return HosttuneError(
        message, hint="correct the rule, or the parameter that it takes the value from"
    )


def _make_finding(rule: Rule, verdict: Verdict, reason: str, subject: str = "") -> Finding:
    return Finding(rule.id, subject, verdict, reason=reason)


# the rules that a rule contradicts, and on what: `vm.x: at_least 2, at_most 1`
Clash = tuple[tuple[str, ...], str]


def merge_bounds(wishes: tuple[Wish, ...]) -> tuple[tuple[Wish, ...], dict[str, Clash]]:
    """Make the bounds of several rules on one thing agree: each wish gets all of them.

    Returns the wishes, and of each rule whose bounds nothing can satisfy together with those of
    others (or of its own) which these are. Their wishes keep the bounds that they came with.
    """
    together: dict[tuple[str, str], list[Wish]] = {}
    for wish in wishes:
        together.setdefault((wish.kind, wish.name), []).append(wish)
    merged: dict[tuple[str, str], tuple[Bound, ...]] = {}
    clashes: dict[str, Clash] = {}
    for key, group in together.items():
        bounds = tuple(dict.fromkeys(bound for wish in group for bound in wish.bounds))
        if is_satisfiable(bounds):
            merged[key] = bounds
            continue
        wants = ", ".join(f"{bound.operator} {bound.value}" for bound in bounds[:_MOST_COMPARED])
        each = dict.fromkeys((wish.rule, wish.bounds) for wish in group)
        every = {rule for rule, _ in each}
        for rule, own in each:
            if rule in clashes:
                continue
            others = (
                {one for one, its in each if not is_satisfiable((*own, *its))}
                if len(each) <= _MOST_COMPARED
                else every
            )
            if others:
                clashes[rule] = tuple(sorted(others)), f"{key[0]} {key[1]} ({wants})"
    return tuple(
        replace(wish, bounds=merged[wish.kind, wish.name])
        if (wish.kind, wish.name) in merged
        else wish
        for wish in wishes
    ), clashes


def is_satisfiable(bounds: tuple[Bound, ...]) -> bool:
    """Whether some value satisfies all bounds (numbers for at_least and at_most; sets for includes
    and excludes).
    """
    by: dict[Operator, list[Any]] = {}
    for bound in bounds:
        by.setdefault(bound.operator, []).append(bound.value)
    exact = {str(value) for value in by.get(Operator.EXACTLY, [])}
    if len(exact) > 1:
        return False
    if set(map(str, by.get(Operator.INCLUDES, []))) & set(map(str, by.get(Operator.EXCLUDES, []))):
        return False
    low = max(by.get(Operator.AT_LEAST, []), default=None)
    high = min(by.get(Operator.AT_MOST, []), default=None)
    if exact and (low is not None or high is not None):
        (text,) = exact
        if not re.fullmatch(r"[+-]?[0-9]{1,39}", text):
            return False
        return (low is None or low <= int(text)) and (high is None or int(text) <= high)
    return low is None or high is None or low <= high
