"""Looking at files below one root; what the live host and an alternate root have in common."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from hosttune.errors import Refused
from hosttune.host.door import Completed, FileType, Space, Stat, Usage
from hosttune.host.reading.bounded import MOST_NAMES, PROCESS_FILE, names_in, read_head, read_mounts
from hosttune.host.reading.effort import count_content
from hosttune.host.reading.mounters import Mounters, UnaskedMounters, mounter_of
from hosttune.host.reading.named import served_mounts
from hosttune.host.reading.paths import ResolvedPath, is_plain, open_place, open_without_links, walk
from hosttune.lines import LineNumbers
from hosttune.numbers import say_limit
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent, Answer, TooLong, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

LIMIT = 64 << 20  # the largest file that `read` returns, in bytes
OTHERS_LIMIT = 1 << 20  # and of the running host the largest one that others own or can write
# A real one has less than 4 KiB. `distro` takes the square of a word's length.
OS_RELEASE_LIMIT = 8 << 10
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FLOCK = "hhqqi0q"  # struct flock of fcntl(2): l_type, l_whence, l_start, l_len, l_pid
_TYPES: Mapping[int, FileType] = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFBLK: "block",
    stat.S_IFCHR: "character", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket",
}  # fmt: skip
# The last three are of a process that ended, or a device that went away, after its file was found.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV, errno.ENXIO})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
# a link there is the kernel's, unless a process chose where it leads
_OF_THE_KERNEL = ("/proc/", "/sys/")
_CHOSEN = frozenset({"..", "root", "cwd", "exe", "fd", "map_files"})
# process 1 is root's, and its mounts are those of the host
_OF_A_PROCESS = regex(r"/proc/(?!1/)[0-9]+/(.+)")
_OF_MOUNTS = regex(r"/proc/[^/]+/mountinfo\Z")


class ElsewhereError(OSError):
    """A path leads to what is not looked at there; `answer` says why."""

    def __init__(self, answer: Unreadable) -> None:
        super().__init__(errno.EXDEV, answer.reason)
        self.answer = answer


def explain_failure(error: OSError, path: str) -> Absent | Unreadable:
    """What a failed look means: not there, forbidden, or broken."""
    if isinstance(error, ElsewhereError):
        return error.answer
    if error.errno in _GONE:
        return ABSENT
    # With root's rights this is a security module or a server, and `sudo` would be a wrong way out.
    if error.errno in _FORBIDDEN and os.geteuid() != 0:
        return Unreadable(f"needs root: permission denied on {path}")
    if error.errno == errno.ELOOP:
        return Unreadable(f"too many symbolic links in {path}")
    return Unreadable(f"{path}: {error.strerror or error}")


def _is_of_the_kernel(path: str) -> bool:
    return path.startswith(_OF_THE_KERNEL) and _CHOSEN.isdisjoint(path.split("/"))


def to_stat(info: os.stat_result) -> Stat:
    return Stat(
        type=_TYPES.get(stat.S_IFMT(info.st_mode), "file"), mode=stat.S_IMODE(info.st_mode),
        uid=info.st_uid, gid=info.st_gid, size=info.st_size, mtime_ns=info.st_mtime_ns,
        device=info.st_dev, inode=info.st_ino, links=info.st_nlink, rdev=info.st_rdev,
    )  # fmt: skip


def read_all(fd: int, limit: int = LIMIT) -> bytes | None:
    """Everything from a descriptor, or None when there is more than `limit`. Kernel files have size
    0, so read on.
    """
    content, is_whole = read_head(fd, limit)
    return content if is_whole else None


class Stranger(NamedTuple):
    """A file, folder or link in which others than root have a say, and by what."""

    path: str  # without links; inside the root
    right: str  # "uid 1000", "mode 0666"

    def __str__(self) -> str:
        return f"{self.path} can be written by others ({self.right})"


def _find_stranger(found: ResolvedPath, path: str, info: os.stat_result) -> Stranger | None:
    """Who besides root could change this file, folder or link; in a sticky folder only an entry's
    owner can.
    """
    if info.st_uid != 0:
        return Stranger(path, found.mounters.ownership(info).removeprefix("belongs to "))
    is_safe = stat.S_ISLNK(info.st_mode) or (
        stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX
    )
    if info.st_mode & 0o022 and not is_safe:
        return Stranger(path, f"mode {stat.S_IMODE(info.st_mode):04o}")
    return None


def _live_status(path: str, *, follow: bool) -> os.stat_result:
    """stat(2) by the kernel's own walk, with the owner that counts (host/reading/mounters.py). What
    says that it is root's is looked at again on another file system than that of `/`; below /proc
    and /sys only the kernel says that.

    EIO is the word of the file system at `path`, and of no other: what a user mounted there, or on
    the way, may say it.
    """
    if _is_of_the_kernel(path):
        return os.stat(path, follow_symlinks=follow)
    try:
        fd = open_live_place(path, follow=follow)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise ElsewhereError(Unreadable(f"{path}: {error.strerror} on the way there")) from error
    try:
        info = os.fstat(fd)
        return info if info.st_uid or info.st_dev == os.stat("/").st_dev else Mounters().look(fd)
    except OSError as error:
        if error.errno != errno.EIO or not (uid := mounter_of(fd)):
            raise
        words = f"the file system that uid {uid} mounted there does not answer"
        raise ElsewhereError(Unreadable(f"{path}: {error.strerror}: {words}")) from error
    finally:
        os.close(fd)


def open_live_place(path: str, *, follow: bool = True) -> int:
    """An O_PATH descriptor of where a path leads. What is found there is looked at by it, never
    again by the path.

    A user can put a link in place of a file or a folder while root looks. So a link of a user leads
    to what that user may read anyway: not to a file that only root may read, not into a closed
    folder, not to a mount that waits for a server.
    """
    if _is_of_the_kernel(path):
        return os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        return open_without_links(path, follow=follow)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOSYS, errno.EPERM}:
            raise
    with walk("/", path, follow=follow, avoided=served_mounts) as found:
        _require_rights(found, path)
        _require_open(found, path)
        return os.dup(found.fd if found.fd >= 0 else found.parent)


def _require_open(found: ResolvedPath, path: str) -> None:
    """Raises OSError where a link of a user leads to what only others may enter or read. Groups do
    not count: to ask for those of a user can take as long as a server of names does.
    """
    owners: set[int] = set()  # of the links so far
    for _, info in found.visited:
        if stat.S_ISLNK(info.st_mode):
            owners |= {info.st_uid} - {0, os.geteuid()}
        elif owners - {info.st_uid} and not info.st_mode & stat.S_IXOTH:
            raise OSError(
                errno.EPERM,
                f"a link of uid {min(owners)} leads into a folder that is not for all",
                path,
            )
    info = found.stat()
    if owners - {info.st_uid} and not info.st_mode & stat.S_IROTH:
        raise OSError(
            errno.EPERM, f"a link of uid {min(owners)} leads to what is not for all to read", path
        )


def _live_link(path: str) -> str:
    """readlink(2); links of users on the way count as for `open_live_place`."""
    if _is_of_the_kernel(path):
        return os.readlink(path)
    place = open_live_place(path, follow=False)
    try:
        return os.readlink("", dir_fd=place)
    finally:
        os.close(place)


def _open_place(place: int, path: str) -> int:
    """For reading what an O_PATH descriptor leads to; without /proc, as in a chroot, by its
    path.
    """
    try:
        return open_place(place, _LOOK)
    except FileNotFoundError:
        return os.open(os.path.realpath(path), _LOOK | os.O_NOFOLLOW)


class FileTree:
    """The file methods of a Reader below `root`. Nothing here opens anything for writing."""

    has_tried_packages = False

    def __init__(self, root: str) -> None:
        self.root = root
        self._is_live = root == "/"  # the kernel's own walk is right, and faster

    @property
    def is_privileged(self) -> bool:
        return os.geteuid() == 0

    def now(self) -> float:
        return time.time()

    def read(self, path: str) -> Answer[bytes]:
        if not is_plain(path):
            return _not_a_path(path)
        try:
            with self._looked_at(path) as (info, fd):
                if not stat.S_ISREG(info.st_mode):
                    what = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
                    return Unreadable(f"{path} is {what}")
                limit = self._limit_of(path, info)
                head, is_whole = (read_mounts if _OF_MOUNTS.match(path) else read_head)(fd, limit)
                content = head if is_whole else None
        except OSError as error:
            # A process whose first thread has ended, its others going on, has no namespaces any
            # more.
            is_ended = error.errno == errno.EINVAL and _OF_A_PROCESS.match(path)
            return ABSENT if is_ended else explain_failure(error, path)
        return _too_long(path, limit) if content is None else count_content(content)

    def head(self, path: str, size: int = 4) -> Answer[bytes]:
        """The first bytes of a regular file."""
        if not is_plain(path):
            return _not_a_path(path)
        try:
            with self._looked_at(path) as (info, fd):
                is_file = stat.S_ISREG(info.st_mode)
                return (
                    read_head(fd, size)[0]
                    if is_file
                    else Unreadable(f"{path} is not a regular file")
                )
        except OSError as error:
            return explain_failure(error, path)

    def lock_holder(self, path: str) -> Answer[Completed]:
        """The process that holds a write lock of fcntl(2) on a file, as F_GETLK tells it; nothing
        where none does. Its number is 0 where it is not of this PID namespace.
        """
        if not is_plain(path):
            return _not_a_path(path)
        try:
            with self._looked_at(path) as (info, fd):
                if not stat.S_ISREG(info.st_mode):
                    return Unreadable(f"{path} is not a regular file")
                found = fcntl.fcntl(
                    fd, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                )
        except OSError as error:
            return explain_failure(error, path)
        kind, _, _, _, pid = struct.unpack(_FLOCK, found)
        return Completed(0, str(max(0, pid)).encode() if kind == fcntl.F_WRLCK else b"", b"")

    def _limit_of(self, path: str, info: os.stat_result) -> int:
        """How much is read of a file: of one that an ordinary user can make long, less than that
        costs the user.
        """
        if match := _OF_A_PROCESS.match(path):
            return OTHERS_LIMIT if match[1] == "mountinfo" else PROCESS_FILE
        is_own = info.st_uid in {0, os.geteuid()} and not info.st_mode & stat.S_IWOTH
        return LIMIT if is_own else OTHERS_LIMIT

    def read_guarded(self, path: str) -> tuple[Answer[bytes], tuple[Stranger, ...]]:
        """A file as `read` gives it, and where others than root have a say in it: the folders on
        the way to it, links there, and the file.
        """
        if not is_plain(path):
            return _not_a_path(path), ()
        try:
            with self._walk(path) as found:
                info = found.stat()
                if not stat.S_ISREG(info.st_mode):
                    return Unreadable(f"{path} is not a regular file"), ()
                limit = self._limit_of(path, info)
                # an image's top is its unpacker's
                passed = found.visited if self._is_live else found.visited[1:]
                others = [_find_stranger(found, *one) for one in (*passed, (found.canonical, info))]
                fd = found.open_file(_LOOK)
                try:
                    content = read_all(fd, limit)
                finally:
                    os.close(fd)
        except OSError as error:
            return explain_failure(error, path), ()
        strangers = tuple(one for one in others if one)
        return (_too_long(path, limit) if content is None else content), strangers

    @contextmanager
    def _walk(self, path: str, *, follow: bool = True) -> Iterator[ResolvedPath]:
        """The way to what is there: all that does not take the kernel's own walk comes by here."""
        avoided = served_mounts if self._is_live else tuple
        # an image may be in a folder of a user
        mounters = None if self._is_live else UnaskedMounters()
        with walk(self.root, path, follow=follow, mounters=mounters, avoided=avoided) as found:
            _require_rights(found, path)
            yield found

    @contextmanager
    def _looked_at(self, path: str) -> Iterator[tuple[os.stat_result, int]]:
        """Open a regular file or a folder for reading; other things are not opened (a watchdog
        device starts when it is), only described, with descriptor -1.
        """
        if self._is_live:
            place = open_live_place(path)
            try:
                info = os.fstat(place)
                if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
                    yield info, -1
                    return
                fd = _open_place(place, path)
            finally:
                os.close(place)
        else:
            with self._walk(path) as found:
                info = found.stat()
                if found.fd < 0:
                    fd = os.open(".", _LOOK | os.O_DIRECTORY, dir_fd=found.parent)
                elif stat.S_ISREG(info.st_mode):
                    fd = found.open_file(_LOOK)
                else:
                    yield info, -1
                    return
        try:
            yield os.fstat(fd), fd
        finally:
            os.close(fd)

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        if not is_plain(path):
            return _not_a_path(path)
        try:
            with self._looked_at(path) as (info, fd):
                if not stat.S_ISDIR(info.st_mode):
                    return Unreadable(f"{path} is not a folder")
                names, are_all = names_in(fd, MOST_NAMES)
        except OSError as error:
            return explain_failure(error, path)
        return (
            count_content(tuple(sorted(names)))
            if are_all
            else Unreadable(f"{path} holds more than {MOST_NAMES} names")
        )

    def link(self, path: str) -> Answer[str]:
        if not is_plain(path):
            return _not_a_path(path)
        try:
            if self._is_live:
                return _live_link(path)
            with self._walk(path, follow=False) as found:
                if found.fd < 0:
                    return ABSENT
                return os.readlink("", dir_fd=found.fd)
        except OSError as error:
            # EINVAL, or ENOENT for an O_PATH descriptor: there is something, but no link.
            return ABSENT if error.errno == errno.EINVAL else explain_failure(error, path)

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        if not is_plain(path):
            return _not_a_path(path)
        try:
            if self._is_live:
                return to_stat(_live_status(path, follow=follow))
            with self._walk(path, follow=follow) as found:
                return to_stat(found.stat())
        except OSError as error:
            return explain_failure(error, path)

    def resolve(self, path: str) -> Answer[str]:
        if not is_plain(path):
            return _not_a_path(path)
        try:
            if self._is_live and _is_of_the_kernel(path):
                return os.path.realpath(path, strict=True)
            with self._walk(path) as found:  # through closed folders as well: this reads no file
                return found.canonical
        except OSError as error:
            return explain_failure(error, path)

    def space(self, path: str) -> Answer[Space]:
        if not is_plain(path):
            return _not_a_path(path)
        try:
            if self._is_live:
                place = open_live_place(path)
                try:
                    info = os.statvfs(place)
                finally:
                    os.close(place)
            else:
                with self._walk(path) as found:
                    info = os.statvfs(found.fd if found.fd >= 0 else found.parent)
        except OSError as error:
            return explain_failure(error, path)
        unit = info.f_frsize
        reserved = max(0, info.f_bfree - info.f_bavail) * unit
        return Space(
            info.f_blocks * unit, info.f_bavail * unit, info.f_files, info.f_favail, reserved
        )

    def usage(self, path: str) -> Answer[Usage]:
        from hosttune.host.reading.usage import count

        if not is_plain(path):
            return _not_a_path(path)
        try:
            with self._looked_at(path) as (info, fd):
                return (
                    count(fd)
                    if stat.S_ISDIR(info.st_mode)
                    else Unreadable(f"{path} is not a folder")
                )
        except OSError as error:
            return explain_failure(error, path)

    def refused_write(self, path: str) -> Refused | None:
        from hosttune.host.writing.replace import refused_write

        return refused_write(self.root, path)

    def os_release(self) -> Answer[Mapping[str, str]]:
        for path in ("/etc/os-release", "/usr/lib/os-release"):
            content = self.read(path)
            if isinstance(content, bytes):
                return parse_os_release(content, path)
            if isinstance(content, Unreadable):
                return content
        return ABSENT


