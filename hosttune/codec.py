"""Values to JSON and back: plans, receipts, findings, changes; nothing is lost on the way, whatever
a file held.

A value (`Change.before`, `.after`) is written so that its type survives: text, number, bool and a
list of text stand as they are; `{"type": "absent"}`, `{"type": "unreadable", "reason"}`, and for a
file `{"type": "file", "text" | "base64", "mode": "0644", "uid", "gid"}`. An address is `kind:name`,
a word of a closed vocabulary is that word. Documents begin with `format_version`, which is raised
where an older reader would go wrong. Reading is strict: a wrong type is a fault with its path, and
all are reported at once. A missing key takes the default of its field, an unknown one is passed
over (a change carries it along), so documents of older and newer versions stay readable.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from hosttune import __version__
from hosttune.errors import BadInput, Fault, Where
from hosttune.frozen import get_stored
from hosttune.regex import regex
from hosttune.values import (
    ABSENT,
    Absent,
    Address,
    Change,
    FileValue,
    Finding,
    PartlyRead,
    Plan,
    Receipt,
    Unreadable,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT_VERSION = 1
MOST_VALUES: Final = 1 << 22  # of a document
MOST_TEXT: Final = 64 << 20  # bytes of a document
_LATER = "later"  # the field of a Change that carries what a later version added
# the field of a Finding that is empty in every plan: only `health` hands it on
_YIELDS = "yields_to"
# Live values that the kernel works out from the memory or the device that it found. Where a file of
# the host sets one, the rule is held or another change is about that file, so only a value set by
# hand for this boot is left out as well.
WORKED_OUT = frozenset({"sysctl", "sysfs", "sysfs-set"})
_VERSION = regex(r"[0-9][0-9A-Za-z.+~-]{0,30}")
_NUMBER = regex(r"[0-9]{1,9}")

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Any value of hosttune (dataclasses, words, tuples, mappings) as what `json` can write."""
    if value is None or type(value) in {bool, int, float, str}:
        return value
    encode = next((encode for kind, encode in _ENCODERS if isinstance(value, kind)), None)
    if encode:
        return encode(value)
    if dataclasses.is_dataclass(value):
        # the stored field, not the attribute: a fact's attribute raises where it could not be read
        fields = {
            field.name: to_json(get_stored(value, field.name))
            for field in dataclasses.fields(value)
        }
        # An empty one is left out, so that a finding is written as before there was this field.
        if not fields.get(_YIELDS, True):
            del fields[_YIELDS]
        later = fields.pop(_LATER, ())
        return fields | {name: json.loads(text) for name, text in later}
    return [to_json(item) for item in value]


def finding_to_json(finding: Finding) -> dict[str, Any]:
    return cast("dict[str, Any]", to_json(finding))


def change_to_json(change: Change) -> dict[str, Any]:
    return cast("dict[str, Any]", to_json(change))


def change_from_json(data: Any, where: str = "change", unknown: list[str] | None = None) -> Change:
    """Raises BadInput with every fault; `where` is the file or field that `data` came from.
    `unknown` gets the names of the fields that this version does not know.
    """
    return decode_as(Change, data, where, unknown)


def finding_from_json(data: Any, where: str = "finding") -> Finding:
    """Raises BadInput with every fault."""
    return decode_as(Finding, data, where)


def make_document(body: Any) -> dict[str, Any]:
    """A document of its own: `format_version` first, then the fields of `body`."""
    return {"format_version": FORMAT_VERSION, **to_json(body)}


def plan_to_json(plan: Plan) -> dict[str, Any]:
    return make_document(plan)


def plan_from_json(data: Any, where: str = "plan") -> Plan:
    """Raises BadInput with every fault, also when another version of hosttune wrote the
    document.
    """
    return decode_as(Plan, _require_body(data, where), where)


def receipt_to_json(receipt: Receipt) -> dict[str, Any]:
    return make_document(receipt)


def receipt_from_json(data: Any, where: str = "receipt") -> Receipt:
    """Raises BadInput with every fault."""
    return decode_as(Receipt, _require_body(data, where), where)


def encode_canonically(changes: Iterable[Change]) -> bytes:
    """The bytes under a plan's digest: what the changes do, without what only describes them, and
    without what differs between two boots, or two equal hosts: their order, which is that of the
    devices; the kernel's number of a device; and the value that a live setting has, which the
    kernel works out from the memory that it found.
    """
    rows = sorted(
        json.dumps(_encode_intent(change), sort_keys=True, separators=(",", ":"))
        for change in changes
    )
    return f"[{','.join(rows)}]".encode("ascii")


def _encode_intent(change: Change) -> dict[str, Any]:
    fields = ("action", "before", "after", "rule", "activation", "triggers")
    kind, name = change.address.kind, change.address.name
    intent = {field: to_json(getattr(change, field)) for field in fields}
    if change.device:
        name = f"{change.device} {name.rpartition('/')[2]}"
    if kind in WORKED_OUT:
        del intent["before"]
    return intent | {"address": f"{kind}:{name}"}


