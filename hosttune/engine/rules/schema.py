"""What a YAML file of ours may hold: one description checks it, with every fault at once, and makes
its JSON Schema.

    POLICY = TableSpec(
        {
            "profile": String(choices=("base",), help="The rules that run by default"),
            "ignore": ListOf(
                AnyOf((Id(), TableSpec({"rule": Id(), "until": Date()}, required=("rule",))))
            ),
            "params": MapOf(MapOf(Scalar()), keys=Id()),
        },
    )
    faults = check(load_document(text, "policy.yaml"), POLICY)
    schema = json_schema(POLICY, title="hosttune policy")

A fault reads `policy.yaml:3: ignore[0].untill: unknown key` with the nearest valid key as its hint.
What depends on more than the file itself (expressions, known rules) is checked where that is known,
after this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hosttune.engine.rules.schema_values import (
    KEBAB,
    At,
    Boolean,
    Date,
    Id,
    Integer,
    Number,
    Scalar,
    String,
    ValueSpec,
    suggest_nearest,
)
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.engine.rules.document import YamlFile
    from hosttune.errors import Fault

__all__ = [
    "KEBAB",
    "AnyOf",
    "At",
    "Boolean",
    "Date",
    "FirstKey",
    "Id",
    "Integer",
    "ListOf",
    "MapOf",
    "Number",
    "OrExpression",
    "Scalar",
    "String",
    "TableSpec",
    "ValueSpec",
    "check",
    "json_schema",
    "of_type",
    "suggest_nearest",
]


def check(document: YamlFile, spec: ValueSpec) -> list[Fault]:
    """Every fault of the document, in file order."""
    at = At(document, [])
    at.check(document.data, spec)
    return sorted(at.faults, key=lambda fault: fault.where.line)


def json_schema(spec: ValueSpec, *, title: str = "", description: str = "") -> dict[str, Any]:
    """The same description as a JSON Schema (draft 2020-12), for editors."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
    }
    return {key: value for key, value in head.items() if value} | _describe_spec(spec)


def of_type(kind: type, *, choices: tuple[Any, ...] = (), help: str = "") -> ValueSpec:  # noqa: A002 (a field of every spec)
    """The spec for a field declared by a Python type: str, int, float, bool, list (of text), dict
    (of scalars).
    """
    if kind is str:
        return String(choices=choices, help=help)
    if kind is list:
        return ListOf(String(choices=choices), help=help)
    specs: dict[type, ValueSpec] = {
        int: Integer(help=help),
        float: Number(help=help),
        bool: Boolean(help=help),
        dict: MapOf(Scalar(), help=help),
    }
    return specs[kind]


@frozen
class OrExpression:
    """What `spec` takes, or a text with `{{ an expression }}`, whose value is checked where it is
    evaluated.
    """

    spec: ValueSpec

    @property
    def help(self) -> str:
        return self.spec.help

    @property
    def says(self) -> str:
        return f"{self.spec.says} or {{{{ an expression }}}}"

    def takes(self, value: Any) -> bool:
        return _has_expression(value) or self.spec.takes(value)

    def look(self, value: Any, at: At) -> None:
        # Its value is known only on a host, and is checked there (`evaluate._evaluate_field`).
        if not _has_expression(value):
            self.spec.look(value, at)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.spec.schema(), {"type": "string", "pattern": r"\{\{"}]}


@frozen
class ListOf:
    """A list, with at least `least` items."""

    item: ValueSpec
    least: int = 0
    help: str = ""

    @property
    def says(self) -> str:
        return "a list"

    def takes(self, value: Any) -> bool:
        return isinstance(value, list)

    def look(self, value: list[Any], at: At) -> None:
        if len(value) < self.least:
            at.fault(
                "must not be empty" if self.least == 1 else f"needs at least {self.least} items"
            )
        for index, item in enumerate(value):
            at.item(index).check(item, self.item)

    def schema(self) -> dict[str, Any]:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": _describe_spec(self.item)} | least


class _Mapping:
    """What the specs of mappings have in common."""

    __slots__ = ()
    says = "a mapping"

    def takes(self, value: Any) -> bool:
        return isinstance(value, dict)


@frozen
class MapOf(_Mapping):
    """A mapping with keys of the writer's choice, each of the form `keys`."""

    value: ValueSpec
    keys: String = field(default_factory=String)
    help: str = ""

    def look(self, value: dict[str, Any], at: At) -> None:
        for key, item in value.items():
            self.keys.look(key, at.key(key))
            at.key(key).check(item, self.value)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": self.keys.schema(),
            "additionalProperties": _describe_spec(self.value),
        }


@frozen
class TableSpec(_Mapping):
    """A mapping with these keys and no others. Of each group in `one_of` exactly one key is
    there.
    """

    fields: Mapping[str, ValueSpec]
    required: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    help: str = ""
    # keys of earlier versions: taken, and without effect
    gone: Mapping[str, ValueSpec] = field(default_factory=dict)

    def look(self, value: dict[str, Any], at: At) -> None:
        for key in self.required:
            if key not in value:
                at.key(key).fault("is missing", self.fields[key].help)
        for group in self.one_of:
            given = [key for key in group if key in value]
            if not given:
                at.fault(f"one of {' or '.join(group)} is missing")
            for key in given[1:]:
                at.key(key).fault(
                    f"cannot stand beside {given[0]}", f"give one of {', '.join(group)}"
                )
        for key, item in value.items():
            # Keys of old are still checked: a policy that an older version took must not fail, and
            # a typing error in one must.
            if spec := self.fields.get(key) or self.gone.get(key):
                at.key(key).check(item, spec)
            else:
                at.key(key).fault("unknown key", at.nearest(key, self.fields))

    def schema(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "type": "object",
            "properties": {key: _describe_spec(spec) for key, spec in self.fields.items()},
            "additionalProperties": False,
        }
        if self.required:
            made["required"] = list(self.required)
        if self.one_of:
            made["allOf"] = [
                {"oneOf": [{"required": [key]} for key in group]} for group in self.one_of
            ]
        return made


@frozen
class FirstKey(_Mapping):
    """A mapping whose first key names its kind, and so its TableSpec: `{sysctl: vm.swappiness,
    at_most: 10}`.
    """

    tables: Mapping[str, TableSpec]
    help: str = ""

    def look(self, value: dict[str, Any], at: At) -> None:
        first = next(iter(value), "")
        if first in self.tables:
            self.tables[first].look(value, at)
            return
        hint = f"the first key names the kind; {at.nearest(first, self.tables)}"
        if value:
            at.key(first).fault("unknown kind", hint)
        else:
            at.fault("is empty", hint)

    def schema(self) -> dict[str, Any]:
        # JSON Schema knows no order of keys: a kind is what its table requires.
        options = [
            table.schema() | {"required": [key, *table.required]}
            for key, table in self.tables.items()
        ]
        return {"type": "object", "anyOf": options}


@frozen
class AnyOf:
    """What one of `options` takes; the first that takes the JSON type of a value judges it."""

    options: tuple[ValueSpec, ...]
    help: str = ""

    @property
    def says(self) -> str:
        return " or ".join(option.says for option in self.options)

    def takes(self, value: Any) -> bool:
        return any(option.takes(value) for option in self.options)

    def look(self, value: Any, at: At) -> None:
        next(option for option in self.options if option.takes(value)).look(value, at)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [_describe_spec(option) for option in self.options]}


def _describe_spec(spec: ValueSpec) -> dict[str, Any]:
    return ({"description": spec.help} if spec.help else {}) | spec.schema()


def _has_expression(value: Any) -> bool:
    return isinstance(value, str) and "{{" in value
