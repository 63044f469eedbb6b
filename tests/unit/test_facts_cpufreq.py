"""Facts about who sets the clocks."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

FOLDER = "/sys/devices/system/cpu/cpu0/cpufreq"


def cpufreq(**files):
    named = {f"{FOLDER}/{name}": text for name, text in files.items()}
    return Facts(FakeReader(named, folders=("/sys/devices/system/cpu/cpu0",))).cpufreq


def test_cpufreq_with_a_preference_is_autonomous():
    seen = cpufreq(
        scaling_driver="intel_pstate\n",
        scaling_governor="powersave\n",
        scaling_available_governors="performance powersave\n",
        energy_performance_preference="balance_performance\n",
    )
    assert (seen.driver, seen.governor, seen.governors) == (
        "intel_pstate",
        "powersave",
        ("performance", "powersave"),
    )
    assert seen.is_autonomous


def test_cpufreq_of_a_machine_without_it_is_empty():
    seen = cpufreq()
    assert (seen.driver, seen.governor, seen.governors, seen.preference) == ("", "", (), "")
    assert not seen.is_autonomous


def test_cpufreq_unreadable_is_unknown_in_that_field_alone():
    seen = cpufreq(scaling_driver="acpi-cpufreq\n", scaling_governor=Unreadable("denied"))
    assert seen.driver == "acpi-cpufreq"
    with pytest.raises(UnknownFact, match="denied"):
        _ = seen.governor
