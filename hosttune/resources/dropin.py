"""A whole drop-in file of our own, rendered from a template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.rendering import render
from hosttune.resources.base import FieldSpec
from hosttune.resources.file import compare_dropin
from hosttune.values import Activation, Address, Finding, Hold, Trigger, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.resources.base import Context, Operator, Wish


class DropinWish:
    """`- dropin: PATH` with `template` and `vars`; `trigger` names the work that makes it effective."""

    kind = "dropin"
    fields: Mapping[str, FieldSpec] = {
        "template": FieldSpec(str, required=True, help="A file in templates/"),
        "vars": FieldSpec(dict, help="Values for the template; it also sees `rule`"),
        "trigger": FieldSpec(str, choices=("daemon-reload",), help="What must follow a change"),
        "activation": FieldSpec(str, choices=tuple(str(word) for word in Activation), help="When it takes effect"),
    }
    operators: tuple[Operator, ...] = ()
    activations = tuple(Activation)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (Address("file", wish.name),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)


def _compare(wish: Wish, context: Context) -> Finding:
    text = render(wish.fields["template"], rule=wish.rule, **wish.fields.get("vars", {})).encode()
    triggers = (Trigger(wish.fields["trigger"]),) if "trigger" in wish.fields else ()
    activation = Activation(wish.fields.get("activation", "now"))
    dropin = compare_dropin(wish.name, text, wish.rule, context, activation, triggers)
    if dropin.unknown:
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=dropin.unknown)
    if dropin.hold:
        return Finding(
            wish.rule, wish.subject, Verdict.DIFFERS, dropin.hold, evidence=dropin.evidence, todo=dropin.todo
        )
    if dropin.change is None:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=dropin.evidence)
    return Finding(
        wish.rule, wish.subject, Verdict.DIFFERS, Hold(), f"{wish.name} is missing or old", (), (dropin.change,)
    )


WISHES = (DropinWish(),)
ADDRESSES = ()
