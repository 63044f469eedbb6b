"""Debian packages, installed as one set by one run of apt-get, simulated before it is shown and again before it is
done.

A set is one address, so that it is installed, verified and undone as a whole. Its name says which packages are asked
for, which come along, and which have to go: `package-set:tuned + python3-perf - power-profiles-daemon`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.packages import DATABASE
from hosttune.host.door import Completed
from hosttune.resources import apt
from hosttune.resources.base import FieldSpec, action_between, inverted
from hosttune.values import (
    ABSENT,
    Absent,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Unreadable,
    Verdict,
)

if TYPE_CHECKING:
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Value

_BUILDS = re.compile(r"(?:^|-)(?<!no-)dkms(?:$|-)")  # dkms, nvidia-dkms-580; not nvidia-headless-no-dkms-580
_UPDATE = "sudo apt-get update, then run it again"
_REPAIR = "if dpkg was interrupted: sudo dpkg --configure -a && sudo apt-get -f install"


def set_name(asked: tuple[str, ...], along: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> str:
    """The name of a package-set address."""
    return " ".join((*asked, *(("+", *along) if along else ()), *(("-", *removed) if removed else ())))


def split_set(name: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The packages of a package-set address: asked for, coming along, removed."""
    parts: dict[str, list[str]] = {"": [], "+": [], "-": []}
    part = ""
    for word in name.split():
        if word in parts:
            part = word
        else:
            parts[part].append(word)
    return tuple(parts[""]), tuple(parts["+"]), tuple(parts["-"])


class PackageSetAddress:
    """`package-set:NAMES`: a tuple of "name=version" of those of them that are installed, or ABSENT for none."""

    kind = "package-set"

    def read(self, reader: Reader, name: str) -> Value:
        packages = Facts(reader).packages
        try:
            known = [packages[one] for part in split_set(name) for one in part]
        except UnknownFact as unknown:
            return Unreadable(unknown.reason)
        return tuple(sorted(f"{one.name}={one.version}" for one in known if one.is_installed)) or ABSENT

    def write(self, writer: Writer, change: Change) -> None:
        present = self.read(writer, change.address.name)
        if not self.same(present, change.before):
            raise Conflict(f"the packages are no longer as planned: {_words(present)}", hint="run the plan again")
        before, after = _versions(change.before), _versions(change.after)
        if writer.kind == "overlay":
            _enter(writer, before, after)
            return
        operands = _settled(writer, change, before, after)
        try:
            writer.run(apt.installation(operands), timeout_s=apt.INSTALL_TIMEOUT_S)
        except HosttuneError as error:
            raise Refused(
                f"{error.message}\n  now installed of the set: {_words(self.read(writer, change.address.name))}",
                hint=_REPAIR,
            ) from None

    def same(self, one: Value, other: Value) -> bool:
        return one == other

    def invert(self, change: Change) -> Change | None:
        return inverted(change)


class SimulationAddress:
    """`apt-simulation:NAMES`: what `apt-get install NAMES` would do, as the lines of apt-get; only to be read."""

    kind = "apt-simulation"

    def read(self, reader: Reader, name: str) -> Value:
        operands = name.split()
        answer = reader.query(apt.simulation(operands), timeout_s=apt.LOOK_TIMEOUT_S)
        if not isinstance(answer, Completed):
            return answer if isinstance(answer, Unreadable) else Unreadable("apt-get is not installed")
        if answer.status != 0:
            return apt.errors(answer.errors, answer.status)
        lines = apt.relevant(answer.text)
        sizes = reader.query(apt.downloads(operands), timeout_s=apt.LOOK_TIMEOUT_S) if lines else ABSENT
        known = isinstance(sizes, Completed) and sizes.status == 0
        return (*lines, apt.download_line(sizes.text)) if known and isinstance(sizes, Completed) else lines

    def write(self, writer: Writer, change: Change) -> None:  # noqa: ARG002 - the interface of all kinds
        raise Refused(f"{change.address} can only be read")

    def same(self, one: Value, other: Value) -> bool:
        return one == other

    def invert(self, change: Change) -> Change | None:  # noqa: ARG002 - the interface of all kinds
        return None


