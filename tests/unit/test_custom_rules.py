"""Rules of an administrator's own: where they come from, what they may replace, what happens to old names."""

from __future__ import annotations

import pytest

from hosttune.engine.catalog import assembled, builtin_catalog, load_catalog
from hosttune.engine.lint import checked_rule
from hosttune.engine.policy_file import load_policy
from hosttune.errors import BadInput, HosttuneError
from tests.unit.fake_reader import FakeReader

RULE = """\
id: site-swappiness
title: Swap nearly never
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: our nodes swap to a network disk
sources: [site handbook, chapter 3]
want:
  - sysctl: vm.swappiness
    at_most: 1
"""
FOLDER = "/etc/hosttune/rules.d"


def catalog(**rules: str):
    files = {f"{FOLDER}/{name.replace('_', '-')}.yaml": text for name, text in rules.items()}
    return load_catalog(FakeReader(files))


def replacing(text: str = RULE) -> str:
    return text.replace("title:", "replaces: memory-swappiness\ntitle:")


def test_custom_rule_is_there_and_runs_only_where_it_is_selected():
    found = catalog(site_swappiness=RULE)
    assert not found.rules["site-swappiness"].is_builtin
    assert all("site-swappiness" not in profile.rules for profile in found.profiles.values())


def test_custom_rule_that_replaces_takes_the_place_in_every_profile():
    found = catalog(site_swappiness=replacing())
    assert "memory-swappiness" not in found.rules
    assert "site-swappiness" in found.profiles["train-single"].rules
    assert "site-swappiness" not in found.profiles["k8s-node"].rules  # it leaves the replaced one out
    assert found.profiles["inference-latency"].params == {}


def test_policy_that_names_a_replaced_rule_means_the_new_one_and_is_told():
    found = catalog(site_swappiness=replacing())
    policy = load_policy(FakeReader({"/etc/hosttune/policy.yaml": "ignore: [memory-swappiness]"}), found)
    assert policy.ignore == ("site-swappiness",)
    assert policy.notes == (
        (
            "/etc/hosttune/policy.yaml: site-swappiness (/etc/hosttune/rules.d/site-swappiness.yaml) takes the place "
            "of memory-swappiness"
        ),
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            {"memory_swappiness": RULE.replace("site-swappiness", "memory-swappiness")},
            "a built-in rule is called memory-swappiness",
        ),
        ({"site_swappiness": replacing().replace("memory-swapp", "memory-swop")}, "did you mean memory-swappiness"),
        (
            {"site_a": replacing().replace("site-swappiness", "site-a"), "site_swappiness": replacing()},
            "site-a replaces memory-swappiness already",
        ),
        ({"site_swappiness": RULE.replace("vm.swappiness", "'{{ nope.x }}'")}, "nope"),
        ({"site_swappiness": RULE + "exposes: security\n"}, "has risk high"),
        ({"site_swappiness": RULE + "replaced_by: memory-swappiness\n"}, "only a deprecated rule has one"),
        ({"site_swappiness": RULE + "edition: 1999.1\n"}, "there is no edition 1999.1"),
        ({"site_swappiness": RULE + "status: new\n"}, "is not one of the choices"),
    ],
)  # fmt: skip
def test_custom_rule_fault_names_the_way_out(rules, expected):
    with pytest.raises(BadInput) as caught:
        catalog(**rules)
    assert expected in str(caught.value)


def test_rules_of_a_typed_folder_come_besides_the_others(tmp_path):
    (tmp_path / "site-other.yaml").write_text(RULE.replace("site-swappiness", "site-other"))
    (tmp_path / "README").write_text("no rule")
    found = load_catalog(FakeReader({f"{FOLDER}/site-swappiness.yaml": RULE}), str(tmp_path))
    assert {"site-other", "site-swappiness"} <= set(found.rules)


def test_rule_in_both_folders_is_a_fault_that_names_the_other(tmp_path):
    (tmp_path / "site-swappiness.yaml").write_text(RULE)
    with pytest.raises(BadInput, match=f"the rule in {FOLDER}/site-swappiness.yaml is called site-swappiness"):
        load_catalog(FakeReader({f"{FOLDER}/site-swappiness.yaml": RULE}), str(tmp_path))


def test_folder_that_is_not_there_is_trouble(tmp_path):
    with pytest.raises(HosttuneError, match="there is no such folder"):
        load_catalog(FakeReader(), str(tmp_path / "nope"))


def test_folder_that_cannot_be_listed_is_trouble():
    with pytest.raises(HosttuneError, match="cannot be listed: not root"):
        load_catalog(FakeReader(unreadable={FOLDER: "not root"}))


def renamed():
    rule = checked_rule(RULE + "renamed_from: [site-swap]\n", "site-swappiness.yaml")
    base = builtin_catalog()
    return assembled({**base.rules, rule.id: rule}, base.profiles)


def test_renamed_rule_is_found_by_its_old_name_with_a_note():
    found = renamed()
    policy = load_policy(
        FakeReader({"/etc/hosttune/policy.yaml": "select: [site-swap]\nignore: [{rule: site-swap, reason: so}]"}), found
    )
    assert policy.select == ("site-swappiness",)
    assert policy.waivers[0].rule == "site-swappiness"
    assert policy.notes == ("/etc/hosttune/policy.yaml: site-swap is called site-swappiness now",)
    assert policy.overridden(found, ignore=("site-swap",)).ignore == ("site-swappiness",)


def test_deprecated_rule_still_runs_and_whoever_names_it_is_told():
    text = RULE + "status: deprecated\nreplaced_by: memory-swappiness\n"
    found = catalog(site_swappiness=text)
    policy = load_policy(FakeReader({"/etc/hosttune/policy.yaml": "select: [site-swappiness]"}), found)
    assert "site-swappiness" in {rule.id for rule in policy.selected(found)}
    assert policy.notes == ("/etc/hosttune/policy.yaml: site-swappiness is deprecated; use memory-swappiness",)