def dump_json(data: Any) -> str:
    """JSON for people and pipes: indented, ends in a newline, ASCII alone, so no terminal is
    steered by it.
    """
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def _bytes_to_json(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode("utf-8")}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(content).decode("ascii")}


def _file_to_json(file: FileValue) -> dict[str, Any]:
    owner = {"mode": f"{file.mode:04o}", "uid": file.uid, "gid": file.gid}
    return {"type": "file"} | _bytes_to_json(file.content) | owner


_ENCODERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Absent, lambda _: {"type": "absent"}),
    (Enum, lambda word: word.value),
    (str, str),
    (bytes, _bytes_to_json),
    (Unreadable, lambda value: {"type": "unreadable", "reason": value.reason}),
    (
        PartlyRead,
        lambda part: [*(to_json(item) for item in part.known), to_json(Unreadable(part.reason))],
    ),
    (FileValue, _file_to_json),
    (Address, str),
    (Mapping, lambda items: {str(key): to_json(item) for key, item in tuple(items.items())}),
    ((set, frozenset), lambda items: [to_json(item) for item in sorted(items)]),
)


def _require_body(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise BadInput([Fault(Where(where), f"expected an object, found {_kind_of(data)}")])
    if wrong := other_format(data):
        raise BadInput([Fault(Where(where, field="format_version"), *wrong)])
    return {key: item for key, item in data.items() if key != "format_version"}


def other_format(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with the `format_version` of a document, and the way out; None where nothing
    is.
    """
    version = data.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        return f"is {version}: {written_by(data)} wrote it", f"use {written_by(data)} for it"
    if type(version) is int and version == FORMAT_VERSION:
        return None
    found = "nothing" if version is None else json.dumps(version)[:40]
    return (
        f"expected {FORMAT_VERSION}, found {found}",
        "make the file again with this version of hosttune",
    )


def written_by(data: Mapping[str, Any]) -> str:
    """The hosttune that wrote a document which this one does not know in full, as far as it says
    so.
    """
    version = data.get("tool_version")
    is_other = isinstance(version, str) and _VERSION.fullmatch(version) and version != __version__
    return f"hosttune {version}" if is_other else "a newer hosttune"


def is_older(version: str) -> bool:
    """Whether a hosttune of this version came before this one; False for any other text."""
    return bool(_VERSION.fullmatch(version)) and _parse_version_numbers(
        version
    ) < _parse_version_numbers(__version__)


def _parse_version_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(version)[:3]))


def decode_as(wanted: type[T], data: Any, where: str, unknown: list[str] | None = None) -> T:
    """A value of the type `wanted` from its JSON. `unknown` gets the names of fields that it does
    not have. Raises BadInput with every fault.
    """
    decoder = _Decoder(where, [] if unknown is None else unknown)
    value = decoder.decode(wanted, data, "")
    if decoder.faults:
        raise BadInput(decoder.faults)
    return cast("T", value)


def parse_json(content: str | bytes, most: int = MOST_VALUES, **words: Any) -> Any:
    """JSON that others wrote, if it has no more than `most` values: an empty list of two bytes
    takes 64 in memory, an object with a key 230, so an object counts as three. Of the characters
    each can take 4 bytes, in the text and in a value. Raises ValueError and RecursionError. Commas
    and brackets within a text count as well; real documents have one in 18 bytes.
    """
    if len(content) > MOST_TEXT:
        raise ValueError(f"it is larger than {MOST_TEXT >> 20} MiB")
    marks: tuple[Any, ...] = (
        (b",", b"[", b"{", b"{", b"{") if isinstance(content, bytes) else (",", "[", "{", "{", "{")
    )
    # Counted in the text: once json.loads() has made the values, the memory is taken.
    if sum(map(content.count, marks)) > most:
        raise ValueError(f"it has more than {most} values")
    return json.loads(content, **words)


def read_document(wanted: type[T], content: str | bytes, where: str, hint: str = "") -> T:
    """The value of a document of ours, which `where` names. Raises BadInput with every fault, each
    with `hint`.
    """
    try:
        data = parse_json(content)
    except (ValueError, RecursionError):
        data = None
    try:
        return decode_as(wanted, _require_body(data, where), where)
    except BadInput as error:
        raise BadInput(
            [Fault(one.where, one.message, hint or one.hint) for one in error.faults]
        ) from None


@cache
def _read_hints(wanted: Any) -> dict[str, Any]:
    return get_type_hints(wanted)


def _without_none(wanted: Any) -> Any:
    """`float | None` -> `float`."""
    return next(one for one in get_args(wanted) if one is not type(None))


class _Decoder:
    """Rebuilds a value from its type hints; after a fault it goes on, to find the others too."""

    def __init__(self, where: str, unknown: list[str]) -> None:
        self.where = where
        self.unknown = unknown
        self.faults: list[Fault] = []

    def fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(Where(self.where, field=path), message))

    def decode(self, wanted: Any, data: Any, path: str) -> Any:
        if wanted == Value:
            return self.value(data, path)
        if wanted is Address:
            return self.address(data, path)
        if type(None) in get_args(wanted):
            return None if data is None else self.decode(_without_none(wanted), data, path)
        if (kind := get_origin(wanted)) in (tuple, list, Mapping):
            inner = get_args(wanted)[-1 if kind is Mapping else 0]
            return (
                self.mapping(inner, data, path)
                if kind is Mapping
                else kind(self.items(inner, data, path))
            )
        if isinstance(wanted, type) and issubclass(wanted, Enum):
            return self.word(wanted, data, path)
        if dataclasses.is_dataclass(wanted):
            return self.record(wanted, data, path)
        # float() fails for an int that is larger than all floats.
        if wanted is float and type(data) is int and abs(data) < 1 << 1023:
            return float(data)
        if type(data) is str and hasattr(wanted, "of_text"):
            data = wanted.of_text(data)
        # By the very type: for isinstance() true would be a number.
        if type(data) is not wanted:
            self.fault(path, f"expected {_NAMES.get(wanted, 'a number')}, found {_kind_of(data)}")
        return data

    def record(self, wanted: Any, data: Any, path: str) -> Any:
        if not isinstance(data, dict):
            self.fault(path, f"expected an object, found {_kind_of(data)}")
            return None
        fields = {field.name: field for field in dataclasses.fields(wanted)}
        carries = fields.pop(_LATER, None) is not None
        before = len(self.faults)
        unknown = sorted(data.keys() - fields.keys())
        self.unknown += [_join_path(path, key) for key in unknown]
        values: dict[str, Any] = (
            {_LATER: tuple((key, json.dumps(data[key])) for key in unknown)} if carries else {}
        )
        hints = _read_hints(wanted)
        for name, field in fields.items():
            if name in data:
                values[name] = self.decode(hints[name], data[name], _join_path(path, name))
            elif (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                self.fault(_join_path(path, name), "is missing")
        return wanted(**values) if len(self.faults) == before else None

    def items(self, wanted: Any, data: Any, path: str) -> Any:
        if not isinstance(data, list):
            self.fault(path, f"expected a list, found {_kind_of(data)}")
            return ()
        return tuple(
            self.decode(wanted, item, f"{path}[{index}]") for index, item in enumerate(data)
        )

    def mapping(self, wanted: Any, data: Any, path: str) -> Any:
        if not isinstance(data, dict):
            self.fault(path, f"expected an object, found {_kind_of(data)}")
            return {}
        return {key: self.decode(wanted, item, _join_path(path, key)) for key, item in data.items()}

    def word(self, wanted: type[Enum], data: Any, path: str) -> Any:
        words = {str(word.value): word for word in wanted}
        if not isinstance(data, str) or data not in words:
            self.fault(path, f"expected one of {', '.join(words)}; found {json.dumps(data)[:60]}")
            return None
        return words[data]

    def address(self, data: Any, path: str) -> Any:
        if not isinstance(data, str) or not all(data.partition(":")):
            self.fault(path, f"expected kind:name, found {json.dumps(data)[:60]}")
            return None
        return Address.parse(data)

    def value(self, data: Any, path: str) -> Any:
        if isinstance(data, (str, bool, int)):
            return data
        if isinstance(data, list):
            return self.items(str, data, path)
        kind = data.get("type") if isinstance(data, dict) else None
        if kind == "absent" and len(data) == 1:
            return ABSENT
        if kind == "unreadable" and isinstance(data.get("reason"), str) and len(data) == 2:
            return Unreadable(data["reason"])
        if kind == "file":
            return self.file(data, path)
        self.fault(path, f"expected a value, found {_kind_of(data)}")
        return None

    def file(self, data: dict[str, Any], path: str) -> Any:
        before = len(self.faults)
        body = {key for key in ("text", "base64") if isinstance(data.get(key), str)}
        if len(body) != 1 or set(data) != {"type", "mode", "uid", "gid"} | body:
            self.fault(path, "expected type, mode, uid, gid and one of text or base64")
            return None
        for key in ("uid", "gid"):
            self.decode(int, data[key], _join_path(path, key))
        from base64 import b64decode

        mode = data["mode"]
        if not isinstance(mode, str) or len(mode) != 4 or not set(mode) <= set("01234567"):
            self.fault(_join_path(path, "mode"), 'expected four octal digits such as "0644"')
        try:
            content = (
                data["text"].encode("utf-8")
                if "text" in data
                else b64decode(data["base64"], validate=True)
            )
        except ValueError:
            self.fault(_join_path(path, next(iter(body))), "cannot be decoded")
        if len(self.faults) > before:
            return None
        return FileValue(content, int(mode, 8), data["uid"], data["gid"])


_NAMES: Mapping[Any, str] = {
    str: "text",
    int: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def _kind_of(data: Any) -> str:
    return "nothing" if data is None else _NAMES.get(type(data), type(data).__name__)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


__all__ = [
    "FORMAT_VERSION",
    "change_from_json",
    "change_to_json",
    "decode_as",
    "dump_json",
    "encode_canonically",
    "finding_from_json",
    "finding_to_json",
    "make_document",
    "other_format",
    "plan_from_json",
    "plan_to_json",
    "receipt_from_json",
    "receipt_to_json",
    "to_json",
    "written_by",
]  # fmt: skip
