"""The words for a rule in more than one place: its wishes, what it reads, how to do and undo it by
hand.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.expression import Text
from hosttune.engine.expressions.helpers import gib_text
from hosttune.engine.rules.rule import Listing, Literal, Record
from hosttune.facts import MODULES
from hosttune.numbers import parse_digits
from hosttune.resources import wish_kinds
from hosttune.resources.base import Bound, Wish
from hosttune.resources.steps import shorten_list
from hosttune.values import HoldKind, steps_of
from hosttune.views.by_hand import describe_by_hand
from hosttune.views.wording import OF_HOST

if TYPE_CHECKING:
    from hosttune.engine.rules.rule import Expectation, Param, Rule, WishSpec, Written
    from hosttune.values import Change, Finding
    from hosttune.views.by_hand import Ways
    from hosttune.views.wording import Wording

LONG = 80  # characters of a field that is still shown

# Fields of wishes that say how something is done, not what is wanted.
_HOW = frozenset({
    "activation", "allow_dkms", "disturbs", "evidence", "harmless_jobs", "in_use", "kernel_default",
    "match", "modules", "one_version", "off_by_default", "persist", "process", "purged_trees",
    "refused", "state", "template", "todo", "updates", "versions",
})  # fmt: skip

_HERE_ALONE = frozenset({"refused", "remove"})  # fields that are not shown where no host is known
_OR = " or "  # between the texts of a choice (wording.in_words)
_HELD_HERE = frozenset(
    {HoldKind.OWNED, HoldKind.EDITED, HoldKind.REFUSED, HoldKind.REVERTED, HoldKind.CAME_BACK}
)

_FIGURES = {
    "docs": "from the sources below, not measured with hosttune",
    "vm": "from the sources below; that the change takes effect and can be undone was tried in a "
    "virtual machine",
    "hardware": "from the sources below, and tried on real hardware",
}


def describe_wishes(
    rule: Rule, wording: Wording, wishes: tuple[Wish, ...] = ()
) -> tuple[Wish, ...]:
    """What the rule wants: of this host where its wishes are known, else as the rule says it in
    general.
    """
    return wishes or tuple(_describe_in_general(rule, spec, wording) for spec in rule.want)


def _describe_in_general(rule: Rule, spec: WishSpec, wording: Wording) -> Wish:
    def render_value(value: Written) -> Any:
        if isinstance(value, Literal):
            return value.value
        if isinstance(value, Record):
            return {name: render_value(one) for name, one in value.values.items()}
        if isinstance(value, Listing):
            return tuple(render_value(one) for one in value.values)
        return wording.text(value)

    def field(name: str, value: Any) -> Any:
        """The word for a list is one item of it."""
        is_item = isinstance(value, str) and wish_kinds()[spec.kind].fields[name].type is list
        return (value,) if is_item else value

    name = render_value(spec.name)
    words = name.replace(",", " ").split() if isinstance(name, str) else name
    bounds = tuple(Bound(operator, render_value(value)) for operator, value in spec.bounds)
    fields = {
        key: field(key, render_value(one))
        for key, one in spec.fields.items()
        if key not in _HERE_ALONE
    }
    return Wish(spec.kind, " ".join(words), rule.id, "", fields, bounds)


def ways_of(wishes: tuple[Wish, ...], findings: tuple[Finding, ...] = ()) -> Ways:
    """How a person does without hosttune what would be changed on this host, and takes it back: of
    the very changes where there are some, else of what the wishes write in general. Nothing where
    this host holds them back for a reason of its own: its findings say the way out.
    """
    changes = [change for finding in findings for change in finding.changes]
    if not changes and any(finding.hold.kind in _HELD_HERE for finding in findings):
        return [], []
    return describe_by_hand(changes or _in_general(wishes))


def _in_general(wishes: tuple[Wish, ...]) -> list[Change]:
    plain_ones = [_without_choices(wish) for wish in wishes]
    kinds = dict.fromkeys(wish.kind for wish in plain_ones)
    # Kind by kind, because wishes of one kind share a file and are written together.
    own = ((kind, tuple(wish for wish in plain_ones if wish.kind == kind)) for kind in kinds)
    return [change for kind, some in own for change in wish_kinds()[kind].writes(some)]


def _without_choices(wish: Wish) -> Wish:
    """`this or that`, which no one can type, as a word in capitals: what there is to choose is
    under Wants.
    """
    name = wish.kind.rpartition("-")[2].upper() if _OR in wish.name else wish.name
    bounds = tuple(
        Bound(one.operator, "VALUE") if _OR in str(one.value) else one for one in wish.bounds
    )
    fields = {
        key: key.upper() if isinstance(one, str) and _OR in one else one
        for key, one in wish.fields.items()
    }
    return replace(wish, name=name, bounds=bounds, fields=fields)


def wish_text(wish: Wish) -> str:
    """A wish as one line: `sysctl vm.swappiness: at most 10`."""
    return ": ".join(filter(None, wish_words(wish)))


def wish_words(wish: Wish) -> tuple[str, str]:
    """What a wish is about, and what it wants of it; what is empty or long is left to the plan."""
    bound = wish.bounds[0] if wish.bounds else None
    value = str(bound.value) if bound else ""
    size = parse_digits(value, None) if wish_kinds()[wish.kind].is_size else None
    value = value if size is None else gib_text(size)
    parts = [f"{bound.operator.value.replace('_', ' ')} {value}"] if bound else []
    parts += [
        f"{name} {text}"
        for name, item in wish.fields.items()
        if name not in _HOW and (text := plain_field(item))
    ]
    return f"{wish.kind} {wish.name}", ", ".join(part for part in parts if len(part) <= LONG)


def plain_field(value: Any) -> str:
    """A field of a wish as text; empty for what is empty."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def guard_texts(rule: Rule, wording: Wording) -> list[str]:
    """The sentences of a rule for where it does not apply."""
    return [wording.sentence(guard.otherwise) for guard in rule.applies_when]


