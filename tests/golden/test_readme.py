"""What the README and the tutorial show of hosttune is what it prints."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.cli.app import run
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.console import Console
from tests.generated import hold
from tests.golden.picture import svg
from tests.hosts.built import HOSTS
from tests.hosts.built import reader as record_reader
from tests.hosts.kinds import NAMES, record_of

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial" / "first-hour.md"
LINES = 150  # of the README: what a person reads before the first try
COLUMNS = 80


@pytest.fixture(autouse=True)
def built(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("built").symlink_to(HOSTS)


def printed(words: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(words) == 1
    return out.getvalue()


def test_plan_of_the_tutorial_is_what_is_printed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = f"```\n{printed(['plan', '--host', 'built/h100-8x-2socket.json'])}```\n"
    hold(TUTORIAL, text, between=("<!-- plan:begin -->\n", "<!-- plan:end -->"))


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("check", "--host", "built/a100-cloud-vm.json"), 0),
        (("diff", "built/a100-cloud-vm.json", "built/h100-8x-2socket.json"), 26),
        (("report", "built/"), 26),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_picture_is_what_a_terminal_shows(words, lines, monkeypatch):
    """The first lines of it, or all (0)."""
    monkeypatch.setattr(
        "hosttune.cli.common.make_console", lambda _: Console(COLUMNS, is_terminal=True, has_colour=True)
    )
    monkeypatch.setattr("hosttune.cli.common.spell_program", lambda: "hosttune")
    shown = printed(list(words)).splitlines()
    text = "\n".join([f"$ hosttune {' '.join(words)}", "", *shown[: lines or None], *(["..."] if lines else [])])
    hold(ROOT / "docs" / f"{words[0]}.svg", svg(text, COLUMNS, f"hosttune {words[0]}"))


def settings() -> str:
    """A row for each rule of profile base that changes settings, with what it says of the first host that differs: a
    built one, or one of the kinds.
    """
    catalog = builtin_catalog()
    named = catalog.profiles["base"].rules
    said: dict[str, str] = {}
    for reader in (*map(record_reader, sorted(HOSTS.glob("*.json"))), *map(record_of, NAMES)):
        for finding in examine(reader, catalog, Policy(today="2026-01-01")).plan().findings:
            if finding.changes:
                said.setdefault(finding.rule, finding.reason)
    rows = ["| rule | judges | for example | gain | risk |", "|---|---|---|---|---|"]
    for rule in (catalog.rules[name] for name in sorted(catalog.rules) if name in named and catalog.rules[name].want):
        clauses = rule.gain.split("; ")
        gain = "; ".join(clauses[: 2 if clauses[0].startswith("none ") else 1])
        cells = (
            f"`{rule.id}`",
            rule.title,
            said.get(rule.id, "").partition(" (")[0].partition(", also")[0],
            gain,
            rule.risk.value,
        )
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def test_settings_of_the_readme_are_those_of_the_base_profile():
    hold(README, settings(), between=("<!-- settings:begin -->\n", "<!-- settings:end -->"))


def test_readme_is_read_in_one_go():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES
