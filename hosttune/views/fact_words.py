"""What facts are about and what their fields mean: docstrings and the comments beside fields, read
off the source, so that a meaning is once.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.hints import describe, fields_of, item_of, value_of
from hosttune.facts import MODULES, Fact

if TYPE_CHECKING:
    from collections.abc import Mapping


def describe_subject(subject: str) -> str:
    """The first paragraph of the docstring of a subject's module."""
    return _clean_paragraph(import_module(MODULES[subject]).__doc__)


def field_words(subject: str, kind: Any) -> dict[str, tuple[str, str]]:
    """Name -> type and meaning of all that an expression can ask of a subject: `swaps` of memory,
    `swaps[].path`.
    """
    found = {
        path.removeprefix(subject).removeprefix("."): (
            type_words,
            read_meanings(owner).get(path.rpartition(".")[2], ""),
        )
        for path, (type_words, owner) in describe({subject: kind}).items()
        if owner
    }
    # `units["..."]`: what the table behind it holds is the same
    is_named = any(name.startswith("[") for name in found)
    return {
        name: words for name, words in found.items() if not (is_named and re.match(r"\w+\[", name))
    }


@cache
def read_meanings(kind: type) -> Mapping[str, str]:
    """Field or property -> what it means. Of a list or a mapping of facts that says nothing itself:
    what one of them is.
    """
    hints = fields_of(kind)
    found = {name: _describe_items(hint) for name, hint in hints.items()}
    # Base classes first, so that a field that a subclass describes anew has its words.
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("hosttune.facts."):
            found |= _read_members(inspect.getsource(owner))
    return {name: text for name, text in found.items() if text}


def _describe_items(hint: Any) -> str:
    item = item_of(hint) or value_of(hint)
    return (
        _clean_paragraph(item.__doc__) if isinstance(item, type) and issubclass(item, Fact) else ""
    )


def _read_members(source: str) -> dict[str, str]:
    """Field -> the comment beside it, on whichever of its lines; else the one above it. Of a
    method: its docstring.
    """
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa")
    }
    lines = source.splitlines()
    (body,) = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    found = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = node.lineno
            while lines[first - 2].lstrip().startswith("#"):
                first -= 1
            beside = [
                comments[line]
                for line in range(node.lineno, (node.end_lineno or 0) + 1)
                if line in comments
            ]
            above = [comments[line] for line in range(first, node.lineno) if line in comments]
            found[node.target.id] = " ".join(beside or above)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = _clean_paragraph(ast.get_docstring(node))
    return {name: text for name, text in found.items() if text}


def _clean_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())
