"""A Debian guest under qemu's software emulation: boot it, run commands in it, reboot it, pull its
plug.

Commands travel over a virtio-serial port whose host end is a socket pair, so there is no port
number, no socket file and no network; when qemu dies the socket ends, and whoever waits hears of it
at once. /dev/kvm is never used: guests hang there on some of the machines that run these tests.
"""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.vm.image import KERNEL_WORDS, Image
from tests.vm.transcript import Transcript

# They only end a hang: beside other work an emulated machine takes minutes for what it does in
# seconds.
BOOT_TIMEOUT_S = 600
COMMAND_TIMEOUT_S = 600
CHANNEL_GRACE_S = 30
CONSOLE_TAIL_BYTES = 6000
MEMORY_MIB = 2048
# A processor without XSAVE: emulated, a boot takes 18.6 s of this machine's, with `max` 23.9 s. One
# of AMD's, so that the kernel works around nothing of Intel's; one for which udev does not load
# kvm; and without CMPXCHG16B, after which qemu 7.2 once had an address in the flags, and the guest
# a double fault in __kmalloc_cache_node_noprof.
PROCESSOR = "Opteron_G3,-svm,-cx16"
# What tells a virtual machine: a flag of the processor, and what the firmware calls the machine.
BARE = [
    "-cpu", "max,-hypervisor", "-device", "intel-iommu",
    "-smbios", "type=0,vendor=Foundry", "-smbios", "type=1,manufacturer=Foundry,product=Anvil 2U",
    "-blockdev", "driver=null-co,node-name=sata,size=67108864,read-zeroes=on",
    "-device", "ide-hd,drive=sata,serial=NULL1", "-nic", "user,model=virtio-net-pci,restrict=on",
]  # fmt: skip


class GuestError(RuntimeError):
    """The guest did not do what was asked in time; the message ends with the tail of its
    console.
    """


class Answer(NamedTuple):
    """What a command did: its exit status (128 + n when signal n ended it) and its two streams."""

    rc: int
    stdout: str
    stderr: str


