"""Strict YAML for files that root acts on: rules and policies.

Only what JSON can say is read: text, `null`, `true`, `false`, decimal integers and fractions,
lists, and mappings with text keys. So `on`, `yes`, `0644`, `0x10`, `1:30`, `1_000` and dates stay
the text that was written. Duplicate keys, tags, anchors, aliases, merge keys and tabs are faults,
each with its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hosttune.engine.rules.document import YamlFile
from hosttune.errors import MOST_FAULTS, BadInput, Fault, Where
from hosttune.lines import LineNumbers
from hosttune.regex import regex

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
# characters of the paths of all values, because each value keeps the keys above it
MAX_PLACES = 1 << 24
PER_VALUE = 64
MAX_FAULTS = 10 * MOST_FAULTS
MAX_DIGITS = 38  # 2**126 has 38: beyond any number of bytes

_INTEGER = regex(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FRACTION = regex(r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: Mapping[str, Any] = {"": None, "null": None, "true": True, "false": False}
# What YAML calls not printable, and its line breaks that no editor shows as one.
_FORBIDDEN = regex(
    "[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def load_document(text: str, name: str) -> YamlFile:
    """Read one YAML document; `name` is what faults call the file. Raises BadInput with every fault
    found.

    An empty file gives `data` None. At most 1 MiB, at most 32 levels deep.
    """
    builder = _Builder(name)
    with suppress(_EndedError):
        if builder.takes(text):
            builder.read(text)
    if builder.faults:
        raise BadInput(sorted(builder.faults, key=lambda fault: fault.where.line))
    return YamlFile(builder.root, builder.lines, name)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read."""

    path: str
    value: dict[str, Any] | list[Any]
    key: str | None = None
    keys: dict[str, int] = field(default_factory=dict)  # key -> its line
    is_key: bool = False  # `{{ x }}` without quotes: a mapping whose key is a mapping

    def place(self) -> str:
        """The path of what comes next."""
        if isinstance(self.value, list):
            return f"{self.path}[{len(self.value)}]"
        return f"{self.path}.{self.key}" if self.path else str(self.key)


class _EndedError(Exception):
    """The last fault ends the look at the file."""


