"""The matrix of driver_matrix.yaml: GPU sets, releases and policies, each with the choice and what
follows from it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hosttune.choices.driver import choose
from tests.unit.driver_machine import PARAMS, candidate, compute, machine

MATRIX = yaml.safe_load((Path(__file__).parent / "driver_matrix.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(one, release, policy, one.get(release, {}).get(policy, one["choice"][policy]),
                 id=f"{one['name']}, {release}, {policy}")
    for one in MATRIX["sets"]
    for release in MATRIX["archives"]
    for policy in MATRIX["policies"]
]  # fmt: skip


def archive(release):
    found = []
    for branch, how in MATRIX["archives"][release].items():
        for flavour in (
            ("", "-server") if how == "dkms" else ("", "-open", "-server", "-server-open")
        ):
            name = f"{branch}{flavour}"
            modules = (
                f"nvidia-dkms-{name}" if how == "dkms" else f"linux-modules-nvidia-{name}-generic"
            )
            found.append(candidate(f"nvidia-driver-{name}", modules))
    return tuple(found)


def host(one, release, packages=()):
    devices = tuple(f"0x{number:04x}" for number in one["gpus"])
    more = {name: one[name] for name in ("drivers", "architecture") if name in one}
    return machine(
        devices, offer=archive(release), switches=one.get("nvswitches", 0),
        packages=(*one.get("packages", ()), *packages), **more,
    )  # fmt: skip


def main_packages(words):
    kind, _, name = words.rpartition(" ")
    if kind == "desktop":
        return f"nvidia-driver-{name}", f"linux-modules-nvidia-{name}-generic"
    return compute(name)


@pytest.mark.parametrize(("one", "release", "policy", "expected"), CASES)
def test_choice_and_what_follows_from_it(one, release, policy, expected):
    params = PARAMS | MATRIX["policies"][policy] | one.get("params", {})
    choice = choose(host(one, release), params)
    if expected.startswith(("none ", "refuse ")):
        action, _, reason = expected.partition(" ")
        assert (choice.action, choice.packages) == (action, ())
        assert reason in choice.reason
        assert bool(choice.way_out) is (action == "refuse")
        return
    assert (choice.action, choice.name) == ("install", expected.rpartition(" ")[2]), choice.reason
    assert choice.name in choice.reason
    if not choice.needs_dkms:
        fabric = (
            ("nvidia-fabricmanager-{0}", "libnvidia-nscq-{0}")
            if one.get("nvswitches") or one.get("fabric")
            else ()
        )
        assert choice.packages == (
            *main_packages(expected),
            *(name.format(choice.branch) for name in fabric),
        )
    common = f"nvidia-kernel-common-{choice.name.removesuffix('-open')}"
    again = choose(host(one, release, (*choice.packages, common)), params)
    assert (again.action, again.name) == ("keep", choice.name), again.reason
    assert set(again.packages) <= {*choice.packages}


def test_matrix_is_as_large_as_it_says():
    assert len(MATRIX["sets"]) >= 20
    assert len(CASES) == len(MATRIX["sets"]) * len(MATRIX["archives"]) * len(MATRIX["policies"])
