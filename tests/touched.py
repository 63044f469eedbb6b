"""What a change can break first: the tests of the modules, rules and pages that differ from the last commit.

It is a choice by text, for the minute between two edits: a test counts for a module that it imports or names. The rings still decide.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# They hold the whole package, and take seconds.
ALWAYS = ("tests/unit/test_layers.py", "tests/unit/test_names.py", "tests/unit/test_known_once.py")
PAGES = ("tests/unit/test_plain_words.py", "tests/unit/test_commands_in_texts.py")


def list_changed(root: Path = ROOT) -> list[str]:
    """The files that differ from the last commit, also new ones that git does not ignore; paths below the root."""
    argv = ["git", "-C", str(root), "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"]
    answer = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    return sorted(row[3:] for row in answer.split("\0") if row)


def choose_tests(changed: Iterable[str], root: Path = ROOT) -> tuple[list[str], list[str]]:
    """(files of tests, ids of rules) for these paths; a file that is gone has no tests of its own."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "tests" / "unit").glob("test_*.py"))}
    files, rules = set(ALWAYS), set()
    for name in changed:
        path = Path(name)
        if path.suffix == ".py" and path.name.startswith("test_") and (root / path).exists():
            files.add(name)
        elif path.suffix == ".py" and path.parts[0] == "hosttune":
            named = _pattern_of_module(path)
            files |= {str(test.relative_to(root)) for test, text in texts.items() if named.search(text)}
        elif path.suffix == ".yaml" and ("hosttune/rules" in name or path.parent == Path("tests/rules")):
            rules.add(path.stem)
        elif path.suffix == ".md":
            files |= set(PAGES)
    return sorted(files), sorted(rules)


def _pattern_of_module(path: Path) -> re.Pattern[str]:
    """How a test speaks of a module: its dotted name, or `from PACKAGE import ..., NAME`."""
    parts = path.with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    package, name = re.escape(".".join(parts[:-1])), re.escape(parts[-1])
    return re.compile(rf"\b{package}\.{name}\b|\bfrom {package} import [^\n]*\b{name}\b")
