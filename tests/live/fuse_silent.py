"""A FUSE file system of a user whose server leaves one question without an answer: `fuse_silent.py TARGET UID OPCODE`, as
root, who does what fusermount3(1) does for a user, and is that user from then on. TARGET is a folder or a file.

The layout of requests and answers is that of the kernel (include/uapi/linux/fuse.h).
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

GETATTR, OPEN, STATFS, INIT, OPENDIR = 3, 14, 17, 26, 27
READ = 15
_SILENT = frozenset({2, 36, 42})  # FORGET, INTERRUPT, BATCH_FORGET have no answer
_NOSYS = -38
_NOSUID_NODEV = 6


def serve(target: str, uid: int, silent: int) -> None:
    """Mount, print `mounted`, and answer until the mount ends; print `asked` where the question comes."""
    libc = ctypes.CDLL(None, use_errno=True)
    kind = stat.S_IFMT(os.stat(target).st_mode)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode={kind:o},user_id={uid},group_id={uid}"
    if libc.mount(b"silent", target.encode(), b"fuse", _NOSUID_NODEV, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    print("mounted", flush=True)
    while True:
        request = os.read(fd, 1 << 20)
        _, what, number = struct.unpack("<IIQ", request[:16])
        if what == silent:
            print("asked", flush=True)
        elif what not in _SILENT:
            body = answer(what, kind | 0o755, uid)
            error = _NOSYS if body is None else 0
            os.write(fd, struct.pack("<IiQ", 16 + len(body or b""), error, number) + (body or b""))


def answer(what: int, mode: int, uid: int) -> bytes | None:
    if what == INIT:
        return struct.pack("<IIIIHHII", 7, 31, 65536, 0, 12, 10, 65536, 1).ljust(64, b"\0")
    if what == GETATTR:
        attributes = struct.pack(
            "<6Q10I", 1, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 2, uid, uid, 0, 4096, 0
        )
        return struct.pack("<QII", 3600, 0, 0) + attributes
    return struct.pack("<QII", 1, 0, 0) if what in {OPEN, OPENDIR} else None


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
