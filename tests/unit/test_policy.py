"""The policy file: what it may say, and every fault with its place."""

from __future__ import annotations

import pytest

from hosttune.engine.policy.file import build_policy, load_policy
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.declared import DataMount
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import BadInput, HosttuneError
from hosttune.values import (
    Action,
    Address,
    Change,
    Disturbs,
    FileValue,
    Finding,
    HoldKind,
    Risk,
    Verdict,
)
from tests.unit.fake_reader import FakeReader

CATALOG = builtin_catalog()


def load(text: str, **reader) -> Policy:
    return load_policy(FakeReader({"/etc/hosttune/policy.yaml": text}, **reader), CATALOG)


def test_policy_absent_gives_defaults():
    policy = load_policy(FakeReader(), CATALOG)
    assert (policy.profile, policy.max_risk, policy.disturb) == (
        "base",
        Risk.MEDIUM,
        Disturbs.NOTHING,
    )
    assert "storage-noatime" in {rule.id for rule in policy.select_rules(CATALOG)}


def test_policy_says_everything():
    policy = load(
        "profile: base\nselect: [memory-swappiness]\nignore: [storage-fstrim]\n"
        "params: {memory-swappiness: {value: 5}}\nmax_risk: high\ndisturb: new sessions\n"
    )
    assert "storage-fstrim" not in {rule.id for rule in policy.select_rules(CATALOG)}
    assert policy.params_of(CATALOG.rules["memory-swappiness"], CATALOG)["value"] == 5
    assert (policy.max_risk, policy.disturb) == (Risk.HIGH, Disturbs.SESSIONS)


@pytest.mark.parametrize("one", Disturbs)
def test_policy_takes_the_words_of_the_option_too(one):
    assert load(f"disturb: {one.word}\n").disturb is load(f"disturb: {one.value}\n").disturb is one


MOUNT = "data_mounts:\n- {{source: LABEL=a, target: /a,\n   options: [ro, {}]}}"
TWICE = "data_mounts:\n- {{source: LABEL=a, target: /a}}\n- {{source: {}, target: {}}}"


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
        (
            "params:\n  memory-swappiness: {value: -1}",
            "params.memory-swappiness.value: -1 is below the minimum 1",
        ),
        ("params:\n  memory-swappiness: {value: true}", "not of type int"),
        ("max_risk: huge", "'huge' is not one of the choices"),
        ("max_risk: low\nmax_risk: high", "given twice"),
        ("ignore: [{rule: storage-fstrim, until: tomorrow}]", "until"),
        ("- a list", "must be a mapping"),
        (
            "data_mounts:\n- {source: LABEL=a, target: /a, options: ['noatime;nodev']}",
            "policy.yaml:2: data_mounts[0].options[0]",
        ),
        (
            "data_mounts: [{source: LABEL=a, target: /a, options: [noatime nodev]}]",
            "data_mounts[0].options[0]",
        ),
        (
            MOUNT.format("NOATIME"),
            "policy.yaml:3: data_mounts[0].options[1]: options are case-sensitive, and `NOATIME`",
        ),
        (MOUNT.format("NOATIME"), "write it as `noatime`"),
        (MOUNT.format("noexec:nodev"), "only a comma parts options"),
        (MOUNT.format("nobootwait"), "write nofail instead"),
        (MOUNT.format("\u2013o"), "en dash"),
        (
            MOUNT.format("noauto"),
            "data_mounts[0].options[1]: with `noauto` no boot mounts the disk",
        ),
        (MOUNT.format("bind"), "take it out, or the disk out of data_mounts"),
        (
            TWICE.format("LABEL=b", "/a"),
            "policy.yaml:3: data_mounts[1].target: /a is the target in line 2 too (data_mounts[0]",
        ),
        (TWICE.format("LABEL=b", "/x/../a"), "leave one disk for each target"),
        (
            TWICE.format("LABEL=a", "/b"),
            "data_mounts[1].source: LABEL=a is the source in line 2 too",
        ),
        (TWICE.format("LABEL=a", "/b"), "leave one target for each disk"),
        (
            f"hosts: {{gpu-*: {{data_mounts: [{{source: LABEL=b, target: /a}}]}}}}\n{MOUNT.format('ro')}",
            "policy.yaml:1: hosts.gpu-*.data_mounts[0].target: /a is the target in line 3 too (data_mounts[0].target)",
        ),
    ],
)
def test_policy_fault_names_the_place_and_the_way_out(text, expected):
    with pytest.raises(BadInput) as caught:
        load(text)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "words", ["noatime", "x-Mine", "size=1G", "nouatime", "prjquota", "context=a:b:c"]
)
def test_option_that_some_type_may_take_is_no_fault_of_a_policy(words):
    policy = load(MOUNT.format(words))
    assert policy.declared.data_mounts == (DataMount("LABEL=a", "/a", "", ("ro", words)),)


