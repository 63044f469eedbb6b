"""Patterns of names in presets, udev rules and the like are those of whoever wrote the file."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.facts import globs
from hosttune.facts.base import UnknownFact
from hosttune.facts.globs import LONGEST, fits_glob
from tests.patterns import PACKAGE


@given(st.text("ab[]!-*?", max_size=8), st.text("ab[]!-*?", max_size=12))
def test_pattern_means_what_fnmatch_says(name, pattern):
    assert fits_glob(name, pattern) == fnmatchcase(name, pattern)


def test_no_bracket_without_an_end_is_left_to_fnmatch(monkeypatch):
    asked = []
    monkeypatch.setattr(globs, "fnmatchcase", lambda name, pattern: asked.append(pattern))
    fits_glob("a", "[ab]" + "[" * 3)
    assert asked == ["[ab]" + "[[]" * 3]


def test_long_pattern_is_unknown():
    with pytest.raises(UnknownFact, match="longer than 4096"):
        fits_glob("a", "*" * (LONGEST + 1))


def test_facts_ask_no_other_matcher():
    using = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "facts").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "fnmatch"
    }
    assert using == {"facts/globs.py"}
