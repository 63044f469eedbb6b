"""Two checks compared: what counts, how it is ranked, who set it."""

import json
from dataclasses import replace
from time import process_time

import pytest

from hosttune.cli import app
from hosttune.values import Finding, Hold, HoldKind, Risk, Verdict
from hosttune.views.checked import About
from hosttune.views.comparison import DifferenceKind, Side, Written, compare, set_by
from hosttune.views.diff import diff_json, diff_report
from hosttune.views.document import Medium
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.hosts.built import BUILT, HOSTS
from tests.unit.schemas import faults

H100 = HOSTS / "h100-8x-2socket.json"
RTX = HOSTS / "workstation-rtx4090.json"
ABOUT = {f"a-{risk.value}": About("title", risk, f"gain of {risk.value}") for risk in Risk}


def finding(verdict, rule="a-low", subject="", **more):
    return Finding(rule, subject, verdict, **more)


def side(*findings, **more):
    made = Side("host", "m", "2026-10-09T03:15:02+00:00", "0.1.0", "", tuple(findings))
    return replace(made, **more)


def compared(a, b):
    return compare(side(*a), side(*b), ABOUT)


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ([finding(Verdict.OK)], [finding(Verdict.DIFFERS)], DifferenceKind.VERDICT),
        ([finding(Verdict.OK, evidence=("now 1",))], [finding(Verdict.OK, evidence=("now 2",))], DifferenceKind.VALUE),
        ([finding(Verdict.DIFFERS)], [finding(Verdict.DIFFERS, hold=Hold(HoldKind.WAIVED, "x"))], DifferenceKind.VERDICT),
        ([finding(Verdict.DIFFERS)], [finding(Verdict.DIFFERS, hold=Hold(HoldKind.OWNED, "TuneD"))], DifferenceKind.VALUE),
        ([finding(Verdict.DIFFERS)], [finding(Verdict.DIFFERS, hold=Hold(HoldKind.BUSY, "pid 7"))], None),
        ([finding(Verdict.NOT_APPLICABLE, reason="x")], [finding(Verdict.NOT_APPLICABLE, reason="y")], None),
        ([finding(Verdict.NOT_APPLICABLE)], [finding(Verdict.OK, subject="/data")], DifferenceKind.APPLIES),
        ([finding(Verdict.OK, subject="/a"), finding(Verdict.OK, subject="/b")], [finding(Verdict.OK, subject="/a")], DifferenceKind.APPLIES),
        ([], [finding(Verdict.OK)], DifferenceKind.SELECTED),
        ([finding(Verdict.OK)], [finding(Verdict.OK)], None),
        ([finding(Verdict.OK, todo="x")], [finding(Verdict.OK, todo="y")], None),
    ],
)  # fmt: skip
def test_compare_keeps_what_a_rule_knows(a, b, kind):
    for left, right in ((a, b), (b, a)):
        comparison = compared(left, right)
        assert [one.kind for one in comparison.differences] == ([kind] if kind else [])
        assert comparison.alike == (0 if kind else 1)


@pytest.mark.parametrize(
    "findings",
    [
        [finding(Verdict.UNKNOWN, reason="no /proc")],
        [finding(Verdict.UNKNOWN, hold=Hold(HoldKind.DEFERRED))],
        [finding(Verdict.UNKNOWN, subject="/a"), finding(Verdict.OK, subject="/b")],
    ],
)
def test_what_is_unknown_on_both_sides_is_not_alike(findings):
    comparison = compared(
        [*findings, finding(Verdict.OK, "b")], [*findings, finding(Verdict.OK, "b")]
    )
    assert (comparison.differences, comparison.alike, comparison.unknown) == ((), 1, ("a-low",))
    assert "No rule differs (1 equal, 1 could not be checked on either side)." in diff_report(
        comparison, Page()
    )
    assert "Could not be checked on either side\n  a-low" in diff_report(
        comparison, Page(is_verbose=True)
    )
    document = diff_json(comparison)
    assert (document["rules_alike"], document["rules_unknown"]) == (1, ["a-low"])
    assert faults(document, "diff") == []


