"""`hosttune ready`: bring this host to its approved plan at a boot, before it takes work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import DisplayOptions, LookOnly, Option

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.engine.decide.ready import ReadyState
    from hosttune.engine.policy.approval import Approvals
    from hosttune.errors import HosttuneError
    from hosttune.facts.base import UnknownFact
    from hosttune.host.door import Writer

COMES_S = 180.0  # within which a boot that was asked for ends this process


EXAMPLES = ("sudo hosttune ready",)


def ready(
    look: LookOnly,
    show: DisplayOptions,
    go_on: Annotated[
        bool,
        Option(
            "--go-on", help="Go on with an apply --yes --reboot; what its yes covered is approved."
        ),
    ] = False,
) -> int:
    """Apply an approved plan at boot, then let jobs start. It reboots at most once. It holds jobs
    if the plan is not approved.

    hosttune-ready.service runs it at each boot, before slurmd and the kubelet. Approved is what
    /etc/hosttune/approved says, and at_boot of the policy.

    Exit status: 0 work may start, 1 it is held, 2 trouble, which holds it too.
    """
    from dataclasses import asdict

    from hosttune.actions.gate.going_on import remove
    from hosttune.actions.gate.ready import (
        LOCK_S,
        read_state,
        tell_hooks,
        tell_state,
        write_metrics,
    )
    from hosttune.actions.journal.journal import boot_id
    from hosttune.cli import common
    from hosttune.engine.decide.ready import ReadyState, Standing, not_ready, state_to_json
    from hosttune.errors import HosttuneError
    from hosttune.facts.base import UnknownFact
    from hosttune.host import open_writer
    from hosttune.host.masking.cleaned import clean
    from hosttune.host.writing.lock import hold_lock
    from hosttune.views.prometheus import render_metrics
    from hosttune.views.ready import READY_METRICS, ready_text

    if look.root or look.host:
        raise HosttuneError(
            "ready works only on the running host",
            hint="an image: hosttune apply --root FOLDER --yes",
        )
    if (chosen := common.repeated_words(asdict(look))) and not go_on:
        raise HosttuneError(
            f"ready opens this host to work only by its own policy, and {chosen[0]} is of another "
            "one",
            hint="write it into /etc/hosttune/policy.yaml",
        )
    common.require_root(["ready", *(["--go-on"] if go_on else [])], look)
    writer = open_writer()
    now = boot_id(writer)

    def tell_metrics(state: ReadyState) -> None:
        if why := write_metrics(writer, state, lambda rows: render_metrics(READY_METRICS, rows)):
            common.tell(f"hosttune: {why}")

    try:
        with hold_lock(wait_s=LOCK_S):
            last = read_state(writer)
            if go_on and not (last and last.goes_on):
                common.tell("hosttune: there is nothing to go on with")
                remove(writer)
                return 0
            if go_on and last and now in last.reboots:
                common.tell(
                    f"hosttune: the boot after which it goes on has not come yet ({last.sentence})"
                )
                return 1
            state = _bring_to_plan(look, writer, tell_metrics, go_on=go_on)
            if not state.goes_on:
                remove(writer)
    except (HosttuneError, UnknownFact) as error:  # no one is there to read it; what is kept stays
        looked_at = ReadyState(Standing.WORKING, now, clean(""), at=int(writer.now()))
        state = not_ready(looked_at, "hold", sentence_of(error))
        tell_state(writer, state)
    tell_hooks(writer, state, common.progress)
    tell_metrics(state)
    if show.is_json:
        common.write_json(state_to_json(state))
    else:
        common.say(ready_text(state))
    return int(state.standing in {Standing.HELD, Standing.STOPPED})


def _bring_to_plan(
    look: LookOnly, writer: Writer, begins: Callable[[ReadyState], None], *, go_on: bool
) -> ReadyState:
    """Bring the host to its plan, and boot it where that is to be: what became of it, which is
    kept. `begins` hears of it first. The caller holds the lock. Raises HosttuneError where nothing
    can be kept.
    """
    from dataclasses import replace

    from hosttune.actions.gate.ready import (
        approvals_of,
        begin,
        bring_up,
        keep_state,
        reboot,
        require_begun,
    )
    from hosttune.actions.run import open_for_change
    from hosttune.cli import common
    from hosttune.engine.decide.ready import Standing, not_ready
    from hosttune.engine.policy.approval import parse_approvals
    from hosttune.engine.policy.policy import AS_APPROVED
    from hosttune.errors import HosttuneError, Refused
    from hosttune.facts.base import UnknownFact

    on_failure = AS_APPROVED.on_failure
    state = begin(writer)
    begins(state)

    def approvals_in(session: Session) -> Approvals:
        if go_on:
            return parse_approvals(state.approval, "apply --yes --reboot")
        return approvals_of(writer, session.policy.at_boot, session.policy.source)

    def require_agreement(session: Session) -> None:
        require_begun(session, writer, approvals_in(session), goes_on=go_on)

    try:
        options = common.session_options(look)
        with open_for_change(
            options,
            common.progress,
            resumes=True,
            waits=False,
            agreed=require_agreement,
            is_locked=True,
        ) as (session, door):
            on_failure = session.policy.at_boot.on_failure
            if not state.goes_on:
                state = replace(state, allowed=session.policy.at_boot.allowed)
            state = bring_up(
                session, door, state, approvals_in(session), common.progress, goes_on=go_on
            )
        keep_state(writer, state)
        if state.standing is Standing.REBOOTING:
            reboot(writer)
            await_end()
            raise Refused(
                f"the reboot that was asked for did not come within {COMES_S:.0f} s: "
                f"{state.sentence}"
            )
    except (HosttuneError, UnknownFact) as error:
        state = not_ready(state, on_failure, sentence_of(error), goes_on=go_on)
        keep_state(writer, state)
    return state


def sentence_of(error: HosttuneError | UnknownFact) -> str:
    """An error with its way out, on one line."""
    from hosttune.errors import HosttuneError

    if not isinstance(error, HosttuneError):
        return error.reason.splitlines()[0]
    hint = f" ({error.hint.splitlines()[0]})" if error.hint else ""
    return f"{error.message.splitlines()[0]}{hint}"


def await_end() -> None:
    """Systemd ends this process when the boot begins."""
    import time

    time.sleep(COMES_S)
