"""A rule as a value, and how it is built from its YAML document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from hosttune.engine.expressions.expression import (
    Expression,
    Text,
    compile_expression,
    compile_text,
)
from hosttune.errors import Fault
from hosttune.frozen import frozen
from hosttune.resources import wish_kinds
from hosttune.resources.base import Operator
from hosttune.values import Disturbs, Risk

if TYPE_CHECKING:
    from hosttune.engine.rules.document import YamlFile
    from hosttune.errors import Where
    from hosttune.facts import Facts

OPERATORS = tuple(operator.value for operator in Operator)
WORDS = ("message", "do", "fault")  # of every wish: what a rule says of a difference itself


@frozen
class Param:
    """A number or word that a policy may set for a rule."""

    name: str
    type: str  # int | float | str | bool | list
    default: Any
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] = ()
    help: str = ""
    selected: Any = None  # the default in a policy that selects the rule; None: no other one


class Status(str, Enum):
    """Where a rule is: a preview may still change and runs only when it is named; a deprecated one
    will go.
    """

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"

    def __str__(self) -> str:
        return str(self.value)


@frozen
class Guard:
    """One condition of `applies_when`, and the sentence for a report when it does not hold."""

    condition: Expression
    otherwise: Text


@frozen
class WishSpec:
    """One wish as it is written: name, fields and bounds may hold expressions."""

    kind: str
    name: Text | Listing
    fields: Mapping[str, Written]
    bounds: tuple[tuple[Operator, Written], ...]
    message: Written | None = None  # the rule's own words for a difference
    todo: Written | None = None  # what a person should do about it
    fault: Written | None = None  # whether the machine does not do its work where it differs

    @property
    def parts(self) -> tuple[Any, ...]:
        """Everything that may hold an expression."""
        own = (part for part in (self.message, self.todo, self.fault) if part)
        return (self.name, *self.fields.values(), *(value for _, value in self.bounds), *own)


@frozen
class Literal:
    """A value that holds no expression."""

    value: Any
    subjects: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()

    def evaluate(self, names: Mapping[str, object]) -> Any:  # noqa: ARG002 - evaluates like a Text
        return self.value


@frozen
class Record:
    """A mapping of values, such as the `vars` of a template."""

    values: Mapping[str, Text | Literal]

    @property
    def subjects(self) -> frozenset[str]:
        return frozenset[str]().union(*(value.subjects for value in self.values.values()))

    @property
    def units(self) -> frozenset[str]:
        return frozenset[str]().union(*(value.units for value in self.values.values()))

    def evaluate(self, names: Mapping[str, object]) -> dict[str, Any]:
        return {key: value.evaluate(names) for key, value in self.values.items()}


@frozen
class Listing:
    """A list of values, such as names of packages."""

    values: tuple[Text | Literal, ...]

    @property
    def subjects(self) -> frozenset[str]:
        return frozenset[str]().union(*(value.subjects for value in self.values))

    @property
    def units(self) -> frozenset[str]:
        return frozenset[str]().union(*(value.units for value in self.values))

    @property
    def source(self) -> str:
        return " ".join(
            str(getattr(value, "source", getattr(value, "value", ""))) for value in self.values
        )

    def evaluate(self, names: Mapping[str, object]) -> tuple[Any, ...]:
        return tuple(value.evaluate(names) for value in self.values)


@frozen
class Expectation:
    """What should hold, what to say when it does not, and what a person should do then."""

    condition: Expression
    message: Text
    todo: Text | None = None
    # whether the machine does not do its work then; else it is advice
    fault: Expression | Literal | None = None
    # whether a boot before it is solved makes it worse
    blocks_reboot: Expression | Literal | None = None
    # whether it is a fault that the next boot mends
    waits_for_reboot: Expression | Literal | None = None
    # whether the machine works, but slower, or not for long
    impairs: Expression | Literal | None = None
    yields_to: str = ""  # the rule whose finding of the same subject is shown instead

    @property
    def parts(self) -> tuple[Any, ...]:
        """Everything that may hold an expression."""
        questions = (self.fault, self.blocks_reboot, self.waits_for_reboot, self.impairs)
        every = (self.condition, self.message, self.todo, *questions)
        return tuple(part for part in every if part)


Written: TypeAlias = "Text | Literal | Record | Listing"


@frozen
class Rule:
    """One rule. `want` converges, `expect` advises; which rules run is the business of profiles and
    policy.
    """

    id: str
    title: str
    risk: Risk
    disturbs: Disturbs
    since: str
    verified: str
    gain: str
    why: str
    sources: tuple[str, ...]
    choice: str
    applies_when: tuple[Guard, ...]
    for_each: Expression | None
    none: str  # why it does not apply to a host of which that gives nothing
    params: Mapping[str, Param]
    want: tuple[WishSpec, ...]
    expect: tuple[Expectation, ...]
    where: Where
    is_builtin: bool = True
    status: Status = Status.STABLE
    exposes: str = ""  # security | data: what it weakens; such a rule has risk high
    replaces: str = ""  # of a custom rule: the built-in one whose place it takes
    content: str = ""  # of a custom rule: sha256 over what it says
    replaced_by: str = ""  # of a deprecated rule
    renamed_from: tuple[str, ...] = ()
    subjects: frozenset[str] = field(default_factory=frozenset)
    units: frozenset[str] = field(default_factory=frozenset)

    @property
    def domain(self) -> str:
        return self.id.partition("-")[0]

    @property
    def tells_faults(self) -> bool:
        """Whether it may say that the machine does not do its work, or must not be booted."""
        return self.can_fault or self.can_block_reboot

    @property
    def can_block_reboot(self) -> bool:
        """Whether it may say that a boot makes it worse."""
        return any(one.blocks_reboot for one in self.expect)

    @property
    def can_drain(self) -> bool:
        """Whether what it finds can keep the machine from all work, and not impair it alone."""
        always = Literal(True)  # it impairs, whatever is found
        return any(wish.fault for wish in self.want) or any(
            one.fault and one.impairs != always for one in self.expect
        )

    @property
    def tells_health(self) -> bool:
        """Whether it may say that the machine does not do its work, or does it badly: `hosttune
        health` asks it.
        """
        return self.can_fault or any(one.impairs for one in self.expect)

    @property
    def defaults(self) -> dict[str, Any]:
        return self.defaults_in(is_selected=False)

    def defaults_in(self, *, is_selected: bool) -> dict[str, Any]:
        """The defaults in a policy that selects the rule by its name, or only runs it with a
        profile.
        """
        return {
            name: param.default if param.selected is None or not is_selected else param.selected
            for name, param in self.params.items()
        }

    @property
    def can_fault(self) -> bool:
        """Whether what it finds can mean that the machine does not do its work."""
        return any(wish.fault for wish in self.want) or any(one.fault for one in self.expect)

    def choose(self, facts: Facts, params: Mapping[str, Any]) -> Any:
        """The result of this rule's choice (hosttune/choices/)."""
        return choice_module(self.choice).choose(facts, params)


