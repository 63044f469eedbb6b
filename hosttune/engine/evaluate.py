"""Rule + facts + parameters -> findings that need no comparison, and wishes that do. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from hosttune.engine.policy import NOTHING, Declared
from hosttune.errors import HosttuneError
from hosttune.facts import MODULES
from hosttune.facts.base import UnknownFact
from hosttune.frozen import frozen
from hosttune.resources.base import NUMERIC, Bound, Operator, Wish
from hosttune.values import Activation, Finding, Hold, HoldKind, Verdict

if TYPE_CHECKING:
    from hosttune.engine.rule import Rule, WishSpec
    from hosttune.facts import Facts


@frozen
class Evaluation:
    """What a rule says before anything is compared: findings that stand already, and wishes."""

    rule: Rule
    findings: tuple[Finding, ...] = ()
    wishes: tuple[Wish, ...] = ()


@frozen
class ExpressionNames(Mapping[str, Any]):
    """The names an expression sees: fact subjects and the choice (made when touched), params, policy, item."""

    facts: Facts
    own: dict[str, Any] = field(default_factory=dict)
    choose: Callable[[], Any] | None = None

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
        return ExpressionNames(self.facts, {**self.own, **own}, self.choose)


def names_of(rule: Rule, facts: Facts, params: Mapping[str, Any], declared: Declared = NOTHING) -> ExpressionNames:
    """What the expressions of a rule see on a host, but for the item that they look at."""
    choose = (lambda: rule.choose(facts, params)) if rule.choice else None
    return ExpressionNames(facts, {"params": params, "policy": declared}, choose)


def evaluate(rule: Rule, facts: Facts, params: Mapping[str, Any], declared: Declared = NOTHING) -> Evaluation:
    """Evaluate one rule. An unread fact makes an `unknown` finding that says which fact and why."""
    names = names_of(rule, facts, params, declared)
    try:
        for guard in rule.applies_when:
            if not guard.condition.evaluate(names):
                return Evaluation(rule, (_finding(rule, Verdict.NOT_APPLICABLE, str(guard.otherwise.evaluate(names))),))
        items = tuple(_items(rule, names))
    except UnknownFact as unknown:
        return Evaluation(rule, (_finding(rule, Verdict.UNKNOWN, unknown.reason),))
    if rule.for_each is not None and not items:
        return Evaluation(rule, (_finding(rule, Verdict.NOT_APPLICABLE, "nothing on this host to look at"),))
    findings: list[Finding] = []
    wishes: list[Wish] = []
    for subject, inner in items:
        try:
            findings += _advice(rule, subject, inner)
            wishes += [_wish(rule, spec, subject, inner) for spec in rule.want]
        except UnknownFact as unknown:
            findings.append(_finding(rule, Verdict.UNKNOWN, unknown.reason, subject))
    return Evaluation(rule, tuple(findings), tuple(wishes))


def _items(rule: Rule, names: ExpressionNames) -> Iterator[tuple[str, ExpressionNames]]:
    if rule.for_each is None:
        yield "", names
        return
    found: Any = rule.for_each.evaluate(names)
    for item in found:
        yield subject_of(item), names.with_(item=item)


def subject_of(item: object) -> str:
    """How a report calls an item: its target, slot, name or path, or the item itself."""
    for name in ("target", "slot", "name", "path"):
        if hasattr(type(item), name):
            return str(getattr(item, name))
    return str(item)


def _advice(rule: Rule, subject: str, names: ExpressionNames) -> list[Finding]:
    failed = []
    unknown: UnknownFact | None = None
    for expectation in rule.expect:
        try:
            if not expectation.condition.evaluate(names):
                message = str(expectation.message.evaluate(names))
                todo = str(expectation.todo.evaluate(names)) if expectation.todo else ""
                is_fault, blocks, waits, impairs = (
                    bool(one and one.evaluate(names))
                    for one in (
                        expectation.fault,
                        expectation.blocks_reboot,
                        expectation.waits_for_reboot,
                        expectation.impairs,
                    )
                )
                verdict = Verdict.DIFFERS if is_fault else Verdict.ADVICE
                hold = Hold(HoldKind.WAITING, str(Activation.REBOOT)) if is_fault and waits else Hold()
                failed.append(
                    Finding(
                        rule.id, subject, verdict, hold, message, todo=todo,
                        is_fault=is_fault, blocks_reboot=blocks, impairs=impairs,
                    )
                )  # fmt: skip
        except UnknownFact as problem:
            unknown = unknown or problem
    if unknown:
        failed.append(_finding(rule, Verdict.UNKNOWN, unknown.reason, subject))
    if rule.expect and not failed:
        return [_finding(rule, Verdict.OK, "", subject)]
    return failed


def _wish(rule: Rule, spec: WishSpec, subject: str, names: ExpressionNames) -> Wish:
    fields = {name: value.evaluate(names) for name, value in spec.fields.items()}
    bounds = tuple(_bound(operator, value.evaluate(names), spec) for operator, value in spec.bounds)
    name = spec.name.evaluate(names)
    message, todo = (str(one.evaluate(names)) if one else "" for one in (spec.message, spec.todo))
    if isinstance(name, tuple | list):  # a set of things has no name of its own
        called = " ".join(str(part) for part in name)
    else:
        called, subject = str(name), subject or str(name)
    is_fault = bool(spec.fault and spec.fault.evaluate(names))
    return Wish(spec.kind, called, rule.id, subject, fields, bounds, message, todo, is_fault)


def _bound(operator: Operator, value: Any, spec: WishSpec) -> Bound:
    if operator in NUMERIC and (isinstance(value, bool) or not isinstance(value, int)):
        message = f"{operator} of a {spec.kind} must be a whole number, and is {value!r}"
        raise HosttuneError(message, hint="correct the rule, or the parameter that it takes the number from")
    return Bound(operator, value)


def _finding(rule: Rule, verdict: Verdict, reason: str, subject: str = "") -> Finding:
    return Finding(rule.id, subject, verdict, reason=reason)


Clash = tuple[tuple[str, ...], str]  # the rules that a rule contradicts, and on what: `vm.x: at_least 2, at_most 1`


def merge_bounds(wishes: tuple[Wish, ...]) -> tuple[tuple[Wish, ...], dict[str, Clash]]:
    """Make the bounds of several rules on one thing agree: each wish gets all of them.

    Returns the wishes, and of each rule whose bounds nothing can satisfy together with those of others (or of its own)
    which these are. Their wishes keep the bounds that they came with.
    """
    together: dict[tuple[str, str], list[Wish]] = {}
    for wish in wishes:
        together.setdefault((wish.kind, wish.name), []).append(wish)
    merged: dict[tuple[str, str], tuple[Bound, ...]] = {}
    clashes: dict[str, Clash] = {}
    for key, group in together.items():
        bounds = tuple(dict.fromkeys(bound for wish in group for bound in wish.bounds))
        if satisfiable(bounds):
            merged[key] = bounds
            continue
        wants = ", ".join(f"{bound.operator} {bound.value}" for bound in bounds)
        for wish in group:
            others = {one.rule for one in group if not satisfiable((*wish.bounds, *one.bounds))}
            if others:
                clashes.setdefault(wish.rule, (tuple(sorted(others)), f"{key[0]} {key[1]} ({wants})"))
    return tuple(
        replace(wish, bounds=merged[wish.kind, wish.name]) if (wish.kind, wish.name) in merged else wish
        for wish in wishes
    ), clashes


def satisfiable(bounds: tuple[Bound, ...]) -> bool:
    """Whether some value satisfies all bounds (numbers for at_least and at_most; sets for includes and excludes)."""
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
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            return False
        return (low is None or low <= int(text)) and (high is None or int(text) <= high)
    return low is None or high is None or low <= high
