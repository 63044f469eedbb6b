"""Resolving a path inside a root without ever leaving it.

Each component is opened with O_NOFOLLOW below the folder before it, and links are followed by hand:
an absolute link starts again at the root, and `..` at the root stays there, as chroot(2) would have
it. So a link in an image that points to /etc/passwd means the image's own, and no one can swap a
folder for a link between a check and its use.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from hosttune.host.reading.mounters import Mounters
from hosttune.host.writing.attributes import is_open_by_acl

if TYPE_CHECKING:
    from typing_extensions import Self

PATH_MAX: Final = 4096  # include/uapi/linux/limits.h: what is as long, or longer, names nothing
MAX_LINKS = 40  # as the kernel: path_resolution(7)
# components that come out of the links of one walk: 40 links of 4,095 bytes would have 80,000
MAX_PARTS = 256
FOLDER_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_OPENAT2, _AT_FDCWD = 437, -100  # of every architecture (asm-generic/unistd.h)
_RESOLVE_NO_XDEV, _RESOLVE_NO_SYMLINKS = 0x01, 0x04  # linux/openat2.h
_HOW = struct.Struct("=QQQ")  # struct open_how


class HeldRoot(str):
    """The path of a folder that counts as `/`, and that folder, open: what has its path later is
    never looked at. The owner of a folder on the way could put another one, or a link, in its
    place.
    """

    __slots__ = ("fd",)
    fd: int

    def __new__(cls, path: str, fd: int) -> Self:
        held = super().__new__(cls, path)
        held.fd = fd
        return held

    def __del__(self) -> None:
        close(self.fd)


@dataclass(slots=True, eq=False, repr=False)
class ResolvedPath:
    """Where a path leads. The descriptors are closed when the `walk` that gave it ends.

    On a file system that a user mounted, that user is the owner of all, whatever it says itself
    (host/reading/mounters.py). The one that the root is on counts as root's.
    """

    names: list[str] = field(default_factory=list)  # of the folders passed, the root's own left out
    folders: list[int] = field(default_factory=list)  # O_PATH descriptors; the first is the root
    # every folder and link that had a say
    visited: list[tuple[str, os.stat_result]] = field(default_factory=list)
    # of those the folders that an ACL lets others write in
    open_by_acl: set[str] = field(default_factory=set)
    name: str = ""  # last component; "" when the path is a folder
    fd: int = -1  # O_PATH descriptor of what is not a folder
    missing: tuple[str, ...] = ()  # the components that do not exist, outermost first
    dangling: bool = False  # what is missing is what a link points to
    mounters: Mounters = field(default_factory=Mounters)

    @property
    def canonical(self) -> str:
        """The path inside the root; with the missing components at its end."""
        last = [self.name] if self.name else []
        return "/" + "/".join([*self.names, *last, *self.missing])

    @property
    def parent(self) -> int:
        """Descriptor of the deepest folder that exists: the one around a file, or the folder
        itself.
        """
        return self.folders[-1]

    def stat(self) -> os.stat_result:
        """Look at what the path leads to (stat(2)); not for a missing one."""
        return self.mounters.look(self.fd if self.fd >= 0 else self.folders[-1])

    def open_file(self, flags: int) -> int:
        """The file that was looked at; without /proc, as in a chroot, what has its name. Raises
        OSError.
        """
        try:
            return open_place(self.fd, flags)
        except FileNotFoundError:
            return os.open(self.name, flags | os.O_NOFOLLOW, dir_fd=self.parent)

    def close(self) -> None:
        for fd in [*self.folders, self.fd]:
            if fd >= 0:
                close(fd)
        self.folders, self.fd = [], -1


def inode_of(found: ResolvedPath) -> tuple[int, int]:
    """What tells the folder at the end of a walk from all others."""
    info = os.fstat(found.parent)
    return info.st_dev, info.st_ino


def link_of_user(found: ResolvedPath, trusted: Collection[int] = (0,)) -> str:
    """A link on a walk that none of the `trusted` users made; "" for others than root, who have
    their own rights.
    """
    links = (
        path
        for path, info in found.visited
        if stat.S_ISLNK(info.st_mode) and info.st_uid not in trusted
    )
    return "" if os.geteuid() else next(links, "")


def open_place(place: int, flags: int) -> int:
    """What an O_PATH descriptor leads to, opened: what was looked at, not what has its name by now.
    Raises OSError, FileNotFoundError where /proc is not mounted.
    """
    return os.open(f"/proc/self/fd/{place}", flags)


def close(fd: int) -> None:
    """Give a descriptor back. An error of that says nothing new after an fsync, and the descriptor
    is gone anyway.
    """
    with suppress(OSError):
        os.close(fd)


@cache
def _load_openat2() -> Callable[[int, str, int, int], tuple[int, int]]:
    """Calls it with a folder, a path, flags and RESOLVE flags: the descriptor, or -1 and the number
    of the error.
    """
    import ctypes  # takes its time, and a record needs none

    libc = ctypes.CDLL(None, use_errno=True)

    def call(folder: int, path: str, flags: int, resolve: int) -> tuple[int, int]:
        # Python's own calls refuse a NUL; ctypes passes it on, and the kernel would open what the
        # part before it names.
        if "\0" in path:
            return -1, errno.EINVAL
        how = _HOW.pack(flags, 0, resolve)
        fd = libc.syscall(_OPENAT2, folder, os.fsencode(path), how, len(how))
        return int(fd), ctypes.get_errno()

    return call


def open_without_links(path: str, *, follow: bool = True) -> int:
    """An O_PATH descriptor, by the kernel's own walk (openat2(2), since Linux 5.6); follow=False
    opens a link at the end itself. Raises OSError: ELOOP where another part is a link, ENOSYS or
    EPERM where this kernel, or a filter of system calls, does not have it.
    """
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    fd, number = _load_openat2()(_AT_FDCWD, path, flags, _RESOLVE_NO_SYMLINKS)
    if fd < 0:
        raise OSError(number, os.strerror(number), path)
    return fd


def open_folder_of_mount(name: str, folder: int) -> int:
    """A folder in an open folder, for reading, if nothing is mounted on it. Else OSError, EXDEV:
    the server of what a user mounts there meanwhile is not asked. Without openat2(2) it is opened
    all the same.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd, number = _load_openat2()(folder, name, flags, _RESOLVE_NO_XDEV | _RESOLVE_NO_SYMLINKS)
    if fd >= 0:
        return fd
    if number in {errno.ENOSYS, errno.EPERM}:
        return os.open(name, flags, dir_fd=folder)
    raise OSError(number, os.strerror(number), name)


