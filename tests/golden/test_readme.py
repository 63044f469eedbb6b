"""The plan that the README shows is the one that is printed."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from hosttune.cli.app import run

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- plan:begin -->\n", "<!-- plan:end -->"


def printed(monkeypatch) -> str:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["plan", "--host", "tests/hosts/h100-8x-2socket.json"]) == 1
    return f"```\n{out.getvalue()}```\n"


def test_plan_in_the_readme_is_what_is_printed(monkeypatch):
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    shown, _, tail = rest.partition(END)
    now = printed(monkeypatch)
    if os.environ.get("UPDATE_GOLDEN"):
        README.write_text(f"{head}{BEGIN}{now}{END}{tail}", encoding="utf-8")
        return
    assert shown == now, "UPDATE_GOLDEN=1 pytest tests/golden/test_readme.py"
