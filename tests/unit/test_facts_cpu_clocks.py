"""Clocks of processors: what they may, can and do run at, and what heat took."""

import pytest

from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

CPUS = "/sys/devices/system/cpu"
TOPOLOGY = {
    f"{CPUS}/online": "0-7\n", f"{CPUS}/cpu0/topology/package_cpus_list": "0-3\n",
    f"{CPUS}/cpu4/topology/package_cpus_list": "4-7\n",
}  # fmt: skip
BUSY = "processor\t: 0\ncpu MHz\t\t: 1999.998\n\nprocessor\t: 1\ncpu MHz\t\t: 3400.125\n\n"


def clocks(files):
    base = {
        "/proc/uptime": "10000.00 80000.00\n",
        "/proc/cpuinfo": BUSY,
        "/proc/loadavg": "7.1 3.0 1.0 8/900 77\n",
    }
    return Facts(FakeReader(base | TOPOLOGY | files)).cpu_clocks


def test_cpu_clocks_of_each_socket_are_those_of_its_first_processor():
    folder = f"{CPUS}/cpu4/cpufreq"
    seen = clocks({
        f"{folder}/cpuinfo_max_freq": "3800000\n", f"{folder}/scaling_max_freq": "2000000\n",
        f"{folder}/base_frequency": "2100000\n",
    })  # fmt: skip
    assert [socket.name for socket in seen.sockets] == ["socket 0", "socket 1"]
    second = seen.sockets[1]
    assert (second.max_mhz, second.limit_mhz, second.base_mhz) == (3800.0, 2000.0, 2100.0)
    assert (seen.base_mhz, seen.max_mhz) == (0.0, 0.0)  # the other socket does not tell


def test_cpu_clocks_heat_is_held_against_the_time_since_boot():
    place = "thermal_throttle/package_throttle_total_time_ms"
    seen = clocks({f"{CPUS}/cpu0/{place}": "0\n", f"{CPUS}/cpu4/{place}": "250000\n"})
    assert seen.counts_throttling
    assert [(one.throttled_s, one.throttled_percent) for one in seen.sockets] == [
        (0.0, 0.0),
        (250.0, 2.5),
    ]
    assert not clocks({}).counts_throttling


@pytest.mark.parametrize(
    ("files", "boost"),
    [
        ({}, ""),
        ({f"{CPUS}/intel_pstate/no_turbo": "1\n"}, "off"),
        ({f"{CPUS}/intel_pstate/no_turbo": "0\n"}, "on"),
        ({f"{CPUS}/cpufreq/boost": "0\n"}, "off"),
        ({f"{CPUS}/cpufreq/boost": "1\n"}, "on"),
    ],
)
def test_cpu_clocks_boost_has_two_switches(files, boost):
    assert clocks(files).boost == boost


def test_cpu_clocks_fastest_processor_and_tasks_that_run():
    seen = clocks({})
    assert (seen.fastest_mhz, seen.running) == (3400.125, 8)
    assert clocks({"/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 2000.00\n"}).fastest_mhz == 0.0
    with pytest.raises(UnknownFact, match="is no load"):
        _ = clocks({"/proc/loadavg": "high\n"}).running
