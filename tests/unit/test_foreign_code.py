"""Code that a user puts where Python of root looks for modules: PYTHONPATH, the working folder,
kept byte code.
"""

import os
import subprocess
import sys

import pytest

EVE = 54321
MARK = "code of eve ran as uid"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")


@pytest.fixture
def folder(tmp_path):
    """A folder of eve's with modules that hosttune imports early and late."""
    place = tmp_path / "eve"
    place.mkdir()
    for name in ("yaml", "json", "signal", "typer"):
        (place / f"{name}.py").write_text(f"import os\nprint({MARK!r}, os.geteuid())\n")
    os.chown(place, EVE, EVE)
    return place


def start(*words, cwd="/", options=(), **environment):
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    argv = [sys.executable, *options, "-m", "hosttune", *words]
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**clean, **environment},
    )


def refuses(done, folder):
    assert MARK not in done.stdout + done.stderr
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{folder} belongs to uid {EVE}" in done.stderr
    return True


def test_root_takes_no_code_from_a_folder_of_a_user(folder):
    done = start(
        "status",
        "a b",
        options=("-P",) if sys.version_info >= (3, 11) else (),
        PYTHONPATH=str(folder),
    )
    assert refuses(done, folder)
    assert f"hint: type {sys.executable} -I -m hosttune status 'a b'" in done.stderr


def test_byte_code_that_a_user_keeps_is_not_taken(folder):
    assert refuses(start("status", PYTHONPYCACHEPREFIX=str(folder / "kept")), folder / "")


def test_working_folder_of_a_user_gives_no_code(folder):
    for name in (
        "signal",
        "typer",
    ):  # runpy itself would have run them, before the first line of hosttune
        (folder / f"{name}.py").unlink()
    assert refuses(start("status", cwd=folder), folder)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_folder_that_others_can_write_gives_no_code(folder, mode):
    os.chown(folder, 0, EVE)
    folder.chmod(mode)
    done = start("status", PYTHONPATH=str(folder))
    assert (done.returncode, MARK in done.stdout) == (2, False)
    assert f"can write {folder}" in done.stderr


def test_link_of_a_user_gives_no_code(folder, tmp_path):
    (tmp_path / "roots").mkdir()
    (folder / "link").symlink_to(tmp_path / "roots")
    assert refuses(start("status", PYTHONPATH=str(folder / "link")), folder)


def test_code_that_has_run_already_is_said(folder):
    (folder / "sitecustomize.py").write_text("x = 1\n")
    done = start("status", PYTHONPATH=str(folder))
    assert refuses(done, folder)
    assert "so their code has run" in done.stderr


def test_folders_of_root_and_isolated_starts_are_as_before(folder, tmp_path):
    assert start("--version", PYTHONPATH=str(tmp_path)).returncode == 0
    assert start("--version", options=("-I",), cwd=folder, PYTHONPATH=str(folder)).returncode == 0
