"""What is said of a rule in more than one place: its wishes, what it reads, how to do and undo it by hand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.engine.expression_helpers import gib_text
from hosttune.engine.rule import Listing, Literal, Record
from hosttune.views.by_hand import Told, few, ways

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.rule import Param, Rule, WishSpec, Written
    from hosttune.resources.base import Wish
    from hosttune.values import Address, Finding
    from hosttune.views.wording import Wording

LONG = 80  # characters of a field that is still shown

# Fields of wishes that say how something is done, not what is wanted.
_HOW = frozenset({
    "activation", "aged_by", "allow_dkms", "disturbs", "evidence", "in_use", "kernel_default", "match", "one_version",
    "off_by_default", "persist", "process", "purged_trees", "refused", "state", "template", "todo", "updates",
    "versions",
})  # fmt: skip

_FIGURES = {
    "docs": "from the sources below; nobody has measured it with hosttune",
    "vm": "from the sources below; that the change takes and goes back was tried in a virtual machine",
    "hardware": "from the sources below, and tried on real hardware",
}


def told_wishes(
    rule: Rule, wording: Wording, wishes: tuple[Wish, ...] = (), findings: tuple[Finding, ...] = ()
) -> tuple[Told, ...]:
    """What the rule wants: of this host where its wishes are known, else as the rule says it in general."""
    old = {change.address: change.before for finding in findings for change in finding.changes}
    if wishes:
        return tuple(_told(wish, old) for wish in wishes)
    return tuple(_told_in_general(rule, spec, wording) for spec in rule.want)


def _told(wish: Wish, old: Mapping[Address, object]) -> Told:
    bound = wish.bounds[0] if wish.bounds else None
    if bound is None:
        return Told(wish.kind, wish.name, wish.rule, fields=wish.fields, old=old)
    return Told(wish.kind, wish.name, wish.rule, bound.operator.value, str(bound.value), wish.fields, old)


def _told_in_general(rule: Rule, spec: WishSpec, wording: Wording) -> Told:
    def said(value: Written) -> Any:
        if isinstance(value, Literal):
            return value.value
        if isinstance(value, Record):
            return {name: said(one) for name, one in value.values.items()}
        if isinstance(value, Listing):
            return tuple(said(one) for one in value.values)
        return wording.text(value)

    name = said(spec.name)
    operator, value = next(((operator.value, str(said(value))) for operator, value in spec.bounds), ("", ""))
    fields = {key: said(one) for key, one in spec.fields.items()}
    return Told(spec.kind, name if isinstance(name, str) else " ".join(name), rule.id, operator, value, fields)


def wish_text(wish: Told) -> str:
    """A wish as one line: `sysctl vm.swappiness: at most 10`; what is empty or long is left to the plan."""
    value = gib_text(int(wish.value)) if wish.kind == "tmpfs" and wish.value.isdecimal() else wish.value
    parts = [f"{wish.bound.replace('_', ' ')} {value}"] if wish.bound else []
    parts += [
        f"{name} {text}" for name, item in wish.fields.items() if name not in _HOW and (text := plain_field(item))
    ]
    parts = [part for part in parts if len(part) <= LONG]
    return f"{wish.kind} {wish.name}" + (f": {', '.join(parts)}" if parts else "")


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


def finds_texts(rule: Rule, wording: Wording) -> list[str]:
    """What a rule that advises says when it finds it."""
    return list(dict.fromkeys(wording.sentence(one.message) for one in rule.expect))


def reads_texts(rule: Rule, wishes: tuple[Told, ...]) -> list[str]:
    """The facts that the rule looks at, each in the words of its module, and the values that it compares."""
    subjects = [f"{name}: {_first_paragraph(f'hosttune.facts.{name}')}" for name in sorted(rule.subjects)]
    if rule.choice:
        subjects.append(f"the choice {rule.choice}: {_first_paragraph(f'hosttune.choices.{rule.choice}')}")
    kinds = [f"{wish.kind} {wish.name}, as it is now and after the next boot" for wish in wishes]
    return [*subjects, *few(list(dict.fromkeys(kinds)))]


def do_texts(rule: Rule, wording: Wording, wishes: tuple[Told, ...]) -> list[str]:
    """How a person does without hosttune what the rule wants or advises."""
    todos = [wording.sentence_here(one.todo) for one in rule.expect if one.todo]
    return list(dict.fromkeys(ways(wishes)[0] + todos))


def undo_texts(wishes: tuple[Told, ...]) -> list[str]:
    """How a person takes it back without hosttune; advice changes nothing."""
    return ways(wishes)[1]


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
    return f"{status}, since {rule.since} (edition {rule.edition}){former}"


def pieces(text: str) -> list[tuple[str, str]]:
    """The paragraphs and list items of a text as ("", text) and ("- ", text), each on one line."""
    found: list[tuple[str, str]] = []
    for paragraph in text.strip().split("\n\n"):
        for number, item in enumerate(f"\n{paragraph}".split("\n- ")):
            if item.strip():
                found.append(("- " if number else "", " ".join(item.split())))
    return found


def param_text(param: Param) -> str:
    """What a parameter means, its type, limits and default."""
    limits = [f"from {param.minimum}"] if param.minimum is not None else []
    limits += [f"to {param.maximum}"] if param.maximum is not None else []
    limits += [f"one of {', '.join(map(str, param.choices))}"] if param.choices else []
    was = [f"in {edition} {plain(value)}" for edition, value in param.was.items()]
    return f"{param.help} ({', '.join([param.type, *limits, f'default {plain(param.default)}', *was])})"


def plain(value: Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, (list, tuple)) else str(value) or "empty"


def _first_paragraph(module: str) -> str:
    return " ".join((import_module(module).__doc__ or "").partition("\n\n")[0].split())
