"""The exact texts that people see, 80 columns wide. `UPDATE_GOLDEN=1 pytest tests/golden` writes them anew.

A file is called `<scenario>.<exit>.txt`: the exit status belongs to what is seen.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.views.plan import plan_text, undo_text
from hosttune.views.receipt import receipt_text
from hosttune.views.report import check_report
from hosttune.views.summary import applied_status, exit_status
from hosttune.views.terminal import Screen
from tests.golden import scenarios as made

FOLDER = Path(__file__).resolve().parent
PAGE = made.PAGE
ROOT = replace(PAGE, program="hosttune", sudo="")
RECORD = replace(PAGE, host="gpu-017.json", options=" --host gpu-017.json", can_apply=False)
INTERRUPTED = (
    "run 20261008-220143-9c1e (apply) was interrupted: `hosttune apply --yes` or `hosttune undo` finishes it",
)


def checked(plan, page=PAGE, **more):
    return check_report(plan, page, **more), exit_status(plan, strict=False)


def planned(plan, page=PAGE, **more):
    return plan_text(plan, page, **more), exit_status(plan, strict=False)


def applied(receipt, plan, **more):
    return receipt_text(receipt, ROOT, **more), applied_status(plan, receipt)


SCENARIOS = {
    "check": lambda: checked(made.PLAN),
    "check-verbose": lambda: checked(made.PLAN, replace(PAGE, is_verbose=True)),
    "check-root": lambda: checked(made.SMALL, ROOT),
    "check-clean": lambda: checked(made.CLEAN, ROOT),
    "check-record": lambda: checked(made.SMALL, RECORD),
    "check-narrow": lambda: checked(made.PLAN, replace(PAGE, screen=Screen(48))),
    "check-interrupted": lambda: checked(made.SMALL, PAGE, interrupted=INTERRUPTED),
    "check-unproven": lambda: checked(made.BROKEN),
    "check-reboot": lambda: checked(made.AFTER_APPLY, ROOT),
    "plan": lambda: planned(made.PLAN),
    "plan-root": lambda: planned(made.SMALL, ROOT),
    "plan-clean": lambda: planned(made.CLEAN, ROOT),
    "plan-unproven": lambda: planned(made.BROKEN),
    "apply-done": lambda: applied(made.DONE, made.APPLIED),
    "apply-failed": lambda: applied(made.FAILED, made.SMALL),
    "apply-nothing": lambda: applied(made.NOTHING, made.CLEAN),
    "undo": lambda: (undo_text(made.BACK, PAGE, words=f"undo {made.RUN}", ignore=("memory-swappiness",)), 1),
    "undo-gone": lambda: (undo_text(made.GONE, ROOT, words="undo --rule memory-swappiness", on_paper=2), 0),
    "undo-done": lambda: (
        receipt_text(made.TAKEN_BACK, ROOT, is_undo=True, ignore=("memory-swappiness",)),
        applied_status(made.CLEAN, made.TAKEN_BACK),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_is_what_people_were_shown(name):
    text, status = SCENARIOS[name]()
    path = FOLDER / f"{name}.{status}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        for old in FOLDER.glob(f"{name}.[0-9].txt"):
            old.unlink()
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"no {path.name}: UPDATE_GOLDEN=1 pytest tests/golden"
    assert text == path.read_text(encoding="utf-8")


def test_no_text_is_left_over():
    assert {path.name.split(".")[0] for path in FOLDER.glob("*.txt")} == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_prose_keeps_to_the_width(name):
    """Commands, paths, diffs and digests stay whole; everything else wraps."""
    width = 48 if name == "check-narrow" else 80
    whole = ("+ ", "- ", "hosttune ", "sudo ", "/opt/", "/etc/", "Digest", "UUID", "@@")
    for line in SCENARIOS[name]()[0].splitlines():
        assert len(line) <= width or line.strip().startswith(whole) or " " not in line.strip(), line


@pytest.mark.parametrize("name", ["check", "plan", "apply-failed"])
def test_colour_adds_nothing_but_colour(name, monkeypatch):
    import re

    plain, _ = SCENARIOS[name]()
    coloured = replace(PAGE, screen=Screen(80, colour=True))
    monkeypatch.setitem(globals(), "ROOT", replace(coloured, program="hosttune", sudo=""))
    texts = {
        "check": lambda: check_report(made.PLAN, coloured),
        "plan": lambda: plan_text(made.PLAN, coloured),
        "apply-failed": lambda: SCENARIOS[name]()[0],
    }
    painted = texts[name]()
    assert painted != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