def choice_module(name: str) -> Any:
    return import_module(f"hosttune.choices.{name}")


def build_rule(document: YamlFile, *, is_builtin: bool) -> Rule:
    """Build a rule from a document that `engine.lint` accepts (or that was accepted when the wheel
    was built).
    """
    data = document.data

    def text(path: str, value: object) -> Text:
        return compile_text(str(value), document.where(path))

    def plain(path: str, raw: object) -> Text | Literal:
        return text(path, raw) if isinstance(raw, str) else Literal(raw)

    def value(path: str, raw: object) -> Written:
        if isinstance(raw, dict):
            return Record({key: plain(f"{path}.{key}", one) for key, one in raw.items()})
        if isinstance(raw, list):
            return Listing(tuple(plain(f"{path}[{number}]", one) for number, one in enumerate(raw)))
        return plain(path, raw)

    def question(path: str, raw: object) -> Expression | Literal | None:
        if raw is None:
            return None
        return (
            compile_expression(raw, document.where(path)) if isinstance(raw, str) else Literal(raw)
        )

    guards = tuple(
        Guard(
            compile_expression(entry["if"], document.where(f"applies_when[{i}].if")),
            text(f"applies_when[{i}].else", entry["else"]),
        )
        for i, entry in enumerate(data.get("applies_when", []))
    )
    expect = tuple(
        Expectation(
            compile_expression(entry["if"], document.where(f"expect[{i}].if")),
            text(f"expect[{i}].else", entry["else"]),
            text(f"expect[{i}].do", entry["do"]) if "do" in entry else None,
            question(f"expect[{i}].fault", entry.get("fault")),
            question(f"expect[{i}].blocks_reboot", entry.get("blocks_reboot")),
            question(f"expect[{i}].waits_for_reboot", entry.get("waits_for_reboot")),
            question(f"expect[{i}].impairs", entry.get("impairs")),
            entry.get("yields_to", ""),
        )
        for i, entry in enumerate(data.get("expect", []))
    )
    want = tuple(_wish_spec(i, entry, value) for i, entry in enumerate(data.get("want", [])))
    for_each = (
        compile_expression(data["for_each"], document.where("for_each"))
        if "for_each" in data
        else None
    )
    params = {name: param_of(name, spec) for name, spec in (data.get("params") or {}).items()}
    parts: list[Any] = [for_each] if for_each else []
    parts += [part for guard in guards for part in (guard.condition, guard.otherwise)]
    parts += [part for one in expect for part in one.parts]
    parts += [part for spec in want for part in spec.parts]
    choice = data.get("choice", "")
    asks = document.asks or _find_asked_names(parts, want, choice)
    return Rule(
        id=data["id"],
        title=data["title"],
        risk=Risk(data["risk"]),
        disturbs=Disturbs(data["disturbs"]),
        since=str(data["since"]),
        verified=data.get("verified", "docs"),
        gain=data["gain"],
        why=data["why"],
        sources=tuple(data["sources"]),
        choice=choice,
        applies_when=guards,
        for_each=for_each,
        none=data.get("none", "this host has nothing that this rule checks"),
        params=params,
        want=want,
        expect=expect,
        where=document.where(""),
        is_builtin=is_builtin,
        status=Status(data.get("status", "stable")),
        exposes=data.get("exposes", ""),
        replaces=data.get("replaces", ""),
        content="" if is_builtin else _read_content(data),
        replaced_by=data.get("replaced_by", ""),
        renamed_from=tuple(data.get("renamed_from", ())),
        subjects=frozenset(asks["subjects"]),
        units=frozenset(asks["units"]),
    )