def test_sections_of_two_hosts_may_name_one_target_and_those_of_one_host_may_not():
    text = "hosts:\n" + "".join(
        f"  {name}: {{data_mounts: [{{source: LABEL={name[0]}, target: /a}}]}}\n"
        for name in ("cpu-1", "gpu-1", "'*-1'")
    )
    document = load_document(text.rpartition("  '*-1'")[0], "policy.yaml")
    assert build_policy(document, CATALOG, "2026-01-01", "gpu-1").declared.data_mounts == (
        DataMount("LABEL=g", "/a"),
    )
    with pytest.raises(
        BadInput,
        match=r"policy.yaml:4: hosts.\*-1.data_mounts\[0\].target: /a is the target in line 3",
    ):
        build_policy(load_document(text, "policy.yaml"), CATALOG, "2026-01-01", "gpu-1")


def test_policy_of_somebody_else_is_read_without_root():
    reader = FakeReader(
        {"/etc/hosttune/policy.yaml": FileValue(b"max_risk: low\n", 0o644, 1000, 1000)},
        is_privileged=False,
    )
    assert load_policy(reader, CATALOG).max_risk is Risk.LOW


def finding() -> Finding:
    change = Change(
        Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", "memory-swappiness"
    )
    return Finding("memory-swappiness", "vm.swappiness", Verdict.DIFFERS, changes=(change,))


def test_waiver_holds_until_its_day_and_says_that_it_expired_after():
    text = "ignore: [{rule: memory-swappiness, reason: asked by DBA, until: 2030-01-31}]"
    held = load(text, now=1_896_000_000.0).waive(finding())  # 2030-01-30
    assert (held.hold.kind, held.changes) == (HoldKind.WAIVED, ())
    assert "asked by DBA" in held.hold.detail
    late = load(text, now=1_896_300_000.0).waive(finding())  # 2030-02-03
    assert late.changes
    assert late.evidence[0] == "the waiver expired on 2030-01-31: asked by DBA"


@pytest.mark.parametrize(
    ("now", "is_held"), [(1_896_134_399.0, True), (1_896_134_400.0, False)]
)  # midnight between
def test_waiver_holds_through_the_last_second_of_its_day_and_no_longer(now, is_held):
    held = load(
        "ignore: [{rule: memory-swappiness, reason: so, until: 2030-01-31}]", now=now
    ).waive(finding())
    assert (held.hold.kind is HoldKind.WAIVED) is is_held
    assert held.is_waiver_over is not is_held


def test_policy_digest_depends_on_what_is_said_only():
    assert (
        load("max_risk: low\nprofile: base").digest
        == load("# why\nprofile: base\nmax_risk: low\n").digest
    )
    assert load("max_risk: low").digest != load("max_risk: high").digest


def waived(
    text: str, found: Finding | None = None, now: float = 1_896_000_000.0
) -> Finding:  # 2030-01-30
    return load(f"ignore:\n{text}", now=now).waive(found or finding())


def test_waiver_says_reason_owner_and_day():
    held = waived(
        "  - {rule: memory-swappiness, reason: asked by DBA, owner: storage team, until: 2030-01-31}"
    )
    assert str(held.hold) == "waived until 2030-01-31 by storage team: asked by DBA"
    assert (
        str(waived("  - {rule: memory-swappiness, reason: we swap}").hold)
        == "waived because we swap"
    )


def test_waiver_expired_counts_again_and_says_whose_it_was():
    text = "  - {rule: memory-swappiness, reason: asked by DBA, owner: ops, until: 2030-01-31}"
    late = waived(text, now=1_896_300_000.0)  # 2030-02-03
    assert (bool(late.hold), bool(late.changes)) == (False, True)
    assert late.evidence == ("the waiver of ops expired on 2030-01-31: asked by DBA",)


