"""A folder seen through FUSE, as many user-space file systems show it: names come without inode
numbers, and numbers are handed out in the order in which files are looked up. Speaks the kernel's
protocol itself (include/uapi/linux/fuse.h, version 7.31), read only, one request after the other,
so that no library is needed.

As a program: `python fuse_mirror.py SOURCE TARGET [UID [MODE]]` serves until it is unmounted; only
root can start it. With a UID it is what fusermount3 makes for that user: the user's mount, served
by the user's process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
INIT, OPENDIR, READDIR, RELEASEDIR, BATCH_FORGET, DESTROY = 26, 27, 28, 29, 42, 38
NO_INODE = 0xFFFFFFFF  # as libfuse shows it without `readdir_ino`
MOST = 1 << 17
NOSUID_NODEV = 6


class Mirror:
    """The nodes that were looked up, by number."""

    def __init__(self, source: str) -> None:
        self.paths = {1: source}
        self.numbers = {source: 1}

    def attributes(self, path: str) -> bytes:
        info = os.lstat(path)
        times = (int(info.st_atime), int(info.st_mtime), int(info.st_ctime), 0, 0, 0)
        more = (info.st_mode, info.st_nlink, info.st_uid, info.st_gid, 0, 4096, 0)
        return struct.pack(
            "<QQQ3Q3I7I", self.number(path), info.st_size, info.st_blocks, *times, *more
        )

    def number(self, path: str) -> int:
        if path not in self.numbers:
            self.numbers[path] = len(self.numbers) + 1
            self.paths[self.numbers[path]] = path
        return self.numbers[path]

    def answer(self, what: int, node: int, body: bytes) -> bytes:
        """Raises OSError, whose number the kernel gets."""
        path = self.paths.get(node, "")
        if what == INIT:
            return struct.pack("<IIIIHHIIHHI7I", 7, 31, MOST, 0, 12, 9, 4096, 1, 32, 0, 0, *[0] * 7)
        if what == LOOKUP:
            below = f"{path}/{os.fsdecode(body.rstrip(bytes(1)))}"
            found = self.attributes(below)
            return struct.pack("<QQQQII", self.number(below), 0, 60, 60, 0, 0) + found
        if what == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + self.attributes(path)
        if what in {OPEN, OPENDIR}:
            return struct.pack("<QII", node, 0, 0)
        if what == READ:
            offset, size = struct.unpack_from("<QI", body, 8)
            with open(path, "rb") as file:
                return os.pread(file.fileno(), size, offset)
        if what == READDIR:
            return self.names(path, *struct.unpack_from("<QI", body, 8))
        if what == STATFS:
            return struct.pack(
                "<5Q4I6I", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0, *[0] * 6
            )
        if what in {RELEASE, RELEASEDIR, DESTROY}:
            return b""
        raise OSError(errno.ENOSYS, "")

    def names(self, path: str, offset: int, size: int) -> bytes:
        out = b""
        for place, name in enumerate(sorted(os.listdir(path))[offset:], offset + 1):
            kind = stat.S_IFMT(os.lstat(f"{path}/{name}").st_mode) >> 12
            raw = os.fsencode(name)
            entry = struct.pack("<QQII", NO_INODE, place, len(raw), kind) + raw
            entry += bytes(-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out


def serve(source: str, target: str, uid: str = "0", mode: str = "40000") -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = (
        f"fd={device},rootmode={mode},user_id={uid},group_id={uid},default_permissions,allow_other"
    )
    libc = ctypes.CDLL(None, use_errno=True)
    flags = NOSUID_NODEV if int(uid) else 0
    if libc.mount(b"mirror", os.fsencode(target), b"fuse.mirror", flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)
    if int(uid):
        os.setgroups([])
        os.setgid(int(uid))
        os.setuid(int(uid))
    print("mounted", flush=True)
    mirror = Mirror(source)
    while True:
        try:
            request = os.read(device, MOST + 4096)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            raise
        length, what, unique, node = struct.unpack_from("<IIQQ", request)
        if what in {FORGET, BATCH_FORGET}:
            continue
        try:
            found, status = mirror.answer(what, node, request[40:length]), 0
        except OSError as error:
            found, status = b"", -(error.errno or errno.EIO)
        os.write(device, struct.pack("<IiQ", 16 + len(found), status, unique) + found)


if __name__ == "__main__":
    serve(*sys.argv[1:])
