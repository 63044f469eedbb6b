"""The policy: what an administrator wants of the rules. `/etc/hosttune/policy.yaml`, or what the command line says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hosttune.errors import BadInput, Fault, HosttuneError, Where
from hosttune.frozen import frozen
from hosttune.values import Disturbs, Finding, Hold, HoldKind, Risk, Verdict

if TYPE_CHECKING:
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.document import Document
    from hosttune.engine.rule import Param, Rule
    from hosttune.host.door import Reader

PATH = "/etc/hosttune/policy.yaml"


@frozen
class Waiver:
    """A rule that is not to be acted on. With `until` (an ISO date) it expires: then the rule counts again."""

    rule: str
    reason: str = ""
    until: str = ""


@frozen
class DataMount:
    """A disk that the site wants mounted, as `data_mounts` of the policy says it."""

    source: str  # UUID=, LABEL=, PARTUUID=, PARTLABEL= or a path below /dev
    target: str
    fstype: str = ""  # empty: whatever is on it
    options: tuple[str, ...] = ("noatime",)


@frozen
class Declared:
    """What a policy says about the host itself; the expressions of rules see it as `policy`."""

    data_mounts: tuple[DataMount, ...] = ()


NOTHING = Declared()


@frozen
class Policy:
    """The choices of an administrator; the defaults are those of a host without a policy file."""

    profile: str = "base"
    select: tuple[str, ...] = ()
    ignore: tuple[Waiver, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_risk: Risk = Risk.MEDIUM
    disturb: Disturbs = Disturbs.NOTHING
    declared: Declared = NOTHING
    source: str = ""
    today: str = ""  # ISO date; waivers expire by it
    sole: str = ""  # the one rule to look at, whatever is selected

    def only(self, rule: str) -> Policy:
        """The same choices for this one rule alone."""
        return replace(self, sole=rule)

    @property
    def digest(self) -> str:
        """sha256 over what the policy says, not over how it is written."""
        said = [
            self.profile, self.select, [(w.rule, w.until) for w in self.ignore],
            {rule: dict(values) for rule, values in self.params.items()}, self.max_risk.value, self.disturb.value,
            [[one.source, one.target, one.fstype, one.options] for one in self.declared.data_mounts],
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def selected(self, catalog: Catalog) -> tuple[Rule, ...]:
        """The rules to look at, by id: the profile's and the selected ones, less those ignored without a date."""
        if self.sole:
            return (catalog.rules[self.sole],)
        wanted = {*catalog.profiles[self.profile].rules, *self.select}
        wanted -= {waiver.rule for waiver in self.ignore if not waiver.until}
        return tuple(catalog.rules[name] for name in sorted(wanted))

    def params_of(self, rule: Rule) -> dict[str, Any]:
        return {**rule.defaults, **self.params.get(rule.id, {})}

    def waive(self, finding: Finding) -> Finding:
        """A finding of a rule that is waived for a time is held; an expired waiver holds nothing and is said."""
        waiver = next((one for one in self.ignore if one.rule == finding.rule and one.until), None)
        if waiver is None or finding.verdict not in {Verdict.DIFFERS, Verdict.ADVICE}:
            return finding
        if waiver.until < self.today:
            return replace(finding, evidence=(*finding.evidence, f"its waiver expired on {waiver.until}"))
        detail = f"until {waiver.until}" + (f": {waiver.reason}" if waiver.reason else "")
        return replace(finding, hold=Hold(HoldKind.WAIVED, detail), changes=())

    def overridden(
        self,
        catalog: Catalog,
        *,
        profile: str | None = None,
        select: tuple[str, ...] = (),
        ignore: tuple[str, ...] = (),
        max_risk: str | None = None,
        disturb: str | None = None,
    ) -> Policy:
        """The policy with what the command line says on top."""
        if profile is not None and profile not in catalog.profiles:
            raise HosttuneError(
                f"no profile is called {profile}", hint=f"there is: {', '.join(sorted(catalog.profiles))}"
            )
        unknown = [name for name in (*select, *ignore) if name not in catalog.rules]
        if unknown:
            raise HosttuneError(
                f"no rule is called {unknown[0]}", hint=nearest(unknown[0], catalog.rules) or "see: hosttune rules"
            )
        return replace(
            self,
            profile=profile or self.profile,
            select=(*self.select, *select),
            ignore=(*self.ignore, *(Waiver(name) for name in ignore)),
            max_risk=Risk(max_risk) if max_risk else self.max_risk,
            disturb=Disturbs(disturb) if disturb else self.disturb,
        )


def nearest(name: str, names: Any) -> str:
    """`did you mean X?` for the nearest of the valid names, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]}?" if close else ""


def load_policy(reader: Reader, catalog: Catalog, path: str | None = None) -> Policy:
    """Read the policy of this host, or the file at `path` on this machine. No file at the usual place: the defaults.

    Raises BadInput with every fault: unknown keys, rules and parameters with the nearest valid name, values out of
    range; and HosttuneError when root would read a file that somebody else can write.
    """
    from hosttune.engine.trusted import read_trusted

    today = datetime.fromtimestamp(reader.now(), timezone.utc).date().isoformat()
    name, text = read_trusted(reader, path or PATH, is_local=path is not None, is_required=path is not None)
    if text is None:
        return Policy(today=today)
    from hosttune.engine.yamlio import load_document

    return build_policy(load_document(text, name), catalog, today)


def build_policy(document: Document, catalog: Catalog, today: str) -> Policy:
    """Check a policy document and build the policy. Raises BadInput with every fault."""
    from hosttune.engine.shapes import policy_faults

    faults = policy_faults(document, catalog)
    if faults:
        raise BadInput(faults)
    data = document.data or {}
    return Policy(
        profile=data.get("profile", "base"),
        select=tuple(data.get("select") or ()),
        ignore=tuple(_waiver(entry) for entry in data.get("ignore") or ()),
        params={rule: dict(values or {}) for rule, values in (data.get("params") or {}).items()},
        max_risk=Risk(data.get("max_risk", "medium")),
        disturb=Disturbs(data.get("disturb", "nothing")),
        declared=Declared(tuple(_data_mount(entry) for entry in data.get("data_mounts") or ())),
        source=document.name,
        today=today,
    )


def _waiver(entry: str | Mapping[str, str]) -> Waiver:
    if isinstance(entry, str):
        return Waiver(entry)
    return Waiver(entry["rule"], entry.get("reason", ""), entry.get("until", ""))


def _data_mount(entry: Mapping[str, Any]) -> DataMount:
    given = {**entry, "options": tuple(entry["options"])} if "options" in entry else dict(entry)
    return DataMount(**given)


def param_faults(where: Where, param: Param, value: Any) -> list[Fault]:
    """What is wrong with a value that a policy gives a parameter."""
    types: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "bool": (bool,),
        "list": (list,),
    }
    if not isinstance(value, types[param.type]) or (isinstance(value, bool) and param.type != "bool"):
        return [Fault(where, f"{value!r} is not of type {param.type}", param.help)]
    if param.choices and value not in param.choices:
        return [Fault(where, f"{value!r} is not one of {', '.join(map(str, param.choices))}", param.help)]
    if param.minimum is not None and isinstance(value, int | float) and value < param.minimum:
        return [Fault(where, f"{value} is below the minimum {param.minimum}", param.help)]
    if param.maximum is not None and isinstance(value, int | float) and value > param.maximum:
        return [Fault(where, f"{value} is above the maximum {param.maximum}", param.help)]
    return []
