"""The tables of docs/reference/custom-rules.md: what a rule file may hold, from what checks it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.helpers import CONSTANTS, HELPERS
from hosttune.engine.expressions.hints import fields_of, name_type, value_of
from hosttune.engine.rules.lint import fact_types
from hosttune.engine.rules.shapes import PARAM, WORDED, rule_shape
from hosttune.facts import MODULES
from hosttune.resources import wish_kinds
from hosttune.views.markdown import make_cell, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.rules.schema import TableSpec
    from hosttune.resources.base import WishKind

BEGIN, END = "<!-- reference:begin -->\n", "<!-- reference:end -->\n"

_HEAD = """\
## Reference

Written by `hosttune rules doc --reference` from what checks a rule.
"""
_WISHES = """\
Each entry of `want` begins with its kind and what it is about. The bounds are written beside it
(`at_least: 5`), and so are the keys of the kind; any value may hold expressions in double braces.
Every kind takes `message`, what a report says where it differs, and `do`, what a person should do
then.

Names come from the host and can hold anything, and people copy commands. So in a text with a
command for root (`sudo`, `$(...)`, backquotes) write `shell_word(item.name)`: the name as one word,
in quotes where a shell would act on it. `rules lint` reports where it is missing.
"""
_EXPRESSIONS = """\
An expression is written as in Python: `and or not`, `== != < <= > >= in`, `is None`,
`+ - * / // %`, `a if test else b`, `x.field`, `items[0]`, `named["key"]`,
`[x.name for x in items if test]`. A test is true or false: a number, a text or a list is compared.
What could not be read makes the answer unknown, unless it is the same whatever that may be.
"""
_NAMED = """\
What is asked for by name. Of units and packages the name is in quotes; the others take any text,
also one that is put together. All other facts are listed by `hosttune facts`;
`hosttune facts SUBJECT` lists the fields of one.
"""


def custom_rules_reference() -> str:
    """The part of the document between its marks."""
    subjects = ((f"`{name}`", _read_first(MODULES[name])) for name in sorted(fact_types()))
    return (
        "\n".join(
            [
                _HEAD,
                *_list_keys("### Keys of a rule", rule_shape()),
                *_list_keys("### Keys of a parameter", PARAM),
                "### Kinds of wishes",
                "",
                _WISHES,
                *_render_table(
                    ("kind", "bounds", "keys"),
                    (_kind_row(name, kind) for name, kind in sorted(wish_kinds().items())),
                ),
                "### Expressions",
                "",
                _EXPRESSIONS,
                *_render_table(
                    ("function", "gives"),
                    ((_quote_code(one.usage), one.doc) for one in HELPERS.values()),
                ),
                (
                    "Constants: "
                    f"{', '.join(f'`{name}` ({value})' for name, value in CONSTANTS.items())}."
                ),
                "",
                "### Facts by name",
                "",
                _NAMED,
                *_render_table(("fact", "holds", "fields"), _named_rows()),
                "### Subjects of facts",
                "",
                *_render_table(("subject", "what"), subjects),
            ]
        ).rstrip()
        + "\n"
    )


def _list_keys(title: str, table: TableSpec) -> list[str]:
    rows = (
        (
            f"`{name}`" + (" *" if name in table.required else ""),
            spec.says,
            getattr(spec, "help", ""),
        )
        for name, spec in table.fields.items()
    )
    return [title, "", *_render_table(("key (* needed)", "takes", "meaning"), rows)]


def _kind_row(name: str, kind: WishKind) -> tuple[str, str, str]:
    about = " ".join((type(kind).__doc__ or "").split())
    keys = "<br>".join(
        _key_text(key, spec) for key, spec in kind.fields.items() if key not in WORDED
    )
    return f"`{name}`: {about}", ", ".join(f"`{one}`" for one in kind.operators), keys


def _key_text(key: str, spec: Any) -> str:
    choices = f", one of {', '.join(map(str, spec.choices))}" if spec.choices else ""
    needed = ", needed" if spec.required else ""
    return f"`{key}` ({spec.type.__name__}{choices}{needed}): {spec.help}"


def _named_rows() -> Iterable[tuple[str, str, str]]:
    types: Mapping[str, Any] = fact_types()
    for name in ("sysctl", "sysctl_at_boot", "sysfs", "etc", "units", "packages"):
        fields = fields_of(value_of(types[name]))
        listed = ", ".join(f"`{field}` ({name_type(kind)})" for field, kind in fields.items())
        yield f'`{name}["..."]`', _read_first(MODULES[name]), listed


def _render_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [*table_lines(head, (map(make_cell, row) for row in rows)), ""]


def _quote_code(usage: str) -> str:
    return " or ".join(f"`{one}`" for one in usage.split(" or "))


def _read_first(module: str) -> str:
    return " ".join((import_module(module).__doc__ or "").partition("\n\n")[0].split())
