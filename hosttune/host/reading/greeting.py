"""The first line that a server on this host says. `greeting-of ADDRESS PORT` is not a program: so a
Reader is asked.

Nothing is sent: a server that turns a client away closes the connection, and what was sent and not
read would discard its words (tcp(7), RST).
"""

from __future__ import annotations

import socket
import time
from typing import Final

from hosttune.host.door import Completed

_LONGEST: Final = 256  # bytes: RFC 4253 (4.2) has 255


def ask(address: str, port: int, timeout_s: float) -> Completed:
    """The line, without its end; status 1, with the reason, if nothing came within this time."""
    until = time.monotonic() + timeout_s
    received = bytearray()
    try:
        with socket.create_connection((address, port), timeout_s) as door:
            while (
                b"\n" not in received
                and len(received) < _LONGEST
                and (left := until - time.monotonic()) > 0
            ):
                # What is left of the time, or a server could hold this by a byte now and then.
                door.settimeout(left)
                if not (chunk := door.recv(_LONGEST)):
                    break
                received += chunk
    except OSError as error:
        return Completed(1, b"", str(error).encode())
    return Completed(0, bytes(received.partition(b"\n")[0]).rstrip(b"\r"), b"")
