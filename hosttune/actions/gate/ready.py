"""Bring a host to its approved plan at a boot, before it takes work: `hosttune ready`, run by
hosttune-ready.service.

Everything that is decided here is decided in `engine/decide/ready.py`; this is the order of the
acts. What is to happen is noted and synced before it happens, so a power cut between an apply and
its reboot loses nothing: whether a boot is needed comes from the host's state, and how often there
was one, from the note.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.actions.apply import apply, reboot_obstacles, reboot_reasons, require_whole
from hosttune.actions.examine import faults_of, plan_without_users
from hosttune.actions.journal.journal import boot_id
from hosttune.actions.journal.unended import find_half_done
from hosttune.actions.trial.login_notice import show_at_login
from hosttune.codec import dump_json
from hosttune.engine.decide.plan import after_run
from hosttune.engine.decide.ready import (
    CONTINUE,
    GATE,
    GateUnits,
    ReadyState,
    Standing,
    begin_state,
    not_ready,
    parse_state,
    ready_metrics,
    state_to_json,
    why_no_reboot,
    why_not_approved,
    why_not_fit,
    why_not_known,
    why_not_made,
)
from hosttune.engine.policy.approval import PATH, Approvals, parse_approvals
from hosttune.engine.rules.trusted import read_trusted, stranger_of
from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.kernel.after_boot import is_young
from hosttune.facts.processes import is_daemon
from hosttune.facts.reading import hint, require_known
from hosttune.facts.storage.lasting import why_nothing_lasts
from hosttune.facts.work import jobs_of
from hosttune.host.door import Completed, Stat
from hosttune.host.masking.cleaned import clean
from hosttune.host.reading.machine_id import machine_id_hash
from hosttune.resources.packages.apt_lock import find_holder
from hosttune.values import ABSENT, Disturbs, FileValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hosttune.actions.examine import Session
    from hosttune.engine.policy.policy import AtBoot, Policy
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Plan, Receipt

STATE = "/var/lib/hosttune/ready.json"
MOTD = "/run/motd.d/60-hosttune"  # pam_motd(8) shows the files there at each login
HOOKS = "/etc/hosttune/ready.d"
METRICS = "/var/lib/prometheus/node-exporter/hosttune-ready.prom"
# A hook asks a scheduler, which may be down. slurmd and the kubelet wait for the gate, so a hook
# must not hold it.
HOOK_S = 30.0
LOCK_S = 600.0  # for another run to end
QUIET_S = 600.0  # for what a boot would cut off to end
_LOOK_AGAIN_S = 5.0
# the last stage of cloud-init, after multi-user.target: packages and runcmd
_FINAL = "cloud-final.service"
_PROPERTIES = (
    "Id",
    "ActiveState",
    "UnitFileState",
    "RequiredBy",
    "ConditionResult",
    "ConditionTimestampMonotonic",
)
_STARTING = {
    "start", "restart", "try-restart", "reload-or-restart", "try-reload-or-restart", "isolate",
    "default", "--now",
}  # fmt: skip


def read_state(reader: Reader) -> ReadyState | None:
    """What is kept; None where no boot of this machine was looked at: an image holds what its
    builder did. Raises HosttuneError where it cannot be understood.
    """
    name, text = read_trusted(reader, STATE, is_local=False, is_required=False)
    if text is None:
        return None
    state = parse_state(text, name)
    return state if state.machine in {"", identify_machine(reader)} else None


def identify_machine(reader: Reader) -> str:
    """The id of this machine in reports; empty if it has none yet."""
    return machine_id_hash(hint(reader, "/etc/machine-id"))


def keep_state(writer: Writer, state: ReadyState) -> None:
    """Keep it durably, and tell it. The caller holds the lock."""
    put(writer, STATE, dump_json(state_to_json(state)).encode(), 0o600)
    tell_state(writer, state)


def tell_state(writer: Writer, state: ReadyState) -> None:
    """To who logs in, and to the system log."""
    sentence = (
        "" if state.standing is Standing.READY else f"hosttune: {state.standing}: {state.sentence}"
    )
    show_at_login(writer, MOTD, clean(sentence))
    writer.log(clean(f"ready: {state.standing}: {state.sentence}"))


def approvals_of(reader: Reader, at_boot: AtBoot, source: str) -> Approvals:
    """What /etc/hosttune/approved and the policy approve. Raises BadInput with each line that is
    none.
    """
    name, text = read_trusted(reader, PATH, is_local=False, is_required=False)
    found = parse_approvals(text, name) if text is not None else Approvals("")
    return found.with_digests(at_boot.digests, source) if at_boot.digests else found


def require_begun(session: Session, writer: Writer, approvals: Approvals, *, goes_on: bool) -> None:
    """Raise Refused where a run that stopped half-way in a set of packages was of a plan that no
    one approves here: an image may carry what its builder began.
    """
    policy = session.policy.digest_with(session.selected)
    for half in find_half_done(session.journal, writer):
        run = session.journal.run(half.step.id.run)
        is_covered = any(run.digest.startswith(one) for one in approvals.digests) or any(
            policy.startswith(one.policy) for one in approvals.policies
        )
        if not is_covered and (goes_on or session.policy.at_boot.plans != "all"):
            raise Refused(
                f"run {run.id} stopped half-way in a set of packages, and its plan "
                f"{run.digest[:12]} is not approved",
                hint=f"go on with it: sudo hosttune apply --yes, or approve {run.digest[:12]}",
            )


def _is_part_of_approved(session: Session, plan: Plan, approvals: Approvals) -> bool:
    """Whether it lacks only changes of an approved plan that words of users hold: they keep no host
    out of its work.
    """
    whole = plan_without_users(session)
    # Whole changes are compared: a user may hold one back by a crontab, and must not be able to
    # alter what root makes.
    return approvals.covers(whole) and all(change in whole.changes for change in plan.changes)


def bring_up(
    session: Session,
    writer: Writer,
    state: ReadyState,
    approvals: Approvals,
    on_progress: Callable[[str], None],
    *,
    goes_on: bool = False,
) -> ReadyState:
    """Make the plan where it is approved, and say what is to happen then. The caller holds the
    lock, and acts. `goes_on`: for an `apply --yes --reboot`, whose yes covers its boots.
    """
    session = await_late(session, on_progress)
    at_boot, plan = session.policy.at_boot, session.plan()
    state = replace(state, digest=plan.digest)

    def no(why: str) -> ReadyState:
        return not_ready(state, at_boot.on_failure, why, goes_on=goes_on)

    if (
        why := why_not_approved(plan, approvals, "yes" if goes_on else at_boot.plans)
    ) and not _is_part_of_approved(session, plan, approvals):
        return no(why)
    receipt = apply(session, writer, plan, on_progress=on_progress, part_of=state.run)
    require_whole(receipt)  # the next boot looks anew
    run = state.run or receipt.part_of or receipt.run_id
    if why := why_not_made(receipt):
        return no(why)
    # Whatever was changed, the host is looked at as it is now: a driver may have lost its GPU on
    # the way.
    faults = receipt.faults or (faults_of(session, writer) if plan.changes else ())
    findings = after_run(plan.findings, faults)
    # What waits is in force after a boot: for work to end, for services to start anew, for a
    # manager that is starting.
    waiting = receipt.waiting
    reasons = tuple(dict.fromkeys((*receipt.reboot_reasons, *reboot_reasons(findings), *waiting)))
    if goes_on and reasons == waiting and len(state.reboots) >= state.allowed:
        reasons = ()  # its boots are over, and it holds nothing: that still waits is reported
    if reasons:
        allowed = state.allowed if goes_on else at_boot.allowed
        if why := _why_no_reboot(session, state, receipt, reasons, allowed, on_progress):
            return no(why)
        sentence = clean(f"reboots for: {'; '.join(reasons)}")
        reboots = (*state.reboots, state.boot_id)
        return replace(
            state, standing=Standing.REBOOTING, sentence=sentence, reboots=reboots, run=run
        )
    made = f"{len(plan.changes)} made now" if plan.changes else "nothing had to be changed"
    boots = (
        f", after {len(state.reboots)} reboot{'s' * (len(state.reboots) > 1)}"
        if state.reboots
        else ""
    )
    # they brought what they were for: the next change may have its own
    state = replace(state, reboots=())
    # A known fault comes before what is unknown: it is the better sentence for the person who logs
    # in.
    if why := why_not_fit(findings, session.policy.drains):
        return no(f"it does not do its work: {why}")
    if why := why_not_known(findings, session.selected, session.policy.drains):
        return no(f"it is not known whether it is as its plan says, and does its work: {why}")
    left = f"; in force after a boot: {'; '.join(waiting)}" if waiting else ""
    sentence = clean(f"as its plan says; {made}{boots}{left}")
    return replace(state, standing=Standing.READY, sentence=sentence, approval="", run="")


def await_late(session: Session, on_progress: Callable[[str], None]) -> Session:
    """Wait, bounded, for what this boot may still bring of what was there before it; the session as
    it is then.
    """
    is_announced = False
    while True:
        try:
            # A field is read when it is touched, and raises while the boot is too young to decide.
            _ = session.facts.after_boot.lost, session.facts.after_boot.failed
        except UnknownFact as unknown:
            if not is_young(session.reader):
                return session
            if not is_announced:
                on_progress(f"waiting, because {unknown.reason}")
                is_announced = True
            time.sleep(_LOOK_AGAIN_S)
            # A fact keeps its first answer, also the one that it is unknown.
            session = replace(session, facts=Facts(session.reader, session.facts.asked))
        else:
            return session


def _why_no_reboot(
    session: Session,
    state: ReadyState,
    receipt: Receipt,
    reasons: tuple[str, ...],
    allowed: int,
    on_progress: Callable[[str], None],
) -> str:
    reader = session.reader
    obstacles = list(receipt.reboot_obstacles) or list(reboot_obstacles(receipt.faults))
    obstacles += list_jobs(reader, session.policy)

    def why() -> str:
        return why_no_reboot(
            state,
            reasons,
            obstacles,
            allowed=allowed,
            is_boot=is_booting(reader),
            volatile=why_nothing_lasts(session.facts),
        )

    # The wait of up to ten minutes comes last: where a reboot is refused anyway, nothing has to end
    # for it.
    if not why():
        obstacles += await_quiet(reader, on_progress)
    return why()


def list_jobs(reader: Reader, policy: Policy) -> tuple[str, ...]:
    """What runs on the GPUs, and jobs of a scheduler, as far as that is known: no one waits for
    their end. None where the policy, or someone's --disturb, says that they may be disturbed.
    """
    if policy.disturb >= Disturbs.GPU_WORK:
        return ()
    try:
        work = Facts(reader).work
        if work.is_gpu_busy:
            return work.evidence
        processes = require_known(reader.processes(), "the list of processes")
    except UnknownFact as unreadable:
        return (f"it is not known what runs on the GPUs: {unreadable.reason}",)
    return tuple(f"{one} runs here" for one in jobs_of(processes))


def at_work(reader: Reader) -> Iterator[str]:
    """What a boot would cut off and that ends in a while, each a sentence."""
    if user := find_holder(reader):
        yield f"{user} is at work with packages"
    answer = reader.query(("systemctl", "show", _FINAL, "--property=ActiveState", "--value"))
    if isinstance(answer, Completed) and answer.text.strip() == "activating":
        yield f"cloud-init is at work ({_FINAL})"


def await_quiet(reader: Reader, on_progress: Callable[[str], None]) -> tuple[str, ...]:
    """Wait, bounded, until nothing is at work that a boot would cut off; what is left of it. No one
    waits for what waits for a unit to start, for that may be the gate: apt, or a runcmd, which
    starts slurmd.
    """
    end = time.monotonic() + QUIET_S
    is_announced = False
    while (busy := tuple(at_work(reader))) and not _starts_units(reader) and time.monotonic() < end:
        if not is_announced:
            on_progress(f"waiting until a reboot cuts nothing off: {'; '.join(busy)}")
            is_announced = True
        time.sleep(_LOOK_AGAIN_S)
    return busy


def _starts_units(reader: Reader) -> bool:
    processes = reader.processes()
    commands = (
        (one.command for one in processes if is_daemon(one, ("systemctl",)))
        if isinstance(processes, tuple)
        else ()
    )
    return any(_STARTING & set(command[1:]) and "--no-block" not in command for command in commands)


def gate_units(reader: Reader) -> GateUnits:
    """The gate as systemd has it in this boot (org.freedesktop.systemd1(5)). Raises HosttuneError
    where that runs and does not answer.
    """
    if not isinstance(reader.stat("/run/systemd/system"), Stat):
        return GateUnits()
    answer = reader.query(
        ("systemctl", "show", GATE, CONTINUE, f"--property={','.join(_PROPERTIES)}")
    )
    shown = answer.text.split("\n\n") if isinstance(answer, Completed) and not answer.status else []
    units = {
        one.get("Id"): one
        for one in (dict(line.partition("=")[::2] for line in each.splitlines()) for each in shown)
    }
    if not {GATE, CONTINUE} <= units.keys():
        raise HosttuneError(
            f"systemd does not report the state of {GATE}",
            hint="try it: systemctl status hosttune-ready",
        )
    gate, goes_on = units[GATE], units[CONTINUE]
    # ConditionResult is `no` also for a unit that was never started in this boot. Only its time
    # differs.
    is_asked = gate.get("ConditionTimestampMonotonic", "0") != "0"
    return GateUnits(
        # A unit that is not enabled holds work too, where a drop-in of slurmd requires it.
        holds=gate.get("UnitFileState", "").startswith("enabled") or bool(gate.get("RequiredBy")),
        is_open=gate.get("ActiveState") == "active",
        has_failed=gate.get("ActiveState") == "failed",
        is_left_out=is_asked and gate.get("ConditionResult") == "no",
        is_running=any(one.get("ActiveState") == "activating" for one in (gate, goes_on)),
        goes_on=goes_on.get("UnitFileState") == "enabled",
    )


def is_booting(reader: Reader) -> bool:
    """Whether this host is still starting up (systemctl(1), is-system-running): no one works on it
    yet.
    """
    answer = reader.query(("systemctl", "is-system-running"))
    return isinstance(answer, Completed) and answer.stdout.strip() in {b"initializing", b"starting"}


def begin(writer: Writer) -> ReadyState:
    """Note that this boot is looked at. The caller holds the lock."""
    state = begin_state(
        read_state(writer), boot_id(writer), int(writer.now()), identify_machine(writer)
    )
    keep_state(writer, state)
    return state


def reboot(writer: Writer) -> None:
    """Ask systemd for it. `systemctl reboot` returns at once; the boot ends this process."""
    writer.run(("systemctl", "reboot"), timeout_s=30.0)


def tell_hooks(writer: Writer, state: ReadyState, on_progress: Callable[[str], None]) -> None:
    """Run the programs of /etc/hosttune/ready.d, by name: `join` where work may come, else `leave`,
    and the sentence. One that fails is reported and changes nothing; one that others than root can
    write is not run.
    """
    names = writer.list(HOOKS)
    word = "join" if state.standing in {Standing.READY, Standing.LET_GO} else "leave"
    for name in sorted(names) if isinstance(names, tuple) else ():
        path = f"{HOOKS}/{name}"
        stat = writer.stat(path)
        if not isinstance(stat, Stat) or not _is_hook(name, stat):
            continue
        # Root runs it, so neither the file nor a folder above it may be one that others can write.
        if stranger := (
            "others can write it" if stat.uid or stat.mode & 0o022 else stranger_of(writer, path)
        ):
            on_progress(f"{path} is not run, because {stranger}")
            continue
        try:
            writer.run((path, word, state.sentence), timeout_s=HOOK_S)
        except HosttuneError as error:
            on_progress(f"{path} {word}: {error.message}")
            writer.log(clean(f"ready: {path} {word}: {error.message.splitlines()[0]}"))


def write_metrics(writer: Writer, state: ReadyState, render: Callable[..., str]) -> str:
    """For node_exporter's textfile collector, where its folder is there. Why they were not written,
    a sentence; empty where they were, or they are not read. What cannot be written anew is removed:
    it would be of another boot, and be believed.
    """
    if not isinstance(writer.stat(METRICS.rpartition("/")[0]), Stat):
        return ""
    try:
        writer.publish(METRICS, FileValue(render(ready_metrics(state)).encode()))
    except HosttuneError as error:  # a full disk holds no host back
        with suppress(HosttuneError):
            writer.publish(METRICS, ABSENT)
        return f"the metrics were not written: {error.message}"
    return ""


def missing_metrics(reader: Reader, state: ReadyState, render: Callable[..., str]) -> str:
    """A sentence where the metrics of this state are not where node_exporter looks for them; else
    nothing.
    """
    present = reader.read(METRICS)
    is_read = isinstance(reader.stat(METRICS.rpartition("/")[0]), Stat)
    if not is_read or present == render(ready_metrics(state)).encode():
        return ""
    return f"{METRICS} does not hold this: journalctl --boot --unit=hosttune-ready says why"


def _is_hook(name: str, stat: Stat) -> bool:
    """As run-parts(8) chooses, without --regex."""
    is_named = bool(name) and all(one.isascii() and (one.isalnum() or one in "_-") for one in name)
    return is_named and stat.type == "file" and bool(stat.mode & 0o100)


def put(writer: Writer, path: str, content: bytes, mode: int) -> None:
    """Write a file of ours whole. Raises HosttuneError."""
    present = writer.read(path)
    if present is not ABSENT and not isinstance(present, bytes):
        raise HosttuneError(
            f"{path} cannot be read: {present.reason}", hint="look at its folder as root"
        )
    # An equal file is left in place: a replacement is synced, which takes its time on a disk that
    # is just starting up.
    if present != content:
        writer.replace(path, FileValue(content, mode), expected=present)
