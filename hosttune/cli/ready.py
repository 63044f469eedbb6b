"""`hosttune ready`: bring this host to its approved plan at a boot, before it takes work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import DisplayOptions, LookOnly, Option

if TYPE_CHECKING:
    from hosttune.engine.policy import AtBoot
    from hosttune.engine.ready import ReadyState

COMES_S = 180.0  # within which a boot that was asked for ends this process


def ready(
    look: LookOnly,
    show: DisplayOptions,
    go_on: Annotated[
        bool, Option("--go-on", help="Go on with an apply --yes --reboot; what its yes covered is approved.")
    ] = False,
) -> int:
    """Make the plan where it is approved, boot at most once for it, then let work start, or hold it.

    hosttune-ready.service runs it at each boot, before slurmd and the kubelet. Approved is what
    /etc/hosttune/approved says, and at_boot of the policy.

    Exit status: 0 work may start, 1 it is held, 2 trouble, which holds it too.
    """
    from hosttune.actions.ready import begin, keep_state, not_ready, reboot, tell_hooks, write_metrics
    from hosttune.cli import common
    from hosttune.engine.ready import Standing, state_to_json
    from hosttune.errors import HosttuneError
    from hosttune.host import open_writer
    from hosttune.views.prometheus import metrics
    from hosttune.views.ready import READY_METRICS, ready_text

    if look.root or look.host:
        raise HosttuneError("ready is of the running host alone", hint="an image: hosttune apply --root FOLDER --yes")
    common.require_root(["ready", *(["--go-on"] if go_on else [])], look)
    writer = open_writer()
    state = begin(writer)
    if go_on and not state.goes_on:
        common.tell("hosttune: there is nothing to go on with")
        go_on = False
    state, at_boot = _brought(look, state)
    keep_state(writer, state)
    if state.standing is Standing.REBOOTING:
        reboot(writer)
        await_end()
        why = f"the reboot that was asked for did not come within {COMES_S:.0f} s: {state.sentence}"
        state = not_ready(state, at_boot, why)
        keep_state(writer, state)
    if go_on and not state.goes_on:
        from hosttune.actions.going_on import remove

        remove(writer)
    tell_hooks(writer, state, common.progress)
    write_metrics(writer, state, lambda rows: metrics(READY_METRICS, rows))
    if show.is_json:
        common.write_json(state_to_json(state))
    else:
        common.say(ready_text(state))
    return int(state.standing in {Standing.HELD, Standing.STOPPED})


def _brought(look: LookOnly, state: ReadyState) -> tuple[ReadyState, AtBoot]:
    """What became of the host, and what its policy says of a boot; trouble before that is read holds it, as nobody is
    there to whom it could be said.
    """
    from dataclasses import replace

    from hosttune.actions.ready import approvals_of, bring_up, not_ready
    from hosttune.actions.run import open_for_change
    from hosttune.cli import common
    from hosttune.engine.approval import parse_approvals
    from hosttune.engine.policy import AS_APPROVED
    from hosttune.errors import HosttuneError

    at_boot = AS_APPROVED
    try:
        with open_for_change(common.session_options(look), common.progress, resumes=True, waits=False) as (
            session,
            door,
        ):
            at_boot = session.policy.at_boot
            if state.goes_on:
                approvals = parse_approvals(state.approval, "apply --yes --reboot")
            else:
                state = replace(state, allowed=at_boot.allowed)
                approvals = approvals_of(door, at_boot, session.policy.source)
            return bring_up(session, door, state, approvals, common.progress), at_boot
    except HosttuneError as error:
        hint = f" ({error.hint.splitlines()[0]})" if error.hint else ""
        return not_ready(state, at_boot, f"{error.message.splitlines()[0]}{hint}"), at_boot


def await_end() -> None:
    """Systemd ends this process when the boot begins."""
    import time

    time.sleep(COMES_S)
