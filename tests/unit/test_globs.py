"""Patterns of names in presets, udev rules and the like are those of the author of the file."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.engine.policy.file import build_policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import BadInput
from hosttune.facts import globs
from hosttune.facts.base import UnknownFact
from hosttune.facts.globs import LONGEST, MOST_KEPT, PER_PATTERN, fits_glob
from tests.patterns import PACKAGE


@given(st.text("ab[]!-*?", max_size=8), st.text("ab[]!-*?", max_size=12))
def test_pattern_means_what_fnmatch_says(name, pattern):
    assert fits_glob(name, pattern) == fnmatchcase(name, pattern)


def test_no_bracket_without_an_end_is_left_to_fnmatch(monkeypatch):
    asked = []
    monkeypatch.setattr(globs, "translate", lambda pattern: asked.append(pattern) or "a")
    globs._Matchers()["[ab]" + "[" * 3]
    assert asked == ["[ab]" + "[[]" * 3]


@pytest.mark.parametrize(
    "pattern", ["[\u0100-\ud7ff]", "a[!]x\u4e00]b", "[[\U0001f600]", "[]\u0100]"]
)
def test_set_that_is_slow_to_compile_is_unknown_and_refused_in_a_policy(pattern):
    with pytest.raises(UnknownFact, match="in brackets"):
        fits_glob("a", pattern)
    waiver = f'ignore: [{{rule: storage-noatime, reason: x, subject: "{pattern}"}}]'
    for text in (waiver, f'hosts: {{"{pattern}": {{}}}}'):
        with pytest.raises(BadInput, match="in brackets"):
            build_policy(
                load_document(text, "policy.yaml"), builtin_catalog(), "2026-01-01", "node1"
            )


@pytest.mark.parametrize("pattern", ["/\u4e00*[12]", "[\xe4-\xf6]", "[12]\u4e00[", "[\u4e00"])
def test_other_letters_are_matched_as_they_are(pattern):
    for name in (pattern, pattern.replace("*", "").replace("[12]", "1"), "\xf6"):
        assert fits_glob(name, pattern) == fnmatchcase(name, pattern)


def test_compiled_patterns_are_kept_up_to_a_number_of_characters():
    kept = globs._Matchers()
    for number in range(3 * MOST_KEPT // 4000):
        assert not kept[f"{number}" + "x" * 4000]("a")
        assert (
            sum(len(pattern) + PER_PATTERN for pattern in kept)
            == MOST_KEPT - kept.left
            <= MOST_KEPT
        )


def test_long_pattern_is_unknown():
    with pytest.raises(UnknownFact, match="longer than 4096"):
        fits_glob("a", "*" * (LONGEST + 1))


def test_nothing_asks_another_matcher():
    using = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "fnmatch"
    }
    assert using == {"facts/globs.py"}
