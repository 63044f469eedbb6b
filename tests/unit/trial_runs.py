"""A host in memory on which runs are on trial: a clock of the kernel, boots, and programs that only
note their words.
"""

from __future__ import annotations

from hosttune.actions.examine import Session
from hosttune.actions.journal.journal import read_journal
from hosttune.engine.decide.plan import digest, stage
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog
from hosttune.errors import Refused
from hosttune.facts import Facts
from hosttune.facts.containment import INITIAL
from hosttune.facts.kernel.grub import environment_of
from hosttune.host.door import Completed, Space
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import ABSENT, Action, Activation, Address, Change, FileValue, Plan, Trigger
from tests.unit.fake_reader import FakeReader
from tests.unit.trial_host import ARMED_IN, BOOT_ID

MOUNTS = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
SWAPPINESS = "/proc/sys/vm/swappiness"
GRUB = "/etc/default/grub.d/60-hosttune-kernel-iommu.cfg"
WIDE = Space(10**11, 10**11, 10**7, 10**7)


class TrialRunHost(Overlay):
    """An overlay whose programs succeed and are noted, unless they are in `refused` by their first
    words. No sshd runs.
    """

    def __init__(self, files=None) -> None:
        base = {
            BOOT_ID: f"{ARMED_IN}\n", SWAPPINESS: "60\n", "/proc/self/mountinfo": MOUNTS, "/proc/uptime": "100.00 1.0\n",
            "/proc/1/comm": "systemd\n", "/proc/cmdline": "ro quiet\n", "/etc/hosttune/policy.yaml": "",
            "/proc/1/environ": "", "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n", **(files or {}),
        }  # fmt: skip
        links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()}
        links |= {"/proc/self/ns/mnt": "mnt:[4026531841]", "/proc/1/ns/mnt": "mnt:[4026531841]"}
        folders = [
            "/run/systemd/system",
            "/etc/systemd/system",
            "/run/motd.d",
            "/proc/1",
            "/etc/sysctl.d",
        ]
        super().__init__(FakeReader(base, links=links, folders=folders, spaces={"/etc": WIDE}))
        self.ran: list[str] = []
        self.logged: list[str] = []
        self.refused: set[str] = set()
        self.silent: set[str] = set()  # programs that give no answer

    def run(self, argv, *, timeout_s):
        assert 0 < timeout_s < 1000
        line = " ".join(argv)
        if any(line.startswith(words) for words in self.refused):
            raise Refused(f"{argv[0]}: no")
        self.ran.append(line)
        return Completed(0, b"", b"")

    def query(self, argv, *, timeout_s=10.0):
        if argv[0] in {"sh", "systemd-run", "grub-script-check", "ss"} - self.silent:
            return Completed(0, b"", b"")
        if argv[0] == "grub-editenv":
            pairs = environment_of(self.read(argv[1]).decode()).items()
            return Completed(0, "".join(f"{name}={value}\n" for name, value in pairs).encode(), b"")
        if tuple(argv[:2]) == ("systemctl", "is-active"):
            return Completed(0, b"active\n", b"")
        if tuple(argv[:2]) == ("systemctl", "is-system-running"):
            return Completed(0, b"running\n", b"")
        return super().query(argv, timeout_s=timeout_s)

    def log(self, message, message_id=""):
        self.logged.append(message)

    def operator(self):
        return "alice via sudo"

    def set_file(self, path, text):
        self.files[path] = FileValue(text.encode())

    def after_s(self, seconds):
        """Let time pass, in the kernel's own clock."""
        now = float(self.read("/proc/uptime").split()[0])
        self.set_file("/proc/uptime", f"{now + seconds:.2f} 1.0\n")

    def boot(self, boot_id, cmdline="ro quiet"):
        self.set_file(BOOT_ID, f"{boot_id}\n")
        self.set_file("/proc/uptime", "20.00 1.0\n")
        self.set_file("/proc/cmdline", f"{cmdline}\n")

    @property
    def session(self):
        return Session(self, Catalog({}, {}), Policy(), read_journal(self), Facts(self), ())


def sysctl_change(**more):
    return Change(
        Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", "memory-swappiness", **more
    )


def file_change(path="/etc/sysctl.d/60-hosttune-x.conf", text=b"vm.swappiness = 10\n", **more):
    rule = more.pop("rule", "memory-swappiness")
    return Change(Address("file", path), Action.CREATE, ABSENT, FileValue(text), rule, **more)


def boot_change(path="/etc/modprobe.d/60-hosttune-net.conf", **more):
    text = b"options veth numtxqueues=1\n"
    return file_change(path, text, rule="network-driver", activation=Activation.REBOOT, **more)


def argument_change(words="iommu=pt", before=ABSENT):
    name = "GRUB_CMDLINE_LINUX_DEFAULT"
    after = FileValue(f'# by hosttune\n{name}="${name} {words}"\n'.encode()) if words else ABSENT
    action = Action.CREATE if before is ABSENT else Action.UPDATE
    return Change(
        Address("file", GRUB), action, before, after, "kernel-iommu",
        activation=Activation.REBOOT, triggers=(Trigger("update-grub"),),
    )  # fmt: skip


def plan_of(*changes):
    return Plan(digest(changes), "1", "", "2026-01-01T00:00:00+00:00", "", (stage(changes),), ())
