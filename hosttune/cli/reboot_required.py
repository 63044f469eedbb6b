"""`hosttune reboot-required`: whether what is set up waits for a boot, as an exit status."""

from __future__ import annotations

from hosttune.cli.options import LookOnly, ShowPlain

EXAMPLES = ("hosttune reboot-required && echo reboot",)


def reboot_required(look: LookOnly, show: ShowPlain) -> int:
    """Check whether a change waits for a reboot. Changes nothing.

    Exit status: 0 yes, 1 no, 2 not known, or a boot would make things worse, or trouble. So a
    program that acts only on 0 (cloud-init's `power_state: condition`, kured's
    --reboot-sentinel-command) boots no host without need.
    """
    from hosttune.cli.common import open_session, say, write_json
    from hosttune.engine.decide.reboot import reboot_answer
    from hosttune.host.masking.cleaned import clean

    session = open_session(look)
    answer = reboot_answer(session.plan(prove=False).findings, session.selected)
    if show.is_json:
        write_json(
            {"format_version": 1, "required": answer.required, "reasons": list(answer.reasons)}
        )
    else:
        say(f"{answer.head}\n" + "".join(f"  {clean(reason)}\n" for reason in answer.reasons))
    return {True: 0, False: 1, None: 2}[answer.required]
