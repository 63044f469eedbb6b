"""The policy: what an administrator wants of the rules, as its file and the command line say it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from hosttune.engine.policy.waiver import Waiver, waive
from hosttune.engine.rules.declared import NOTHING, Declared
from hosttune.engine.rules.gone import GONE, gone_note
from hosttune.errors import HosttuneError, Where
from hosttune.facts.globs import fits_glob
from hosttune.frozen import frozen
from hosttune.values import Disturbs, Finding, Risk

if TYPE_CHECKING:
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.engine.trial_terms import TrialTerms


@frozen
class Drains:
    """Rules that drain a node though it only works slower, and rules that do not though it does not
    do its work.
    """

    drain_for: frozenset[str] = frozenset()
    no_drain_for: frozenset[str] = frozenset()


NO_DRAINS = Drains()


@frozen
class AtBoot:
    """What `hosttune ready` may do at a boot, before this host takes work."""

    plans: str = "approved"  # approved | all: whatever the policy allows
    digests: tuple[str, ...] = ()  # approved here, besides those of /etc/hosttune/approved
    reboot: str = "once"  # once | never
    on_failure: str = "hold"  # hold | go

    @property
    def allowed(self) -> int:
        """Reboots until the host was ready."""
        return int(self.reboot == "once")


AS_APPROVED = AtBoot()


@frozen
class Statement:
    """One thing that a policy says of a rule on this host, and where it is."""

    key: str  # select | ignore | waiver | params
    rule: str
    where: Where
    subject: str = ""  # of a waiver: a name or a pattern

    def covers(self, subject: str) -> bool:
        return fits_glob(subject, self.subject)


@frozen
class HostSection:
    """A section for hosts of a policy file."""

    pattern: str
    where: Where
    fits: bool  # this host


@frozen
class Policy:
    """The choices of an administrator; the defaults are those of a host without a policy file."""

    profile: str = "base"
    # who names the profile: a file, and the section in it, or an option; empty: no one
    profile_by: str = ""
    # of a policy of old: without effect, but in the digest, by which lines approve it
    edition: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()  # rules that are off
    waivers: tuple[Waiver, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_risk: Risk = Risk.MEDIUM
    disturb: Disturbs = Disturbs.NOTHING
    # rules that are tried once more after they came back by themselves; typed for this run
    again: tuple[str, ...] = ()
    break_work: bool = False  # typed for this one run: GPU work that the plan lists may be broken
    declared: Declared = NOTHING
    confirm: TrialTerms | None = None  # what apply makes is on trial; no plan hangs on it
    drains: Drains = NO_DRAINS  # no plan hangs on it
    at_boot: AtBoot = AS_APPROVED  # no plan hangs on it
    keep_reports: int = 90  # days of which `check --keep` keeps a report; no plan hangs on it
    source: str = ""
    host: str = ""  # the name by which sections were chosen; empty where there are none
    sections: tuple[HostSection, ...] = ()
    statements: tuple[Statement, ...] = ()  # of single rules, in the sections that fit
    today: str = ""  # ISO date; waivers expire by it
    sole: tuple[str, ...] = ()  # the only rules to look at, whatever is selected
    notes: tuple[str, ...] = ()  # sentences for the policy's author: names that have changed

    def only(self, *rules: str) -> Policy:
        """The same choices for these rules alone."""
        return replace(self, sole=rules)

    @property
    def digest(self) -> str:
        """sha256 over what the policy says, not over how it is written."""
        import hashlib

        parts: list[Any] = [
            self.profile,
            self.edition,
            self.select,
            self.ignore,
            # Without reason and owner: to name another person must not withdraw an approval.
            [(one.rule, one.subject, one.until) for one in self.waivers],
            {rule: dict(values) for rule, values in self.params.items()},
            self.max_risk.value,
            self.disturb.value,
            [
                [one.source, one.target, one.fstype, one.options]
                for one in self.declared.data_mounts
            ],
        ]
        parts += [self.sole] if self.sole else []
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def digest_with(self, rules: Iterable[Rule]) -> str:
        """The same, with what the custom rules among those that run say: each decides as much as
        the policy.
        """
        import hashlib

        # Sorted by content, so that a file that is only renamed approves the same.
        own = sorted(rule.content for rule in rules if rule.content)
        return (
            hashlib.sha256("".join((self.digest, *own)).encode()).hexdigest()
            if own
            else self.digest
        )

    def select_rules(self, catalog: Catalog) -> tuple[Rule, ...]:
        """The rules to look at, by id: the profile's and the selected ones, less those that are
        off.
        """
        if self.sole:
            return tuple(catalog.rules[name] for name in sorted(self.sole))
        wanted = {*catalog.profiles[self.profile].rules, *self.select} - {*self.ignore}
        return tuple(catalog.rules[name] for name in sorted(wanted))

    def params_of(self, rule: Rule, catalog: Catalog) -> dict[str, Any]:
        """The parameters in force: the policy's, else the profile's, else the rule's own."""
        of_profile = catalog.profiles[self.profile].params.get(rule.id, {})
        return {
            **rule.defaults_in(is_selected=rule.id in self.select),
            **of_profile,
            **self.params.get(rule.id, {}),
        }

    def waives(self, rule: str, subject: str) -> bool:
        """Whether a waiver in force covers this."""
        return any(
            one.covers(rule, subject) and not one.is_over(self.today) for one in self.waivers
        )

    def waive(self, finding: Finding) -> Finding:
        """The finding as the waivers leave it."""
        return waive(finding, self.waivers, self.today)

    def overridden(
        self,
        catalog: Catalog,
        *,
        profile: str | None = None,
        select: tuple[str, ...] = (),
        ignore: tuple[str, ...] = (),
        only: tuple[str, ...] = (),
        max_risk: str | None = None,
        disturb: str | None = None,
        again: tuple[str, ...] = (),
    ) -> Policy:
        """The policy with what the command line says on top. `only` leaves every other rule out; a
        rule that is off stays off, and naming it raises HosttuneError.
        """
        if profile is not None and profile not in catalog.profiles:
            raise HosttuneError(
                f"no profile is called {profile}",
                hint=f"there is: {', '.join(sorted(catalog.profiles))}",
            )
        named = (*select, *ignore, *only, *again)
        select, ignore = (
            tuple(one for one in names if one not in GONE) for names in (select, ignore)
        )
        for name in (*select, *ignore, *only, *again):
            # A typing error in --ignore would otherwise make what it was to leave out.
            if catalog.find_id(name) not in catalog.rules:
                raise unknown_rule(catalog, name)
        sole = tuple(dict.fromkeys(map(catalog.find_id, only)))
        # Asked for and off at once: to run it would break the policy, and to run nothing would read
        # as ok.
        off = next(
            (name for name in sole if name in {*self.ignore, *map(catalog.find_id, ignore)}), ""
        )
        if off:
            by = self.source if off in self.ignore else "--ignore"
            raise HosttuneError(
                f"--only {off}: the rule is off by {by}",
                hint="take it out of what is ignored first",
            )
        asked, dropped = tuple(map(catalog.find_id, select)), tuple(map(catalog.find_id, ignore))
        notes = [
            f"{name} is selected, and {'--ignore' if name in dropped else self.source} ignores it: "
            "it stays off"
            for name in asked
            if name in (*self.ignore, *dropped)
        ]
        return replace(
            self,
            sole=sole or self.sole,
            profile=profile or self.profile,
            profile_by="--profile" if profile else self.profile_by,
            select=(*self.select, *asked),
            ignore=(*self.ignore, *dropped),
            max_risk=Risk(max_risk) if max_risk else self.max_risk,
            disturb=Disturbs(disturb) if disturb else self.disturb,
            again=tuple(map(catalog.find_id, again)),
            # Only by the option of this run. From a file it would end jobs on each later run,
            # without a question.
            break_work=disturb == Disturbs.GPU_WORK.value,
            notes=tuple(dict.fromkeys((*self.notes, *name_notes(catalog, named), *notes))),
        )


