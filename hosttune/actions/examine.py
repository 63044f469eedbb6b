"""Look at a host and make the plan: collect facts, evaluate, read, compare, prove. Changes
nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hosttune import __version__
from hosttune.actions.journal.journal import Journal, read_journal
from hosttune.engine.decide.passes import Past, add_reboot_notes, run_passes
from hosttune.engine.decide.plan import digest, leads_to_boot, stage, standing_faults
from hosttune.engine.rules.rule import choice_module
from hosttune.errors import HosttuneError
from hosttune.facts import SUBJECTS, Facts, RequestedNames
from hosttune.facts.base import complete, read_or_default
from hosttune.host.door import Stat
from hosttune.resources.base import Applied
from hosttune.values import ABSENT, Finding, Plan, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hosttune.engine.decide.passes import Reason
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.host.door import Reader
    from hosttune.values import Address, Outcome, Stage

AFTER_BOOT = "host-after-boot"  # the rule that holds a host against what it was before its boot


@dataclass(eq=False, repr=False)
class Session:
    """One look at one host with one catalogue and one policy."""

    reader: Reader
    catalog: Catalog
    policy: Policy
    journal: Journal
    facts: Facts
    selected: tuple[Rule, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    # what became of sets of packages at which earlier runs had stopped half-way
    resumed: tuple[Outcome, ...] = ()
    resumed_run: str = ""  # the last of these runs

    @property
    def timings(self) -> tuple[tuple[str, float], ...]:
        """Where the time went: (phase or fact, seconds), longest first."""
        return tuple(
            sorted({**self.facts.seconds, **self.seconds}.items(), key=lambda item: -item[1])
        )

    def plan(self, *, prove: bool = True) -> Plan:
        """The plan for this host; `prove` runs it on an overlay first, which also finds the later
        stages.
        """
        from hosttune.actions.journal.interrupted import describe_interrupted
        from hosttune.actions.journal.unended import find_unended
        from hosttune.actions.proof import changes_in, prove_changes

        started = time.perf_counter()
        findings = self.look(self.facts)
        self.seconds["evaluate and compare"] = time.perf_counter() - started
        stages: tuple[Stage, ...] = (stage(changes),) if (changes := changes_in(findings)) else ()
        if prove:
            started = time.perf_counter()
            findings, stages = prove_changes(self, findings)
            self.seconds["proof on the overlay"] = time.perf_counter() - started
        findings = (
            *findings,
            *find_unended(self.journal, self.reader, self.catalog, self.selected),
        )
        # `--only` must not lead into a boot that a rule it left out knows to fail. So that rule is
        # asked too, whenever a boot may follow.
        findings = (*findings, *boot_losses(self, self.reader))
        if leads_to_boot(findings, changes_in(findings)) and (
            guards := reboot_guards(self, self.reader)
        ):
            findings = add_reboot_notes((*findings, *guards))
        return Plan(
            # Over all stages: the yes also covers what becomes possible only after the first one.
            digest=digest(change for one in stages for change in one.changes),
            tool_version=__version__,
            machine=_describe_machine(self.facts),
            created_at=datetime.fromtimestamp(self.reader.now(), timezone.utc).isoformat(
                timespec="seconds"
            ),
            policy_digest=self.policy.digest_with(self.selected),
            stages=stages,
            findings=findings,
            complete=not any(finding.verdict is Verdict.UNKNOWN for finding in findings),
            interrupted=tuple(describe_interrupted(self.journal, self.reader)),
        )

    def look(
        self,
        facts: Facts,
        ledger: Mapping[Address, Applied] | None = None,
        held: Mapping[str, Reason] | None = None,
    ) -> tuple[Finding, ...]:
        """What the selected rules find. `held`: those that failed where the plan was tried."""
        journal = self.journal
        past = Past(
            journal.ledger() if ledger is None else ledger,
            journal.problem,
            {address: (one.value, one.sentence) for address, one in journal.came_back().items()},
        )
        return run_passes(self.selected, self.catalog, self.policy, facts, past, held)


def plan_without_users(session: Session) -> Plan:
    """The plan for this host if no user had a job: a crontab of any of them can hold a change
    (storage-noatime).
    """
    from hosttune.facts.storage.ageing import list_places_of_users
    from hosttune.host.overlay.overlay import Overlay

    reader = Overlay(session.reader)
    for place in list_places_of_users(session.reader):
        reader.files[place] = ABSENT
        # Without this a listing would still show what the host below has in the folder.
        reader.uncovered.add(place)
    facts = Facts(reader, session.facts.asked)
    return replace(session, reader=reader, facts=facts, journal=read_journal(reader)).plan()


def faults_of(session: Session, reader: Reader) -> tuple[Finding, ...]:
    """What the selected rules say now, after a run, of faults that no change mends, and what blocks
    a boot, also by rules that were not selected.
    """
    rules = tuple(rule for rule in session.selected if rule.tells_faults)
    return (*_standing_faults(session, reader, rules), *reboot_guards(session, reader))


def reboot_guards(session: Session, reader: Reader) -> tuple[Finding, ...]:
    """What blocks a boot by the rules that were not selected (--only, another profile): hosttune
    knows that a boot would fail, whatever it was asked. Those that the policy switches off stay
    off.
    """
    catalog = session.catalog
    left = sorted(
        {*catalog.rules} - {*session.policy.ignore} - {rule.id for rule in session.selected}
    )
    rules = tuple(
        catalog.rules[name]
        for name in left
        if catalog.tells_health(name) and catalog.rules[name].can_block_reboot
    )
    return tuple(one for one in _standing_faults(session, reader, rules) if one.blocks_reboot)


def boot_losses(session: Session, reader: Reader) -> tuple[Finding, ...]:
    """What the last boot has lost, also where the rule that tells it was not selected; that it is
    not known yet only root learns on the running host, who can read what was before.
    """
    if AFTER_BOOT not in session.catalog.rules or AFTER_BOOT in session.policy.ignore:
        return ()
    if AFTER_BOOT in {rule.id for rule in session.selected}:
        return ()
    verdicts = {Verdict.DIFFERS, Verdict.ADVICE}
    if reader.kind == "live" and reader.is_privileged:
        verdicts.add(Verdict.UNKNOWN)
    found = _ask(session, reader, (session.catalog.rules[AFTER_BOOT],))
    return tuple(one for one in found if one.verdict in verdicts)


def _standing_faults(
    session: Session, reader: Reader, rules: tuple[Rule, ...]
) -> tuple[Finding, ...]:
    return standing_faults(_ask(session, reader, rules)) if rules else ()


def _ask(session: Session, reader: Reader, rules: tuple[Rule, ...]) -> tuple[Finding, ...]:
    """What these rules say now."""
    # A field is read only once, so the facts of the session still show the host as it was before
    # the run.
    facts = Facts(reader, session.facts.asked)
    # With `sole` the passes report no leftovers of other rules, which the plan has listed already.
    policy = replace(session.policy, sole=tuple(rule.id for rule in rules))
    again = replace(
        session,
        reader=reader,
        policy=policy,
        journal=read_journal(reader),
        facts=facts,
        selected=rules,
    )
    return again.look(facts)


def _describe_machine(facts: Facts) -> str:
    return read_or_default(lambda: str(facts.host.machine_id_hash), "")


def touched_subjects(rules: Iterable[Rule]) -> frozenset[str]:
    """The fact subjects that the expressions of these rules touch, those that their choices always
    ask for, and the units that their wishes name.
    """
    listed = tuple(rules)
    units = frozenset({"units"} if any(rule.units for rule in listed) else ())
    of_choices = (
        getattr(choice_module(rule.choice), "SUBJECTS", ()) for rule in listed if rule.choice
    )
    return units.union(*(rule.subjects for rule in listed), *of_choices)


def examine(reader: Reader, catalog: Catalog, policy: Policy, *, collect: bool = True) -> Session:
    """Open a session on a host: read the journal, select the rules, start what is slow to collect
    side by side.
    """
    selected = policy.select_rules(catalog)
    asked = RequestedNames(
        units=frozenset[str]().union(*(rule.units for rule in selected)),
        pythons=frozenset(
            str(path)
            for rule in selected
            if (path := policy.params_of(rule, catalog).get("python"))
        ),
    )
    facts = Facts(reader, asked)
    session = Session(reader, catalog, policy, read_journal(reader), facts, selected)
    # else none is slow
    if collect and reader.kind == "live" and isinstance(reader.stat("/run/systemd/system"), Stat):
        facts.prefetch(touched_subjects(selected))
    return session


def open_session(
    *,
    reader: Reader | None = None,
    root: str | None = None,
    host: str | None = None,
    hardware: str | None = None,
    rules: str | None = None,
    policy: str | None = None,
    profile: str | None = None,
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    max_risk: str | None = None,
    disturb: str | None = None,
    again: tuple[str, ...] = (),
) -> Session:
    """Open a session as the command line asks for it; `reader` is the door where the caller holds
    it open already, `rules` a folder of more rules.
    """
    from hosttune.engine.policy.file import load_policy
    from hosttune.engine.rules.catalog import load_catalog
    from hosttune.host import open_reader

    started = time.perf_counter()
    reader = reader or open_reader(root=root, host=host, hardware=hardware)
    catalog = load_catalog(reader, rules)
    chosen = load_policy(reader, catalog, policy).overridden(
        catalog,
        profile=profile,
        select=select,
        ignore=ignore,
        only=only,
        max_risk=max_risk,
        disturb=disturb,
        again=again,
    )
    loaded = time.perf_counter() - started
    session = examine(reader, catalog, chosen)
    session.seconds["rules and policy"] = loaded
    return session


def open_way_back(reader: Reader, tell: Callable[[str], None], **options: Any) -> Session:
    """A session that tells at least what runs have done, also where rules or the policy cannot be
    read: a word too many there must not keep anybody from going back. `tell` hears what cannot be
    read.
    """
    from hosttune.actions.journal.journal import read_journal
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog

    try:
        return open_session(reader=reader, **options)
    except HosttuneError as error:
        first = error.message.partition("\n")[0]  # each fault has a line, and a hint below it
        tell(f"rules and policy are not used: {first}")
        return Session(reader, Catalog({}, {}), Policy(), read_journal(reader), Facts(reader), ())


def examine_everything(reader: Reader, catalog: Catalog, policy: Policy) -> None:
    """Ask a host for all that any rule or fact would ask: every subject, every rule compared. For a
    record of it.
    """
    everything = replace(policy, select=tuple(catalog.rules), ignore=(), waivers=())
    session = examine(reader, catalog, everything)
    for subject in SUBJECTS:
        complete(getattr(session.facts, subject))
    session.plan(prove=False)
    # Once more as the host runs it: a rule that is selected by name can have other defaults, and
    # with them asks for other files.
    examine(reader, catalog, policy).plan(prove=False)
