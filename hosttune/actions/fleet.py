"""Look at what many hosts left behind: results of `check` are read, records are evaluated. Changes
nothing.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from hosttune.actions.examine import examine
from hosttune.engine.decide.plan_class import digest_content, in_common
from hosttune.engine.fleet.choice import LookCollector
from hosttune.engine.fleet.fold import FleetAggregator
from hosttune.engine.fleet.reading import (
    MISSING,
    RECORD,
    changes_in,
    is_record,
    parse_document,
    parse_moment,
    read_document,
)
from hosttune.engine.fleet.seen import (
    HostLook,
    Unread,
    faults_of,
    seen_from_row,
    seen_of_plan,
    seen_to_row,
    shorten_words,
)
from hosttune.engine.policy.effect import without_effect
from hosttune.engine.policy.file import build_policy, load_policy
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import load_catalog
from hosttune.engine.rules.trusted import read_trusted
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import BadInput, HosttuneError
from hosttune.facts.inventory import take_inventory
from hosttune.frozen import frozen
from hosttune.host.reading.gathered import (
    SpoolFile,
    content_of,
    host_of,
    list_files,
    pair_paths,
    received_at,
    stem_of,
)
from hosttune.host.record.record import RecordReader, reader_of
from hosttune.host.support import is_support_file
from hosttune.host.workers import fit_workers, map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.actions.examine import Session
    from hosttune.engine.fleet.choice import Choice
    from hosttune.engine.fleet.values import Fleet, PlanClass
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.errors import Fault
    from hosttune.values import Change

_CLOCKS_S = 300  # that the clock of a host may be before ours
_HEAD = 512  # bytes of a file that tell whether it is a record, as hosttune writes them
# The record of no host: what is in force where a host says nothing.
_NOBODY = {
    "format_version": 1, "kind": RECORD, "tool_version": "", "made_at": 0, "name": "",
    "machine": "", "privileged": True, "persistent_only": False, "listings": {"/": []},
}  # fmt: skip


@frozen
class Ask:
    """By what records are judged: nothing means the policy and the rules that each host has
    itself.
    """

    rules: str | None = None
    policy: str | None = None
    profile: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    debug: bool = False

    @property
    def is_new(self) -> bool:
        """Whether hosts are judged by something else than they were, so that a result of theirs
        says nothing.
        """
        return bool(self.rules or self.policy or self.profile or self.select or self.ignore)


@frozen
class _WorkerLook:
    """One look, by a worker."""

    about: tuple[str, str, str, str]  # host, machine, at, source
    is_alone: bool  # its file tells of no other host
    is_past: bool
    faults: tuple[str, ...]
    row: bytes


def survey_hosts(
    words: Iterable[str], ask: Ask, *, names: int, jobs: int, progress: Callable[[int, int], None]
) -> Fleet:
    """The report on the hosts of these files, folders and lists. `progress` hears of files done and
    files in all.

    Raises HosttuneError when the policy or the rules that are asked for have faults.
    """
    rules = _load_checked_catalog(ask).rules
    fold = FleetAggregator(
        names, frozenset(one.id for one in rules.values() if one.can_fault), frozenset(rules)
    )
    paths: list[str] = []
    for path, why in list_files(words):
        if why:
            fold.miss(Unread(path, why))
        else:
            paths.append(path)
    paths = pair_paths(paths, wants_records=ask.is_new)
    looks: LookCollector[tuple[int, int]] = LookCollector(frozenset(map(stem_of, paths)))
    # On disk and compressed: the looks at a large fleet do not fit into memory, and only those that
    # count are unpacked.
    with closing(SpoolFile()) as scratch:
        for done, found in enumerate(_look_at_paths(paths, ask, jobs), 1):
            for one in found:
                if isinstance(one, Unread):
                    fold.miss(one)
                else:
                    looks.add(
                        *one.about,
                        scratch.add(one.row),
                        of=stem_of(one.about[3]),
                        is_alone=one.is_alone,
                        is_past=one.is_past,
                        faults=one.faults,
                    )
            progress(done, len(paths))
        choice = looks.result()
        # in an order that has nothing to do with what the hosts say (engine/fleet/fold.py tells
        # why)
        for chosen in sorted(
            choice.chosen, key=lambda one: blake2b(one.name.encode(errors="replace")).digest()
        ):
            fold.add(
                _rename_look(seen_from_row(zlib.decompress(scratch.row(chosen.kept))), chosen.name)
            )
    _fold_remarks(fold, choice)
    return fold.result()


def _fold_remarks(fold: FleetAggregator, choice: Choice[tuple[int, int]]) -> None:
    """The notes on looks that do not count, and on whose looks they are."""
    for host in choice.older:
        fold.supersede(host)
    for source, host in choice.refused:
        fold.miss(
            Unread(
                source, f"is said to be of {host}, which another file is about: it does not count"
            )
        )
    for source, at in choice.future:
        why = (
            f"its time, {at}, is in the future: it counts only if there is no other look at its "
            "host"
        )
        fold.miss(Unread(source, why))
    for host, files in choice.disputed:
        fold.dispute(host, files)
    for machine, hosts in choice.shared:
        fold.share(machine, hosts)


def list_changes(
    shown: list[PlanClass], ask: Ask, jobs: int
) -> dict[PlanClass, tuple[Change, ...]]:
    """The changes of each plan that a report named, from the file of the host that it named,
    without what its hosts do not show alike. Empty where the file holds others by now.
    """
    return dict(
        zip(
            shown,
            map_in_order(partial(_changes_of, ask), shown, fit_workers(jobs), lambda *_: ()),
            strict=True,
        )
    )


def _changes_of(ask: Ask, one: PlanClass) -> tuple[Change, ...]:
    content = content_of(one.source)
    data = parse_document(content, one.source) if isinstance(content, bytes) else None
    if not isinstance(data, dict):
        return ()
    try:
        if is_record(data):
            plan = _open_session(RecordReader(data, one.source), ask).plan()
            changes = (
                # The file may have been replaced since the report. Changes of another plan must not
                # be shown under its digest.
                plan.changes if digest_content(map(in_common, plan.changes)) == one.content else ()
            )
        else:
            changes = changes_in(data, one.content)
    except HosttuneError:
        return ()
    # Names of devices and old values of one host would be read as those of all.
    return changes if one.is_uniform else tuple(map(in_common, changes))


def _load_checked_catalog(ask: Ask) -> Catalog:
    """The rules. Raises the faults of what is asked for once, before they are met at every host."""
    no_host = RecordReader(_NOBODY)
    catalog = load_catalog(no_host, ask.rules)
    policy = Policy()
    if ask.policy is not None:
        name, text = read_trusted(no_host, ask.policy, is_local=True, is_required=True)
        policy = build_policy(load_document(text or "", name), catalog, "", "")
    # For its errors only: the policy of each host is overridden when that host is read.
    policy.overridden(catalog, profile=ask.profile, select=ask.select, ignore=ask.ignore)
    return catalog


def _look_at_paths(paths: list[str], ask: Ask, jobs: int) -> Iterator[list[_WorkerLook | Unread]]:
    look = partial(_list_looks, ask)
    if ask.debug:  # a fault shows where it comes from
        return map(look, paths)
    return map_in_order(look, paths, fit_workers(jobs), lambda path, why: [Unread(path, why)])


def _list_looks(ask: Ask, path: str) -> list[_WorkerLook | Unread]:
    # A list, because a worker process cannot hand a generator over.
    return [*_looks_of(path, ask)]


def _looks_of(path: str, ask: Ask) -> Iterator[_WorkerLook | Unread]:
    found = [*_look_at_file(path, ask)]
    is_alone = len({"" if isinstance(one, Unread) else one.host for one in found}) == 1
    # what was not may be on a dead server
    is_read = any(isinstance(one, HostLook) for one in found)
    latest = received_at(path) + _CLOCKS_S if is_read else 0.0
    for look in found:
        one = shorten_words(look)
        if isinstance(one, Unread):
            yield one
        else:
            yield _WorkerLook(
                (one.host, one.machine, one.at, one.source),
                is_alone,
                parse_moment(one.at) <= latest,
                faults_of(one),
                zlib.compress(seen_to_row(one), 1),
            )


def _look_at_file(path: str, ask: Ask) -> Iterator[HostLook | Unread]:
    """What one file says. A fault of hosttune itself counts as one of the file, so that the others
    are not lost.
    """
    content = content_of(path)
    if isinstance(content, str):
        yield Unread(path, content)
        return
    try:
        # By its first bytes: a record has megabytes, and its own reader parses it again.
        if RECORD.encode() in content[:_HEAD] or is_support_file(content):
            yield _evaluate_content(content, path, ask)
            return
        data = parse_document(content, path)
        if isinstance(data, Unread):
            yield data
        elif is_record(data):
            yield _evaluate_content(content, path, ask)
        # that there was no answer holds whatever judges
        elif ask.is_new and data.get("kind") != MISSING:
            why = (
                "is a result of check, which another policy cannot judge: gather records (hosttune "
                "record)"
            )
            yield Unread(path, why)
        else:
            yield from read_document(data, path, stem_of(path))
    except BadInput as error:
        fault = error.faults[0]
        more = f" (and {len(error.faults) - 1} more faults)" if len(error.faults) > 1 else ""
        yield Unread(str(fault.where), fault.message + more)
    except HosttuneError as error:
        yield Unread(path, error.message)
    except MemoryError:  # ends this worker, and only the file is lost
        raise
    except Exception as error:
        if ask.debug:
            raise
        yield Unread(
            path, f"a fault of hosttune itself, please report it: {type(error).__name__}: {error}"
        )


def _evaluate_content(content: bytes, path: str, ask: Ask) -> HostLook:
    reader = reader_of(content, path)
    session = _open_session(reader, ask)
    plan = session.plan()
    # What only repeats the profile would be a remark on each of a thousand hosts.
    idle = without_effect(session.policy, session.catalog, plan.findings, everything=False)
    return seen_of_plan(
        plan,
        host=host_of(path) or str(reader.data["name"]),
        source=path,
        profile=session.policy.profile,
        inventory=take_inventory(session.facts),
        drains=session.policy.drains,
        problems=(*plan.interrupted, *map(_describe_fault, idle)),
    )


def _describe_fault(fault: Fault) -> str:
    """The same for all hosts of which it is true."""
    hint = f" ({fault.hint})" if fault.hint else ""
    return f"{fault.where}: {fault.message}{hint}"


def _open_session(reader: RecordReader, ask: Ask) -> Session:
    catalog = load_catalog(reader, ask.rules)
    policy = load_policy(reader, catalog, ask.policy).overridden(
        catalog, profile=ask.profile, select=ask.select, ignore=ask.ignore
    )
    return examine(reader, catalog, policy)


def _rename_look(seen: HostLook, name: str) -> HostLook:
    from dataclasses import replace

    return seen if seen.host == name else replace(seen, host=name)