def test_what_became_unknown_is_a_difference():
    comparison = compared([finding(Verdict.OK)], [finding(Verdict.UNKNOWN)])
    assert ([one.kind for one in comparison.differences], comparison.unknown) == (
        [DifferenceKind.VERDICT],
        (),
    )


def test_differences_stand_by_cost_then_risk_then_name():
    ok = [
        finding(Verdict.OK, name) for name in ("a-low", "a-high", "b-new", "c-advice", "d-unknown")
    ]
    now = [
        finding(Verdict.UNKNOWN, "d-unknown"),
        finding(Verdict.ADVICE, "c-advice"),
        finding(Verdict.DIFFERS, "b-new"),
        finding(Verdict.DIFFERS, "a-low"),
        finding(Verdict.DIFFERS, "a-high"),
        finding(Verdict.DIFFERS, "e-elsewhere"),
    ]
    order = ["a-high", "a-low", "b-new", "c-advice", "d-unknown", "e-elsewhere"]
    for a, b in ((ok, now), (now, ok)):
        assert [one.rule for one in compared(a, b).differences] == order


@pytest.mark.parametrize(
    ("found", "who"),
    [
        (finding(Verdict.OK, evidence=("now 1", "no file sets it at boot")), ()),
        (
            finding(Verdict.OK, evidence=("next boot 1 (/etc/sysctl.d/99-x.conf:3)",)),
            ("/etc/sysctl.d/99-x.conf:3",),
        ),
        (
            finding(Verdict.OK, evidence=("/etc/fstab line 7: defaults", "see /data")),
            ("/etc/fstab:7",),
        ),
        (
            finding(
                Verdict.DIFFERS, hold=Hold(HoldKind.OWNED, "TuneD"), evidence=("/run/x says so.",)
            ),
            ("TuneD", "/run/x"),
        ),
        (finding(Verdict.DIFFERS, hold=Hold(HoldKind.BUSY, "python3")), ()),
    ],
)
def test_who_set_a_value_is_told_where_the_finding_tells(found, who):
    assert set_by(found) == who


def test_when_and_by_whom_a_file_was_written_is_told_where_the_sides_differ():
    now = finding(
        Verdict.DIFFERS,
        hold=Hold(HoldKind.OWNED, "/etc/x.conf:9"),
        evidence=("now 60 (/etc/y.conf:1)",),
    )
    before = finding(Verdict.OK, evidence=("now 1 (/etc/y.conf:1)",))
    vendor = {"/etc/y.conf": Written("the package y", "2026-01-01 00:00")}
    a, b = (
        side(before, files=vendor),
        side(now, files={**vendor, "/etc/x.conf": Written("", "2026-10-08 11:00")}),
    )
    comparison = compare(a, b, ABOUT)
    text = diff_report(comparison, Page())
    assert text.count("written: ") == 1
    assert "+ written: /etc/x.conf 2026-10-08 11:00 UTC\n" in text
    assert str(Written("Ansible", "2026-01-01 00:00")) == "2026-01-01 00:00 UTC, by Ansible"
    document = diff_json(comparison)
    assert faults(document, "diff") == []
    assert document["differences"][0]["b"]["files"][1] == {
        "path": "/etc/x.conf",
        "by": "",
        "written_at": "2026-10-08 11:00",
    }


def test_diff_of_two_records_dates_the_file_that_set_the_value(run, tmp_path):
    record = json.loads(H100.read_text())
    path = "/etc/sysctl.d/99-site.conf"
    record["files"][path] = "# Ansible managed\nvm.swappiness = 60\n"
    record["listings"]["/etc/sysctl.d"].append("99-site.conf")
    record["stats"][path] = ["file", 0o644, 0, 0, 36, 1_780_000_000_000_000_000, 1, 1, 1, 0]
    twin = tmp_path / "twin.json"
    twin.write_text(json.dumps(record))
    out = " ".join(run("diff", H100, twin)[1].split())
    assert f"+ written: {path} 2026-05-28 20:26 UTC, by Ansible" in out


