"""A check as metrics for the textfile collector of Prometheus' node_exporter.

It has nothing of an outline (views/document.py): samples that are counted, so it is made of the
findings. By the text exposition format, version 0.0.4
(prometheus.io/docs/instrumenting/exposition_formats): samples of one metric stand together under
their HELP and TYPE; in a label's value backslash, quote and newline are escaped.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from hosttune.engine.decide.plan import waits_for_reboot
from hosttune.host.masking.cleaned import clean
from hosttune.views.summary import STANDINGS, find_worst, name_standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.values import Finding
    from hosttune.views.checked import Checked

CHECK_METRICS = {
    "hosttune_check_info": "The version and the profile that this host was checked with.",
    "hosttune_machine_info": "What this host is: its product, GPUs, loaded driver, kernel and "
    "system.",
    "hosttune_check_timestamp_seconds": "When this host was checked, in seconds since 1970.",
    "hosttune_findings": "Findings by verdict; faults, what the policy waives, and leftovers have "
    "one of their own.",
    "hosttune_rule_status": "1 for the verdict of each rule, the worst of its subjects.",
    "hosttune_changes": "Changes that apply would make now.",
    "hosttune_reboot_required": "1 where something is set up that waits for the next boot, and it "
    "may be booted.",
    "hosttune_trial": "1 for the state of the run that is on trial; nothing where none is.",
    "hosttune_reboot_blocked": "1 where a boot would make things worse: something must be solved "
    "before.",
}


def check_prometheus(hosts: tuple[Checked, ...]) -> str:
    """The metrics of these hosts; with several, each sample names its host."""
    rows: list[tuple[str, Mapping[str, str], int]] = []
    for one in hosts:
        host = {"host": clean(one.page.host)} if len(hosts) > 1 else {}
        rows += [(name, {**host, **labels}, value) for name, labels, value in _list_samples(one)]
    return render_metrics(CHECK_METRICS, rows)


def render_metrics(
    helps: Mapping[str, str], rows: Iterable[tuple[str, Mapping[str, str], int]]
) -> str:
    """Samples (name, labels, value) as text, those of one metric together under its HELP."""
    # The format wants all samples of one metric in one group.
    samples: dict[str, list[str]] = {name: [] for name in helps}
    for name, labels, value in rows:
        samples[name].append(f"{name}{_format_labels(labels)} {value}")
    return "".join(
        f"# HELP {name} {text}\n# TYPE {name} gauge\n"
        + "".join(f"{line}\n" for line in samples[name])
        for name, text in helps.items()
    )


def _list_samples(one: Checked) -> Iterator[tuple[str, dict[str, str], int]]:
    plan = one.plan
    yield "hosttune_check_info", {"version": plan.tool_version, "profile": clean(one.profile)}, 1
    if one.machine:
        yield (
            "hosttune_machine_info",
            {name.lower(): clean(words) for name, words in one.machine.items()},
            1,
        )
    yield (
        "hosttune_check_timestamp_seconds",
        {},
        int(datetime.fromisoformat(plan.created_at).timestamp()),
    )
    numbers = Counter(name_standing(finding) for finding in plan.findings)
    # All of them, also zeros: an alert on a series that is missing never fires.
    for name in STANDINGS:
        yield "hosttune_findings", {"verdict": name}, numbers[name]
    rules: dict[str, list[Finding]] = {}
    for finding in plan.findings:
        rules.setdefault(finding.rule, []).append(finding)
    for rule, own in sorted(rules.items()):
        yield (
            "hosttune_rule_status",
            {"rule": clean(rule), "verdict": name_standing(find_worst(own))},
            1,
        )
    yield "hosttune_changes", {}, len(plan.changes)
    is_blocked = any(finding.blocks_reboot for finding in plan.findings)
    yield (
        "hosttune_reboot_required",
        {},
        int(any(map(waits_for_reboot, plan.findings)) and not is_blocked),
    )
    if one.trial:
        yield "hosttune_trial", {"state": clean(one.trial)}, 1
    yield "hosttune_reboot_blocked", {}, int(is_blocked)


def _format_labels(labels: Mapping[str, str]) -> str:
    return (
        "{" + ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels.items()) + "}"
        if labels
        else ""
    )


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
