"""The Grafana dashboard, made of the metrics that hosttune writes:
playbooks/monitoring/dashboard.json.

By the rules of Grafana's dashboard-linter (github.com/grafana/dashboard-linter, docs/rules): a
variable for the data source, for job and for instance, both used by each query; every panel with
title, description and unit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hosttune.views.health import HEALTH_METRICS
from hosttune.views.prometheus import CHECK_METRICS
from hosttune.views.ready import READY_METRICS

METRICS = {**CHECK_METRICS, **HEALTH_METRICS, **READY_METRICS}
COLUMNS, HEIGHT = 24, 7
CHOSEN = 'job=~"$job", instance=~"$instance"'
GREEN_TO_RED = ((None, "green"), (1, "red"))
GREEN_TO_YELLOW = ((None, "green"), (1, "yellow"))


class Panel(NamedTuple):
    """One panel: what it asks, and how it shows that. `$` in `expr` stands for the chosen job and
    instances.
    """

    title: str
    description: str
    kind: str  # stat | timeseries | table
    width: int  # of 24 columns
    expr: str
    unit: str = "short"
    legend: str = ""
    steps: tuple[tuple[int | None, str], ...] = ((None, "green"),)


PANELS = (
    Panel(
        "Hosts that report", "Hosts with metrics of the daily check now; no data means that none has any.",
        "stat", 4, "count(hosttune_check_timestamp_seconds{$})",
    ),
    Panel(
        "Silent", "Hosts that reported within the last week and do not now, or whose last check is older than two days.",
        "stat", 4, "count(last_over_time(hosttune_check_timestamp_seconds{$}[7d]) < time() - 172800"
        " or last_over_time(hosttune_check_timestamp_seconds{$}[7d]) unless hosttune_check_timestamp_seconds{$})"
        " or 0 * count(last_over_time(hosttune_check_timestamp_seconds{$}[7d]))", steps=GREEN_TO_RED,
    ),
    Panel(
        "Not fit", "Nodes that do not do their work: drain them. `hosttune health` on one says why, and what to do.",
        "stat", 4, 'sum(hosttune_health{fitness="unfit", $})', steps=GREEN_TO_RED,
    ),
    Panel(
        "Degraded", "Nodes that work, but slower, or not for long.",
        "stat", 4, 'sum(hosttune_health{fitness="impaired", $})', steps=GREEN_TO_YELLOW,
    ),
    Panel(
        "Could not check", "Nodes of which not enough could be checked to call them fit: `hosttune health`.",
        "stat", 4, 'sum(hosttune_health{fitness="unknown", $})', steps=GREEN_TO_YELLOW,
    ),
    Panel(
        "Faults", "Hosts with a fault in the daily check: `hosttune check`.",
        "stat", 4, 'sum(hosttune_findings{verdict="fault", $} > bool 0)', steps=GREEN_TO_RED,
    ),
    Panel(
        "Hosts, the worst first", "By host: its rules with a fault, to change, and not checked.",
        "table", 12, 'sort_desc(sum by (instance) (1000 * hosttune_findings{verdict="fault", $}'
        ' or 10 * hosttune_findings{verdict="differs", $} or hosttune_findings{verdict="unknown", $}))',
    ),
    Panel(
        "Held", "Nodes that take no work after their boot, because they are not as approved: `hosttune status`.",
        "stat", 4, 'sum(hosttune_ready{standing="held", $})', steps=GREEN_TO_RED,
    ),
    Panel(
        "Reboots pending", "Hosts on which something is set up that waits for the next boot.",
        "stat", 4, "sum(hosttune_reboot_required{$})", steps=GREEN_TO_YELLOW,
    ),
    Panel(
        "Reboots blocked", "Hosts that a boot would make worse: something must be solved before.",
        "stat", 4, "sum(hosttune_reboot_blocked{$})", steps=GREEN_TO_RED,
    ),
    Panel(
        "Hosts that differ", "Hosts by what the daily check found on them, over time.",
        "timeseries", 12, 'count by (verdict) (hosttune_findings{verdict!~"ok|not applicable", $} > 0)',
        legend="{{verdict}}",
    ),
    Panel(
        "Changes that apply would make", "By host; falls as a rollout goes on, and rises where hosts drift.",
        "timeseries", 12, "hosttune_changes{$} > 0", legend="{{instance}}",
    ),
    Panel(
        "Rules that most hosts differ in", "How many hosts each rule speaks of.",
        "table", 12, 'topk(20, count by (rule, verdict) (hosttune_rule_status{verdict=~"fault|differs|advice", $}))',
    ),
    Panel(
        "What keeps nodes from being fit", "By host, rule and thing.",
        "table", 12, "hosttune_health_point{$}",
    ),
    Panel(
        "Runs on trial", "What no one has confirmed yet, or what could not be rolled back: `hosttune status`.",
        "table", 24, "hosttune_trial{$}",
    ),
    Panel(
        "Age of the last check", "Daily, where hosttune-check.timer is on.",
        "timeseries", 8, "time() - hosttune_check_timestamp_seconds{$}", unit="s", legend="{{instance}}",
    ),
    Panel(
        "Age of the last look at health", "As often as its timer says.",
        "timeseries", 8, "time() - hosttune_health_timestamp_seconds{$}", unit="s", legend="{{instance}}",
    ),
    Panel(
        "Time since a host was brought to its plan at a boot", "Of hosts with hosttune-ready.service.",
        "timeseries", 8, "time() - hosttune_ready_timestamp_seconds{$}", unit="s", legend="{{instance}}",
    ),
    Panel(
        "Reboots since ready", "More than none after a boot means that a reboot did not bring what it was for.",
        "timeseries", 8, "hosttune_ready_reboots{$}", legend="{{instance}}",
    ),
    Panel(
        "Points by what they make of a node", "All hosts together.",
        "timeseries", 8, "sum by (fitness) (hosttune_health_points{$})", legend="{{fitness}}",
    ),
    Panel(
        "Versions and profiles", "Which hosttune checked with which profile.",
        "table", 8, "count by (version, profile) (hosttune_check_info{$})",
    ),
    Panel(
        "Machines", "What the hosts are.",
        "table", 24, "count by (product, gpus, driver, kernel, system) (hosttune_machine_info{$})",
    ),
)  # fmt: skip
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """The whole dashboard (Grafana's dashboard JSON model, schemaVersion 39)."""
    return {
        "uid": "hosttune",
        "title": "hosttune",
        "description": "Drift, health, reboots and readiness of GPU servers, as hosttune writes them.",
        "tags": ["gpu", "hosttune"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "5m",
        "time": {"from": "now-7d", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            _variable("job", "label_values(hosttune_check_info, job)"),
            _variable("instance", 'label_values(hosttune_check_info{job=~"$job"}, instance)'),
        ]},
        "panels": list(_placed()),
    }  # fmt: skip


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed() -> Any:
    x = y = 0
    for number, panel in enumerate(PANELS, 1):
        if x + panel.width > COLUMNS:
            x, y = 0, y + HEIGHT
        yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": HEIGHT})
        x += panel.width


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    target = {
        "refId": "A",
        "datasource": SOURCE,
        "expr": panel.expr.replace("$", CHOSEN),
        "legendFormat": panel.legend or "__auto",
        "instant": panel.kind != "timeseries",
        "range": panel.kind == "timeseries",
        "format": "table" if panel.kind == "table" else "time_series",
    }
    steps = [{"value": value, "color": color} for value, color in panel.steps]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"], "values": False}}
        if panel.kind == "stat"
        else {},
        "targets": [target],
    }
