"""The look behind a plan that was tried takes over what the plan cannot have changed, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.policy import Policy
from hosttune.facts import Facts, tracing
from hosttune.host.overlay import Overlay
from hosttune.host.record import RecordReader, read_record
from hosttune.values import FileValue, Risk

HOSTS = sorted((Path(__file__).resolve().parents[1] / "hosts").glob("*.json"))
CATALOG = builtin_catalog()
SYSCTL_D = "/etc/sysctl.d"


@pytest.mark.parametrize("profile", sorted(CATALOG.profiles))
@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_plan_is_the_same_as_without_taking_anything_over(path, profile, monkeypatch):
    policy = Policy(profile=profile, max_risk=Risk.HIGH, today="2026-11-21")
    quick = examine(read_record(str(path)), CATALOG, policy).plan()
    monkeypatch.setattr(tracing, "TRACED", frozenset())
    monkeypatch.setattr("hosttune.facts.TRACED", frozenset())
    monkeypatch.setattr("hosttune.actions.memory.TRACED", frozenset())
    assert examine(read_record(str(path)), CATALOG, policy).plan() == quick


def reader(**tables):
    data = {
        "format_version": 1, "kind": "hosttune record", "tool_version": "", "made_at": 0, "name": "", "machine": "",
        "privileged": True, "persistent_only": False,
    }  # fmt: skip
    return RecordReader({**data, **tables})


def questions():
    return {
        "read": lambda door, path: door.read(path),
        "list": lambda door, path: door.list(path),
        "link": lambda door, path: door.link(path),
        "stat": lambda door, path: door.stat(path),
        "lstat": lambda door, path: door.stat(path, follow=False),
        "resolve": lambda door, path: door.resolve(path),
    }


PLACES = (
    "/", "/etc", "/etc/sysctl.d", "/etc/sysctl.d/a.conf", "/etc/sysctl.d/b.conf", "/etc/sysctl.d/new.conf", "/alias",
    "/alias/a.conf", "/alias/new.conf", "/alias/./new.conf", "/etc/other", "/etc/other/x", "/etc/new", "/etc/new/deep",
    "/etc/new/deep/x.conf", "/proc/self/mountinfo", "/nowhere", "/etc/link.conf",
)  # fmt: skip


def host():
    return reader(
        files={
            "/etc/sysctl.d/a.conf": "a",
            "/etc/sysctl.d/b.conf": "b",
            "/etc/other/x": "x",
            "/proc/self/mountinfo": "",
        },
        listings={
            "/": ["alias", "etc", "proc"],
            "/etc": ["link.conf", "other", "sysctl.d"],
            "/etc/sysctl.d": ["a.conf", "b.conf"],
            "/etc/other": ["x"],
        },
        links={"/alias": "/etc/sysctl.d", "/etc/link.conf": "sysctl.d/a.conf"},
        stats={
            path: ["file" if path.endswith(("conf", "x")) else "directory", 420, 0, 0, 1, 0, 0, 0, 1, 0]
            for path in (
                "/",
                "/etc",
                "/etc/sysctl.d",
                "/etc/sysctl.d/a.conf",
                "/etc/sysctl.d/b.conf",
                "/etc/other",
                "/etc/other/x",
            )
        },
    )


def wrote(door):
    door.replace("/etc/sysctl.d/new.conf", FileValue(b"n"), expected=door.read("/etc/sysctl.d/new.conf"))


def through_a_link(door):
    door.replace("/alias/a.conf", FileValue(b"n"), expected=b"a")


def removed(door):
    door.remove("/etc/sysctl.d/b.conf", expected=b"b")


def made(door):
    door.make_folder("/etc/new")


def deep(door):
    door.replace("/etc/new/deep/x.conf", FileValue(b"n"), expected=door.read("/etc/new/deep/x.conf"))


def linked(door):
    door.links["/etc/other/x"] = "/etc/sysctl.d/a.conf"


def uncovered(door):
    door.uncovered.add("/etc/other")


@pytest.mark.parametrize(
    "act", [wrote, through_a_link, removed, made, deep, linked, uncovered], ids=lambda act: act.__name__
)
def test_what_is_out_of_reach_is_answered_as_below(act):
    base = host()
    overlay = Overlay(base)
    act(overlay)
    reach = overlay.reach()
    held = {path for path in PLACES if reach.holds_path(path)}
    assert held
    for path in set(PLACES) - held:
        for name, ask in questions().items():
            assert ask(overlay, path) == ask(base, path), (name, path)


def test_modelled_programs_are_within_reach():
    overlay = Overlay(host())
    assert not overlay.reach().holds_query(("systemctl", "show", "x"))
    overlay.units["fstrim.timer", "ActiveState"] = "active"
    assert overlay.reach().holds_query(("systemctl", "show", "x"))
    assert not overlay.reach().holds_query(("nvidia-smi",))
    overlay.files["/etc/apt/apt.conf.d/60-hosttune-x"] = FileValue(b"")
    assert overlay.reach().holds_query(("apt-config", "dump", "x"))


def test_fact_behind_a_change_is_collected_again_and_others_are_kept():
    base = read_record(str(next(path for path in HOSTS if path.stem == "h100-8x-2socket")))
    facts = Facts(base)
    first = {name: getattr(facts, name) for name in ("mounts", "fstab", "memory", "limits", "network")}
    overlay = Overlay(base)
    overlay.set_atime("/data", "noatime")
    again = facts.through(overlay, overlay.reach())
    assert again.mounts != first["mounts"]
    assert again.mounts.at["/data"].atime == "noatime"
    assert all(getattr(again, name) is first[name] for name in ("memory", "limits", "network"))
