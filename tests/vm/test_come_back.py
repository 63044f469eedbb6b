"""Runs on trial, from a machine that has just booted to the end: what CI has time for. All: python
-m tests.vm.come_back --all.
"""

import pytest

from tests.vm.come_back import play
from tests.vm.come_back_scenarios import SCENARIOS, Scenario
from tests.vm.transcript import Transcript

pytestmark = pytest.mark.vm


@pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if one.in_ci], ids=lambda one: one.name
)
def test_a_host_with_a_run_on_trial_ends_as_it_has_to(
    scenario: Scenario, transcript: Transcript
) -> None:
    told = play(scenario, transcript)
    assert told.faults == ()


def test_each_scenario_has_its_name_and_a_fault_of_the_list() -> None:
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS)
    assert all(one.numbers for one in SCENARIOS)
