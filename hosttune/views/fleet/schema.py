"""A report on many hosts for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import to_json
from hosttune.views.masking import mask_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.fleet.values import (
        Fleet,
        HostNames,
        PlanClass,
        RuleRow,
        Siblings,
        ValueTally,
    )
    from hosttune.values import Change


def fleet_json(fleet: Fleet, plans: Mapping[PlanClass, tuple[Change, ...]]) -> dict[str, Any]:
    """The document of `report --format json`; secrets are masked. Counts are exact, `names` are the
    first ones.
    """
    disputed = fleet.disputed
    body: dict[str, Any] = mask_data(
        {
            "format_version": 1,
            "hosts": fleet.hosts,
            "states": {one.value: _encode_names(one.hosts) for one in fleet.states},
            "first_at": fleet.first_at,
            "last_at": fleet.last_at,
            "versions": _encode_tally(fleet.versions),
            "profiles": _encode_tally(fleet.profiles),
            "policies": _encode_tally(fleet.policies),
            "missing": {
                "count": fleet.missing_count,
                "hosts": [
                    {"host": one.host, "at": one.at, "reason": one.missing} for one in fleet.missing
                ],
            },
            "unread": {
                "count": fleet.unread_count,
                "files": [{"place": one.place, "reason": one.reason} for one in fleet.unread],
            },
            "superseded": _encode_names(fleet.superseded),
            "shared_machines": _encode_tally(fleet.shared_machines),
            "disputed": {
                "count": fleet.disputed_count,
                "hosts": [
                    {"host": host, "files": list(files)} for host, files in fleet.disputed_hosts
                ],
            },
            "unfit": _encode_tally(fleet.unfit),
            "impaired": _encode_tally(fleet.impaired),
            "rules": [_encode_rule(row) for row in fleet.rules],
            "siblings": [_encode_siblings(one) for one in fleet.siblings],
            "without_siblings": fleet.alone,
            "reboots": _encode_tally(fleet.reboots),
            "expired_waivers": _encode_tally(fleet.expired),
            "orphaned": _encode_tally(fleet.orphaned),
            "problems": _encode_tally(fleet.problems),
            "plans": [_plan(one, plans.get(one), disputed) for one in fleet.classes],
            "other_plans": _encode_names(fleet.other_classes),
        }
    )
    return body


def _encode_names(hosts: HostNames) -> dict[str, Any]:
    return {"count": hosts.count, "names": list(hosts.names)}


def _encode_tally(tally: ValueTally) -> dict[str, Any]:
    """Values, the most common first; `others` counts the hosts with values beyond those that were
    kept.
    """
    return {
        "values": [{"value": one.value, **_encode_names(one.hosts)} for one in tally.values],
        "others": tally.others.count,
    }


def _encode_rule(row: RuleRow) -> dict[str, Any]:
    majority = row.values.majority
    return {
        "rule": row.rule,
        "outcomes": {one.value: _encode_names(one.hosts) for one in row.outcomes},
        "majority": majority.value if majority else None,
        **_encode_tally(row.values),
    }


def _encode_siblings(one: Siblings) -> dict[str, Any]:
    return {
        "title": one.title,
        **_encode_names(one.hosts),
        "settings": [
            {
                "name": setting.name,
                "majority": setting.values.majority.value if setting.values.majority else None,
                **_encode_tally(setting.values),
            }
            for setting in one.settings
        ],
    }


def _plan(
    one: PlanClass, changes: tuple[Change, ...] | None, disputed: frozenset[str]
) -> dict[str, Any]:
    """A plan that several hosts have; its changes where they were asked for (`--plans`)."""
    own = {"changes": to_json(changes)} if changes is not None else {}
    about = {
        "digest": one.digest,
        "is_digest_of_changes": one.is_as_shown,
        "is_disputed": one.is_as_shown and one.digest in disputed,
        "change_count": one.changes,
    }
    return {**about, **_encode_names(one.hosts), **own}
