"""`./run test touched`: what a change can break first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.costs import Cost
from tests.touched import ALWAYS, OF_RULES, Choice, choose_tests, list_changed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "tests/unit/test_a.py": "from hosttune.facts.memory.arc import Arc\n",
        "tests/unit/test_b.py": "from hosttune.facts.memory import (\n    numa,  # nodes\n    arc,\n)\n",
        "tests/unit/test_c.py": "from hosttune.facts.memory.archive import other\n",
        "tests/unit/test_d.py": "def test():\n    import hosttune.check\n",
        "tests/unit/test_e.py": "SCHEMA = 'policy.json'\n",
        "tests/unit/test_f.py": "RULE = 'memory-swappiness'\n",
        "tests/live/test_live.py": "from hosttune.facts.memory.arc import Arc\n",
        "hosttune/__init__.py": "",
        "hosttune/check.py": "def check():\n    from hosttune.facts.memory import arc as arc_of_zfs\n",
        "hosttune/facts/memory/arc.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(choice: Choice) -> list[str]:
    """The files that are not always chosen."""
    chosen = sorted({*choice.near, *choice.far} - {*ALWAYS})
    return [name.removeprefix("tests/unit/test_") for name in chosen]


def test_tests_that_import_a_module_are_chosen_also_through_another_and_inside_a_function(
    tree: Path,
):
    choice = choose_tests(["hosttune/facts/memory/arc.py"], tree)
    assert names(choice) == ["a.py", "b.py", "d.py"]
    assert (choice.rules, choice.left) == ([], 0)


def test_far_tests_are_left_out_where_all_together_take_too_long(
    tree: Path, monkeypatch: pytest.MonkeyPatch
):
    costs = {
        f"tests/unit/test_{name}.py": Cost(seconds, 1)
        for name, seconds in (("a", 5), ("b", 3), ("d", 1))
    }
    monkeypatch.setattr("tests.touched.read_costs", lambda: costs)
    for all_s, chosen in (
        (9, ["a.py", "b.py", "d.py"]),
        (8, ["a.py", "b.py"]),
        (7, ["b.py"]),
        (2, []),
    ):
        choice = choose_tests(["hosttune/facts/memory/arc.py"], tree, all_s)
        assert (names(choice), choice.left) == (chosen, 3 - len(chosen))


def test_changed_test_is_run_whole_whatever_it_takes(tree: Path):
    assert choose_tests(["tests/unit/test_c.py"], tree, 0).near == sorted(
        (*ALWAYS, "tests/unit/test_c.py")
    )


def test_rule_and_its_cases_are_one_word_and_a_page_has_its_tests(tree: Path):
    choice = choose_tests(
        ["hosttune/rules/memory/memory-swappiness.yaml", "tests/rules/memory-swappiness.yaml"], tree
    )
    assert {*choice.near} == {*ALWAYS, *OF_RULES}
    assert choice.far == ["tests/unit/test_f.py"]
    assert choice.rules == ["memory-swappiness"]
    assert "tests/unit/test_plain_words.py" in choose_tests(["docs/index.md"], tree).near


def test_other_file_has_the_tests_that_name_it(tree: Path):
    assert names(choose_tests(["hosttune/schemas/policy.json"], tree)) == ["e.py"]


def test_test_that_is_gone_is_not_asked(tree: Path):
    assert names(choose_tests(["tests/unit/test_a.py", "tests/unit/test_gone.py"], tree)) == [
        "a.py"
    ]


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
