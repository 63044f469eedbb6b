"""Facts about the sleep of idle processors."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

CPU = "/sys/devices/system/cpu"


def idle(*states, driver="intel_idle\n", limit="0\n", **options):
    files = {
        f"{CPU}/cpuidle/current_driver": driver,
        f"{CPU}/cpu0/power/pm_qos_resume_latency_us": limit,
    }
    for number, (name, latency, disable) in enumerate(states):
        base = f"{CPU}/cpu0/cpuidle/state{number}"
        files |= {
            f"{base}/name": f"{name}\n",
            f"{base}/latency": latency,
            f"{base}/disable": disable,
        }
    return Facts(
        FakeReader({path: text for path, text in files.items() if text is not None}, **options)
    ).idle


def test_idle_states_are_in_order_of_number_and_the_slowest_is_named():
    many = [(f"S{number}", f"{number}\n", "0\n") for number in range(11)]
    seen = idle(*many)
    assert [state.name for state in seen.states] == [f"S{number}" for number in range(11)]
    assert (seen.slowest, seen.slowest_us, seen.limit, seen.driver) == (
        "S10",
        10,
        "0",
        "intel_idle",
    )


def test_idle_state_that_is_switched_off_does_not_count():
    seen = idle(("POLL", "0", "0"), ("C1", "2", "0"), ("C6", "290", "1"))
    assert (seen.slowest, seen.slowest_us) == ("C1", 2)


def test_idle_without_states_wakes_at_once():
    seen = idle(driver=None, limit=None)
    assert (seen.driver, seen.states, seen.slowest, seen.slowest_us, seen.limit) == (
        "none",
        (),
        "",
        0,
        "",
    )


def test_idle_state_that_cannot_be_read_is_unknown():
    seen = idle(("C1", Unreadable("denied"), "0"))
    assert seen.limit == "0"
    with pytest.raises(UnknownFact, match="denied"):
        _ = seen.slowest_us
