"""The exact texts that people see, 80 columns wide. `./run generate` writes them anew.

A file is called `<scenario>.<exit>.txt`: the exit status belongs to what is seen.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.actions.trial.state import TrialState
from hosttune.actions.trial.trial import TrialEnd
from hosttune.engine.decide.health import judge
from hosttune.engine.decide.ready import ready_metrics
from hosttune.values import Finding, Hold, HoldKind, Verdict
from hosttune.views.checked import Checked
from hosttune.views.diff import diff_report
from hosttune.views.document import Medium
from hosttune.views.health import health_prometheus
from hosttune.views.history import history_report
from hosttune.views.junit import check_junit
from hosttune.views.plan import plan_report, undo_report
from hosttune.views.prometheus import check_prometheus, render_metrics
from hosttune.views.ready import READY_METRICS
from hosttune.views.receipt import receipt_report
from hosttune.views.report import ONE_SCREEN, check_report
from hosttune.views.summary import applied_status, exit_status
from hosttune.views.terminal import Screen
from hosttune.views.trial import ended_report, standing_blocks, trial_report
from tests.generated import hold, is_writing
from tests.golden import scenarios as made
from tests.golden import trials

FOLDER = Path(__file__).resolve().parent
PAGE = made.PAGE
PASTED = replace(PAGE, medium=Medium.MARKDOWN)
ROOT = replace(PAGE, program="hosttune", sudo="")
TERMINAL = replace(ROOT, screen=Screen(80, is_terminal=True))
USER = replace(PAGE, is_partial=True)
RECORD = replace(
    PAGE, host="gpu-017.json", sudo="", options=" --host gpu-017.json", can_apply=False
)
BACK = "sudo hosttune apply --yes goes on with it; to undo it: sudo hosttune undo 20261008-220143-9c1e --yes"
INTERRUPTED = (
    f"run 20261008-220143-9c1e (apply, 2026-10-08 22:01 UTC) was interrupted after 1 step: {BACK}",
)
ONE = Checked(
    replace(made.PLAN, interrupted=INTERRUPTED), USER, profile="base", machine=made.MACHINE
)
TWIN = replace(ONE, plan=made.CLEAN, page=replace(PAGE, host="gpu-018"))


def sixty_rules():
    """A healthy host under the whole catalogue: nothing differs, some things could be better."""
    words = (
        "page cache keeps what the job reads",
        "the clock source is the time stamp counter of the processor",
    )
    findings = [
        Finding(f"memory-rule-{number:02}", "", Verdict.OK, evidence=(words[0],))
        for number in range(36)
    ]
    findings += [
        Finding(f"network-{number:02}", "", Verdict.NOT_APPLICABLE, reason="no InfiniBand")
        for number in range(14)
    ]
    findings += [
        Finding(
            f"kernel-advice-{number}",
            "",
            Verdict.ADVICE,
            reason=f"{words[1]}, and on this board the firmware could do more about it",
            todo="look into the firmware's set-up at the next service of the machine, or ignore the rule",
        )
        for number in range(8)
    ]
    findings.append(
        Finding(
            "storage-raid",
            "",
            Verdict.DIFFERS,
            Hold(HoldKind.WAIVED, "until 2027-01-01: rebuilt then"),
        )
    )
    return replace(made.CLEAN, findings=tuple(findings))


def pasted(*hosts):
    return tuple(replace(one, page=replace(one.page, medium=Medium.MARKDOWN)) for one in hosts)


def checked(plan, page=USER):
    return check_report((Checked(plan, page, machine=made.MACHINE),)), exit_status(
        plan, strict=False
    )


def planned(plan, page=PAGE):
    return plan_report(Checked(plan, page)), exit_status(plan, strict=False)


def applied(receipt, plan, **more):
    return receipt_report(receipt, ROOT, **more), applied_status(plan, receipt)


SCENARIOS = {
    "check": lambda: checked(made.PLAN),
    "check-verbose": lambda: checked(made.PLAN, replace(USER, is_verbose=True)),
    "check-root": lambda: checked(made.SMALL, ROOT),
    "check-clean": lambda: checked(made.CLEAN, ROOT),
    "check-record": lambda: checked(made.SMALL, RECORD),
    "check-narrow": lambda: checked(made.PLAN, replace(USER, screen=Screen(48))),
    "check-interrupted": lambda: checked(replace(made.SMALL, interrupted=INTERRUPTED), PAGE),
    "check-healthy": lambda: checked(sixty_rules(), TERMINAL),
    "check-reboot": lambda: checked(made.AFTER_APPLY, ROOT),
    "plan": lambda: planned(made.PLAN),
    "plan-user": lambda: planned(made.SMALL, USER),
    "plan-root": lambda: planned(made.SMALL, ROOT),
    "plan-clean": lambda: planned(made.CLEAN, ROOT),
    "apply-done": lambda: applied(made.DONE, made.APPLIED),
    "apply-failed": lambda: applied(made.FAILED, made.SMALL),
    "apply-nothing": lambda: applied(made.NOTHING, made.CLEAN),
    "undo": lambda: (
        undo_report(made.BACK, PAGE, words=f"undo {made.RUN}", ignore=("memory-swappiness",)),
        1,
    ),
    "undo-gone": lambda: (
        undo_report(made.GONE, ROOT, words="undo --rule memory-swappiness", on_paper=2),
        0,
    ),
    "history": lambda: (history_report(made.JOURNAL, PAGE), 0),
    "history-verbose": lambda: (history_report(made.JOURNAL, replace(PAGE, is_verbose=True)), 0),
    "diff": lambda: (diff_report(made.TWINS, PAGE), 1),
    "plan-trial": lambda: (plan_report(Checked(trials.PLAN, PAGE), trial=trials.part()), 1),
    "plan-trial-refused": lambda: (
        plan_report(Checked(trials.PLAN, PAGE), trial=trials.part(trials.REFUSED)),
        1,
    ),
    "apply-trial": lambda: applied(
        made.DONE, made.APPLIED, trial=standing_blocks(trials.LIVE, ROOT, trials.NOW)
    ),
    "trial-live": lambda: (trial_report(trials.LIVE, trials.LOSSES, ROOT, trials.NOW), 1),
    "trial-boot": lambda: (trial_report(trials.NEXT_BOOT, (), ROOT, trials.NOW), 1),
    "trial-failed": lambda: (trial_report(trials.FAILED, (), ROOT, trials.NOW), 2),
    "trial-none": lambda: (trial_report(None, (), ROOT, trials.NOW), 0),
    "confirm-live": lambda: (
        ended_report(TrialEnd(trials.NEXT_BOOT, trials.NEXT_BOOT.state), (), ROOT),
        0,
    ),
    "confirm-boot": lambda: (
        ended_report(TrialEnd(trials.LIVE, TrialState.CONFIRMED), trials.LOSSES[1:], ROOT),
        0,
    ),
    "undo-done": lambda: (
        receipt_report(made.TAKEN_BACK, ROOT, is_undo=True, ignore=("memory-swappiness",)),
        applied_status(made.CLEAN, made.TAKEN_BACK),
    ),
}
DOCUMENTS = {
    "check.md": lambda: check_report(pasted(ONE)),
    "check-hosts.md": lambda: check_report(pasted(ONE, TWIN)),
    "plan.md": lambda: plan_report(*pasted(replace(ONE, page=PAGE))),
    "apply-done.md": lambda: receipt_report(made.DONE, PASTED),
    "apply-failed.md": lambda: receipt_report(made.FAILED, PASTED),
    "undo.md": lambda: undo_report(
        made.BACK, PASTED, words=f"undo {made.RUN}", ignore=("memory-swappiness",)
    ),
    "history.md": lambda: history_report(made.JOURNAL, PASTED),
    "plan-trial.md": lambda: plan_report(Checked(trials.PLAN, PASTED), trial=trials.part()),
    "diff.md": lambda: diff_report(made.TWINS, PASTED),
    "check-junit.xml": lambda: check_junit((ONE, TWIN)),
    "check.prom": lambda: check_prometheus((ONE,)),
    "check-hosts.prom": lambda: check_prometheus((ONE, TWIN)),
    "health.prom": lambda: health_prometheus(judge(made.HEALTH_FINDINGS), 1791515702),
    "ready.prom": lambda: render_metrics(READY_METRICS, ready_metrics(made.HELD)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_is_what_was_written(name):
    hold(FOLDER / name, DOCUMENTS[name]())


@pytest.mark.parametrize("name", ["check-healthy", "check-clean", "check-reboot"])
def test_report_of_a_healthy_host_fits_one_screen(name):
    text, status = SCENARIOS[name]()
    assert status == (name == "check-reboot")
    assert len(text.splitlines()) <= ONE_SCREEN


def test_waivers_beyond_one_screen_of_a_healthy_host_are_counted():
    hold = Hold(HoldKind.WAIVED, "until 2027-01-01: rebuilt then")
    waived = [Finding(f"storage-{number:02}", "", Verdict.DIFFERS, hold) for number in range(30)]
    plan = replace(made.CLEAN, findings=tuple(waived))
    assert checked(plan, ROOT)[0].count("rebuilt then") == 30  # a pipe gets all of it
    text, _ = checked(plan, TERMINAL)
    listed = text.count("rebuilt then")
    assert 10 < listed < 30
    assert f"{30 - listed} waived (-v" in text
    assert len(text.splitlines()) <= ONE_SCREEN


def test_report_of_a_host_that_differs_folds_no_advice():
    plan = replace(sixty_rules(), findings=(made.FINDINGS[7], *sixty_rules().findings))
    text, _ = checked(plan, TERMINAL)
    assert text.count("kernel-advice-") == 8
    assert "dvice of " not in text


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_is_what_people_were_shown(name):
    text, status = SCENARIOS[name]()
    for old in FOLDER.glob(f"{name}.[0-9].txt") if is_writing() else ():
        old.unlink()
    hold(FOLDER / f"{name}.{status}.txt", text)


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
        "check": lambda: check_report(
            (Checked(made.PLAN, replace(coloured, is_partial=True), machine=made.MACHINE),)
        ),
        "plan": lambda: plan_report(Checked(made.PLAN, coloured)),
        "apply-failed": lambda: SCENARIOS[name]()[0],
    }
    painted = texts[name]()
    assert painted != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
