"""Folders that files are written in: opened inside the root, made when missing, removed when empty;
no one else's.
"""

from __future__ import annotations

import errno
import os
import stat as stat_module
from collections.abc import Iterator
from contextlib import contextmanager

from hosttune.errors import Refused
from hosttune.frozen import frozen
from hosttune.host.reading.bounded import names_in
from hosttune.host.reading.mounters import UnaskedMounters
from hosttune.host.reading.paths import ResolvedPath, close, is_plain, walk
from hosttune.host.writing.attributes import mount_id
from hosttune.quoting import quote

_MODE = 0o755
_OWN = "hosttune"
_ONLY_ROOTS = "only what root alone can change is followed and written in"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class FolderEntry:
    """A name in an open folder. `path` is the canonical one inside the root, for people."""

    folder: int
    name: str
    path: str
    exists: bool


@contextmanager
def opened_place(root: str, path: str, *, make: int | None = None) -> Iterator[FolderEntry]:
    """Where `path` leads inside `root`, links followed, its folder open. Missing folders are made
    with the mode `make`.

    Raises Refused for a link that leads nowhere, for a folder, and for a way there that others than
    root could turn; FileNotFoundError for a missing folder that is not to be made; OSError for what
    the system refuses.
    """
    if not is_plain(path):
        raise Refused(f"not an absolute path: {path!r}")
    with walk(root, path, mounters=WritersMounters()) as found:
        _refuse_dangling(found, path)
        _refuse_untrusted(found, root)
        if not found.missing and not found.name:
            raise Refused(f"{found.canonical} is a folder")
        folders, name = found.missing[:-1], (found.missing[-1] if found.missing else found.name)
        if folders and make is None:
            raise FileNotFoundError(2, os.strerror(2), found.canonical)
        folder = _make_folders(found, folders, make or _MODE)
        try:
            yield FolderEntry(folder, name, found.canonical, not found.missing)
        finally:
            close(folder)


@contextmanager
def opened_parent(root: str, path: str) -> Iterator[tuple[int, str]]:
    """The folder around `path` inside `root`, open, and the last component, which may exist or not.

    Raises Refused where the folder is missing, where a link is on the way, and where others than
    root could turn it.
    """
    above, _, name = path.rstrip("/").rpartition("/")
    if not is_plain(path) or name in ("", ".", ".."):
        raise Refused(f"not an absolute path of a folder: {path!r}")
    try:
        with walk(root, above or "/", mounters=WritersMounters()) as found:
            if found.missing or found.name:
                raise Refused(f"{above} is not a folder")
            if found.canonical != (above or "/"):
                raise Refused(f"{above} is reached by a link; its place is {found.canonical}")
            _refuse_untrusted(found, root)
            parent = _make_folders(found, (), _MODE)
            try:
                yield parent, name
            finally:
                close(parent)
    except OSError as error:
        raise Refused(f"{path} cannot be reached: {error.strerror}") from None


@contextmanager
def opened_entry(
    root: str, path: str, *, make: int | None = None, is_output: bool = False, owner: int = 0
) -> Iterator[tuple[int, str]]:
    """The folder around `path` inside `root`, open, and the last component, which is not followed.
    Links on the way are followed inside the root where they are root's. Missing folders are made
    with the mode `make`. `is_output`: it is a file that root writes for others
    (`host/writing/output.py`).

    Raises Refused for a way there that others than root could turn, OSError for what the system
    refuses.
    """
    above, _, name = path.rpartition("/")
    if not is_plain(path) or name in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with walk(root, above or "/", mounters=WritersMounters(owner)) as found:
        _refuse_dangling(found, path)
        if found.name or (found.missing and make is None):
            number = errno.ENOTDIR if found.name else errno.ENOENT
            raise OSError(number, os.strerror(number), found.canonical)
        _refuse_untrusted(found, root, is_output=is_output, owner=owner)
        if not found.missing:
            yield found.parent, name  # a folder that may be written in need not be readable
            return
        folder = _make_folders(found, found.missing, make or _MODE)
        try:
            yield folder, name
        finally:
            close(folder)


def _refuse_dangling(found: ResolvedPath, path: str) -> None:
    if found.dangling:
        link = next(
            one for one, info in reversed(found.visited) if stat_module.S_ISLNK(info.st_mode)
        )
        behind = f", and {path} is behind it" if link != path else ""
        message = f"{link} is a symbolic link that leads nowhere{behind}"
        raise Refused(message, hint="remove the link, or make what it points to")


def sync_folder(folder: int) -> None:
    """Make what was done to names in a folder durable; `folder` may be an O_PATH descriptor, which
    fsync(2) refuses.
    """
    again = os.open(".", _FOLDER, dir_fd=folder)
    try:
        os.fsync(again)
    finally:
        close(again)


def _make_folders(found: ResolvedPath, names: tuple[str, ...], wanted: int) -> int:
    """A descriptor of the innermost of `names` below what was found, all made and on disk. Of
    root's folders only hosttune's own can be private: an image without /var gets it and /var/lib as
    distributions have them.
    """
    folder = os.open(".", _FOLDER, dir_fd=found.parent)
    is_own = os.geteuid() != 0 or _OWN in found.names or _OWN not in names
    for name in names:
        is_own = is_own or name == _OWN
        mode = wanted if is_own else _MODE
        try:
            inner = _make_in(folder, name, mode)
        finally:
            close(folder)
        folder = inner
    return folder


