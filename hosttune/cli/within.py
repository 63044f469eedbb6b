"""A command on a path of data that ends in time, also where a file system below the path is
dead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

_GRACE_S = 10.0  # to sum up what was seen until the budget was spent


def end_within(
    path: str, budget_s: float | None, act: Callable[[], int], *, grace_s: float = _GRACE_S
) -> int:
    """The exit status of `act`. Raises HosttuneError where no file system answers for the path, or
    `act` is held up by one until long after its budget; without a budget, where it does nothing for
    a minute. Where none has a server, and no user can mount one meanwhile, nothing is done but
    `act`.
    """
    from hosttune.cli.ending import run_command
    from hosttune.errors import HosttuneError
    from hosttune.host.apart import run_apart
    from hosttune.host.reading.named import ANSWER_S, can_hang, require_answer, served_mounts

    if not can_hang(path):
        return act()
    try:
        require_answer(path, min(ANSWER_S, budget_s or ANSWER_S))
    except OSError as error:
        hint = "is its server alive? findmnt --target shows the mount that the path is on"
        raise HosttuneError(f"{path}: {error.strerror}", hint=hint) from None
    status = run_apart(
        lambda: run_command(act, debug="--debug" in sys.argv),
        None if budget_s is None else budget_s + grace_s,
    )
    if status is None:
        mounts = served_mounts()
        suspects = ", ".join(mounts[:4]) + (
            f" and {len(mounts) - 4} more" if len(mounts) > 4 else ""
        )
        message = f"{path}: the look did not end in time: a file system does not answer"
        hint = (
            f"one of these has a server that could be dead: {suspects}"
            if mounts
            else "is its disk alive? sudo dmesg"
        )
        raise HosttuneError(message, hint=hint)
    return status
