"""Many hosts folded into one report, one look after the other. Pure; what is kept does not grow
with the hosts.

Counts are exact. Of every list of hosts only the first names in the order of the alphabet are kept,
and of every table of values the first `MOST_VALUES` that came: hosts with other values are counted
as such. Within these bounds the order of the looks does not matter. Who folds a large fleet hands
the looks over in an order that has nothing to do with their values, so that a value of any weight
is among the first.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosttune.engine.fleet.seen import DEFERRED, OUTCOMES, HostLook, Unread
from hosttune.engine.fleet.values import (
    MOUNT,
    NOT_MOUNTED,
    DivergentSetting,
    Fleet,
    HostNames,
    HostRow,
    PlanClass,
    RuleRow,
    Siblings,
    Valued,
    ValueTally,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = 20
# A host can make up values, rules and plans. These bounds keep one of them from filling the report
# or the memory.
MOST_VALUES = 256
MOST_CLASSES = 4096
MOST_RULES = 4096  # with a row of their own; others are counted under one name
OTHER_RULES = "other rules"
LEAST_SIBLINGS = 2
_RANKED = OUTCOMES[: OUTCOMES.index(DEFERRED)]  # what ranks a host
_STATES = ("fault", "differs", "unknown", "ok")  # of hosts, as a report lists them


class _Names:
    """The first names of those that were added, and how many there were."""

    __slots__ = ("bound", "count", "first")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.count = 0
        self.first: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < self.bound:
            insort(self.first, name)
        elif self.first and name < self.first[-1]:
            self.first.pop()
            insort(self.first, name)

    def copy(self) -> _Names:
        made = _Names(self.bound)
        made.count, made.first = self.count, self.first.copy()
        return made

    @property
    def result(self) -> HostNames:
        return HostNames(self.count, tuple(self.first))


class _Values:
    """Values and the hosts that have them."""

    __slots__ = ("bound", "found", "others")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.found: dict[str, _Names] = {}
        self.others = _Names(bound)

    def add(self, value: str, host: str) -> None:
        names = self.found.get(value)
        if names is None:
            if len(self.found) >= MOST_VALUES:
                self.others.add(host)
                return
            names = self.found[value] = _Names(self.bound)
        names.add(host)

    @property
    def result(self) -> ValueTally:
        return _ranked_tally(
            (Valued(value, names.result) for value, names in self.found.items()), self.others.result
        )


@dataclass
class _Class:
    """Hosts with the same plan."""

    names: _Names
    changes: int
    first: tuple[str, str]  # host, source
    own: str
    is_uniform: bool = True


class _Group:
    """Siblings."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.hosts = _Names(bound)
        self.gpu = _Values(1)
        self.settings: dict[str, _Values] = {}
        self.lacking: dict[str, _Names] = {}  # hosts without a mount that others have

    def add(self, seen: HostLook) -> None:
        own = dict(seen.settings)
        for name, value in seen.settings:
            if name not in self.settings:
                if len(self.settings) >= MOST_VALUES:
                    continue
                self.settings[name] = _Values(self.bound)
                if name.startswith(MOUNT):
                    # A mount that appears at the tenth host was missing on the nine before it,
                    # which are not looked at again.
                    self.lacking[name] = self.hosts.copy()  # all before this one
            self.settings[name].add(value, seen.host)
        for name, names in self.lacking.items():
            if name not in own:
                names.add(seen.host)
        self.hosts.add(seen.host)
        self.gpu.add(seen.gpu, seen.host)

    def result(self, hardware: tuple[tuple[str, str], ...]) -> Siblings:
        gpu = next((one.value for one in self.gpu.result.values if one.value), "")
        parts = {**dict(hardware), **({"GPU": gpu} if gpu else {})}
        settings = []
        for name, values in sorted(self.settings.items()):
            tally = values.result
            if name in self.lacking and self.lacking[name].count:
                tally = _ranked_tally(
                    (*tally.values, Valued(NOT_MOUNTED, self.lacking[name].result)), tally.others
                )
            if not tally.is_common:
                settings.append(DivergentSetting(name, tally))
        return Siblings(", ".join(parts.values()), self.hosts.result, tuple(settings))


