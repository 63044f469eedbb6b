"""What a single value in a YAML file may be: texts, numbers, dates; and how a fault in one is
reported.

The rest of the toolkit, and how it is used, is in schema.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from hosttune.errors import MOST_FAULTS, Fault
from hosttune.facts.globs import glob_fault
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.rules.document import YamlFile

KEBAB = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"


class ValueSpec(Protocol):
    """What one value may be."""

    @property
    def help(self) -> str: ...

    @property
    def says(self) -> str:
        """What it takes, for a sentence: `a whole number`."""
        ...

    def takes(self, value: Any) -> bool:
        """Whether the value is of the right JSON type, without looking inside."""
        ...

    def look(self, value: Any, at: At) -> None:
        """Report what is wrong with a value that `takes` accepts."""
        ...

    def schema(self) -> dict[str, Any]: ...


@frozen
class At:
    """A place in a document while it is checked."""

    document: YamlFile
    faults: list[Fault]
    path: str = ""

    def fault(self, message: str, hint: str = "") -> None:
        self.faults.append(Fault(self.document.where(self.path), message, hint))

    def nearest(self, name: str, valid: Iterable[str]) -> str:
        """The hint for a wrong word; none if more faults are found than are shown."""
        return suggest_nearest(name, tuple(valid)) if len(self.faults) < MOST_FAULTS else ""

    def key(self, name: str) -> At:
        return At(self.document, self.faults, f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> At:
        return At(self.document, self.faults, f"{self.path}[{index}]")

    def check(self, value: Any, spec: ValueSpec) -> None:
        if spec.takes(value):
            spec.look(value, self)
        else:
            self.fault(
                f"must be {spec.says}, not {_quote_given(value)}", _describe_remedy(value, spec)
            )


@frozen
class String:
    """A text; `pattern` covers all of it and `form` says the pattern in words. Empty only where
    `may_be_empty`; one that `is_glob` is a pattern of names.
    """

    choices: tuple[str, ...] = ()
    pattern: str = ""
    form: str = ""
    may_be_empty: bool = False
    help: str = ""
    is_glob: bool = False

    @property
    def says(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else "a text"

    def takes(self, value: Any) -> bool:
        return isinstance(value, str)

    def look(self, value: str, at: At) -> None:
        if self.choices and value not in self.choices:
            at.fault(f"{value!r} is not one of the choices", at.nearest(value, self.choices))
        elif not value.strip() and not self.may_be_empty:
            at.fault("must not be empty")
        elif self.pattern and not re.fullmatch(self.pattern, value):
            at.fault(f"{value!r} does not have the form {self.form or self.pattern}")
        elif self.is_glob and (fault := glob_fault(value)):
            at.fault(fault)

    def schema(self) -> dict[str, Any]:
        if self.choices:
            return {"enum": list(self.choices)}
        pattern = f"^(?:{self.pattern})$" if self.pattern else "" if self.may_be_empty else r"\S"
        return {"type": "string"} | ({"pattern": pattern} if pattern else {})


def Id(help: str = "") -> String:  # noqa: A002, N802 (reads as the specs beside it)
    """A kebab-case name, such as a rule's."""
    return String(pattern=KEBAB, form="lower-case words joined by '-'", help=help)


@frozen
class Date:
    """A calendar day, YYYY-MM-DD."""

    help: str = ""
    says: str = "a date (YYYY-MM-DD)"

    def takes(self, value: Any) -> bool:
        return isinstance(value, str)

    def look(self, value: str, at: At) -> None:
        from datetime import date

        try:
            # Since Python 3.11 fromisoformat also takes 20261122. Waivers compare dates as text,
            # which needs one form.
            if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
                raise ValueError
            date.fromisoformat(value)
        except ValueError:
            at.fault(f"{value!r} is no date", "write YYYY-MM-DD")

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}


@frozen
class Number:
    """A number, between `minimum` and `maximum` where they are given."""

    minimum: float | None = None
    maximum: float | None = None
    help: str = ""
    says: str = "a number"

    def takes(self, value: Any) -> bool:
        # In Python `true` is the number 1, which no one means by it.
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def look(self, value: float, at: At) -> None:
        if self.minimum is not None and value < self.minimum:
            at.fault(f"{value} is below the minimum {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            at.fault(f"{value} is above the maximum {self.maximum}")

    def schema(self) -> dict[str, Any]:
        limits = {"minimum": self.minimum, "maximum": self.maximum}
        return {"type": "number"} | {
            key: value for key, value in limits.items() if value is not None
        }


@frozen
class Integer(Number):
    """A whole number."""

    says: str = "a whole number"

    def takes(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def schema(self) -> dict[str, Any]:
        return Number.schema(self) | {"type": "integer"}


@frozen
class Boolean:
    """True or false."""

    help: str = ""
    says: str = "true or false"

    def takes(self, value: Any) -> bool:
        return isinstance(value, bool)

    def look(self, value: Any, at: At) -> None:
        """Each is right."""

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@frozen
class Scalar:
    """A text, a number, true or false, or a list of those."""

    help: str = ""
    says: str = "a text, a number, true, false, or a list of those"

    def takes(self, value: Any) -> bool:
        items = value if isinstance(value, list) else [value]
        return all(isinstance(item, (str, int, float)) for item in items)

    def look(self, value: Any, at: At) -> None:
        """Each is right."""

    def schema(self) -> dict[str, Any]:
        one = ["string", "number", "boolean"]
        return {"type": [*one, "array"], "items": {"type": one}}


_MOST_LISTED = 40  # names beside the one that was meant: all rules fill a screen


def suggest_nearest(name: str, valid: tuple[str, ...]) -> str:
    """The hint for a wrong word: the nearest valid one, then all of them, where they are not too
    many beside it.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, valid, n=1, cutoff=0.6)
    if close and len(valid) > _MOST_LISTED:
        return f"did you mean {close[0]}?"
    return (f"did you mean {close[0]}? " if close else "") + f"valid: {', '.join(valid)}"


def _quote_given(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value if len(value) <= 40 else value[:37] + '...'!r}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def _describe_remedy(value: Any, spec: ValueSpec) -> str:
    if (
        spec.takes("")
        and isinstance(value, (bool, int, float))
        and not getattr(spec, "choices", ())
    ):
        return "put it in quotes"
    if spec.takes([]) and isinstance(value, str):
        return f"write [{value}]"
    if (
        spec.takes(value=False)
        and isinstance(value, str)
        and value.lower() in {"yes", "no", "on", "off", "true", "false"}
    ):
        return "write true or false, in lower case and without quotes"
    if spec.takes(0) and isinstance(value, str):
        return "write a number in decimal digits, without quotes"
    return ""
