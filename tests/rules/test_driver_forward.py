"""The years to come through a whole plan: installed or switched on an overlay, looked at again, and
taken back.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.facts.apt_get import make_simulation
from hosttune.host.door import BeforeReader, Completed
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import Disturbs, Risk
from tests.unit.driver_machine import A100, H100, V100
from tests.unit.test_driver_forward import AUGUST_2028, NOVEMBER_2027, RUBIN, host

CATALOG = builtin_catalog()
ASKS = make_simulation(())


class Archive(BeforeReader):
    """A host in front of which apt-get says what it would do: what it is asked, and nothing
    besides.
    """

    def __getattr__(self, name):
        return getattr(self.base, name)

    def query(self, argv, *, timeout_s=10.0):
        words = tuple(argv)
        if words[0] != "apt-get":
            return self.base.query(argv, timeout_s=timeout_s)
        packages = Facts(self.base).packages
        lines = [self._line(one, packages) for one in words[len(ASKS) :] if not one.startswith("-")]
        return Completed(0, "".join(lines).encode(), b"")

    def _line(self, word, packages):
        if word.endswith("-"):
            name = word.removesuffix("-")
            return f"Remv {name} [{packages[name].version}]\n"
        if packages[word].is_installed:
            return ""
        branch = next(part for part in word.split("-") if part.isdigit() and len(part) == 3)
        return f"Inst {word} ({branch}.50.01-0ubuntu1 Ubuntu:24.04 [amd64])\n"


class Trial(Overlay):
    """The old packages are not fetched: the folder that is made for them goes empty."""

    def run(self, argv, *, timeout_s):
        if argv[0] == "rm":
            self.remove_folder(argv[-1])
        elif "download" not in argv:
            return super().run(argv, timeout_s=timeout_s)
        return Completed(0, b"", b"")


def session_on(overlay, params):
    policy = Policy(
        max_risk=Risk.HIGH,
        disturb=Disturbs.GPU_WORK,
        today="2027-11-01",
        params={"gpu-driver": params},
    )
    return examine(overlay, CATALOG, replace(policy, sole=("gpu-driver",), select=("gpu-driver",)))


def versions(reader):
    packages = Facts(reader).packages
    return {name: packages[name].version for name in packages.names}


@pytest.mark.parametrize(
    ("archive", "month", "gpus", "installed", "params", "name"),
    [
        (NOVEMBER_2027, "2027-11", [H100], "", {}, "640-server-open"),
        (NOVEMBER_2027, "2027-11", [V100], "", {}, "580-server"),
        (AUGUST_2028, "2028-08", [RUBIN] * 4, "", {"track": "production"}, "655-server-open"),
        (AUGUST_2028, "2028-08", [A100, RUBIN], "", {}, "640-server-open"),
        (
            AUGUST_2028,
            "2028-08",
            [H100],
            "580-server-open",
            {"switch_branch": True},
            "640-server-open",
        ),
    ],
)
def test_driver_of_the_years_to_come_is_planned_made_left_alone_and_taken_back(
    archive, month, gpus, installed, params, name
):
    overlay = Trial(Archive(host(archive, gpus, month, installed=installed).reader))
    before = versions(overlay)
    session = session_on(overlay, params)
    plan = session.plan()
    (change,) = plan.changes
    assert f"nvidia-headless-no-dkms-{name}" in change.address.name.split()
    receipt = apply(session, overlay, plan)
    assert (receipt.failed, receipt.verified) == ((), True)
    assert receipt.reboot_reasons
    assert Facts(overlay).driver.name == name
    again = session_on(overlay, params).plan()
    assert again.changes == ()
    assert [str(one.hold) for one in again.findings if one.hold] in ([], ["waiting for reboot"])
    session = session_on(overlay, params)
    back = plan_undo(session, receipt.run_id)
    assert undo(session, overlay, back).failed == ()
    assert versions(overlay) == before