def _ranked_tally(values: Iterable[Valued], others: HostNames) -> ValueTally:
    return ValueTally(tuple(sorted(values, key=lambda one: (-one.hosts.count, one.value))), others)


def _commonest_first(one: PlanClass) -> tuple[object, ...]:
    return not one.digest, -one.hosts.count, one.digest, one.shown, one.content


class FleetAggregator:
    """Adds looks, each at another host, and makes the report. `names` bounds each list of names;
    `grave` are the rules that find faults: what they say comes before what others say as loudly.
    `known` have a row of their own, whatever else a host makes up.
    """

    def __init__(
        self,
        names: int = NAMES,
        grave: frozenset[str] = frozenset(),
        known: frozenset[str] = frozenset(),
    ) -> None:
        self.bound = names
        self.grave = grave
        self.known = known
        self.hosts = 0
        self.span: tuple[str, str] = ("", "")
        self.states, self.versions, self.profiles, self.policies = (
            _Values(names) for _ in range(4)
        )
        self.reboots, self.expired, self.orphaned, self.problems = (
            _Values(names) for _ in range(4)
        )
        self.unfit, self.impaired = _Values(names), _Values(names)
        self.rules: dict[str, tuple[dict[str, _Names], _Values]] = {}
        self.worst: list[tuple[tuple[int, ...], HostRow]] = []
        self.groups: dict[tuple[tuple[str, str], ...], _Group] = {}
        self.unplaced = 0
        self.classes: dict[tuple[str, str, str], _Class] = {}
        self.other_classes = _Names(names)
        self.missing: list[tuple[str, str, HostLook]] = []
        self.missing_count = 0
        self.unread: list[tuple[str, str]] = []
        self.unread_count = 0
        self.superseded = _Names(names)
        self.shared = _Values(names)
        self.disputed: list[tuple[str, tuple[str, ...]]] = []
        self.disputed_count = 0

    def add(self, seen: HostLook) -> None:
        """One more host."""
        if seen.missing:
            self.missing_count += 1
            insort(self.missing, (seen.host, seen.source, seen), key=lambda entry: entry[:2])
            del self.missing[self.bound :]
            return
        self.hosts += 1
        self.span = (min(self.span[0] or seen.at, seen.at), max(self.span[1], seen.at))
        for values, value in (
            (self.states, seen.state),
            (self.versions, seen.tool_version),
            (self.profiles, seen.profile),
            (self.policies, seen.policy_digest),
        ):
            values.add(value, seen.host)
        for table, texts in (
            (self.unfit, seen.unfit),
            (self.impaired, seen.impaired),
            (self.reboots, seen.reboot),
            (self.expired, seen.expired),
            (self.orphaned, seen.orphaned),
            (self.problems, seen.problems),
        ):
            for text in texts:
                table.add(text, seen.host)
        self._add_rules(seen)
        self._add_row(seen)
        self._add_group(seen)
        self._add_class(seen)

    def miss(self, unread: Unread) -> None:
        """One more file that says nothing."""
        self.unread_count += 1
        insort(self.unread, (unread.place, unread.reason))
        del self.unread[self.bound :]

    def supersede(self, host: str) -> None:
        """One more look that a newer one of the same host makes idle."""
        self.superseded.add(host)

    def dispute(self, host: str, files: tuple[str, ...]) -> None:
        """Files of different names claim to be of this host."""
        self.disputed_count += 1
        insort(self.disputed, (host, files[: self.bound]))
        del self.disputed[self.bound :]

    def share(self, machine: str, hosts: Iterable[str]) -> None:
        """These hosts have one machine id."""
        for host in hosts:
            self.shared.add(machine, host)

    def _add_rules(self, seen: HostLook) -> None:
        for rule, outcome, value in seen.says:
            is_named = rule in self.rules or rule in self.known or len(self.rules) < MOST_RULES
            name = rule if is_named else OTHER_RULES
            # Rules of the catalogue always have a row: what hosts make up must not push them out.
            outcomes, values = self.rules.setdefault(name, ({}, _Values(self.bound)))
            names = outcomes.get(outcome)
            if names is None:
                names = outcomes[outcome] = _Names(self.bound)
            names.add(seen.host)
            if outcome != "not applicable":
                values.add(value, seen.host)

    def _add_row(self, seen: HostLook) -> None:
        says = tuple((rule, outcome) for rule, outcome, _ in seen.says)
        numbers = Counter(outcome for _, outcome in says)
        key = (_STATES.index(seen.state), *(-numbers[outcome] for outcome in _RANKED))
        insort(self.worst, (key, HostRow(seen.host, says)), key=lambda row: (row[0], row[1].host))
        del self.worst[self.bound :]

    def _add_group(self, seen: HostLook) -> None:
        if not seen.hardware:
            self.unplaced += 1
            return
        group = self.groups.get(seen.hardware)
        if group is None:
            if len(self.groups) >= MOST_CLASSES:
                self.unplaced += 1
                return
            group = self.groups[seen.hardware] = _Group(self.bound)
        group.add(seen)

    def _add_class(self, seen: HostLook) -> None:
        # A digest is approved for what is shown with it, so no host may show other changes for that
        # of others.
        key = (seen.digest, seen.shown, seen.content) if seen.changes else ("", "", "")
        known = self.classes.get(key)
        if known is None:
            if len(self.classes) >= MOST_CLASSES:
                self.other_classes.add(seen.host)
                return
            known = self.classes[key] = _Class(
                _Names(self.bound), seen.changes, (seen.host, seen.source), seen.own
            )
        known.names.add(seen.host)
        # The first by name and not by time, so that the report is the same in whatever order the
        # looks come.
        known.first = min(known.first, (seen.host, seen.source))
        known.is_uniform &= known.own == seen.own

    def result(self) -> Fleet:
        """The report on what was added so far."""
        groups = [
            (group.hosts.count, group.result(hardware)) for hardware, group in self.groups.items()
        ]
        siblings = [one for count, one in groups if count >= LEAST_SIBLINGS]
        classes = [
            PlanClass(
                digest,
                one.changes,
                one.names.result,
                one.first[1],
                one.first[0],
                shown,
                content,
                one.is_uniform,
            )
            for (digest, shown, content), one in self.classes.items()
        ]
        return Fleet(
            hosts=self.hosts,
            states=tuple(
                sorted(self.states.result.values, key=lambda one: _STATES.index(one.value))
            ),
            first_at=self.span[0],
            last_at=self.span[1],
            versions=self.versions.result,
            profiles=self.profiles.result,
            policies=self.policies.result,
            rules=tuple(sorted((self._rule(rule) for rule in self.rules), key=self._dearest_first)),
            worst=tuple(row for _, row in self.worst),
            siblings=tuple(sorted(siblings, key=lambda one: (-one.hosts.count, one.title))),
            alone=self.unplaced + sum(count for count, _ in groups if count < LEAST_SIBLINGS),
            unfit=self.unfit.result,
            impaired=self.impaired.result,
            reboots=self.reboots.result,
            expired=self.expired.result,
            orphaned=self.orphaned.result,
            problems=self.problems.result,
            classes=tuple(sorted(classes, key=_commonest_first)),
            other_classes=self.other_classes.result,
            missing=tuple(seen for _, _, seen in self.missing),
            missing_count=self.missing_count,
            unread=tuple(Unread(place, reason) for place, reason in self.unread),
            unread_count=self.unread_count,
            superseded=self.superseded.result,
            shared_machines=self.shared.result,
            disputed_hosts=tuple(self.disputed),
            disputed_count=self.disputed_count,
        )

    def _rule(self, rule: str) -> RuleRow:
        outcomes, values = self.rules[rule]
        named = tuple(Valued(one, outcomes[one].result) for one in OUTCOMES if one in outcomes)
        return RuleRow(rule, named, values.result)

    def _dearest_first(self, row: RuleRow) -> tuple[object, ...]:
        """By what it costs: the worst that the rule says of a host, whether it finds faults, and of
        how many hosts.
        """
        worst = min(OUTCOMES.index(one.value) for one in row.outcomes)
        return (
            worst,
            row.rule not in self.grave,
            *(-row.count(one) for one in OUTCOMES[:-2]),
            row.rule,
        )
