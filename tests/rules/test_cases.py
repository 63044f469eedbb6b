"""The cases of the rules: `tests/rules/<rule id>.yaml`, one list of hosts with a few changes and what the rule says
there.

- name: swap and enough RAM        # what the case shows
  host: h100-8x-2socket            # a built host (./run hosts), or one of tests/hosts/kinds
  files: {/proc/swaps: null}       # what is different there; null removes the file
  modes: {/usr/bin/su: "4755"}     # permission bits of such a file, where they are not 644
  links: {/sys/class/net/eth1/device: ../../..}  # symbolic links there besides
  smi: {"0000:1b:00.0": {ecc_mode_current: Disabled}}  # what nvidia-smi says otherwise of a GPU (_ for each dot);
                                     # null: it leaves it out; a text stands in the place of every value
  log: ["NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."]  # lines of the kernel log; null: nobody can read it
  processes: [{cgroup: /system.slice}]  # GPU processes that run there; what is not said is as in tests/hosts/told.py
  daemons: {slurmd: "/usr/sbin/slurmd --systemd"}  # root's processes of a name, by their command lines
  answers: {"nvidia-smi -L": "GPU 0"}   # what programs print there; null for one that is not installed; a mapping
                                     # has `status` and `stderr`
  spaces: {/data: [1000, 10, 0, 0, 50]} # bytes, bytes left, inodes, inodes left of a mount, bytes kept back for root
  usages: {/tmp: [1000, 3, true]}       # bytes and files that lie in a folder, and whether all of it was counted
  unreadable: {/sys/block: no permission} # paths where nobody can look, and why
  holes: [hole docker-ce 29.7.0 CVE-1 weak]  # rows of known-holes.tsv in place of ours
  packages: {runc: 1.1.5-0ubuntu1}      # what dpkg says is installed besides; null for what is not
  params: {value: 5}               # what a policy says
  data_mounts: [{source: ..., target: ...}]
  others: [gpu-fabric]             # rules of `hosttune health` that call this host sick, too (test_health.py)
  expect:
    verdict: differs               # of the finding for `subject`
    subject: /data                 # of a rule with for_each: the thing that is meant; the first where it is not said
    fault: true                    # it says that the machine does not do its work; false where it is not said
    impairs: true                  # it says that the machine does it badly; not looked at where it is not said
    hold: owned by                 # the kind of hold, when there is one
    says: a phrase                 # in reason, evidence, hold or todo
    says_not: a phrase             # in none of them
    changes: ["sysctl:vm.swappiness 60 -> 10"]   # all of them; a file shows its last line
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.codec import plan_from_json, plan_to_json
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.declared import DataMount, Declared
from hosttune.engine.rules.lint import PLACEHOLDER
from hosttune.facts.containers import known_holes
from hosttune.facts.containers.known_holes import parse_table
from hosttune.facts.own_tables import parse_own_table
from hosttune.facts.packages import DATABASE
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import ABSENT, Disturbs, FileValue, Risk
from tests.hosts.built import HOSTS, reader
from tests.hosts.driver import saying
from tests.hosts.kinds import NAMES, record_of
from tests.hosts.told import telling
from tests.rules.proof import failing
from tests.yaml_files import read_yaml

FOLDER = Path(__file__).resolve().parent
CATALOG = builtin_catalog()
FILES = {path.stem: read_yaml(path) for path in sorted(FOLDER.glob("*.yaml"))}
CASES = [(rule, case) for rule, cases in FILES.items() for case in cases]


def host_of(case) -> Overlay:
    host = case["host"]
    record = record_of(host) if host in NAMES else reader(HOSTS / f"{host}.json")
    said = saying(record, case.get("smi", {}), case.get("log", ()))
    record = telling(
        said,
        case.get("processes", ()),
        case.get("answers", {}),
        case.get("spaces"),
        case.get("usages"),
        case.get("unreadable"),
        case.get("daemons"),
    )
    overlay = Overlay(record)
    for path, text in (case.get("files") or {}).items():
        mode = int(case.get("modes", {}).get(path, "644"), 8)
        overlay.files[path] = ABSENT if text is None else FileValue(text.encode(), mode)
    overlay.links.update(case.get("links", {}))
    if packages := case.get("packages"):
        database = overlay.read(DATABASE)
        kept = [
            row for row in database.decode().split("\n\n") if row.split("\n")[0][9:] not in packages
        ]
        told = [
            f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
            for name, version in packages.items()
            if version
        ]
        overlay.files[DATABASE] = FileValue(
            "\n\n".join([*(row for row in kept if row), *told]).encode()
        )
    return overlay


def shown(value) -> str:
    if isinstance(value, FileValue):
        return value.content.decode().rstrip("\n").split("\n")[-1]
    return " ".join(value) if isinstance(value, tuple) else str(value)


def policy_of(rule: str, case) -> Policy:
    params = {rule: case["params"]} if "params" in case else {}
    mounts = (
        {**one, "options": tuple(one.get("options", ["noatime"]))}
        for one in case.get("data_mounts", ())
    )
    declared = Declared(tuple(DataMount(**one) for one in mounts))
    return replace(
        Policy(
            declared=declared,
            max_risk=Risk.HIGH,
            disturb=Disturbs.GPU_WORK,
            today="2026-01-01",
            params=params,
        ),
        sole=(rule,),
    )


def plan_of(rule: str, case):
    return examine(host_of(case), CATALOG, policy_of(rule, case)).plan()


@pytest.mark.parametrize(
    ("rule", "case"), CASES, ids=[f"{rule}-{case['name']}" for rule, case in CASES]
)
def test_case(rule, case, monkeypatch):
    if "holes" in case:
        table = "# as of: 2026-01-01\n# good until: 2027-01-01\n" + "\n".join(
            case["holes"]
        ).replace(" ", "\t")
        monkeypatch.setattr(known_holes, "own_table", lambda: parse_table(parse_own_table(table)))
    plan = plan_of(rule, case)
    expected = case["expect"]
    subject = expected.get("subject")
    findings = [
        f for f in plan.findings if f.rule == rule and (subject is None or f.subject == subject)
    ]
    assert findings, [str(f) for f in plan.findings]
    found = findings[0]
    said = " | ".join((found.reason, *found.evidence, str(found.hold), found.todo))
    assert str(found.verdict) == expected["verdict"], said
    assert str(found.hold.kind) == expected.get("hold", "none"), said
    assert found.is_fault is expected.get("fault", False), said
    assert found.impairs is expected.get("impairs", found.impairs), said
    assert expected.get("says", "") in said
    assert expected.get("says_not", "\0") not in said
    changes = [
        f"{change.address} {shown(change.before)} -> {shown(change.after)}"
        for change in plan.changes
    ]
    assert changes == expected.get("changes", []), changes
    assert failing(plan) == []
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize("rule", sorted(CATALOG.rules))
def test_rule_has_a_case_where_it_applies_and_one_where_it_does_not(rule):
    verdicts = {case["expect"]["verdict"] for case in FILES.get(rule, ())}
    assert "not applicable" in verdicts, (
        f"write tests/rules/{rule}.yaml: a host where it does not apply"
    )
    assert verdicts & {"ok", "differs", "advice"}, (
        f"write tests/rules/{rule}.yaml: a host where it applies"
    )


@pytest.mark.parametrize("rule", sorted(FILES))
def test_cases_are_written_to_the_end(rule):
    assert PLACEHOLDER not in (FOLDER / f"{rule}.yaml").read_text(encoding="utf-8")


def test_every_case_file_names_a_rule():
    assert set(FILES) <= set(CATALOG.rules)
