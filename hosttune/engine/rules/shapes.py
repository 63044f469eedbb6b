"""What rule, profile and policy files may hold, described once: the checks and the JSON Schemas
both come from here.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from hosttune.engine.rules.gone import GONE
from hosttune.engine.rules.rule import Status, param_faults
from hosttune.engine.rules.schema import (
    AnyOf,
    Boolean,
    Date,
    FirstKey,
    Id,
    Integer,
    ListOf,
    MapOf,
    Number,
    OrExpression,
    Scalar,
    String,
    TableSpec,
    check,
    json_schema,
    of_type,
    suggest_nearest,
)
from hosttune.engine.trial_terms import span_s
from hosttune.errors import MOST_FAULTS, Fault, HosttuneError
from hosttune.resources import wish_kinds
from hosttune.resources.base import NUMERIC
from hosttune.values import Confirmer, Disturbs, Risk

if TYPE_CHECKING:
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.document import YamlFile
    from hosttune.engine.rules.schema import ValueSpec
    from hosttune.errors import Where
    from hosttune.resources.base import WishKind

RISKS = String(
    choices=tuple(risk.value for risk in Risk),
    help="What the operator may lose: throughput, a service, a boot",
)
DISTURBS = String(
    choices=tuple(word.value for word in Disturbs), help="Whom the change disturbs while it is made"
)
DISTURBS_OF_POLICY = String(
    choices=(*DISTURBS.choices, *(one.word for one in Disturbs if one.word != one.value)),
    help=DISTURBS.help,
)  # and as --disturb takes it

WAIVER = TableSpec(
    {
        "rule": Id(help="The rule that is waived"),
        "subject": String(
            is_glob=True,
            help="What of it alone: a mount point, a key, a device; a pattern such as /scratch*",
        ),
        "reason": String(help="Why; it is shown in every report"),
        "owner": String(help="Who answers for it"),
        "until": Date(
            help="The last day of the waiver (YYYY-MM-DD); after it the finding counts again"
        ),
    },
    required=("rule", "reason"),
)
_EDITION = {"edition": AnyOf((String(), Number()))}  # of policies and rules for hosttune up to 0.2

DATA_MOUNT = TableSpec(
    {
        "source": String(
            pattern=r"(UUID|LABEL|PARTUUID|PARTLABEL)=[^\s\"]+|/dev/[^\s\"]+",
            form="UUID=..., LABEL=..., PARTUUID=..., PARTLABEL=... or /dev/...",
            help="The device (see: hosttune disks)",
        ),
        "target": String(
            pattern=r"(/[A-Za-z0-9_.@:+-]+)+",
            form="/scratch (letters, digits and _ . @ : + - alone)",
            help="Where to mount it; the folder is made when it is missing",
        ),
        "fstype": String(pattern=r"[a-z0-9]+", form="ext4", help="Refuse anything else"),
        "options": ListOf(
            String(
                pattern=r"[^,;\s\"\\]+",
                form="discard (one option, without , ; blank, quote or backslash)",
            ),
            help="Mount options; noatime unless given",
        ),
    },
    required=("source", "target"),
)

CONFIRM = TableSpec(
    {
        "within": String(
            pattern=r"[1-9][0-9]{0,5}[smh]",
            form="15m (2m to 24h)",
            help="The time to confirm what is on trial",
        ),
        "by": String(
            choices=tuple(word.value for word in Confirmer),
            help="Who confirms: operator, or health as well",
        ),
        "boot": Boolean(
            help="Whether what takes effect at the next boot is on trial there; true unless given"
        ),
    },
    required=("within",),
    help="What apply changes is rolled back unless it is confirmed (as --confirm-within)",
)

PARAMS = MapOf(MapOf(Scalar()), keys=Id(), help="Values for the parameters of rules")
AT_BOOT = TableSpec(
    {
        "plans": String(
            choices=("approved", "all"), help="all: whatever the policy allows (approved)"
        ),
        "digests": ListOf(
            String(pattern=r"[0-9a-f]{12,64}", form="the digest of a plan, 12 digits or more"),
            help="Approved here, besides those of /etc/hosttune/approved",
        ),
        "reboot": String(
            choices=("once", "never"),
            help="Whether a boot may follow that what was set up needs (once)",
        ),
        "on_failure": String(
            choices=("hold", "go"), help="Whether work starts where it is not as approved (hold)"
        ),
    },
    help="What `hosttune ready` does at a boot, before this host takes work",
)
CHOICES: dict[str, ValueSpec] = {
    "profile": String(help="The rules that run by default (see: hosttune profiles)"),
    "select": ListOf(Id(), help="Rules to run besides those of the profile"),
    "ignore": ListOf(
        AnyOf((Id(), WAIVER)), help="Rules that are off, by id alone; or waivers, with their reason"
    ),
    "params": PARAMS,
    "max_risk": RISKS,
    "disturb": DISTURBS_OF_POLICY,
    "confirm": CONFIRM,
    "data_mounts": ListOf(DATA_MOUNT, help="Disks to mount (rule storage-data-mounts)"),
    "drain_for": ListOf(
        Id(),
        help="Rules for which `hosttune health` calls a node unfit though it only works slower",
    ),
    "no_drain_for": ListOf(
        Id(), help="Rules for which it does not, though the node does not do its work"
    ),
    "at_boot": AT_BOOT,
    "keep_reports": Integer(
        0, 1000, help="Days of which the daily check keeps a report for `hosttune diff` (90)"
    ),
}
HOSTS = MapOf(
    TableSpec(CHOICES, gone=_EDITION),
    keys=String(is_glob=True),
    help="Host name patterns, each with what holds there alone; all that fit are read in order, "
    "the last word wins",
)
POLICY = TableSpec(
    {**CHOICES, "hosts": HOSTS},
    gone=_EDITION,
    help="The choices of an administrator for one host or many",
)

IN_PROFILE = ListOf(Id(), help="Rules by id")
PROFILE = TableSpec(
    {
        "id": Id(),
        "title": String(),
        "why": String(),
        "extends": Id(help="The profile whose rules and parameters this one takes over"),
        "rules": IN_PROFILE,
        "without": IN_PROFILE,
        "params": PARAMS,
    },
    required=("id", "title", "why"),
)

PARAM = TableSpec(
    {
        "type": String(choices=("int", "float", "str", "bool", "list")),
        "default": Scalar(help="Its value where no policy sets one"),
        "minimum": Number(),
        "maximum": Number(),
        "choices": ListOf(Scalar()),
        "help": String(help="What it means, with its unit"),
        "selected": Scalar(help="The default where the policy selects the rule by name"),
    },
    required=("type", "default", "help"),
    gone={"was": MapOf(Scalar(), keys=String())},
)


_FAULT = (
    "This machine does not do its work then, or will not after the next boot: it counts, and "
    "stands first"
)
_IMPAIRS = (
    "This machine does its work, but slower, or not for long (a fault: up to a boot): impaired in "
    "`hosttune health`"
)
WORDED: dict[str, ValueSpec] = {
    "message": String(help="What a report says where it differs, in words of your own"),
    "do": String(help="What a person should do where it differs"),
    "fault": OrExpression(Boolean(help=_FAULT)),
}


@cache
def rule_shape() -> TableSpec:
    """The shape of a rule file; what a wish may hold comes from the resources."""
    expression = String(help="An expression over facts and parameters")
    return TableSpec(
        {
            "id": Id(help="The file name: <domain>-<the tunable or concern>, no verb"),
            "title": String(help="What the rule judges, as a noun phrase on one line"),
            "risk": RISKS,
            "disturbs": DISTURBS,
            "since": String(help="The version of hosttune that brought it"),
            "verified": String(choices=("docs", "vm", "hardware"), help="How far it is verified"),
            "gain": String(help="The expected gain in plain words, also `none`"),
            "why": String(help="Why, with the figures and when it does not pay"),
            "status": String(
                choices=tuple(word.value for word in Status),
                help="A preview runs only where a policy names it",
            ),
            "exposes": String(
                choices=("security", "data"), help="What it weakens; such a rule has risk high"
            ),
            "replaces": Id(help="Of a custom rule: the built-in one whose place it takes"),
            "replaced_by": Id(help="Of a deprecated rule: the one to use"),
            "renamed_from": ListOf(Id(), help="What it was called"),
            "sources": ListOf(String(), least=1, help="Where the facts come from"),
            "choice": String(pattern=r"[a-z][a-z0-9_]*", help="A decision of hosttune/choices/"),
            "applies_when": ListOf(
                TableSpec(
                    {
                        "if": AnyOf((expression, Boolean())),
                        "else": String(help="Why not, as a sentence"),
                    },
                    required=("if", "else"),
                )
            ),
            "for_each": String(help="A list of things; each is `item`"),
            "none": String(
                help="Why the rule does not apply to a host for which that list is empty"
            ),
            "params": MapOf(
                PARAM, keys=String(pattern=r"[a-z][a-z0-9_]*", form="lower_case_words")
            ),
            "want": ListOf(FirstKey(_Wishes()), least=1),
            "expect": ListOf(
                TableSpec(
                    {
                        "if": expression,
                        "else": String(help="What does not hold"),
                        "do": String(help="What a person should do"),
                        "fault": AnyOf((expression, Boolean(help=_FAULT))),
                        "blocks_reboot": AnyOf(
                            (expression, Boolean(help="A boot before it is solved makes it worse"))
                        ),
                        "waits_for_reboot": AnyOf(
                            (expression, Boolean(help="It is a fault that the next boot mends"))
                        ),
                        "impairs": AnyOf((expression, Boolean(help=_IMPAIRS))),
                        "yields_to": Id(
                            help="A rule: what it finds of the same subject is shown instead"
                        ),
                    },
                    required=("if", "else"),
                ),
                least=1,
            ),
        },
        required=("id", "title", "risk", "disturbs", "since", "gain", "why", "sources"),
        one_of=(("want", "expect"),),
        gone=_EDITION,
        help="One rule of hosttune",
    )


class _Wishes(Mapping[str, TableSpec]):
    """What each kind of wish takes; a rule asks for its own alone, so that no other kind is
    imported.
    """

    def __getitem__(self, name: str) -> TableSpec:
        return _make_wish_spec(wish_kinds()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(wish_kinds())

    def __len__(self) -> int:
        return len(wish_kinds())


def _make_wish_spec(kind: WishKind) -> TableSpec:
    name = AnyOf((String(), ListOf(String(), least=1))) if kind.takes_list else String()
    fields: dict[str, ValueSpec] = {kind.kind: name}
    for key, spec in kind.fields.items():
        fields[key] = OrExpression(of_type(spec.type, choices=spec.choices, help=spec.help))
    number = OrExpression(of_type(int))
    fields |= {
        operator.value: number if operator in NUMERIC else Scalar() for operator in kind.operators
    }
    return TableSpec(
        fields | WORDED, required=tuple(key for key, spec in kind.fields.items() if spec.required)
    )


def policy_faults(document: YamlFile, catalog: Catalog) -> list[Fault]:
    """What is wrong with a policy: its shape, the rules and profiles it names, the parameters it
    sets; also in the sections of other hosts.
    """
    if document.data is None:
        return []
    faults = check(document, POLICY)
    if faults:
        return faults
    data = document.data
    sections = [("", data)] + [
        (f"hosts.{name}.", section) for name, section in data.get("hosts", {}).items()
    ]
    for prefix, section in sections:
        faults += _section_faults(document, catalog, prefix, section)
    faults += _mount_faults(document, sections)
    return sorted(faults, key=lambda fault: fault.where.line)


def _mount_faults(document: YamlFile, sections: list[tuple[str, dict[str, Any]]]) -> list[Fault]:
    """What is wrong with the disks to mount; a host takes the list of a section that fits beside
    that of all hosts.
    """
    if not any("data_mounts" in section for _, section in sections):
        return []
    from hosttune.engine.rules.declared import doubled_faults, option_faults

    of_all: dict[tuple[str, str], Where] = {}
    doubled = [*doubled_faults(document, sections[:1], of_all)]
    doubled += [
        fault
        for one in sections[1:]
        for fault in doubled_faults(document, [one], ChainMap({}, of_all))
    ]
    return [*doubled, *(fault for one in sections for fault in option_faults(document, one))]


def _section_faults(
    document: YamlFile, catalog: Catalog, prefix: str, data: dict[str, Any]
) -> list[Fault]:
    drains = [
        (f"{prefix}{key}[{i}]", name)
        for key in ("drain_for", "no_drain_for")
        for i, name in enumerate(data.get(key, []))
    ]
    named = [
        (f"{prefix}select[{i}]", name) for i, name in enumerate(data.get("select", []))
    ] + drains
    named += [
        (f"{prefix}ignore[{i}]", entry if isinstance(entry, str) else entry["rule"])
        for i, entry in enumerate(data.get("ignore", []))
    ]
    named += [(f"{prefix}params.{name}", name) for name in data.get("params", {})]
    faults = rule_name_faults(document, catalog, [one for one in named if one[1] not in GONE])
    faults += [
        Fault(
            document.where(path),
            f"`hosttune health` never asks {name}",
            "it asks rules with `fault:` or `impairs:`",
        )
        for path, name in drains
        if (rule := catalog.rules.get(catalog.current(name))) and not rule.tells_health
    ]
    within = data.get("confirm", {}).get("within")
    if within is not None:
        try:
            span_s(within)
        except HosttuneError as error:
            faults.append(
                Fault(document.where(f"{prefix}confirm.within"), error.message, error.hint)
            )
    profile = data.get("profile", "base")
    if profile not in catalog.profiles:
        where = document.where(f"{prefix}profile")
        faults.append(
            Fault(
                where,
                f"no profile is called {profile}",
                suggest_nearest(profile, tuple(catalog.profiles)),
            )
        )
    for rule, values in data.get("params", {}).items():
        if catalog.current(rule) in catalog.rules:
            faults += _param_faults(document, catalog, prefix, rule, values)
    return faults


def rule_name_faults(
    document: YamlFile, catalog: Catalog, named: list[tuple[str, str]]
) -> list[Fault]:
    """A fault for each (path, rule) whose rule no one knows."""
    rules = tuple(catalog.rules)
    unknown = [(path, name) for path, name in named if catalog.current(name) not in catalog.rules]
    return [
        Fault(
            document.where(path),
            f"no rule is called {name}",
            suggest_nearest(name, rules) if number < MOST_FAULTS else "",
        )
        for number, (path, name) in enumerate(unknown)
    ]


def profile_faults(document: YamlFile, catalog: Catalog) -> list[Fault]:
    """What is wrong with a profile: its shape, the rules it names, the parameters it sets, what it
    extends.
    """
    faults = check(document, PROFILE)
    if faults:
        return faults
    data = document.data
    named = [
        (f"{key}[{i}]", one)
        for key in ("rules", "without")
        for i, one in enumerate(data.get(key, []))
    ]
    faults += rule_name_faults(
        document, catalog, [*named, *((f"params.{rule}", rule) for rule in data.get("params", {}))]
    )
    base = data.get("extends", "base")
    if base not in catalog.profiles:
        faults.append(Fault(document.where("extends"), f"no profile is called {base}"))
    for rule, values in data.get("params", {}).items():
        if rule in catalog.rules:
            faults += _param_faults(document, catalog, "", rule, values)
    return faults


def _param_faults(
    document: YamlFile, catalog: Catalog, prefix: str, rule: str, values: dict[str, Any]
) -> list[Fault]:
    params = catalog.rules[catalog.current(rule)].params
    faults = []
    for name, value in values.items():
        where = document.where(f"{prefix}params.{rule}.{name}")
        if name in params:
            faults += param_faults(where, params[name], value)
        else:
            hint = suggest_nearest(name, tuple(params)) if params else f"{rule} has no parameters"
            faults.append(Fault(where, "unknown parameter", hint))
    return faults


def make_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schemas for editors, by file name in hosttune/schemas/."""
    return {
        "policy.json": json_schema(
            POLICY, title="hosttune policy", description="/etc/hosttune/policy.yaml"
        ),
        "rule.json": json_schema(
            rule_shape(), title="hosttune rule", description="/etc/hosttune/rules.d/*.yaml"
        ),
    }
