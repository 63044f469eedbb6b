"""The text of a first policy for one host: what fits it in force, what only a person can decide as
comments. Pure.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hosttune.engine.expressions.helpers import gib_text
from hosttune.facts.base import UnknownFact
from hosttune.host.masking.cleaned import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.engine.policy.proposal import Proposal
    from hosttune.facts import Facts
    from hosttune.values import Finding

_WAIVED_FOR = timedelta(days=180)


def first_policy(
    host: str,
    facts: Facts,
    found: Proposal | None,
    findings: Iterable[Finding],
    titles: Mapping[str, str],
    now: float,
) -> str:
    """YAML. `found` is the profile that fits, `findings` are those of that profile, `titles` the
    names of its rules for people, `now` is in seconds since 1970. Disks and rules are for a person
    to decide, so their lines are comments.
    """
    today = datetime.fromtimestamp(now, timezone.utc).date()
    profile, why = (
        (found.profile, found.why)
        if found
        else ("base", "the default: no other profile fits by its facts")
    )
    lines = [
        f"# The policy of {clean(host)}, made by hosttune init on {today}.",
        "# All keys: docs/reference/policy.md. After a change: hosttune policy",
        f"# {clean(why)}",
        f"profile: {profile}",
        *_data_mounts(facts),
        *_list_waivers(findings, titles, str(today + _WAIVED_FOR)),
    ]
    return "".join(f"{line}\n" for line in lines)


def has_content(policy: bytes) -> bool:
    """Whether it decides something: not where all is a comment, as in the policy that the package
    installs.
    """
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in policy.splitlines())


def _data_mounts(facts: Facts) -> Iterator[str]:
    try:
        spare = [
            disk
            for disk in facts.spare.all
            if disk.fstype and not disk.is_ephemeral and _is_offered(disk.tags)
        ]
    except UnknownFact:
        return
    if spare:
        yield "# File systems that nothing mounts. To mount one as it is, remove the # of"
        yield "# its line and of data_mounts:"
        yield "#data_mounts:"
    for number, disk in enumerate(spare, 1):
        about = f"{disk.fstype}, {gib_text(disk.size_bytes)}, {disk.path}"
        yield f"#  # {clean(about)}"
        yield f"#  - {{source: {json.dumps(disk.tags[0])}, target: /data{number}}}"


def _is_offered(tags: tuple[str, ...]) -> bool:
    """Whether its first tag can be a source: a disk may have any text for a label."""
    return bool(tags) and clean(tags[0]) == tags[0]


def _list_waivers(
    findings: Iterable[Finding], titles: Mapping[str, str], until: str
) -> Iterator[str]:
    rules = sorted({one.rule for one in findings if one.changes})
    if rules:
        yield "# Rules that change something here. To leave one off for a time,"
        yield "# remove the # of its line and of ignore:"
        yield "#ignore:"
    for rule in rules:
        yield f"#  # {clean(titles.get(rule, ''))}"
        yield f"#  - {{rule: {rule}, reason: WHY, owner: WHO, until: {until}}}"
