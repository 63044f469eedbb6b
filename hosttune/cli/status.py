"""`hosttune status`: where this host is between its boot and its first job."""

from __future__ import annotations

from hosttune.cli.options import DisplayOptions

EXAMPLES = ("sudo hosttune status",)


def status(show: DisplayOptions) -> int:
    """Show whether the boot gate lets jobs start. It also shows what `apply --yes --reboot` still has to do.

    Exit status: 0 work may start, 1 it is held, or not there yet, 2 trouble.
    """
    from hosttune.actions.journal import boot_id
    from hosttune.actions.ready import gate_units, missing_metrics, read_state
    from hosttune.cli.common import require_root, say, write_json
    from hosttune.engine.ready import read_outlook, state_to_json
    from hosttune.host import open_reader
    from hosttune.views.prometheus import render_metrics
    from hosttune.views.ready import READY_METRICS, status_text

    require_root(["status"])
    reader = open_reader()
    state, boot = read_state(reader), boot_id(reader)
    now = read_outlook(state, boot, gate_units(reader))
    is_told = state is not None and state.boot_id == boot
    gap = missing_metrics(reader, state, lambda rows: render_metrics(READY_METRICS, rows)) if state and is_told else ""
    if show.is_json:
        kept = state_to_json(state) | {"this_boot": is_told, "metrics": gap} if state else {"format_version": 1}
        write_json(kept | {"is_open": now.is_open, "now": now.sentence})
    else:
        say(status_text(state, boot, now, gap))
    return int(not now.is_open)
