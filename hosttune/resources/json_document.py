"""A JSON file edited by one member at a time: every other byte stays. Pure.

RFC 8259; a key that is twice in one object is refused, because readers differ on which of them
counts.
"""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder, dumps
from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen
from hosttune.lines import LineNumbers
from hosttune.resources.line_ends import line_end

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLANKS = " \t\r\n"


@frozen
class JsonMember:
    """One key of an object with its value."""

    key: str
    start: int  # of the key's quote
    value: Node


@frozen
class Node:
    """A value and its place in the text; `members` of an object, None of anything else."""

    start: int
    end: int
    data: Any
    members: tuple[JsonMember, ...] | None = None

    def find(self, key: str) -> JsonMember | None:
        return next((member for member in self.members or () if member.key == key), None)


def _no_constant(name: str) -> None:
    message = f"{name} is no JSON"
    raise ValueError(message)


_DECODER = JSONDecoder(parse_constant=_no_constant)


def parse(text: str) -> Node:
    """The object that a file holds; a file of blanks is an empty one. Raises JSONDecodeError with
    line and column.
    """
    if not text.strip(_BLANKS):
        return Node(0, len(text), {}, ())
    start = _skip(text, 0)
    if text[start] != "{":
        raise JSONDecodeError("Expecting an object", text, start)
    node = _parse_object(text, start)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise JSONDecodeError("Extra data", text, rest)
    return node


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _parse_value(text: str, at: int) -> Node:
    if text[at : at + 1] == "{":
        return _parse_object(text, at)
    try:
        data, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise JSONDecodeError(str(error), text, at) from None
    return Node(at, end, data)


def _parse_object(text: str, start: int) -> Node:
    members: list[JsonMember] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}" or members:
        if text[at : at + 1] != '"':
            raise JSONDecodeError("Expecting a key in double quotes", text, at)
        key = _parse_value(text, at)
        # Go's decoder, which dockerd uses, and Python's each take one of two equal keys without a
        # word: an edit of one of them could be without effect.
        if any(member.key == key.data for member in members):
            raise JSONDecodeError(f"The key {key.data!r} is here twice", text, at)
        colon = _skip(text, key.end)
        if text[colon : colon + 1] != ":":
            raise JSONDecodeError("Expecting ':' behind a key", text, colon)
        value = _parse_value(text, _skip(text, colon + 1))
        members.append(JsonMember(key.data, at, value))
        at = _skip(text, value.end)
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise JSONDecodeError("Expecting ',' or '}' behind a value", text, at)
        at = _skip(text, at + 1)
    return Node(
        start, at + 1, {member.key: member.value.data for member in members}, tuple(members)
    )


def line_of(text: str, at: int) -> int:
    """The number of the line at this place, from 1."""
    return LineNumbers(text).at(at)


def get(root: Node, path: Sequence[str]) -> JsonMember | None:
    """The member at the end of a path of keys."""
    found = None
    for key in path:
        found = root.find(key)
        if found is None:
            return None
        root = found.value
    return found


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with one member set; objects on the way to it are made. Raises ValueError where the
    path leads through something else than an object.
    """
    node = parse(text)
    end = line_end(text.encode("utf-8", "surrogatepass")).decode()
    if not text.strip(_BLANKS):
        text = f"{{}}{end}"
        node = parse(text)
    unit = "  "  # one step of indentation, as the file has it
    if node.members:
        unit = _find_indent(text, node.members[0].start) or unit
    for depth, key in enumerate(path):
        if node.members is None:
            message = f"{'/'.join(path[:depth])} is no object"
            raise ValueError(message)
        member = node.find(key)
        if member is None:
            start, old, new = _make_insertion(text, node, path[depth:], value, unit)
            return text[:start] + new.replace("\n", end) + text[old:]
        node = member.value
    return text[: node.start] + dumps(value, ensure_ascii=False) + text[node.end :]


def _find_indent(text: str, at: int) -> str:
    """The blanks between the start of a line and this place; empty where something else is
    there.
    """
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip(_BLANKS) else ""


def _make_insertion(
    text: str, node: Node, path: Sequence[str], value: Any, unit: str
) -> tuple[int, int, str]:
    """What goes into an object in the place of the text between two places; its lines end in LF."""
    members = node.members or ()
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    outer = line[: len(line) - len(line.lstrip(_BLANKS))]
    if members:
        last = members[-1]
        is_own_line = "\n" in text[node.start : members[0].start]
        indent = _find_indent(text, last.start) or _find_indent(text, members[0].start)
        end = last.value.end
        if is_own_line:
            return end, end, f",\n{indent}{_render_member(path, value, indent, unit)}"
        return end, end, f", {_render_member(path, value)}"
    indent = outer + unit
    body = _render_member(path, value, indent, unit)
    return node.start, node.end, f"{{\n{indent}{body}\n{outer}}}"


def _render_member(
    path: Sequence[str], value: Any, indent: str | None = None, unit: str = ""
) -> str:
    """`"key": value`, or the objects of the rest of the path around it."""
    key = dumps(path[0], ensure_ascii=False)
    if len(path) == 1:
        return f"{key}: {dumps(value, ensure_ascii=False)}"
    if indent is None:
        return f"{key}: {{{_render_member(path[1:], value)}}}"
    inner = indent + unit
    return f"{key}: {{\n{inner}{_render_member(path[1:], value, inner, unit)}\n{indent}}}"


def drop(text: str, path: Sequence[str]) -> str:
    """The text without one member, and without the objects on the way to it that are empty then."""
    node = parse(text)
    chain = [node]
    for key in path[:-1]:
        member = chain[-1].find(key)
        if member is None:
            return text
        chain.append(member.value)
    # The objects that an earlier `put` made for this one member go with it, so that an undo gives
    # the old bytes back.
    while len(chain) > 1 and len(chain[-1].members or ()) == 1:
        chain.pop()
    members = chain[-1].members or ()
    number = next(
        (number for number, one in enumerate(members) if one.key == path[len(chain) - 1]), None
    )
    if number is None or get(node, path) is None:
        return text
    if len(members) == 1:
        return text[: chain[-1].start] + "{}" + text[chain[-1].end :]
    if number == len(members) - 1:
        return text[: members[-2].value.end] + text[members[-1].value.end :]
    return text[: members[number].start] + text[members[number + 1].start :]