def unknown_rule(catalog: Catalog, name: str) -> HosttuneError:
    """The error for a name of a command line that is no rule's."""
    if name in GONE:
        return HosttuneError(gone_note(name), hint="see: hosttune rules")
    alike = ", ".join(one for one in catalog.rules if name in one.split("-"))
    hint = suggest_nearest(name, catalog.rules) or (
        f"there is: {alike}" if alike else "see: hosttune rules"
    )
    return HosttuneError(f"no rule is called {name}", hint=hint)


def name_notes(catalog: Catalog, names: Iterable[str]) -> tuple[str, ...]:
    """What someone who names these rules should know: a new name, a rule in its place, an end to
    come.
    """
    notes = []
    for name in dict.fromkeys(names):
        rule = catalog.rules.get(catalog.current(name))
        if rule is None:
            notes += [gone_note(name)] if name in GONE else []
            continue
        if name in rule.renamed_from:
            notes.append(f"{name} is called {rule.id} now")
        elif rule.id != name:
            notes.append(f"{rule.id} ({rule.where.path}) takes the place of {name}")
        elif rule.status.value == "deprecated":
            notes.append(
                f"{name} is deprecated" + (f"; use {rule.replaced_by}" if rule.replaced_by else "")
            )
    return tuple(notes)


def suggest_nearest(name: str, names: Any) -> str:
    """`did you mean X?` for the nearest of the valid names, or of their ends behind the domain; or
    nothing.
    """
    from difflib import get_close_matches

    ends = {one.partition("-")[2]: one for one in names if "-" in one}
    close = get_close_matches(name, list(names), n=1) or [
        ends[end] for end in get_close_matches(name, ends, n=1)
    ]
    return f"did you mean {close[0]}?" if close else ""