_IN_PLACE = "advice in place of the change"


def _fault_note(one: Expectation) -> str:
    """Whether it is more than advice: always, or only on some hosts."""
    return (
        ""
        if one.fault is None
        else " (a fault)"
        if isinstance(one.fault, Literal)
        else " (it can be a fault)"
    )


def find_ways(
    rule: Rule, wording: Wording, findings: tuple[Finding, ...] = ()
) -> list[tuple[str, tuple[str, ...]]]:
    """What a rule says in words of its own when it finds it, each with the steps of the way out of
    that one finding, of which a rule with several has as many.
    """
    advised = _advised_steps(findings)
    found: list[tuple[str, Any]] = [
        (wording.sentence(one.message) + _fault_note(one), one.todo) for one in rule.expect
    ]
    found += [
        (wording.sentence(one.message) if isinstance(one.message, Text) else _IN_PLACE, one.todo)
        for one in rule.want
        if isinstance(one.message, Text) or isinstance(one.todo, Text)
    ]
    texts = [
        (words, wording.advice(todo, advised) if isinstance(todo, Text) else "")
        for words, todo in found
    ]
    ways = ((words, () if text == OF_HOST else tuple(steps_of(text))) for words, text in texts)
    return list(
        dict.fromkeys((words, steps) for words, steps in ways if steps or words != _IN_PLACE)
    )


def reads_texts(rule: Rule, wishes: tuple[Wish, ...]) -> list[str]:
    """The facts that the rule looks at, each in the words of its module, and the values that it
    compares.
    """
    subjects = [f"{name}: {_first_paragraph(MODULES[name])}" for name in sorted(rule.subjects)]
    if rule.choice:
        subjects.append(
            f"the choice {rule.choice}: {_first_paragraph(f'hosttune.choices.{rule.choice}')}"
        )
    kinds = [
        f"{wish.kind} {wish.name}, as it is now and after the next boot"
        for wish in wishes
        if wish.name
    ]
    return [*subjects, *shorten_list(list(dict.fromkeys(kinds)))]


def todo_texts(rule: Rule, wording: Wording, findings: tuple[Finding, ...] = ()) -> list[str]:
    """How a person does without hosttune what the rule advises, and what they should do besides:
    with the values of this host where a finding advises it there, else as it holds for any host.
    What is in order gives no value to type.
    """
    todos = [*(one.todo for one in rule.expect), *(one.todo for one in rule.want)]
    advised = _advised_steps(findings)
    todos_text = (wording.advice(one, advised) for one in todos if isinstance(one, Text))
    return list(dict.fromkeys(step for todo in todos_text for step in steps_of(todo)))


def _advised_steps(findings: tuple[Finding, ...]) -> set[str]:
    return {step for finding in findings for step in steps_of(finding.todo)}


def figure_text(rule: Rule) -> str:
    """Where the figure of the gain comes from."""
    return _FIGURES[rule.verified]


def risk_text(rule: Rule) -> str:
    """`high, exposes security, disturbs a service`."""
    exposes = f", exposes {rule.exposes}" if rule.exposes else ""
    return f"{rule.risk}{exposes}, disturbs {rule.disturbs}"


def standing_text(rule: Rule) -> str:
    """Whether the rule is there to stay, and since when it is there."""
    status = str(rule.status) + (f" (use {rule.replaced_by})" if rule.replaced_by else "")
    former = f", formerly {', '.join(rule.renamed_from)}" if rule.renamed_from else ""
    return f"{status}, since {rule.since}{former}"


def param_text(param: Param) -> str:
    """What a parameter means, its type, limits and default."""
    limits = [f"from {param.minimum}"] if param.minimum is not None else []
    limits += [f"to {param.maximum}"] if param.maximum is not None else []
    limits += [f"one of {', '.join(map(str, param.choices))}"] if param.choices else []
    return (
        f"{param.help} "
        f"({', '.join([param.type, *limits, f'default {format_plain(param.default)}'])})"
    )


def format_plain(value: Any) -> str:
    return (
        (", ".join(map(str, value)) or "none")
        if isinstance(value, (list, tuple))
        else str(value) or "empty"
    )


def _first_paragraph(module: str) -> str:
    return " ".join((import_module(module).__doc__ or "").partition("\n\n")[0].split())
