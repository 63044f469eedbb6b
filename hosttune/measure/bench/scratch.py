"""Scratch folders: made for one bench, known by a mark, gone at its end; what a kill -9 leaves is
found the next time.

A folder (0700) has an unpredictable name and holds a mark: a random token, the process, when that
began, and the boot. The state folder keeps a note of each (`scratch-TOKEN.json`), written before
the folder is made and removed after it, so a leftover is found without searching. The mark is held
by flock(2), which ends with its holder.

Everything is done by the descriptor of the folder: who may rename it meanwhile gains nothing by
that. The folder that it is made in is the one that was looked at, and root reaches it by no link of
another user.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.host.reading.bounded import head_of, head_text
from hosttune.host.reading.paths import inode_of, link_of_user, walk
from hosttune.host.writing.folders import WritersMounters, open_in
from hosttune.measure.bench import state
from hosttune.measure.bench.place import Place
from hosttune.measure.bench.signals import hold_back_signals

PREFIX = ".hosttune-bench-"
MARK = "mark.json"
NOTE = "scratch-"
_FORMAT = 1
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@frozen
class ScratchMark:
    """Who made a scratch folder, and where."""

    token: str
    path: str
    pid: int
    started: str  # of that process, in ticks after the boot (proc_pid_stat(5), field 22)
    boot_id: str

    def to_json(self) -> bytes:
        return json.dumps(
            {"format_version": _FORMAT, **{key: getattr(self, key) for key in _KEYS}}
        ).encode()


_KEYS = ("token", "path", "pid", "started", "boot_id")


@frozen
class Leftover:
    """What a bench that was killed has left. `name` is its note in the state folder."""

    name: str
    path: str


@contextmanager
def make_scratch(place: Place, where: str = "") -> Iterator[tuple[int, str]]:
    """A new folder on the file system of `place`: its descriptor and its path. `where` is the state
    folder.

    Raises HosttuneError where this user may not write on that file system.
    """
    import secrets

    parent, path = _opened_parent(place)
    # Unpredictable, because the folder above may be writable for everyone (/var/tmp), and a known
    # name could be taken first.
    token = secrets.token_hex(16)
    name = f"{PREFIX}{token[:16]}"
    mark = ScratchMark(
        token, os.path.join(path, name), os.getpid(), _read_start(os.getpid()), _boot_id()
    )
    note = f"{NOTE}{token[:16]}.json"
    fd = held = -1
    try:
        with hold_back_signals():
            # The note comes first: a kill between the two leaves a note without a folder, which is
            # found and dropped. The other order would leave a folder that no one knows of.
            state.save(note, mark.to_json(), where)
            fd = _make_folder(parent, name, mark)
            held = _write_mark(fd, mark)
        yield fd, mark.path
    finally:
        with hold_back_signals(), ExitStack() as closing:
            for one in (parent, fd, held):
                closing.callback(_close, one)
            if fd >= 0:
                _empty_folder(fd)
                _remove_folder(parent, name, fd)
            # The note stays while the folder does, so that the next bench or `bench clean` can try
            # again.
            if not _is_there(parent, name):
                state.remove(note, where)


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)


def _make_folder(parent: int, name: str, mark: ScratchMark) -> int:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        fd = open_in(parent, name)
    except OSError as error:
        raise HosttuneError(f"{mark.path} cannot be made: {error.strerror}") from error
    # The owner of the folder above may have put another one there since: their own, a mount that
    # says it is ours, or one with things in it.
    if fd is None or not _is_private(fd) or os.listdir(fd):
        _close(-1 if fd is None else fd)
        raise HosttuneError(f"{mark.path} was exchanged for another folder while it was made")
    return fd


def _is_private(fd: int) -> bool:
    """Whether an open folder is of this user, and closed to others."""
    info = os.fstat(fd)
    return info.st_uid == os.geteuid() and stat.S_IMODE(info.st_mode) & 0o777 == 0o700


def find_leftovers(where: str = "") -> tuple[Leftover, ...]:
    """What earlier benches left that are not running any more. Notes about folders that are gone
    are forgotten.
    """
    found = []
    for name in state.list_names(NOTE, where):
        mark = _parse_mark(state.load(name, where))
        if mark is None or _is_running(mark):
            continue
        try:
            with _opened_leftover(mark):
                pass
        except FileNotFoundError:
            state.remove(name, where)
            continue
        except HosttuneError:  # a user has mounted something on the way: it may come back
            pass
        found.append(Leftover(name, mark.path))
    return tuple(found)


def clean(leftover: Leftover, where: str = "") -> bool:
    """Take away what a killed bench left. False where it is not (or no longer) ours to take
    away.
    """
    mark = _parse_mark(state.load(leftover.name, where))
    if mark is None or _is_running(mark):
        return False
    name = os.path.basename(mark.path)
    try:
        with _opened_leftover(mark) as (parent, fd):
            _empty_folder(fd)
            _remove_folder(parent, name, fd)
            if _is_there(parent, name):
                return False
    except (FileNotFoundError, HosttuneError):
        return False
    state.remove(leftover.name, where)
    return True


def _opened_parent(place: Place) -> tuple[int, str]:
    """The folder to make it in: the top of the file system, else the first below it on the way that
    may be written in.

    Not the data set's own folder, if it can be helped: a job that lists it would see the scratch
    copies.
    """
    top = place.target.rstrip("/")
    below = [name for name in place.path[len(top) :].split("/") if name]
    ways = [top or "/", *("/".join([top, *below[:count]]) for count in range(1, len(below) + 1))]
    if ways[0] == "/":
        # Scratch files do not belong into the root folder while /var/tmp is on its file system.
        ways.insert(0, "/var/tmp")
    if place.link:
        hint = f"name the folder without it: {place.path}"
        raise HosttuneError(
            f"root does not write behind {place.link}, a link of another user", hint=hint
        )
    for way in ways:
        with suppress(OSError), walk("/", way) as found:
            # Each way is walked without links of others: root must not be led to write elsewhere by
            # the owner of a folder on the way.
            is_there = not found.missing and not found.name and not link_of_user(found)
            if way == place.path and inode_of(found) != place.inode:
                raise HosttuneError(
                    f"{way} was exchanged for another folder after it was looked at"
                )
            if is_there and _mount_id(found.parent) == place.mount_id and _may_write(found.parent):
                return os.dup(found.parent), found.canonical
    raise HosttuneError(
        f"no folder that this user may write in on {place.target} to put scratch copies into",
        hint="name a folder that you may write in, or run it as root",
    )


def _may_write(folder: int) -> bool:
    return os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True)


def _mount_id(fd: int) -> int:
    from hosttune.host.writing.attributes import mount_id

    number = mount_id(fd)
    return int(number) if number else -1


def _write_mark(folder: int, mark: ScratchMark) -> int:
    """The descriptor that holds the mark until this process ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(MARK, flags, 0o600, dir_fd=folder)
    # Written before the lock is taken: a mark that is empty or unlocked belongs to a bench that
    # died here, and `_is_marked` takes both into account.
    os.write(fd, mark.to_json())
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def _parse_mark(content: bytes | None) -> ScratchMark | None:
    """The mark in a file; None for anything else."""
    with suppress(ValueError, KeyError, TypeError):
        data = json.loads(content or b"")
        if data["format_version"] == _FORMAT:
            mark = ScratchMark(*(data[key] for key in _KEYS))
            texts = (mark.token, mark.path, mark.started, mark.boot_id)
            if (
                all(type(text) is str for text in texts)
                and type(mark.pid) is int
                and mark.path.startswith("/")
            ):
                return mark
    return None