def test_notes_say_what_else_differs():
    a, b = side(), side(machine="n", policy_digest="q", tool_version="0.2.0")
    assert compare(a, a, {}).notes == ("The same machine.",)
    assert compare(a, b, {}).notes == (
        "Two machines.",
        "Their policies differ.",
        "Made by hosttune 0.1.0 and 0.2.0: rules may have changed in between.",
    )
    assert compare(a, side(machine=""), {}).notes == ()


def test_next_command_is_about_the_side_that_is_worse():
    before = finding(Verdict.OK, "a-high")
    after = finding(Verdict.DIFFERS, "a-high", reason="should be 1")
    for a, b in ((before, after), (after, before)):
        one = compare(side(a, record="good a.json"), side(b, record="b.json"), {})
        named = replace(one, differences=tuple(replace(d, risk=Risk.LOW) for d in one.differences))
        worse = "b.json" if b is after else "'good a.json'"
        assert f"hosttune explain a-high --host {worse}\n" in diff_report(named, Page())


def test_text_shows_both_sides_and_escapes_them():
    before = finding(Verdict.OK, "a-high", evidence=("now 1",))
    evidence = ("now 2\x1b[2J", "password=geheim", "next boot 2 (/etc/x.conf:9)")
    after = finding(Verdict.DIFFERS, "a-high", reason="should be 1", evidence=evidence)
    text = diff_report(compared([before], [after]), Page(screen=Screen(100)))
    assert text == (
        "- host  2026-10-09 03:15:02 UTC\n"
        "+ host  2026-10-09 03:15:02 UTC\n"
        "1 rule differs. The same machine.\n\n"
        "To change\n"
        "  a-high  ok -> to change\n"
        "          - now 1\n"
        "          + should be 1 (now 2\\x1b[2J, password=(masked))\n"
        "          + set by: /etc/x.conf:9\n\n"
        "Exit status 1: 1 rule is not equal.\n\n"
        "Next\n"
        "  hosttune explain a-high  says why it matters, and how to change it\n"
    )
    assert "gain: gain of high" in diff_report(compared([before], [after]), Page(is_verbose=True))


def test_document_fits_its_schema_and_is_masked():
    comparison = compared(
        [finding(Verdict.OK)],
        [finding(Verdict.OK, evidence=("token=geheim",)), finding(Verdict.OK, "z-z")],
    )
    document = diff_json(comparison)
    assert faults(document, "diff") == []
    assert "geheim" not in json.dumps(document)
    assert [one["risk"] for one in document["differences"]] == ["low", None]


@pytest.fixture
def run(capsys):
    def run(*argv):
        status = app.run([str(word) for word in argv])
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_record_against_its_own_saved_check_is_the_same(run, tmp_path, record):
    saved = tmp_path / "last-week.json"
    run("check", "--host", record, "--format", "json", "--output", saved)
    status, out, err = run("diff", saved, record)
    assert (status, err) == (0, "")
    assert "No rule differs" in out
    status, out, err = run("diff", record, saved, "--format", "json")
    assert (status, err, json.loads(out)["is_same"]) == (0, "", True)


@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_record_against_another_is_told(run, record):
    other = RTX if record != RTX else H100
    status, out, _ = run("diff", record, other, "--format", "json")
    document = json.loads(out)
    assert status == 1
    assert faults(document, "diff") == []
    status, text, err = run("diff", record, other, "-v")
    assert (status, err) == (1, "")
    assert all(one["rule"] in text for one in document["differences"])


