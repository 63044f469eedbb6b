"""Words that a reader would have to translate are in no help text, in no text of a rule and in no
document.

The commands of a terminal and what it prints are quoted in code blocks, which are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hosttune.cli.command_tree import read_tree
from tests.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
RULES = sorted(ROOT.glob("hosttune/rules/*/*.yaml"))
# `alone` for only, `tell` and `told` for report, `stand` and `lie` for be, `is no X` for is not an
# X.
TRANSLATED = re.compile(
    r"\b(?:alone|nobody|somebody|whoever|anybody|tells?|told|mend(?:s|ed)?|lies|stands?(?!-in)|held against)\b|(?<!there )\bis no (?!longer\b)[a-z]+",
    re.IGNORECASE,
)
CODE = re.compile(r"```.*?```|<!-- (\w+):begin -->.*?<!-- \1:end -->|`[^`\n]*`", re.DOTALL)
MOST_WORDS = 30  # of a sentence
SENTENCE = re.compile(r"(?<=[.:;!?])\s+|\n\s*\n|\n\s*[-|]|\|")


def helps() -> dict[str, str]:
    """Every text of the command line's help, by what it is of."""
    found = {}
    for command in read_tree().walk():
        name = " ".join(("hosttune", *command.path))
        found[name] = command.help
        found |= {
            f"{name} {(one.names or (one.placeholder,))[-1]}": one.help
            for one in (*command.options, *command.arguments)
        }
    return found


def test_help_is_in_plain_words():
    assert {
        name: TRANSLATED.findall(text) for name, text in helps().items() if TRANSLATED.search(text)
    } == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_is_in_plain_words(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    assert TRANSLATED.findall(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_of_a_page_are_short(page):
    text = CODE.sub("X", page.read_text(encoding="utf-8"))
    long = [
        " ".join(one.split())
        for one in SENTENCE.split(text)
        if one and len(one.split()) > MOST_WORDS
    ]
    assert long == []


# What is not a sentence for people: keys of JSON and of tables. Patterns are none, either.
KEYS = {"left alone"}


@pytest.mark.parametrize("room", ["actions", "cli", "measure", "views", "engine/decide"])
def test_what_commands_print_is_in_plain_words(room):
    """Every text with a blank in the code of what commands print, docstrings apart."""
    found = []
    for path in sorted((ROOT / "hosttune" / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docs
            ):
                text = CODE.sub("X", node.value)
                if (
                    " " in text.strip()
                    and text not in KEYS
                    and "(?:" not in text
                    and TRANSLATED.search(text)
                ):
                    found.append(f"{path.name}:{node.lineno}: {text.strip()}")
    assert found == []


TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
READ = {
    "title",
    "gain",
    "why",
    "help",
    "else",
    "do",
}  # keys of a rule whose texts people read; `do` has a step a line


def texts_of(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str) and key in READ:
        text = CODE.sub("X", TEMPLATE.sub("X", value))
        yield from text.splitlines() if key == "do" else [text]
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from texts_of(below, name)
    elif isinstance(value, list):
        for below in value:
            yield from texts_of(below, key)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_rule_is_in_plain_words(path):
    texts = list(texts_of(read_yaml(path)))
    assert [text for text in texts if TRANSLATED.search(text)] == []
    sentences = [one for text in texts for one in SENTENCE.split(text) if one]
    assert [one for one in sentences if len(one.split()) > MOST_WORDS] == []


def test_a_rule_counts_things_with_their_noun():
    """`{{ x }} errors` says "1 errors": counted() knows both."""
    wrong = re.compile(
        r"\}\} (?:[a-z]+ )?(?:errors|times|sectors|requests|rows|banks)\b|\{\{ '(\w+)' if [\w.]+ == 1 else '\1e?s' "
    )
    assert [
        f"{path.name}: {found[0]}" for path in RULES for found in wrong.finditer(path.read_text())
    ] == []
