"""Metrics by the text exposition format 0.0.4."""

import re
from dataclasses import replace

from hosttune.values import Finding, Hold, HoldKind, Verdict
from hosttune.views.checked import Checked
from hosttune.views.prometheus import check_prometheus
from tests.golden import scenarios as made

ONE = Checked(made.PLAN, made.PAGE, profile="base")
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9]+)')


def samples(text):
    """Every sample, after the format has been checked."""
    seen, found, name = set(), {}, ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in seen
            seen.add(name)
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {name} gauge"
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == name
            key = f"{match[1]}{{{match[2] or ''}}}"
            assert key not in found
            found[key] = int(match[3])
    return found


def of(*findings):
    return samples(check_prometheus((replace(ONE, plan=replace(made.CLEAN, findings=findings)),)))


def test_metrics_of_one_host_name_no_host():
    found = samples(check_prometheus((ONE,)))
    assert found['hosttune_check_info{version="0.1.0",profile="base"}'] == 1
    assert found['hosttune_findings{verdict="differs"}'] == 7
    assert found['hosttune_rule_status{rule="storage-noatime",verdict="differs"}'] == 1
    assert found["hosttune_changes{}"] == 7
    assert found["hosttune_check_timestamp_seconds{}"] == 1791515702


def test_metrics_of_several_hosts_name_them():
    found = samples(check_prometheus((ONE, replace(ONE, page=replace(made.PAGE, host="gpu-018")))))
    assert (
        found['hosttune_changes{host="gpu-017"}'] == found['hosttune_changes{host="gpu-018"}'] == 7
    )
    assert all('host="gpu-' in key for key in found)


def test_rule_has_the_status_of_its_worst_subject():
    found = of(
        Finding("a-b", "x", Verdict.OK),
        Finding("a-b", "y", Verdict.UNKNOWN),
        Finding("a-b", "z", Verdict.OK),
    )
    assert [key for key in found if "rule_status" in key] == [
        'hosttune_rule_status{rule="a-b",verdict="unknown"}'
    ]


def test_waived_difference_is_no_alarm():
    found = of(Finding("a-b", "", Verdict.DIFFERS, Hold(HoldKind.WAIVED, "until 2027")))
    assert found['hosttune_findings{verdict="differs"}'] == 0
    assert found['hosttune_findings{verdict="waived"}'] == 1


def test_what_waits_for_the_boot_requires_a_reboot():
    assert of()["hosttune_reboot_required{}"] == 0
    assert (
        of(Finding("a-b", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot")))[
            "hosttune_reboot_required{}"
        ]
        == 1
    )


def test_label_values_are_escaped():
    host = 'a"b\\c\nd'
    text = check_prometheus((replace(ONE, page=replace(made.PAGE, host=host)), ONE))
    assert 'host="a\\"b\\\\c\\\\nd"' in text
    samples(text)


def test_run_on_trial_is_told_where_there_is_one():
    assert not any("trial" in key for key in of())
    found = samples(check_prometheus((replace(ONE, trial="on trial: live"),)))
    assert found['hosttune_trial{state="on trial: live"}'] == 1
