"""`./run test touched`: what a change can break first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.touched import ALWAYS, choose_tests, list_changed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name, text in {
        "test_a.py": "from hosttune.facts.memory.arc import Arc\n",
        "test_b.py": "from hosttune.facts.memory import arc, numa\n",
        "test_c.py": "from hosttune.facts.memory.archive import other\n",
    }.items():
        (tmp_path / "tests" / "unit" / name).write_text(text)
    return tmp_path


def test_tests_that_import_a_module_are_chosen(tree: Path):
    files, rules = choose_tests(["hosttune/facts/memory/arc.py"], tree)
    assert files == sorted((*ALWAYS, "tests/unit/test_a.py", "tests/unit/test_b.py"))
    assert rules == []


def test_rule_and_its_cases_are_one_word_and_a_page_has_its_tests(tree: Path):
    files, rules = choose_tests(
        ["hosttune/rules/memory/memory-swappiness.yaml", "tests/rules/memory-swappiness.yaml"], tree
    )
    assert (files, rules) == (sorted(ALWAYS), ["memory-swappiness"])
    assert "tests/unit/test_plain_words.py" in choose_tests(["docs/index.md"], tree)[0]


def test_test_that_is_gone_is_not_asked(tree: Path):
    assert choose_tests(["tests/unit/test_a.py", "tests/unit/test_gone.py"], tree)[0] == sorted(
        (*ALWAYS, "tests/unit/test_a.py")
    )


def test_changed_files_are_those_of_git_with_new_ones(tmp_path: Path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "kept.py").write_text("1\n")
    (tmp_path / "old one.py").write_text("1\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    (tmp_path / "old one.py").write_text("2\n")
    (tmp_path / "new.py").write_text("1\n")
    assert list_changed(tmp_path) == ["new.py", "old one.py"]
