"""The self-contained file: built twice, and run where there is nothing but Python's own library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
TREE = ("hosttune", "templates", "playbooks/packaging")
RECORD = ROOT / "tests/hosts/h100-8x-2socket.json"


def built(root: Path, out: Path) -> Path:
    words = (sys.executable, "-I", root / "playbooks/packaging/pyz.py", out)
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("pyz") / "hosttune.pyz")


def start(pyz: Path, *words: str, asked: str = "", options: tuple[str, ...] = ("-I", "-S"), **environment: str):
    return subprocess.run(
        (sys.executable, *options, pyz, *words),
        check=False, capture_output=True, text=True, timeout=120, input=asked, cwd="/", env={**os.environ, **environment},
    )  # fmt: skip


def test_pyz_of_the_same_sources_has_the_same_bytes(pyz, tmp_path):
    for name in TREE:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    assert built(tmp_path, tmp_path / "again.pyz").read_bytes() == pyz.read_bytes()


def test_pyz_is_executable_and_holds_no_compiled_part(pyz):
    assert os.access(pyz, os.X_OK)
    with zipfile.ZipFile(pyz) as packed:
        names = packed.namelist()
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []
    tops = {name.split("/")[0] for name in names}
    assert {"typer", "yaml", "jinja2", "markupsafe", "distro", "pynvml.py"} <= tops
    assert "example.py" not in tops
    assert {"licences/LICENSE", "hosttune/rules/catalog.json"} <= set(names)


@pytest.mark.parametrize("words", [("--version",), ("explain", "storage-noatime"), ("plan", "--host", str(RECORD))])
def test_pyz_answers_as_the_checkout_does(words, pyz):
    expected = subprocess.run(
        (sys.executable, "-m", "hosttune", *words),
        # Not what the process itself has: a readline that some plugin loads puts COLUMNS there, and lines are broken.
        check=False, capture_output=True, text=True, timeout=120, cwd=ROOT, env={**os.environ},
    )  # fmt: skip
    done = start(pyz, *words)
    assert done.stdout.replace(str(pyz), str(ROOT / "run")) == expected.stdout
    assert done.returncode == expected.returncode
    assert done.stdout


def test_pyz_renders_the_templates_it_carries(pyz):
    plan = json.loads(start(pyz, "plan", "--host", str(RECORD), "--format", "json").stdout)
    texts = [change["after"] for stage in plan["stages"] for change in stage["changes"]]
    assert any("hosttune" in text.get("text", "") for text in texts if isinstance(text, dict))


def test_pyz_writes_nothing(pyz, tmp_path):
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    assert start(pyz, "check", "--host", str(RECORD), HOME=str(home), TMPDIR=str(scratch)).returncode == 1
    assert [*home.iterdir(), *scratch.iterdir(), *pyz.parent.glob("__pycache__")] == []


def test_pyz_imports_nothing_from_pythonpath_or_the_folder_it_lies_in(pyz, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    shutil.copy(pyz, tmp_path)
    done = start(tmp_path / pyz.name, "--version", options=(), PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_pyz_looks_at_the_live_host_without_psutil(pyz):
    found = json.loads(start(pyz, "facts", "work", "--format", "json").stdout)
    assert "psutil" not in json.dumps(found)


def test_pyz_served_answers_line_by_line(pyz):
    done = start(pyz, "--serve", asked='["--version"]\n["no-such-command"]\n')
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["stdout"].startswith("hosttune ")
    assert (first["status"], second["status"]) == (0, 2)
    assert "no-such-command" in second["stderr"]
