"""Bring a host to its approved plan at a boot, before it takes work: `hosttune ready`, run by hosttune-ready.service.

Everything that is decided here is decided in `engine/ready.py`; this is the order of the acts. What is to happen is
noted and synced before it happens, so a power cut between an apply and its reboot loses nothing: whether a boot is
needed comes from the host's state, and how often there was one, from the note.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.actions.apply import apply, reboot_obstacles, reboot_reasons
from hosttune.actions.journal import boot_id
from hosttune.actions.login_notice import show_at_login
from hosttune.codec import dumps
from hosttune.engine.approval import PATH, Approvals, parse_approvals
from hosttune.engine.plan import after_run
from hosttune.engine.ready import (
    ReadyState,
    Standing,
    begun,
    ready_metrics,
    refusal,
    state_from_json,
    state_to_json,
    unfit,
    unmade,
    why_no_reboot,
)
from hosttune.engine.trusted import read_trusted, stranger_of
from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed, Stat
from hosttune.resources.packages.apt_lock import holder
from hosttune.values import ABSENT, FileValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.engine.policy import AtBoot
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Receipt

STATE = "/var/lib/hosttune/ready.json"
MOTD = "/run/motd.d/60-hosttune"  # pam_motd(8) shows the files there at each login
HOOKS = "/etc/hosttune/ready.d"
METRICS = "/var/lib/prometheus/node-exporter/hosttune-ready.prom"
HOOK_S = 30.0
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "rootfs", "overlay", "aufs"})


def read_state(reader: Reader) -> ReadyState | None:
    """What is kept; None where no boot was looked at. Raises HosttuneError where it cannot be understood."""
    name, text = read_trusted(reader, STATE, is_local=False, is_required=False)
    if text is None:
        return None
    try:
        return state_from_json(json.loads(text), name)
    except ValueError as error:
        raise HosttuneError(f"{name}: is no JSON: {error}", hint=f"remove it: sudo rm {name}") from error


def keep_state(writer: Writer, state: ReadyState) -> None:
    """Keep it durably, tell it to who logs in, and to Prometheus where its folder is there."""
    _put(writer, STATE, dumps(state_to_json(state)), 0o600)
    told = "" if state.standing is Standing.READY else f"hosttune: {state.standing}: {state.sentence}"
    show_at_login(writer, MOTD, told)
    writer.log(f"ready: {state.standing}: {state.sentence}")


def approvals_of(reader: Reader, at_boot: AtBoot, source: str) -> Approvals:
    """What /etc/hosttune/approved and the policy approve. Raises BadInput with each line that is none."""
    name, text = read_trusted(reader, PATH, is_local=False, is_required=False)
    found = parse_approvals(text, name) if text is not None else Approvals("")
    return found.with_digests(at_boot.digests, source) if at_boot.digests else found


def bring_up(
    session: Session, writer: Writer, state: ReadyState, approvals: Approvals, on_progress: Callable[[str], None]
) -> ReadyState:
    """Make the plan where it is approved, and say what is to happen then. The caller holds the lock, and acts."""
    at_boot, plan = session.policy.at_boot, session.plan()
    state = replace(state, digest=plan.digest)
    if why := refusal(plan, approvals, at_boot, session.policy.edition):
        return not_ready(state, at_boot, why)
    receipt = apply(session, writer, plan, on_progress=on_progress)
    if why := unmade(receipt):
        return not_ready(state, at_boot, why)
    findings = after_run(plan.findings, receipt.faults)
    if reasons := tuple(dict.fromkeys((*receipt.reboot_reasons, *reboot_reasons(findings)))):
        return _after_reboot(session, state, receipt, reasons)
    if why := unfit(findings, session.policy.drains):
        return not_ready(state, at_boot, f"it does not do its work: {why}")
    made = f"{len(plan.changes)} made now" if plan.changes else "nothing had to be changed"
    boots = f", after {len(state.reboots)} reboot{'s' * (len(state.reboots) > 1)}" if state.reboots else ""
    sentence = f"as its plan says; {made}{boots}"
    return replace(state, standing=Standing.READY, sentence=sentence, reboots=(), approval="")


def not_ready(state: ReadyState, at_boot: AtBoot, why: str) -> ReadyState:
    """The host is not as it should be; the policy says whether work starts on it. What went on after a boot ends."""
    if state.goes_on:
        return replace(state, standing=Standing.STOPPED, sentence=why, reboots=(), approval="")
    standing = Standing.LET_GO if at_boot.on_failure == "go" else Standing.HELD
    return replace(state, standing=standing, sentence=why)


def _after_reboot(session: Session, state: ReadyState, receipt: Receipt, reasons: tuple[str, ...]) -> ReadyState:
    reader, at_boot = session.reader, session.policy.at_boot
    obstacles = list(receipt.reboot_obstacles) or list(reboot_obstacles(receipt.faults))
    if user := holder(reader):
        obstacles.append(f"{user} is at work with packages")
    why = why_no_reboot(
        state,
        reasons,
        obstacles,
        may=state.goes_on or bool(at_boot.allowed),
        is_boot=state.goes_on or is_booting(reader),
        volatile=volatile_root(session),
    )
    if why:
        return not_ready(state, at_boot, why)
    sentence = f"reboots for: {'; '.join(reasons)}"
    return replace(state, standing=Standing.REBOOTING, sentence=sentence, reboots=(*state.reboots, state.boot_id))


def is_booting(reader: Reader) -> bool:
    """Whether this host is still starting up (systemctl(1), is-system-running): nobody works on it yet."""
    answer = reader.query(("systemctl", "is-system-running"))
    return isinstance(answer, Completed) and answer.stdout.strip() in {b"initializing", b"starting"}


def volatile_root(session: Session) -> str:
    """Why a change would not last over a boot, or that nobody can tell; nothing where it does."""
    try:
        fstype = session.facts.mounts.root.fstype
    except UnknownFact as unknown:
        return f"it is not known what / is: {unknown.reason}"
    return f"/ is {fstype}" if fstype in _IN_MEMORY else ""


def begin(writer: Writer) -> ReadyState:
    """Note that this boot is looked at."""
    state = begun(read_state(writer), boot_id(writer), int(writer.now()))
    keep_state(writer, state)
    return state


def reboot(writer: Writer) -> None:
    """Ask systemd for it. `systemctl reboot` returns at once; the boot ends this process."""
    writer.run(("systemctl", "reboot"), timeout_s=30.0)


def tell_hooks(writer: Writer, state: ReadyState, on_progress: Callable[[str], None]) -> None:
    """Run the programs of /etc/hosttune/ready.d, by name: `join` where work may come, else `leave`, and the sentence.
    One that fails is told and changes nothing; one that others than root can write is not run.
    """
    names = writer.list(HOOKS)
    word = "join" if state.standing in {Standing.READY, Standing.LET_GO} else "leave"
    for name in sorted(names) if isinstance(names, tuple) else ():
        path = f"{HOOKS}/{name}"
        stat = writer.stat(path)
        if not isinstance(stat, Stat) or not _is_hook(name, stat):
            continue
        if stranger := ("others can write it" if stat.uid or stat.mode & 0o022 else stranger_of(writer, path)):
            on_progress(f"{path} is not run, because {stranger}")
            continue
        try:
            writer.run((path, word, state.sentence), timeout_s=HOOK_S)
        except HosttuneError as error:
            on_progress(f"{path} {word}: {error.message}")
            writer.log(f"ready: {path} {word}: {error.message.splitlines()[0]}")


def write_metrics(writer: Writer, state: ReadyState, render: Callable[..., str]) -> None:
    """For node_exporter's textfile collector, where its folder is there."""
    if isinstance(writer.stat(METRICS.rpartition("/")[0]), Stat):
        with suppress(HosttuneError):  # a full disk holds no host back
            _put(writer, METRICS, render(ready_metrics(state)), 0o644)


def _is_hook(name: str, stat: Stat) -> bool:
    """As run-parts(8) chooses, without --regex."""
    is_named = bool(name) and all(one.isascii() and (one.isalnum() or one in "_-") for one in name)
    return is_named and stat.type == "file" and bool(stat.mode & 0o100)


def _put(writer: Writer, path: str, text: str, mode: int) -> None:
    present = writer.read(path)
    if present is not ABSENT and not isinstance(present, bytes):
        raise HosttuneError(f"{path} cannot be read: {present.reason}", hint="look at its folder as root")
    if present != text.encode():
        writer.replace(path, FileValue(text.encode(), mode), expected=present)
