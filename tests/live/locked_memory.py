"""Processes of an ordinary user, in user and mount namespaces of its own, whose memory cannot be
read any more.

Each maps a page of a FUSE file that is never served, reads that page through /proc/self/mem, which
holds the lock of its memory, and maps more, which waits for the lock. Every reader of its command
line waits, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading
import time
from collections.abc import Callable

INIT, LOOKUP, GETATTR, OPEN, READ, FORGET, INTERRUPT, FORGETS = 26, 1, 3, 14, 15, 2, 36, 42
PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS = 1, 2, 2, 0x20
PR_SET_DUMPABLE, CLONE_NEWNS, CLONE_NEWUSER = 4, 0x20000, 0x10000000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


def attributes(inode: int) -> bytes:
    mode, size = (0o40755, 0) if inode == 1 else (0o100644, 1 << 20)
    return struct.pack(
        "<QQQQQQIIIIIIIIII", inode, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
    )


def serve(device: int) -> None:
    """Answers everything but READ."""
    while True:
        request = os.read(device, 1 << 17)
        _, operation, unique, node = struct.unpack("<IIQQ", request[:24])
        answers = {
            INIT: struct.pack("<IIIIHHIII", 7, 31, 65536, 0, 12, 10, 65536, 1, 0).ljust(64, b"\0"),
            LOOKUP: struct.pack("<QQQQII", 2, 0, 1000, 1000, 0, 0) + attributes(2),
            GETATTR: struct.pack("<QII", 1000, 0, 0) + attributes(node),
            OPEN: struct.pack("<QII", 1, 0, 0),
        }
        if operation not in {READ, FORGET, INTERRUPT, FORGETS}:
            answer = answers.get(operation)
            error, content = (-38, b"") if answer is None else (0, answer)
            os.write(device, struct.pack("<IiQ", 16 + len(content), error, unique) + content)


def lock(file: int) -> None:
    place = libc.mmap(None, 4096, PROT_READ, MAP_PRIVATE, file, 0)
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    threading.Thread(target=lambda: os.pread(memory, 8, place), daemon=True).start()
    time.sleep(0.5)
    libc.mmap(None, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)


def lock_as(uid: int, folder: str, fuse: str, start: Callable[[str], None]) -> None:
    """Never returns: it serves the file, whose path `start` gets in a child, until it is killed."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    assert libc.prctl(PR_SET_DUMPABLE, 1) == 0
    assert libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, ctypes.get_errno()
    for name, content in (
        ("uid_map", f"0 {uid} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"0 {uid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)
    device = os.open(fuse, os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    assert libc.mount(b"x", os.fsencode(folder), b"fuse", 6, options.encode()) == 0, (
        ctypes.get_errno()
    )
    # The server has no file of its own file system open, else its end would wait for an answer of
    # its own.
    if os.fork() == 0:
        os.close(device)
        start(f"{folder}/file")
    serve(device)


def start_all(path: str, count: int, tell: int) -> None:
    file = os.open(path, os.O_RDONLY)
    for _ in range(count):
        if (child := os.fork()) == 0:
            lock(file)
        while not is_locked(child):
            time.sleep(0.05)
        os.write(tell, b"%d\n" % child)
    signal.pause()


def hold_file(path: str, file: int, tell: int) -> None:
    """Write the page that is never served into a file: its lock is held meanwhile."""
    hold_with(libc.write, path, file, tell)


def hold_folder(path: str, folder: int, tell: int) -> None:
    """Read a folder into such a page. Who adds a name waits for the lock then, and who looks up one
    for that.
    """
    hold_with(libc.getdents64, path, folder, tell)


def hold_with(call: Callable[..., int], path: str, held: int, tell: int) -> None:
    """Tell once the call waits for its page."""
    place = libc.mmap(
        None, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, os.open(path, os.O_RDONLY), 0
    )
    thread = threading.Thread(
        target=lambda: call(held, ctypes.c_void_p(place), ctypes.c_size_t(4096)), daemon=True
    )
    thread.start()
    waits = ""
    while waits.split()[2:3] != [hex(place)]:  # the second argument of the call
        time.sleep(0.02)
        with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
            waits = file.read()
    os.write(tell, b"1\n")
    signal.pause()


def is_locked(pid: int) -> bool:
    """Whether both threads wait for what never comes."""
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
    return len(states) == 2 and states.count("D") >= 1 and states[0] == "D"
