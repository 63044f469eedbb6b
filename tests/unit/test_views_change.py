"""A change is shown before the yes with nothing left out, and counted for what it is."""

from dataclasses import replace
from difflib import unified_diff

import pytest

from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Outcome,
    Phase,
    Plan,
    Receipt,
    Stage,
    Unreadable,
    Verdict,
)
from hosttune.views.change import diff_of, file_diff, value_text
from hosttune.views.checked import Checked
from hosttune.views.plan import plan_report
from hosttune.views.summary import applied_status, exit_status, summarize
from hosttune.views.terminal import Screen
from hosttune.views.text import diff_lines
from tests.golden import scenarios as made

CHANGE = made.SWAPPINESS[0]


def lines(change, width=80):
    return diff_lines(diff_of(change), Screen(width), "  ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ABSENT, "(absent)"),
        ("", '""'),
        ((), "(none)"),
        (("enabled", "active"), "enabled, active"),
        (True, "yes"),
        (0, "0"),
        (Unreadable("not\x1broot"), "(unreadable: not\\x1broot)"),
        (FileValue(b"abc"), "(3 bytes)"),
        ("user=x,password=y", "user=x,password=(masked)"),
    ],
    ids=str,
)
def test_value_text_tells_values_apart(value, text):
    assert value_text(value) == text


def test_update_shows_both_values():
    assert lines(CHANGE) == ["  ~ vm.swappiness  60 -> 10"]


def test_delete_shows_what_was_there():
    change = replace(CHANGE, action=Action.DELETE, after=ABSENT)
    assert lines(change) == ["  - vm.swappiness  (was 60)"]


def test_change_says_when_it_takes_effect():
    change = replace(CHANGE, activation=Activation.REBOOT)
    assert lines(change) == ["  ~ vm.swappiness  60 -> 10  (in effect after a reboot)"]
    assert lines(change, 50) == ["  ~ vm.swappiness  60 -> 10", "      (in effect after a reboot)"]


def test_long_values_go_below_one_another():
    before, after = "a," * 40, "b," * 40
    change = replace(CHANGE, before=before, after=after)
    assert lines(change) == ["  ~ vm.swappiness", f"      - {before}", f"      + {after}"]


def test_reason_and_details_are_shown_escaped():
    change = replace(CHANGE, reason="why\x1b not", details=("installs x\u202e",))
    assert lines(change)[1:] == ["      installs x\\u202e", "      why\\x1b not"]


def test_details_that_are_a_diff_stand_for_the_values_of_a_line_of_fstab_alone():
    diff = ("--- /etc/fstab", "+++ /etc/fstab", "@@ -1 +1 @@", "-x\ty", "+x z")
    line = replace(CHANGE, address=Address("fstab", "/data"), before="a", after="b", details=diff)
    assert lines(line) == [
        "  ~ /data in /etc/fstab",
        "      @@ -1 +1 @@",
        "      - x       y",
        "      + x z",
    ]
    # A file of a host could put its own words in the place of the values that the digest is for.
    assert lines(replace(line, address=CHANGE.address))[0] == "  ~ vm.swappiness  a -> b"


def file_change(before, after):
    return replace(CHANGE, address=Address("file", "/etc/x"), before=before, after=after)


def test_new_file_shows_every_line_and_its_mode():
    assert lines(file_change(ABSENT, FileValue(b"one\ntwo\n", 0o600))) == [
        "  ~ /etc/x  (new, mode 0600)",
        "      + one",
        "      + two",
    ]


def test_changed_file_shows_a_unified_diff():
    before = FileValue(b"".join(b"%d\n" % n for n in range(20)))
    after = FileValue(before.content.replace(b"10\n", b"ten\n"))
    assert list(file_diff(before, after)) == [
        "@@ -8,7 +8,7 @@", "  7", "  8", "  9", "- 10", "+ ten", "  11", "  12", "  13",
    ]  # fmt: skip


def test_removed_file_shows_what_goes():
    assert list(file_diff(FileValue(b"one\n"), ABSENT)) == ["- one"]


def test_lost_newline_at_the_end_is_shown():
    assert list(file_diff(FileValue(b"a\n"), FileValue(b"a"))) == [
        "@@ -1 +1 @@", "- a", "+ a", "  \\ no newline at the end",
    ]  # fmt: skip


def test_diff_of_dashes_and_pluses_keeps_them():
    assert list(file_diff(FileValue(b"-- a\n"), FileValue(b"++ b\n"))) == [
        "@@ -1 +1 @@",
        "- -- a",
        "+ ++ b",
    ]


def test_diff_escapes_and_masks_lines():
    assert list(file_diff(ABSENT, FileValue(b"x\x1b[2J\r\npassword=p\n"))) == [
        "+ x\\x1b[2J\\r",
        "+ password=(masked)",
    ]


def test_binary_file_is_not_poured_out():
    assert list(file_diff(FileValue(b"\xff"), FileValue(b"\0a"))) == [
        "binary: (1 bytes) -> (2 bytes)"
    ]


def test_title_line_of_a_file_is_short():
    assert diff_of(file_change(ABSENT, FileValue(b"x"))).title == "~ /etc/x"


def plan_of(*findings, changes=()):
    stages = (Stage(tuple(changes)),) if changes else ()
    return Plan("d" * 64, "0", "m", "2026-01-01T00:00:00+00:00", "p", stages, findings)


def finding(verdict, kind=HoldKind.NONE, detail="", changes=()):
    return Finding("a-rule", "", verdict, Hold(kind, detail), changes=tuple(changes))


