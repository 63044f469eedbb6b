"""A host in memory that a trial is armed on, and a folder that stands for its root, where the
guard's script runs.

The script gets that folder for `R`, and finds no program but those in it: what reboots, mounts or
writes to terminals is a stand-in that notes its words.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hosttune.actions.trial import guard as trial_guard
from hosttune.errors import Refused
from hosttune.facts.kernel.grub import environment_of
from hosttune.host.door import Completed
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import Absent, Answer, FileValue
from tests.unit.fake_reader import FakeReader

ARMED_IN, TRIAL, SECOND, THIRD = (
    f"{number}0000000-0000-4000-8000-000000000000" for number in range(1, 5)
)
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BLOCK = b"# GRUB Environment Block\nsaved_entry=0\n".ljust(1024, b"#")
REAL_TOOLS = (
    "cat", "chmod", "chown", "cmp", "cp", "find", "grep", "mkdir", "mv", "rm", "rmdir", "sha256sum", "stat", "sync",
    "timeout",
)  # fmt: skip
STAND_INS = ("mount", "systemctl", "wall", "grub-editenv")
LAST_DEADLINE = "3600"  # as `last` in the folder of the guard says
WATCHERS = frozenset(
    {f"sleep {LAST_DEADLINE}", "sleep 4000"}
)  # of the last deadline, and of the reset behind it
# What is waited for comes at once, but for the last deadline.
SLEEP = (
    f"case $1 in {LAST_DEADLINE} | 4000) ;; *) set 0.05 ;; esac; exec {shutil.which('sleep')} $1"
)
# Whose programs the script finds. The shell of busybox is none to try it in: it takes its own
# programs before any other.
TOOLS = tuple(
    tools for tools in ("coreutils", "busybox") if tools == "coreutils" or shutil.which(tools)
)


class PowerCut(BaseException):
    """Nothing after this write happens; no handler of the code under test sees it."""


class TrialHost(Overlay):
    """Counts the acts that change something; the one after `cut_after` of them does not come about
    any more. `fails_at`: that act is refused, as on a full disk. `writes` names them.
    """

    def __init__(
        self, base: FakeReader, *, cut_after: int | None = None, fails_at: int | None = None
    ) -> None:
        super().__init__(base)
        self.writes: list[str] = []
        self.cut_after, self.fails_at = cut_after, fails_at

    def _count(self, what: str) -> None:
        if self.cut_after is not None and len(self.writes) >= self.cut_after:
            raise PowerCut(what)
        self.writes.append(what)
        if self.fails_at == len(self.writes):
            raise Refused(f"{what}: the disk is full")

    def replace(self, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
        self._count(f"replace {path}")
        super().replace(path, new, expected=expected)

    def overwrite(self, path: str, content: bytes, *, expected: bytes) -> None:
        assert len(content) == len(expected)
        super().overwrite(path, content, expected=expected)

    def remove(self, path: str, *, expected: bytes) -> None:
        self._count(f"remove {path}")
        super().remove(path, expected=expected)

    def append(self, path: str, data: bytes) -> None:
        self._count(f"append {path}")
        super().append(path, data)

    def make_folder(self, path: str) -> None:
        self._count(f"make {path}")
        super().make_folder(path)

    def remove_folder(self, path: str) -> None:
        self._count(f"remove {path}")
        super().remove_folder(path)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        assert timeout_s > 0
        self._count(" ".join(argv))
        assert tuple(argv) == ("sync", "-f", "/boot/grub")
        return Completed(0, b"", b"")

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        if argv[0] == "sh" or argv[0] == "grub-script-check":
            return Completed(0, b"", b"")
        if argv[0] == "grub-editenv":
            content = self.read(argv[1])
            assert isinstance(content, bytes)
            pairs = environment_of(content.decode()).items()
            return Completed(0, "".join(f"{name}={value}\n" for name, value in pairs).encode(), b"")
        return super().query(argv, timeout_s=timeout_s)

    def again(self) -> TrialHost:
        """The same host, as the next program finds it."""
        other = TrialHost(self.base)  # type: ignore[arg-type]
        other.files, other.folders, other.links = (
            dict(self.files),
            dict(self.folders),
            dict(self.links),
        )
        return other

    def written(self) -> dict[str, FileValue]:
        return {path: value for path, value in self.files.items() if isinstance(value, FileValue)}


class GuardedRoot:
    """The root folder in which the script runs. `boot` says which boot it is; `runs` what the
    stand-ins were called with.
    """

    def __init__(self, root: Path, host: TrialHost, tools_of: str) -> None:
        self.root = root
        self.folder = root / trial_guard.FOLDER[1:]
        for path, value in host.written().items():
            self.write(path, value.content)
        script = self.folder / "run"
        text = script.read_text(encoding="utf-8")
        assert text.count("\nR=\n") == 1
        script.write_text(text.replace("\nR=\n", f"\nR={root}\n"), encoding="utf-8")
        # The digest is that of the script as it is shipped.
        sums = self.folder / "sums"
        rows = [
            row
            for row in sums.read_text(encoding="utf-8").splitlines()
            if not row.endswith("  run")
        ]
        self.sums(rows)
        tools = root / "usr/bin"
        tools.mkdir(parents=True)
        for name in REAL_TOOLS:
            real = shutil.which("busybox" if tools_of == "busybox" else name)
            assert real is not None
            (tools / name).symlink_to(real)
        (tools / "sh").symlink_to(shutil.which("dash") or shutil.which("sh") or "")
        for name in STAND_INS:
            self.stand_in(name)
        self.stand_in("sleep", SLEEP)
        (root / "proc").mkdir()
        (root / "proc/uptime").symlink_to("/proc/uptime")
        self.write("/proc/cmdline", b"BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet\n")
        for path in ("/dev/console", "/dev/kmsg", "/proc/sysrq-trigger"):
            self.write(path, b"")

    def sums(self, rows: Sequence[str]) -> None:
        """Write the list of digests, and its digest."""
        import hashlib

        text = "".join(f"{row}\n" for row in rows)
        (self.folder / "sums").write_text(text, encoding="utf-8")
        armed = self.folder / "armed"
        boot = armed.read_text(encoding="utf-8").splitlines()[0] if armed.exists() else ARMED_IN
        if armed.exists():
            armed.write_text(
                f"{boot}\n{hashlib.sha256(text.encode()).hexdigest()}\n", encoding="utf-8"
            )

    def write(self, path: str, content: bytes) -> None:
        place = self.root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    def read(self, path: str) -> bytes | None:
        place = self.root / path[1:]
        return place.read_bytes() if place.exists() else None

    def whole(self, tool: str) -> str:
        """What a stand-in calls to do what the tool itself does."""
        real = (self.root / "usr/bin" / tool).readlink()
        return f"{real} {tool}" if real.name == "busybox" else str(real)

    def stand_in(self, name: str, body: str = "") -> None:
        """A program that notes its words, then does `body` (shell)."""
        place = self.root / "usr/bin" / name
        place.unlink(missing_ok=True)
        calls = self.root / "calls"
        text = f'#!/bin/sh\necho "{name} $*" >> {calls}\n{body}\n'
        place.write_text(text, encoding="utf-8")
        place.chmod(0o755)

    def boot(self, boot_id: str, mode: str, **words: str) -> int:
        """Call the script in a boot; returns its status."""
        self.write(BOOT_ID, f"{boot_id}\n".encode())
        argv = [str(self.root / "usr/bin/sh"), str(self.folder / "run"), mode]
        environment = {"PATH": str(self.root / "usr/bin"), **words}
        done = subprocess.run(
            argv,
            check=False,
            env=environment,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        return done.returncode

    @property
    def calls(self) -> list[str]:
        content = self.read("/calls")
        return content.decode().splitlines() if content else []

    @property
    def reboots(self) -> int:
        return self.calls.count("systemctl reboot")

    @property
    def said(self) -> str:
        return (self.read(trial_guard.LOG) or b"").decode()

    def marks(self) -> set[str]:
        return {name for name in trial_guard.MARKS if (self.folder / name).exists()}

    def leftovers(self) -> list[str]:
        return [
            name for _, _, names in os.walk(self.root) for name in names if ".hosttune-" in name
        ]
