"""What rule, profile and policy files may hold, described once: the checks and the JSON Schemas both come from here."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hosttune.engine.policy import param_faults
from hosttune.engine.schema import (
    AnyOf,
    Boolean,
    Date,
    FirstKey,
    Id,
    ListOf,
    MapOf,
    Number,
    OrExpression,
    Scalar,
    String,
    Table,
    check,
    json_schema,
    nearest,
    of_type,
)
from hosttune.errors import Fault
from hosttune.resources import wish_kinds
from hosttune.resources.base import NUMERIC
from hosttune.values import Disturbs, Risk

if TYPE_CHECKING:
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.document import Document
    from hosttune.engine.schema import Spec
    from hosttune.resources.base import WishKind

RISKS = String(
    choices=tuple(risk.value for risk in Risk), help="What the operator may lose: throughput, a service, a boot"
)
DISTURBS = String(choices=tuple(word.value for word in Disturbs), help="Whom the change disturbs while it is made")

WAIVER = Table(
    {
        "rule": Id(help="The rule that is waived"),
        "reason": String(help="Why; it is shown in every report"),
        "until": Date(help="The last day of the waiver (YYYY-MM-DD); after it the rule counts again"),
    },
    required=("rule",),
)

DATA_MOUNT = Table(
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
            String(pattern=r"[^,\s\"\\]+", form="discard (one option, without comma, blank, quote or backslash)"),
            help="Mount options; noatime unless given",
        ),
    },
    required=("source", "target"),
)

POLICY = Table(
    {
        "profile": String(help="The rules that run by default (see: hosttune profiles)"),
        "select": ListOf(Id(), help="Rules to run besides those of the profile"),
        "ignore": ListOf(AnyOf((Id(), WAIVER)), help="Rules that are not to be acted on"),
        "params": MapOf(MapOf(Scalar()), keys=Id(), help="Values for the parameters of rules"),
        "max_risk": RISKS,
        "disturb": DISTURBS,
        "data_mounts": ListOf(DATA_MOUNT, help="Disks to mount (rule storage-data-mounts)"),
    },
    help="The choices of an administrator for one host or many",
)

PROFILE = Table(
    {"id": Id(), "title": String(), "why": String(), "rules": ListOf(Id(), least=1)}, required=("id", "title", "rules")
)

PARAM = Table(
    {
        "type": String(choices=("int", "float", "str", "bool", "list")),
        "default": Scalar(help="Its value where no policy sets one"),
        "minimum": Number(),
        "maximum": Number(),
        "choices": ListOf(Scalar()),
        "help": String(help="What it means, with its unit"),
    },
    required=("type", "default", "help"),
)


@cache
def rule_shape() -> Table:
    """The shape of a rule file; what a wish may hold comes from the resources."""
    expression = String(help="An expression over facts and parameters")
    return Table(
        {
            "id": Id(help="The file name: <domain>-<the tunable or concern>, no verb"),
            "title": String(help="One line, what will be so"),
            "risk": RISKS,
            "disturbs": DISTURBS,
            "since": String(help="The version of hosttune that brought it"),
            "verified": String(choices=("docs", "vm", "hardware"), help="How far it is verified"),
            "gain": String(help="The expected gain in plain words, also `none`"),
            "why": String(help="Why, with the figures and when it does not pay"),
            "sources": ListOf(String(), least=1, help="Where the facts come from"),
            "choice": String(pattern=r"[a-z][a-z0-9_]*", help="A decision of hosttune/choices/"),
            "applies_when": ListOf(
                Table(
                    {"if": AnyOf((expression, Boolean())), "else": String(help="Why not, as a sentence")},
                    required=("if", "else"),
                )
            ),
            "for_each": String(help="A list of things; each is `item`"),
            "params": MapOf(PARAM, keys=String(pattern=r"[a-z][a-z0-9_]*", form="lower_case_words")),
            "want": ListOf(FirstKey({name: _wish(kind) for name, kind in wish_kinds().items()}), least=1),
            "expect": ListOf(
                Table(
                    {
                        "if": expression,
                        "else": String(help="What does not hold"),
                        "do": String(help="What a person should do"),
                    },
                    required=("if", "else"),
                ),
                least=1,
            ),
        },
        required=("id", "title", "risk", "disturbs", "since", "gain", "why", "sources"),
        one_of=(("want", "expect"),),
        help="One rule of hosttune",
    )


def _wish(kind: WishKind) -> Table:
    name = AnyOf((String(), ListOf(String(), least=1))) if kind.kind == "packages" else String()
    fields: dict[str, Spec] = {kind.kind: name}
    for key, spec in kind.fields.items():
        fields[key] = OrExpression(of_type(spec.type, choices=spec.choices, help=spec.help))
    number = OrExpression(of_type(int))
    fields |= {operator.value: number if operator in NUMERIC else Scalar() for operator in kind.operators}
    return Table(fields, required=tuple(key for key, spec in kind.fields.items() if spec.required))


def policy_faults(document: Document, catalog: Catalog) -> list[Fault]:
    """What is wrong with a policy: its shape, the rules and profiles it names, the parameters it sets."""
    if document.data is None:
        return []
    faults = check(document, POLICY)
    if faults:
        return faults
    data = document.data
    named = [(f"select[{i}]", name) for i, name in enumerate(data.get("select", []))]
    named += [
        (f"ignore[{i}]", entry if isinstance(entry, str) else entry["rule"])
        for i, entry in enumerate(data.get("ignore", []))
    ]
    named += [(f"params.{name}", name) for name in data.get("params", {})]
    rules = tuple(catalog.rules)
    faults += [
        Fault(document.where(path), f"no rule is called {name}", nearest(name, rules))
        for path, name in named
        if name not in rules
    ]
    profile = data.get("profile", "base")
    if profile not in catalog.profiles:
        faults.append(
            Fault(
                document.where("profile"), f"no profile is called {profile}", nearest(profile, tuple(catalog.profiles))
            )
        )
    for rule, values in data.get("params", {}).items():
        if rule in rules:
            faults += _param_faults(document, catalog, rule, values)
    return sorted(faults, key=lambda fault: fault.where.line)


def _param_faults(document: Document, catalog: Catalog, rule: str, values: dict[str, Any]) -> list[Fault]:
    params = catalog.rules[rule].params
    faults = []
    for name, value in values.items():
        where = document.where(f"params.{rule}.{name}")
        if name in params:
            faults += param_faults(where, params[name], value)
        else:
            hint = nearest(name, tuple(params)) if params else f"{rule} has no parameters"
            faults.append(Fault(where, "unknown parameter", hint))
    return faults


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schemas for editors, by file name in hosttune/schemas/."""
    return {
        "policy.json": json_schema(POLICY, title="hosttune policy", description="/etc/hosttune/policy.yaml"),
        "rule.json": json_schema(rule_shape(), title="hosttune rule", description="/etc/hosttune/rules.d/*.yaml"),
    }
