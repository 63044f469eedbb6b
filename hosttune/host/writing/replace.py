"""Replace or remove a file so that a power cut at any instant leaves the old one or the new one,
and nothing is lost.

The order is the one that survives crashes: a temp file beside the target, every byte written and
read back, owner, mode, ACL and attributes copied, fsync, the original compared once more,
rename(2), fsync of the folder. Everything works on descriptors of folders, so no one can turn the
way in between. What cannot be kept is refused with the reason: hosttune never clears an immutable
flag, and edits nothing in place but what a boot loader finds by its place.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat as stat_module
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.host.reading.paths import close
from hosttune.host.reading.tree import read_all
from hosttune.host.writing.attributes import (
    copy_attributes,
    refuse_flags,
    refuse_mount_point,
    refuse_signed,
)
from hosttune.host.writing.folders import FolderEntry, opened_place, remove_folder
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import Absent, FileValue

MAX_BYTES: Final = 64 << 20
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_RENAME_NOREPLACE = 1
_DROP_INS = regex(
    r"/systemd/system/[^/]+\.(?:mount|service|timer|socket|slice|target|scope|swap|path)\.d$"
)
_AGAIN = "look at it, then run the plan again"


def replace(root: str, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
    """Put `new` at `path` below `root`. Raises Conflict when the file is not `expected`, Refused
    when it cannot be done safely; then everything is as it was.
    """
    make = 0o755 if isinstance(expected, Absent) else None
    try:
        with opened_place(root, path, make=make) as place:
            if isinstance(expected, Absent):
                _create(place, new)
            else:
                _swap(place, new, expected)
            _settle(place, new.content)
    except FileNotFoundError:
        raise Conflict(f"{path} is not there any more", hint="run the plan again") from None
    except OSError as error:
        raise Refused(f"{path} cannot be replaced: {error.strerror}", hint=_hint(error)) from error


def remove(root: str, path: str, *, expected: bytes) -> None:
    """Remove the file that `path` leads to, durably, if it still holds `expected`; a link on the
    way stays.

    With the last drop-in of a systemd unit its folder goes too: `replace` may have made it, and
    empty it says nothing. Those of its daemons (journald.conf.d) may have been there before.
    """
    try:
        with opened_place(root, path) as place, _open_original(place, expected):
            refuse_flags(place.folder, os.path.dirname(place.path))
            os.unlink(place.name, dir_fd=place.folder)
            _sync_folder(place, "removed")
            folder = os.path.dirname(place.path)
        if _DROP_INS.search(folder):
            with suppress(Refused):  # others lie in it
                remove_folder(root, folder)
    except FileNotFoundError:
        raise Conflict(f"{path} is not there any more", hint="run the plan again") from None
    except OSError as error:
        raise Refused(f"{path} cannot be removed: {error.strerror}", hint=_hint(error)) from error


def overwrite_bytes(root: str, path: str, content: bytes, *, expected: bytes) -> None:
    """Write as many bytes over those of a file, in place: for a block that a boot loader finds by
    its place on the disk and that it writes over itself, without any journal. Raises Conflict,
    Refused as `replace`.
    """
    if len(content) != len(expected):
        raise Refused(f"{path}: {len(content)} bytes cannot stand in the place of {len(expected)}")
    try:
        with opened_place(root, path) as place, _open_original(place, expected):
            fd = os.open(place.name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
            try:
                _fill(fd, content, path)
            finally:
                close(fd)
    except FileNotFoundError:
        raise Conflict(f"{path} is not there any more", hint="run the plan again") from None
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}", hint=_hint(error)) from error


def refused_write(root: str, path: str) -> Refused | None:
    """What `replace` would refuse whatever is written, so that no plan promises it. Where folders
    are missing the first one that is there counts. None also for what this user may not look at.
    """
    while True:
        try:
            with opened_place(root, path) as place:
                refuse_flags(place.folder, os.path.dirname(place.path))
                if place.exists:
                    with _open_changeable(place) as (fd, _):
                        refuse_signed(fd, place.path)
            return None
        except FileNotFoundError:
            path = os.path.dirname(path)
        except Refused as refused:
            return refused
        except OSError:
            return None


def find_leftovers(root: str, path: str) -> tuple[str, ...]:
    """The names of temp files that an interrupted `replace` of `path` left beside it: ours by
    pattern and owner.
    """
    try:
        with opened_place(root, path) as place:
            return _find_leftovers(place)
    except (OSError, Refused):
        return ()


def discard_leftovers(root: str, path: str) -> None:
    """Remove them. Nothing to do is no error."""
    with suppress(OSError, Refused), opened_place(root, path) as place:
        for name in _find_leftovers(place):
            os.unlink(name, dir_fd=place.folder)
        os.fsync(place.folder)


def _find_leftovers(place: FolderEntry) -> tuple[str, ...]:
    pattern = re.compile(rf"\.{re.escape(place.name)}\.hosttune-[0-9a-f]{{16}}")
    found = []
    for name in sorted(os.listdir(place.folder)):
        if pattern.fullmatch(name):
            info = os.stat(name, dir_fd=place.folder, follow_symlinks=False)
            if stat_module.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                found.append(name)
    return tuple(found)


def _create(place: FolderEntry, new: FileValue) -> None:
    if place.exists:
        raise Conflict(f"{place.path} has appeared meanwhile", hint="run the plan again")
    refuse_flags(place.folder, os.path.dirname(place.path))
    if new.mode & 0o6000:
        why = f"it would run with the rights of its owner (mode {new.mode:04o})"
        raise Refused(f"hosttune makes no such file as {place.path}: {why}")
    with _temp_file(place) as (temp, fd):
        _fill(fd, new.content, place.path)
        os.fchown(fd, new.uid, new.gid)
        os.fchmod(fd, new.mode)
        os.fsync(fd)
        try:
            _rename_new(temp, place)
        except FileExistsError:
            raise Conflict(
                f"{place.path} has appeared meanwhile", hint="run the plan again"
            ) from None


def _swap(place: FolderEntry, new: FileValue, expected: bytes) -> None:
    if not place.exists:
        raise Conflict(f"{place.path} is not there any more", hint="run the plan again")
    refuse_flags(place.folder, os.path.dirname(place.path))
    with _open_original(place, expected) as (original, before), _temp_file(place) as (temp, fd):
        _fill(fd, new.content, place.path)
        copy_attributes(original, fd, place.path)
        os.fsync(fd)
        _compare(place, original, expected, before)
        os.rename(temp, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)


@contextmanager
def _open_original(place: FolderEntry, expected: bytes) -> Iterator[tuple[int, os.stat_result]]:
    """The file as it is, open for reading, if it is as expected."""
    with _open_changeable(place) as (fd, info):
        _compare(place, fd, expected, info)
        yield fd, info


@contextmanager
def _open_changeable(place: FolderEntry) -> Iterator[tuple[int, os.stat_result]]:
    """The file as it is, open for reading, after every refusal that can be known early."""
    if not stat_module.S_ISREG(
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
    ):
        raise Refused(f"{place.path} is not a regular file")
    fd = os.open(place.name, _LOOK, dir_fd=place.folder)
    try:
        info = os.fstat(fd)
        if info.st_nlink > 1:
            # All names of a file are on its own file system, which need not be that of `/`.
            raise Refused(
                f"{place.path} has {info.st_nlink} hard links: the others would keep the old text",
                hint="find them with: sudo find "
                f'"$(findmnt -no TARGET --target {quote(place.path)})" '
                f"-xdev -samefile {quote(place.path)}",
            )
        refuse_flags(fd, place.path)
        refuse_mount_point(place.folder, fd, place.path)
        yield fd, info
    finally:
        close(fd)


def _compare(place: FolderEntry, original: int, expected: bytes, before: os.stat_result) -> None:
    """Compare and swap: the name still leads to the file that was opened, it holds what the plan
    was made from, and no one touched it since it looked like `before`.
    """
    os.lseek(original, 0, os.SEEK_SET)
    content = read_all(original, MAX_BYTES)
    now = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    if content != expected or _identify_file(now) != _identify_file(before):
        raise Conflict(f"{place.path} was changed in the meantime", hint=_AGAIN)


def _identify_file(info: os.stat_result) -> tuple[int, ...]:
    """With the ctime, which changes with owner, mode, ACL, attributes and links too (inode(7))."""
    return info.st_dev, info.st_ino, info.st_size, info.st_ctime_ns


@contextmanager
def _temp_file(place: FolderEntry) -> Iterator[tuple[str, int]]:
    """A new file beside the target under a name that cannot be guessed; gone afterwards unless it
    was renamed.
    """
    temp = f".{place.name}.hosttune-{secrets.token_hex(8)}"
    # Closed to others until it has the mode of the target: a file of settings may hold passwords.
    fd = os.open(temp, _MAKE, 0o600, dir_fd=place.folder)
    try:
        yield temp, fd
    finally:
        close(fd)
        with suppress(OSError):
            os.unlink(temp, dir_fd=place.folder)


def _fill(fd: int, content: bytes, path: str) -> None:
    """Write every byte (on a full disk write(2) returns early), push them to the disk and read them
    back.
    """
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)
    os.lseek(fd, 0, os.SEEK_SET)
    if read_all(fd, len(content)) != content:
        raise Refused(
            f"{path}: what was written reads back differently", hint="check the disk: sudo dmesg"
        )


def _rename_new(temp: str, place: FolderEntry) -> None:
    """Rename that does not overwrite. RENAME_NOREPLACE is not everywhere (rename(2)); link(2)
    refuses as well, but for an instant the file has two names.
    """
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        old, new = os.fsencode(temp), os.fsencode(place.name)
        if renameat2(place.folder, old, place.folder, new, _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        # EINVAL: the file system does not know the flag (rename(2)).
        if number not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(number, os.strerror(number), place.path)
    os.link(
        temp, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False
    )


def _settle(place: FolderEntry, content: bytes) -> None:
    """The new file is in place: make that durable and look at it again."""
    _sync_folder(place, "replaced")
    try:
        fd = os.open(place.name, _LOOK, dir_fd=place.folder)
        try:
            present = read_all(fd, MAX_BYTES)
        finally:
            close(fd)
    except OSError as error:
        message = f"{place.path} was replaced, but it cannot be read again: {error.strerror}"
        raise HosttuneError(message, hint=_hint(error)) from error
    if present != content:
        raise HosttuneError(
            f"{place.path} was replaced, and someone changed it at once", hint=_AGAIN
        )


def _sync_folder(place: FolderEntry, done: str) -> None:
    """Make what was done to a name in the folder durable. Raises HosttuneError: it is done,
    whatever fsync(2) says.
    """
    try:
        os.fsync(place.folder)
    except OSError as error:
        message = f"{place.path} was {done}, but a power cut may undo that: {error.strerror}"
        raise HosttuneError(message, hint=_hint(error)) from error


def _hint(error: OSError) -> str:
    hints = {
        errno.ENOSPC: "the disk is full: make room, then run it again",
        errno.EDQUOT: "the quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "run it as root",
        errno.EPERM: "run it as root; a container or security module may forbid it",
        errno.EBUSY: "something is mounted over it",
        errno.ELOOP: "a symbolic link leads to itself",
        errno.EIO: "the disk reports errors: sudo dmesg",
        errno.EINTR: "a signal came in between: run it again",
    }
    return hints.get(error.errno or 0, "look for the reason in: sudo dmesg")
