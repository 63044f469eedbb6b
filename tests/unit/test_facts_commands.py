"""What commands set at boot: Exec lines of enabled services, scripts that they start, rc.local,
cpufrequtils.
"""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import get_raw
from hosttune.facts.commands import values_in
from hosttune.values import FileValue, Unreadable
from tests.unit.fake_reader import FakeReader

GOVERNOR = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
WANTS = "/etc/systemd/system/multi-user.target.wants/a.service"
UNIT = "/usr/lib/systemd/system/a.service"


def commands(files, *, is_enabled=True, **options):
    links = {WANTS: UNIT} if is_enabled else {}
    found = Facts(
        FakeReader({"/etc/systemd/system/x": "", **files}, links=links, **options)
    ).commands.all
    return [(one.path, one.value, one.place) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sysctl -w vm.swappiness=10", ("/proc/sys/vm/swappiness", "10")),
        ("/sbin/sysctl -q -w 'kernel.numa_balancing=0'", ("/proc/sys/kernel/numa_balancing", "0")),
        (
            "sh -c 'echo 0 > /proc/sys/kernel/numa_balancing'",
            ("/proc/sys/kernel/numa_balancing", "0"),
        ),
        ("echo performance | tee " + GOVERNOR, (GOVERNOR, "performance")),
        (
            "echo never >/sys/kernel/mm/transparent_hugepage/enabled",
            ("/sys/kernel/mm/transparent_hugepage/enabled", "never"),
        ),
        ("/usr/bin/cpupower frequency-set -g performance", (GOVERNOR, "performance")),
        ("cpupower -c all frequency-set --governor performance", (GOVERNOR, "performance")),
        ("cpufreq-set -r -g schedutil", (GOVERNOR, "schedutil")),
        (f'for f in {GOVERNOR}; do\n  echo performance > "$f"\ndone', (GOVERNOR, "performance")),
        (f"for f in {GOVERNOR}\ndo echo performance >${{f}}; done", (GOVERNOR, "performance")),
        (
            f'for f in {GOVERNOR}; do echo x > "$fx"; echo on > "$f"; done; for g in /sys/a; do true; done',
            (GOVERNOR, "on"),
        ),
    ],
)
def test_values_of_commands_are_found(text, expected):
    assert [(path, value) for _, path, value in values_in(text)] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "sysctl vm.swappiness",
        "# sysctl -w vm.swappiness=10",
        "echo x > /tmp/y",
        "cat /sys/a",
        "cpupower frequency-info",
    ],
)
def test_commands_that_set_nothing_are_not(text):
    assert list(values_in(text)) == []


def test_enabled_service_and_the_script_that_it_starts_are_read():
    files = {
        UNIT: "[Service]\nExecStartPre=-/usr/sbin/sysctl -w vm.x=1\nExecStart=/opt/site/tune.sh start\n",
        "/opt/site/tune.sh": "#!/bin/bash\nset -e\nsysctl -w vm.y=2\n",
        f"{UNIT}.d/a.conf": "[Service]\nExecStartPost=/usr/sbin/sysctl -w vm.z=3\n",
    }
    assert commands(files) == [
        ("/proc/sys/vm/x", "1", f"a.service ({UNIT}:2)"),
        ("/proc/sys/vm/y", "2", "a.service (/opt/site/tune.sh:3)"),
        ("/proc/sys/vm/z", "3", f"a.service ({UNIT}.d/a.conf:2)"),
    ]
    assert commands(files, is_enabled=False) == []


def test_program_that_is_no_script_is_not_looked_into():
    files = {UNIT: "[Service]\nExecStart=/opt/tune\n", "/opt/tune": "\x7fELF sysctl -w vm.x=1\n"}
    assert commands(files) == []


def read_of(reader):
    """What a look at the commands has read."""
    read, real = [], reader.read
    reader.read = lambda path: read.append(path) or real(path)
    assert Facts(reader).commands.all == ()
    return read


def test_large_program_is_not_read():
    """A server's program has a hundred megabytes, and each check would take them all."""
    files = {
        UNIT: "[Service]\nExecStart=/usr/bin/dockerd -H fd://\n",
        "/usr/bin/dockerd": b"\x7fELF" + bytes(70_000),
    }
    read = read_of(FakeReader({"/etc/systemd/system/x": "", **files}, links={WANTS: UNIT}))
    assert UNIT in read
    assert "/usr/bin/dockerd" not in read


def test_script_on_another_machine_is_not_asked_for():
    table = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 21 0:40 / /opt/site rw shared:2 - nfs4 gone:/site rw,hard\n"
    files = {
        UNIT: "[Service]\nExecStart=/opt/start\n", "/opt/site/tune.sh": "#!/bin/sh\nsysctl -w vm.y=2\n",
        "/proc/self/mountinfo": table,
    }  # fmt: skip
    links = {WANTS: UNIT, "/opt/start": "site/tune.sh"}
    reader = FakeReader({"/etc/systemd/system/x": "", **files}, links=links)
    assert read_of(reader).count(UNIT) == 1
    assert not {path for path in reader.seen if path.startswith("/opt/site")}


def test_rc_local_counts_where_it_is_executable():
    text = b"#!/bin/sh\nsysctl -w vm.x=1\n"
    assert commands({"/etc/rc.local": FileValue(text, 0o755)}) == [
        ("/proc/sys/vm/x", "1", "rc.local (/etc/rc.local:2)")
    ]
    assert commands({"/etc/rc.local": FileValue(text, 0o644)}) == []


def test_cpufrequtils_sets_its_governor():
    files = {
        "/etc/default/cpufrequtils": 'ENABLE="true"\nGOVERNOR="performance"\n',
        "/etc/init.d/cpufrequtils": "#!",
    }
    assert commands(files) == [(GOVERNOR, "performance", "/etc/default/cpufrequtils")]
    del files["/etc/init.d/cpufrequtils"]
    assert commands(files) == []


def test_unit_that_cannot_be_read_is_left_out_and_a_folder_makes_all_unknown():
    assert commands({}, unreadable={UNIT: "no"}) == []
    facts = Facts(FakeReader(unreadable={"/etc/systemd/system": "no"}))
    assert isinstance(get_raw(facts.commands, "all"), Unreadable)
