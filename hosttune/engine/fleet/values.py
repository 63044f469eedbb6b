"""The values of a report on many hosts. Counts are exact; lists of names hold the first ones.
Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from hosttune.engine.fleet.seen import HostLook, Unread
from hosttune.frozen import frozen

MOUNT = "mount "  # begins the name of a setting that some hosts do not have at all
NOT_MOUNTED = "not mounted"
FSTAB = "fstab"  # the setting with the places that /etc/fstab mounts, ", " between them
NO_LINE = "none"


@frozen
class HostNames:
    """Some hosts: how many there are, and the first names."""

    count: int = 0
    names: tuple[str, ...] = ()


@frozen
class Valued:
    """The hosts with one value."""

    value: str
    hosts: HostNames


@frozen
class ValueTally:
    """Values, the most common first; `others` are the hosts with values beyond those that are
    kept.
    """

    values: tuple[Valued, ...] = ()
    others: HostNames = field(default_factory=HostNames)

    @property
    def total(self) -> int:
        return sum(one.hosts.count for one in self.values) + self.others.count

    @property
    def majority(self) -> Valued | None:
        """The value that more than half of the hosts have."""
        first = self.values[0] if self.values else None
        return first if first and first.hosts.count * 2 > self.total else None

    @property
    def is_common(self) -> bool:
        """Whether all have the same value."""
        return len(self.values) < 2 and not self.others.count


@frozen
class RuleRow:
    """What one rule says of the fleet. `outcomes` are those that occur, the worst first; `values`
    are those of the hosts that the rule applies to.
    """

    rule: str
    outcomes: tuple[Valued, ...]
    values: ValueTally

    def count(self, outcome: str) -> int:
        return next((one.hosts.count for one in self.outcomes if one.value == outcome), 0)


@frozen
class HostRow:
    """One host and what each rule says of it: (rule, outcome), both as in RuleRow."""

    host: str
    says: tuple[tuple[str, str], ...]


@frozen
class DivergentSetting:
    """One setting that siblings do not agree on."""

    name: str
    values: ValueTally


@frozen
class Siblings:
    """Hosts of the same hardware, and the settings in which some of them differ."""

    title: str
    hosts: HostNames
    settings: tuple[DivergentSetting, ...]


@frozen
class PlanClass:
    """Hosts with the same plan; `source` and `host` name the look at the first of them."""

    digest: str
    changes: int
    hosts: HostNames
    source: str
    host: str
    shown: str  # the digest of the changes that the file shows
    content: str  # that of all that hosts of the class show alike
    is_uniform: bool  # whether they show all alike, so that nothing of the first is its own

    @property
    def is_as_shown(self) -> bool:
        """Whether the digest is that of the changes in the file: no secret is masked there, and no
        host made it up.
        """
        return self.digest == self.shown


@frozen
class Fleet:
    """The report on many hosts."""

    hosts: int  # that were looked at
    states: tuple[Valued, ...]  # fault, differs, unknown, ok
    first_at: str  # the oldest and the newest look, ISO 8601
    last_at: str
    versions: ValueTally
    profiles: ValueTally
    policies: ValueTally
    rules: tuple[RuleRow, ...]
    worst: tuple[HostRow, ...]  # the hosts that say most, the worst first
    siblings: tuple[Siblings, ...]
    alone: int  # hosts whose hardware no other has, or is not known
    unfit: ValueTally  # rule -> the hosts that should not take work for it
    impaired: ValueTally  # rule -> the hosts that work slower for it, or not for long
    reboots: ValueTally
    expired: ValueTally
    orphaned: ValueTally
    problems: ValueTally
    classes: tuple[PlanClass, ...]  # what there is to do first, the largest first
    other_classes: HostNames  # hosts with plans beyond those that are kept
    missing: tuple[HostLook, ...]  # hosts that gave no answer, the first names
    missing_count: int
    unread: tuple[Unread, ...]
    unread_count: int
    superseded: HostNames  # hosts with older looks, which were left out
    shared_machines: ValueTally  # machine id -> hosts: cloned, or renamed
    # with the files of other names that claim to be of each
    disputed_hosts: tuple[tuple[str, tuple[str, ...]], ...]
    disputed_count: int

    @property
    def disputed(self) -> frozenset[str]:
        """The digests for which hosts do not show the same, each with changes of that digest."""
        counts = Counter(one.digest for one in self.classes if one.digest and one.is_as_shown)
        return frozenset(digest for digest, count in counts.items() if count > 1)
