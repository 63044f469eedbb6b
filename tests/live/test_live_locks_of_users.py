"""What a user holds up or covers by FUSE says nothing of the host: attacks by that user."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.host.known.wait_channels import waits_for_user
from hosttune.host.reading.live import LiveReader
from tests.live.fuse_silent import READ, STATFS
from tests.live.namespace import loop_disk, passes, run

HERE = __file__
EVE = 54311
_LOOKS = 50
AS_EVE = ("setpriv", "--reuid", str(EVE), "--regid", str(EVE), "--clear-groups")
# It has an event brought into memory that is a file of the silent server: the kernel holds the lock of the epoll.
EPOLL = """
import ctypes, mmap, os, select, sys
memory = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
epoll, (reading, writing) = select.epoll(), os.pipe()
epoll.register(reading, select.EPOLLIN)
os.write(writing, b"x")
print(epoll.fileno(), flush=True)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
ctypes.CDLL(None).epoll_wait(epoll.fileno(), ctypes.c_void_p(address), 1, -1)
"""
OVERLAY = "mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/o && exec mount -t overlay o -o lowerdir={}:/mnt/l /mnt/o"


@pytest.fixture
def folder():
    """A folder that everybody may enter, outside of those that pytest keeps for root."""
    path = Path(tempfile.mkdtemp(prefix="hosttune-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@contextlib.contextmanager
def silent(target: Path, question: int) -> Iterator[subprocess.Popen[str]]:
    """A FUSE file system of eve's over `target`, whose server never answers this question."""
    os.chown(target, EVE, EVE)
    words = (
        sys.executable,
        Path(HERE).with_name("fuse_silent.py"),
        target,
        str(EVE),
        str(question),
    )
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            assert server.stdout.readline() == "mounted\n"
            yield server
        finally:
            server.kill()  # which answers all that is asked
            subprocess.run(("umount", "--lazy", target), check=False)


def where_it_waits(server: subprocess.Popen[str], *words: str) -> str:
    """The function of the kernel in which a program of root's comes to wait where no signal ends it;
    then the server ends, and that with it.
    """
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as program:
        until = time.monotonic() + 10
        seen: list[str] = []  # one disk is waited for shortly, and then another
        while len(seen) < _LOOKS and time.monotonic() < until and program.poll() is None:
            time.sleep(0.01)
            state = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0]
            waits_in = Path(f"/proc/{program.pid}/wchan").read_text()
            seen = [*(seen if seen[-1:] == [waits_in] else []), waits_in] if state == "D" else []
        server.kill()
    assert len(seen) == _LOOKS, f"{words} did not wait"
    return seen[0]


@pytest.mark.parametrize("name", ["epoll", "overlay"])
def test_lock_that_a_user_holds_through_fuse_is_known_as_one(folder, name):
    passes(HERE, name, folder)


def scenario_epoll(folder: Path) -> None:
    """lsof(8) reads what the kernel tells of each open file."""
    target = folder / "file"
    target.touch()
    with silent(target, READ) as server:
        words = (*AS_EVE, sys.executable, "-c", EPOLL, str(target))
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout
            number = holder.stdout.readline().strip()
            assert server.stdout
            assert server.stdout.readline() == "asked\n"
            assert waits_for_user(
                where_it_waits(server, "cat", f"/proc/{holder.pid}/fdinfo/{number}")
            )


def scenario_overlay(folder: Path) -> None:
    """sync(1) waits for each file system that is about to be mounted."""
    target = folder / "lower"
    target.mkdir()
    with silent(target, STATFS) as server:
        words = (
            *AS_EVE,
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            OVERLAY.format(target),
        )
        with subprocess.Popen(words, stderr=subprocess.DEVNULL):
            assert server.stdout
            assert server.stdout.readline() == "asked\n"
            assert waits_for_user(where_it_waits(server, "sync"))


def test_full_disk_over_which_a_user_mounts_is_not_taken_for_one_with_room(folder):
    passes(HERE, "over_disk", folder)


def scenario_over_disk(folder: Path) -> None:
    """fusermount3(1) lets users mount over each folder that they may write."""
    target = folder / "data"
    target.mkdir()
    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        run("mount", device, target)
        try:
            seen = [one.target for one in Facts(LiveReader()).places.all]
            assert str(target) in seen
            hides = pytest.raises(UnknownFact, match="a user mounted a file system over")
            with silent(target, 0), hides:
                list(Facts(LiveReader()).places.all)
        finally:
            run("umount", target)
