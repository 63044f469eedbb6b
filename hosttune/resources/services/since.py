"""Whether hosttune changed something after a moment: what was started before it does not know the
change yet.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.resources.base import Applied

_RUN = regex(r"(\d{8}-\d{6})-\w+")


def applied_since(applied: Applied | None, epoch: float) -> bool:
    """Whether what the journal says was applied after `epoch` (seconds, UTC; 0 where nothing was
    started); the plan in the making always is.
    """
    if applied is None or not epoch:
        return False
    run = _RUN.fullmatch(applied.run_id)
    # Not the form of a run id: it is the plan in the making, whose change no running program can
    # know.
    if run is None:
        return True
    return (
        datetime.strptime(run[1], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).timestamp() >= epoch
    )
