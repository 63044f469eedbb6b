"""What a user can make root look at by a link, also by one that comes while root looks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hosttune.host import tree
from hosttune.host.door import Stat
from hosttune.host.tree import FileTree
from hosttune.values import Unreadable

EVE, BOB = 1001, 1002
LIVE = FileTree("/")
LEASE = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
file = open(sys.argv[1], "r+b")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
time.sleep(300)
"""


def link_of(uid: int, folder: Path, target: Path) -> str:
    path = folder / f"link-of-{uid}-to-{target.name}"
    path.symlink_to(target)
    os.chown(path, uid, uid, follow_symlinks=False)
    return str(path)


def file_of(uid: int, path: Path, mode: int) -> Path:
    path.write_bytes(b"text")
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("owner", "mode", "is_read"), [(0, 0o600, False), (BOB, 0o600, False), (0, 0o644, True), (EVE, 0o600, True)]
)
def test_link_of_a_user_leads_to_what_the_user_may_read(owner, mode, is_read, tmp_path):
    target = file_of(owner, tmp_path / "file", mode)
    link = link_of(EVE, tmp_path, target)
    content, status = LIVE.read(link), LIVE.stat(link)
    assert (content == b"text", isinstance(status, Stat)) == (is_read, is_read)
    if not is_read:
        assert isinstance(content, Unreadable)
        assert content.reason.endswith(f"a link of uid {EVE} leads to what is not for all to read")
    assert LIVE.read(link_of(0, tmp_path, target)) == b"text"


@pytest.mark.parametrize("new", ["link", "fifo", "folder"])
def test_what_comes_in_place_of_a_file_while_root_looks_is_not_opened(new, tmp_path, monkeypatch):
    path = file_of(EVE, tmp_path / "file", 0o600)
    secret = file_of(0, tmp_path / "secret", 0o600)
    secret.write_bytes(b"secret")
    look = tree._live_place

    def exchanged(asked: str) -> int:
        place = look(asked)
        path.rename(tmp_path / "moved")
        {"link": lambda: path.symlink_to(secret), "fifo": lambda: os.mkfifo(path), "folder": path.mkdir}[new]()
        return place

    monkeypatch.setattr(tree, "_live_place", exchanged)
    assert LIVE.read(str(path)) == b"text"


def test_link_of_a_user_leads_to_no_mount_that_waits_for_a_server(tmp_path, monkeypatch):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    file_of(EVE, mounted / "file", 0o644)
    monkeypatch.setattr(tree, "served_mounts", lambda: (str(mounted),))
    answer = LIVE.read(link_of(EVE, tmp_path, mounted / "file"))
    assert isinstance(answer, Unreadable)
    assert answer.reason.endswith("a user's link leads to a file system that may give no answer")
    assert LIVE.read(str(mounted / "file")) == LIVE.read(link_of(0, tmp_path, mounted / "file")) == b"text"


@pytest.mark.parametrize("look", [LIVE.read, LIVE.head])
def test_lease_of_a_user_is_not_waited_for(look):
    """A plain open(2) waits 45 s for it (/proc/sys/fs/lease-break-time), for each file."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to the user
        Path(folder).chmod(0o755)
        path = file_of(EVE, Path(folder) / "file", 0o644)
        words = [sys.executable, "-I", "-c", LEASE, str(path), str(EVE)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout
                assert child.stdout.readline() == "held\n"
                answer = look(str(path))
            finally:
                child.kill()
    assert isinstance(answer, Unreadable)
    assert "Resource temporarily unavailable" in answer.reason