def parse_os_release(content: bytes, path: str) -> Mapping[str, str] | Unreadable:
    """os-release(5) as `distro` reads it, keys in lower case. It wants a file, so it gets one that
    is only in memory.
    """
    import distro

    if len(content) > OS_RELEASE_LIMIT:
        return Unreadable(f"{path} is larger than {say_limit(OS_RELEASE_LIMIT)}")
    fd = os.memfd_create("os-release", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        reader = distro.LinuxDistribution(
            include_lsb=False,
            os_release_file=f"/proc/self/fd/{fd}",
            distro_release_file="/dev/null",
            include_uname=False,
        )
        return dict(reader.os_release_info())
    except UnicodeDecodeError as error:
        return Unreadable(f"{path}:{LineNumbers(content).at(error.start)}: this is not UTF-8")
    except ValueError:
        return Unreadable(f"{path}:{_line_of_open_quote(content.decode())}: a quote has no end")
    finally:
        os.close(fd)


def _line_of_open_quote(text: str) -> int:
    """The number of the line with the word that does not end."""
    import shlex

    words = shlex.shlex(text, posix=True)
    words.whitespace_split = True
    number = words.lineno
    with suppress(ValueError):
        while words.get_token() is not None:
            number = words.lineno
    rest = text.split("\n")[number - 1 :]
    return number + next(
        (skipped for skipped, row in enumerate(rest) if row.strip() and row[0] != "#"), 0
    )


def _too_long(path: str, limit: int) -> Unreadable:
    return Unreadable(TooLong(f"{path} is larger than {say_limit(limit)}"))


def _require_rights(found: ResolvedPath, path: str) -> None:
    if found.missing:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _not_a_path(path: str) -> Unreadable:
    return Unreadable(f"not an absolute path: {path!r}")


def read_own(reader: Reader, path: str) -> Answer[bytes]:
    """A file that hosttune wrote for itself. With root's rights, one that someone else could have
    written is not followed: of an image, whose top folder may belong to a user, another folder can
    be there by now.
    """
    data, strangers = find_strangers(reader, path)
    return Unreadable(f"root does not follow {path}, because {strangers[0]}") if strangers else data


def find_strangers(reader: Reader, path: str) -> tuple[Answer[bytes], tuple[Stranger, ...]]:
    """The file, and where others than root could have written it, where root is about to follow
    it.
    """
    if isinstance(reader, FileTree) and reader.is_privileged:
        return reader.read_guarded(path)
    return reader.read(path), ()
