"""What the type annotations of facts say to expressions: fields, items, and which types go
together.

Types are typing objects in a plain form: `tuple[X, ...]` for every list, `Mapping[K, X]`, a union,
a Literal, a class.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hosttune.engine.expressions.helpers import list_of

_LISTS = (
    list, set, frozenset, tuple, collections.abc.Sequence, collections.abc.Collection,
    collections.abc.Iterable, collections.abc.Set,
)  # fmt: skip
NUMBERS = {int, float}
_PLAIN = {int, float, str, bool}
_MAPPINGS = (dict, collections.abc.Mapping)


class RecordType:
    """Base of the classes that `record` makes."""

    fields: Mapping[str, Any] = {}


def record(name: str, fields: Mapping[str, Any]) -> type[RecordType]:
    """The type of a value with these fields and no class of its own, such as the params of a
    rule.
    """
    return type(
        name,
        (RecordType,),
        {"fields": {key: simplify_hint(value, key) for key, value in fields.items()}},
    )


def simplify_hint(hint: Any, name: str = "record") -> Any:
    """A type annotation in plain form."""
    if isinstance(hint, Mapping):
        return record(name, hint)
    if hasattr(hint, "__supertype__"):  # NewType
        return simplify_hint(hint.__supertype__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is not None or hint in _LISTS or hint in _MAPPINGS:
        return _plain_generic(hint, origin or hint, arguments)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return str if issubclass(hint, str) else int if issubclass(hint, int) else hint
    return {None: NoneType, object: Any}.get(hint, hint)


def _plain_generic(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Any:
    if origin in (Union, UnionType):
        return join_types(simplify_hint(argument) for argument in arguments)
    if origin is Annotated:
        return simplify_hint(arguments[0])
    if origin in _LISTS:
        return list_of(
            join_types(
                simplify_hint(argument) for argument in arguments if argument is not Ellipsis
            )
        )
    if origin in _MAPPINGS:
        key, value = arguments or (Any, Any)
        return Mapping[simplify_hint(key), simplify_hint(value)]  # type: ignore[misc]
    return hint


def join_types(types: Iterable[Any]) -> Any:
    """One type for values of several; Any where one of them is Any or there is none."""
    options = list(dict.fromkeys(option for one in types for option in options_of(one)))
    if not options or Any in options:
        return Any
    return Union[tuple(options)]  # noqa: UP007 (made at run time)


def options_of(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def is_optional(hint: Any) -> bool:
    return NoneType in options_of(hint)


def without_none(hint: Any) -> Any:
    rest = [option for option in options_of(hint) if option is not NoneType]
    return join_types(rest) if rest else hint


def base_of_literal(hint: Any) -> Any:
    """The type of a Literal's values; any other type as it is."""
    if get_origin(hint) is Literal:
        return join_types(type(value) for value in get_args(hint))
    return hint


def item_of(hint: Any) -> Any:
    """The type of a list's items; None when it is no list. Any stays Any."""
    if hint is Any:
        return Any
    return get_args(hint)[0] if get_origin(hint) is tuple else None


def value_of(hint: Any) -> Any:
    """The type of what `x["key"]` gives: a mapping's values, or what a fact's __getitem__ returns;
    None otherwise.
    """
    if hint is Any:
        return Any
    if get_origin(hint) is collections.abc.Mapping:
        return get_args(hint)[1]
    getter = (
        getattr(hint, "__getitem__", None)
        if isinstance(hint, type) and get_origin(hint) is None
        else None
    )
    if getter is None or hint is str:
        return None
    return simplify_hint(_hints_of(getter).get("return", Any))


@cache
def fields_of(hint: Any) -> Mapping[str, Any]:
    """The fields and properties of a class, in plain form; empty for what has none."""
    if not isinstance(hint, type) or get_origin(hint) is not None or hint.__module__ == "builtins":
        return {}
    if issubclass(hint, RecordType):
        return hint.fields
    fields = {
        name: simplify_hint(value)
        for name, value in _hints_of(hint).items()
        if not name.startswith("_")
    }
    for owner in reversed(hint.__mro__):
        for name, member in vars(owner).items():
            if (
                isinstance(member, property)
                and member.fget is not None
                and not name.startswith("_")
            ):
                fields[name] = simplify_hint(_hints_of(member.fget).get("return", Any))
    return fields


def _hints_of(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing)
    except NameError as error:
        where = f"{thing.__module__}.{thing.__qualname__}"
        raise TypeError(
            f"{where}: {error}; its annotations must be readable at run time"
        ) from error


def goes_with(one: Any, other: Any) -> bool:
    """Whether values of the two types can be equal. The options of a side are taken together,
    because each text of a list is one: to compare them in pairs takes quadratic time.
    """
    left, right = _TypeOptions(one), _TypeOptions(other)
    if Any in left.plain or Any in right.plain or left.literals & right.literals:
        return True
    if left.kinds & right.plain or left.plain & right.kinds:
        return True
    if (NUMBERS & left.plain and NUMBERS & right.kinds) or (
        NUMBERS & left.kinds and NUMBERS & right.plain
    ):
        return True
    return any(
        mine and its and goes_with(join_types(mine), join_types(its))
        for mine, its in ((left.items, right.items), (left.values, right.values))
    )


