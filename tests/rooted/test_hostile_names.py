"""A process of a user with terminal escapes in its name holds a GPU: what the gate tells of it at
logins, in logs, to hooks.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

from hosttune.actions.gate import ready
from hosttune.actions.trial.clock import announce
from hosttune.actions.trial.state import TrialRecord, TrialRun, TrialState
from hosttune.actions.trial.trial import on_trial_text
from hosttune.engine.decide.ready import ReadyState, Standing, begin_state, not_ready
from hosttune.engine.policy.policy import Policy
from hosttune.host.door import Completed
from hosttune.host.reading.live import LiveReader, LiveWriter
from hosttune.host.reading.tree import FileTree
from hosttune.values import Confirmer

EVE = 1001
NAMES = ("\x1b]0;P\x07\x1b[8mHID", "\x1b[2J\r\n\u202ex", "token=\x9bxyz")
HOLDER = """
import ctypes, os, sys, time
held = os.open("/dev/nvidia0", os.O_RDWR)
os.setgroups([]); os.setgid(1001); os.setuid(1001)
ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1]), 0, 0, 0)
print("ready", flush=True)
time.sleep(300)
"""


class Tree(LiveWriter):
    """The real writer on the files below a folder; programs and the system log are noted."""

    def __init__(self, root):
        super().__init__()
        FileTree.__init__(self, str(root))
        self.ran, self.logged = [], []

    def run(self, argv, *, timeout_s):
        self.ran.append(tuple(argv))
        return Completed(0, b"", b"")

    def log(self, message, message_id=""):
        self.logged.append(message)


def jobs_seen(name: str) -> list[str]:
    """What a look at the running processes finds, with a GPU in a /dev of its own, where only this
    look sees it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        holder, status = None, 1
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.unshare(0x20000) == 0
            assert libc.mount(b"none", b"/", None, 1 << 14 | 1 << 18, None) == 0
            null = os.open("/dev/null", os.O_RDWR)
            assert libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, b"mode=755") == 0
            os.mknod("/dev/null", 0o20666, os.makedev(1, 3))
            os.mknod(
                "/dev/nvidia0", 0o20666, os.makedev(1, 3)
            )  # no driver opens a node of NVIDIA's here
            holder = subprocess.Popen(
                [sys.executable, "-I", "-c", HOLDER, name], stdin=null, stdout=subprocess.PIPE
            )
            assert holder.stdout.readline() == b"ready\n"
            os.write(writing, json.dumps(ready.list_jobs(LiveReader(), Policy())).encode())
            status = 0
        finally:
            if holder is not None:
                holder.kill()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = json.loads(answer.read() or b"null")
    assert os.waitpid(child, 0)[1] == 0
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_byte_of_the_name_steers_who_reads_it(tmp_path, name):
    found = jobs_seen(name)
    assert any("holds a GPU" in one for one in found)
    (tmp_path / "run/motd.d").mkdir(parents=True)
    hook = tmp_path / ready.HOOKS[1:] / "slurm"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    writer = Tree(tmp_path)
    state = not_ready(
        begin_state(None, "boot", 0, ""),
        "hold",
        f"something has to be solved before: {'; '.join(found)}",
    )
    ready.keep_state(writer, state)
    for one in (state, ready.read_state(writer)):  # as it is, and as another command reads it
        ready.tell_state(writer, one)
        ready.tell_hooks(writer, one, lambda _: None)
    back = TrialRun(
        TrialRecord("r", "d", 1, 1, Confirmer.OPERATOR, "b", 0, 0),
        TrialState.CAME_BACK,
        None,
        found[0],
    )
    announce(writer, on_trial_text(back))
    motd = (tmp_path / ready.MOTD[1:]).read_bytes().decode()
    words = [word for argv in writer.ran for word in argv]
    assert sum(f"{hook}".endswith(argv[0]) for argv in writer.ran) == 2
    assert any(argv[0] == "wall" for argv in writer.ran)
    for text in (motd.rstrip("\n"), *writer.logged, *words):
        assert text.isprintable()
        assert "xyz" not in text
    assert all("holds a GPU" in text for text in (motd, *writer.logged))


def test_state_that_another_version_kept_is_cleaned_when_it_is_read(tmp_path):
    writer = Tree(tmp_path)
    ready.put(writer, ready.STATE, json.dumps({
        "format_version": 1, "standing": "held", "boot_id": "b", "sentence": NAMES[0], "digest": "", "at": 0,
        "reboots": [], "allowed": 1, "approval": "", "machine": "",
    }).encode(), 0o600)  # fmt: skip
    state = ready.read_state(writer)
    assert isinstance(state, ReadyState)
    assert state.standing is Standing.HELD
    assert state.sentence.isprintable()
