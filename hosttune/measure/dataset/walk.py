"""All names below a path, folder by folder, with memory that does not grow with them.

Folders are opened with O_NOATIME where that is allowed (open(2): to their owner and to root), so
that even the look moves no atime. A folder that is elsewhere than its path says is gone: someone
put a link in between. scandir gets a descriptor: then it makes no path for each name.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from hosttune.errors import HosttuneError
from hosttune.host.reading.bounded import own_mounts
from hosttune.host.reading.mountinfo import parse
from hosttune.host.reading.named import require_answer, served_mounts
from hosttune.host.reading.tree import open_live_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHUNK: Final = 1024
_OPEN_LEVELS: Final = 64  # folders whose reading waits for one below: two descriptors each
_EXAMPLES: Final = 3
# a server of files that does not open a folder within this time is taken for dead
_SERVER_S: Final = 2.0
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Seen:
    """What was met besides files: numbers, and a few paths as examples."""

    def __init__(self) -> None:
        self.folders = 0
        self.links = 0  # symbolic links to files, which count as files
        self.dangling = 0
        self.special = 0  # sockets, pipes, devices
        self.unreadable = 0
        self.lost_and_found = 0  # of them, fsck(8)'s own, which hold no data of anybody's
        self.unreadable_paths: list[str] = []
        self.reason = ""  # of the first unreadable folder
        self.linked_folders = 0
        self.linked_paths: list[str] = []
        self.mounts: list[str] = []  # other file systems, that were not entered
        self.mounts_count = 0
        self.moved_folders = 0  # folders whose atime the look has moved

    def refuse(self, path: str, error: OSError) -> None:
        self.unreadable += 1
        self.lost_and_found += path.endswith("/lost+found")
        self.reason = self.reason or (error.strerror or str(error))
        _keep_example(self.unreadable_paths, path)


class Walk:
    """`chunks` yields (folder, entries) for files; symbolic links to files are among them. Without
    entries where none of many names is a file, so that who takes them can end the walk.

    With `follow` it also goes into other file systems and behind links to folders, each place once.
    """

    def __init__(self, path: str, *, follow: bool = False) -> None:
        self.root = path
        self.seen = Seen()
        self._follow = follow
        self._device = -1
        # a heap of places that links lead to, visited after the rest
        self._behind: list[tuple[int, str]] = []
        self._noted: set[str] = set()  # all that were ever in it
        self._roots: set[str] = set()
        self._above_roots: set[str] = set()
        self._add_root(path)
        # A stat of a dead server hangs in the kernel, so a mount that is served is known by its
        # path before anything touches it.
        self._served: dict[str, bool | None] = dict.fromkeys(
            one for one in served_mounts() if one != path
        )  # target -> whether it answers

    def chunks(self) -> Iterator[tuple[str, Sequence[os.DirEntry[str]]]]:
        """Raises HosttuneError where the first folder cannot be read; whatever else cannot is
        counted.
        """
        yield from self._tree(self.root)
        while self._behind:
            # the shortest: what is below another one of them is in that
            _, place = heappop(self._behind)
            # Neither twice, nor from above: a link to a folder over one that was visited would
            # count that again.
            is_in = not self._roots.isdisjoint(_with_parents(place))
            if not is_in and place not in self._above_roots:
                self._add_root(place)
                yield from self._tree(place)
            elif not is_in:
                self.seen.linked_folders += 1
                _keep_example(self.seen.linked_paths, place)
            yield place, ()

    def _add_root(self, place: str) -> None:
        self._roots.add(place.rstrip("/"))
        self._above_roots.update(_with_parents(place))

    def _tree(self, top: str) -> Iterator[tuple[str, Sequence[os.DirEntry[str]]]]:
        stack = [folder] if (folder := self._open(top)) else []
        try:
            while stack:
                folder = stack[-1]
                # Deep before wide, so that the names of one folder are not all held; from 64 open
                # levels on, a folder is read to its end and closed before the next level.
                if folder.below and (folder.is_read or len(stack) < _OPEN_LEVELS):
                    if below := self._open(f"{folder.path.rstrip('/')}/{folder.below.pop()}"):
                        stack.append(below)
                elif entries := self._next(folder):
                    files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
                    if len(files) != len(entries):
                        files += self._others(folder, entries)
                    yield folder.path.rstrip("/"), files
                elif not folder.below:
                    stack.pop()
        finally:
            for folder in stack:
                folder.close()

    def _open(self, path: str) -> _Folder | None:
        """None for a folder that is gone, is none any more, may not be read, or is on another file
        system.
        """
        if path in self._served and not (self._follow and self._has_answer(path)):
            if not self._follow:
                self.seen.mounts_count += 1
                _keep_example(self.seen.mounts, path)
            return None
        try:
            fd, has_kept = open_quietly(path, _FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if path == self.root:
                raise HosttuneError(
                    f"{path}: cannot be read: {error.strerror}", hint="check the rights"
                ) from None
            self.seen.refuse(path, error)
            return None
        try:
            device = os.fstat(fd).st_dev
            if self._device < 0:
                self._device = device
            # Someone may put a link where a folder was between its name and its opening.
            elif not _is_at(fd, path):
                os.close(fd)
                return None
            # A subvolume of btrfs has a device number of its own and belongs to the set, so the
            # mount table decides.
            elif device != self._device and not self._follow and _is_mount(path):
                self.seen.mounts_count += 1
                _keep_example(self.seen.mounts, path)
                os.close(fd)
                return None
            self.seen.folders += 1
            return _Folder(path, fd, None if has_kept else self.seen)
        except OSError as error:
            os.close(fd)
            self.seen.refuse(path, error)
            return None

    def _has_answer(self, target: str) -> bool:
        """Whether the server of another file system answers, asked once. One that does not is shown
        as unreadable.
        """
        # Asked only when the walk comes there: each dead server costs two seconds.
        if self._served[target] is None:
            try:
                require_answer(target, _SERVER_S)
                self._served[target] = True
            except OSError as error:
                self._served[target] = False
                self.seen.refuse(target, error)
        return bool(self._served[target])

    def _is_dead_link(self, path: str) -> bool:
        """Whether a link leads to a file system whose server does not answer: nothing may be asked
        about it.
        """
        if not self._served:
            return False
        try:
            # Without resolving: realpath would touch the dead server that the link leads to.
            place = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        except OSError:
            return False
        return any(not self._has_answer(one) for one in self._served if _is_below(place, one))

    def _next(self, folder: _Folder) -> list[os.DirEntry[str]]:
        try:
            entries = list(islice(folder.entries, CHUNK)) if not folder.is_read else []
        except OSError as error:  # a disk or a server that fails in the middle
            self.seen.refuse(folder.path, error)
            entries = []
        if not entries:
            folder.close()
        return entries

    def _others(self, folder: _Folder, entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
        """What is no plain file: folders are noted for later, links to files returned."""
        files = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not is_of_hub(f"{folder.path.rstrip('/')}/{entry.name}"):
                    folder.below.append(entry.name)
            elif entry.is_symlink():
                path = f"{folder.path.rstrip('/')}/{entry.name}"
                if self._is_dead_link(path):
                    self.seen.dangling += 1
                    continue
                try:
                    _find_place(path)
                except PermissionError as error:
                    self.seen.refuse(path, error)
                    continue
                except OSError:
                    self.seen.dangling += 1
                    continue
                with suppress(OSError):
                    if entry.is_file():
                        self.seen.links += 1
                        files.append(entry)
                        continue
                self._link(folder, entry)
            elif not entry.is_file(follow_symlinks=False):
                self.seen.special += 1
        return files

    def _link(self, folder: _Folder, entry: os.DirEntry[str]) -> None:
        """A link to a folder, to nothing, or to a device. One that leads back into the data set is
        no news.
        """
        path = f"{folder.path.rstrip('/')}/{entry.name}"
        try:
            if not entry.is_dir():
                is_something = os.path.exists(path)
                self.seen.special += is_something
                self.seen.dangling += not is_something
                return
            place = _find_place(path)
        except OSError:
            self.seen.dangling += 1
            return
        if _is_below(place, self.root):
            return
        if self._follow:
            if place not in self._noted:
                self._noted.add(place)
                heappush(self._behind, (len(place), place))
        else:
            self.seen.linked_folders += 1
            _keep_example(self.seen.linked_paths, path)


class _Folder:
    """An open folder. `seen` is called when its atime has moved; None where it cannot."""

    def __init__(self, path: str, fd: int, seen: Seen | None) -> None:
        self.path = path
        self.fd = fd
        self.below: list[str] = []
        self.is_read = False
        self._seen = seen
        self._atime = os.fstat(fd).st_atime_ns if seen else 0
        self.entries = os.scandir(fd)

    def close(self) -> None:
        if not self.is_read:
            self.is_read = True
            self.entries.close()
            if self._seen and os.fstat(self.fd).st_atime_ns != self._atime:
                self._seen.moved_folders += 1
            os.close(self.fd)


def is_of_hub(folder: str) -> bool:
    """Whether a folder is blobs/ of the cache of Hugging Face: links in snapshots/ beside it name
    its files, which have hashes for names (huggingface_hub, "Understand caching").
    """
    above, _, name = folder.rpartition("/")
    return name == "blobs" and os.path.isdir(f"{above}/snapshots")


def open_quietly(path: str, flags: int) -> tuple[int, bool]:
    """(descriptor, whether no atime will move). Raises OSError."""
    try:
        return os.open(path, flags | os.O_NOATIME), True
    except PermissionError:  # EPERM: someone else's; EACCES comes again
        return os.open(path, flags), False


def open_regular(path: str, flags: int) -> tuple[int, bool]:
    """As `open_quietly`, but nothing is opened that is not a regular file: to open a device as root
    may already do something (a watchdog, a tape). With O_NOFOLLOW no link on the way is followed
    either; without it, root follows one of a user to what that user may read. Raises OSError.
    """
    is_root = os.geteuid() == 0 and not flags & os.O_NOFOLLOW
    found = (
        open_live_place(path)
        if is_root
        else os.open(path, os.O_PATH | os.O_CLOEXEC | flags & os.O_NOFOLLOW)
    )
    try:
        is_there = not flags & os.O_NOFOLLOW or _is_at(found, path)
        if not is_there or not stat.S_ISREG(os.fstat(found).st_mode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        # Opened through the descriptor that was checked; by its path another file could be there by
        # now.
        return open_quietly(f"/proc/self/fd/{found}", flags & ~os.O_NOFOLLOW)
    finally:
        os.close(found)


def _find_place(path: str) -> str:
    """Where a path leads. Raises OSError: EPERM where root would go behind a link of a user to what
    that user may not enter or read.
    """
    if os.geteuid():
        return os.path.realpath(path)
    place = open_live_place(path)
    try:
        return os.readlink(f"/proc/self/fd/{place}")
    finally:
        os.close(place)


def _is_at(fd: int, path: str) -> bool:
    """Whether what is open has this path, without a link on the way but one of our own descriptors
    (proc_pid_fd(5)).
    """
    return path.startswith(f"/proc/{os.getpid()}/fd/") or os.readlink(f"/proc/self/fd/{fd}") == path


def _is_mount(path: str) -> bool:
    """Whether another file system is mounted there; a subvolume of btrfs only has a device number
    of its own.
    """
    with suppress(OSError):
        return any(mount.target == path for mount in parse(own_mounts()))
    return True


def _with_parents(path: str) -> Iterator[str]:
    """A folder and all above it, without a slash at their ends; `/` is empty."""
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _keep_example(examples: list[str], path: str) -> None:
    if len(examples) < _EXAMPLES:
        examples.append(path)


def one_file(path: str) -> tuple[str, Sequence[os.DirEntry[str]]] | None:
    """A path that is one file, as `chunks` would yield it; None for a folder.

    Raises HosttuneError for what is neither, or is not there.
    """
    try:
        info = os.stat(path)
    except OSError as error:
        reason = (
            "does not exist"
            if isinstance(error, FileNotFoundError)
            else f"cannot be read: {error.strerror}"
        )
        raise HosttuneError(
            f"{path}: {reason}", hint="name a folder of data, or one file"
        ) from None
    if stat.S_ISDIR(info.st_mode):
        return None
    if not stat.S_ISREG(info.st_mode):
        raise HosttuneError(
            f"{path}: is neither a folder nor a file", hint="name a folder of data, or one file"
        )
    folder, _, name = path.rpartition("/")
    return folder, (_One(name, info),)  # type: ignore[return-value]


class _One:
    """The one file that was named, where a folder would have given a DirEntry."""

    def __init__(self, name: str, info: os.stat_result) -> None:
        self.name = name
        self._info = info

    def inode(self) -> int:
        return self._info.st_ino

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002 - the path has none left
        return self._info