@pytest.mark.parametrize(
    ("subject", "is_held"), [("vm.*", True), ("vm.swappiness", True), ("/data", False)]
)
def test_waiver_of_a_subject_holds_for_that_alone(subject, is_held):
    held = waived(f"  - {{rule: memory-swappiness, subject: '{subject}', reason: so}}")
    assert (held.hold.kind is HoldKind.WAIVED) is is_held


def test_waiver_that_is_renewed_counts_beside_the_expired_one():
    old = "  - {rule: memory-swappiness, reason: first, until: 2029-01-31}\n"
    held = waived(old + "  - {rule: memory-swappiness, reason: second, until: 2031-01-31}")
    assert "second" in held.hold.detail


def test_waiver_does_not_comfort_where_nothing_is_known():
    unknown = Finding("memory-swappiness", "", Verdict.UNKNOWN, reason="cannot be read")
    assert waived("  - {rule: memory-swappiness, reason: so}", unknown) == unknown


def test_waived_rule_is_looked_at_and_a_bare_id_is_off():
    policy = load("ignore: [storage-fstrim, {rule: memory-swappiness, reason: so}]")
    names = {rule.id for rule in policy.select_rules(CATALOG)}
    assert "storage-fstrim" not in names
    assert "memory-swappiness" in names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ignore: [{rule: storage-fstrim, until: 2030-01-01}]", "ignore[0].reason: is missing"),
        ("ignore: [{rule: storage-fstrim, reason: x, owners: y}]", "did you mean owner"),
        ("hosts: {gpu-*: {profile: bas}}", "hosts.gpu-*.profile: no profile is called bas"),
        ("hosts: {gpu-*: {hosts: {}}}", "unknown key"),
        (
            "hosts:\n  other:\n    params:\n      memory-swappiness: {value: 99}",
            "policy.yaml:4: hosts.other.params.memory-swappiness.value: 99 is above",
        ),
    ],
)
def test_policy_fault_in_waivers_and_host_sections(text, expected):
    with pytest.raises(BadInput) as caught:
        load(text)
    assert expected in str(caught.value)


@pytest.mark.parametrize(("subject", "most"), [("/a{}", 1000), ("/a{}*", 256)])
def test_waivers_of_a_policy_are_bounded(subject, most):
    rows = [
        f"- {{rule: storage-fstrim, reason: x, subject: '{subject.format(number)}'}}"
        for number in range(most + 1)
    ]
    assert len(load("\n".join(["ignore:", *rows[:-1]])).waivers) == most
    with pytest.raises(BadInput, match="has more than 1000 waivers, or 256 with a pattern"):
        load("\n".join(["ignore:", *rows]))


FLEET = """\
profile: base
ignore: [storage-fstrim]
params: {memory-swappiness: {value: 10, min_ram_bytes: 0}}
hosts:
  "gpu-*":
    profile: train-single
    max_risk: high
    params: {memory-swappiness: {value: 5}}
  gpu-017:
    profile: workstation
    ignore: [storage-noatime]
  "*.lab.example.org": {disturb: new sessions}
"""


def on_host(name: str) -> Policy:
    return load_policy(
        FakeReader({"/etc/hosttune/policy.yaml": FLEET, "/proc/sys/kernel/hostname": f"{name}\n"}),
        CATALOG,
    )


def test_host_sections_that_fit_are_read_in_order_and_the_last_word_wins():
    one = on_host("gpu-017.lab.example.org")
    assert (one.profile, one.max_risk, one.disturb) == ("workstation", Risk.HIGH, Disturbs.SESSIONS)
    assert one.ignore == ("storage-fstrim", "storage-noatime")
    assert one.params == {"memory-swappiness": {"value": 5, "min_ram_bytes": 0}}
    assert on_host("gpu-018").profile == "train-single"
    login = on_host("login")
    assert (login.profile, login.max_risk, login.ignore) == (
        "base",
        Risk.MEDIUM,
        ("storage-fstrim",),
    )


def test_host_sections_without_a_name_of_the_host_are_refused():
    with pytest.raises(HosttuneError, match="the name of this host is not known"):
        load_policy(FakeReader({"/etc/hosttune/policy.yaml": FLEET}), CATALOG)


def test_param_of_the_policy_beats_the_one_of_the_profile():
    rule = CATALOG.rules["memory-swappiness"]
    policy = load("profile: inference-latency")
    assert policy.params_of(rule, CATALOG)["value"] == 1
    assert (
        load("profile: inference-latency\nparams: {memory-swappiness: {value: 7}}").params_of(
            rule, CATALOG
        )["value"]
        == 7
    )
