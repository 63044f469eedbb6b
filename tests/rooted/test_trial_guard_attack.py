"""What a local user does against the reboot that rolls a trial back: names of processes, names of
files, GPUs held.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial.guard import KeptFile
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader
from tests.unit.trial_host import ARMED_IN, BOOT_ID, LAST_DEADLINE, TRIAL, GuardedRoot, TrialHost

EVE = 1001
FLOODED = 61234
FSTAB, OLD, NEW = "/etc/fstab", b"UUID=1 / ext4 defaults 0 1\n", b"UUID=1 / ext4 noatime 0 1\n"
# Holds a path open and has a name. The node of a device cannot be opened without its driver, its
# place can (O_PATH).
HOLDER = """
import ctypes, os, sys, time
uid, name, path, numbers = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
if path.startswith("/dev/"):
    assert libc.unshare(0x20000) == 0
    assert libc.mount(b"none", b"/", None, 1 << 14 | 1 << 18, None) == 0
    assert libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None) == 0
    if numbers:
        os.mknod(path, 0o20666, os.makedev(*map(int, numbers.split(":"))))
if path and (not numbers or "\\n" in path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").close()
if "\\n" in path and numbers:  # beside the file a device that is not called like a GPU
    os.mknod(os.path.dirname(path) + "/node", 0o20666, os.makedev(*map(int, numbers.split(":"))))
if path:
    held = os.open(path, os.O_PATH)
if "\\n" in path and numbers:
    assert os.open(os.path.dirname(path) + "/node", os.O_PATH) == held + 1
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
libc.prctl(15, name.encode(), 0, 0, 0)
print("ready", flush=True)
time.sleep(300)
"""


@contextmanager
def holder(
    root: GuardedRoot,
    name: str,
    path: str = "",
    numbers: str = "",
    uid: int = EVE,
    flags: str = "02100002",
):
    """A process of a user, seen below the root of the guard. `flags` are those of what it has
    open.
    """
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", HOLDER, str(uid), name, path, numbers],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        seen = root.root / f"proc/{child.pid}"
        (seen / "fdinfo").mkdir(parents=True)
        for own in ("status", "fd", "mountinfo"):
            (seen / own).symlink_to(f"/proc/{child.pid}/{own}")
        for number in os.listdir(f"/proc/{child.pid}/fd"):
            shown = Path(f"/proc/{child.pid}/fdinfo/{number}").read_text()
            (seen / "fdinfo" / number).write_text(
                re.sub(r"(?m)^flags:.*", f"flags:\t{flags}", shown)
            )
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.fixture
def guarded(tmp_path) -> GuardedRoot:
    return make_guarded(tmp_path)


def make_guarded(folder) -> GuardedRoot:
    """A boot on trial, whose deadline has come; the last deadline comes with the file `over`."""
    host = TrialHost(
        FakeReader(
            {BOOT_ID: ARMED_IN, "/etc/hosttune/policy.yaml": ""}, folders=["/etc/systemd/system"]
        )
    )
    kept = KeptFile(FSTAB, FileValue(OLD, 0o644), FileValue(NEW, 0o644))
    trial_guard.arm(host, "20261124T100000-1a2b", (kept,), within_s=900, has_one_shot=False)
    trial_guard.mark(host, "settled")
    root = GuardedRoot(folder / "root", host, "coreutils")
    root.write(FSTAB, NEW)
    over = f"while [ ! -e {root.root}/over ]; do {shutil.which('sleep')} 0.05; done"
    root.stand_in(
        "sleep",
        f"[ $1 != {LAST_DEADLINE} ] || {{ {over}; exit; }}; exec {shutil.which('sleep')} 0.05",
    )
    # Under systemd the script runs in /: a recursive search does not end there.
    root.stand_in(
        "grep",
        f'case " $* " in *" -r "*) exec {shutil.which("sleep")} 50 ;; esac; exec /bin/grep "$@"',
    )
    root.boot(TRIAL, "early")
    return root


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_reset_of_the_host_needs_no_place_for_a_process(is_confirmed):
    """A flood takes every place that gets free. Here the guard's user may have no process more
    (setrlimit(2)), which does not bind root; each sleep ends when its pipe is opened.
    """
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        root = make_guarded(Path(top))
        root.stand_in("sleep", f"read its < {root.root}/due-$1")
        for name in ("due-4940", "due-5000"):
            os.mkfifo(root.root / name)
        subprocess.run(["chown", "-R", str(FLOODED), top], check=True, timeout=60)
        hold = [str(root.root / "usr/bin/sh"), str(root.folder / "run"), "hold", "900"]
        subprocess.run(
            hold, check=True, timeout=60, stdin=subprocess.DEVNULL, user=FLOODED, group=FLOODED
        )
        await_(lambda: {"sleep 4940", "sleep 5000"} <= {*root.calls})
        guards = processes_of(FLOODED)
        try:
            code = "import resource as r, sys; [r.prlimit(int(one), r.RLIMIT_NPROC, (0, 0)) for one in sys.argv[1:]]"
            words = ["/usr/bin/python3", "-I", "-S", "-c", code, *map(str, guards)]
            subprocess.run(words, check=True, timeout=60, user=FLOODED, group=FLOODED)
            if is_confirmed:
                root.write(f"{trial_guard.FOLDER}/decided", b"confirmed\n")
            (root.root / "due-4940").write_text("now\n")
            await_(lambda: len(processes_of(FLOODED)) < len(guards))
            if is_confirmed:
                await_(lambda: not processes_of(FLOODED))
            else:
                (root.root / "due-5000").write_text("now\n")
                await_(lambda: root.read("/proc/sysrq-trigger"))
            assert root.read("/proc/sysrq-trigger") == (b"" if is_confirmed else b"b\n")
        finally:
            for process in processes_of(FLOODED):
                os.kill(process, signal.SIGKILL)


def processes_of(uid: int) -> set[int]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                folder.stat().st_uid == uid and (folder / "cmdline").read_bytes()
            ):  # a zombie has none
                found.add(int(folder.name))
    return found


def await_(is_so) -> None:
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(is_so)


def await_reboots(root: GuardedRoot) -> int:
    for _ in range(1200):
        if root.reboots:
            break
        time.sleep(0.05)
    return root.reboots


@pytest.mark.parametrize("name", ["-r", "-e", "*", "$(reboot)", "a\nnvidia-smi"])
def test_name_of_a_process_is_no_word_of_a_command(guarded, name):
    with holder(guarded, name):
        assert guarded.boot(TRIAL, "deadline") == 0
    assert guarded.read(FSTAB) == OLD
    assert guarded.reboots == 1
    assert not any(call.startswith("grep") for call in guarded.calls)


@pytest.mark.parametrize(
    ("path", "numbers"),
    [
        ("x/dev/nvidia0", ""),
        ("x/a -> /dev/nvidia0", ""),
        ("x/a\nlrwx------ 1 0 0 64 Nov 26 10:00 3 -> /dev/nvidia0", ""),
        ("x/a\nlrwx------ 1 0 0 64 Nov 26 10:00 ../../../dev/node -> /dev/nvidia0", ""),
        ("x/a\nlrwx------ 1 0 0 64 Nov 26 10:00 4 -> /dev/nvidia0", "195:0"),
        ("/dev/kfd", "195:255"),
        ("/dev/nvidia0", ""),  # in a mount namespace of one's own
        ("/dev/nvidia0", "1:3"),
        ("/dev/nvidia-uvm", "195:0"),
        ("/dev/nvidia255", "195:255"),
    ],
)
def test_what_is_only_called_like_a_gpu_delays_nothing(guarded, tmp_path, path, numbers):
    (tmp_path / "x").mkdir(mode=0o777)
    with holder(
        guarded, "python3", path if path.startswith("/") else f"{tmp_path}/{path}", numbers
    ):
        assert guarded.boot(TRIAL, "deadline") == 0
    assert guarded.reboots == 1


@pytest.mark.parametrize("flags", ["010000000", "012000000", "012100002"])
def test_gpu_that_a_user_only_points_at_delays_nothing(guarded, flags):
    """With O_PATH, which asks for no right: /dev/nvidia0 may be 0600."""
    with holder(guarded, "python3", "/dev/nvidia0", "195:0", flags=flags):
        assert guarded.boot(TRIAL, "deadline") == 0
    assert guarded.reboots == 1


def test_what_a_user_mounted_at_a_gpu_is_not_looked_at(guarded, monkeypatch):
    """In a mount namespace of their own: the server of such a file may never answer. Here another
    type stands for it.
    """
    monkeypatch.setattr(
        sys.modules[__name__], "HOLDER", HOLDER.replace('b"tmpfs", 0', 'b"ramfs", 0')
    )
    with holder(guarded, "python3", "/dev/nvidia0", "195:0"):
        assert guarded.boot(TRIAL, "deadline") == 0
    assert guarded.reboots == 1


@pytest.mark.parametrize("flags", ["", "x", "02 010000000", "8", "010000000x"])
def test_flags_that_cannot_be_read_count_as_work(guarded, flags):
    with holder(guarded, "python3", "/dev/nvidia0", "195:0", flags=flags):
        assert guarded.boot(TRIAL, "deadline") == 0
        assert guarded.reboots == 0
        guarded.write("/over", b"")
        assert await_reboots(guarded)


@pytest.mark.parametrize(
    ("name", "path", "numbers"),
    [
        ("python3", "/dev/nvidia0", "195:0"),
        ("nvidia-smi", "/dev/nvidia0", "195:0"),
        ("Xorg", "/dev/nvidia0", "195:0"),
        ("python3", "/dev/kfd", "234:0"),  # AMD's
    ],
)
def test_work_on_a_gpu_delays_the_reboot_up_to_the_last_deadline(guarded, name, path, numbers):
    """The name of a user's process does not make it a monitor."""
    guarded.write("/proc/devices", b"Character devices:\n195 nvidia\n234 kfd\n")
    with holder(guarded, name, path, numbers):
        assert guarded.boot(TRIAL, "deadline") == 0
        assert guarded.read(FSTAB) == OLD
        assert "which waits for the end of the work on the GPUs, at most 3600 s" in guarded.said
        assert guarded.reboots == 0
        guarded.write("/over", b"")
        assert await_reboots(guarded)


def test_reboot_comes_when_the_work_ends(guarded):
    with holder(guarded, "python3", "/dev/nvidia7", "195:7"):
        guarded.boot(TRIAL, "deadline")
        assert guarded.reboots == 0
    assert await_reboots(guarded)
    guarded.write("/over", b"")


@pytest.mark.parametrize("over", ["before", "after"])
def test_reboot_that_hosttune_leaves_to_the_guard(guarded, over):
    """`run reboot`, as a unit of its own: it ends with the reboot."""
    with holder(guarded, "python3", "/dev/nvidia0", "195:0") as process:
        if over == "before":
            guarded.write("/over", b"")
        waiting = subprocess.Popen(
            [str(guarded.root / "usr/bin/sh"), str(guarded.folder / "run"), "reboot"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            if over == "after":
                process.kill()
            assert await_reboots(guarded)
        finally:
            process.kill()
            guarded.write("/over", b"")
            waiting.wait(60)


FLOOD = """
import os, resource, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = os.open("/", os.O_RDONLY)
for _ in range(min(19_000, most - 100)):
    os.dup(held)
print("ready", flush=True)
time.sleep(300)
"""


@contextmanager
def flood(root: GuardedRoot, processes: int):
    """Processes of one user that share a table of open files (clone(2), CLONE_FILES): it costs the
    user the one table.
    """
    command = ["/usr/bin/python3", "-I", "-S", "-c", FLOOD]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, user=FLOODED, group=FLOODED
    ) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            for number in range(processes):
                (root.root / f"proc/1{number:04}").symlink_to(f"/proc/{child.pid}")
            yield
        finally:
            child.kill()


def shorten_look(root: GuardedRoot) -> None:
    """With a smaller share, so that eleven looks end in a few seconds."""
    script = root.folder / "run"
    script.write_text(script.read_text().replace("most=1048576", "most=131072"))


def test_open_files_of_a_user_do_not_hold_the_reboot(guarded):
    """What was not looked at counts as work, but not for ever: here the last deadline does not
    come.
    """
    shorten_look(guarded)
    with flood(guarded, 300):
        assert guarded.boot(TRIAL, "deadline") == 0
        assert await_reboots(guarded)
    guarded.write("/over", b"")


def test_open_files_of_one_user_do_not_hide_the_work_of_another(guarded):
    shorten_look(guarded)
    with flood(guarded, 30), holder(guarded, "python3", "/dev/nvidia0", "195:0"):
        assert guarded.boot(TRIAL, "deadline") == 0
        time.sleep(5)
        assert guarded.reboots == 0
        guarded.write("/over", b"")
        assert await_reboots(guarded)


def test_subordinate_ids_share_what_is_looked_at(guarded):
    """Each of the 300 processes has an id of its own, of 65,536 that the user has."""
    shorten_look(guarded)
    guarded.write("/etc/subuid", b"eve:600000:65536\n# eve\nbob:x:1\n")
    with flood(guarded, 300):
        for number in range(300):
            seen = guarded.root / f"proc/1{number:04}"
            its = (seen / "status").read_text().replace(str(FLOODED), str(600_000 + number))
            files = seen.resolve() / "fd"
            seen.unlink()
            seen.mkdir()
            (seen / "fd").symlink_to(files)
            (seen / "status").write_text(its)
        assert guarded.boot(TRIAL, "deadline") == 0
        assert await_reboots(guarded)
    guarded.write("/over", b"")


def test_monitor_of_root_is_no_work(guarded):
    with holder(guarded, "nvidia-smi", "/dev/nvidia0", "195:0", uid=0):
        assert guarded.boot(TRIAL, "deadline") == 0
    assert guarded.reboots == 1
