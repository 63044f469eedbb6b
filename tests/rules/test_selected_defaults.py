"""A parameter may have another default where the policy selects its rule by name."""

from __future__ import annotations

from dataclasses import replace

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.values import Disturbs, Risk
from tests.hosts.built import HOSTS, reader

CATALOG = builtin_catalog()
RULE = "storage-tmp-tmpfs"


def test_parameter_has_another_default_where_the_policy_selects_the_rule():
    def where(policy: Policy) -> str:
        return policy.params_of(CATALOG.rules[RULE], CATALOG)["where"]

    assert where(Policy()) == "slow-disk"
    assert where(Policy(select=(RULE,))) == "anywhere"
    assert where(Policy(select=(RULE,), params={RULE: {"where": "slow-disk"}})) == "slow-disk"


def test_tmp_in_memory_is_planned_on_any_disk_only_where_it_is_selected():
    host = reader(HOSTS / "h100-8x-2socket.json")
    policy = Policy(max_risk=Risk.HIGH, disturb=Disturbs.GPU_WORK)

    def touches(policy: Policy) -> bool:
        return any(
            change.rule == RULE
            for change in examine(host, CATALOG, policy).plan(prove=False).changes
        )

    assert not touches(policy)
    assert touches(replace(policy, select=(RULE,)))
    assert touches(replace(policy, params={RULE: {"where": "anywhere"}}))
