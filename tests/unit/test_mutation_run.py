"""The mutation run takes the project as it lies here: the tests it names are in the copy that it works in."""

import subprocess

from tests import mutation

MODULE = "hosttune/engine/plan.py"


def test_copy_has_every_test_that_is_named_committed_or_not(tmp_path, monkeypatch):
    project, folder = tmp_path / "project", tmp_path / "copy"
    texts = {
        MODULE: "",
        "tests/unit/test_plan.py": "",
        "tests/unit/test_new.py": "import hosttune.engine.plan\n",
        "tests/unit/test_gone.py": "import hosttune.engine.plan\n",
        "tests/unit/test_secret.py": "import hosttune.engine.plan\n",
        ".gitignore": "test_secret.py\n",
    }
    for name, text in texts.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "--quiet"], check=True, timeout=60)
    subprocess.run([*git, "add", MODULE, "tests/unit/test_plan.py", "tests/unit/test_gone.py"], check=True, timeout=60)
    (project / "tests/unit/test_gone.py").unlink()
    monkeypatch.setattr(mutation, "ROOT", project)
    named = mutation.tests_of([MODULE])
    assert named == sorted([*mutation.ALWAYS, "tests/unit/test_new.py", "tests/unit/test_plan.py"])
    folder.mkdir()
    mutation.copied(folder, [MODULE])
    copied = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert copied == {MODULE, ".gitignore", "setup.cfg", *named} - set(mutation.ALWAYS)
