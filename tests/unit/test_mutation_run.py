"""The mutation run takes the project as it lies here: the tests it names are in the copy that it
works in.
"""

import subprocess

import pytest

from tests import mutation

MODULE = "hosttune/engine/decide/plan.py"


def test_copy_has_every_test_that_is_named_committed_or_not(tmp_path, monkeypatch):
    project, folder = tmp_path / "project", tmp_path / "copy"
    texts = {
        MODULE: "",
        "tests/unit/test_plan.py": "from hosttune.engine import plan\n",
        "tests/unit/test_other.py": "from hosttune.textfiles import own_file\n",
        "tests/unit/test_new.py": "import hosttune.engine.decide.plan\n",
        "tests/unit/test_gone.py": "import hosttune.engine.decide.plan\n",
        "tests/unit/test_secret.py": "import hosttune.engine.decide.plan\n",
        ".gitignore": "test_secret.py\n",
    }
    for name, text in texts.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "--quiet"], check=True, timeout=60)
    subprocess.run(
        [
            *git,
            "add",
            MODULE,
            "tests/unit/test_plan.py",
            "tests/unit/test_other.py",
            "tests/unit/test_gone.py",
        ],
        check=True,
        timeout=60,
    )
    (project / "tests/unit/test_gone.py").unlink()
    monkeypatch.setattr(mutation, "ROOT", project)
    assert mutation.tests() == ["tests/unit/test_new.py", "tests/unit/test_plan.py"]
    folder.mkdir()
    mutation.copied(folder)
    copied = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert copied == {
        MODULE,
        ".gitignore",
        "setup.cfg",
        *mutation.tests(),
        "tests/unit/test_other.py",
    }


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        ("x = f(a, 'one two three')", "x = f(a, 'XXone two threeXX')", True),
        ("x = f(a, f'{b} was not found')", "x = f(a, f'{b} WAS NOT FOUND')", True),
        ("x = f(a, 'one two three')", "x = f(a, None)", False),
        ("x = f(a, 'one two three')", "x = f(b, 'one two three')", False),
        ("x = f('enabled')", "x = f('ENABLED')", False),
        ("x = 1", "x = 2", False),
    ],
)
def test_only_what_changes_a_sentence_is_not_tried(before, after, is_one):
    assert mutation.is_sentence([before], [after]) is is_one
