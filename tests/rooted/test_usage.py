"""What lies below a folder in which users of the host may write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import types

import pytest

from hosttune.host.reading.live import LiveReader

UID = 1003
KIB = 1 << 10


@pytest.fixture
def crash():
    """A folder like /var/crash."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o1777)  # noqa: S103 - as it is
        yield name


def as_user(folder: str, words: str) -> None:
    user = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    subprocess.run((*user, "sh", "-ec", words), check=True, timeout=60, cwd=folder)


def test_file_of_a_user_that_holds_nothing_takes_no_space(crash):
    as_user(crash, "truncate -s 1T dump")
    assert LiveReader().usage(crash).size_bytes == 0


def test_file_with_many_names_counts_once(crash):
    as_user(
        crash,
        "head -c 1048576 /dev/urandom > dump; sync dump; for i in $(seq 100); do ln dump dump.$i; done",
    )
    found = LiveReader().usage(crash)
    assert (found.size_bytes, found.entries) == (1024 * KIB, 101)


def test_files_that_share_their_blocks_are_no_more_than_is_in_use(crash, monkeypatch):
    as_user(crash, "head -c 1048576 /dev/urandom > dump; sync dump; cp dump copy; sync copy")
    monkeypatch.setattr(
        os, "fstatvfs", lambda _: types.SimpleNamespace(f_blocks=9000, f_bfree=8000, f_frsize=KIB)
    )
    assert LiveReader().usage(crash).size_bytes == 1000 * KIB


SERVER = """
import ctypes, os, struct, sys
folder = sys.argv[1]
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=1003,group_id=1003,allow_other"  # as fusermount3 mounts it for a user
assert ctypes.CDLL(None).mount(b"x", folder.encode(), b"fuse", 6, options.encode()) == 0
unique, = struct.unpack_from("=Q", os.read(device, 1 << 16), 8)
answer = struct.pack("=IIIIHHIII", 7, 31, 65536, 0, 12, 10, 65536, 1, 0).ljust(64, b"\\0")
os.write(device, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)
"""
COUNT = """
from hosttune.host.reading import usage
usage.served_mounts = lambda: ()  # what it was when the walk began
folder = os.open(os.path.dirname(folder), os.O_RDONLY)
print(usage.count(folder).entries, flush=True)
"""
LOOK = """
from hosttune.host.reading import late_mounts
from hosttune.host.reading.live import LiveReader
late_mounts.ANSWER_S = 0.5
reader = LiveReader()
for look in (reader.list, reader.read, reader.usage, reader.space):
    print(look(folder + "/file").reason.rpartition(": ")[2], flush=True)
print(reader.list(folder).reason.rpartition(": ")[2], flush=True)
os._exit(0)
"""


def said_of_a_mount_without_answers(crash: str, look: str) -> str:
    inner = os.path.join(crash, "mount")
    os.mkdir(inner)
    words = (
        "unshare",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        "-c",
        SERVER + look,
        inner,
    )
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    return done.stdout


def test_what_a_user_mounts_while_the_folder_is_walked_is_not_waited_for(crash):
    assert said_of_a_mount_without_answers(crash, COUNT) == "1\n"


def test_what_a_user_mounts_after_the_mounts_were_read_is_not_waited_for(crash):
    assert said_of_a_mount_without_answers(crash, LOOK) == "its file system gives no answer\n" * 5