def _read_content(data: object) -> str:
    import hashlib
    import json

    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def _find_asked_names(
    parts: list[Any], want: tuple[WishSpec, ...], choice: str
) -> Mapping[str, Iterable[str]]:
    """The fact subjects that these parts of a rule use, and the units that they and its choice ask
    systemd for.
    """
    of_choice = getattr(choice_module(choice), "UNITS", ()) if choice else ()
    return {
        "subjects": frozenset[str]().union(*(part.subjects for part in parts))
        - {"params", "policy", "item", "choice"},
        "units": frozenset[str]().union(
            *(part.units for part in parts),
            {spec.name.source for spec in want if wish_kinds()[spec.kind].is_unit},
            of_choice,
        ),
    }


def _wish_spec(index: int, entry: Mapping[str, Any], value: Any) -> WishSpec:
    kind = next(iter(entry))
    rest = {key: value(f"want[{index}].{key}", raw) for key, raw in entry.items() if key != kind}
    name = value(
        f"want[{index}].{kind}", entry[kind] if isinstance(entry[kind], list) else str(entry[kind])
    )
    bounds = tuple((Operator(key), rest[key]) for key in OPERATORS if key in rest)
    fields = {key: one for key, one in rest.items() if key not in OPERATORS and key not in WORDS}
    return WishSpec(
        kind, name, fields, bounds, rest.get("message"), rest.get("do"), rest.get("fault")
    )


def param_of(name: str, spec: Mapping[str, Any]) -> Param:
    return Param(
        name,
        spec["type"],
        spec["default"],
        spec.get("minimum"),
        spec.get("maximum"),
        tuple(spec.get("choices", ())),
        spec.get("help", ""),
        spec.get("selected"),
    )


def param_faults(where: Where, param: Param, value: Any) -> list[Fault]:
    """What is wrong with a value that a policy gives a parameter."""
    types: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "bool": (bool,),
        "list": (list,),
    }
    if not isinstance(value, types[param.type]) or (
        isinstance(value, bool) and param.type != "bool"
    ):
        return [Fault(where, f"{value!r} is not of type {param.type}", param.help)]
    if param.choices and value not in param.choices:
        return [
            Fault(
                where, f"{value!r} is not one of {', '.join(map(str, param.choices))}", param.help
            )
        ]
    if param.minimum is not None and isinstance(value, int | float) and value < param.minimum:
        return [Fault(where, f"{value} is below the minimum {param.minimum}", param.help)]
    if param.maximum is not None and isinstance(value, int | float) and value > param.maximum:
        return [Fault(where, f"{value} is above the maximum {param.maximum}", param.help)]
    return []
