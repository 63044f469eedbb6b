"""The policy file: what it may say, and every fault with its place."""

from __future__ import annotations

import pytest

from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.policy import Policy
from hosttune.engine.policy_file import load_policy
from hosttune.errors import BadInput
from hosttune.values import Action, Address, Change, Disturbs, FileValue, Finding, HoldKind, Risk, Verdict
from tests.unit.fake_reader import FakeReader

CATALOG = builtin_catalog()


def load(text: str, **reader) -> Policy:
    return load_policy(FakeReader({"/etc/hosttune/policy.yaml": text}, **reader), CATALOG)


def test_policy_absent_gives_defaults():
    policy = load_policy(FakeReader(), CATALOG)
    assert (policy.profile, policy.max_risk, policy.disturb) == ("base", Risk.MEDIUM, Disturbs.NOTHING)
    assert "storage-noatime" in {rule.id for rule in policy.selected(CATALOG)}


def test_policy_says_everything():
    policy = load(
        "profile: base\nselect: [memory-swappiness]\nignore: [storage-fstrim]\n"
        "params: {memory-swappiness: {value: 5}}\nmax_risk: high\ndisturb: new sessions\n"
    )
    assert "storage-fstrim" not in {rule.id for rule in policy.selected(CATALOG)}
    assert policy.params_of(CATALOG.rules["memory-swappiness"], CATALOG)["value"] == 5
    assert (policy.max_risk, policy.disturb) == (Risk.HIGH, Disturbs.SESSIONS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("profil: base", "policy.yaml:1: profil: unknown key"),
        ("profil: base", "did you mean profile"),
        ("ignore: [memory-swapiness]", "did you mean memory-swappiness"),
        ("profile: bas", "no profile is called bas"),
        (
            "params:\n  memory-swappiness:\n    valu: 1",
            "policy.yaml:3: params.memory-swappiness.valu: unknown parameter",
        ),
        ("params:\n  memory-swappiness: {value: 99}", "99 is above the maximum 60"),
        ("params:\n  memory-swappiness: {value: true}", "not of type int"),
        ("max_risk: huge", "'huge' is not one of the choices"),
        ("max_risk: low\nmax_risk: high", "given twice"),
        ("ignore: [{rule: storage-fstrim, until: tomorrow}]", "until"),
        ("- a list", "must be a mapping"),
    ],
)
def test_policy_fault_names_the_place_and_the_way_out(text, expected):
    with pytest.raises(BadInput) as caught:
        load(text)
    assert expected in str(caught.value)


def test_policy_of_somebody_else_is_read_without_root():
    reader = FakeReader(
        {"/etc/hosttune/policy.yaml": FileValue(b"max_risk: low\n", 0o644, 1000, 1000)}, is_privileged=False
    )
    assert load_policy(reader, CATALOG).max_risk is Risk.LOW


def finding() -> Finding:
    change = Change(Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", "memory-swappiness")
    return Finding("memory-swappiness", "vm.swappiness", Verdict.DIFFERS, changes=(change,))


def test_waiver_holds_until_its_day_and_says_that_it_expired_after():
    text = "ignore: [{rule: memory-swappiness, reason: asked by DBA, until: 2030-01-31}]"
    held = load(text, now=1_896_000_000.0).waive(finding())  # 2030-01-30
    assert (held.hold.kind, held.changes) == (HoldKind.WAIVED, ())
    assert "asked by DBA" in held.hold.detail
    late = load(text, now=1_896_300_000.0).waive(finding())  # 2030-02-03
    assert late.changes
    assert late.evidence[0] == "the waiver expired on 2030-01-31: asked by DBA"


def test_policy_digest_depends_on_what_is_said_only():
    assert load("max_risk: low\nprofile: base").digest == load("# why\nprofile: base\nmax_risk: low\n").digest
    assert load("max_risk: low").digest != load("max_risk: high").digest
