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
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(sources) > 100
    assert doubles(sources) == {}


def test_class_name_that_is_defined_twice_would_be_seen():
    sources = {"one.py": "class _Line: ...", "two.py": "def make():\n    class _Line: ..."}
    assert doubles(sources) == {"_Line": ["one.py:1", "two.py:2"]}
