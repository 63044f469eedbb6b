"""The guest's end of the channel: runs commands for the harness, one JSON line each way.

Started by systemd inside the guest on a virtio-serial port. It first says hello with the boot id,
so that the harness knows which boot answers, then serves requests in order:

    -> {"id": 7, "argv": ["findmnt"], "timeout": 60, "stdin": "<base64>"}
    <- {"id": 7, "rc": 0, "stdout": "<base64>", "stderr": "<base64>", "timed_out": false}

A program that cannot be started answers 127 as a shell would; one that a signal ended answers 128 +
signal.
"""

import base64
import json
import os
import signal
import subprocess
from io import RawIOBase
from pathlib import Path
from typing import Any

PORT = Path("/dev/virtio-ports/hosttune.agent")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "COLUMNS": "100",
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request; never raises for what the command does."""
    reply = {"id": request["id"], "rc": 127, "stdout": "", "stderr": "", "timed_out": False}
    try:
        child = subprocess.Popen(
            request["argv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/root",
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        reply["stderr"] = encode(str(error).encode())
        return reply
    try:
        out, err = child.communicate(base64.b64decode(request["stdin"]), timeout=request["timeout"])
    except subprocess.TimeoutExpired:
        reply["timed_out"] = True
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
    rc = child.returncode
    reply.update(rc=rc if rc >= 0 else 128 - rc, stdout=encode(out), stderr=encode(err))
    return reply


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def main() -> None:
    boot_id = BOOT_ID.read_text(encoding="ascii").strip()
    with PORT.open("r+b", buffering=0) as port:
        # The first line feed ends whatever half line an earlier boot may have left in the channel.
        send(port, b"\n" + json.dumps({"hello": boot_id}).encode() + b"\n")
        pending = bytearray()
        while chunk := port.read(1 << 16):
            pending += chunk
            if b"\n" in chunk:
                *lines, pending = pending.split(b"\n")
                for line in lines:
                    send(port, json.dumps(answer(json.loads(line))).encode() + b"\n")


def send(port: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[port.write(view) or 0 :]


if __name__ == "__main__":
    main()
