"""Imports run one way, and only the door touches the system, and what measures."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from tests.benchmarks.layers import circles, imported_by, trees
from tests.hosts.built import BUILT

PACKAGE = Path(__file__).resolve().parents[2] / "hosttune"
MODULES = sorted(PACKAGE.rglob("*.py"))
# A layer may import from itself and from the layers below it in this list, also where it is for
# types alone.
LAYERS = (
    ("measure.cli",),
    ("cli",),
    ("measure.views",),
    ("actions", "views"),
    ("measure",),
    ("engine",),
    ("resources", "choices"),
    ("facts",),
    ("host",),
    ("rendering", "codec"),
    (
        "textfiles",
        "values",
        "errors",
        "foreign_code",
        "frozen",
        "lines",
        "numbers",
        "quoting",
        "ranges",
        "regex",
        "verdict_words",
        "__init__",
    ),
)
# Within engine/ a room may import from itself and from the rooms after it in this list.
ROOMS = ("fleet", "decide", "policy", "rules", "expressions")
SYSTEM = {
    "os",
    "subprocess",
    "psutil",
    "ctypes",
    "fcntl",
    "socket",
    "shutil",
    "tempfile",
    "syslog",
    "pwd",
    "grp",
}
# Reads nothing of the host: the package's own files, and what a person typed.
OWN_FILES = {
    "foreign_code.py",
    "textfiles.py",
    "engine/rules/compiled.py",
    "engine/rules/trusted.py",
}


def rank(part: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if part in names)


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return frozenset(found)


@cache
def graph_of_package() -> dict[str, set[str]]:
    return imported_by(trees())


def part_of(path: Path) -> str:
    return part_in("hosttune", *path.relative_to(PACKAGE).with_suffix("").parts)


def part_in(_package: str, part: str, *below: str) -> str:
    """The layer of a module, by the words of its name."""
    return (
        f"measure.{below[0]}"
        if part == "measure" and below and below[0] in {"cli", "views"}
        else part
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_run_one_way(path):
    part = part_of(path)
    if part == "__main__":
        return
    for name in sorted(imports(path)):
        if name.startswith("hosttune."):
            assert rank(part_in(*name.split("."))) >= rank(part), f"{part} imports {name}"


def test_rooms_of_the_engine_import_one_way():
    wrong = [
        (one.relative_to(PACKAGE).as_posix(), name)
        for one in (PACKAGE / "engine").rglob("*.py")
        for name in imports(one)
        if (there := name.removeprefix("hosttune.engine.").split(".")[0]) in ROOMS
        and name.startswith("hosttune.engine.")
        and ROOMS.index(there)
        < (ROOMS.index(one.parent.name) if one.parent.name in ROOMS else len(ROOMS))
    ]
    assert wrong == []


def test_no_circle_of_imports_goes_through_two_packages():
    """Those for types count."""
    across = [
        one for one in circles(graph_of_package()) if len({name.split(".")[1] for name in one}) > 1
    ]
    assert across == []


def test_circle_through_two_packages_would_be_seen():
    graph = deepcopy(graph_of_package())
    graph["hosttune.facts.placed"].add("hosttune.resources.base")
    assert len({name.split(".")[1] for name in circles(graph)[0]}) > 1


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_only_the_door_touches_the_system(path):
    relative = path.relative_to(PACKAGE).as_posix()
    if part_of(path).startswith(("host", "measure")) or relative in OWN_FILES:
        return
    assert not {name.split(".")[0] for name in imports(path)} & SYSTEM


def test_package_without_what_measures_still_looks_plans_and_judges(tmp_path):
    """`measure/` is a second program: nothing else needs it, but the list of the commands."""
    without = tmp_path / "hosttune"
    shutil.copytree(PACKAGE, without, ignore=shutil.ignore_patterns("__pycache__", "measure"))
    app = without / "cli/app.py"
    listed = [
        line for line in app.read_text().splitlines() if not line.startswith('    "Measure":')
    ]
    app.write_text("\n".join(listed))
    shutil.copytree(PACKAGE.parent / "templates", tmp_path / "templates")
    host = ("--host", str(BUILT[0]))
    for words in (
        ("--help",),
        ("check", *host),
        ("health", *host),
        ("plan", *host),
        ("driver", *host),
    ):
        command = [sys.executable, "-m", "hosttune", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
        )
        assert (done.stderr, done.returncode in {0, 1, 2}) == ("", True), done.stderr
        assert "bench" not in done.stdout
