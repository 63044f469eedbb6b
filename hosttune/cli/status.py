"""`hosttune status`: where this host stands between its boot and its first job."""

from __future__ import annotations

from hosttune.cli.options import DisplayOptions


def status(show: DisplayOptions) -> int:
    """Say what `hosttune ready` made of this boot, and what an apply --yes --reboot still has before it.

    Exit status: 0 work may start, 1 it is held, or not there yet, 2 trouble.
    """
    from hosttune.actions.journal import boot_id
    from hosttune.actions.ready import read_state
    from hosttune.cli.common import require_root, say, write_json
    from hosttune.engine.ready import Standing, state_to_json
    from hosttune.host import open_reader
    from hosttune.views.ready import status_text

    require_root(["status"])
    reader = open_reader()
    state, now = read_state(reader), boot_id(reader)
    if show.is_json:
        write_json(state_to_json(state) | {"this_boot": state.boot_id == now} if state else {"format_version": 1})
    else:
        say(status_text(state, now))
    is_open = state is None or (state.standing in {Standing.READY, Standing.LET_GO} and state.boot_id == now)
    return int(not is_open)
