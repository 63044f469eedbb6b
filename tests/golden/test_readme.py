"""What the README and the tutorial show of hosttune is what it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from hosttune.cli.app import run
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.console import Console
from tests.generated import hold
from tests.golden.picture import svg
from tests.hosts.built import HOSTS
from tests.rules.test_cases import FILES

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial" / "first-hour.md"
LINES = 150  # of the README: what a person reads before the first try
COLUMNS = 80
USUAL = (
    "in a container",
    "under WSL",
    "systemd does not run",
    "there is ",
    "an image ",
)  # what most rules say
CHANGED = {  # what one line of the case does not show
    "gpu-driver": "no driver → `nvidia-headless-no-dkms-580-server-open`, prebuilt and signed",
    "gpu-persistence": "`nvidia-persistenced --no-persistence-mode` → without that option",
    "services-needrestart": "needrestart restarts Slurm, containers and GPU daemons → it never does",
    "storage-data-mounts": "not in fstab → `UUID=3f1c7c1e-8e0a-4c55-9d0b-6a1f0f3f2b71 /scratch xfs noatime,nofail`",
    "storage-tmp-tmpfs": "/tmp on a hard disk → `size=64G` in memory, at most a tenth of it",
}


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
    monkeypatch.setattr("hosttune.cli.common.spell_program", lambda: "hosttune")
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
        "hosttune.cli.common.make_console",
        lambda _: Console(COLUMNS, is_terminal=True, has_colour=True),
    )
    monkeypatch.setattr("hosttune.cli.common.spell_program", lambda: "hosttune")
    shown = printed(list(words)).splitlines()
    text = "\n".join(
        [f"$ hosttune {' '.join(words)}", "", *shown[: lines or None], *(["..."] if lines else [])]
    )
    hold(ROOT / "docs" / f"{words[0]}.svg", svg(text, COLUMNS, f"hosttune {words[0]}"))


def test_no_page_names_the_folder_of_the_checkout_in_which_it_was_written():
    pages = (README, *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.svg"))
    assert [str(one) for one in pages if f"{ROOT}/" in one.read_text(encoding="utf-8")] == []


def settings() -> str:
    """A row for each rule of profile base that changes settings: what the first of its cases
    changes, where it does not apply (what is so for most rules is left out), gain and risk.
    """
    catalog = builtin_catalog()
    named = catalog.profiles["base"].rules
    rows = ["| setting | for example | not if | gain | risk |", "|---|---|---|---|---|"]
    for rule in (
        catalog.rules[name]
        for name in sorted(catalog.rules)
        if name in named and catalog.rules[name].want
    ):
        clauses = rule.gain.split("; ")
        gain = "; ".join(clauses[: 2 if clauses[0].startswith("none ") else 1])
        guards = (str(guard.otherwise.source).partition(" (")[0] for guard in rule.applies_when)
        unless = [text for text in guards if "{{" not in text and not text.startswith(USUAL)]
        example = CHANGED[rule.id] if rule.id in CHANGED else first_change(rule.id)
        cells = (
            f"{rule.title} (`{rule.id}`)",
            example,
            "<br>".join(unless[:2]),
            gain,
            rule.risk.value,
        )
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def first_change(rule: str) -> str:
    """`vm.swappiness: 60 -> 10`: of the first case with changes, the first that is not of a
    drop-in, else that one.
    """
    changes = next(changes for case in FILES[rule] if (changes := case["expect"].get("changes")))
    first = next((one for one in changes if not one.startswith("file:")), changes[0])
    place, before, after = re.fullmatch(r"\w[\w-]*:(\S+) (.+) -> (.+)", first).groups()
    return f"`{after}` (new)" if before == "ABSENT" else f"`{place}`: {before} → {after}"


def test_settings_of_the_readme_are_those_of_the_base_profile():
    hold(README, settings(), between=("<!-- settings:begin -->\n", "<!-- settings:end -->"))


def test_readme_is_read_in_one_go():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES
