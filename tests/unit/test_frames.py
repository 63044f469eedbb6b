"""The frames of a new fact and of a new kind of wish work as they are written, and none is left
half filled in.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.engine.rules.lint import PLACEHOLDER
from tests.frames import main

ROOT = Path(__file__).resolve().parents[2]
# Who speaks of what is to be filled in.
OF_FRAMES = {
    "hosttune/cli/rules.py", "hosttune/engine/rules/lint.py", "tests/unit/test_frames.py", "tests/unit/test_rule_frames.py",
}  # fmt: skip


def test_frames_pass_their_tests(tmp_path):
    for folder in ("hosttune", "templates"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for path in ("tests/unit/fake_reader.py", "tests/unit/wish_host.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    assert "tests/unit/test_facts_lock_limit.py" in main("fact", ["memory/lock-limit"], tmp_path)
    assert "tests/unit/test_lamp_file_resource.py" in main("kind", ["kernel/lamp-file"], tmp_path)
    names = ("test_facts_lock_limit.py", "test_lamp_file_resource.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(f"tests/unit/{name}" for name in names),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


@pytest.mark.parametrize(
    ("what", "words", "why"),
    [
        ("fact", [], "name it DOMAIN/NAME"),
        ("fact", ["nowhere/lamp"], "domains: .*memory"),
        ("kind", ["kernel/../lamp"], "name it DOMAIN/NAME"),
        ("fact", ["memory/reclaim"], "hosttune/facts/memory/reclaim.py is there already"),
    ],
)
def test_name_that_is_none_or_taken_is_refused(what, words, why):
    with pytest.raises(SystemExit, match=why):
        main(what, words)


def test_no_frame_is_left_half_filled_in():
    files = [*(ROOT / "hosttune").rglob("*.py"), *(ROOT / "tests/unit").glob("*.py")]
    left = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if PLACEHOLDER in path.read_text(encoding="utf-8")
    }
    assert left - OF_FRAMES == set()