def _make_in(folder: int, name: str, mode: int) -> int:
    """A descriptor of a new folder in an open one, on disk. The owner of that one can put another
    folder in its place before it is opened, or mount a file system there whose server never
    answers: what is not as it was just made is left as it is, and a mount is not asked for
    anything. Raises Refused, OSError.
    """
    os.mkdir(name, mode, dir_fd=folder)
    inner = open_in(folder, name)
    message = f"{name} was exchanged for another folder as soon as it was made"
    exchanged = Refused(message, hint="look who can write the folder that it is in")
    if inner is None:
        raise exchanged
    try:
        if os.fstat(inner).st_uid != os.geteuid() or names_in(inner, 1)[0]:
            raise exchanged
        os.fchmod(inner, mode)  # whatever the umask is
        os.fsync(folder)
    except BaseException:
        close(inner)
        raise
    return inner


def open_in(folder: int, name: str) -> int | None:
    """A descriptor of a folder in an open one; None where something is mounted there, which is not
    asked for anything: the server of a user may never answer. Raises OSError.
    """
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        ids = {mount_id(place), mount_id(folder)}
        # Without /proc both are empty, as in a chroot, and the two cannot be compared.
        if len(ids) > 1 and "" in ids:
            raise OSError(errno.EIO, "the mount that it is on is not known")
        return os.open(".", _FOLDER, dir_fd=place) if len(ids) == 1 else None
    finally:
        close(place)


def _refuse_untrusted(
    found: ResolvedPath, root: str, *, is_output: bool = False, owner: int = 0
) -> None:
    """Root follows no folder or link that someone else could swap for another between two steps.

    A sticky folder (/tmp) may be passed, because only its owner replaces an entry there, but not
    written in, unless `is_output`; then a folder of others is passed, too, where a real folder of
    root's follows (`host/writing/output.py`). The top of an alternate root may belong to the user
    who unpacked it: the walk cannot leave it. `owner`: hosttune acts with the rights of this user,
    and what is theirs is followed as what is root's.
    """
    if os.geteuid() != owner:
        return
    writer = _name_writer(owner)
    last = len(found.visited) - 1
    hint = _ONLY_ROOTS
    for number, (path, info) in enumerate(found.visited):
        if number == 0 and root != "/":
            continue
        if is_output and number < last and _leads_to_roots(path, info, *found.visited[number + 1]):
            continue
        if info.st_uid not in {0, owner}:
            message = (
                f"{writer} does not write through {path}, because it "
                f"{found.mounters.ownership(info)}"
            )
            raise Refused(message, hint=hint)
        if stat_module.S_ISLNK(info.st_mode):
            continue
        by_group = info.st_mode & stat_module.S_IWGRP and not _is_own_group(owner, info.st_gid)
        others = info.st_mode & stat_module.S_IWOTH or by_group
        is_open = others or path in found.open_by_acl
        is_sticky = info.st_mode & stat_module.S_ISVTX
        if is_open and not (is_sticky and (number != last or is_output)):
            who = hint if others else f"see who can: getfacl {quote(path)}"
            raise Refused(f"{writer} does not write in {path}, because others can", hint=who)


def _name_writer(owner: int) -> str:
    return f"uid {owner}" if owner else "root"


class WritersMounters(UnaskedMounters):
    """Says what root writes nothing through."""

    def _make_refusal(self, fd: int, uid: int) -> Exception:
        path = os.readlink(f"/proc/self/fd/{fd}")
        why = f"it is on a file system mounted by uid {uid}"
        return Refused(
            f"{_name_writer(self._owner)} does not write through {path}, because {why}",
            hint=_ONLY_ROOTS,
        )


def stat_entry(folder: int, name: str, owner: int = 0) -> os.stat_result:
    """stat(2) of a name in an open folder, not followed. Raises Refused where a user other than the
    `owner` mounted a file system on it, OSError as stat(2).
    """
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mounters = WritersMounters(owner)
        mounters.look(folder)
        return mounters.look(place)
    finally:
        close(place)


def _is_own_group(owner: int, group: int) -> bool:
    if owner == 0:
        return group == 0
    from hosttune.host.processes.code_owner import is_group_of

    return is_group_of(owner, group)


def _leads_to_roots(path: str, info: os.stat_result, below: str, inner: os.stat_result) -> bool:
    """Whether `below` is a real folder of root's directly in the folder `path`, on the same file
    system: one that a user mounts there (FUSE) says of itself whose it is.
    """
    is_folder = stat_module.S_ISDIR(info.st_mode) and stat_module.S_ISDIR(inner.st_mode)
    is_direct = os.path.dirname(below) == path
    return is_folder and is_direct and inner.st_uid == 0 and inner.st_dev == info.st_dev


def make_folder(root: str, path: str) -> None:
    """Make one folder (0755, root), durably. Raises Refused when it cannot be made, or its parent
    is missing.
    """
    with opened_parent(root, path) as (parent, name):
        try:
            close(_make_in(parent, name, _MODE))
        except OSError as error:
            raise Refused(f"{path} cannot be made: {error.strerror}") from None


def remove_folder(root: str, path: str) -> None:
    """Remove one empty folder, durably. Raises Refused when it is not empty, is mounted on, or
    cannot be removed.
    """
    with opened_parent(root, path) as (parent, name):
        try:
            os.rmdir(name, dir_fd=parent)
            os.fsync(parent)
        except OSError as error:
            why = {
                errno.ENOTEMPTY: "it is not empty",
                errno.EBUSY: "something is mounted on it, or works in it",
            }
            raise Refused(f"{path} stays: {why.get(error.errno or 0, error.strerror)}") from None
