"""A job whose limit is known, because it is written down: processes that repeat steps. Runs by
itself.

`python truth_job.py SECONDS JSON`, JSON: `processes` (1), `how` (fork, spawn, thread), `feeds`
(they hand items to the main process through a pipe, as loaders do), `pin` (CPUs of each process),
`phases`: [[share of the time, steps], ...] or `steps`. A step is [name, figure, ...]; see STEPS.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import mmap
import multiprocessing
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from multiprocessing.connection import Connection

KEPT: dict = {}


def cpu(ms: float) -> None:
    """CPU time, not wall time; keeps the interpreter's lock."""
    end = time.thread_time() + ms / 1000
    value = 1
    while time.thread_time() < end:
        for _ in range(200):
            value = value * 1103515245 % 2147483647


def compress(ms: float) -> None:
    """CPU time without the interpreter's lock."""
    data = KEPT.setdefault("noise", os.urandom(1 << 20))
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        zlib.compress(data, 6)


def sleep(ms: float) -> None:
    time.sleep(ms / 1000)


def direct(path: str, count: int) -> None:
    """Random blocks of 64 KiB from the device."""
    with mmap.mmap(-1, 1 << 16) as buffer:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        size = os.fstat(file).st_size
        for _ in range(count):
            os.preadv(file, [buffer], random.randrange(size >> 16) << 16)  # noqa: S311 - which block is read, no secret
        os.close(file)


def buffered(path: str) -> None:
    """The whole file, which has left the page cache."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    while os.read(file, 1 << 16):
        pass
    os.close(file)


def mapped(path: str, pages: int) -> None:
    """Pages at random through mmap(2): no read(2) at all."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as data:
        for _ in range(pages):
            data[random.randrange(len(data) >> 12) << 12]  # noqa: S311 - which block is read, no secret
    os.close(file)


def thrash(path: str, pages: int) -> None:
    """As mapped, but what was read stays in memory as long as the control group's limit lets it."""
    if "thrash" not in KEPT:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(
            file, 0, 0, os.POSIX_FADV_DONTNEED
        )  # pages that somebody else read count as theirs
        KEPT["thrash"] = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    data = KEPT["thrash"]
    for _ in range(pages):
        data[random.randrange(len(data) >> 12) << 12]  # noqa: S311 - which block is read, no secret


def touched(mib: int) -> None:
    """Each page of so much memory that belongs to no file."""
    held = KEPT.setdefault("touched", bytearray(mib << 20))
    value = bytes([random.randrange(256)])  # noqa: S311 - no secret
    for start in range(0, len(held), 1 << 20):
        part = memoryview(held)[start : start + (1 << 20) : 4096]
        part[:] = value * len(part)


def produced(count: int, ms: float) -> None:
    """Items of a queue between two processes of the job, of which the first needs so long for
    each.
    """
    queue: multiprocessing.Queue[int] = multiprocessing.Queue(2)

    def make() -> None:
        for number in range(count):
            time.sleep(ms / 1000)
            queue.put(number)

    maker = multiprocessing.Process(target=make, daemon=True)
    maker.start()
    for _ in range(count):
        queue.get()
    maker.join()


def listening(port: int) -> None:
    """A server that nobody asks."""
    with socket.create_server(("127.0.0.1", port)) as line:
        line.settimeout(60)
        line.accept()


def read_all(path: str) -> None:
    """A file with read(2), as it lies in the page cache or not."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    while os.read(file, 1 << 16):
        pass
    os.close(file)


def written(folder: str, kib: int) -> None:
    """Written and synced."""
    file = os.open(f"{folder}/out-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, os.urandom(kib << 10))
    os.fsync(file)
    os.close(file)


def _line(port: int) -> socket.socket:
    key = ("line", os.getpid(), threading.get_ident())
    if key not in KEPT:
        KEPT[key] = socket.create_connection(("127.0.0.1", port))
    return KEPT[key]


def _all(line: socket.socket, size: int) -> None:
    while size > 0:
        got = line.recv(min(size, 1 << 16))
        if not got:
            raise OSError("the server went away")
        size -= len(got)


def ask(port: int, kib: int) -> None:
    """Ask for so much over a connection that is kept, and wait in recv(2)."""
    line = _line(port)
    line.sendall(f"{kib}\n".encode())
    _all(line, kib << 10)


def ask_select(port: int, kib: int) -> None:
    """As ask, waiting in select(2)."""
    line = _line(port)
    line.sendall(f"{kib}\n".encode())
    size = kib << 10
    while size > 0:
        select.select([line], [], [], 30)
        size -= len(line.recv(min(size, 1 << 16)))


def fetch(port: int, kib: int) -> None:
    """As ask, with a connection for each request and a timeout (poll(2), then recv(2))."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(f"{kib}\n".encode())
        _all(line, kib << 10)


