"""The exact texts of a report on many hosts. `./run generate` writes them anew."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.engine.fleet.values import HostNames, RuleRow, Valued, ValueTally
from hosttune.values import Risk
from hosttune.views.checked import About
from hosttune.views.document import Medium
from hosttune.views.fleet.report import fleet_report
from hosttune.views.fleet.schema import fleet_json
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.generated import hold
from tests.golden.fleet import PLANS, fleet
from tests.unit.schemas import faults

FOLDER = Path(__file__).resolve().parent / "fleet_texts"
PAGE = Page(screen=Screen(80))
PASTED = Page(medium=Medium.MARKDOWN)
FOLDING = Page(medium=Medium.HTML)
DOCUMENTS = {
    "fleet.txt": lambda: fleet_report(fleet(), PLANS, PAGE),
    "fleet-verbose.txt": lambda: fleet_report(fleet(), PLANS, replace(PAGE, is_verbose=True)),
    "fleet.md": lambda: fleet_report(fleet(), PLANS, PASTED),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_report_is_what_people_were_shown(name):
    hold(FOLDER / name, DOCUMENTS[name]())


def test_what_costs_most_stands_on_top():
    """A GPU that is lost, then what does not do its work, before anything that only differs."""
    fault = RuleRow(
        "gpu-errors", (Valued("fault", HostNames(2, ("gpu-002", "gpu-003"))),), ValueTally()
    )
    told = replace(fleet(), rules=(*fleet().rules, fault))
    text = fleet_report(told, PLANS, PAGE)
    lines = (
        "First these\n  gpu-007: 7 of the 8 GPUs that the siblings have\n"
        "  gpu-020: nothing is mounted at /data, as it is on the siblings\n  gpu-002, gpu-003: gpu-errors\n  1 host gave"
    )
    assert lines in text
    assert text.index("First these") < text.index("memory-swappiness")
    fine = replace(told, siblings=(), rules=(), missing=(), missing_count=0)
    assert "First these" not in fleet_report(fine, {}, PAGE)
    assert "gpu-007: 7 of the 8 GPUs that the siblings have" in fleet_report(told, {}, FOLDING)


def test_lines_of_the_text_fit_the_screen():
    for line in fleet_report(fleet(), PLANS, PAGE).splitlines():
        assert len(line) <= 80 or " " not in line.strip()


def test_document_has_the_shape_that_is_written_down():
    assert faults(fleet_json(fleet(), PLANS), "report") == []
    assert faults(fleet_json(fleet(2), {}), "report") == []


def test_page_filters_by_what_its_rules_say_and_shows_all_without_a_script():
    text = fleet_report(
        fleet(), PLANS, FOLDING, {"memory-swappiness": About("keep <memory>", Risk.LOW, "")}
    )
    outcomes = set(re.findall(r'data-outcome="([a-z-]+)"', text))
    assert (
        outcomes
        == set(re.findall(r'name="outcome" value="([a-z-]+)"', text))
        == {"differs", "unknown", "waits", "waived", "not-applicable"}
    )
    groups = set(re.findall(r'data-group="([a-z]+)"', text))
    assert groups == set(re.findall(r'name="group" value="([a-z]+)"', text))
    assert "keep &lt;memory&gt;" in text
    assert "+ vm.swappiness = 10" in text
    assert re.findall(r"<[a-z]+ [^>]*\bhidden\b", text) == ['<details class="filter" hidden']
    assert not re.search(r"<[^>]+ (?:src|style|on[a-z]+)=", text.replace("style-src", ""))
