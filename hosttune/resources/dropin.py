"""A whole drop-in file of our own, rendered from a template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.rendering import render
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.file import compare_dropin
from hosttune.values import Activation, Address, Finding, Hold, Trigger, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Change


_TEMPLATES = ("nfs-read-ahead.conf.j2", "scratch.sh.j2")


class DropinWish(WishKind):
    """`- dropin: PATH` with `template` and `vars`; `trigger` names the work that makes it
    effective.
    """

    kind = "dropin"
    fields: Mapping[str, FieldSpec] = {
        "template": FieldSpec(str, required=True, choices=_TEMPLATES, help="The text of the file"),
        "vars": FieldSpec(dict, help="Values for the template; it also sees `rule`"),
        "trigger": FieldSpec(str, choices=("daemon-reload",), help="What must follow a change"),
        "activation": FieldSpec(
            str, choices=tuple(str(word) for word in Activation), help="When it takes effect"
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = tuple(Activation)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (Address("file", wish.name),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(
            in_general(
                wish,
                Address("file", wish.name),
                _render_text(wish),
                activation=_find_activation(wish),
                triggers=_list_triggers(wish),
            )
            for wish in wishes
        )


def _render_text(wish: Wish) -> bytes:
    return render(
        wish.fields["template"], **{**wish.fields.get("vars", {}), "rule": wish.rule}
    ).encode()


def _find_activation(wish: Wish) -> Activation:
    return Activation(wish.fields.get("activation", "now"))


def _list_triggers(wish: Wish) -> tuple[Trigger, ...]:
    return (Trigger(wish.fields["trigger"]),) if "trigger" in wish.fields else ()


def _compare(wish: Wish, context: Context) -> Finding:
    dropin = compare_dropin(
        wish.name,
        _render_text(wish),
        wish.rule,
        context,
        _find_activation(wish),
        _list_triggers(wish),
    )
    if dropin.unknown:
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=dropin.unknown)
    if dropin.hold:
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            dropin.hold,
            evidence=dropin.evidence,
            todo=dropin.todo,
        )
    if dropin.change is None:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=dropin.evidence)
    return Finding(
        wish.rule,
        wish.subject,
        Verdict.DIFFERS,
        Hold(),
        f"{wish.name} is missing or old",
        (),
        (dropin.change,),
    )


WISH = DropinWish()