class PackagesWish:
    """`- packages: LIST` or `- package: NAME` with `state: installed`."""

    fields: Mapping[str, FieldSpec] = {
        "state": FieldSpec(str, required=True, choices=("installed",), help="The state that they should have"),
        "activation": FieldSpec(str, choices=tuple(str(word) for word in Activation), help="When it takes effect"),
        "in_use": FieldSpec(bool, help="False where they are installed and take effect later: the rule waits for it"),
        "refused": FieldSpec(str, help="Why this cannot be done as things are; empty where it can"),
        "allow_dkms": FieldSpec(bool, help="Kernel modules may be compiled on this host"),
        "may_remove": FieldSpec(list, help="Beginnings of package names that apt may remove for it"),
        "one_version": FieldSpec(list, help="Packages that must come in the same upstream version"),
    }
    operators: tuple[Operator, ...] = ()
    activations = tuple(Activation)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        names = tuple(wish.name.split())
        if not names or wish.fields.get("refused"):
            return ()
        missing = tuple(name for name in names if not facts.packages[name].is_installed)
        asked = (Address("package-set", set_name(names)),)
        return (*asked, Address("apt-simulation", " ".join(missing))) if missing else asked

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)


def _compare(wish: Wish, context: Context) -> Finding:
    refused = str(wish.fields.get("refused", ""))
    if refused:
        reason = "the packages to install cannot be chosen"
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(HoldKind.REFUSED, refused), reason)
    names = tuple(wish.name.split())
    present = context.state[Address("package-set", set_name(names))] if names else ABSENT
    if isinstance(present, Unreadable):
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=present.reason)
    versions = _versions(present)
    missing = tuple(name for name in names if name not in versions)
    evidence = tuple(f"{name} {version} is installed" for name, version in versions.items())
    if missing:
        return _missing(wish, missing, evidence, context)
    if not wish.fields.get("in_use", True):
        hold = Hold(HoldKind.WAITING, str(wish.fields.get("activation", "reboot")))
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, "it is installed and not in use yet", evidence)
    return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)


def _missing(wish: Wish, missing: tuple[str, ...], evidence: tuple[str, ...], context: Context) -> Finding:
    lines = context.state[Address("apt-simulation", " ".join(missing))]
    reason = f"not installed: {', '.join(missing)}"
    if not isinstance(lines, tuple):
        why = lines.reason if isinstance(lines, Unreadable) else "apt-get gave no answer"
        return Finding(
            wish.rule, wish.subject, Verdict.UNKNOWN, reason=f"{reason}; what apt would do is unknown: {why}"
        )
    would = apt.parse(lines)
    if would.knows_no_such_package:
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=f"{reason}; apt: {would.error}", todo=_UPDATE)
    objection = _objection(wish, missing, would)
    details = apt.describe(would)
    if objection:
        hold = Hold(HoldKind.REFUSED, objection)
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, (*evidence, *details))
    change = _change(wish, missing, would, context)
    return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, evidence, (change,))


def _objection(wish: Wish, missing: tuple[str, ...], would: apt.Transaction) -> str:
    """Why apt must not do what it would do; empty where it may."""
    if would.error:
        return f"apt-get would fail: {would.error}"
    kept = [name for name in missing if name not in would.after]
    if kept:
        return f"apt would not install {', '.join(kept)}"
    allowed = tuple(wish.fields.get("may_remove", ()))
    foreign = [step.name for step in would.removed if not step.name.startswith(allowed)]
    if foreign:
        return f"apt would remove {', '.join(foreign)}"
    dkms = [step.name for step in would.steps if _BUILDS.search(step.name) and step.after]
    if dkms and not wish.fields.get("allow_dkms", False):
        return f"it would compile kernel modules on this host ({', '.join(dkms)}), which is not allowed"
    coupled = {name: would.after[name] for name in wish.fields.get("one_version", ()) if name in would.after}
    if len({apt.upstream(version) for version in coupled.values()}) > 1:
        found = ", ".join(f"{name} {version}" for name, version in coupled.items())
        return f"these must have one version, and the archive has {found}"
    return ""


