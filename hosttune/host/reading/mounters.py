"""Who mounted a file system: on one that a user mounted, the owners of files are that user's word.

A FUSE server says whose each file is; the kernel prints who mounted it as `user_id`
(Documentation/filesystems/fuse). On a stick or an image that udisks2 or mount(8) mounted for a
user, that user wrote the owners; libmount notes it in /run/mount/utab, as `uhelper=` and `user=`
(mount(8), "Non-superuser mounts"). Below some maps of autofs (-hosts, auto.net, `* &:/export`) a
user chooses the server, which says whose each file is.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from typing import Final, cast

from hosttune.host.reading.bounded import head_of, own_mounts
from hosttune.host.reading.mountinfo import (
    decode,
    find_by_id,
    ids_of_any_server,
    may_have_any_server,
    parse,
)
from hosttune.host.writing.attributes import mount_id

NOBODY: Final = 65534  # in place of a user who is not known
UTAB: Final = "/run/mount/utab"
_MOST: Final = 4 << 20  # bytes
# below them a folder with the name of the user (udisks(8))
_OF_UDISKS: Final = ("/media/", "/run/media/")


class Mounters(dict[int, int]):
    """Who mounted the file systems that one check meets: st_dev -> user id. Not kept for longer,
    because the kernel gives the number of one that is gone to another one.
    """

    def look(self, fd: int) -> os.stat_result:
        """fstat(2), with the owner that counts. Raises OSError."""
        info = os.fstat(fd)
        if info.st_dev not in self:
            self[info.st_dev] = mounter_of(fd)
        return self.set_owner(info)

    def set_owner(self, info: os.stat_result) -> os.stat_result:
        """The same for a file on a file system that is known here."""
        if not (uid := self[info.st_dev]):
            return info
        _, (fields, more) = cast(
            "tuple[object, tuple[tuple[int, ...], dict[str, object]]]", info.__reduce__()
        )
        # st_uid is the fifth; a stat_result cannot be changed, and `more` has the times in
        # nanoseconds.
        return os.stat_result((*fields[:4], uid, *fields[5:]), more)

    def ownership(self, info: os.stat_result) -> str:
        """Why a file is that user's: `belongs to uid 1000`."""
        return (
            f"{'is on a file system mounted by' if self[info.st_dev] else 'belongs to'} uid "
            f"{info.st_uid}"
        )


class UnaskedMounters(Mounters):
    """Refuses a file system that a user mounted before it is asked for anything. Its server may
    never answer, not even fstat(2), and no signal ends that wait. The mount table tells who mounted
    it (proc_pid_fdinfo(5), mnt_id).
    """

    def __init__(self, owner: int = 0) -> None:
        super().__init__()
        self._owner = owner
        self._mounts: set[str] = set()  # that may be asked

    def look(self, fd: int) -> os.stat_result:
        if os.geteuid() == self._owner and (number := mount_id(fd)) not in self._mounts:
            # what the walk begins in counts as root's: an image may be on whatever file system
            if self._mounts and (uid := mounter_of(fd)) not in {0, self._owner}:
                raise self._make_refusal(fd, uid)
            self._mounts.add(number)
        return super().look(fd)

    def _make_refusal(self, fd: int, uid: int) -> Exception:
        return OSError(
            errno.EPERM, f"is on a file system mounted by uid {uid}, which is not asked", str(fd)
        )


def mounter_of(fd: int) -> int:
    """The user id that mounted the file system of an open file, 0 for root, NOBODY for a user who
    is not known.

    Raises OSError if the mount table does not have it, for then its owners prove nothing.
    """
    table = own_mounts()
    line = find_by_id(table, mount_id(fd))
    if line is None:
        raise OSError(errno.ESTALE, "the mount that holds it is not in /proc/self/mountinfo")
    if may_have_any_server(table) and line.id in _of_any_server(table):
        return NOBODY
    return max(line.fuse_user, 0) or _user_of_helper(line.target)


@lru_cache(maxsize=2)  # a walk asks for each file system that it meets
def _of_any_server(table: bytes) -> frozenset[int]:
    return ids_of_any_server(parse(table), _map_text)


def _map_text(path: str) -> bytes:
    try:
        return head_of(path, _MOST)[0]
    except OSError:
        return b""


def _user_of_helper(target: str) -> int:
    try:
        content, is_whole = head_of(UTAB, _MOST)
    except FileNotFoundError:
        return 0
    # A user can make it longer by mounts. The line that counts may be behind the cut.
    if not is_whole:
        raise OSError(errno.EFBIG, f"larger than {_MOST >> 20} MiB", UTAB)
    user = users_in(os.fsdecode(content)).get(target)
    return 0 if user is None else _uid_of(user)


def users_in(utab: str) -> dict[str, str]:
    """The mounts in the text of UTAB that were made for a user: target to the name of the user;
    empty where that is not noted.
    """
    found = {}
    for line in reversed(utab.split("\n")):  # the first line of a target counts
        fields = dict(word.partition("=")[::2] for word in line.split(" "))
        options = dict(
            word.partition("=")[::2] for word in decode(fields.get("OPTS", "")).split(",")
        )
        if options.get("user") or "uhelper" in options:
            target = decode(fields.get("TARGET", ""))
            above, _, _ = target.rpartition("/")
            of_folder = next((above[len(one) :] for one in _OF_UDISKS if above.startswith(one)), "")
            found[target] = options.get("user") or of_folder
    return found


def _uid_of(name: str) -> int:
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return NOBODY
