"""How much is below a folder: counted to a bound, without following links, on the one file system.

A user chooses the length of a file that holds nothing, and how many names a file has. So what
counts is the space that files take, each of them once, and never more than the file system has in
use: files can share their blocks (reflink).
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hosttune.host.door import Stat, Usage
from hosttune.host.reading.filestatus import status_in
from hosttune.host.reading.named import served_mounts
from hosttune.host.reading.paths import open_folder_of_mount
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

MOST_ENTRIES: Final = 30_000  # a tenth to half a second
_DEEPEST = 100  # folders below each other, each held open
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})


def count(folder: int, most: int = MOST_ENTRIES) -> Usage:
    """What is below an open folder. What is mounted there is not looked at: its server may be dead.
    A user can mount something at the moment in which the walk comes there.
    """
    tally = _Tally(os.fstat(folder).st_dev, most, frozenset(served_mounts()))
    tally.add(folder, os.readlink(f"/proc/self/fd/{folder}"), _DEEPEST)
    space = os.fstatvfs(folder)
    used_bytes = (space.f_blocks - space.f_bfree) * space.f_frsize
    # 0: it tells nothing
    size_bytes = min(tally.size_bytes, used_bytes) if space.f_blocks else tally.size_bytes
    return Usage(size_bytes, tally.entries, tally.is_complete)


@dataclass(slots=True)
class _Tally:
    device: int
    most: int
    served: frozenset[str]  # paths of mounts
    size_bytes: int = 0
    entries: int = 0
    is_complete: bool = True
    named: set[int] = field(default_factory=set)  # inodes that have more than one name

    def add(self, folder: int, path: str, levels: int) -> None:
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    if self.entries >= self.most:
                        self.is_complete = False
                        return
                    self.entries += 1
                    if (inner := f"{path.rstrip('/')}/{entry.name}") not in self.served:
                        self._add_entry(folder, entry.name, inner, levels)
        except OSError:
            self.is_complete = False

    def _add_entry(self, folder: int, name: str, path: str, levels: int) -> None:
        info = status_in(folder, name)
        if info is None:  # it has gone, or says nothing
            self.is_complete = False
            return
        if stat.S_ISREG(info.mode) and info.inode not in self.named:
            # A sparse file has a larger size than it takes, and one with blocks behind its end a
            # smaller one (fallocate(2)).
            self.size_bytes += min(info.size, info.taken)
            if info.links > 1:
                self.named.add(info.inode)
        if not stat.S_ISDIR(info.mode) or os.makedev(*info.device) != self.device:
            return
        if not levels:
            self.is_complete = False
            return
        try:
            inner = open_folder_of_mount(name, folder)
        except OSError as error:
            self.is_complete = self.is_complete and error.errno in _GONE
            return
        try:
            self.add(inner, path, levels - 1)
        finally:
            os.close(inner)


def count_by_questions(reader: Reader, path: str, most: int = MOST_ENTRIES) -> Answer[Usage]:
    """The same of a reader that knows single files alone: a record of before `usages`."""
    first = reader.list(path)
    if not isinstance(first, tuple):
        return first
    size = entries = 0
    is_complete = True
    folders = [path]
    for folder in folders:  # grows while it is walked
        names = reader.list(folder)
        is_complete = is_complete and not isinstance(names, Unreadable)
        for name in names if isinstance(names, tuple) else ():
            if entries >= most:
                return Usage(size, entries, is_complete=False)
            entries += 1
            info = reader.stat(f"{folder}/{name}", follow=False)
            if isinstance(info, Stat):
                size += info.size if info.type == "file" else 0
                folders += [f"{folder}/{name}"] if info.type == "directory" else []
            elif info is not ABSENT:
                is_complete = False
    return Usage(size, entries, is_complete)
