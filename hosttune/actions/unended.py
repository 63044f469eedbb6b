"""Sets of packages at which a run stopped half-way: a transaction of apt is many acts, and one that was cut off has
left a driver that is there in part.

The journal knows where each was to lead. `check` and `plan` say so as long as it is so; `apply` goes on with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.actions.apt_wait import wait_for_apt
from hosttune.actions.journal import Recorder
from hosttune.engine.plan import unannounced
from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.frozen import frozen
from hosttune.resources.driver_use import as_of_now
from hosttune.resources.package_repair import mend
from hosttune.resources.package_set import PackageSetAddress, half_of, names_of, versions, was_interrupted
from hosttune.values import Finding, Outcome, Phase, Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.actions.journal import Journal, Step, StepId
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.rule import Rule
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change

_SET = PackageSetAddress()


@frozen
class Half:
    """A step that stopped half-way, and where it was to lead."""

    step: Step
    planned: Change

    @property
    def is_undo(self) -> bool:
        return self.step.undoes is not None


def half_way(journal: Journal, reader: Reader) -> tuple[Half, ...]:
    """The sets that stand as a run left them half-way, oldest first. One that somebody has changed since is theirs,
    unless dpkg still has packages of it half-way.
    """
    in_force = {step.id for step in journal.in_force}
    last: dict[StepId, Step] = {}  # by the step in force: itself, or what was to take it back and has not
    for step in (step for run in journal.runs for step in run.steps):
        is_of_set = step.change.address.kind == _SET.kind and (step.undoes or step.id) in in_force
        if is_of_set and (step.undoes is None or step.left or step.phase is Phase.INTENT):
            last[step.undoes or step.id] = step
    found = []
    for step in last.values():
        is_open = step.phase is Phase.INTENT
        if not (is_open or step.left) or (step.undoes is None and not is_open and step.planned is None):
            continue
        planned = step.planned or step.change
        present = _SET.read(reader, planned.address.name)
        if isinstance(present, Unreadable) or _SET.same(present, planned.after):
            continue
        is_begun = not _SET.same(present, planned.before)
        is_as_left = is_begun if is_open else _SET.same(present, (step.left or step.change).after)
        if is_as_left or is_half(planned, reader):
            found.append(Half(step, planned))
    return tuple(found)


def is_half(change: Change, reader: Reader) -> bool:
    """Whether dpkg has more to do with a package of this set."""
    names = set(names_of(change.address.name))
    return any(one.name in names for one in Facts(reader).packages.unfinished)


def unended(journal: Journal, reader: Reader, catalog: Catalog, selected: Iterable[Rule]) -> tuple[Finding, ...]:
    """A finding for each of them, under its rule."""
    rules = {rule.id for rule in selected}
    found = []
    for half in half_way(journal, reader):
        if (rule := catalog.current(half.step.change.rule)) not in rules:
            continue
        present = _SET.read(reader, half.planned.address.name)
        there, unfinished = versions(present), half_of(present)
        wanted = versions(half.planned.after)
        names = {*wanted, *versions(half.planned.before)}
        done = sum(there.get(name) == wanted.get(name) and name not in unfinished for name in names)
        run, what = half.step.id.run, "the way back" if half.is_undo else "the transaction"
        reason = f"{what} of run {run} stopped half-way: {done} of {len(names)} packages are as planned"
        todo = "sudo hosttune undo --yes goes on with it" if half.is_undo else (
            f"sudo hosttune apply --yes goes on with it; or take it back: sudo hosttune undo {run}"
        )  # fmt: skip
        found.append(Finding(rule, "packages", Verdict.DIFFERS, reason=reason, todo=todo))
    return tuple(found)


def resume(
    writer: Writer, journal: Journal, rules: frozenset[str], on_progress: Callable[[str], None]
) -> tuple[tuple[Outcome, ...], str]:
    """Go on with every set that an apply left half-way, to where it was to lead; what an undo left is only made whole,
    for the plan that follows decides. Returns what became of them, and the last run that was gone on with.
    """
    outcomes, last = [], ""
    for half in half_way(journal, writer):
        run = half.step.id.run
        names = names_of(half.planned.address.name)
        if half.is_undo or half.planned.rule not in rules:
            if is_half(half.planned, writer) or was_interrupted(writer):
                on_progress(f"configuring what run {run} left half-way")
                mend(writer, names)
            continue
        on_progress(f"going on with run {run}, which stopped half-way: {half.planned.address}")
        outcomes.append(_completed(half, writer, journal, on_progress))
        last = run
    return tuple(outcomes), last


def _completed(half: Half, writer: Writer, journal: Journal, on_progress: Callable[[str], None]) -> Outcome:
    step, planned = half.step, half.planned
    recorder = Recorder(writer, journal.run(step.id.run))
    try:
        wait_for_apt(writer, on_progress)
        facts = Facts(writer)
        if running := unannounced(as_of_now(planned, facts), facts):
            raise Refused(
                f"it would disturb what runs now: {'; '.join(running)}", hint="drain the host, then apply again"
            )
        _SET.complete(writer, planned)
    except (HosttuneError, UnknownFact) as error:
        message, hint = (error.message, error.hint) if isinstance(error, HosttuneError) else (str(error), "")
        present = _SET.read(writer, planned.address.name)
        if not isinstance(present, Unreadable):
            recorder.done(step.id, message, replace(planned, after=present))
        return Outcome(planned, Phase.FAILED, message, hint)
    recorder.done(step.id, "", planned)
    writer.log(f"run {step.id.run}, which had stopped half-way, was gone on with to the end: {planned.address}")
    return Outcome(planned, Phase.DONE)
