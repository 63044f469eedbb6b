"""Outside knowledge is in one module: two lists of the same drift apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "hosttune"
# Lists of all types that a file may name, whatever they keep: for masking, for lint, for words of a
# report.
OF_ALL_TYPES = {
    "host/reading/named.py", "resources/storage/fstab_lint.py", "resources/storage/mount_policy.py",
    "measure/views/watch_words.py",
}  # fmt: skip


TEXTS = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
}


def literals(text: str) -> Iterator[set[object]]:
    """What each set, list and tuple, and the keys of each mapping, of a module hold; bytes as
    texts.
    """
    for node in ast.walk(ast.parse(text)):
        parts = node.elts if isinstance(node, ast.Set | ast.List | ast.Tuple) else []
        parts = node.keys if isinstance(node, ast.Dict) else parts
        values = (one.value for one in parts if isinstance(one, ast.Constant))
        yield {one.decode("latin-1") if isinstance(one, bytes) else one for one in values}


def modules_with(words: tuple[str, ...]) -> set[str]:
    near = [name for name, text in TEXTS.items() if all(word in text for word in words)]
    return {name for name in near if any({*words} <= found for found in literals(TEXTS[name]))}


@pytest.mark.parametrize(
    ("words", "home", "others"),
    [
        (("tmpfs", "ramfs"), "host/known/file_systems.py", OF_ALL_TYPES),
        (
            ("overlay", "aufs"),
            "host/known/file_systems.py",
            {"facts/storage/unions.py"},
        ),  # of unions, with their options
    ],
    ids=["file systems in memory", "layered file systems"],
)
def test_list_is_in_one_module(words, home, others):
    assert modules_with(words) == {home, *others}


def test_folders_of_units_are_in_one_module():
    """`actions/record/record.py` lists folders that a record keeps, this one among them."""
    named = re.compile(r"""["']/(?:etc|usr/lib|usr/local/lib|lib)/systemd/system["']""")
    assert {name for name, text in TEXTS.items() if named.search(text)} == {
        "host/known/unit_folders.py", "actions/record/record.py",
    }  # fmt: skip


def test_what_stands_in_for_an_unread_fact_is_chosen_in_one_place():
    """`read_or_default` does it: a function that is only `try`, `except UnknownFact` and two
    returns is a copy of it.
    """
    copies = [
        f"{name}:{node.lineno}"
        for name, text in TEXTS.items()
        if not name.startswith("facts/")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Try)
        and [type(one) for one in node.body] == [ast.Return]
        and [
            ast.unparse(one).startswith("except UnknownFact:\n    return ") for one in node.handlers
        ]
        == [True]
        and ast.unparse(node.handlers[0]).count("\n") == 1
    ]
    assert copies == []
