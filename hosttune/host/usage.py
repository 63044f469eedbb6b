"""How much lies below a folder: counted to a bound, without following links, on the one file system.

A user chooses the length of a file that holds nothing, and how many names a file has. So what counts is the space that
files take, each of them once, and never more than the file system has in use: files can share their blocks (reflink).
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hosttune.host.door import Stat, Usage
from hosttune.host.named import served_mounts
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

MOST_ENTRIES: Final = 30_000  # a tenth to half a second
_DEEPEST = 100  # folders below each other, each held open
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_BLOCK: Final = 512  # bytes, whatever the file system has (inode(7), st_blocks)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def count(folder: int, most: int = MOST_ENTRIES) -> Usage:
    """What lies below an open folder. What is mounted there and has a server is not looked at: it may be dead."""
    tally = _Tally(os.fstat(folder).st_dev, most, frozenset(served_mounts()))
    tally.add(folder, os.readlink(f"/proc/self/fd/{folder}"), _DEEPEST)
    space = os.fstatvfs(folder)
    used_bytes = (space.f_blocks - space.f_bfree) * space.f_frsize
    size_bytes = min(tally.size_bytes, used_bytes) if space.f_blocks else tally.size_bytes  # 0: it tells nothing
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
                        self._add_entry(folder, entry, inner, levels)
        except OSError:
            self.is_complete = False

    def _add_entry(self, folder: int, entry: os.DirEntry[str], path: str, levels: int) -> None:
        try:
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(info.st_mode) and info.st_ino not in self.named:
                self.size_bytes += min(info.st_size, info.st_blocks * _BLOCK)
                if info.st_nlink > 1:
                    self.named.add(info.st_ino)
            if not stat.S_ISDIR(info.st_mode) or info.st_dev != self.device:
                return
            inner = os.open(entry.name, _FOLDER, dir_fd=folder) if levels else -1
        except OSError as error:
            self.is_complete = self.is_complete and error.errno in _GONE
            return
        if inner < 0:
            self.is_complete = False
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