def test_hosts_of_different_hardware_say_what_applies_on_one_only(run):
    _, out, _ = run("diff", RTX, H100, "--verbose")
    assert "\nApplies on one only\n" in out
    assert "\nApplies on one only, nothing to change (" in out
    assert "there is no NVSwitch on the PCI bus" in out


def test_rules_of_one_side_are_only_named_unless_there_is_something_to_do():
    fault = replace(finding(Verdict.DIFFERS, "c-c", "sda", reason="worn out"), is_fault=True)
    quiet = [finding(Verdict.OK, f"b-{letter}") for letter in "abcdefgh"]
    one = compared(
        [fault, *quiet],
        [replace(both, verdict=Verdict.NOT_APPLICABLE, is_fault=False) for both in (fault, *quiet)],
    )
    out = diff_report(one, Page(screen=Screen(200)))
    assert "Applies on one only\n  c-c  fault -> not applicable\n" in out
    assert "host (8): b-a, b-b, b-c, b-d, b-e, b-f and 2 more (-v lists them)\n" in out
    assert "b-h" not in out
    page = diff_report(one, Page(medium=Medium.HTML))
    assert 'Applies on one only, nothing to change <span class="count">8</span>' in page
    assert "b-h" in page


def test_policy_of_the_command_line_holds_for_both(run):
    _, out, _ = run("diff", RTX, H100, "--ignore", "memory-swappiness")
    assert "memory-swappiness" not in out


def test_live_is_this_host(run, monkeypatch):
    from hosttune.actions import examine
    from hosttune.host.record.record import read_record

    opened = examine.open_session

    def open_session(**options):
        door = {} if options["host"] else {"reader": read_record(str(H100))}
        return opened(**{**options, **door})

    monkeypatch.setattr("hosttune.actions.examine.open_session", open_session)
    assert run("diff", H100, "live")[0] == 0
    assert run("diff", "live", RTX)[0] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a record"),
        ("{}", ""),
        ('{"format_version": 2, "hosts": []}', "a newer hosttune wrote it"),
        ('{"format_version": 1, "hosts": []}', "holds 0 hosts"),
        ('{"format_version": 1, "hosts": [1]}', "holds 1 hosts"),
        ('{"format_version": 1, "hosts": [{}]}', "is missing"),
        (
            '{"format_version": 1, "hosts": [{"host": 1, "findings": [{"rule": 2}]}]}',
            "findings[0].rule",
        ),
    ],
)
def test_what_is_no_check_is_refused(run, tmp_path, text, said):
    path = tmp_path / "x.json"
    path.write_text(text)
    status, out, err = run("diff", path, H100)
    assert (status, out) == (2, "")
    assert str(path) in err
    assert said in err
    assert "fault of hosttune" not in err


def test_file_that_is_not_there_is_trouble(run):
    status, _, err = run("diff", "/nonexistent.json", H100)
    assert status == 2
    assert "/nonexistent.json" in err


def learned_of_record(path, tmp_path, **changes):
    """The file of `health --learn` of a record, with other values in it."""
    from hosttune.facts import Facts
    from hosttune.facts.baseline import learn_baseline, write_learned
    from hosttune.host.record.record import read_record

    file = tmp_path / "baseline.json"
    file.write_text(
        write_learned(replace(learn_baseline(Facts(read_record(str(path))), "0.1.0"), **changes))
    )
    return file


def with_files(path, tmp_path, files, later_days=2):
    record = json.loads(path.read_text())
    record["files"] |= files
    record["made_at"] += 86400 * later_days
    twin = tmp_path / "later.json"
    twin.write_text(json.dumps(record))
    return twin


def test_what_was_learned_against_the_same_host(run, tmp_path):
    file = learned_of_record(H100, tmp_path)
    status, out, err = run("diff", file, H100)
    assert (status, err) == (0, "")
    assert "The same machine." in out


