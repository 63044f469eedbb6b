"""The facts of a host, subject by subject; what could not be read says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.engine.expressions.hints import fields_of
from hosttune.facts.base import UnknownFact
from hosttune.host.masking.cleaned import clean
from hosttune.values import Unreadable
from hosttune.views.fact_words import describe_subject, field_words
from hosttune.views.terminal import align_columns, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.views.page import Page

SHORT = 12  # rows of one field

_GIB = 1 << 30


def facts_json(subjects: Mapping[str, Any]) -> dict[str, Any]:
    """`subjects` maps each subject to its fields as JSON data (hosttune.codec.to_json)."""
    return {"format_version": FORMAT_VERSION, "facts": dict(subjects)}


def subjects_text(subjects: Iterable[str], page: Page) -> str:
    """Every subject and what it is about."""
    rows: list[tuple[str, ...]] = [
        (subject, describe_subject(subject)) for subject in sorted(subjects)
    ]
    return (
        "\n".join(
            [
                *align_columns(rows, page.screen),
                "",
                f"The fields of one, here: {page.look('facts memory')}",
            ]
        )
        + "\n"
    )


def asked_of(fact: Any, kind: Any) -> Any:
    """What an expression can ask of a fact, as JSON data: its fields and its properties."""
    values = to_json(fact)
    if not isinstance(values, dict):
        return values
    for name in fields_of(kind):
        if name not in values:
            try:
                values[name] = to_json(getattr(fact, name))
            except UnknownFact as unknown:
                values[name] = to_json(Unreadable(unknown.reason))
    return values


def facts_text(
    subjects: Mapping[str, Any], kinds: Mapping[str, Any], page: Page, *, is_short: bool = True
) -> str:
    """The same data for people, each field with its type and what it means. `is_short` leaves out
    the tail of long lists; `kinds` are the types of the subjects
    (hosttune.engine.rules.lint.fact_types).
    """
    blocks = []
    for subject, fields in subjects.items():
        words = field_words(subject, kinds[subject])
        rows: list[tuple[str, ...]] = []
        for name, value in fields.items() if isinstance(fields, dict) else [("", fields)]:
            own = _make_rows(name, value)
            more = (
                [("", f"and {len(own) - SHORT} more: name the subject to see all")]
                if len(own) > SHORT
                else []
            )
            own = [*own[:SHORT], *more] if is_short else own
            kind, meaning = words.pop(name, ("", ""))
            rows += [
                (label, kind if number == 0 else "", text)
                for number, (label, text) in enumerate(own)
            ]
            rows += [("", "", f"({meaning})")] if meaning else []
            # The fields of an item come below the list that has them, and once.
            inside = [one for one in words if one.startswith((f"{name}[", f"{name}."))]
            rows += [(f"  {one.removeprefix(name)}", *words.pop(one)) for one in inside]
        rows += [(name, kind, meaning) for name, (kind, meaning) in words.items()]
        head = wrap_text(f"{subject}: {describe_subject(subject)}", page.screen.columns, rest="  ")
        head[0] = page.screen.paint(subject, "bold") + head[0].removeprefix(subject)
        blocks.append("\n".join([*head, *align_columns(rows, page.screen, indent=2)]))
    return "\n\n".join(blocks) + "\n"


def _make_rows(name: str, value: Any) -> list[tuple[str, ...]]:
    """One row for a plain value; one for each entry of a list of records."""
    entries = list(value.values()) if isinstance(value, dict) else value
    if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
        return [
            (name if number == 0 else "", _record(entry)) for number, entry in enumerate(entries)
        ]
    return [(name, _format_plain(name, value))]


def _record(entry: Mapping[str, Any]) -> str:
    """`name=nvme0n1 size_bytes=... (1.7 TiB)`: the fields that say something."""
    filled = [(name, value) for name, value in entry.items() if value not in ("", None, [], False)]
    return " ".join(f"{clean(name)}={_format_sized(name, value)}" for name, value in filled)


def _format_sized(name: str, value: Any) -> str:
    """A value within a record; sizes there are for people, the exact ones are in the JSON."""
    return (
        f"{value / _GIB:.1f}GiB"
        if isinstance(value, int) and name.endswith("_bytes")
        else _format_plain(name, value)
    )


def _format_plain(name: str, value: Any) -> str:
    if isinstance(value, dict) and value.get("type") == "unreadable":
        return f"unknown: {clean(value['reason'])}"
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_bytes"):
        return f"{value} ({value / _GIB:.1f} GiB)"
    if isinstance(value, list):
        return ", ".join(_format_plain("", item) for item in value)
    return _record(value) if isinstance(value, dict) else clean(str(value))
