"""The commands that rules and facts print have only options that their programs have."""

import re
from pathlib import Path

import pytest

HOSTTUNE = Path(__file__).resolve().parents[2] / "hosttune"
# journalctl(1): it has no -A or -B, as grep(1) has
OPTIONS = {"-k", "-b", "-u", "-g", "-n", "-r", "-e", "-x", "-f", "-p", "-o"}
FILES = sorted(
    path for end in ("yaml", "py") for path in HOSTTUNE.rglob(f"*.{end}") if "journalctl" in path.read_text()
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_journalctl_is_given_options_that_it_has(path):
    words = re.sub(r"'[^'\n]*'", "WORD", path.read_text())
    commands = re.findall(r"journalctl((?: +(?!-)[\w.:{}/]+| +-{1,2}[\w-]+)*)", words)
    used = {word for command in commands for word in command.split() if re.fullmatch(r"-\w", word)}
    assert used <= OPTIONS
