"""Disposable servers with sshd on this machine: each has namespaces, files, a data disk and sysctls
of its own.

A host is an overlay over the shared tree, entered by pivot_root(2), in a network namespace on a
private bridge without a route out. The network namespace is also how its processes are known. A
reboot ends them all; a thread starts the host again from the same files, with a new boot id.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.fleet.tree import USER, call

BOOT = Path(__file__).with_name("boot.sh")
AGAIN = 42  # the status with which a host's init asks for the next boot
BOOT_S = 60
DISK_BYTES = 64 << 20
MEMORY = "/dev/shm"  # a thousand sysctls as files, and all that hosts sync: on a busy disk that takes seconds for each test
RELEASES = {"22.04": "jammy", "24.04": "noble", "26.04": "resolute"}
SEEDED = ("fs", "kernel", "net/core", "net/ipv4", "vm")
# What changes by itself, or by logging in.
PASSING = re.compile(
    r"^(var/log|var/cache|run|tmp|var/tmp|var/lib/sudo|home/[^/]+/\.ansible|root/\.ansible)(/|$)"
)
SETTLE_S = 20
ALL = {"gpu01", "gpu02", "gpu03", "gpu04"}
# One of the rules then takes effect at the next boot, on hosts of this machine's size.
POLICY = {
    "params": {
        "storage-tmp-tmpfs": {
            "where": "anywhere",
            "min_ram_bytes": 1 << 30,
            "min_bytes": 1 << 30,
            "used_share": 0.5,
        }
    },
}
FAULTS = {
    # No plan foresees a full disk: the edit fails where it is made.
    "full fstab": "mkdir -p /run/full && mount -t tmpfs -o size=8k,mode=755 none /run/full && cp /etc/fstab /run/full/"
    " && { head -c 8192 /dev/zero >/run/full/rest || true; } && ln -sf /run/full/fstab /etc/fstab",
    "read-only sysctl": "mount -o remount,bind,ro /proc/sys",
    "full sysctl.d": "mount -t tmpfs -o size=4k,mode=755 none /etc/sysctl.d && head -c 4096 /dev/zero > /etc/sysctl.d/full || true",
    "full journal": "mkdir -p /var/lib/hosttune && mount -t tmpfs -o size=4k,mode=700 none /var/lib/hosttune"
    " && head -c 4096 /dev/zero > /var/lib/hosttune/full || true",
    "full memory": "head -c 80M /dev/zero > /run/full 2>/dev/null || true",
    # With the sessions, of which Ansible keeps one open.
    "no sshd": 'listener=$(cat /run/sshd.pid); for child in $(ps -o pid= --ppid "$listener"); do'
    ' kill -KILL $(ps -o pid= --ppid "$child") "$child"; done; kill -KILL "$listener"',
    "no python": "mv /usr/bin/python3 /usr/bin/python3.away",
}
HEAL = (
    "[ ! -L /etc/fstab ] || { cp --remove-destination /run/full/fstab /etc/fstab && umount /run/full; };"
    "umount /etc/sysctl.d /var/lib/hosttune 2>/dev/null; mount -o remount,bind,rw /proc/sys;"
    "[ ! -e /usr/bin/python3.away ] || mv /usr/bin/python3.away /usr/bin/python3"
)


@dataclass(frozen=True)
class Kind:
    """What a host starts from: a folder of tree.get(), the release of Ubuntu that it says to be,
    and another Python than the one of the tree: the folder of an installation on this machine,
    which the host sees in the same place.
    """

    tree: Path
    release: str = "24.04"
    python: str = ""


class Host:
    """One server. `boots` counts how often it came up."""

    def __init__(self, name: str, number: int, fleet: Fleet, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.folder = fleet.folder / name
        self.address = f"{fleet.network}.{10 + number}"
        self.boots = 0
        self.namespace = f"{fleet.prefix}n{number}"
        self._fleet = fleet
        self._device = ""
        self._link = f"{fleet.prefix}v{number}"
        self._init: subprocess.Popen[bytes] | None = None
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name=name, daemon=True)
        try:
            self._lay_out(kind.release)
            self._connect()
        except BaseException:
            self.close()  # its fleet does not know it yet
            raise
        self._thread.start()

    def _lay_out(self, release: str) -> None:
        for name in ("upper/etc", "upper/usr/lib/sysctl.d", "work", "root", "sysctl"):
            (self.folder / name).mkdir(parents=True)
        # As systemd has it, which these hosts are too small for.
        (self.folder / "upper/usr/lib/sysctl.d/50-pid-max.conf").write_text(
            "kernel.pid_max = 4194304\n"
        )
        etc = self.folder / "upper" / "etc"
        os_release = (
            f'PRETTY_NAME="Ubuntu {release} LTS"\nNAME="Ubuntu"\nVERSION_ID="{release}"\nID=ubuntu\nID_LIKE=debian\n'
            f"VERSION_CODENAME={RELEASES[release]}\nUBUNTU_CODENAME={RELEASES[release]}\n"
        )
        (etc / "os-release").write_text(os_release)
        (etc / "hostname").write_text(f"{self.name}\n")
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n")
        (etc / "machine-id").write_text(hashlib.md5(self.name.encode()).hexdigest() + "\n")  # noqa: S324 - a name
        disk = self.folder / "disk"
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
        call("mkfs.ext4", "-q", "-F", disk)
        self._device = call("losetup", "--find", "--show", disk).strip()

    def _connect(self) -> None:
        call("ip", "netns", "add", self.namespace)
        call(
            "ip",
            "link",
            "add",
            self._link,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            self.namespace,
        )
        call("ip", "link", "set", self._link, "master", self._fleet.bridge, "up")
        inside = ("ip", "-n", self.namespace)
        call(*inside, "addr", "add", f"{self.address}/24", "dev", "eth0")
        call(*inside, "link", "set", "lo", "up")
        call(*inside, "link", "set", "eth0", "up")

    def _keep_up(self) -> None:
        words = ["ip", "netns", "exec", self.namespace, "unshare", "--mount", "--uts", "--ipc"]
        words += [
            "sh",
            str(BOOT),
            self.name,
            str(self.folder),
            str(self.kind.tree / "root"),
            self._device,
        ]
        words += [self.kind.python]
        with (self.folder / "boot.log").open("ab") as log:
            while not self._is_leaving.is_set():
                self._init = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
                self.boots += 1
                status = self._init.wait()
                _end_processes(self.namespace)
                if status != AGAIN:
                    return

    def wait(self) -> None:
        """Until sshd answers."""
        end = time.monotonic() + BOOT_S
        while time.monotonic() < end:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((self.address, 22), timeout=1),
            ):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not come up: {(self.folder / 'boot.log').read_text()}")

    def run(self, *argv: str) -> str:
        """The output of a program on the host, run by root without ssh."""
        assert self._init is not None
        words = ("--mount", "--uts", "--ipc", "--net", "--root", "--wd")
        return call("nsenter", "--target", str(self._init.pid), *words, *argv)

    def shell(self, script: str) -> str:
        return self.run("sh", "-c", script)

    def boot_id(self) -> str:
        return self.read("/proc/sys/kernel/random/boot_id")

    def read(self, path: str) -> str:
        return self.run("cat", path)

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """A program that runs on, until the test or the host ends it."""
        assert self._init is not None
        words = ("--mount", "--uts", "--ipc", "--net", "--root", "--wd")
        target = ("nsenter", "--target", str(self._init.pid), *words)
        return subprocess.Popen(
            (*target, *argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def work_on_gpu(self) -> subprocess.Popen[bytes]:
        """A process that holds /dev/nvidia0 open, which is how hosttune knows work on a GPU; there
        is no GPU behind it.
        """
        self.shell("[ -e /dev/nvidia0 ] || mknod -m 666 /dev/nvidia0 c 1 3")
        work = self.start("sh", "-c", "exec 3</dev/nvidia0; touch /run/at-work; exec sleep 3600")
        end = time.monotonic() + SETTLE_S
        while "at-work" not in self.run("ls", "/run") and time.monotonic() < end:
            time.sleep(0.05)
        return work

    def put(self, path: str, content: bytes) -> None:
        """Write a file into a folder that is in memory there (/run)."""
        assert self._init is not None
        Path(f"/proc/{self._init.pid}/root{path}").write_bytes(content)

    def break_by(self, fault: str) -> None:
        self.shell(FAULTS[fault])

    def heal(self) -> None:
        self.shell(HEAL)

    def reboot(self) -> None:
        """Boot it again, and wait."""
        before = self.boots
        self.shell('kill -USR1 "$(cat /run/fleet-init.pid)"')
        while self.boots == before:
            time.sleep(0.05)
        self.wait()

    def public_key(self) -> str:
        return " ".join(
            (self.kind.tree / "root/etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
        )

    def files(self) -> dict[str, str]:
        """What the host's own layer holds: path, kind, rights, time of change and content of each
        file.
        """
        upper = self.folder / "upper"
        found = {}
        for path in sorted(upper.rglob("*")):
            name = path.relative_to(upper).as_posix()
            status = path.lstat()
            if PASSING.search(name) or stat.S_ISDIR(status.st_mode):
                continue
            content = os.readlink(path) if path.is_symlink() else ""
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[f"/{name}"] = f"{status.st_mode:o} {status.st_mtime_ns} {content}"
        return found

    def close(self) -> None:
        self._is_leaving.set()
        if self._init is not None:
            _end_processes(self.namespace)
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        subprocess.run(["ip", "link", "del", self._link], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.namespace], check=False, capture_output=True)
        subprocess.run(["losetup", "--detach", self._device], check=False, capture_output=True)


class Fleet:
    """Hosts on one bridge, gone at `close`. `sysctls` are values that they start with, by the path
    below /proc/sys; the others are those of this machine.
    """

    def __init__(
        self, kinds: Sequence[Kind], sysctls: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hosttune-fleet-", dir=MEMORY))
        self.prefix = f"htf{os.getpid()}"
        self.bridge = f"{self.prefix}b"
        self.network = _free_network()
        self.hosts: list[Host] = []
        _clear_dead()
        try:
            _seed_sysctls(self.folder / "sysctl-seed", sysctls)
            call("ip", "link", "add", self.bridge, "type", "bridge")
            call("ip", "addr", "add", f"{self.network}.1/24", "dev", self.bridge)
            call("ip", "link", "set", self.bridge, "up")
            for number, kind in enumerate(kinds, 1):
                self.hosts.append(Host(f"gpu{number:02d}", number, self, kind))
            for host in self.hosts:
                host.wait()
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def inventory(self) -> str:
        """An inventory in YAML. It names the host key, so that a wrong host is noticed."""
        known = self.folder / "known_hosts"
        known.write_text("".join(f"{host.address} {host.public_key()}\n" for host in self.hosts))
        lines = [
            "all:",
            "  vars:",
            f"    ansible_user: {USER}",
            f"    ansible_ssh_common_args: -o UserKnownHostsFile={known} -o IdentitiesOnly=yes",
            "  children:",
            "    gpu:",
            "      hosts:",
        ]
        for host in self.hosts:
            python = f"{host.kind.python or '/usr'}/bin/python3"
            lines.append(
                f"        {host.name}: {{ansible_host: {host.address}, ansible_python_interpreter: {python},"
                f" ansible_ssh_private_key_file: {host.kind.tree / 'key'}}}"
            )
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _seed_sysctls(folder: Path, values: Mapping[str, str]) -> None:
    """A copy of this machine's sysctls, what can be read of them, with these `values` in their
    place. What vanishes meanwhile, as the values of an interface do, is passed over.
    """
    for top in SEEDED:
        for above, _, names in os.walk(f"/proc/sys/{top}"):
            target = folder / os.path.relpath(above, "/proc/sys")
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                with contextlib.suppress(OSError):
                    (target / name).write_bytes(Path(above, name).read_bytes())
                    (target / name).chmod(Path(above, name).stat().st_mode | stat.S_IWUSR)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")


def _free_network() -> str:
    """Three bytes of an address range that is set aside for tests (RFC 2544), so nobody routes
    it.
    """
    taken = call("ip", "-4", "-oneline", "addr")
    networks = (f"198.{18 + third // 256}.{third % 256}" for third in range(os.getpid() % 512, 512))
    return next(network for network in (*networks, "198.18.0") if f" {network}." not in taken)


def processes(namespace: str) -> list[int]:
    """The process ids of what runs in a network namespace."""
    done = subprocess.run(
        ["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True
    )
    return [int(pid) for pid in done.stdout.split()]


def _end_processes(namespace: str) -> None:
    """End what runs in a network namespace of ours, until nothing is left there."""
    for _ in range(50):
        if not (pids := processes(namespace)):
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _clear_dead() -> None:
    """Take away what a run left that was killed; its names hold its process id."""
    for name in _names(call("ip", "netns", "list"), r"^(htf(\d+)\S*)"):
        _end_processes(name)
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    for name in _names(call("ip", "-oneline", "link"), r"^\d+: (htf(\d+)b)[:@]"):
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)


def _names(text: str, pattern: str) -> Iterator[str]:
    for name, pid in re.findall(pattern, text, re.MULTILINE):
        if not Path(f"/proc/{pid}").exists():
            yield name
