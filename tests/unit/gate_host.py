"""A host at its boot, with a plan and a receipt for it, for the tests of what happens before
work.
"""

from __future__ import annotations

from dataclasses import replace

from hosttune.engine.policy.policy import AtBoot
from hosttune.errors import Refused
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    Finding,
    Outcome,
    Phase,
    Plan,
    Receipt,
    Stage,
    Verdict,
)
from tests.unit.fake_reader import FakeReader

BOOT, STARTING = "boot-a", {("systemctl", "is-system-running"): "starting\n"}
CHANGE = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", "a-rule")
LATER = replace(CHANGE, activation=Activation.REBOOT)
SAID = "the GPU does not answer"
FAULT = Finding(
    "gpu-lost", "0000:1a:00.0", Verdict.DIFFERS, reason=SAID, is_fault=True, todo="reboot it\nsoon"
)
ALL = AtBoot(plans="all")


class Host(Overlay):
    """A host at its boot; programs that change it are noted, and refuse where they are told to."""

    def __init__(
        self, files=None, queries=STARTING, folders=("/run", "/run/systemd/system"), boot=BOOT
    ):
        known = {"/proc/sys/kernel/random/boot_id": f"{boot}\n", **(files or {})}
        self.base = FakeReader(known, folders=(*folders, "/dev"), queries=queries)
        super().__init__(self.base)
        self.ran, self.refuses, self.logged = [], set(), []

    def run(self, argv, *, timeout_s):
        self.ran.append(tuple(argv))
        if argv[0] in self.refuses:
            raise Refused(f"{argv[0]} ended with status 3\nand a secret")

    def log(self, message):
        self.logged.append(message)


def plan_of(*changes, findings=()):
    return Plan("d" * 64, "0", "m", "", "c" * 64, (Stage(changes),) if changes else (), findings)


def receipt_of(*, failed="", waiting=(), reasons=(), obstacles=(), verified=True, faults=()):
    phase = Phase.FAILED if failed else Phase.DONE
    outcomes = (Outcome(CHANGE, phase, failed),)
    return Receipt("run", "d" * 64, outcomes, waiting, reasons, verified, obstacles, (), faults)
