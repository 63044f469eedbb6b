"""hosttune's own files and its line in the system log."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from hosttune.errors import Refused
from hosttune.host.masking.cleaned import Cleaned
from hosttune.host.reading.bounded import head_of
from hosttune.host.writing.folders import FolderEntry, opened_place
from hosttune.quoting import quote

_JOURNAL_SOCKET = "/run/systemd/journal/socket"
# no wait at a fifo
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def append(root: str, path: str, data: bytes) -> None:
    """Append to a file of ours and sync it. Missing folders are made 0700, the file 0600; it is no
    link.
    """
    try:
        with opened_place(root, path, make=0o700) as place:
            _refuse_open_folder(place)
            fd = os.open(place.name, _APPEND, 0o600, dir_fd=place.folder)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise Refused(f"{place.path} is not a regular file")
                _append(fd, data)
            finally:
                os.close(fd)
            if not place.exists:
                os.fsync(place.folder)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}", hint=_hint(error)) from error


def _append(fd: int, data: bytes) -> None:
    """All of `data` and on disk, or nothing of it."""
    size = os.fstat(fd).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    except OSError:
        # The half of a line would make one line of this and the next one, which the journal could
        # not read.
        os.ftruncate(fd, size)
        raise


def _refuse_open_folder(place: FolderEntry) -> None:
    info = os.fstat(place.folder)
    folder = os.path.dirname(place.path)
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        way_out = f"sudo chown root {quote(folder)}; sudo chmod 700 {quote(folder)}"
        raise Refused(f"{folder} is not a folder that only root can write", hint=way_out)


def _hint(error: OSError) -> str:
    return (
        "make room on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "run it as root"
    )


def log(message: Cleaned, message_id: str = "") -> None:
    """One line for the system log. Without a log daemon it is lost, as syslog(3) says; the journal
    of the run holds it anyway. With a `message_id` it goes to systemd's journal, where one listens.
    """
    import syslog

    if message_id and _send_to_journal(message, message_id):
        return

    syslog.openlog("hosttune", syslog.LOG_PID, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_NOTICE, message)
    syslog.closelog()


def _send_to_journal(message: Cleaned, message_id: str) -> bool:
    """Whether systemd's journal took it (systemd.io/JOURNAL_NATIVE_PROTOCOL)."""
    import socket

    fields = (
        ("MESSAGE", message),
        ("MESSAGE_ID", message_id),
        ("PRIORITY", "4"),
        ("SYSLOG_FACILITY", "10"),  # authpriv, as all our lines
        ("SYSLOG_IDENTIFIER", "hosttune"),
    )
    data = "".join(f"{name}={value}\n" for name, value in fields).encode()
    try:
        with socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        ) as door:
            door.sendto(data, _JOURNAL_SOCKET)
    except OSError:
        return False
    return True


def name_operator() -> str:
    """The login that acts: `alice via sudo`, or the name of the user of this process."""
    import pwd

    def name_of(uid: int) -> str:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"uid {uid}"

    if is_under_sudo():
        return f"{name_of(user_who_typed(os.environ))} via sudo"
    try:
        login = int(head_of("/proc/self/loginuid")[0])
    except (OSError, ValueError):
        login = 0xFFFFFFFF  # (uid_t)-1: not from a login
    return name_of(login if login != 0xFFFFFFFF else os.geteuid())


def is_under_sudo() -> bool:
    """Whether root's rights were got by sudo, so that a command to copy begins with it."""
    return os.geteuid() == 0 and bool(user_who_typed(os.environ))


def user_who_typed(environment: Mapping[str, str]) -> int:
    """The user id behind sudo (sudo(8), SUDO_UID); 0 if root's rights were not got by sudo."""
    word = environment.get("SUDO_UID", "")
    return int(word) if word.isdecimal() and len(word) < 11 else 0