def fetch_async(port: int, kib: int, at_once: int) -> None:
    """Many at once from one event loop (epoll_wait(2))."""

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{kib}\n".encode())
        await reader.readexactly(kib << 10)
        writer.close()

    async def run() -> None:
        await asyncio.gather(*(one() for _ in range(at_once)))

    asyncio.run(run())


def datagram(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"1\n", ("127.0.0.1", port))
        line.recvfrom(1 << 16)


def unix(path: str) -> None:
    """Ask a server of this host."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall(b"1\n")
        line.recv(4096)


def fifo(path: str) -> None:
    """What somebody else writes into a pipe."""
    if ("fifo", path) not in KEPT:
        KEPT["fifo", path] = os.open(path, os.O_RDONLY)
    os.read(KEPT["fifo", path], 4096)


def flock(path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.close(file)


def posix_lock(path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.close(file)


def turns(path: str, ms: float) -> None:
    """Computes while it holds a lock that the other processes want too."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    cpu(ms)
    os.close(file)


def deadlock() -> None:
    first, second = threading.Lock(), threading.Lock()

    def take(one: threading.Lock, two: threading.Lock) -> None:
        with one:
            time.sleep(0.2)
            with two:
                pass

    others = [
        threading.Thread(target=take, args=pair, daemon=True)
        for pair in ((first, second), (second, first))
    ]
    for one in others:
        one.start()
    others[0].join()


def program(*words: str) -> None:
    subprocess.run(words, check=False, stdout=subprocess.DEVNULL)


def signalled() -> None:
    signal.pause()


def timers(ms: float) -> None:
    asyncio.run(asyncio.sleep(ms / 1000))


def pin(number: int) -> None:
    os.sched_setaffinity(0, {number})


STEPS = {
    one.__name__: one
    for one in (
        cpu, compress, sleep, direct, buffered, mapped, thrash, written, ask, ask_select, fetch, fetch_async, datagram, unix,
        fifo, flock, posix_lock, turns, deadlock, program, signalled, timers, pin, touched, produced, listening, read_all,
    )
}  # fmt: skip


def repeat(wish: dict, until: float, out: Connection | None = None) -> None:
    begin = time.monotonic()
    whole = until - begin
    phases = wish.get("phases") or [[1.0, wish["steps"]]]
    for share, steps in phases:
        begin += share * whole
        while time.monotonic() < begin:
            for name, *figures in steps:
                STEPS[name](*figures)
            if out is not None:
                out.send_bytes(b"x")


def work(wish: dict, until: float, out: Connection | None = None) -> None:
    if threading.current_thread() is threading.main_thread():
        end_at(until)
    if "pin" in wish:
        os.sched_setaffinity(0, set(wish["pin"]))
    repeat(wish, until, out)


def end_at(until: float) -> None:
    """What waits for ever is ended by the alarm."""
    signal.alarm(max(1, round(until - time.monotonic()) + 1))


def main() -> None:
    until, wish = time.monotonic() + float(sys.argv[1]), json.loads(sys.argv[2])
    end_at(until)
    if "pin_main" in wish:
        os.sched_setaffinity(0, set(wish["pin_main"]))
    count, how = wish.get("processes", 0), wish.get("how", "fork")
    if not count:
        return repeat(wish, until)
    if how == "thread":
        threads = [
            threading.Thread(target=work, args=(wish, until), daemon=True) for _ in range(count)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        return None
    incoming, outgoing = multiprocessing.Pipe(duplex=False) if wish.get("feeds") else (None, None)
    context = multiprocessing.get_context(how)
    workers = [
        context.Process(target=work, args=(wish, until, outgoing), daemon=True)
        for _ in range(count)
    ]
    for one in workers:
        one.start()
    while incoming is not None and time.monotonic() < until:
        incoming.recv_bytes()
        for name, *figures in wish.get("main_steps", ()):
            STEPS[name](*figures)
    for one in workers:
        one.join(max(0.0, until + 1 - time.monotonic()))
    return None


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
