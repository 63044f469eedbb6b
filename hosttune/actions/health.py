"""Ask the rules that tell whether a host is fit for work, side by side and in time; learn what a
healthy one has.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hosttune import __version__
from hosttune.codec import finding_from_json, finding_to_json
from hosttune.engine.decide.passes import add_reboot_notes, drop_repeated
from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact, get_raw, known_items
from hosttune.facts.baseline import FOLDER, NAME, learn_baseline, why_not_alike, write_learned
from hosttune.facts.gpu.gpus import is_vfio
from hosttune.facts.gpu.ways_out import take_again
from hosttune.host.in_time import Waiting, in_time
from hosttune.host.writing import state
from hosttune.values import Finding, Verdict, join_steps

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.facts import Facts
    from hosttune.facts.baseline import Learned

LONGEST_S = 600.0  # that `--within` takes
BASELINE = "host-baseline"  # the rule that holds a host against what was learned


def health_rules(catalog: Catalog, policy: Policy) -> tuple[str, ...]:
    """The rules that are asked: those of any profile, or selected, that may say that a host does
    not do its work, or does it badly, less those that are off. Which profile tunes a host says
    nothing about what makes it sick.
    """
    offered = {name for profile in catalog.profiles.values() for name in profile.rules} | {
        *policy.select
    }
    wanted = set(policy.sole) or offered
    return tuple(sorted(name for name in wanted - {*policy.ignore} if catalog.tells_health(name)))


def ask(session: Session, seconds: float) -> tuple[Finding, ...]:
    """What the session's rules say. Of the running host, what does not answer within `seconds` is a
    finding: unknown, or a fault where it hangs in the kernel.
    """
    if session.reader.kind != "live":
        # A record answers from memory. Nothing in it can hang, so it needs no child that can be
        # left behind.
        return tuple(_pointing_on(session, one) for one in session.look(session.facts))
    try:
        answers = in_time(
            {rule.id: partial(_answer, session, rule) for rule in session.selected}, seconds
        )
    except OSError as error:
        raise HosttuneError(f"no process could be started: {error.strerror}") from error
    waits = [answer for answer in answers.values() if isinstance(answer, Waiting)]
    found: list[Finding] = []
    for rule in session.selected:
        answer = answers[rule.id]
        if isinstance(answer, Waiting):
            found.append(session.policy.waive(_find_late_rule(rule.id, answer, waits, seconds)))
        else:
            found += map(finding_from_json, json.loads(answer))
    return add_reboot_notes(drop_repeated(found, session.policy))


def name_gpus(session: Session, seconds: float) -> dict[str, tuple[str, str]]:
    """The NVIDIA GPUs on the PCI bus by slot: the name, and what holds it for virtual machines, if
    anything does; none where that is not known within `seconds`.
    """
    # The names are only for a title, and even they may wait for a driver that hangs.
    answer = (
        in_time({"": partial(_list_gpus, session)}, seconds)[""]
        if session.reader.kind == "live"
        else _list_gpus(session)
    )
    gpus = {} if isinstance(answer, Waiting) else json.loads(answer)
    return {slot: (name, holder) for slot, (name, holder) in gpus.items()}


def _list_gpus(session: Session) -> bytes:
    names = {}
    with suppress(UnknownFact):
        gpus = [
            (gpu, str(get_raw(gpu, "driver"))) for gpu in known_items(session.facts.gpus.devices)
        ]
        names = {gpu.slot: (gpu.title, driver if is_vfio(driver) else "") for gpu, driver in gpus}
    return json.dumps(names).encode()


def learn(session: Session, where: str = "") -> Learned:
    """Keep what the session's host has and counts, in place of what was kept. Raises
    HosttuneError.
    """
    try:
        learned = learn_baseline(session.facts, __version__)
    except UnknownFact as unknown:
        raise HosttuneError(
            f"nothing was learned: {unknown.reason}", hint="learn it on the host itself"
        ) from None
    state.save(NAME, write_learned(learned).encode(), where or state.name_folder(FOLDER))
    return learned


def refuse_unlike(session: Session, own: Facts) -> None:
    """Refuse to learn, of a record, what `own`, the host that is to be held against it, cannot
    have.
    """
    reader = session.reader
    if reader.kind == "record" and (found := why_not_alike(session.facts, own)):
        message = (
            f"{reader.name} is not a sibling of this host ({'; '.join(found)}): nothing was learned"
        )
        raise HosttuneError(
            message, hint="learn it on this host itself, or of a record of the same kind of machine"
        )


def _answer(session: Session, rule: Rule) -> bytes:
    alone = replace(session, policy=session.policy.only(rule.id), selected=(rule,))
    try:
        findings = tuple(_pointing_on(session, one) for one in alone.look(session.facts))
    except Exception as error:  # noqa: BLE001 - a fault of ours in one rule must not hide what the others found
        reason = f"hosttune itself failed here: {type(error).__name__}: {error}"
        todo = f"please report it with the output of: hosttune check --only {rule.id} --debug"
        findings = (Finding(rule.id, "", Verdict.UNKNOWN, reason=reason, todo=todo),)
    # As text, because the answer comes out of a child through a pipe.
    return json.dumps([finding_to_json(finding) for finding in findings]).encode()


def _pointing_on(session: Session, finding: Finding) -> Finding:
    """Without the changes that `apply` would make, but with the command that shows them, or why
    there are none. A way out that drains the node goes on to the step that lets it take work again.
    """
    shows = "what apply would do" if finding.changes else "what keeps apply from it"
    todo = (
        f"hosttune plan --only {finding.rule} shows {shows}"
        if finding.verdict is Verdict.DIFFERS
        else ""
    )
    todo = finding.todo or todo
    if "drain" in todo:
        todo = join_steps((todo, take_again(todo, session.facts)))
    return replace(finding, changes=(), todo=todo)


def _find_late_rule(
    rule: str, waiting: Waiting, everybody: list[Waiting], seconds: float
) -> Finding:
    """A rule that has not answered; one that waits for what another asks for names that."""
    # Several rules wait for one dead disk, and only the first that asked can name it.
    first = next((one for one in (waiting, *everybody) if one.what), waiting)
    what = first.what or "what it asks"
    if first.is_of_user:  # no fault of this host, but what is behind it was not seen
        reason = (
            f"{what} hangs in the kernel behind the lock of a folder or file, or a FUSE server, as "
            "a user can hold"
        )
        todo = (
            "end the process of a user that waits for a FUSE server: ps -eo pid,user,wchan:25,args "
            "| grep request_wait"
        )
        return Finding(rule, "", Verdict.UNKNOWN, reason=reason, todo=todo)
    if first.stuck:
        reason = f"{what} hangs in the kernel, where nothing ends it"
        todo = "look into the kernel log for the disk or the driver; only a reboot ends that wait"
        return Finding(rule, "", Verdict.DIFFERS, reason=reason, todo=todo, is_fault=True)
    reason = f"{what} has not answered within {seconds:g} s"
    todo = "look into the kernel log for a slow disk or driver: sudo dmesg --level=err,warn"
    if seconds < LONGEST_S:
        todo = f"give it longer: --within {min(LONGEST_S, 2 * seconds):g}s"
    return Finding(rule, "", Verdict.UNKNOWN, reason=reason, todo=todo)
