"""What facts are about and what their fields mean: docstrings and the comments beside fields, read off the source, so
that a meaning is once.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.hints import describe
from hosttune.facts import MODULES
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELD = regex(r"    (\w+): .*?  # (.+)", re.DOTALL)


def describe_subject(subject: str) -> str:
    """The first paragraph of the docstring of a subject's module."""
    return _clean_paragraph(import_module(MODULES[subject]).__doc__)


def field_words(subject: str, kind: Any) -> dict[str, tuple[str, str]]:
    """Name -> type and meaning of all that an expression can ask of a subject: `swaps` of memory, `swaps[].path`."""
    found = {
        path.removeprefix(subject).removeprefix("."): (
            type_words,
            read_meanings(owner).get(path.rpartition(".")[2], ""),
        )
        for path, (type_words, owner) in describe({subject: kind}).items()
        if owner
    }
    is_named = any(name.startswith("[") for name in found)  # `units["..."]`: what the table behind it holds is the same
    return {name: told for name, told in found.items() if not (is_named and re.match(r"\w+\[", name))}


@cache
def read_meanings(kind: type) -> Mapping[str, str]:
    """Field -> what it means, of those that say it."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("hosttune.facts."):
            continue
        lines = inspect.getsource(owner).splitlines()
        found |= {match[1]: match[2] for line in lines if (match := _FIELD.fullmatch(line))}
        found |= {name: _clean_paragraph(one.__doc__) for name, one in vars(owner).items() if isinstance(one, property)}
    return {name: text for name, text in found.items() if text}


def _clean_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())
