"""What runs while a trial is live, outside of any session: the timer that ends it, and the messages
to people.

Timers are transient units of systemd (systemd-run(1), `--on-active`): they count the kernel's
monotonic time, survive the session and a reload of the manager, need no file, and are gone after a
boot, which then has a guard of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosttune.actions.trial.guard import FOLDER, OF_AN_IMAGE
from hosttune.errors import HosttuneError, Refused
from hosttune.host.door import Completed
from hosttune.numbers import say_span
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.host.masking.cleaned import Cleaned

MOTD = "/run/motd.d/hosttune-trial"
# journalctl MESSAGE_ID=...: how a trial began and ended
MESSAGE_ID = "6f1c0f6cf0b84b2c9a3d5a0c1e7d4b52"
MAKING = "making"  # of the timer up to the end of the changes
_TIMEOUT_S = 30.0


def name_of(run_id: str, what: str = "deadline") -> str:
    """The unit of this run, without its ending."""
    return f"hosttune-trial-{run_id}-{what}"


def why_not_timer(reader: Reader) -> str:
    """Why no timer can be set here, as a sentence; empty where one can."""
    if reader.persistent_only:
        return OF_AN_IMAGE
    if reader.stat("/run/systemd/system") is ABSENT:
        return (
            "no systemd runs here, and nothing else would keep the time when this session has ended"
        )
    if not isinstance(reader.query(("systemd-run", "--version")), Completed):
        return (
            "systemd-run is not there, and nothing else would keep the time when this session has "
            "ended"
        )
    return ""


def guard(writer: Writer, run_id: str, within_s: int, deadline: Sequence[str]) -> None:
    """Let `deadline` (argv) run after `within_s` seconds also where the run is cut off before its
    time begins. While changes are still being made it waits for their end, and finds that the time
    has only begun. Raises Refused where systemd does not keep it; then no timer runs.
    """
    _keep_timer(writer, run_id, MAKING, within_s, deadline)


def start(
    writer: Writer, run_id: str, within_s: int, deadline: Sequence[str], look: Sequence[str] = ()
) -> None:
    """All is made, and the time begins: let `deadline` (argv) run after `within_s` seconds, and
    `look`, where it is given, before it. Raises Refused where systemd does not keep it; then no
    timer runs.
    """
    _keep_timer(writer, run_id, "deadline", within_s, deadline)
    try:
        if look:
            _run_in(writer, name_of(run_id, "look"), look_after_s(within_s), look)
    except HosttuneError:
        stop(writer, run_id)
        raise
    # Last: until the new timer is known to run, the old one still takes the run back.
    stop(writer, run_id, MAKING)
    for left_s in {within_s // 2, 60}:
        text = (
            f"hosttune: run {run_id} is rolled back in {say_span(left_s)}, unless: sudo hosttune "
            "confirm"
        )
        with suppress(HosttuneError):
            _run_in(writer, name_of(run_id, f"notice-{left_s}"), within_s - left_s, ("wall", text))


def _keep_timer(writer: Writer, run_id: str, what: str, seconds: int, argv: Sequence[str]) -> None:
    try:
        _run_in(writer, name_of(run_id, what), seconds, argv)
        timer = f"{name_of(run_id, what)}.timer"
        # The whole promise to roll back hangs on this timer. So it is read back, as any change is.
        answer = writer.query(("systemctl", "is-active", timer))
        if not isinstance(answer, Completed) or answer.text.strip() != "active":
            raise Refused(f"{timer} does not run")
    except HosttuneError:
        stop(writer, run_id)
        raise


def look_after_s(within_s: int) -> int:
    """When a host that confirms itself by its health is looked at, in seconds."""
    return min(within_s // 2, 120)


def _run_in(writer: Writer, unit: str, seconds: int, argv: Sequence[str]) -> None:
    # `systemctl isolate`, as on the way to another target, leaves it alone.
    kept = ("--timer-property=AccuracySec=1s", "--timer-property=IgnoreOnIsolate=yes")
    options = (f"--unit={unit}", f"--on-active={seconds}s", *kept, "--quiet", "--collect")
    writer.run(("systemd-run", *options, "--", *argv), timeout_s=_TIMEOUT_S)


def stop(writer: Writer, run_id: str, what: str = "*") -> None:
    """End every timer of this run, or that one. Never raises: a timer that is left finds nothing on
    trial.
    """
    with suppress(HosttuneError):
        writer.run(("systemctl", "stop", f"{name_of(run_id, what)}.timer"), timeout_s=_TIMEOUT_S)


def announce(writer: Writer, text: Cleaned) -> None:
    """Tell everybody: the system log, and the terminals of who is logged in. Never raises."""
    writer.log(text, MESSAGE_ID)
    if not writer.persistent_only:
        with suppress(HosttuneError):
            writer.run(("wall", f"hosttune: {text}"), timeout_s=_TIMEOUT_S)


def reboot(writer: Writer) -> None:
    """Reboot in the ordinary way; after five minutes, which a driver that hangs may take, in a
    harder one. Raises Refused where systemd does not take it.
    """
    # With its default dependencies the shutdown would stop this timer, which is there for a
    # shutdown that hangs.
    lasting = (
        "--timer-property=DefaultDependencies=no",
        "--property=DefaultDependencies=no",
        "--quiet",
    )
    # as host/process.py
    whole = ("--setenv=SYSTEMCTL_SKIP_AUTO_KEXEC=1", "--setenv=SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1")
    with suppress(HosttuneError):
        hard = (
            "systemd-run",
            "--on-active=300s",
            *lasting,
            *whole,
            "--",
            "systemctl",
            "reboot",
            "-f",
        )
        writer.run(hard, timeout_s=_TIMEOUT_S)
    writer.run(("systemctl", "reboot"), timeout_s=_TIMEOUT_S)


def reboot_when_idle(writer: Writer, run_id: str) -> None:
    """Let the guard's script reboot as soon as no GPU is at work, and at its last deadline all the
    same. Raises Refused where systemd does not take it.
    """
    # A user who fills the memory must not be able to end it.
    lasting = ("DefaultDependencies=no", "IgnoreOnIsolate=yes", "OOMScoreAdjust=-1000")
    options = (
        f"--unit={name_of(run_id, 'reboot')}",
        *(f"--property={one}" for one in lasting),
        "--quiet",
        "--collect",
    )
    writer.run(
        ("systemd-run", *options, "--", "sh", f"{FOLDER}/run", "reboot"), timeout_s=_TIMEOUT_S
    )
