"""Waiting for another package manager, with a word on who it is: a silent minute looks like a
program that hangs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from hosttune.errors import Refused
from hosttune.facts import apt_get as apt
from hosttune.host.writing.stopping import get_signal
from hosttune.resources.packages.apt_lock import find_holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.host.door import Reader

_EVERY_S: Final = 15


def wait_for_apt(reader: Reader, on_progress: Callable[[str], None]) -> None:
    """Return as soon as no one holds a lock of dpkg or apt. Raises Refused, naming who does, after
    apt.LOCK_WAIT_S.
    """
    if reader.kind != "live":
        return
    for second in range(apt.LOCK_WAIT_S + 1):
        who = find_holder(reader)
        if not who:
            return
        if second == apt.LOCK_WAIT_S:
            message = (
                f"another package manager is at work: {who} holds the lock of apt, after {second} "
                "s still"
            )
            raise Refused(message, hint="no package has changed; when it has ended, run it again")
        # Ctrl-C in this wait is certain to change nothing. Later it would come in the middle of
        # dpkg.
        if get_signal():
            raise Refused(
                f"stopped while {who} held the lock of apt", hint="no package has changed"
            )
        if second % _EVERY_S == 0:
            on_progress(
                f"waiting for {who}, which holds the lock of apt: {apt.LOCK_WAIT_S - second} s at "
                "most"
            )
        time.sleep(1)
