"""What is written for Prometheus, by Prometheus' own promtool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.golden.dashboard import dashboard

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "playbooks/monitoring"
pytestmark = pytest.mark.live


def promtool(*words: str | Path, stdin: str | None = None) -> str:
    done = subprocess.run(
        ("promtool", *words), input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_alerts_are_valid_and_fire_as_their_tests_say():
    assert "12 rules found" in promtool("check", "rules", FOLDER / "alerts.yml")
    assert "SUCCESS" in promtool("test", "rules", FOLDER / "alerts_test.yml")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/golden").glob("*.prom")), ids=lambda path: path.name
)
def test_metrics_are_as_prometheus_asks(path):
    assert promtool("check", "metrics", stdin=path.read_text()) == ""


def test_queries_of_the_dashboard_are_promql(tmp_path):
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    rules = [
        {
            "record": f"panel:{number}",
            "expr": query.replace("$job", ".+").replace("$instance", ".+"),
        }
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", path)
    assert json.loads((FOLDER / "dashboard.json").read_text())["panels"]