def test_part_that_was_lost_since_it_was_learned_stands_first_with_the_errors_that_grew(
    run, tmp_path
):
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    later = with_files(
        H100, tmp_path, {f"{port}/state": "1: DOWN\n", f"{port}/counters/link_downed": "16\n"}
    )
    file = learned_of_record(H100, tmp_path)
    status, out, err = run("diff", file, later)
    text = " ".join(out.split())
    assert (status, err) == (1, "")
    assert "host-baseline Gb/s of mlx5_0/1: ok -> advice" in text
    assert "+ Gb/s of mlx5_0/1: 0 instead of 400" in text
    assert "+ link breaks of mlx5_0/1: 16 in 2 days" in text
    _, document, _ = run(
        "diff", later, file, "--format", "json"
    )  # the other way round it is no gain
    found = json.loads(document)
    assert faults(found, "diff") == []
    assert {one["a"]["verdict"] for one in found["differences"]} == {"advice"}


def test_of_a_sibling_parts_are_compared_and_errors_are_not(run, tmp_path):
    port = "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"
    later = with_files(H100, tmp_path, {port: "16\n"})
    file = learned_of_record(H100, tmp_path, machine="another")
    status, out, _ = run("diff", file, later)
    assert (status, "link breaks" in out, "Two machines." in out) == (0, False, True)


def test_part_that_cannot_be_read_is_not_lost(run, tmp_path):
    later = with_files(H100, tmp_path, {"/proc/meminfo": "nothing\n"})
    _, out, _ = run("diff", learned_of_record(H100, tmp_path), later)
    assert "GiB of memory: ok -> could not be checked" in " ".join(out.split())


def test_what_was_not_learned_is_not_lost_in_a_later_file(run, tmp_path):
    first = learned_of_record(H100, tmp_path).rename(tmp_path / "first.json")
    data = json.loads(first.read_text())
    kept = [part for part in data["parts"] if part["kind"] != "GPUs"]
    second = tmp_path / "second.json"
    second.write_text(json.dumps({**data, "parts": kept, "learned_at": data["learned_at"] + 60}))
    _, out, _ = run("diff", first, second)
    assert "GPUs: ok -> could not be checked" in " ".join(out.split())


@pytest.mark.parametrize("other", ["check", "day"])
def test_report_of_a_check_holds_no_parts(run, tmp_path, other):
    saved = tmp_path / "check.json"
    run("check", "--host", H100, "--format", "json", "--output", saved)
    status, _, err = run(
        "diff", learned_of_record(H100, tmp_path), saved if other == "check" else "yesterday"
    )
    assert status == 2
    assert "holds no parts and counters" in err


def test_learned_is_what_this_host_keeps(run, tmp_path, monkeypatch):
    from hosttune.host.writing import state

    monkeypatch.setattr(state, "name_folder", lambda part: str(tmp_path / part))
    status, _, err = run("diff", "learned", H100)
    assert (status, "hosttune health --learn" in err) == (2, True)
    state.save(
        "baseline.json", learned_of_record(H100, tmp_path).read_bytes(), str(tmp_path / "health")
    )
    assert run("diff", "learned", H100)[0] == 0
    broken = json.loads(learned_of_record(H100, tmp_path).read_text()) | {"counters": 3}
    state.save("baseline.json", json.dumps(broken).encode(), str(tmp_path / "health"))
    status, _, err = run("diff", "learned", H100)
    assert (status, "learn it anew" in err) == (2, True)


def test_many_findings_of_one_rule_are_compared_in_time_that_grows_with_them():
    """A result can have 290,000 of them; each made a copy of all before it."""

    def seconds(count):
        findings = [finding(Verdict.OK, subject=f"s{number}") for number in range(count)]
        began = process_time()
        compared(findings, findings)
        return process_time() - began

    assert seconds(20_000) < 10 * max(
        seconds(5_000), seconds(5_000)
    )  # a quadratic look takes 16 times as long
