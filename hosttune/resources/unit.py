"""systemd units: whether they start at boot and whether they run now (systemctl(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Conflict
from hosttune.resources.base import FieldSpec, inverted
from hosttune.values import ABSENT, Action, Activation, Address, Change, Finding, Hold, HoldKind, Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Value

TIMEOUT_S = 90.0  # systemd's own default for starting a unit (DefaultTimeoutStartSec)


class UnitAddress:
    """`unit:NAME`: (enabled state, active state) in systemd's words; under an alternate root only the first; ABSENT
    without unit.
    """

    kind = "unit"

    def read(self, reader: Reader, name: str) -> Value:
        from hosttune.facts.units import read_units

        units = read_units(reader, (name,))
        if isinstance(units, Unreadable):
            return units
        unit = units[name]
        if not unit.exists:
            return ABSENT
        return (unit.enabled_state,) if reader.persistent_only else (unit.enabled_state, unit.active_state)

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        present = self.read(writer, name)
        if present != change.before or not isinstance(present, tuple) or not isinstance(change.after, tuple):
            message = f"{name} is no longer {_words(change.before)}"
            raise Conflict(message, hint="run the plan again")
        if present[0] != change.after[0]:
            verb = {"enabled": "enable", "disabled": "disable"}[change.after[0]]
            writer.run(("systemctl", verb, name), timeout_s=TIMEOUT_S)
        if present[1:] != change.after[1:]:
            verb = "start" if change.after[1] == "active" else "stop"
            writer.run(("systemctl", verb, name), timeout_s=TIMEOUT_S)

    def same(self, one: Value, other: Value) -> bool:
        return one == other

    def invert(self, change: Change) -> Change | None:
        return inverted(change)


class UnitWish:
    """`- unit: NAME` with `enabled: true|false` and `active: true|false`."""

    kind = "unit"
    fields: Mapping[str, FieldSpec] = {
        "enabled": FieldSpec(bool, help="Starts at boot"),
        "active": FieldSpec(bool, help="Runs now"),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (Address("unit", wish.name),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)


def _compare(wish: Wish, context: Context) -> Finding:
    address = Address("unit", wish.name)
    present = context.state[address]
    if isinstance(present, Unreadable):
        return Finding(wish.rule, wish.name, Verdict.UNKNOWN, reason=f"{wish.name}: {present.reason}")
    if not isinstance(present, tuple):
        return Finding(wish.rule, wish.name, Verdict.NOT_APPLICABLE, reason=f"{wish.name} is not installed")
    wanted = list(present)
    if "enabled" in wish.fields and present[0] in {"enabled", "disabled"}:
        wanted[0] = "enabled" if wish.fields["enabled"] else "disabled"
    if "active" in wish.fields and len(present) > 1:
        wanted[1] = "active" if wish.fields["active"] else "inactive"
    evidence = (f"{wish.name} is {_words(present)}",)
    if tuple(wanted) == present and present[0] != "masked":
        return Finding(wish.rule, wish.name, Verdict.OK, evidence=evidence)
    decision = _decision(wish, present, context)
    if decision:
        todo = f"if that was not meant: sudo systemctl enable --now {wish.name}"
        return Finding(wish.rule, wish.name, Verdict.ADVICE, Hold(HoldKind.OWNED, decision), "", evidence, todo=todo)
    change = Change(address, Action.UPDATE, present, tuple(wanted), wish.rule, context.risk, context.disturbs)
    return Finding(
        wish.rule,
        wish.name,
        Verdict.DIFFERS,
        Hold(),
        f"{wish.name} should be {_words(change.after)}",
        evidence,
        (change,),
    )


def _decision(wish: Wish, present: tuple[str, ...], context: Context) -> str:
    """Whose decision the present state is, where it is somebody's: masked, or switched off against the preset."""
    if present[0] == "masked":
        return f"an administrator ({wish.name} is masked)"
    if wish.fields.get("enabled") and present[0] == "disabled" and context.facts.units[wish.name].preset == "enabled":
        return f"an administrator ({wish.name} is disabled against its preset)"
    return ""


def _words(value: Value) -> str:
    return " and ".join(value) if isinstance(value, tuple) else str(value)


WISHES = (UnitWish(),)
ADDRESSES = (UnitAddress(),)
