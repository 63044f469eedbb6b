"""The child that looks at places in which a user may mount something: when it is started, and when
it ends.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hosttune.host.reading import late_mounts
from hosttune.host.reading.late_mounts import Looker
from hosttune.values import Unreadable

ROOT = Path(__file__).resolve().parents[2]
PLACE = "/home/x/y"
# A look of root's in a place of a user, without /proc, with standard input and output closed.
ASKS = """
import os, sys
from hosttune.host.reading import late_mounts
os.geteuid = lambda: 0
late_mounts.names_in = lambda *_: (_ for _ in ()).throw(OSError("no /proc"))
one = late_mounts.Looker()
print(one.ask(lambda word: f"{word} {os.getpid() != one._owner}", "/home/x/y", "seen"), file=sys.stderr)
print(one._child, file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def as_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(late_mounts, "_silent", {})


def refuse() -> int:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_where_no_process_can_be_started_this_one_does_not_look(monkeypatch):
    """It would wait itself for a server, and a user can take every place for a process."""
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", refuse)
    assert Looker().ask(os.getpid, PLACE) == Unreadable(
        f"{PLACE}: no process could be started to look at it"
    )
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes folders of others")
def test_one_user_keeps_few_looks_waiting(monkeypatch):
    """A folder each time, behind which no server answers; those of another user are looked at all
    the same.
    """
    monkeypatch.setattr(late_mounts, "ANSWER_S", 0.2)
    looker, asked = Looker(), []
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as eves,
        tempfile.TemporaryDirectory(dir="/tmp") as bobs,
    ):
        os.chown(eves, 54321, 54321)
        os.chown(bobs, 54322, 54322)
        monkeypatch.setattr(looker, "_read_answer", lambda words, _: asked.append(words))
        paths = [f"{eves}/{number}/x" for number in range(40)]
        answers = [looker.ask(os.getpid, path) for path in paths]
        assert answers == [Unreadable(f"{path}: its file system gives no answer") for path in paths]
        looker.ask(os.getpid, f"{bobs}/x")
    assert len(asked) == 5


def test_look_that_was_interrupted_is_not_the_answer_of_the_next(monkeypatch):
    looker = Looker()
    assert looker.ask(str.upper, PLACE, "a") == "A"
    with monkeypatch.context() as patched:
        patched.setattr(select, "select", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            looker.ask(str.upper, PLACE, "b")
    assert looker.ask(str.upper, PLACE, "c") == "C"


def test_child_ends_with_its_parent_also_without_proc():
    words = [sys.executable, "-c", ASKS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    said, child = done.stderr.split("\n")[:2]
    assert said == "seen True"
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(int(child), signal.SIG_DFL)
            select.select([], [], [], 0.05)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a folder in /var/lib")
def test_folder_of_a_service_account_is_no_place_of_root():
    """Code of users runs as jenkins or gitlab-runner: who owns the folders on the way counts, not
    how they are called.
    """
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="hosttune-test-") as top:
        Path(top).chmod(0o755)
        for name in ("roots", "eves", "open"):
            Path(top, name).mkdir(mode=0o755)
            Path(top, name, "file").touch()
        os.chown(f"{top}/eves", 54321, 54321)
        os.chown(f"{top}/roots/file", 54321, 54321)  # a file can be mounted on, too
        Path(top, "open").chmod(0o1777)
        Path(top, "link").symlink_to("eves")
        Path(top, "round").symlink_to("round")
        assert [
            late_mounts.is_of_root(f"{top}/{one}") for one in ("roots", "roots/none", "none/none")
        ] == [True] * 3
        for path in (
            "eves",
            "eves/file",
            "eves/none/none",
            "roots/file",
            "open/file",
            "link",
            "link/file",
            "round/x",
        ):
            assert not late_mounts.is_of_root(f"{top}/{path}"), path
            assert Looker().ask(os.getpid, f"{top}/{path}") != os.getpid()
        assert Looker().ask(os.getpid, f"{top}/roots/none") == os.getpid()
    assert late_mounts.is_of_root("/etc/fstab")
    assert late_mounts.is_of_root("/home")
    with tempfile.TemporaryDirectory(
        dir="/", prefix="hosttune-test-"
    ) as top:  # as the top of a disk is
        assert late_mounts.is_of_root("/hosttune-test-none")
        os.chown(top, 54321, 54321)
        assert not late_mounts.is_of_root(top)
    assert not late_mounts.is_of_root("/home/x/y")


# A mount of root's ends after it was met, and the next one, of a user, gets its number. Its server
# answers nothing.
REUSES = """
import ctypes, os, signal, subprocess, sys
from hosttune.host.reading.late_mounts import is_of_root
top = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
libc.mount(b"none", b"/", None, 1 << 18 | 16384, None)
for name in ("of_root", "eves", *map(str, range(60))):
    os.mkdir(f"{top}/{name}")
for number in range(60):  # the lowest free numbers
    assert libc.mount(b"none", f"{top}/{number}".encode(), b"tmpfs", 0, None) == 0
assert libc.mount(b"none", f"{top}/of_root".encode(), b"tmpfs", 0, b"mode=755") == 0
assert is_of_root(f"{top}/of_root/x/y")
assert libc.umount2(f"{top}/of_root".encode(), 0) == 0
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=1003,group_id=1003,allow_other"
assert libc.mount(b"x", f"{top}/eves".encode(), b"fuse", 6, options.encode()) == 0
signal.alarm(20)
print(is_of_root(f"{top}/eves/x/y"))
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not os.path.exists("/dev/fuse"), reason="only root mounts FUSE"
)
def test_number_of_a_mount_that_has_ended_says_nothing_of_the_next():
    words = ["unshare", "-m", "--propagation", "private", sys.executable, "-c", REUSES]
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="hosttune-test-") as top:
        Path(top).chmod(0o755)
        done = subprocess.run(
            [*words, top], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_way_of_more_folders_than_root_makes_is_not_taken_for_roots():
    """PATH_MAX has room for two thousand: that was a RecursionError, by which any user ended root's
    commands.
    """
    assert late_mounts.is_way_of_root("/usr/bin")
    for count in (200, 2000, 20_000):
        assert not late_mounts.is_way_of_root("/usr" + "/a" * count)
        assert not late_mounts.is_of_root("/var/lib" + "/a" * count)
