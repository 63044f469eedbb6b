"""The scenarios of the vm ring hold together, and what they run in the guest can be imported."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from hosttune.engine.trial_terms import span_s
from tests.vm.come_back import BY_HAND, RULE_TEXT
from tests.vm.come_back_scenarios import SCENARIOS, Boot, End


def test_each_scenario_has_a_name_of_its_own_and_a_fault_of_the_list():
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS)
    assert all(one.numbers and one.tells for one in SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_each_scenario_can_end_as_it_says(scenario):
    span_s(scenario.within)
    assert not scenario.waits or scenario.boot in {Boot.NONE, Boot.COMES_UP}
    is_confirmed = scenario.is_by_health or re.search(
        "hosttune confirm|hosttune .*confirm", scenario.meanwhile
    )
    assert scenario.end is not End.CONFIRMED or is_confirmed
    assert scenario.boot is not Boot.NONE or scenario.boots == 0
    assert bool(scenario.change.path) != bool(
        scenario.change.argument or scenario.change.sysctl[0] or scenario.change.module[0]
    )


@pytest.mark.parametrize("name", ["panic", "live-confirmed", "initrd-option"])
def test_rules_of_the_site_are_some(name, tmp_path):
    (wish,) = (one.change.wish for one in SCENARIOS if one.name == name)
    (tmp_path / "site-trial.yaml").write_text(RULE_TEXT.format(wish=wish), encoding="utf-8")
    words = [sys.executable, "-m", "hosttune", "explain", "site-trial", "--rules", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_plan_made_by_hand_finds_what_it_imports():
    imports = "\n".join(
        line for line in BY_HAND.splitlines() if line.startswith(("from ", "import "))
    )
    subprocess.run([sys.executable, "-c", imports], check=True)
