"""Debian packages, wanted as one set: what apt-get would do is simulated before it is shown, and
again before the act.

Where the set is, and how it is brought about: package_set.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.choices.dpkg_stop import repair_of
from hosttune.facts import apt_get as apt
from hosttune.facts.apt_decisions import AptDecision, decisions_about, join_decisions
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.gpu.archives import of_other_branch
from hosttune.facts.gpu.components import turn_on
from hosttune.facts.gpu.package_roles import compiles_modules, is_driver_package
from hosttune.facts.packages import INTERRUPTED
from hosttune.resources.base import FieldSpec, WishKind, action_between, in_general
from hosttune.resources.packages.driver_use import describe_disturbance
from hosttune.resources.packages.kept_debs import FOLDER
from hosttune.resources.packages.next_boot import describe_kernels, find_left_out
from hosttune.resources.packages.package_set import (
    PackageSetAddress,
    names_of,
    parse_versions,
    set_name,
    value_of,
)
from hosttune.resources.packages.room import find_lack
from hosttune.values import (
    ABSENT,
    Activation,
    Address,
    Change,
    Disturbs,
    Finding,
    Hold,
    HoldKind,
    Unreadable,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.resources.base import Context, Operator, Wish

SET = PackageSetAddress.kind
_NOT_WHOLE = "dpkg has not finished installing its packages"
_UPDATE = "sudo apt-get update, then run it again"


class PackagesWish(WishKind):
    """`- packages: LIST` or `- package: NAME` with `state: installed`: installed in any version, or
    in the one that `versions` names; what `remove` names is gone after the same transaction.
    """

    fields: Mapping[str, FieldSpec] = {
        "state": FieldSpec(
            str, required=True, choices=("installed",), help="The state that they should have"
        ),
        "versions": FieldSpec(
            list, help="Versions that they should have, each NAME=VERSION; others may have any"
        ),
        "remove": FieldSpec(
            list, help="Packages that go in the same transaction, by their exact names"
        ),
        "activation": FieldSpec(
            str, choices=tuple(str(word) for word in Activation), help="When it takes effect"
        ),
        "disturbs": FieldSpec(
            str,
            choices=tuple(str(word) for word in Disturbs),
            help="Whom it disturbs, the rule's own word by default; replacing a driver in use "
            "disturbs GPU work anyway",
        ),
        "in_use": FieldSpec(
            bool, help="False where they are installed and take effect later: the rule waits for it"
        ),
        "why": FieldSpec(
            str, help="Why these packages, for who reads the plan; empty: what apt-get does"
        ),
        "absent": FieldSpec(
            str,
            help="What it means that they are not installed, before their names; empty: the names",
        ),
        "unused": FieldSpec(
            str, help="Why they are not in use, where waiting does not help; empty where it does"
        ),
        "refused": FieldSpec(str, help="Why this cannot be done as things are; empty where it can"),
        "todo": FieldSpec(str, help="What a person should do then"),
        "allow_dkms": FieldSpec(bool, help="Kernel modules may be compiled on this host"),
        "may_remove": FieldSpec(
            list, help="Beginnings of package names that apt may remove for it"
        ),
        "branch": FieldSpec(
            str, help="The driver branch in which all driver packages of it must be; empty for any"
        ),
        "one_version": FieldSpec(list, help="Packages that must come in the same upstream version"),
        "modules": FieldSpec(
            str,
            help="How packages of a driver's modules begin, of which the kernel that boots next "
            "needs one",
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = tuple(Activation)

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.takes_list = kind == "packages"

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        if not (wish.name.split() or _list_removed(wish)) or wish.fields.get("refused"):
            return ()
        return (_set(wish),)

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
    """The set as it is asked for, in the versions that the wish names; nothing where it names no
    package.
    """
    pinned = parse_versions(tuple(wish.fields.get("versions", ())))
    after = value_of({name: pinned.get(name, "") for name in wish.name.split()})
    before = value_of(dict.fromkeys(_list_removed(wish), "VERSION"))
    if after is ABSENT and before is ABSENT:
        return ()
    activation = Activation(wish.fields.get("activation", "now"))
    return (in_general(wish, _set(wish), after, before=before, activation=activation),)


def _set(wish: Wish) -> Address:
    return Address("package-set", set_name(tuple(wish.name.split()), (), _list_removed(wish)))


def _list_removed(wish: Wish) -> tuple[str, ...]:
    return tuple(wish.fields.get("remove", ()))


def _list_operands(wish: Wish, present: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments of apt-get, as NAME, NAME=VERSION and NAME-; nothing where all is as it should
    be.
    """
    wanted = parse_versions(tuple(wish.fields.get("versions", ())))
    names = wish.name.split()
    missing = [
        name
        for name in names
        if name not in present or wanted.get(name, present[name]) != present[name]
    ]
    gone = [f"{name}-" for name in _list_removed(wish) if name in present]
    return (*(f"{name}={wanted[name]}" if name in wanted else name for name in missing), *gone)


