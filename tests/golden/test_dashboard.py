"""The Grafana dashboard and the alerts: held to the metrics that are written, and to the rules of
Grafana's linter.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.generated import hold
from tests.golden.dashboard import COLUMNS, METRICS, dashboard

FOLDER = Path(__file__).resolve().parents[2] / "playbooks/monitoring"
OTHERS = {"up", "node_textfile_scrape_error"}  # of Prometheus and node_exporter
NAME = re.compile(r"\b(?:hosttune|node|up)(?:_[a-z]+)*\b(?=[{\s)]|$)")


def named(expr: str) -> set[str]:
    return set(NAME.findall(re.sub(r'"[^"]*"', '""', expr)))


def test_dashboard_is_what_is_made_now():
    hold(FOLDER / "dashboard.json", json.dumps(dashboard(), indent=2) + "\n")


def test_every_metric_is_shown_and_every_one_shown_is_written():
    shown = set().union(
        *(named(target["expr"]) for panel in dashboard()["panels"] for target in panel["targets"])
    )
    assert shown == METRICS.keys()


def test_panels_have_what_the_linter_asks_and_do_not_overlap():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith((".", "`."))
        assert panel["fieldConfig"]["defaults"]["unit"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & own, panel["title"]
        taken |= own
        for target in panel["targets"]:
            assert 'job=~"$job", instance=~"$instance"' in target["expr"]
            assert target["datasource"]["uid"] == "${datasource}"


def test_fleet_that_reports_nothing_is_not_shown_as_zeros():
    """`or vector(0)` gives a number without a single host."""
    exprs = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert [expr for expr in exprs if "vector(" in expr or "absent(" in expr] == []
    stats = [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "stat"]
    assert stats[:5] == ["Hosts that report", "Silent", "Not fit", "Degraded", "Could not check"]


def test_variables_are_those_of_the_linter():
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    assert [(name, one["type"]) for name, one in variables.items()] == [
        ("datasource", "datasource"), ("job", "query"), ("instance", "query"),
    ]  # fmt: skip
    assert all(
        one["multi"] and one["includeAll"]
        for name, one in variables.items()
        if name != "datasource"
    )
    assert (dashboard()["editable"], len(dashboard()["uid"]) <= 40) == (False, True)


ALERTS = {
    rule["alert"]: rule
    for rule in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
}


@pytest.mark.parametrize("name", ALERTS)
def test_alert_asks_for_what_is_written_says_what_to_do_and_is_tried(name):
    rule = ALERTS[name]
    assert named(rule["expr"]) <= METRICS.keys() | OTHERS
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert re.search(r"hosttune|journalctl|systemctl", rule["annotations"]["description"])
    tried = [
        one
        for test in yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
        for one in test["alert_rule_test"]
        if one["alertname"] == name and one["exp_alerts"]
    ]
    assert tried, "alerts_test.yml never sees it fire"
