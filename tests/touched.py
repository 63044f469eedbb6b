"""What a change can break first: the tests that import what differs from the last commit, near ones
first, as many as take a minute.

It is a choice by text, for the time between two edits: a module's imports are read with a pattern,
those inside functions too, and what folders register by themselves is not seen. The rings still
decide.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.costs import CAP_S, read_costs, sum_file_costs

ROOT = Path(__file__).resolve().parent.parent
# They hold the whole package, and take seconds.
ALWAYS = ("tests/unit/test_layers.py", "tests/unit/test_names.py", "tests/unit/test_known_once.py")
PAGES = (
    "tests/unit/test_plain_words.py",
    "tests/unit/test_commands_in_texts.py",
    "tests/golden/test_docs.py",
)
OF_RULES = ("tests/rules/test_kinds.py", "tests/golden/test_docs.py", "tests/unit/test_catalog.py")
COUNTING = (
    "tests/unit/test_cli.py",
    "tests/unit/test_cli_policy.py",
)  # what all rules together plan
RINGS = ("unit", "golden", "rules", "rooted", "gpu")
ALL_S = 50.0  # processor seconds of the tests that import the change: half a minute on two cores
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Choice:
    """Files of tests that run whole, those of which each test keeps to its bound, and ids of rules;
    and how many files that reach the change are left out, as all together would take too long.
    """

    near: list[str]
    far: list[str]
    rules: list[str]
    left: int = 0


def list_changed(root: Path = ROOT) -> list[str]:
    """The files that differ from the last commit, also new ones that git does not ignore; paths
    below the root.
    """
    argv = [
        "git",
        "-C",
        str(root),
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
    ]
    answer = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    return sorted(row[3:] for row in answer.split("\0") if row)


def choose_tests(changed: Iterable[str], root: Path = ROOT, all_s: float = ALL_S) -> Choice:
    """What to run for these paths; a file that is gone has no tests of its own."""
    texts = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for folder in ("hosttune", "tests")
        for path in sorted((root / folder).rglob("*.py"))
    }
    near: set[str] = {*ALWAYS}
    naming: set[str] = set()
    rules, modules = set(), []
    for name in changed:
        path = Path(name)
        if path.suffix == ".py":
            modules.append(name)
        elif path.suffix == ".yaml" and (
            "hosttune/rules" in name or path.parent == Path("tests/rules")
        ):
            rules.add(path.stem)
            near |= {*OF_RULES}
            naming |= {*COUNTING, *(one for one, text in texts.items() if path.stem in text)}
        elif path.suffix == ".md":
            near |= {*PAGES}
        else:
            near |= {one for one, text in texts.items() if _is_test(one) and path.name in text}
    steps = dict.fromkeys(naming, 1) | count_steps(modules, texts)
    near |= {name for name in modules if _is_test(name) and name in texts}
    known = sum_file_costs(read_costs(), CAP_S)
    reached = [name for name in steps if name in texts and _is_test(name) and name not in near]
    far, spent = [], 0.0
    for name in sorted(reached, key=lambda one: (steps[one], known.get(one, 0.0), one)):
        spent += known.get(name, 0.0)
        if spent <= all_s:
            far.append(name)
    return Choice(sorted(near), sorted(far), sorted(rules), len(reached) - len(far))


def _is_test(name: str) -> bool:
    path = Path(name)
    return path.name.startswith("test_") and path.parts[0] == "tests" and path.parts[1] in RINGS


def count_steps(changed: Iterable[str], texts: Mapping[str, str]) -> dict[str, int]:
    """The files that import one of these, and in how many steps, the files themselves with 0."""
    steps = dict.fromkeys(changed, 0)
    names = {_name_module(name): name for name in (*texts, *steps)}
    importers: dict[str, set[str]] = {}
    for name, text in texts.items():
        for module in _list_imports(text):
            if module in names:
                importers.setdefault(names[module], set()).add(name)
    row = [*steps]
    while row:
        following = []
        for name in row:
            for other in importers.get(name, ()):
                if other not in steps:
                    steps[other] = steps[name] + 1
                    following.append(other)
        row = following
    return steps


def _name_module(path: str) -> str:
    parts = Path(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _list_imports(text: str) -> set[str]:
    """Dotted names: the packages that the text imports from, and each with what it imports, which
    may be a module.
    """
    found: set[str] = set()
    for package, names, plain in IMPORT.findall(text):
        found |= {word.split()[0] for word in plain.split(",") if word.strip()}
        if package:
            words = [word.split() for word in re.sub(r"#[^\n]*", "", names).strip("()").split(",")]
            found |= {package, *(f"{package}.{word[0]}" for word in words if word)}
    return found