def _compare(wish: Wish, context: Context) -> Finding:
    refused = str(wish.fields.get("refused", ""))
    if refused:
        reason, todo = "no suitable packages can be installed now", str(wish.fields.get("todo", ""))
        if absent := str(wish.fields.get("absent", "")):
            reason = f"{absent}, and {reason}"
        if todo == repair_of(context.facts):
            reason, todo = _NOT_WHOLE, _repair(context)
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            Hold(HoldKind.REFUSED, refused),
            reason,
            todo=todo,
        )
    if not (wish.name.split() or _list_removed(wish)):
        return Finding(wish.rule, wish.subject, Verdict.OK)
    value = context.state[_set(wish)]
    if isinstance(value, Unreadable):
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=value.reason)
    there = parse_versions(value)
    present = {
        name: there[name]
        for name in (*wish.name.split(), *_list_removed(wish))
        if context.facts.packages[name].is_installed
    }
    evidence = tuple(f"{name} {version} is installed" for name, version in present.items())
    operands = _list_operands(wish, present)
    # Before the simulation: apt answers it with its own error then, from which no one learns what
    # is half-way.
    if half := _half_way(wish, operands, context):
        hold = Hold(HoldKind.REFUSED, half)
        reason = _describe_reason(wish, operands, present) if operands else _NOT_WHOLE
        return Finding(
            wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=_repair(context)
        )
    if operands:
        return _make_difference(wish, operands, present, evidence, context)
    if unused := str(wish.fields.get("unused", "")):
        hold, todo = Hold(HoldKind.REFUSED, unused), str(wish.fields.get("todo", ""))
        reason = "it is installed, but not in use"
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=todo)
    if not wish.fields.get("in_use", True):
        hold = Hold(HoldKind.WAITING, str(wish.fields.get("activation", "reboot")))
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            hold,
            "it is installed, but not in use yet",
            evidence,
        )
    return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)


def _make_difference(
    wish: Wish, operands: tuple[str, ...], present: Mapping[str, str], evidence: tuple[str, ...],
    context: Context
) -> Finding:  # fmt: skip
    reason = _describe_reason(wish, operands, present)
    try:
        would = context.facts.apt.would[" ".join(operands)]
    except UnknownFact as unknown:
        unknown_text = prefix_reason(f"{reason}; what apt would do is unknown", unknown.reason)
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=unknown_text)
    decided = _find_decision(operands, would, context.facts) if would.error else None
    if would.knows_no_such_package and not decided:
        sentence = f"{reason}; apt: {would.error}"
        return Finding(
            wish.rule, wish.subject, Verdict.UNKNOWN, reason=sentence, todo=_known_by(context.facts)
        )
    objection, todo = _find_objection(wish, operands, would, context.facts), ""
    if not objection:
        objection, todo = find_left_out(str(wish.fields.get("modules", "")), would, context.facts)
    if not objection:
        objection, todo = find_lack(would, context.facts)
    if objection:
        hold = Hold(
            HoldKind.REFUSED, f"{decided.what} (apt-get: {would.error})" if decided else objection
        )
        details = (*evidence, *apt.describe(would))
        todo = decided.undo if decided else todo
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, details, todo=todo)
    change = _make_change(wish, operands, would, context)
    return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, evidence, (change,))


def _find_decision(
    operands: tuple[str, ...], would: apt.Transaction, facts: Facts
) -> AptDecision | None:
    """What an administrator has decided in apt that explains why apt-get would not do this."""
    asked = [one for one in parse_versions(operands) if not one.endswith("-")]
    return join_decisions(decisions_about(facts, (*asked, *would.unmet)))


def _known_by(facts: Facts) -> str:
    """What makes apt know a package that it does not."""
    missing: tuple[str, ...] = read_or_default(lambda: facts.components.off, ())
    return f"{turn_on(missing)}\nrun it again" if missing else _UPDATE


def _half_way(wish: Wish, operands: tuple[str, ...], context: Context) -> str:
    """With what dpkg stopped half-way that is of these packages, or came with them; before a
    transaction, with what at all: apt would go on with that first. Empty where all is whole.
    """
    packages = context.facts.packages
    own = {*wish.name.split(), *_list_removed(wish)}
    for address, applied in context.ledger.items():
        if applied.rule == wish.rule:
            own |= set(_split_names(address))
    left = [one for one in packages.unfinished if one.name in own or (operands and one.is_half)]
    if left:
        return (
            f"dpkg stopped half-way with {', '.join(f'{one.name} ({one.status})' for one in left)}"
        )
    return INTERRUPTED if operands and packages.is_interrupted else ""


def _repair(context: Context) -> str:
    """Who repairs it: hosttune itself, where a run of ours was stopped; else a person."""
    packages = context.facts.packages
    half = {one.name for one in packages.unfinished}
    ours = (
        one.goes_on for address, one in context.ledger.items() if half & set(_split_names(address))
    )
    return "; by hand: ".join([*list(filter(None, ours))[-1:], repair_of(context.facts)])


def _split_names(address: Address) -> tuple[str, ...]:
    return names_of(address.name) if address.kind == SET else ()


