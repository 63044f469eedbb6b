"""hosttune's own files and its line in the system log."""

from __future__ import annotations

import os
import stat as stat_module

from hosttune.errors import Refused


def append(root: str, path: str, data: bytes) -> None:
    """Append to a file of ours and sync it. Missing folders are made 0700, the file 0600; links are not followed."""
    target = path if root == "/" else root.rstrip("/") + path
    folder = os.path.dirname(target)
    _make_private(folder, root)
    is_new = not os.path.lexists(target)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(target, flags, 0o600)
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error.strerror}", hint="run it as root") from error
    try:
        size = os.fstat(fd).st_size
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        except OSError as error:
            os.ftruncate(fd, size)
            raise Refused(f"{target} cannot be written: {error.strerror}", hint="make room on the disk") from error
    finally:
        os.close(fd)
    if is_new:
        _sync(folder)


def _make_private(folder: str, root: str) -> None:
    missing = []
    place = folder
    while not os.path.isdir(place) and place not in ("", "/", root):
        missing.append(place)
        place = os.path.dirname(place)
    for name in reversed(missing):
        try:
            os.mkdir(name, 0o700)
        except OSError as error:
            raise Refused(f"{name} cannot be made: {error.strerror}", hint="run it as root") from error
        _sync(os.path.dirname(name))
    info = os.lstat(folder)
    if not stat_module.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise Refused(
            f"{folder} is not a folder that only root can write",
            hint=f"sudo chown root {folder}; sudo chmod 700 {folder}",
        )


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def log(message: str) -> None:
    """One line for the system log. Without a log daemon it is lost, as syslog(3) says; the journal of the run holds
    it anyway.
    """
    import syslog

    syslog.openlog("hosttune", syslog.LOG_PID, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_NOTICE, message)
    syslog.closelog()


def operator() -> str:
    """The login that acts: `alice via sudo`, or the name of the user of this process."""
    import pwd

    def name_of(uid: int) -> str:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"uid {uid}"

    sudo = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and sudo.isdecimal():
        return f"{name_of(int(sudo))} via sudo"
    try:
        with open("/proc/self/loginuid", encoding="ascii") as file:
            login = int(file.read())
    except (OSError, ValueError):
        login = 0xFFFFFFFF  # (uid_t)-1: not from a login
    return name_of(login if login != 0xFFFFFFFF else os.geteuid())
