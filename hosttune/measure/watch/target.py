"""The process that someone wants watched: is it there, whose is it, what can be seen of it."""

from __future__ import annotations

import os
import pwd

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.host.masking.secrets import mask_command
from hosttune.host.process import locate
from hosttune.host.processes.proc_fields import COMMAND, command_of
from hosttune.host.processes.process_memory import head_in_time
from hosttune.measure.watch.kept import content_in_time, content_of
from hosttune.measure.watch.parse import process_stat
from hosttune.values import Absent

_KTHREADD = 2


@frozen
class Target:
    """`age_s` is how long it has been running; `note` what keeps us from seeing all of it, "" where
    nothing does.
    """

    pid: int
    command: tuple[str, ...]  # masked
    age_s: float
    visible: str | None  # its CUDA_VISIBLE_DEVICES; None where it is not set, or not readable
    note: str


def find(pid: int, *, proc: str = "/proc") -> Target:
    """Raises HosttuneError where it cannot be watched, with the way out."""
    content = content_of(f"{proc}/{pid}/stat")
    stat = process_stat(content or b"")
    if stat is None:
        raise _make_missing(pid)
    if pid == os.getpid():
        raise HosttuneError("that is this very process", hint="name the process of the job")
    words = _read_words(f"{proc}/{pid}/cmdline")
    # Threads of the kernel are children of kthreadd (2) and have no command line; in a container 2
    # may be any process.
    if _KTHREADD in {pid, stat.parent} and not words:
        raise HosttuneError(
            f"{pid} ({stat.name}) is a thread of the kernel", hint="name the process of the job"
        )
    status = (content_of(f"{proc}/{pid}/status") or b"").decode("utf-8", "replace")
    fields = dict(line.split(":", 1) for line in status.split("\n") if ":" in line)
    group = int(fields.get("Tgid", pid))
    if group != pid:
        raise HosttuneError(
            f"{pid} is a thread of process {group}", hint=f"watch that one: --pid {group}"
        )
    if stat.state in "ZX":
        raise HosttuneError(
            f"{pid} ({stat.name}) has ended and only waits for its parent to notice"
        )
    environment = _read_environment(f"{proc}/{pid}/environ")
    uptime = float((content_of(f"{proc}/uptime") or b"0").split()[0])
    note = ""
    # Tried, not computed: ptrace access modes decide (proc_pid_io(5)), which depend on more than
    # the uid.
    if content_in_time(f"{proc}/{pid}/io") is None:
        owner = _name_user(int(fields.get("Uid", "0").split()[0]))
        note = f"it runs as {owner}: what it reads is not visible" + (
            "; sudo shows it" if os.geteuid() else " here"
        )
    # forked, as workers of loaders are
    elif words and _read_words(f"{proc}/{stat.parent}/cmdline") == words:
        note = (
            f"process {stat.parent} with the same command line started it: to watch both, --pid "
            f"{stat.parent}"
        )
    return Target(
        pid,
        mask_command(tuple(words)),
        uptime - stat.started / os.sysconf("SC_CLK_TCK"),
        _find_visible(environment),
        note,
    )


def _make_missing(pid: int) -> HosttuneError:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return HosttuneError(f"there is no process {pid}", hint="pgrep -af python shows some")
    except PermissionError:
        return HosttuneError(
            f"process {pid} is there, but /proc hides the processes of others (hidepid)",
            hint="watch it as its user, or with sudo",
        )
    except OverflowError:
        return HosttuneError(f"{pid} is not a process number")
    return HosttuneError(f"process {pid} has just ended, or /proc is not mounted")


def _name_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _read_words(path: str) -> list[str]:
    try:
        return command_of(path, *COMMAND, head_in_time)[0]
    except OSError:
        return []


def _read_environment(path: str) -> bytes | None:
    """The whole entries at its beginning."""
    content = content_in_time(path)
    # A cut entry may be a part of a value that means something else.
    return content if content is None else content.rpartition(b"\0")[0]


def _find_visible(environment: bytes | None) -> str | None:
    for entry in (environment or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"CUDA_VISIBLE_DEVICES":
            return value.decode("utf-8", "replace")
    return None


def put_in_scope(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command in a transient scope of systemd's: a control group of its own, so that its
    pressure is its own.

    systemd-run --scope becomes the command, so process, input and output stay ours
    (systemd-run(1)). Raises HosttuneError where no systemd runs.
    """
    program = locate("systemd-run")
    if not os.path.isdir("/run/systemd/system") or isinstance(program, Absent):  # sd_booted(3)
        raise HosttuneError(
            "--scope needs systemd, which does not run here", hint="leave --scope out"
        )
    user = () if os.geteuid() == 0 else ("--user",)
    if user and not os.path.exists(f"/run/user/{os.getuid()}/systemd/private"):
        raise HosttuneError(
            "--scope needs a systemd of this user's (a login session)", hint="leave --scope out"
        )
    return (program, *user, "--scope", "--quiet", "--collect", "--", *argv)