class Guest:
    """One machine with disks of its own: copy-on-write overlays, in `folder`, over the image's
    disks; and `seed`, a disk that it only reads.
    """

    def __init__(
        self,
        image: Image,
        folder: Path,
        transcript: Transcript,
        memory_mib: int = MEMORY_MIB,
        *,
        seed: Path | None = None,
        saved: Path | None = None,
        ssh_port: int = 0,
        devices: tuple[str, ...] = (),
    ) -> None:
        """`saved`: a folder of `save`, from which it goes on where that guest stood. `ssh_port`: of
        this machine alone, where the guest's sshd answers; the only way into its network.
        `devices`: more of qemu's (-device).
        """
        self._image = image
        self._seed = seed
        self._folder = folder
        self._transcript = transcript
        self._memory_mib = memory_mib
        self._ssh_port = ssh_port
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._control: socket.socket | None = None
        self._received = b""
        self._last_id = 0
        self._without = ""
        self.boot_id = ""
        self._overlays = tuple(folder / f"{disk.stem}.qcow2" for disk in image.disks)
        self._console = folder / "console.log"
        self._saved = saved
        self._devices = devices
        if saved is not None:
            for path in (*self._overlays, self._console):
                shutil.copy(saved / path.name, path)
            return
        for disk, overlay in zip(image.disks, self._overlays, strict=True):
            create = [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-b",
                str(disk),
                "-F",
                "raw",
                str(overlay),
            ]
            subprocess.run(create, check=True, stdin=subprocess.DEVNULL, timeout=60)

    def boot(self, timeout: float = BOOT_TIMEOUT_S, *, without: str = "") -> str:
        """Switch the machine on and wait until systemd has started everything; the boot id.

        `without` names a disk of the image (its file without suffix) that is not plugged in this
        time.
        """
        self.switch_on(without=without)
        return self._await_boot(timeout)

    def switch_on(self, *, without: str = "") -> None:
        """Switch the machine on and wait for nothing."""
        if self._process is not None:
            raise GuestError("the guest is already switched on")
        self._transcript.note("power on" + (f", without the disk {without}" if without else ""))
        self._without = without
        self._start()

    def _start(self, words: tuple[str, ...] = ()) -> None:
        self._channel, channel = socket.socketpair()
        self._control, control = socket.socketpair()
        self._received = b""
        monitor = (
            "-chardev",
            f"socket,id=control,fd={control.fileno()}",
            "-mon",
            "chardev=control,mode=control",
        )
        with channel, control, (self._folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command(channel.fileno()), *monitor, *words],
                pass_fds=(channel.fileno(), control.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def run(
        self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S, *, stdin: bytes = b""
    ) -> Answer:
        """Run a command as root, its words and output going to the transcript."""
        started = time.monotonic()
        answer = self._ask(argv, timeout, stdin)
        self._transcript.command(argv, answer, time.monotonic() - started)
        return answer

    def ask_any(self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S) -> Answer:
        """A command of the harness itself: not in the transcript."""
        return self._ask(argv, timeout, b"")

    def ask(
        self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S, *, stdin: bytes = b""
    ) -> str:
        """Standard output of a command of the harness itself: not in the transcript, and it must
        succeed.
        """
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

    def save(self, target: Path) -> None:
        """Keep the running machine in a folder, memory and disks, and switch it off."""
        self._monitor("savevm saved")
        self.kill()
        for path in (*self._overlays, self._console):
            shutil.move(path, target / path.name)
        (target / "boot-id").write_text(self.boot_id, encoding="ascii")

    def resume(self) -> None:
        """Go on where the saved machine stood."""
        assert self._saved is not None
        self._transcript.note("the machine goes on")
        self._start(("-loadvm", "saved"))
        self.boot_id = (self._saved / "boot-id").read_text(encoding="ascii")
        self.ask(["true"])

    def _monitor(self, line: str) -> None:
        """A command of qemu's own monitor, by its machine protocol; it must print nothing."""
        assert self._control is not None
        self._control.settimeout(COMMAND_TIMEOUT_S)
        with self._control.makefile("rwb") as control:
            control.readline()  # what qemu is
            for word, arguments in (
                ("qmp_capabilities", {}),
                ("human-monitor-command", {"command-line": line}),
            ):
                control.write(
                    json.dumps({"execute": word, "arguments": arguments}).encode() + b"\n"
                )
                control.flush()
                while "return" not in (reply := json.loads(control.readline())):
                    if "error" in reply:
                        raise GuestError(f"{line}: {reply['error']}")
        if reply["return"]:
            raise GuestError(f"{line}: {reply['return']}")

    def leave(self, argv: list[str], timeout: float = COMMAND_TIMEOUT_S) -> None:
        """Start a command that ends in a boot, and do not wait for its answer: `await_boot` comes
        next.
        """
        self._transcript.note(f"{' '.join(argv)} (a boot ends it)")
        self._send(argv, timeout, b"")

    def await_boot(self, timeout: float = BOOT_TIMEOUT_S) -> str:
        """Wait for the end of a boot that the guest began by itself; its id."""
        return self._await_boot(timeout)

    def note(self, text: str) -> None:
        """A line of the transcript."""
        self._transcript.note(text)

    def await_next_boot(self, timeout: float = BOOT_TIMEOUT_S) -> str:
        """Wait for a boot with another id that comes as far as the agent, whoever asked for it; its
        id.
        """
        before = self.boot_id
        after = self._await_boot(timeout)
        if after == before:
            raise self._failure("the guest answers, but it never rebooted")
        return after

    def console(self) -> str:
        """All that the serial console has shown."""
        return self._console.read_bytes().decode("utf-8", "replace")

    @property
    def processor_s(self) -> float:
        """Seconds of this machine's processors that the guest has taken since it was switched
        on.
        """
        assert self._process is not None
        stat = (
            Path(f"/proc/{self._process.pid}/stat")
            .read_text(encoding="ascii")
            .rpartition(")")[2]
            .split()
        )
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

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
        """Pull the plug. What the guest had handed to its disks stays; boot() switches it on
        again.
        """
        if self._process is not None:
            if self._process.poll() is None:
                self._transcript.note(
                    f"off, after {self.processor_s:.0f} s of this machine's processors"
                )
            self._process.kill()
            self._process.wait(30)
            self._process = None
        for one in (self._channel, self._control):
            if one is not None:
                one.close()
        self._channel = self._control = None

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
                text = (
                    (self._folder / name)
                    .read_bytes()[-CONSOLE_TAIL_BYTES:]
                    .decode("utf-8", "replace")
                )
                parts.append(f"--- {name}\n{text}")
        return "\n".join(parts)

    def _command(self, channel: int) -> list[str]:
        # setpriv: the kernel ends qemu together with the process that started it, however that one
        # ends.
        argv = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]
        # One thread: with a thread for each processor, one runs the old form of an instruction that
        # another patches in the kernel at that moment, and the guest ends in "invalid opcode" while
        # it boots.
        argv += [
            "-name",
            "hosttune-test",
            "-machine",
            "q35",
            "-accel",
            "tcg,thread=single,tb-size=512",
        ]
        argv += BARE if self._image.recipe.is_bare else ["-cpu", PROCESSOR]
        processors = (
            "1" if self._image.recipe.has_menu and not self._image.recipe.has_two_nodes else "2"
        )
        argv += [
            "-smp",
            processors,
            "-m",
            str(self._memory_mib),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
        ]
        # A network of its own that leads nowhere.
        way_in = f",hostfwd=tcp:127.0.0.1:{self._ssh_port}-:22" if self._ssh_port else ""
        argv += [
            "-nic",
            f"user,model=virtio-net-pci,restrict=on{way_in}"
            if self._image.recipe.has_menu
            else "none",
        ]
        if self._image.recipe.has_two_nodes:
            for node in range(2):
                argv += [
                    "-object",
                    f"memory-backend-ram,id=node{node},size={self._memory_mib // 2}M",
                ]
                argv += ["-numa", f"node,nodeid={node},cpus={node},memdev=node{node}"]
        if not self._image.recipe.boots_itself:
            argv += ["-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd)]
            argv += ["-append", f"root=/dev/vda rw quiet {KERNEL_WORDS}"]
        argv += ["-chardev", f"file,id=console,append=on,path={self._console}"]
        argv += [
            "-serial",
            "chardev:console",
            "-device",
            "virtio-rng-pci",
            "-device",
            "virtio-serial-pci",
        ]
        argv += ["-chardev", f"socket,id=agent,fd={channel}"]
        argv += ["-device", "virtserialport,chardev=agent,name=hosttune.agent"]
        for overlay in (one for one in self._overlays if one.stem != self._without):
            # cache=unsafe skips fsync on this machine only: what the guest wrote is in qemu's file
            # when qemu is killed.
            argv += [
                "-drive",
                f"file={overlay},if=none,id={overlay.stem},format=qcow2,cache=unsafe,discard=unmap",
            ]
            # In this order for the firmware too, which would begin with a disk of another kind.
            order = (
                f",bootindex={self._overlays.index(overlay)}"
                if self._image.recipe.boots_itself
                else ""
            )
            argv += ["-device", f"virtio-blk-pci,drive={overlay.stem}{order}"]
        if self._seed is not None:
            argv += ["-drive", f"file={self._seed},if=virtio,format=raw,readonly=on"]
        for device in self._devices:
            argv += ["-device", device]
        return argv

    def _await_boot(self, timeout: float) -> str:
        deadline = time.monotonic() + timeout
        hello = self._receive("hello", deadline, "no sign of a finished boot")
        self.boot_id = str(hello["hello"])
        # The agent is one of the units that a boot starts: wait for the others too.
        state = self._ask(
            ["systemctl", "is-system-running", "--wait"], max(1.0, deadline - time.monotonic()), b""
        )
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
            raise self._failure(
                f"{argv}: still running after {timeout:.0f} s; output so far: {answer}"
            )
        return answer

    def _send(self, argv: list[str], timeout: float, stdin: bytes) -> None:
        """Hand a command to the agent. What ends this boot ends the agent too, often before it has
        answered.
        """
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
        """The next message that has `key`; half lines and answers that a reboot cut off are
        dropped.
        """
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
