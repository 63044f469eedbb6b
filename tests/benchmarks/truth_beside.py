"""What stands beside a job: `python truth_beside.py KIND WORDS...`. Runs until it is killed, and
says `ready` first.

serve PORT DELAY_MS [KIB_PER_S]: a line with a number is answered with so many KiB after the delay.
datagrams PORT DELAY_MS. unix PATH DELAY_MS. feed FIFO DELAY_MS: a byte now and then. hold PATH
SECONDS flock|posix: a lock that is held. hog: computes. silent PORT: takes connections and never
answers. stalling PORT EVERY MS: of so many answers one comes that late, the others at once. fuse
SOURCE TARGET DELAY_MS: a folder through FUSE, each read after the delay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import threading
import time


def ready() -> None:
    print("ready", flush=True)


def serve(port: str, delay_ms: str, rate: str = "0") -> None:
    listening = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    ready()

    def answer(line: socket.socket) -> None:
        with line, line.makefile("rb") as words:
            for word in words:
                time.sleep(float(delay_ms) / 1000)
                if word.startswith(b"GET"):
                    line.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 65536\r\n\r\n" + bytes(65536))
                    return
                if not word.strip().isdigit():
                    continue
                left = int(word) << 10
                while left > 0:
                    part = min(left, 1 << 16)
                    line.sendall(bytes(part))
                    left -= part
                    if float(rate):
                        time.sleep(part / 1024 / float(rate))

    def safely(line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            answer(line)

    while True:
        threading.Thread(target=safely, args=(listening.accept()[0],), daemon=True).start()


def datagrams(port: str, delay_ms: str) -> None:
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind(("127.0.0.1", int(port)))
    ready()
    while True:
        _, whom = line.recvfrom(4096)
        time.sleep(float(delay_ms) / 1000)
        line.sendto(bytes(1000), whom)


def unix(path: str, delay_ms: str) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    ready()
    while True:
        line, _ = listening.accept()
        with line:
            line.recv(4096)
            time.sleep(float(delay_ms) / 1000)
            line.sendall(b"x" * 4096)


def feed(path: str, delay_ms: str) -> None:
    if not os.path.exists(path):
        os.mkfifo(path)
    ready()
    file = os.open(path, os.O_RDWR)
    while True:
        time.sleep(float(delay_ms) / 1000)
        os.write(file, b"x")


def hold(path: str, seconds: str, kind: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    (fcntl.flock if kind == "flock" else fcntl.lockf)(file, fcntl.LOCK_EX)
    ready()
    time.sleep(float(seconds))


def silent(port: str) -> None:
    _listening = socket.create_server(("127.0.0.1", int(port)))
    ready()
    time.sleep(3600)


def stalling(port: str, every: str, ms: str) -> None:
    listening = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    ready()

    def answer(line: socket.socket) -> None:
        with contextlib.suppress(OSError), line, line.makefile("rb") as words:
            for number, word in enumerate(words):
                time.sleep(float(ms) / 1000 if number % int(every) == int(every) - 1 else 0.002)
                line.sendall(bytes(int(word) << 10))

    while True:
        threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()


def fuse(source: str, target: str, delay_ms: str) -> None:
    """The mirror of the live ring, whose folder lies beside this one, or its file beside this
    one.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [here, os.path.join(here, "..", "live")]
    import fuse_mirror

    class Slow(fuse_mirror.Mirror):
        def answer(self, what: int, node: int, body: bytes) -> bytes:
            if what == fuse_mirror.READ:
                time.sleep(float(delay_ms) / 1000)
            return super().answer(what, node, body)

    os.makedirs(target, exist_ok=True)
    fuse_mirror.Mirror = Slow
    fuse_mirror.serve(source, target)


def hog() -> None:
    ready()
    while True:
        pass


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
