"""`hosttune status`: what this host waits for: a trial, an apply that goes on after a boot, the gate before jobs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from hosttune.cli.options import Option, ShowPlain

EXAMPLES = ("sudo hosttune status", "sudo hosttune status --wait")


def status(
    show: ShowPlain,
    wait: Annotated[bool, Option("--wait", help="Wait until the trial is confirmed or rolled back.")] = False,
) -> int:
    """Show whether jobs may start, and the changes on trial. Of a trial it shows the deadline, what stopped working,
    and what to type to keep it or to undo it. It also shows what `apply --yes --reboot` still has to do.

    Exit status: 0 jobs may start, 1 not yet, 2 trouble. With --wait that of the trial: 0 none, or it was confirmed;
    1 it was rolled back; 2 the rollback failed.
    """
    from hosttune.actions.gate.ready import gate_units, missing_metrics, read_state
    from hosttune.actions.journal.journal import boot_id
    from hosttune.cli.common import open_page, open_screen, open_way_back, require_root, say, write_json
    from hosttune.cli.options import HostOptions
    from hosttune.cli.trial import look_at_trial
    from hosttune.engine.decide.ready import read_outlook, state_to_json
    from hosttune.host import open_reader
    from hosttune.views.masking import mask_data
    from hosttune.views.prometheus import render_metrics
    from hosttune.views.ready import READY_METRICS, status_text

    require_root(["status"])
    reader = open_reader()
    trial = look_at_trial(reader, partial(open_way_back, HostOptions()), wait=wait)
    state, boot = read_state(reader), boot_id(reader)
    now = read_outlook(state, boot, gate_units(reader))
    is_told = state is not None and state.boot_id == boot
    gap = missing_metrics(reader, state, lambda rows: render_metrics(READY_METRICS, rows)) if state and is_told else ""
    if show.is_json:
        kept = state_to_json(state) | {"this_boot": is_told, "metrics": gap} if state else {"format_version": 1}
        more = {"trial": mask_data(trial.to_json())} if trial.is_any else {}
        write_json(kept | {"is_open": now.is_open, "now": now.sentence} | more)
    else:
        text = status_text(state, boot, now, gap, open_screen(show).columns)
        say(f"{text}\n{trial.to_report(open_page(reader, None, show))}" if trial.is_any else text)
    return trial.exit_status if wait else int(not now.is_open)
