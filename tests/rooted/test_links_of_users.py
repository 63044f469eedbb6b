"""What a user can make root look at by a link, also by one that comes while root looks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import BadInput
from hosttune.host.door import Stat
from hosttune.host.reading import late_mounts, tree
from hosttune.host.reading.gathered import content_of, list_files
from hosttune.host.reading.tree import FileTree
from hosttune.host.record.record import read_record
from hosttune.host.support.reader import read_support_folder
from hosttune.measure.dataset.probe import probe_file
from hosttune.measure.dataset.walk import Walk
from hosttune.values import Unreadable
from tests.hosts.built import HOSTS

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


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that all users can enter, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


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
    ("owner", "mode", "is_read"),
    [(0, 0o600, False), (BOB, 0o600, False), (0, 0o644, True), (EVE, 0o600, True)],
)
def test_link_of_a_user_leads_to_what_the_user_may_read(owner, mode, is_read, folder):
    target = file_of(owner, folder / "file", mode)
    link = link_of(EVE, folder, target)
    content, status = LIVE.read(link), LIVE.stat(link)
    assert (content == b"text", isinstance(status, Stat)) == (is_read, is_read)
    if not is_read:
        assert isinstance(content, Unreadable)
        assert content.reason.endswith(f"a link of uid {EVE} leads to what is not for all to read")
    assert LIVE.read(link_of(0, folder, target)) == b"text"


def test_named_file_behind_a_link_of_a_user_is_one_that_the_user_may_read(folder, monkeypatch):
    """Also in a folder that is named, and for the folder of a sosreport: eve would choose what is
    in root's report.
    """
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "open").mkdir()
    hidden = file_of(0, closed / "hidden", 0o644)
    secret, public = (
        file_of(0, folder / name, mode) for name, mode in (("secret", 0o600), ("public", 0o644))
    )
    for target, why in ((secret, "not for all to read"), (hidden, "not for all")):
        assert why in str(content_of(link_of(EVE, folder, target)))
        assert content_of(link_of(0, folder, target)) == content_of(str(target)) == b"text"
    assert content_of(link_of(EVE, folder, public)) == b"text"
    with pytest.raises(BadInput, match="into a folder that is not for all"):
        read_support_folder(link_of(EVE, folder, closed / "open"))
    monkeypatch.chdir(folder)
    assert "not for all to read" in str(content_of(f"link-of-{EVE}-to-secret"))
    with subprocess.Popen(["echo", "text"], stdout=subprocess.PIPE) as writer:
        assert content_of(f"/proc/self/fd/{writer.stdout.fileno()}") == b"text\n"


@pytest.mark.parametrize(
    ("owner", "mode", "is_read"),
    [(0, 0o700, False), (BOB, 0o750, False), (0, 0o711, True), (EVE, 0o700, True)],
)
def test_link_of_a_user_leads_into_no_folder_that_is_closed_to_the_user(
    owner, mode, is_read, folder
):
    closed = folder / "closed"
    closed.mkdir()
    target = file_of(0, closed / "file", 0o644)
    (closed / "link").symlink_to("words")
    os.chown(closed, owner, owner)
    closed.chmod(mode)
    file, way = link_of(EVE, folder, target), link_of(EVE, folder, closed)
    looks = [
        LIVE.read(file),
        LIVE.read(f"{way}/file"),
        LIVE.link(f"{way}/link"),
        LIVE.stat(f"{way}/link", follow=False),
    ]
    assert [not isinstance(one, Unreadable) for one in looks] == [is_read] * 4
    if not is_read:
        assert {one.reason.partition(": ")[2] for one in looks} == {
            f"a link of uid {EVE} leads into a folder that is not for all"
        }
    assert LIVE.read(link_of(0, folder, target)) == b"text"


@pytest.mark.parametrize(
    "look",
    [LIVE.read, LIVE.stat, LIVE.link, LIVE.resolve, LIVE.space, partial(LIVE.stat, follow=False)],
)
@pytest.mark.parametrize("root", ["", "/proc/self/root", "/proc/.."])
def test_no_look_follows_a_link_of_a_user_by_the_kernels_own_walk(look, root, folder, monkeypatch):
    """The link may have come after the look at where the path leads."""
    mounted = folder / "mounted"
    mounted.mkdir()
    (mounted / "inner").symlink_to("words")
    monkeypatch.setattr(tree, "served_mounts", lambda: (str(mounted),))
    answer = look(f"{root}{link_of(EVE, folder, mounted)}/inner")
    assert isinstance(answer, Unreadable)
    assert answer.reason.endswith("a user's link leads to a file system that may give no answer")


def test_data_set_counts_nothing_behind_a_link_of_a_user_that_is_closed_to_the_user(folder):
    data, closed = folder / "data", folder / "closed"
    for one in (data, closed):
        one.mkdir()
    closed.chmod(0o700)
    (closed / "inner").mkdir()
    file = file_of(0, closed / "a.npy", 0o600)
    (data / "own.npy").write_bytes(b"x")
    for name, target in (("file", file), ("folder", closed), ("inner", closed / "inner")):
        (data / name).symlink_to(target)
        os.chown(data / name, EVE, EVE, follow_symlinks=False)
    (data / "of-root").symlink_to(file)
    for follow in (False, True):
        walk = Walk(str(data), follow=follow)
        assert sorted(entry.name for _, entries in walk.chunks() for entry in entries) == [
            "of-root",
            "own.npy",
        ]
        assert (walk.seen.unreadable, walk.seen.linked_folders, walk.seen.folders) == (3, 0, 1)
    with pytest.raises(PermissionError):  # also where the link came after the walk
        probe_file(str(data / "file"), with_header=True)


@pytest.mark.parametrize("new", ["link", "fifo", "folder"])
def test_what_comes_in_place_of_a_file_while_root_looks_is_not_opened(new, tmp_path, monkeypatch):
    path = file_of(EVE, tmp_path / "file", 0o600)
    secret = file_of(0, tmp_path / "secret", 0o600)
    secret.write_bytes(b"secret")
    look = tree.open_live_place

    def exchanged(asked: str) -> int:
        place = look(asked)
        path.rename(tmp_path / "moved")
        {
            "link": lambda: path.symlink_to(secret),
            "fifo": lambda: os.mkfifo(path),
            "folder": path.mkdir,
        }[new]()
        return place

    monkeypatch.setattr(tree, "open_live_place", exchanged)
    assert LIVE.read(str(path)) == b"text"


def test_link_of_a_user_leads_to_no_mount_that_waits_for_a_server(tmp_path, monkeypatch):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    file_of(EVE, mounted / "file", 0o644)
    monkeypatch.setattr(tree, "served_mounts", lambda: (str(mounted),))
    answer = LIVE.read(link_of(EVE, tmp_path, mounted / "file"))
    assert isinstance(answer, Unreadable)
    assert answer.reason.endswith("a user's link leads to a file system that may give no answer")
    assert (
        LIVE.read(str(mounted / "file"))
        == LIVE.read(link_of(0, tmp_path, mounted / "file"))
        == b"text"
    )


@pytest.mark.parametrize("look", [LIVE.read, LIVE.head])
def test_lease_of_a_user_is_not_waited_for(look, folder):
    """A plain open(2) waits 45 s for it (/proc/sys/fs/lease-break-time), for each file."""
    path = file_of(EVE, folder / "file", 0o644)
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


def test_folders_of_a_report_are_listed_by_one_child(folder, monkeypatch):
    """One for each would take a fortieth of a second: for what a user can nest, minutes."""
    below = folder / "/".join("a" * 60)
    below.mkdir(parents=True)
    (below / "x.json").touch()
    os.chown(folder, EVE, EVE)
    late_mounts._find_stranger.cache_clear()
    forks, own_fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or own_fork())
    assert list(list_files([str(folder)])) == [(str(below / "x.json"), "")]
    assert len(forks) <= 2  # one asks whether the word is a folder


def test_command_that_is_printed_for_root_follows_no_link_of_a_user(folder):
    """The step of a rule makes a folder in one in which all users may write."""
    data, other = folder / "data", folder / "etc"
    data.mkdir()
    data.chmod(0o777)
    other.mkdir(0o755)
    words = ("ln", "--symbolic", other, data / "tmp")
    subprocess.run(words, check=True, user=EVE, group=EVE, extra_groups=[])
    reader = read_record(str(HOSTS / "h100-8x-2socket.json"))
    policy = Policy(today="2026-11-01").only("storage-tmp-tmpfs")
    asked = examine(reader, builtin_catalog(), policy, collect=False)
    (found,) = asked.look(asked.facts)
    step = next(one for one in found.todo.split("\n") if "make a folder" in one)
    command = step.partition("sudo ")[2].replace("/data", str(data))
    assert command.endswith(f"{data}/tmp")
    done = subprocess.run(("sh", "-c", command), check=False, capture_output=True, text=True)
    assert (done.returncode, oct(other.stat().st_mode & 0o7777)) == (1, "0o755")
