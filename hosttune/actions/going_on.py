"""`apply --yes --reboot`: a unit that goes on after the boot, written before it and taken away at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.journal import boot_id
from hosttune.actions.ready import keep_state, read_state
from hosttune.engine.ready import ReadyState, Standing
from hosttune.errors import HosttuneError, Refused
from hosttune.host.door import Stat
from hosttune.rendering import render
from hosttune.values import ABSENT, FileValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.host.door import Reader, Writer

UNIT = "hosttune-continue.service"
PATH = f"/etc/systemd/system/{UNIT}"
_SYSTEMCTL_S = 60.0


def require_systemd(reader: Reader) -> None:
    """Raise Refused where nothing could go on after a boot."""
    if not isinstance(reader.stat("/run/systemd/system"), Stat):
        raise Refused("systemd does not run here, so nothing would go on after the boot", hint="leave out --reboot")


def arrange(writer: Writer, words: Iterable[str], approval: str, reasons: Iterable[str], allowed: int) -> None:
    """Write the unit and the note, durably, so that a boot may come; `words` start this program, `allowed` reboots are
    there until the end. Whatever boots this host, the unit goes on.
    """
    text = render("hosttune-continue.service.j2", command=" ".join(map(unit_word, words)))
    present = writer.read(PATH)
    if present is not ABSENT and not isinstance(present, bytes):
        raise HosttuneError(f"{PATH} cannot be read: {present.reason}", hint="look at it as root")
    last, now = read_state(writer), boot_id(writer)
    state = ReadyState(
        Standing.REBOOTING, now, f"reboots for: {'; '.join(reasons)}", at=int(writer.now()), reboots=(now,),
        allowed=allowed, approval=approval,
    )  # fmt: skip
    writer.replace(PATH, FileValue(text.encode(), 0o644), expected=present)
    try:
        # --no-reload: this boot needs nothing of it
        writer.run(("systemctl", "--no-reload", "enable", UNIT), timeout_s=_SYSTEMCTL_S)
        keep_state(writer, state)
    except HosttuneError:
        remove(writer)
        if last is not None:
            keep_state(writer, last)
        raise


def remove(writer: Writer) -> None:
    """Take the unit away again."""
    writer.run(("systemctl", "--no-reload", "disable", UNIT), timeout_s=_SYSTEMCTL_S)
    if isinstance(present := writer.read(PATH), bytes):
        writer.remove(PATH, expected=present)


def unit_word(word: str) -> str:
    """A word of ExecStart= in double quotes, in which every character stands for itself (systemd.service(5), "Command
    lines"). Raises Refused for one that no unit can carry.
    """
    if "\n" in word:
        raise Refused(f"{word!r} holds a line break, which no unit can carry", hint="start hosttune without it")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