def _is_running(mark: ScratchMark) -> bool:
    return (
        # A process number says nothing after a boot, and its start time only within one.
        mark.boot_id == _boot_id() and bool(mark.started) and _read_start(mark.pid) == mark.started
    )


@contextmanager
def _opened_leftover(mark: ScratchMark) -> Iterator[tuple[int, int]]:
    """The folder above that of a mark, and that one, open. Raises FileNotFoundError where it is not
    there, not ours, or held by a running bench; HosttuneError where a user has mounted something on
    the way, which is not asked.

    The process of the mark may live in another process namespace, so its lock is asked as well.
    """
    above, name = os.path.split(mark.path)
    gone = FileNotFoundError(mark.path)
    if not name.startswith(PREFIX):
        raise gone
    try:
        # A user who may write on the way can mount a server there that never answers; such a place
        # is not entered.
        with walk("/", above, mounters=WritersMounters()) as found:
            if found.missing or found.name:
                raise gone
            parent = found.parent
            fd = open_in(parent, name)
            if fd is None:
                raise HosttuneError(f"{mark.path}: something is mounted there")
            try:
                if not _is_private(fd) or not _is_marked(fd, mark):
                    raise gone
                yield parent, fd
            finally:
                os.close(fd)
    except OSError as error:
        raise gone from error


def _is_there(folder: int, name: str) -> bool:
    """Whether an open folder has this name. What may be mounted there is not asked."""
    try:
        os.close(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
    except OSError as error:
        return error.errno != errno.ENOENT
    return True


def _is_marked(folder: int, mark: ScratchMark) -> bool:
    try:
        fd = os.open(
            MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
    # killed between mkdir and the mark, or after it was emptied: then nothing is in it
    except FileNotFoundError:
        return not os.listdir(folder)
    except OSError:
        return False
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
            return False
        content = os.read(fd, 4096)
        # killed before it was written: then it is all there is
        if _parse_mark(content) != mark if content else os.listdir(folder) != [MARK]:
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _empty_folder(folder: int) -> None:
    """Remove all that is in an open folder, links as links, and nothing on another file system. The
    mark goes last.
    """
    device = os.fstat(folder).st_dev
    for _, folders, files, fd in os.fwalk(".", topdown=False, follow_symlinks=False, dir_fd=folder):
        # fwalk follows no links, but it does descend into mounts: what a user mounted inside must
        # not be emptied by root.
        if os.fstat(fd).st_dev != device:
            continue
        for name in files:
            if name != MARK:
                os.unlink(name, dir_fd=fd)
        for name in folders:
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if info.st_dev != device:
                continue
            if stat.S_ISDIR(info.st_mode):
                os.rmdir(name, dir_fd=fd)
            else:
                os.unlink(name, dir_fd=fd)
    with suppress(FileNotFoundError):
        os.unlink(MARK, dir_fd=folder)


def _remove_folder(parent: int, name: str, fd: int) -> None:
    """Remove the emptied folder, if it still has its name."""
    with suppress(OSError):
        there = open_in(parent, name)
        if there is None:
            return
        try:
            # rmdir goes by name, and the owner of the folder above may have put another one there.
            if os.path.sameopenfile(there, fd):
                os.rmdir(name, dir_fd=parent)
        finally:
            os.close(there)


def _boot_id() -> str:
    return head_of(_BOOT_ID)[0].decode("ascii").strip()


def _read_start(pid: int) -> str:
    """When a process began, in ticks after the boot; "" where there is none."""
    try:
        # The name of a process may hold blanks and parentheses, so fields count from the last one
        # on.
        return head_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except IndexError:
        return ""