def _change(wish: Wish, missing: tuple[str, ...], would: apt.Transaction, context: Context) -> Change:
    along = tuple(name for name in would.after if name not in missing)
    removed = tuple(step.name for step in would.removed)
    before, after = _value(would.before), _value(would.after)
    new = [name for name in would.after if name not in would.before]
    reversible = f"yes: removes exactly these {len(new)} packages again, and their configuration files stay"
    if would.before:
        reversible += f"; {', '.join(would.before)} only as far as an archive still has the old version"
    return Change(
        Address("package-set", set_name(missing, along, removed)),
        action_between(before, after),
        before,
        after,
        wish.rule,
        context.risk,
        context.disturbs,
        Activation(wish.fields.get("activation", "now")),
        reversible,
        f"apt-get installs {', '.join(missing)}",
        details=apt.describe(would),
    )


def _settled(writer: Writer, change: Change, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The operands with which apt-get does exactly this change now. Raises Conflict where it would do something else.

    A package that is named becomes marked as wanted by hand (apt-mark(8)), so what only comes along is named in a
    second try alone: an older version does not come by itself.
    """
    asked, along, removed = split_set(change.address.name)
    gone = tuple(f"{name}-" for name in (*asked, *along, *removed) if name in before and name not in after)
    wanted = _changed(before, after), _changed(after, before)
    tries = dict.fromkeys((
        (*_exact((*asked, *removed), after), *gone),
        (*_exact((*asked, *(name for name in along if name in before), *removed), after), *gone),
    ))  # fmt: skip
    would = apt.Transaction(())
    for operands in filter(None, tries):
        would = _ask(writer, operands)
        if not would.error and (would.before, would.after) == wanted:
            return operands
    if would.error:
        raise Refused(f"apt-get: {would.error}", hint=_REPAIR)
    raise Conflict(f"apt would now do something else: {_difference(would, after)}", hint="run the plan again")


def _exact(names: tuple[str, ...], versions: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={versions[name]}" for name in names if name in versions)


def _ask(reader: Reader, operands: tuple[str, ...]) -> apt.Transaction:
    answer = reader.query(apt.simulation(operands), timeout_s=apt.LOOK_TIMEOUT_S)
    if isinstance(answer, Unreadable):
        raise Refused(f"apt-get: {answer.reason}")
    if isinstance(answer, Absent):
        raise Refused("apt-get is not installed")
    return apt.parse(apt.relevant(answer.text) if answer.status == 0 else apt.errors(answer.errors, answer.status))


def _enter(writer: Writer, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """No dpkg works on an overlay: enter in its database what dpkg would enter."""
    database = writer.read(DATABASE)
    if not isinstance(database, bytes):
        raise Refused(f"{DATABASE} cannot be read")
    gone = tuple(f"Package: {name}\n".encode() for name in {**before, **after})
    kept = [one for one in database.strip(b"\n").split(b"\n\n") if not (one + b"\n").startswith(gone)]
    new = [f"Package: {n}\nStatus: install ok installed\nVersion: {version}".encode() for n, version in after.items()]
    writer.replace(DATABASE, FileValue(b"\n\n".join((*kept, *new)) + b"\n"), expected=database)


def _changed(versions: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in versions.items() if other.get(name) != version}


def _difference(would: apt.Transaction, after: Mapping[str, str]) -> str:
    return "; ".join(line for line in apt.describe(would) if line.split()[1] not in after) or "; ".join(
        apt.describe(would)
    )


def _versions(value: Value) -> dict[str, str]:
    pairs = (one.partition("=") for one in value) if isinstance(value, tuple) else ()
    return {name: version for name, _, version in pairs}


def _value(versions: Mapping[str, str]) -> Value:
    return tuple(sorted(f"{name}={version}" for name, version in versions.items())) or ABSENT


def _words(value: Value) -> str:
    if isinstance(value, Unreadable):
        return value.reason
    return ", ".join(value) if isinstance(value, tuple) else "none of them is installed"


WISHES = (PackagesWish("packages"), PackagesWish("package"))
ADDRESSES = (PackageSetAddress(), SimulationAddress())
