"""Files that a person named, or that another program reads: reports, records, pictures, metrics.

Root writes only where no one else can turn the way: each folder on it is opened by its descriptor
and belongs to root. A folder of another user is passed in one case, a real folder of root's
directly below it on the same file system, as Debian's /var/lib/prometheus (of user prometheus) with
node-exporter/ (of root). Its owner can only put another such folder of root's there, and can
neither make one nor move one in from elsewhere (rename(2): EACCES for `..`). In a sticky folder
(/tmp) root makes new files and replaces only its own. Every other user has that user's own rights.

Under sudo, a place that root refuses so is tried once more with the rights of the person who typed
sudo, and by the same rules: every folder and link on the way belongs to that person or to root, and
the file becomes theirs.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from hosttune.errors import HosttuneError, Refused
from hosttune.host.processes.thread_ids import rights_of
from hosttune.host.writing.folders import opened_entry, stat_entry
from hosttune.host.writing.own import user_who_typed
from hosttune.regex import regex
from hosttune.values import Absent, FileValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STREAM = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
# What the caller has opened already: /dev/stdout, and the pipe of >(...) (bash(1), Process
# Substitution).
_OWN = regex(r"/dev/(?:std(?P<name>out|err)|fd/(?P<number>\d{1,4}))")


def save(
    path: str, content: bytes, mode: int = 0o600, *, root: str = "/", makes_folders: bool = False
) -> None:
    """Write a file at once and durably: no reader ever sees half of it. Raises HosttuneError.

    Its rights are `mode`, whatever was there before: a plan may hold passwords (fstab), a record
    much of a host. Only a regular file is replaced, not a link. `makes_folders`: those that are
    missing (0755).
    """
    descriptor = _own_descriptor(path)
    if descriptor >= 0:
        with _name_path(path), os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return
    with _name_path(path):
        _with_rights(
            lambda owner: _save(path, content, mode, root, 0o755 if makes_folders else None, owner)
        )


def _save(path: str, content: bytes, mode: int, root: str, make: int | None, owner: int) -> None:
    with opened_entry(root, os.path.abspath(path), make=make, is_output=True, owner=owner) as (
        folder,
        name,
    ):
        if _is_special(folder, name, path, owner):
            raise _existing_file(path)
        # Not with the ending of the file: what reads a whole folder, as node_exporter reads *.prom,
        # must not take the draft.
        draft = f".hosttune-{secrets.token_hex(8)}"
        file_descriptor = os.open(draft, _MAKE, 0o600, dir_fd=folder)
        try:
            with os.fdopen(file_descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise


def publish_file(root: str, path: str, new: FileValue | Absent) -> None:
    """Write a file below `root` as `save` does, or remove it. Raises HosttuneError."""
    if isinstance(new, FileValue):
        with _name_path(path):
            _save(path, new.content, new.mode, root, None, 0)
        return
    with (
        _name_path(path),
        suppress(FileNotFoundError),
        opened_entry(root, path, is_output=True) as (folder, name),
    ):
        if _is_special(folder, name, path, 0):
            raise _existing_file(path)
        os.unlink(name, dir_fd=folder)


def open_stream(path: str) -> int:
    """A descriptor of a file that is written piece by piece, empty, readable only by its owner;
    also of a device or a pipe of one's own. The caller closes it. Raises HosttuneError.
    """
    descriptor = _own_descriptor(path)
    if descriptor >= 0:
        return descriptor
    with _name_path(path):
        return _with_rights(lambda owner: _open_stream(path, owner))


def _open_stream(path: str, owner: int) -> int:
    with opened_entry("/", os.path.abspath(path), is_output=True, owner=owner) as (folder, name):
        if _is_special(folder, name, path, owner) or os.geteuid() != owner:
            return os.open(name, _STREAM, 0o600, dir_fd=folder)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)  # others may have it open, or linked
        return os.open(name, _MAKE, 0o600, dir_fd=folder)


def check_writable(path: str) -> None:
    """Raises HosttuneError where `save` could not write, before an hour of measuring ends in
    that.
    """
    if _OWN.fullmatch(path):
        return
    with _name_path(path):
        _with_rights(lambda owner: _check_writable(path, owner))


def _check_writable(path: str, owner: int) -> None:
    with opened_entry("/", os.path.abspath(path), is_output=True, owner=owner) as (folder, name):
        if _is_special(folder, name, path, owner):
            raise _existing_file(path)
        # By the effective ids: those of the person who typed sudo are in force here, and the real
        # ones are still root's.
        if not os.access(f"/proc/self/fd/{folder}", os.W_OK | os.X_OK, effective_ids=True):
            raise HosttuneError(
                f"{path}: cannot be written", hint="name a file in a folder of yours"
            )


def _with_rights(write: Callable[[int], T]) -> T:
    """`write` gets the user whose rights count: root's, else those of the person who typed sudo,
    also on an NFS home that root may not enter (root_squash).
    """
    try:
        return write(0)
    except (Refused, PermissionError):
        typed = user_who_typed(os.environ)
        if os.geteuid() != 0 or not typed:
            raise
        with _rights_of(typed):
            return write(typed)


@contextmanager
def _rights_of(uid: int) -> Iterator[None]:
    import pwd

    try:
        entry = pwd.getpwuid(uid)
    except KeyError as error:
        raise Refused(f"the user who typed sudo, uid {uid}, is not known here") from error
    with rights_of(uid, entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)):
        yield


def _is_special(folder: int, name: str, path: str, owner: int) -> bool:
    """Whether there is a device or a pipe. Raises HosttuneError for a link and a folder, and
    Refused if what is there is not the `owner`'s, unless it is a regular file in a folder that only
    the owner can write.
    """
    try:
        info = stat_entry(folder, name, owner)
    except FileNotFoundError:
        return False
    is_regular = stat.S_ISREG(info.st_mode)
    if stat.S_ISLNK(info.st_mode) or stat.S_ISDIR(info.st_mode):
        raise _existing_file(path)
    if (
        os.geteuid() == owner
        and info.st_uid != owner
        and not (is_regular and not os.fstat(folder).st_mode & 0o022)
    ):
        raise Refused(f"it belongs to uid {info.st_uid}")
    return not is_regular


def _existing_file(path: str) -> HosttuneError:
    return HosttuneError(
        f"{path}: already exists and is not a regular file", hint="name another file"
    )


def _own_descriptor(path: str) -> int:
    """A copy of an open descriptor that `path` means, only by its text; -1 for every other path."""
    found = _OWN.fullmatch(path)
    if not found:
        return -1
    number = {"out": 1, "err": 2}[found["name"]] if found["name"] else int(found["number"])
    with _name_path(path):
        return os.dup(number)


@contextmanager
def _name_path(path: str) -> Iterator[None]:
    """What goes wrong, with the path that was typed."""
    try:
        yield
    except Refused as error:
        hint = "write it to standard output and redirect that, or name a file in a folder of root's"
        raise HosttuneError(f"{path}: {error.message}", hint=hint) from error
    except OSError as error:
        hint = "name a file in a folder of yours"
        raise HosttuneError(f"{path}: cannot be written: {error.strerror}", hint=hint) from error
