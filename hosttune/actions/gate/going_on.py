"""`apply --yes --reboot`: a unit that goes on after the boot, written before it and taken away at
the end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosttune.actions.gate.ready import MOTD, STATE, identify_machine, keep_state, put, read_state
from hosttune.actions.journal.journal import boot_id
from hosttune.actions.trial.login_notice import show_at_login
from hosttune.engine.decide.ready import CONTINUE, ReadyState, Standing
from hosttune.engine.rules.trusted import strange_program
from hosttune.errors import HosttuneError, Refused
from hosttune.host.console import find_archive, load_bytes, starting_words
from hosttune.host.door import Stat
from hosttune.host.masking.cleaned import clean
from hosttune.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.host.door import Reader, Writer

PATH = f"/etc/systemd/system/{CONTINUE}"
CARRIED = "/var/lib/hosttune/continue.pyz"
_SYSTEMCTL_S = 60.0


def require_systemd(reader: Reader) -> None:
    """Raise Refused where nothing could go on after a boot."""
    if not isinstance(reader.stat("/run/systemd/system"), Stat):
        raise Refused(
            "systemd does not run here, so nothing would go on after the boot",
            hint="leave out --reboot",
        )


def require_own(reader: Reader) -> None:
    """Raise Refused where root would start at the boot what others could have written until
    then.
    """
    if why := strange_program(reader, CARRIED):
        raise Refused(why, hint="install the package, start hosttune.pyz, or leave out --reboot")


def arrange_going_on(
    writer: Writer,
    words: Iterable[str],
    approval: str,
    reasons: Iterable[str],
    allowed: int,
    run: str = "",
) -> None:
    """Write the unit and the note, durably, so that a boot may come; `words` are for this program,
    `allowed` reboots are there until the end of what `run` began. Whatever boots this host, the
    unit goes on. The caller holds the lock.
    """
    text = render(
        "hosttune-continue.service.j2",
        command=" ".join(map(unit_word, (*starting_words(CARRIED), *words))),
    )
    last, now = read_state(writer), boot_id(writer)
    state = ReadyState(
        Standing.REBOOTING,
        now,
        clean(f"reboots for: {'; '.join(reasons)}"),
        at=int(writer.now()),
        reboots=(now,),
        allowed=allowed,
        approval=approval,
        machine=identify_machine(writer),
        run=run,
    )
    try:
        # The file that runs now may be in a folder that the boot empties, or others may replace it
        # until then.
        if carried := find_archive():
            put(writer, CARRIED, load_bytes(carried), 0o600)
        put(writer, PATH, text.encode(), 0o644)
        # --no-reload: this boot needs nothing of it
        writer.run(("systemctl", "--no-reload", "enable", CONTINUE), timeout_s=_SYSTEMCTL_S)
        # Last: the note promises that something goes on, which holds only with the unit in place.
        keep_state(writer, state)
    except HosttuneError:
        with suppress(HosttuneError):  # the first error is the one to solve
            remove(writer)
        # What the boot gate noted outlives a failed attempt. An older yes does not: it would
        # approve a boot that no one asked for now.
        if last is not None and not last.goes_on:
            keep_state(writer, last)
        else:
            _forget(writer)
        raise


def remove(writer: Writer) -> None:
    """Take the unit away again, where it is."""
    try:
        # systemctl fails to disable a unit whose file is not there.
        if isinstance(writer.read(PATH), bytes):
            writer.run(("systemctl", "--no-reload", "disable", CONTINUE), timeout_s=_SYSTEMCTL_S)
    finally:
        # Also where systemctl does not answer: a link without its unit starts nothing, and a unit
        # that stays would go on after the boot.
        for path in (PATH, CARRIED):
            if isinstance(present := writer.read(path), bytes):
                writer.remove(path, expected=present)


def give_up(writer: Writer, why: str) -> bool:
    """Let no `apply --yes --reboot` go on after the next boot; whether one would have. The caller
    holds the lock.
    """
    last = None
    with suppress(HosttuneError):  # what cannot be understood approves nothing
        last = read_state(writer)
    if goes_on := last is not None and last.goes_on:
        writer.log(clean(f"ready: what was to go on after a boot is given up: {why}"))
        _forget(writer)
    remove(writer)
    return goes_on


def _forget(writer: Writer) -> None:
    """Take the note away: the boot that it counts did not come, or was asked for by no one any
    more.
    """
    if isinstance(present := writer.read(STATE), bytes):
        writer.remove(STATE, expected=present)
    show_at_login(writer, MOTD, clean(""))


def unit_word(word: str) -> str:
    """A word of ExecStart= in double quotes, in which every character means itself
    (systemd.service(5), "Command lines"). Raises Refused for one that no unit can carry.
    """
    if "\n" in word:
        raise Refused(
            f"{word!r} holds a line break, which no unit can carry",
            hint="start hosttune without it",
        )
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
