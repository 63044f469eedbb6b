"""A Debian guest under qemu's software emulation: boot it, run commands in it, reboot it, pull its plug.

Commands travel over a virtio-serial port whose host end is a socket pair, so there is no port number, no socket file
and no network; when qemu dies the socket ends, and whoever waits hears of it at once. /dev/kvm is never used: guests
hang there on some of the machines that run these tests.
"""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.vm.image import Image
from tests.vm.transcript import Transcript

# They only end a hang: beside other work an emulated machine takes minutes for what it does in seconds.
BOOT_TIMEOUT_S = 600
COMMAND_TIMEOUT_S = 600
CHANNEL_GRACE_S = 30
CONSOLE_TAIL_BYTES = 6000


class GuestError(RuntimeError):
    """The guest did not do what was asked in time; the message ends with the tail of its console."""


class Answer(NamedTuple):
    """What a command did: its exit status (128 + n when signal n ended it) and its two streams."""

    rc: int
    stdout: str
    stderr: str


class Guest:
    """One machine with disks of its own: copy-on-write overlays, in `folder`, over the image's disks."""

    def __init__(self, image: Image, folder: Path, transcript: Transcript, memory_mib: int = 2048) -> None:
        self._image = image
        self._folder = folder
        self._transcript = transcript
        self._memory_mib = memory_mib
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._received = b""
        self._last_id = 0
        self._without = ""
        self.boot_id = ""
        self._overlays = tuple(folder / f"{disk.stem}.qcow2" for disk in image.disks)
        for disk, overlay in zip(image.disks, self._overlays, strict=True):
            create = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(disk), "-F", "raw", str(overlay)]
            subprocess.run(create, check=True, stdin=subprocess.DEVNULL, timeout=60)

    def boot(self, timeout: float = BOOT_TIMEOUT_S, *, without: str = "") -> str:
        """Switch the machine on and wait until systemd has started everything; the boot id.

        `without` names a disk of the image (its file without suffix) that is not plugged in this time.
        """
        if self._process is not None:
            raise GuestError("the guest is already switched on")
        self._transcript.note("power on" + (f", without the disk {without}" if without else ""))
        self._without = without
        ours, theirs = socket.socketpair()
        self._channel = ours
        self._received = b""
        with theirs, (self._folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self._await_boot(timeout)

    def run(self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S, *, stdin: bytes = b"") -> Answer:
        """Run a command as root, its words and output going to the transcript."""
        started = time.monotonic()
        answer = self._ask(argv, timeout, stdin)
        self._transcript.command(argv, answer, time.monotonic() - started)
        return answer

    def ask_any(self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S) -> Answer:
        """A command of the harness itself: not in the transcript."""
        return self._ask(argv, timeout, b"")

    def ask(self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S, *, stdin: bytes = b"") -> str:
        """Standard output of a command of the harness itself: not in the transcript, and it must succeed."""
        answer = self._ask(argv, timeout, stdin)
        if answer.rc != 0:
            raise self._failure(f"{argv}: exit status {answer.rc}: {answer.stderr.strip()}")
        return answer.stdout

    def read(self, path: str) -> bytes:
        """The bytes of a file in the guest."""
        return self.ask(["cat", path]).encode("utf-8", "surrogateescape")

    def write(self, path: str, data: bytes) -> None:
        """Put bytes into a file in the guest, making its folder."""
        self._transcript.note(f"{len(data)} bytes written to {path}")
        self.ask(["mkdir", "-p", str(Path(path).parent)])
        self.ask(["tee", path], stdin=data)

    def reboot(self, timeout: float = BOOT_TIMEOUT_S) -> str:
        """Reboot as an operator does, and wait for a boot with another id; the new boot id."""
        before = self.boot_id
        self._transcript.note(f"reboot (boot id was {before})")
        self._send(["systemctl", "reboot"], COMMAND_TIMEOUT_S, b"")
        after = self._await_boot(timeout)
        if after == before:
            raise self._failure("the guest answers, but it never rebooted")
        return after

    def poweroff(self, timeout: float = COMMAND_TIMEOUT_S) -> None:
        """Shut down cleanly and wait for qemu's end."""
        self._transcript.note("power off")
        self._send(["systemctl", "poweroff"], COMMAND_TIMEOUT_S, b"")
        assert self._process is not None
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise self._failure(f"still on {timeout:.0f} s after poweroff") from error
        self.kill()

    def kill(self) -> None:
        """Pull the plug. What the guest had handed to its disks stays; boot() switches it on again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def close(self) -> None:
        """Switch off and delete the disks."""
        self.kill()
        for overlay in self._overlays:
            overlay.unlink(missing_ok=True)

    def console_tail(self) -> str:
        """The last lines of the serial console and of qemu's own messages."""
        parts = []
        for name in ("console.log", "qemu.log"):
            with contextlib.suppress(FileNotFoundError):
                text = (self._folder / name).read_bytes()[-CONSOLE_TAIL_BYTES:].decode("utf-8", "replace")
                parts.append(f"--- {name}\n{text}")
        return "\n".join(parts)

    def _command(self, channel: int) -> list[str]:
        # setpriv: the kernel ends qemu together with the process that started it, however that one ends.
        argv = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]
        argv += ["-name", "hosttune-test", "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max"]
        argv += ["-smp", "2", "-m", str(self._memory_mib), "-nodefaults", "-no-user-config", "-display", "none"]
        argv += ["-nic", "none"]
        if self._image.recipe.has_two_nodes:
            for node in range(2):
                argv += ["-object", f"memory-backend-ram,id=node{node},size={self._memory_mib // 2}M"]
                argv += ["-numa", f"node,nodeid={node},cpus={node},memdev=node{node}"]
        if not self._image.recipe.boots_itself:
            argv += ["-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd)]
            argv += ["-append", "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=1"]
        argv += ["-chardev", f"file,id=console,append=on,path={self._folder / 'console.log'}"]
        argv += ["-serial", "chardev:console", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
        argv += ["-chardev", f"socket,id=agent,fd={channel}"]
        argv += ["-device", "virtserialport,chardev=agent,name=hosttune.agent"]
        for overlay in (one for one in self._overlays if one.stem != self._without):
            # cache=unsafe skips fsync on this machine only: what the guest wrote is in qemu's file when qemu is killed.
            argv += ["-drive", f"file={overlay},if=virtio,format=qcow2,cache=unsafe,discard=unmap"]
        return argv

    def _await_boot(self, timeout: float) -> str:
        deadline = time.monotonic() + timeout
        hello = self._receive("hello", deadline, "no sign of a finished boot")
        self.boot_id = str(hello["hello"])
        # The agent is one of the units that a boot starts: wait for the others too.
        state = self._ask(["systemctl", "is-system-running", "--wait"], max(1.0, deadline - time.monotonic()), b"")
        # The rest of what udev has to say of the devices; it touches /dev.
        self._ask(["udevadm", "settle"], max(1.0, deadline - time.monotonic()), b"")
        self._transcript.note(f"up: {state.stdout.strip()}, boot id {self.boot_id}")
        return self.boot_id

    def _ask(self, argv: list[str], timeout: float, stdin: bytes) -> Answer:
        deadline = time.monotonic() + timeout + CHANNEL_GRACE_S
        self._send(argv, timeout, stdin)
        reply = self._receive("id", deadline, f"{argv}: no answer")
        if reply["id"] != self._last_id:
            raise self._failure(f"{argv}: answer number {reply['id']} instead of {self._last_id}")
        answer = Answer(reply["rc"], _text(reply["stdout"]), _text(reply["stderr"]))
        if reply["timed_out"]:
            raise self._failure(f"{argv}: still running after {timeout:.0f} s; output so far: {answer}")
        return answer

    def _send(self, argv: list[str], timeout: float, stdin: bytes) -> None:
        """Hand a command to the agent. What ends this boot ends the agent too, often before it has answered."""
        if self._channel is None:
            raise GuestError(f"{argv}: the guest is switched off")
        self._last_id += 1
        request = {"id": self._last_id, "argv": argv, "timeout": timeout}
        request["stdin"] = base64.b64encode(stdin).decode("ascii")
        self._channel.settimeout(timeout + CHANNEL_GRACE_S)
        try:
            self._channel.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._failure(f"{argv}: cannot be sent: {error}") from error

    def _receive(self, key: str, deadline: float, what: str) -> dict[str, Any]:
        """The next message that has `key`; half lines and answers that a reboot cut off are dropped."""
        assert self._channel is not None
        while True:
            *lines, self._received = self._received.split(b"\n")
            messages = [message for line in lines if key in (message := _parse(line))]
            if messages:
                return messages[-1]
            self._received += self._next_chunk(self._channel, deadline, what)

    def _next_chunk(self, channel: socket.socket, deadline: float, what: str) -> bytes:
        """Bytes up to the end of a line."""
        chunks: list[bytes] = []
        while not chunks or b"\n" not in chunks[-1]:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                chunk = channel.recv(1 << 20)
            except OSError as error:
                raise self._failure(f"{what} in time ({error})") from error
            if not chunk:
                raise self._failure(f"{what}: qemu ended")
            chunks.append(chunk)
        return b"".join(chunks)

    def _failure(self, message: str) -> GuestError:
        return GuestError(f"{message}\n{self.console_tail()}")


def _parse(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict):
            return message
    return {}


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode("utf-8", "surrogateescape")