@contextmanager
def walk(
    root: str,
    path: str,
    *,
    follow: bool = True,
    mounters: Mounters | None = None,
    avoided: Callable[[], Collection[str]] = tuple,
) -> Iterator[ResolvedPath]:
    """Resolve `path` inside `root`. With follow=False a link at the end is itself the result. Walks
    of one check can share `mounters`. Behind a link of another user no folder is entered that is
    `avoided`: EPERM.

    A component that does not exist ends the walk with `missing` set. Raises OSError: ELOOP for
    links that are too many or too long, ENOTDIR for a file used as a folder, EACCES where a folder
    may not be searched.
    """
    found = ResolvedPath(mounters=Mounters() if mounters is None else mounters)
    try:
        found.folders.append(
            os.dup(root.fd) if isinstance(root, HeldRoot) else os.open(root, FOLDER_PLACE)
        )
        found.mounters[os.fstat(found.folders[0]).st_dev] = 0
        _visit(found, "/", found.folders[0], found.mounters.look(found.folders[0]))
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        _follow_links(found, todo, avoided, follow=follow)
        yield found
    finally:
        found.close()


def _follow_links(
    found: ResolvedPath, todo: list[str], avoided: Callable[[], Collection[str]], *, follow: bool
) -> None:
    links = parts = 0
    barred: Collection[str] = ()
    # so many of `todo` are the path's own components; what is above them came out of a link
    own = len(todo)
    while todo:
        part = todo.pop()
        is_own = len(todo) < own
        own = min(own, len(todo))
        if part == "..":
            _leave(found)
            continue
        if barred and f"{found.canonical.rstrip('/')}/{part}" in barred:
            raise OSError(
                errno.EPERM,
                "a user's link leads to a file system that may give no answer",
                found.canonical,
            )
        try:
            # O_PATH starts no device and waits at no FIFO (open(2)): what is passed does not notice
            # it.
            fd = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.folders[-1])
        except FileNotFoundError:
            # For the kernel `missing/../x` names nothing, though the text could be shortened.
            if ".." in todo:
                raise
            found.missing = (part, *reversed(todo))
            found.dangling = not is_own
            return
        try:
            info = found.mounters.look(fd)
        except BaseException:
            close(fd)
            raise
        if stat.S_ISDIR(info.st_mode):
            found.names.append(part)
            found.folders.append(fd)
            _visit(found, found.canonical, fd, info)
        elif stat.S_ISLNK(info.st_mode) and (todo or follow):
            links += 1
            found.visited.append((found.canonical.rstrip("/") + "/" + part, info))
            # Only now: to read the table of mounts for each walk would cost more than the walk.
            barred = barred if info.st_uid in {0, os.geteuid()} else avoided()
            expanded = _expand(found, fd, links)
            parts += len(expanded)
            if parts > MAX_PARTS:
                raise OSError(errno.ELOOP, "links lead through too many folders", found.canonical)
            todo.extend(expanded)
        else:
            found.name, found.fd = part, fd
            if todo:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), found.canonical)


def _visit(found: ResolvedPath, path: str, fd: int, info: os.stat_result) -> None:
    found.visited.append((path, info))
    if is_open_by_acl(fd, info.st_mode):
        found.open_by_acl.add(path)


def _leave(found: ResolvedPath) -> None:
    if found.names:
        found.names.pop()
        close(found.folders.pop())


def _expand(found: ResolvedPath, fd: int, links: int) -> list[str]:
    """The components of a link, last first; an absolute link goes back to the root."""
    try:
        text = os.readlink("", dir_fd=fd)
    finally:
        close(fd)
    if links > MAX_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), found.canonical)
    if text.startswith("/"):
        while found.names:
            _leave(found)
    return [part for part in reversed(text.split("/")) if part not in ("", ".")]


def is_plain(path: str) -> bool:
    """True for an absolute path that can name a file at all."""
    return path.startswith("/") and "\0" not in path
