"""Files that hosttune keeps for itself: below /var/lib/hosttune, for a user below
$XDG_STATE_HOME/hosttune.

A file is there whole or not at all, also after a power cut; its folder is 0700, the file 0600. Root
trusts only what root alone could have written, its folders included; a user only what is his own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hosttune.errors import HosttuneError, Refused
from hosttune.host.writing.folders import FolderEntry, opened_place
from hosttune.regex import regex

LIMIT = 4 << 20  # bytes of one file
_DRAFT = regex(r"\..+\.json\.[0-9a-f]{16}")  # what a `save` leaves that a power cut ended
_OLD_S = 3600.0  # a draft as old as this is no one's any more
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def name_folder(part: str) -> str:
    """Where this user's files lie (XDG Base Directory Specification: a relative path there does not
    count).
    """
    if os.geteuid() == 0:
        return f"/var/lib/hosttune/{part}"
    home = os.environ.get("XDG_STATE_HOME", "")
    if not home.startswith("/"):
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(os.path.realpath(home), "hosttune", part)


def list_names(prefix: str, where: str) -> tuple[str, ...]:
    """The files there whose names begin so, in order."""
    try:
        found = os.listdir(where)
    except OSError:
        return ()
    return tuple(
        sorted(name for name in found if name.startswith(prefix) and name.endswith(".json"))
    )


def load(name: str, where: str) -> bytes | None:
    """The content of a file there; None where there is none that only this user could have
    written.
    """
    with suppress(OSError, Refused), _open_file(name, where) as place:
        fd = os.open(place.name, _READ, dir_fd=place.folder)
        try:
            if _is_ours(fd) and _is_ours(place.folder) and os.fstat(fd).st_size <= LIMIT:
                return os.read(fd, LIMIT)
        finally:
            os.close(fd)
    return None


def save(name: str, content: bytes, where: str) -> None:
    """Write a file there, at once and durably. Raises HosttuneError."""
    import secrets

    path = f"{where}/{name}"
    try:
        with _open_file(name, where, make=True) as place:
            if not _is_ours(place.folder):
                raise Refused(f"{os.path.dirname(place.path)} does not belong to this user alone")
            new = f".{name}.{secrets.token_hex(8)}"
            fd = os.open(new, _WRITE, 0o600, dir_fd=place.folder)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(new, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new, dir_fd=place.folder)
                raise
            os.fsync(place.folder)
    except OSError as error:
        raise HosttuneError(
            f"{path} cannot be written: {error.strerror}",
            hint="look at its disk: df -h /var/lib"
            if os.geteuid() == 0
            else "name another folder: XDG_STATE_HOME=DIR",
        ) from None


def remove(name: str, where: str) -> None:
    """Remove a file there, if it is there."""
    with suppress(OSError, Refused), _open_file(name, where) as place:
        os.unlink(place.name, dir_fd=place.folder)


def read_size(name: str, where: str) -> int:
    """Bytes of a file there; 0 if that is not known."""
    with suppress(OSError):
        return os.lstat(f"{where}/{name}").st_size
    return 0


def sweep_drafts(where: str) -> None:
    """Remove the drafts that interrupted writers have left there."""
    with suppress(OSError):
        for name in filter(_DRAFT.fullmatch, os.listdir(where)):
            if time.time() - os.lstat(f"{where}/{name}").st_mtime > _OLD_S:
                remove(name, where)


@contextmanager
def _open_file(name: str, where: str, *, make: bool = False) -> Iterator[FolderEntry]:
    with opened_place("/", f"{where}/{name}", make=0o700 if make else None) as place:
        yield place


def _is_ours(fd: int) -> bool:
    info = os.fstat(fd)
    return info.st_uid == os.geteuid() and not info.st_mode & 0o022
