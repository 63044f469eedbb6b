"""What a terminal shows last: the verdict, why the exit status is 1, and the next commands."""

from dataclasses import replace

import pytest

from hosttune.actions.examine import open_session
from hosttune.engine.decide.health import Fitness, HealthPoint, NodeHealth
from hosttune.values import Finding, Hold, HoldKind, Plan, Receipt, Verdict
from hosttune.views import report
from hosttune.views.checked import Checked
from hosttune.views.document import Document, Medium, Say, Steps
from hosttune.views.health import health_text
from hosttune.views.page import Page
from hosttune.views.plan import plan_report
from hosttune.views.report import check_outline, check_report
from hosttune.views.summary import applied_status, exit_status, why_applied, why_status
from hosttune.views.terminal import Screen
from hosttune.views.text import ONE_SCREEN, render_text
from tests.hosts.built import BUILT

VERDICT = "host: 2 faults; 3 changes now."


def plan_of(*findings):
    return Plan("d" * 64, "0.2.0", "2026-11-28T00:00:00+00:00", "", "", (), findings)


FAULT = Finding("gpu-errors", "", Verdict.ADVICE, reason="the GPU is lost", is_fault=True)
DIFFERS = Finding("memory-swappiness", "", Verdict.DIFFERS, reason="should be 10")
UNKNOWN = Finding("gpu-modes", "", Verdict.UNKNOWN, reason="no answer")
WAITING = Finding("kernel-iommu", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot"), "x")
OWNED = Finding("storage-noatime", "", Verdict.DIFFERS, Hold(HoldKind.OWNED, "cloud-init"), "x")
ADVICE = Finding("kernel-clock", "", Verdict.ADVICE, reason="x")
OK = Finding("kernel-panic", "", Verdict.OK)


def document(lines):
    head = (Say("2 faults; 3 changes now.", "decision", name="host"),)
    steps = Steps("Next", (("hosttune plan", "shows the exact diff"),))
    return Document(
        "host", "host", head, (*[Say("x")] * lines, steps), status="Exit status 1: 2 faults."
    )


def test_long_text_ends_with_its_verdict_the_status_and_the_next_command():
    said = render_text(document(30), Screen(80))
    end = f"{VERDICT}\nExit status 1: 2 faults.\n\nNext\n  hosttune plan  shows the exact diff\n"
    assert said.endswith(end)
    assert said.startswith(f"{VERDICT}\n")


def test_text_of_one_screen_says_its_verdict_once():
    said = render_text(document(5), Screen(80))
    assert said.count("\n") <= ONE_SCREEN
    assert said.count(VERDICT) == 1
    assert said.endswith(
        "Exit status 1: 2 faults.\n\nNext\n  hosttune plan  shows the exact diff\n"
    )


@pytest.mark.parametrize(
    ("findings", "strict", "why"),
    [
        ((OK, ADVICE), False, ""),
        ((OK, ADVICE), True, "1 piece of advice"),
        (
            (FAULT, DIFFERS, UNKNOWN, WAITING, OWNED),
            False,
            "1 fault, 1 rule to change, 1 skipped, 1 waiting, 1 could not be checked",
        ),
        ((DIFFERS, DIFFERS), False, "1 rule to change"),
        # as the first line counts them: by each of the things that a rule says
        (
            (DIFFERS, replace(UNKNOWN, rule=DIFFERS.rule)),
            False,
            "1 rule to change, 1 could not be checked",
        ),
        (
            (replace(FAULT, hold=Hold(HoldKind.REFUSED, "x")), replace(UNKNOWN, rule=FAULT.rule)),
            False,
            "1 fault, 1 blocked",
        ),
    ],
)
def test_status_of_check_has_its_reason(findings, strict, why):
    plan = plan_of(*findings)
    assert why_status(plan, strict=strict) == why
    assert exit_status(plan, strict=strict) == int(bool(why))


@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_end_of_check_on_every_built_host_names_faults_and_changes_nothing(record):
    session = open_session(host=str(record))
    plan = session.plan()
    one = Checked(plan, Page(host="host", screen=Screen(80), can_apply=True), about={})
    said = check_report((one,))
    end = said.splitlines()[-ONE_SCREEN:]
    for rule in {
        finding.rule for finding in plan.findings if finding.is_fault and not finding.hold
    }:
        assert any(rule in line for line in end)
    assert "apply" not in said.partition("\nNext\n")[2]
    assert ("Exit status 1: " in said) is bool(exit_status(plan, strict=False))


def test_fault_on_a_screen_leaves_a_line_for_each_other_group():
    plan = plan_of(FAULT, DIFFERS, OWNED, ADVICE)
    terminal = Screen(80, is_terminal=True)
    on_screen = render_text(check_outline(Checked(plan, Page(screen=terminal))), terminal)
    assert "CHANGE (1)   memory-swappiness\n" in on_screen
    assert "should be 10" not in on_screen
    in_a_pipe = render_text(check_outline(Checked(plan, Page(screen=Screen(80)))), Screen(80))
    verbose = render_text(
        check_outline(Checked(plan, Page(screen=terminal, is_verbose=True))), terminal
    )
    without = render_text(check_outline(Checked(plan_of(DIFFERS), Page(screen=terminal))), terminal)
    assert all("should be 10" in said for said in (in_a_pipe, verbose, without))


@pytest.mark.parametrize("many", [3, 30, 2000])
def test_report_of_many_pieces_of_advice_is_made_a_few_times(many, monkeypatch):
    """A record of somebody else may have any number of them, and rules of its own."""
    made = []

    def outline(one, folded=0, **more):
        made.append(folded)
        assert len(made) <= 2 + many.bit_length()
        return check_outline(one, folded, **more)

    monkeypatch.setattr(report, "check_outline", outline)
    page = Page(screen=Screen(80, is_terminal=True))
    said = check_report(
        (Checked(plan_of(*(replace(ADVICE, reason=f"x {n}") for n in range(many))), page),)
    )
    assert said.count("\n") <= ONE_SCREEN
    shown = sum(f"x {n}\n" in said for n in range(many))
    assert shown == many if many == 3 else ONE_SCREEN - 6 < shown < ONE_SCREEN


@pytest.mark.parametrize(
    "report_of", [check_report, lambda hosts: plan_report(hosts[0])], ids=["check", "plan"]
)
def test_end_of_a_long_report_has_the_sentence_of_each_fault(report_of):
    """What `check` and `plan` found worst is on the last screen, however long they are."""
    faults = [
        replace(FAULT, rule=f"gpu-x{n}", reason=f"no GPU {n} answers {'at all ' * 80}")
        for n in range(5)
    ]
    many = [replace(DIFFERS, rule=f"r{n}", reason="is " + "not so " * 60) for n in range(5)]
    page = Page(screen=Screen(80))
    end = report_of((Checked(plan_of(*faults, *many), page),)).splitlines()[-(ONE_SCREEN - 1) :]
    found = [line for line in end if line.startswith("FAULT gpu-x")]
    assert [line.partition(": ")[2][:16] for line in found] == [
        f"no GPU {n} answers"[:16] for n in range(3)
    ]
    assert all(line.endswith(" ...") and len(line) <= 80 for line in found)
    assert "and 2 more faults" in end
    short = report_of((Checked(plan_of(FAULT), page),))
    assert short.count(FAULT.reason) == 1


@pytest.mark.parametrize(
    "report_of", [check_report, lambda hosts: plan_report(hosts[0])], ids=["check", "plan"]
)
def test_few_rules_of_which_none_asks_for_anything_say_why(report_of):
    quiet = replace(
        FAULT,
        rule="gpu-driver",
        verdict=Verdict.NOT_APPLICABLE,
        is_fault=False,
        reason="there is no GPU",
    )
    page = Page(screen=Screen(80))
    assert "gpu-driver    there is no GPU" in report_of((Checked(plan_of(quiet), page),))
    many = [replace(quiet, rule=f"gpu-x{n}") for n in range(6)]
    assert "there is no GPU" not in report_of((Checked(plan_of(*many), page),))
    assert "there is no GPU" not in report_of((Checked(plan_of(quiet, DIFFERS), page),))


def test_few_faults_have_two_lines_each_at_the_end():
    reason = f"no program can use a GPU: no driver is installed, and no {'suitable ' * 5}packages can be installed"
    many = [replace(DIFFERS, rule=f"r{n}", reason="is " + "not so " * 60) for n in range(5)]
    said = check_report(
        (Checked(plan_of(replace(FAULT, reason=reason), *many), Page(screen=Screen(80))),)
    )
    ending = " ".join(said.splitlines()[-(ONE_SCREEN - 1) :])
    assert f"FAULT gpu-errors: {reason}" in ending.replace("   ", " ")


def test_fault_comes_first_among_the_next_commands():
    said = render_text(
        check_outline(Checked(plan_of(FAULT, DIFFERS), Page(screen=Screen(100)))), Screen(100)
    )
    steps = said.partition("\nNext\n")[2].splitlines()
    assert steps == [
        "  hosttune health              says whether this node may take jobs",
        "  hosttune explain gpu-errors  says why, and what to do",
    ]
    page = Page(medium=Medium.MARKDOWN)
    assert (
        check_outline(Checked(plan_of(DIFFERS), page)).blocks[-1].steps[0][0]
        == "hosttune explain memory-swappiness"
    )


def test_status_of_apply_has_its_reason():
    receipt = Receipt("run", "d" * 64, ())
    assert (why_applied(plan_of(OK), receipt), applied_status(plan_of(OK), receipt)) == ("", 0)
    assert (why_applied(plan_of(UNKNOWN), receipt), applied_status(plan_of(UNKNOWN), receipt)) == (
        "1 could not be checked",
        1,
    )


def test_health_without_a_rule_names_none_as_its_reason():
    point = HealthPoint(Fitness.UNKNOWN, "", "", "no rule can judge this host", "")
    said = health_text(NodeHealth(Fitness.UNKNOWN, (point,), ()), Page(), {}, {})
    assert "Exit status 1: UNKNOWN.\n" in said


def test_fault_of_several_gpus_is_named_with_them_at_the_end():
    lost = [replace(FAULT, subject=f"gpu {at}", reason="it does not answer") for at in range(2)]
    (line,) = report.list_faults(lost, Page())
    assert line.endswith(": gpu 0 and gpu 1: it does not answer")


def test_health_says_once_what_holds_for_several_gpus_and_steps_once():
    steps = "drain the host\nsudo nvidia-smi --gpu-reset"
    slots = ("0000:18:00.0", "0000:30:00.0", "0000:48:00.0")
    points = (
        *(
            HealthPoint(Fitness.UNFIT, "gpu-driver-health", slot, "is lost", steps)
            for slot in slots
        ),
        HealthPoint(Fitness.UNFIT, "gpu-errors", "", "Xid 79", steps),
    )
    gpus = dict.fromkeys(("0000:10:00.0", *slots), ("NVIDIA H200", ""))
    said = health_text(
        NodeHealth(Fitness.UNFIT, points, ("gpu-errors",)), Page(screen=Screen(80)), {}, gpus
    )
    assert (
        "GPU           model        verdict\n0000:10:00.0  NVIDIA H200  nothing of its own\n"
        in said
    )
    assert said.count("NVIDIA H200  NOT FIT: gpu-driver-health\n") == 3
    assert said.count("is lost") == 1
    assert "0000:18:00.0, 0000:30:00.0 and 0000:48:00.0: is lost" in said
    assert said.count("sudo nvidia-smi --gpu-reset") == 1
    assert "do: as for gpu-driver-health" in said
    more = replace(points[0], rule="gpu-nvlink", todo="\n".join(f"step {at}" for at in range(30)))
    long = health_text(
        NodeHealth(Fitness.UNFIT, (*points, more), ("gpu-errors",)),
        Page(screen=Screen(100)),
        {},
        gpus,
    )
    last = long.rpartition("step 29")[2]
    assert (
        "NOT FIT gpu-driver-health: 0000:18:00.0, 0000:30:00.0 and 0000:48:00.0: is lost\n" in last
    )
    assert "Exit status 1: NOT FIT by gpu-driver-health and gpu-errors.\n" in said
    assert (
        "hosttune explain gpu-driver-health  says why, and what to do\n"
        in said.partition("\nNext\n")[2]
    )


def test_health_names_the_rules_that_a_fault_keeps_from_looking_without_its_sentence():
    fault = HealthPoint(
        Fitness.UNFIT, "gpu-errors", "0000:1b:00.0", "it has fallen off the bus (Xid 79)", "reboot"
    )
    again = [
        replace(fault, fitness=Fitness.UNKNOWN, rule=rule, todo="")
        for rule in ("gpu-modes", "gpu-throttle", "gpu-bar1")
    ]
    others = (
        replace(again[2], subject="0000:43:00.0"),
        replace(again[2], rule="gpu-nvlink", reason="no answer"),
    )
    health = NodeHealth(Fitness.UNFIT, (fault, *again[:2], *others), ("gpu-errors",))
    said = health_text(health, Page(screen=Screen(200)), {}, {})
    assert (
        said.count("it has fallen off the bus (Xid 79)") == 2
    )  # the fault, and another GPU of which nothing is known
    assert "these could not be checked: gpu-modes and gpu-throttle" in said
    assert "no answer" in said
