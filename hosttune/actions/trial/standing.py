"""How the host is: looked at before a trial and after its boot, and held against itself
(facts/losses.py).

All is read by a child that can be left behind, because what a broken driver or a dead disk holds
cannot be ended (host/in_time.py). nvidia-smi is asked once in a boot with the time that the largest
hosts need; where it hangs, it is not asked again. Nothing outside the host is asked.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from hosttune.actions.health import ask as ask_health
from hosttune.codec import decode_as, dump_json, read_document, to_json
from hosttune.codec import make_document as headed
from hosttune.engine.decide.health import Fitness
from hosttune.engine.decide.health import judge as judge_health
from hosttune.engine.decide.passes import read_address
from hosttune.facts import Facts, signs
from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.kernel.cmdline import of_kernel
from hosttune.facts.losses import (
    Aspect,
    HostStanding,
    Loss,
    Sign,
    Unseen,
    select_counted,
    select_lasting,
)
from hosttune.facts.network import reached
from hosttune.frozen import frozen
from hosttune.host.in_time import Waiting, in_time
from hosttune.numbers import parse_digits
from hosttune.resources import describe_place
from hosttune.resources.kernel.kernel_argument import has
from hosttune.values import Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.actions.examine import Session
    from hosttune.host.door import Reader
    from hosttune.values import Change, Finding

# persistence off, eight GPUs: more than 25 s each time the driver is opened
FIRST_SMI_S, LATER_SMI_S = 120.0, 30.0
HEALTH_S = 30.0
SETTLE_S = 300.0  # what comes late in a boot has come: the fabric, links, daemons, the clock
POLL_S, FLAP_S = 10.0, 30.0
GRACE_S = 120.0
# What any user can fill or use up degrades a host, and is no loss by a run: no user is to roll a
# trial back.
FILLED_BY_USERS = frozenset({
    "kernel-boot-room", "limits-host-tables", "limits-tasks", "memory-overcommit",
    "storage-scratch",
})  # fmt: skip
# of systemd.automount(5): what is to be mounted there is not, up to the next look
_AUTOMOUNT = "autofs"
_AGAIN = "it cannot be compared with the state before; confirm with --anyway, or undo it"

_Found = Sign | Unseen


@frozen
class Judged:
    """What waiting for a host came to: as before for long enough, or not, and what it has lost."""

    is_healthy: bool
    losses: tuple[Loss, ...]
    seconds: float  # that it took


def read_standing(
    session: Session, before: HostStanding | None = None, *, smi_s: float = FIRST_SMI_S
) -> HostStanding:
    """How the host is now. `before`: what it is to be held against, whose mounts are looked for
    too. `smi_s`: how long nvidia-smi may take to answer. Never raises for what cannot be looked at:
    that is `unseen`.
    """
    reader = session.reader
    facts = Facts(reader, session.facts.asked)
    work: dict[str, Callable[[], Iterator[_Found]]] = {
        Aspect.FAILED_UNIT.value: partial(signs.read_failed_units, reader),
        Aspect.SERVICE.value: partial(signs.read_services, reader),
        Aspect.MOUNT.value: partial(_compare_mounts, facts, before or HostStanding()),
        Aspect.ROUTE.value: partial(signs.read_routes, reader),
        Aspect.ADDRESS.value: partial(signs.read_addresses, reader, facts),
        Aspect.LINK.value: partial(signs.read_links, facts),
        Aspect.RDMA_PORT.value: partial(signs.read_rdma_ports, facts),
        Aspect.SSHD.value: partial(_compare_sshd, reader, before or HostStanding()),
        Aspect.RESOLVER.value: partial(_read_resolver, reader),
        Aspect.GPU.value: partial(signs.read_gpus, reader, facts, smi_s),
        Aspect.DRIVER.value: partial(signs.read_drivers, facts),
        Aspect.CLOCK.value: partial(_read_clock, facts),
    }
    if reader.kind == "live":
        answers = in_time(
            {name: partial(_encode_aspect, Aspect(name), read) for name, read in work.items()},
            smi_s + HEALTH_S,
        )
    else:
        answers = {name: _encode_aspect(Aspect(name), read) for name, read in work.items()}
    found: list[_Found] = []
    for name, answer in answers.items():
        found += (
            _find_late_aspect(Aspect(name), answer)
            if isinstance(answer, Waiting)
            else _decode_answer(answer)
        )
    # The rules of health ask nvidia-smi too, and would hang in the same place.
    if not any(
        isinstance(one, Unseen) and one.aspect is Aspect.GPU and one.is_stuck for one in found
    ):
        found += _read_health(session)
    return HostStanding(
        tuple(one for one in found if isinstance(one, Sign)),
        tuple(one for one in found if isinstance(one, Unseen)),
    )


def read_planned(
    session: Session,
    changes: Iterable[Change],
    arguments: Iterable[str] = (),
    dropped: Iterable[str] = (),
) -> tuple[Sign, ...]:
    """A sign for each planned value that is not in force: what was written and reads otherwise, an
    argument that the running kernel does not have, or still has, and what the rules of these
    changes would still change.

    `arguments` and `dropped`: of the kernel, whose drop-in is not written before the confirmation.
    """
    facts = Facts(session.reader, session.facts.asked)
    found: dict[str, str] = {}
    listed = tuple(changes)
    for one in listed:
        if read_address(one.address, session.reader) != one.after:
            found[str(one.address)] = (
                f"{describe_place(one.address)} is not as it was planned ({one.rule})"
            )
    line = attempt(lambda: of_kernel(facts.kernel.command_line))
    for argument in arguments:
        # Unknown counts as not in force, since a trial may be confirmed only by what was seen.
        if isinstance(line, Unreadable) or not has(line, argument):
            found[argument] = f"{argument} is not among the arguments of the running kernel"
    for argument in dropped:
        if isinstance(line, Unreadable) or argument in line:
            found[argument] = f"{argument} is still among the arguments of the running kernel"
    rules = tuple(sorted({one.rule for one in listed} & set(session.catalog.rules)))
    if rules:
        from hosttune.actions.examine import examine

        again = examine(session.reader, session.catalog, session.policy.only(*rules), collect=False)
        for finding in again.look(again.facts):
            is_of_run = not session.catalog.rules[finding.rule].for_each or _meets_run(
                finding, listed
            )
            if finding.verdict is Verdict.DIFFERS and finding.changes and is_of_run:
                place = f"{finding.rule} {finding.subject}".strip()
                found.setdefault(place, f"{place} is not in force: {finding.reason}")
    return tuple(Sign(Aspect.PLANNED, name, sentence) for name, sentence in found.items())


def _meets_run(finding: Finding, changes: tuple[Change, ...]) -> bool:
    """Whether a run changed something of this subject. What it left as it was may have come free
    since: a user took the job away that held it.
    """
    addresses = {one.address for one in changes}
    names = {part for one in addresses for part in (one.name, *one.name.split("/"))}
    return finding.subject in names or any(one.address in addresses for one in finding.changes)


def standing_text(standing: HostStanding) -> str:
    """The content of before.json."""
    return dump_json(headed(to_json(standing)))


def standing_of(content: str, where: str = "before.json") -> HostStanding:
    """What before.json holds. Raises BadInput for what is none."""
    return read_document(HostStanding, content, where, _AGAIN)


def await_health(
    look: Callable[[float], tuple[Loss, ...]],
    *,
    left_s: Callable[[], float],
    wait: Callable[[float], None],
    now: Callable[[], float],
    grace_s: float = GRACE_S,
) -> Judged:
    """Wait until the host is as before, and stays so for `grace_s`; not healthy where the time is
    up, where a GPU does not answer at all, and where after SETTLE_S two looks FLAP_S apart show the
    same loss.

    `look(smi_s)` gives what is lost now, `left_s()` the seconds up to the deadline, `now()`
    monotonic seconds.
    """
    started = now()
    quiet_since: float | None = None
    found = look(FIRST_SMI_S)
    while True:
        passed, left = now() - started, left_s()
        if any(one.is_final for one in found):
            return Judged(is_healthy=False, losses=select_counted(found), seconds=passed)
        if found:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = now()
        # A service that is restarted every minute is well for a moment, so a single good look
        # confirms nothing.
        if quiet_since is not None and now() - quiet_since >= grace_s:
            return Judged(is_healthy=True, losses=(), seconds=passed)
        if left <= 0:
            return Judged(is_healthy=False, losses=found, seconds=passed)
        is_late = bool(select_counted(found)) and passed >= SETTLE_S
        wait(max(0.0, min(left, FLAP_S if is_late else POLL_S)))
        again = look(LATER_SMI_S)
        if is_late and (kept := select_counted(select_lasting(found, again))):
            return Judged(is_healthy=False, losses=kept, seconds=now() - started)
        found = again


def _encode_aspect(aspect: Aspect, read: Callable[[], Iterator[_Found]]) -> bytes:
    """What one reading says, as JSON; what it cannot say is one of its answers."""
    found: list[_Found] = []
    try:
        found.extend(read())
    except UnknownFact as unknown:
        found.append(Unseen(aspect, unknown.reason))
    except Exception as error:  # noqa: BLE001 - a fault of ours in one reading must not hide what the others found
        found.append(
            Unseen(aspect, f"hosttune itself failed here: {type(error).__name__}: {error}")
        )
    standing = HostStanding(
        tuple(one for one in found if isinstance(one, Sign)),
        tuple(one for one in found if isinstance(one, Unseen)),
    )
    return json.dumps(to_json(standing)).encode()


def _decode_answer(answer: bytes) -> Iterator[_Found]:
    standing = decode_as(HostStanding, json.loads(answer), "the child's answer")
    yield from standing.signs
    yield from standing.unseen


def _find_late_aspect(aspect: Aspect, waiting: Waiting) -> list[_Found]:
    what = waiting.what or "what it asks"
    reason = f"{what} hangs in the kernel" if waiting.stuck else f"{what} has not answered in time"
    several = (aspect, Aspect.FABRIC) if aspect is Aspect.GPU else (aspect, Aspect.BANNER)
    aspects = several if aspect in {Aspect.GPU, Aspect.SSHD} else (aspect,)
    return [
        Unseen(
            one, reason, is_stuck=(waiting.stuck and not waiting.is_of_user) or aspect is Aspect.GPU
        )
        for one in aspects
    ]


def _compare_mounts(facts: Facts, before: HostStanding) -> Iterator[_Found]:
    was = {one.name for one in before.signs if one.aspect is Aspect.MOUNT}
    at = facts.mounts.at
    waiting = [target for target in was if target in at and at[target].fstype == _AUTOMOUNT]
    if waiting:
        for target in waiting:
            facts.reader.list(target)  # who looks has it mounted
        facts = Facts(facts.reader)
    for mount in signs.mounts_of_boot(facts, was):
        if mount.fstype != _AUTOMOUNT:
            yield Sign(Aspect.MOUNT, mount.target, "ro" if mount.is_read_only else "rw")


def _compare_sshd(reader: Reader, before: HostStanding) -> Iterator[_Found]:
    """Each socket, and each of before that these take over."""
    was = dict.fromkeys(one.name for one in before.signs if one.aspect is Aspect.SSHD)
    try:
        sockets = reached.sshd_sockets(
            reader, [parse_digits(one.rpartition(":")[2], 0) for one in was]
        )
    except UnknownFact as unknown:
        yield Unseen(Aspect.SSHD, unknown.reason)
        yield Unseen(Aspect.BANNER, unknown.reason)
        return
    for name in dict.fromkeys(
        (*sockets, *(one for one in was if reached.covers_socket(sockets, one)))
    ):
        yield Sign(Aspect.SSHD, name)
    answering: set[str] = set()
    for name, (address, port) in sockets.items():
        try:
            if reached.has_banner(reader, address, port):
                answering.add(name)
        except UnknownFact as unknown:
            yield Unseen(Aspect.BANNER, unknown.reason, name)
    asked = dict.fromkeys(one.name for one in before.signs if one.aspect is Aspect.BANNER)
    for name in dict.fromkeys(
        (*answering, *(one for one in asked if reached.covers_socket(answering, one)))
    ):
        yield Sign(Aspect.BANNER, name)


def _read_resolver(reader: Reader) -> Iterator[_Found]:
    if reached.has_name_server(reader):
        yield Sign(Aspect.RESOLVER, "")


def _read_clock(facts: Facts) -> Iterator[_Found]:
    if facts.clock.is_synchronized:
        yield Sign(Aspect.CLOCK, "")


def _read_health(session: Session) -> list[_Found]:
    """What `hosttune health` would say; one thing each that keeps the host from being fit."""
    from hosttune.actions.examine import examine
    from hosttune.actions.health import health_rules

    rules = health_rules(session.catalog, session.policy)
    if not rules:
        return []
    asked = examine(session.reader, session.catalog, session.policy.only(*rules), collect=False)
    found: list[_Found] = []
    for point in judge_health(ask_health(asked, HEALTH_S), session.policy.drains).points:
        name = f"{point.rule} {point.subject}".strip()
        if point.fitness is Fitness.UNKNOWN:
            found.append(Unseen(Aspect.HEALTH, point.reason, name))
        elif point.fitness is not Fitness.IMPAIRED or point.rule not in FILLED_BY_USERS:
            found.append(Sign(Aspect.HEALTH, name, point.sentence, point.fitness.rank))
    return found


__all__ = [
    "Judged", "await_health", "read_planned", "read_standing", "standing_of", "standing_text",
]  # fmt: skip