@pytest.mark.parametrize(
    ("found", "status", "strict"),
    [
        (finding(Verdict.OK), 0, 0),
        (finding(Verdict.NOT_APPLICABLE), 0, 0),
        (finding(Verdict.ADVICE), 0, 1),
        (finding(Verdict.ADVICE, HoldKind.ORPHANED), 0, 0),
        (finding(Verdict.ADVICE, HoldKind.WAIVED), 0, 0),
        (finding(Verdict.DIFFERS), 1, 1),
        (finding(Verdict.UNKNOWN), 1, 1),
        (finding(Verdict.DIFFERS, HoldKind.WAIVED), 0, 0),
        (finding(Verdict.DIFFERS, HoldKind.WAITING, "reboot"), 1, 1),
        (finding(Verdict.DIFFERS, HoldKind.OWNED, "TuneD"), 1, 1),
    ],
    ids=lambda value: (
        str(value) if isinstance(value, int) else f"{value.verdict}-{value.hold.kind}"
    ),
)
def test_exit_status_of_check(found, status, strict):
    assert exit_status(plan_of(found), strict=False) == status
    assert exit_status(plan_of(found), strict=True) == strict


def receipt(*outcomes, verified=True):
    return Receipt("r", "d", outcomes, verified=verified)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (finding(Verdict.DIFFERS, changes=[CHANGE]), 0),
        (finding(Verdict.DIFFERS, changes=[replace(CHANGE, after="5")]), 1),
        (finding(Verdict.DIFFERS, HoldKind.WAITING, "reboot"), 0),
        (finding(Verdict.DIFFERS, HoldKind.BUSY, "x"), 0),
        (finding(Verdict.DIFFERS, HoldKind.WAIVED), 0),
        (finding(Verdict.DIFFERS, HoldKind.OWNED, "TuneD"), 1),
        (finding(Verdict.UNKNOWN), 1),
        (finding(Verdict.ADVICE), 0),
    ],
    ids=lambda value: (
        str(value) if isinstance(value, int) else f"{value.verdict}-{value.hold.kind}"
    ),
)
def test_exit_status_of_apply_says_whether_something_stays_that_does_not_just_wait(found, status):
    assert (
        applied_status(plan_of(found, changes=[CHANGE]), receipt(Outcome(CHANGE, Phase.DONE)))
        == status
    )


def test_exit_status_of_apply_that_failed_or_was_not_verified():
    plan = plan_of(changes=[CHANGE])
    assert applied_status(plan, receipt(Outcome(CHANGE, Phase.FAILED, "x"))) == 1
    assert applied_status(plan, receipt(Outcome(CHANGE, Phase.DONE), verified=False)) == 1


def test_summary_counts_each_finding_once():
    summary = summarize(made.PLAN)
    assert (
        summary.changes_now,
        summary.after_reboot,
        summary.after_drain,
        summary.irreversible,
    ) == (7, 2, 1, 1)
    assert (summary.owned, summary.unknown, summary.advice, summary.waived, summary.ok) == (
        2,
        1,
        1,
        1,
        1,
    )
    assert summary.owners[1] == "TuneD profile accelerator-performance"


def test_plan_of_hostile_names_cannot_steer_the_terminal():
    name = "evil\x1b]0;owned\x07\u202e"
    change = Change(
        Address("file", f"/etc/{name}"),
        Action.CREATE,
        ABSENT,
        FileValue(f"{name}\n".encode()),
        name,
    )
    text = plan_report(
        Checked(
            plan_of(replace(finding(Verdict.UNKNOWN), reason=name, rule=name), changes=[change]),
            made.PAGE,
        )
    )
    assert "evil\\x1b]0;owned\\x07\\u202e" in text
    assert all(line.isprintable() for line in text.splitlines())


def test_set_of_packages_is_told_by_its_details():
    address = Address("package-set", "nvidia-a nvidia-b + nvidia-c")
    change = Change(
        address, Action.CREATE, ABSENT, ("nvidia-a=1", "nvidia-b=1", "nvidia-c=1"), "gpu-driver"
    )
    assert lines(replace(change, details=("install nvidia-a 1",))) == [
        "  + nvidia-a and 2 more",
        "      install nvidia-a 1",
    ]
    assert lines(change)[0].endswith("nvidia-a=1, nvidia-b=1, nvidia-c=1")


def test_hold_without_a_sentence_of_its_own_stands_first():
    text = plan_report(
        Checked(plan_of(finding(Verdict.DIFFERS, HoldKind.REFUSED, "no such kernel")), made.PAGE)
    )
    assert "BLOCKED a-rule        why not: blocked: no such kernel" in text


def as_file(rows):
    return FileValue("".join(f"{row}\n" for row in rows).encode())


@pytest.mark.parametrize("changed", [0, 1, 4, 50, 98, 99])
@pytest.mark.parametrize("put", [[], ["new"], ["new", "more"]], ids=len)
def test_diff_of_a_long_file_names_the_lines_of_the_whole(changed, put):
    old = [f"line {number}" for number in range(100)]
    new = [*old[:changed], *put, *old[changed + 1 :]]
    whole = [*unified_diff(old, new, lineterm="")][2:]
    shown = [
        line if line[0] == "@" else line[0] + line[2:]
        for line in file_diff(as_file(old), as_file(new))
    ]
    assert shown == whole


def test_lines_that_two_files_share_at_both_ends_are_not_compared(monkeypatch):
    monkeypatch.setattr("hosttune.views.change._MOST_PAIRS", 7 * 7)
    old = [str(number % 101) for number in range(1000)]
    assert len([*file_diff(as_file(old), as_file([*old[:500], "new", *old[501:]]))]) == 9
    far = [*file_diff(as_file(old), as_file(["new", *old[1:999], "new"]))]
    assert far[0] == "@@ too long to compare line by line @@"
    assert [line[0] for line in far].count("-") == [line[0] for line in far].count("+") == 1000
