"""Pipes that a user puts where root reads a file: they may be silent, or give a byte now and then,
for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import pytest

from hosttune.errors import HosttuneError
from hosttune.host.reading import named
from hosttune.measure.watch.recording import replay

EVE = 1001
DRIP = """
import os, sys, time
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
os.umask(0)
os.mkfifo(sys.argv[1], 0o666)
pipe = os.open(sys.argv[1], os.O_RDWR)
print("made", flush=True)
while True:
    time.sleep(float(sys.argv[3]))
    os.write(pipe, b" ")
"""


@pytest.fixture
def pipe(request, monkeypatch):
    """A pipe of a user with a byte every so many seconds."""
    owner, seconds = request.param
    monkeypatch.setattr(named, "SILENCE_S", 0.6)
    monkeypatch.setattr(named, "WHOLE_S", 1.5)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o1777)  # noqa: S103 - any user's
        path = f"{name}/pipe"
        argv = [sys.executable, "-c", DRIP, path, str(owner), str(seconds)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
            try:
                assert writer.stdout
                assert writer.stdout.readline() == "made\n"
                yield path
            finally:
                writer.kill()


@pytest.mark.parametrize("pipe", [(EVE, 0.05)], indirect=True)
def test_pipe_of_a_user_that_drips_is_read_for_a_limited_time(pipe):
    with pytest.raises(OSError, match=r"is a pipe of another user that did not end within 1\.5 s"):
        named.read_named(pipe, 1 << 20)
    with pytest.raises(
        HosttuneError, match=r"is a pipe of another user that did not end within 1\.5 s"
    ):
        replay(pipe)


@pytest.mark.parametrize("pipe", [(EVE, 60), (0, 60)], indirect=True)
def test_pipe_that_is_silent_is_given_up(pipe):
    with pytest.raises(OSError, match=r"is a pipe into which nothing was written for 0\.6 s"):
        named.read_named(pipe, 1 << 20)
    with pytest.raises(HosttuneError, match=r"is a pipe into which nothing was written for 0\.6 s"):
        replay(pipe)


def test_pipe_that_was_looked_at_is_the_one_that_is_read(tmp_path, monkeypatch):
    """What the path leads to after the look may be on a dead server: this process does not open it
    again.
    """
    monkeypatch.setattr(named, "SILENCE_S", 0.6)
    monkeypatch.setattr(named, "can_hang", lambda _: True)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    asked, own_open = [], os.open

    def watch_open(name, *words, **more):
        asked.append(os.fspath(name))
        return own_open(name, *words, **more)

    monkeypatch.setattr(os, "open", watch_open)
    writer = own_open(path, os.O_RDWR)
    os.write(writer, b"abc")
    with pytest.raises(OSError, match="nothing was written"):
        named.read_named(str(path), 1 << 20)
    os.close(writer)
    assert str(path) not in asked


def test_pipe_that_others_can_write_is_not_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(named, "WHOLE_S", 0.5)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for mode, seconds in ((0o644, 0.9), (0o666, 0.5)):
        path.chmod(mode)
        monkeypatch.setattr(named, "SILENCE_S", 0.9)
        writer = os.open(path, os.O_RDWR)
        with pytest.raises(OSError, match=f"{seconds:g} s"):
            named.read_named(str(path), 1 << 20)
        os.close(writer)


def test_pipe_of_ones_own_may_take_longer(tmp_path, monkeypatch):
    """As `>(...)` of a shell, into which a slow program writes."""
    monkeypatch.setattr(named, "WHOLE_S", 0.2)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    code = "import sys, time\nwith open(sys.argv[1], 'w') as pipe:\n for word in 'abcd':\n  pipe.write(word)\n  pipe.flush()\n  time.sleep(0.1)"
    with subprocess.Popen([sys.executable, "-c", code, str(path)]):
        end = time.monotonic() + 30
        while not (content := named.read_named(str(path), 1 << 20)) and time.monotonic() < end:
            time.sleep(0.01)  # it has not opened it yet
    assert content == b"abcd"
