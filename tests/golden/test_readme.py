"""The plan that the README shows is the one that is printed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from hosttune.cli.app import run
from tests.generated import hold
from tests.hosts.built import HOSTS

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- plan:begin -->\n", "<!-- plan:end -->"


def printed(monkeypatch, tmp_path) -> str:
    monkeypatch.chdir(tmp_path)
    Path("built").symlink_to(HOSTS)
    monkeypatch.setenv("COLUMNS", "100")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["plan", "--host", "built/h100-8x-2socket.json"]) == 1
    return f"```\n{out.getvalue()}```\n"


def test_plan_in_the_readme_is_what_is_printed(monkeypatch, tmp_path):
    hold(README, printed(monkeypatch, tmp_path), between=(BEGIN, END))