class _Builder:
    """Builds the value from parser events, so that anchors, tags and styles are still visible."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.root: Any = None
        self.lines: dict[str, int] = {"": 1}
        self.faults: list[Fault] = []
        self.open: list[_Open] = []
        self.left = MAX_PLACES

    def fault(self, line: int, message: str, hint: str = "", path: str = "") -> None:
        self.faults.append(Fault(Where(self.name, line, path), message, hint))
        if len(self.faults) >= MAX_FAULTS:
            raise _EndedError

    def note(self, path: str, line: int) -> None:
        """Where a field is. One long key above many values would take its length times their
        number.
        """
        self.left -= len(path) + PER_VALUE
        if self.left < 0:
            self.fault(
                line, "too many values for the length of the keys above them", "split the file"
            )
            raise _EndedError
        self.lines.setdefault(path, line)

    def takes(self, text: str) -> bool:
        """Whether the text can be YAML of ours at all."""
        # Characters first: to encode a text of any length would already take the memory that the
        # bound saves.
        if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            self.fault(0, "the file is larger than 1 MiB", "split it")
            return False
        seen, line_at = 0, LineNumbers(text).at
        for match in _FORBIDDEN.finditer(text):
            line = line_at(match.start())
            if line != seen:
                seen = line
                self._forbidden(line, match.group())
        return not seen

    def _forbidden(self, line: int, character: str) -> None:
        if character == "\t":
            self.fault(
                line, "a tab", 'indent with spaces; inside text write "\\t" in double quotes'
            )
        else:
            self.fault(
                line,
                f"the character U+{ord(character):04X} is not allowed",
                "remove it, or write it as an escape",
            )

    def read(self, text: str) -> None:
        import yaml

        # Some builds of PyYAML come without libyaml, whose parser is much faster.
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            self._build(yaml.parse(text, Loader=loader))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            problem = (
                getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
            )
            # libyaml from 0.2.6 on stops at 1000 levels, before it hands over the first
            if "nesting depth" in problem:
                self._too_deep(mark.line + 1 if mark else 0)
                return
            hint = (
                "text with ': ', ' #', or a leading [ { & * ! % @ ` goes in quotes; check the "
                "indentation"
            )
            self.fault(mark.line + 1 if mark else 0, f"not valid YAML: {problem}", hint)

    def _build(self, events: Iterator[Any]) -> None:
        documents = 0
        for event in events:
            kind = type(event).__name__
            line = event.start_mark.line + 1
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    self.fault(
                        line,
                        "a second document",
                        "one file holds one document: remove the line '---'",
                    )
                    return
                if event.version or event.tags:
                    self.fault(line, "a % directive", "remove it")
                    return  # one of tags makes each of them long
            elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
                self._leave()
            elif kind in {"ScalarEvent", "MappingStartEvent", "SequenceStartEvent", "AliasEvent"}:
                self._node(event, kind, line)

    def _node(self, event: Any, kind: str, line: int) -> None:
        parent = self.open[-1] if self.open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            self._key(parent, event, kind, line)
            return
        path = parent.place() if parent is not None else ""
        self.note(path, line)
        self._extras(event, kind, line, path)
        if kind == "MappingStartEvent":
            self._enter({}, path, line)
        elif kind == "SequenceStartEvent":
            self._enter([], path, line)
        else:
            self._put(self._scalar(event, line, path) if kind == "ScalarEvent" else None)
            self._close_pair()

    def _extras(self, event: Any, kind: str, line: int, path: str) -> None:
        if kind == "AliasEvent":
            self.fault(line, f"an alias (*{event.anchor})", "write the value out", path)
            return
        if event.anchor is not None:
            self.fault(
                line, f"an anchor (&{event.anchor})", "write the value out where it is needed", path
            )
        if event.tag is not None:
            self.fault(line, f"a tag ({event.tag})", "remove it; text goes in quotes", path)

    def _key(self, parent: _Open, event: Any, kind: str, line: int) -> None:
        if kind in {"MappingStartEvent", "SequenceStartEvent"}:
            self.fault(
                line,
                "a key must be a word, not a list or a mapping",
                'text with braces goes in quotes: "{{ ... }}"',
            )
            self._enter({} if kind == "MappingStartEvent" else [], parent.path, line, is_key=True)
            return
        key = event.value if kind == "ScalarEvent" else f"*{event.anchor}"
        path = f"{parent.path}.{key}" if parent.path else key
        self.note(path, line)
        self._extras(event, kind, line, path)
        # In quotes it is a key like any other, and then unknown to the schema.
        if key == "<<" and not event.style:
            self.fault(line, "a merge key (<<)", "write the keys out", path)
        elif not key:
            self.fault(line, "an empty key", "", parent.path)
        elif key in parent.keys:
            self.fault(
                line,
                f"the key {key!r} is given twice: line {parent.keys[key]} and line {line}",
                "keep one",
                path,
            )
        parent.keys.setdefault(key, line)
        parent.key = key

    def _enter(
        self, value: dict[str, Any] | list[Any], path: str, line: int, *, is_key: bool = False
    ) -> None:
        if len(self.open) >= MAX_DEPTH:
            self._too_deep(line, path)
            raise _EndedError
        if not is_key:
            self._put(value)
        self.open.append(_Open(path, value, is_key=is_key))

    def _too_deep(self, line: int, path: str = "") -> None:
        self.fault(line, f"nested more than {MAX_DEPTH} levels deep", "", path)

    def _leave(self) -> None:
        closed = self.open.pop()
        if closed.is_key:
            self.open[-1].key = "?"  # its value comes next; the document is refused anyway
        else:
            self._close_pair()

    def _put(self, value: Any) -> None:
        if not self.open:
            self.root = value
            return
        parent = self.open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is not None:
            # The first of two equal keys stays, but the document is refused anyway.
            parent.value.setdefault(parent.key, value)

    def _close_pair(self) -> None:
        """A value has ended: its mapping waits for the next key."""
        if self.open and isinstance(self.open[-1].value, dict):
            self.open[-1].key = None

    def _scalar(self, event: Any, line: int, path: str) -> Any:
        text: str = event.value
        # In quotes everything is text. A tag has its own fault and must not also change the type.
        if event.style or event.tag is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.match(text):
            if len(text) > MAX_DIGITS:
                self.fault(
                    line,
                    f"the number has more than {MAX_DIGITS} digits",
                    "text goes in quotes",
                    path,
                )
                return 0
            return int(text)
        if _FRACTION.match(text):
            number = float(text)
            if number in {float("inf"), float("-inf")}:
                self.fault(line, "the number is too large", "text goes in quotes", path)
            return number
        return text