def _describe_reason(wish: Wish, operands: tuple[str, ...], present: Mapping[str, str]) -> str:
    """What is not as it should be, as a phrase."""
    wanted = parse_versions(operands)
    missing = [name for name in wanted if name not in present and not name.endswith("-")]
    other = [
        f"{name} is {present[name]}, not {version}"
        for name, version in wanted.items()
        if name in present
    ]
    gone = [name[:-1] for name in operands if name.endswith("-")]
    parts = [f"not installed: {', '.join(missing)}"] * bool(missing) + other
    absent = str(wish.fields.get("absent", "")) if missing else ""
    if absent:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        parts = [f"{absent} (to install: {missing[0]}{more}, with what they need)", *other]
    return "; ".join([*parts, *[f"still installed: {', '.join(gone)}"] * bool(gone)])


def _find_objection(
    wish: Wish, operands: tuple[str, ...], would: apt.Transaction, facts: Facts
) -> str:
    """Why apt must not do what it would do; empty where it may."""
    if would.error:
        return f"apt-get would fail: {would.error}"
    asked = tuple(name for name in parse_versions(operands) if not name.endswith("-"))
    # apt-get ends with 0 for a package that it keeps back, so its status does not show that nothing
    # would be installed.
    kept = [name for name in asked if name not in would.after]
    if kept:
        return f"apt would not install {', '.join(kept)}"
    # The simulation allows downgrades, as apt would else only refuse. So they have to be looked for
    # in its answer.
    if would.downgraded:
        return f"apt would put back an older version of {', '.join(would.downgraded)}"
    allowed = tuple(wish.fields.get("may_remove", ()))
    foreign = [
        one.name
        for one in would.removed
        if one.name not in _list_removed(wish) and not one.name.startswith(allowed)
    ]
    if foreign:
        return f"apt would remove {', '.join(foreign)}"
    dkms = [step.name for step in would.steps if compiles_modules(step.name) and step.after]
    if dkms and not wish.fields.get("allow_dkms", False):
        return (
            f"it would compile kernel modules on this host ({', '.join(dkms)}), which is not "
            "allowed"
        )
    branch = str(wish.fields.get("branch", ""))
    drivers = {name: version for name, version in would.after.items() if is_driver_package(name)}
    if branch and (other := of_other_branch(drivers, int(branch))):
        return f"apt would bring packages of another branch than {branch}: {', '.join(other)}"
    then = {
        name: would.after.get(name) or facts.packages[name].version
        for name in wish.fields.get("one_version", ())
    }
    coupled = {name: version for name, version in then.items() if version}
    if len({apt.get_upstream(version) for version in coupled.values()}) > 1:
        found = ", ".join(f"{name} {version}" for name, version in coupled.items())
        return f"these must have one version, and the archive has {found}"
    return ""


def _make_change(
    wish: Wish, operands: tuple[str, ...], would: apt.Transaction, context: Context
) -> Change:
    asked = tuple(name for name in parse_versions(operands) if not name.endswith("-"))
    along = tuple(name for name in would.after if name not in asked)
    removed = tuple(step.name for step in would.removed)
    before, after = value_of(would.before, would.automatic), value_of(would.after, would.automatic)
    disturbance = describe_disturbance(would.before, would.after, context.facts)
    kept = sum(place != "nowhere" for place in would.old.values())
    notes = (f"keeps {kept} old .deb files in {FOLDER} until it is undone",) if kept else ()
    return Change(
        Address("package-set", set_name(asked, along, removed)),
        action_between(before, after),
        before,
        after,
        wish.rule,
        context.risk,
        Disturbs.GPU_WORK
        if disturbance
        else Disturbs(wish.fields.get("disturbs", context.disturbs)),
        Activation(wish.fields.get("activation", "now")),
        _describe_reversible(would),
        str(wish.fields.get("why", ""))
        or (
            f"apt-get installs {', '.join(asked)}"
            if asked
            else f"apt-get removes {', '.join(removed)}"
        ),
        details=(
            *apt.describe(would),
            *describe_kernels(would, context.facts),
            *notes,
            *disturbance,
        ),
    )


def _describe_reversible(would: apt.Transaction) -> str:
    """How far an undo will get, as far as that is known now."""
    new = [name for name in would.after if name not in would.before]
    removes = f"removes exactly these {len(new)} packages again, and their configuration files stay"
    if not would.before:
        return f"yes: {removes}"
    # A set is undone as a whole, so one version that can be had nowhere makes all of it final. A
    # person has to read that before the yes.
    lost = [
        f"{name} {would.before[name]}" for name, place in would.old.items() if place == "nowhere"
    ]
    if lost:
        known = len(would.before)
        return (
            f"no: only {known - len(lost)} of {known} old versions can be kept, and a set is "
            f"undone as a whole: the archive no longer has {', '.join(lost)}"
        )
    also = f"; {removes}" if new else ""
    if len(would.old) < len(would.before):
        return (
            "yes, as far as an archive still has the old version of "
            f"{', '.join(would.before)}{also}"
        )
    return f"yes, from kept .deb files: puts back the {len(would.before)} old versions{also}"


WISH = PackagesWish("package")
