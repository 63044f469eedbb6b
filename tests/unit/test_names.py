"""One word for one thing: a class name says alone what it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "hosttune"


def doubles(sources: dict[str, str]) -> dict[str, list[str]]:
    """The class names that are defined more than once, also within functions, and where."""
    places = defaultdict(list)
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_class_name_is_defined_twice():
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }
    assert len(sources) > 100
    assert doubles(sources) == {}


def test_class_name_that_is_defined_twice_would_be_seen():
    sources = {"one.py": "class _Line: ...", "two.py": "def make():\n    class _Line: ..."}
    assert doubles(sources) == {"_Line": ["one.py:1", "two.py:2"]}


# A participle alone does not say what a function does: `told`, `_made`, `listed`. Nouns and verbs
# that end alike are none.
IRREGULAR = [
    "told",
    "said",
    "made",
    "found",
    "seen",
    "kept",
    "held",
    "left",
    "gone",
    "known",
    "shown",
    "given",
    "written",
    "spelt",
    "sent",
    "begun",
    "taken",
]
NO_PARTICIPLES = {"feed", "speed", "need", "seed", "embed", "proceed", "exceed", "succeed", "shed"}


def bare_participles(sources: dict[str, str]) -> list[str]:
    """The functions and methods that are called by a participle alone; those that are read as
    fields may be.
    """
    found = []
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef) or any(
                "property" in ast.unparse(one) or ast.unparse(one) == "fact"
                for one in node.decorator_list
            ):
                continue
            name = node.name.strip("_")
            if name not in NO_PARTICIPLES and (
                name in IRREGULAR or (name.isalpha() and name.endswith("ed"))
            ):
                found.append(f"{path}:{node.lineno} {node.name}")
    return found


def test_no_function_is_called_by_a_participle_alone():
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }
    assert bare_participles(sources) == []


def test_function_that_is_called_by_a_participle_would_be_seen():
    text = "class A:\n    @property\n    def told(self): ...\n    def _made(self): ...\ndef listed(): ...\ndef feed(): ..."
    assert bare_participles({"one.py": text}) == ["one.py:5 listed", "one.py:4 _made"]
