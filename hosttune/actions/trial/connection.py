"""Over which connection this command came: from which login it descends, and when that began.

A confirmation over a connection that was there before a change proves nothing: it goes on where no
new one would be let in. What counts is the process of a server that serves this login, in the
kernel's own time. Where none does, it is the console: a text terminal of this machine, or a program
without a terminal. A pseudo-terminal that no server holds (run0, machinectl shell, an editor's or a
notebook's) tells nothing. Sources: sshd(8) (its processes are `sshd`, since OpenSSH 9.8
`sshd-session`), proc_pid_stat(5) (tty_nr; starttime, in ticks of 1/100 s since boot), Linux
Documentation/admin-guide/devices.txt (136 to 143: pseudo-terminals).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_TICKS_PER_S = 100  # USER_HZ of every architecture that hosttune knows
# Each has a process of its own for a login.
_SERVERS = frozenset(
    {"sshd", "sshd-session", "dropbear", "tailscaled", "mosh-server", "etterminal"}
)
# they outlive the connection that began them
_KEEPERS = frozenset({"tmux", "screen", "abduco", "dtach", "zellij"})
_MOST_ANCESTORS = 64
_PSEUDO = range(136, 144)


@frozen
class Login:
    """What this command descends from."""

    is_remote: bool  # a process of sshd, or of another server, serves it
    # when that process began, seconds since the kernel started; None on a console
    began_s: float | None
    keeper: str = ""  # tmux and the like: over which connection its user came is not known
    is_unknown: bool = False  # a pseudo-terminal, and nothing tells who is at its other end


@frozen
class _Process:
    name: str
    parent: int
    started_s: float
    terminal: int  # major number of its controlling terminal; 0: it has none


def read_login(reader: Reader) -> Login:
    """The login of this very process. Where /proc does not tell, it is that of a console."""
    process = _read_process(reader, "self")
    served: list[_Process] = []
    keeper = ""
    terminals: set[int] = set()
    for _ in range(_MOST_ANCESTORS):
        if process is None:
            break
        name = process.name.partition(":")[0]  # `tmux: server`
        terminals.add(process.terminal)
        if name in _SERVERS:
            served.append(process)
        elif name in _KEEPERS:
            keeper = name
        process = _read_process(reader, str(process.parent)) if process.parent > 1 else None
    if not served:
        # sudo gives its command a pseudo-terminal of its own, on the console too.
        is_untold = any(one in _PSEUDO for one in terminals) and all(
            one in _PSEUDO for one in terminals - {0}
        )
        return Login(is_remote=bool(keeper), began_s=None, keeper=keeper, is_unknown=is_untold)
    # The nearest server process is that of this login. Those above it are the listener, which is as
    # old as the boot.
    return Login(is_remote=True, began_s=served[0].started_s)


def why_not_proof(login: Login, made_s: float) -> str:
    """Why a confirmation over this login proves nothing of what was made at `made_s`, as a
    sentence; empty where it does.
    """
    if login.keeper:
        return (
            f"this runs in {login.keeper}, which does not show over which connection you logged in"
        )
    if login.is_unknown:
        return "this terminal does not show over which connection you logged in"
    if login.began_s is not None and login.began_s <= made_s:
        return (
            "this connection was there before the changes: that it goes on does not show that a "
            "new one is let in"
        )
    return ""


def _read_process(reader: Reader, pid: str) -> _Process | None:
    content = reader.read(f"/proc/{pid}/stat")
    if not isinstance(content, bytes):
        return None
    # a name may hold blanks and parentheses
    head, _, rest = content.decode("utf-8", "replace").rpartition(")")
    fields = rest.split()
    try:
        # tty_nr holds the major number in bits 15 to 8 (proc_pid_stat(5)).
        terminal = int(fields[4]) >> 8 & 0xFFF
        return _Process(
            head.partition("(")[2], int(fields[1]), int(fields[19]) / _TICKS_PER_S, terminal
        )
    except (IndexError, ValueError):
        return None
