"""Where a rule is tried: on every built host and the recorded one, and in the first of its cases
that changes something, so that what must hold of whatever is applied is shown on something that
was.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hosttune.actions.examine import examine
from hosttune.engine.decide.evaluate import evaluate
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog, builtin_catalog
from hosttune.engine.rules.declared import DataMount, Declared
from hosttune.host.door import Reader
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources.kernel.sysctl import proc_path
from hosttune.values import ABSENT, Disturbs, Plan, Risk
from tests.hosts.built import BUILT, RECORDED, reader
from tests.rules.test_cases import CASES, host_of, policy_of

CATALOG = builtin_catalog()
RECORDS = (*BUILT, *RECORDED)
DECLARED = Declared((DataMount("UUID=d2-7e", "/mnt/scratch"),))
# every rule, whatever its risk and whom it disturbs
ALL = Policy(
    declared=DECLARED,
    select=tuple(CATALOG.rules),
    max_risk=Risk.HIGH,
    disturb=Disturbs.GPU_WORK,
    today="2026-01-01",
)
Place = Path | dict  # a record, or a case


def only(rule: str) -> Policy:
    profile = CATALOG.profiles["base"].rules
    return replace(ALL, select=(rule,), ignore=tuple({*profile} - {rule}))


def reader_of(place: Place) -> Reader:
    return host_of(place) if isinstance(place, dict) else reader(place)


def policy_at(place: Place, rule: str) -> Policy:
    return policy_of(rule, place) if isinstance(place, dict) else only(rule)


def plan_at(place: Place, rule: str, catalog: Catalog = CATALOG) -> Plan:
    return examine(Overlay(reader_of(place)), catalog, policy_at(place, rule)).plan(prove=False)


_CHANGING = {rule: case for rule, case in reversed(CASES) if case["expect"].get("changes")}
PLACES = [(path, rule) for path in RECORDS for rule in CATALOG.rules]
PLACES += [(case, rule) for rule, case in _CHANGING.items()]
PLACE_IDS = [
    f"{_CHANGING[rule]['name'] if isinstance(place, dict) else place.stem}-{rule}"
    for place, rule in PLACES
]


def why_untried(rule: str, catalog: Catalog = CATALOG) -> str:
    """Why every property of this rule would pass without anything being applied, and what to add
    where; empty where it is applied somewhere, or wants nothing.
    """
    case = _CHANGING.get(rule)
    if not catalog.rules[rule].want or (case and plan_at(case, rule, catalog).changes):
        return ""
    plans = {path.stem: plan_at(path, rule, catalog) for path in BUILT}
    if any(plan.changes for plan in plans.values()):
        return ""
    said = [
        f"  {name}: {finding.verdict}{', ' * bool(finding.hold)}{finding.hold.detail}: {finding.reason}"
        for name, plan in plans.items()
        for finding in plan.findings
        if finding.rule == rule
    ]
    return "\n".join(
        [
            f"no built host lets {rule} change anything, so nothing of it is tried:",
            *said,
            *_hints(rule, catalog),
        ]
    )


def _hints(rule: str, catalog: Catalog) -> list[str]:
    wanted = {
        (wish.kind, wish.name)
        for path in BUILT
        for wish in evaluate(
            catalog.rules[rule],
            examine(reader(path), catalog, only(rule)).facts,
            ALL.params_of(catalog.rules[rule], catalog),
            DECLARED,
        ).wishes
    }
    places = {
        proc_path(name) if kind == "sysctl" else name: (kind, name)
        for kind, name in sorted(wanted)
        if kind in {"sysctl", "sysfs"}
    }
    lacking = [at for at in places if all(reader(path).read(at) is ABSENT for path in BUILT)]
    hints = []
    for at in lacking:
        kind, name = places[at]
        where = (
            "SYSCTLS of tests/hosts/machine.py"
            if kind == "sysctl"
            else "`files` of a host in tests/hosts/make.py"
        )
        line = f'"{name}": "..."' if kind == "sysctl" else f'"{at}": "...\\n"'
        hints.append(f"  -> no built host has {name}: add its value to {where}: {line}")
    hints = hints or [
        f"  -> write a case in tests/rules/{rule}.yaml with `files:` that make a host differ, and its `changes:`"
    ]
    return [*hints, f"  then: ./run test rules -k {rule}"]
