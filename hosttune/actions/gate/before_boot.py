"""Keep how a host is before a boot that hosttune makes or asks for, for
facts/kernel/after_boot.py.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosttune.actions.journal.journal import boot_id
from hosttune.codec import dump_json, to_json
from hosttune.errors import HosttuneError
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.kernel.after_boot import (
    FORMAT_VERSION,
    PATH,
    KeptStanding,
    kept_before,
    read_signs,
    with_lost,
)
from hosttune.host.in_time import Waiting, in_time
from hosttune.values import ABSENT, FileValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.host.door import Writer

_MOST_S = 60.0  # a dead disk or driver holds no run up


def keep_standing(session: Session, writer: Writer, on_progress: Callable[[str], None]) -> None:
    """Keep it, where this host runs; what cannot be kept is reported, and no run fails for it."""
    # A record or an image is not what boots, and its signs would be held against another machine.
    if writer.kind != "live":
        return
    facts = Facts(writer, session.facts.asked)

    def read() -> bytes:
        before = None
        with suppress(UnknownFact):  # what cannot be understood is written anew
            before = kept_before(writer)
        # A loss that is not solved is carried on. Else the second boot after it would take the host
        # without its GPU for normal.
        standing = with_lost(read_signs(writer, facts), before)
        kept = KeptStanding(FORMAT_VERSION, boot_id(writer), int(writer.now()), standing)
        return dump_json(to_json(kept)).encode()

    answer = in_time({"signs": read}, _MOST_S)["signs"]
    try:
        if isinstance(answer, Waiting):
            raise HosttuneError("the look at it does not end")
        present = writer.read(PATH)
        if present is ABSENT or isinstance(present, bytes):
            writer.replace(PATH, FileValue(answer, 0o600), expected=present)
    except HosttuneError as error:
        on_progress(f"how this host is before the boot was not kept: {error.message}")
