"""A job as training is one: loaders make items, one consumer, the stand-in for a GPU, takes them.
Runs by itself.

The consumer's busy time is written where the watching test reads it as GPU utilization, power
follows it; so the GPU starves when, and only when, the loaders are slow. `python watch_job.py
'{"workers": 1, ...}' BUSY_FILE SECONDS`.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
import sys
import time


def decode(milliseconds: float) -> None:
    """Computes: so much CPU time, not wall time."""
    end = time.thread_time() + milliseconds / 1000
    value = 1
    while time.thread_time() < end:
        for _ in range(200):
            value = value * 1103515245 % 2147483647


def read_at_random(file: int, count: int, size: int, rng: random.Random) -> None:
    """From the device, not from memory: O_DIRECT wants a page as its buffer."""
    buffer = mmap.mmap(-1, 1 << 16)
    for _ in range(count):
        os.preadv(file, [buffer], rng.randrange(size >> 16) << 16)
    buffer.close()


def load(wish: dict, pipe: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - which block is read, no secret
    file = os.open(wish["file"], os.O_RDONLY | os.O_DIRECT) if wish.get("reads") else -1
    size = os.fstat(file).st_size if file >= 0 else 0
    while True:
        if wish.get("reads"):
            read_at_random(file, wish["reads"], size, rng)
        if wish.get("wait_ms"):
            time.sleep(wish["wait_ms"] / 1000)
        if wish.get("cpu_ms"):
            decode(wish["cpu_ms"])
        os.write(pipe, b"x")


def consume(wish: dict, busy_file: str, until: float, pipe: int) -> None:
    """The GPU is busy while we sleep; without loaders the main process makes each item itself."""
    busy = 0.0
    with open(busy_file, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    while time.monotonic() < until:
        if wish.get("workers"):
            os.read(pipe, 1)
        elif wish.get("cpu_ms"):
            decode(wish["cpu_ms"])
        begin = time.monotonic()
        time.sleep(wish["gpu_ms"] / 1000)
        busy += (time.monotonic() - begin) if wish.get("gpu", True) else 0.0
        shared[:8] = struct.pack("d", busy)


def main() -> None:
    wish, busy_file, seconds = json.loads(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    until = time.monotonic() + seconds
    incoming, outgoing = os.pipe()
    children = []
    for number in range(wish.get("workers", 0)):
        pid = os.fork()
        if pid == 0:
            load(wish, outgoing, number)
        children.append(pid)
    try:
        consume(wish, busy_file, until, incoming)
    finally:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