class _TypeOptions:
    """The options of a type by what decides whether two go together; `kinds` are those of plain
    values and literals.
    """

    def __init__(self, hint: Any) -> None:
        self.literals: set[Any] = set()
        self.plain: set[Any] = set()
        self.items: list[Any] = []  # of lists
        self.values: list[Any] = []  # of mappings
        for option in options_of(hint):
            origin = get_origin(option)
            if origin is Literal:
                self.literals.update(get_args(option))
            elif origin is tuple:
                self.items.append(item_of(option))
            elif origin is collections.abc.Mapping:
                self.values.append(value_of(option))
            else:
                self.plain.add(option)
        self.kinds = self.plain | {type(value) for value in self.literals}


def fits(actual: Any, wanted: Any, bindings: dict[Any, Any]) -> bool:
    """Whether `actual` may be passed where `wanted` is asked for; binds the type variables of
    `wanted`.
    """
    if actual is Any or wanted is Any:
        return True
    if isinstance(wanted, TypeVar):
        return _binds_variable(actual, wanted, bindings)
    # Each type that a value may have must fit, and of what is wanted one is enough. So this comes
    # first.
    if len(options_of(actual)) > 1:
        return all(fits(option, wanted, bindings) for option in options_of(actual))
    if len(options_of(wanted)) > 1:
        return any(fits(actual, option, bindings) for option in options_of(wanted))
    actual = base_of_literal(actual)
    if actual == wanted or (actual is int and wanted is float):
        return True
    if get_origin(actual) is tuple and get_origin(wanted) is tuple:
        return fits(item_of(actual), item_of(wanted), bindings)
    return (
        get_origin(actual) is collections.abc.Mapping
        and get_origin(wanted) is collections.abc.Mapping
    )


def _binds_variable(actual: Any, variable: TypeVar, bindings: dict[Any, Any]) -> bool:
    actual = join_types(base_of_literal(option) for option in options_of(actual))
    if variable in bindings:
        actual = join_types((bindings[variable], actual))
    options = set(options_of(actual))
    if variable.__constraints__ and not options <= {*variable.__constraints__, Any}:
        return False
    if options == {int, float}:
        actual = float
    elif len(options) > 1 and variable.__constraints__:
        return False
    bindings[variable] = actual
    return True


def bound(hint: Any, bindings: Mapping[Any, Any]) -> Any:
    """A helper's result type, with its type variables filled in."""
    if isinstance(hint, TypeVar):
        return bindings.get(hint, Any)
    if get_origin(hint) is tuple:
        return list_of(bound(item_of(hint), bindings))
    return hint


def is_number(hint: Any) -> bool:
    return all(base_of_literal(option) in NUMBERS for option in options_of(hint))


def is_numbers(hint: Any) -> bool:
    return get_origin(hint) is tuple and item_of(hint) is not Any and is_number(item_of(hint))


def is_bare_word(hint: Any) -> bool:
    """Whether a value of this type is no more than a word, whatever a host says: a number, or one
    of certain words.
    """
    return all(
        get_origin(one) is Literal or base_of_literal(one) in {int, float, bool, NoneType}
        for one in options_of(hint)
    )


def text_fault(hint: Any) -> str:
    """What is wrong with a value of this type inside a longer text; empty when nothing is."""
    if hint is Any:
        return ""
    if is_optional(hint):
        return "may be None, which cannot stand in a text"
    kinds = {base_of_literal(option) for option in options_of(hint)}
    if kinds <= _PLAIN or all(
        get_origin(kind) is tuple and not text_fault(item_of(kind)) for kind in kinds
    ):
        return ""
    return f"is {name_type(hint)}, which cannot stand in a text"


def name_type(hint: Any) -> str:
    """A type for people."""
    if hint is Any:
        return "anything"
    if hint is NoneType:
        return "None"
    if len(options_of(hint)) > 1:
        return " or ".join(name_type(option) for option in options_of(hint))
    if get_origin(hint) is Literal:
        return " or ".join(repr(value) for value in get_args(hint))
    if get_origin(hint) is tuple:
        return f"list of {name_type(item_of(hint))}"
    if get_origin(hint) is collections.abc.Mapping:
        return f"mapping to {name_type(value_of(hint))}"
    return {int: "int", float: "float", str: "str", bool: "bool"}.get(hint) or str(
        getattr(hint, "__name__", hint)
    )


def describe(scope: Mapping[str, Any]) -> dict[str, tuple[str, type | None]]:
    """Every name an expression may write in this scope, with its type in words and the class whose
    field it is, if of one: `memory.total_bytes` -> `int`, Memory.

    Items of a list are written `disks.all[].name`, those of a mapping `mounts.at["..."].target`.
    """
    found: dict[str, tuple[str, type | None]] = {}
    for name in scope:
        _describe(name, simplify_hint(scope[name], name), found, ())
    return found


def _describe(
    path: str,
    hint: Any,
    found: dict[str, tuple[str, type | None]],
    inside: tuple[Any, ...],
    owner: type | None = None,
) -> None:
    fields = fields_of(without_none(hint))
    value = value_of(without_none(hint))
    item = item_of(without_none(hint))
    if not fields:
        found[path] = name_type(hint), owner
    # A class may be a field of itself, at any depth, so each is entered once on a path.
    if hint in inside:
        return
    inside = (*inside, hint)
    for name, kind in fields.items():
        _describe(f"{path}.{name}", kind, found, inside, without_none(hint))
    if value is not None and value is not Any and fields_of(without_none(value)):
        _describe(f'{path}["..."]', value, found, inside)
    elif item is not None and item is not Any and fields_of(without_none(item)):
        _describe(f"{path}[]", item, found, inside)
