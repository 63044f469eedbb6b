"""Reading what removes by age without being held or misled: nothing on a network file system, nothing that is no plain
file, and of what users wrote no more than a share for each. Whatever is left out is kept as hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.reading import names_in, read_text, require_sure
from hosttune.facts.storage.ageing_jobs import asks_access_times, may_be_script
from hosttune.facts.storage.mounts import LOCAL_TYPES, mount_of
from hosttune.facts.storage.ways import Ways
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.masking.secrets import is_secret_file
from hosttune.values import ABSENT, Absent

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.values import Answer

P = ParamSpec("P")
T = TypeVar("T")
LARGEST = 1 << 20  # bytes of a script
# What users wrote, in characters that are followed word for word; a file that is only read costs an eighth.
OF_ONE_USER = 64 << 10
OF_ALL_USERS = 256 << 10
_PLAIN = 8
# Names that are listed for a user: so many characters cost as much as one that is followed, each name some besides.
_NAMED, _PER_NAME = 64, 8
_ELF = b"\x7fELF"
_DISKS = LOCAL_TYPES | {"zfs", "overlay", "tmpfs", "rootfs", "reiserfs", "vfat", "exfat", "ntfs3", "squashfs", "erofs"}


@frozen
class Hidden(Fact):
    """A file or folder that could not be looked at."""

    path: str  # the file that could not be followed
    reason: str  # a sentence that names it


class Files:
    """Reads files; a refusal is kept in `hidden`, and the look goes on."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.ways = Ways(reader, facts)
        self.hidden: list[Hidden] = []
        self._seen: set[str] = set()
        self._spent: dict[str, int] = {}  # of each user
        self._listed: dict[str, tuple[str, ...]] = {}
        self._latest: tuple[str, tuple[str, ...]] = ("", ())  # folder and names

    def is_nobodys(self, path: str) -> bool:
        """Of an image /run is made anew when it boots."""
        return self.reader.persistent_only and path.startswith("/run/")

    def hide(self, path: str, reason: str) -> None:
        self.hidden.append(Hidden(path, reason))

    def ask_path(self, path: str, look: Callable[P, Answer[T]], *arguments: P.args, **named: P.kwargs) -> T | Absent:
        """What a look at a path tells; a refusal is kept."""
        try:
            return require_sure(look(*arguments, **named))
        except UnknownFact as unknown:
            self.hide(path, unknown.reason)
            return ABSENT

    def content(self, path: str) -> str:
        if self.is_nobodys(path) or self.is_remote(path):
            return ""
        content = self.ask_path(path, read_text, self.reader, path)
        return "" if content is ABSENT else content

    def names(self, folder: str, user: str = "") -> tuple[str, ...]:
        """What is in a folder. One of the system is listed once. What is listed for a user counts each time, and only
        the latest is kept, because links give one folder any number of paths.
        """
        if not self.has_left(user, 1, folder):
            return ()
        if folder not in self._listed and folder != self._latest[0]:
            names = self._names(folder)
            if names is None:
                self._spend(user, OF_ONE_USER // _PLAIN)  # it may hold more names than are listed, which took its time
            self._latest = folder, names or ()
            if not user:
                self._listed[folder] = self._latest[1]
        names = self._listed.get(folder, self._latest[1])
        cost = sum(_PER_NAME + len(name) for name in names) // _NAMED
        return names if self.may_follow(user, cost, folder) else ()

    def _names(self, folder: str) -> tuple[str, ...] | None:
        """None where the names could not be told; that is then said."""
        if self.is_nobodys(f"{folder}/") or self.is_remote(folder):
            return ()
        try:
            return names_in(self.reader, folder)
        except UnknownFact as unknown:
            self.hide(folder, unknown.reason)
            return None

    def cost_of(self, text: str) -> int:
        """Of a script: one that tells of no access times is only read."""
        return len(text) if asks_access_times(text) else len(text) // _PLAIN

    def may_follow(self, user: str, cost: int, path: str) -> bool:
        """Whether a file that was read is within what is followed of a user (empty: the system's own); else it is
        hidden, and its reading has a cost, so that the sum of what is read, and kept in a record, is bounded.
        """
        if not self.has_left(user, cost, path):
            self._spend(user, cost // _PLAIN)
            return False
        self._spend(user, cost)
        return True

    def has_left(self, user: str, cost: int, path: str) -> bool:
        """Whether so much may still be read of a user; else the file is hidden."""
        left = OF_ONE_USER - self._spent.get(user, 0)
        if user and cost > min(left, OF_ALL_USERS - sum(self._spent.values())):
            whose = f"the jobs of {user}" if cost > left else "the jobs of all users together"
            self.hide(path, f"{path} is more than is read of {whose}, and is not read")
            return False
        return True

    def _spend(self, user: str, cost: int) -> None:
        if user:
            self._spent[user] = self._spent.get(user, 0) + cost

    def script(self, path: str, source: str, user: str = "") -> str:
        """The text of a script; empty for what is none, and for one that was read already."""
        if path in self._seen or self.is_nobodys(path):
            return ""
        self._seen.add(path)
        if self.is_remote(path, source):
            return ""
        real = self.reader.resolve(path)
        if isinstance(real, str) and real != path and not may_be_script(real):
            return ""
        if is_secret_file(path) or (isinstance(real, str) and is_secret_file(real)):
            self.hide(path, f"{path} ({source}) is called as secrets are, and is not read")
            return ""
        stat = self.ask_path(path, self.reader.stat, path)
        if stat is ABSENT or stat.type != "file":
            return ""
        mount = mount_of(self.ways.mounts, real if isinstance(real, str) else path)
        if mount is not None and mount.fstype not in _DISKS:
            self.hide(path, f"{path} ({source}) lies on {mount.fstype}, which is no disk, and is not read")
            return ""
        is_large = stat.size > LARGEST
        if (is_large or user) and self._is_compiled(path):
            return ""
        if is_large:
            self.hide(path, f"{path} ({source}) is larger than 1 MiB and is not read")
        content = "" if is_large or not self.has_left(user, stat.size // _PLAIN, path) else self.content(path)
        if "\0" in content[:4096]:
            self._spend(user, len(content) // _PLAIN)
            content = ""
        return content

    def _is_compiled(self, path: str) -> bool:
        """Whether a file begins as compiled programs do (elf(5)), so it is no script; no more of it is read."""
        start = self.reader.query(("head", "--bytes=4", path))
        return isinstance(start, Completed) and start.stdout == _ELF

    def is_remote(self, path: str, source: str = "") -> bool:
        """Whether the way to a path leads to another machine; that is then said."""
        is_remote = self.ways.way(path)[1]
        if is_remote:
            where = f" ({source})" if source else ""
            self.hide(path, f"{path}{where} is on a network or FUSE file system and is not read")
        return is_remote
