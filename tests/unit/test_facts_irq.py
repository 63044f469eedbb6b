"""Facts about interrupts."""

import pytest

from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

UNITS = "/etc/systemd/system"
PIN = "[Service]\nExecStart=/usr/sbin/set_irq_affinity.sh eth0\n"


def irq(files=None, **options):
    return Facts(FakeReader({"/etc/hostname": "a"} | (files or {}), **options)).irq


def test_irq_without_irqbalance_has_no_balancer():
    seen = irq()
    assert (seen.balancer, seen.has_bans, seen.pinned_by) == ("", False, ())


def test_irqbalance_that_runs_or_will():
    assert irq({"/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs": ""}).balancer == "running"
    assert irq({f"{UNITS}/multi-user.target.wants/irqbalance.service": ""}).balancer == "enabled"


@pytest.mark.parametrize(
    ("settings", "has_bans"),
    [
        ("#IRQBALANCE_BANNED_CPULIST=\nIRQBALANCE_ARGS=\n", False),
        ("IRQBALANCE_BANNED_CPULIST=0-3\n", True),
        ('IRQBALANCE_BANNED_CPULIST=""\n', False),
        ('IRQBALANCE_ARGS="--hintpolicy=exact --banirq=90"\n', True),
        ("export IRQBALANCE_BANNED_CPUS=ff\n", True),
        ("# IRQBALANCE_ARGS=--banirq=90\n", False),
    ],
)
def test_irqbalance_settings(settings, has_bans):
    assert irq({"/etc/default/irqbalance": settings}).has_bans is has_bans


@pytest.mark.parametrize(
    ("files", "pinned_by"),
    [
        ({f"{UNITS}/pin.service": PIN}, ()),  # not enabled
        ({f"{UNITS}/pin.service": PIN, f"{UNITS}/multi-user.target.wants/pin.service": ""}, (f"{UNITS}/pin.service",)),
        ({f"{UNITS}/pin@.service": PIN, f"{UNITS}/a.target.wants/pin@eth0.service": ""}, (f"{UNITS}/pin@.service",)),
        ({f"{UNITS}/pin.service": f"# {PIN}", f"{UNITS}/multi-user.target.wants/pin.service": ""}, (f"{UNITS}/pin.service",)),
        ({f"{UNITS}/a.service": "[Service]\n#set_irq_affinity\n", f"{UNITS}/a.target.wants/a.service": ""}, ()),
        ({"/etc/rc.local": "echo f > /proc/irq/9/smp_affinity\n"}, ("/etc/rc.local",)),
    ],
)  # fmt: skip
def test_files_that_pin_interrupts(files, pinned_by):
    assert irq(files).pinned_by == pinned_by


def test_masked_unit_pins_nothing():
    links = {f"{UNITS}/pin.service": "/dev/null"}
    assert irq({f"{UNITS}/a.target.wants/pin.service": ""}, links=links).pinned_by == ()


def test_irq_without_units_is_unknown():
    seen = irq(unreadable={UNITS: "denied"})
    with pytest.raises(UnknownFact, match="denied"):
        _ = seen.pinned_by
