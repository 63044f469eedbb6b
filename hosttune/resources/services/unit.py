"""systemd units: whether they start at boot and whether they run now (systemctl(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Conflict, Refused
from hosttune.quoting import quote
from hosttune.resources.base import AddressKind, FieldSpec, WishKind, in_general
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Finding,
    Hold,
    HoldKind,
    Unreadable,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Value

TIMEOUT_S = 90.0  # systemd's own default for starting a unit (DefaultTimeoutStartSec)
# What `systemctl enable` and `disable` cannot change: nothing in [Install] (systemctl(1),
# is-enabled).
_FIXED = frozenset({"static", "alias", "indirect", "generated", "transient"})


def _make_running(value: Value) -> Value:
    """The value with `active` for a unit that runs and `inactive` for one that does not (a failed
    one runs as little); states in between stay what they are.
    """
    if not isinstance(value, tuple) or len(value) < 2:
        return value
    settled = {"reloading": "active", "refreshing": "active", "failed": "inactive"}
    return (value[0], settled.get(value[1], value[1]))


def list_verbs(present: Value, after: Value) -> tuple[str, ...]:
    """What systemctl does to get from one value to the other; nothing makes a unit fail, so that
    one is stopped.
    """
    present, after = _make_running(present), _make_running(after)
    if not isinstance(present, tuple) or not isinstance(after, tuple):
        return ()
    words = {"enabled": "enable", "disabled": "disable", "active": "start", "inactive": "stop"}
    wanted = [word for word, now in zip(after, present, strict=True) if word != now]
    if unknown := [word for word in wanted if word not in words]:
        raise Refused(f"systemctl has no way to make a unit {unknown[0]}")
    return tuple(words[word] for word in wanted)


class UnitAddress(AddressKind):
    """`unit:NAME`: (enabled state, active state) in systemd's words; under an alternate root only
    the first; ABSENT without unit.
    """

    kind = "unit"
    is_in_parts = True

    def read(self, reader: Reader, name: str) -> Value:
        from hosttune.facts.base import attempt
        from hosttune.facts.services.units import read_units

        units = attempt(read_units, reader, (name,))
        if isinstance(units, Unreadable):
            return units
        unit = units[name]
        if not unit.exists:
            return ABSENT
        return (
            (unit.enabled_state,)
            if reader.persistent_only
            else (unit.enabled_state, unit.active_state)
        )

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        present = self.read(writer, name)
        if not self.same(present, change.before) or not isinstance(present, tuple):
            message = f"{name} is no longer {_describe_value(change.before)}"
            raise Conflict(message, hint="run the plan again")
        for verb in list_verbs(present, change.after):
            if not writer.persistent_only:
                writer.run(("systemctl", verb, name), timeout_s=TIMEOUT_S)
            else:
                from hosttune.resources.services.unit_links import disable_in_files, enable_in_files

                (enable_in_files if verb == "enable" else disable_in_files)(writer, name)

    def same(self, one: Value, other: Value) -> bool:
        return _make_running(one) == _make_running(other)

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(list_steps(changes, _step))


def _step(change: Change) -> CommandLine:
    name, words = quote(change.address.name), list_verbs(change.before, change.after)
    if words in {("enable", "start"), ("disable", "stop")}:
        return CommandLine(f"systemctl {words[0]} --now {name}")
    return CommandLine("; ".join(f"systemctl {word} {name}" for word in words))


class UnitWish(WishKind):
    """`- unit: NAME` with `enabled: true|false` and `active: true|false`; `refused` says why that
    is not to be tried as things are, and `todo` the way out.
    """

    kind = "unit"
    is_unit = True
    fields: Mapping[str, FieldSpec] = {
        "enabled": FieldSpec(bool, help="Starts at boot"),
        "active": FieldSpec(bool, help="Runs now"),
        "refused": FieldSpec(str, help="Why this cannot be done as things are; empty where it can"),
        "todo": FieldSpec(str, help="What a person should do then"),
        "evidence": FieldSpec(list, help="Sentences for the report"),
        "off_by_default": FieldSpec(
            bool, help="Its package leaves it disabled, so that this is no one's decision"
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (Address("unit", wish.name),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(
            change
            for wish in wishes
            if not wish.fields.get("refused")
            for change in _list_writes(wish)
        )


def _list_writes(wish: Wish) -> tuple[Change, ...]:
    """The change of a unit that is in all that the wish names the contrary of it."""
    contrary = (
        "disabled" if wish.fields.get("enabled", True) else "enabled",
        "inactive" if wish.fields.get("active", True) else "active",
    )
    return (
        in_general(wish, Address("unit", wish.name), _find_wanted(wish, contrary), before=contrary),
    )


def _compare(wish: Wish, context: Context) -> Finding:
    present = context.state[Address("unit", wish.name)]
    own_evidence = tuple(wish.fields.get("evidence", ()))
    if refused := str(wish.fields.get("refused", "")):
        hold = Hold(HoldKind.REFUSED, refused)
        return Finding(
            wish.rule,
            wish.name,
            Verdict.DIFFERS,
            hold,
            refused,
            own_evidence,
            todo=str(wish.fields.get("todo", "")),
        )
    if isinstance(present, Unreadable):
        return Finding(
            wish.rule, wish.name, Verdict.UNKNOWN, reason=prefix_reason(wish.name, present.reason)
        )
    if not isinstance(present, tuple):
        return Finding(
            wish.rule, wish.name, Verdict.NOT_APPLICABLE, reason=f"{wish.name} is not installed"
        )
    evidence = (f"{wish.name} is {_describe_value(present)}", *own_evidence)
    wanted = _find_wanted(wish, present)
    if _make_running(wanted) == _make_running(present):
        return Finding(wish.rule, wish.name, Verdict.OK, evidence=evidence)
    reason = f"{wish.name} should be {_describe_value(wanted)}"
    if decision := _find_decision(wish, present, context):
        todo = f"nothing, if that is meant: `ignore: [{wish.rule}]` in the policy records it"
        if not present[0].startswith("masked"):
            todo += f"; if it is not: sudo systemctl enable --now {quote(wish.name)}"
        hold = Hold(HoldKind.OWNED, decision)
        return Finding(wish.rule, wish.name, Verdict.ADVICE, hold, reason, evidence, todo=todo)
    if wanted[0] != present[0] and present[0] not in {"enabled", "disabled"}:
        hold = Hold(HoldKind.REFUSED, f"a unit that is {present[0]} is not for us to change")
        return Finding(
            wish.rule,
            wish.name,
            Verdict.DIFFERS,
            hold,
            reason,
            evidence,
            todo=f"systemctl cat {quote(wish.name)}",
        )
    address = Address("unit", wish.name)
    change = Change(
        address, Action.UPDATE, present, wanted, wish.rule, context.risk, context.disturbs
    )
    return Finding(wish.rule, wish.name, Verdict.DIFFERS, Hold(), reason, evidence, (change,))


def _find_wanted(wish: Wish, present: tuple[str, ...]) -> tuple[str, ...]:
    """The state that the wish asks for; what it does not ask for, and what serves it as well,
    stays.
    """
    enabled, *active = present
    # `systemctl enable` changes nothing for a unit without [Install]. Something else starts it,
    # which serves the wish as well.
    if wish.fields.get("enabled") and enabled not in _FIXED:
        enabled = "enabled"
    if wish.fields.get("enabled") is False and not enabled.startswith("masked"):
        enabled = "disabled"
    if "active" in wish.fields and active:
        active = ["active" if wish.fields["active"] else "inactive"]
    return (enabled, *active)


def _find_decision(wish: Wish, present: tuple[str, ...], context: Context) -> str:
    """Whose decision the present state is, where it is someone's: masked, or switched off against
    the preset.
    """
    if present[0].startswith("masked"):
        file = context.facts.units[wish.name].fragment
        place = f" by {file}" if file else ""
        return f"an administrator ({wish.name} is masked{place})"
    is_off = (
        wish.fields.get("enabled")
        and present[0] == "disabled"
        and not wish.fields.get("off_by_default")
    )
    if is_off and context.facts.units[wish.name].preset == "enabled":
        return f"an administrator ({wish.name} is disabled against its preset)"
    return ""


def _describe_value(value: Value) -> str:
    return " and ".join(value) if isinstance(value, tuple) else str(value)


WISH = UnitWish()
ADDRESS = UnitAddress()
