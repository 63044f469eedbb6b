"""The commands that rules and facts print have only options that their programs have."""

import re
from pathlib import Path

import pytest
import yaml

HOSTTUNE = Path(__file__).resolve().parents[2] / "hosttune"
# journalctl(1): it has no -A or -B, as grep(1) has
OPTIONS = {"-k", "-b", "-u", "-g", "-n", "-r", "-e", "-x", "-f", "-p", "-o", "-t"}
FILES = sorted(
    path
    for end in ("yaml", "py")
    for path in HOSTTUNE.rglob(f"*.{end}")
    if "journalctl" in path.read_text()
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_journalctl_is_given_options_that_it_has(path):
    words = re.sub(r"'[^'\n]*'", "WORD", path.read_text())
    commands = re.findall(r"journalctl((?: +(?!-)[\w.:{}/]+| +-{1,2}[\w-]+)*)", words)
    used = {word for command in commands for word in command.split() if re.fullmatch(r"-\w", word)}
    assert used <= OPTIONS


@pytest.mark.parametrize(
    "path", sorted(HOSTTUNE.glob("rules/*/*.yaml")), ids=lambda path: path.stem
)
def test_no_expression_holds_a_line_break(path):
    """It counts as a blank there, so that a step of a way out would not end."""
    texts = [
        str(node.value) for node in yaml.compose_all(path.read_text()) for node in _scalars(node)
    ]
    assert [
        one for text in texts for one in re.findall(r"\{\{.*?\}\}", text, re.DOTALL) if "\n" in one
    ] == []


def _scalars(node):
    if isinstance(node, yaml.ScalarNode):
        yield node
    for one in node.value if isinstance(node.value, list) else ():
        for part in one if isinstance(one, tuple) else (one,):
            yield from _scalars(part)
