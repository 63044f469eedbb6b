"""Promise 1, as the kernel sees it: check, plan and a dry-run apply open nothing for writing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parents[2]
OPENED = re.compile(r'open(?:at|at2)?\((?:[^"]*?)"(?P<path>[^"]*)".*?(?P<flags>O_[A-Z_|]+)')
CHANGES = re.compile(
    r"\b(?:unlink(?:at)?|rename(?:at2?)?|mkdir(?:at)?|rmdir|symlink(?:at)?|link(?:at)?|f?chmod(?:at)?|f?l?chown(?:at)?|mount(?:_setattr)?|"
    r"umount2|utimensat|f?setxattr|truncate|mknod(?:at)?)\((?P<rest>[^)]*)"
)
WRITES = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND")
ALLOWED = re.compile(r"^/dev/(?:null|tty|pts/\d+)$|^/proc/self/")


def traced(words: list[str], tmp_path: Path, program: tuple[str, ...] = ("-m", "hosttune")) -> str:
    log = tmp_path / "strace.log"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["strace", "-f", "-y", "-qq", "-e", "trace=%file,%process,unshare,mount_setattr,fchmod,fchown,fsetxattr,ftruncate", "-o", str(log), sys.executable, *program, *words],
        check=False, capture_output=True, text=True, timeout=300, env=environment, cwd="/",
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    return log.read_text(encoding="utf-8", errors="replace")


def violations(log: str) -> list[str]:
    found = []
    for line in outside_of_private_namespaces(log):
        opened = OPENED.search(line)
        if (
            opened
            and any(flag in opened["flags"] for flag in WRITES)
            and not ALLOWED.match(opened["path"])
        ) or (CHANGES.search(line) and "= -1" not in line):
            found.append(line)
    return found


def outside_of_private_namespaces(log: str) -> list[str]:
    """Without what happens on /tmp in a mount namespace of a process's own, where /tmp is a tmpfs
    of its own.
    """
    lines = log.splitlines()
    inside = {line.split(maxsplit=1)[0] for line in lines if "unshare(CLONE_NEWNS)" in line}
    for line in lines:
        child = re.search(r"(?:clone3?|vfork|fork)\b.*= (\d+)$", line)
        if child and line.split(maxsplit=1)[0] in inside:
            inside.add(child[1])
    private = re.compile(r'["<]/tmp[/">]|mount\("none", "/", NULL, MS_REC\|MS_PRIVATE')
    return [
        line
        for line in lines
        if line.split(maxsplit=1)[0] not in inside or not private.search(line)
    ]


@pytest.mark.parametrize(
    "words",
    [["check"], ["check", "--timings", "--format", "json"], ["plan"], ["apply"], ["history"]],
    ids=" ".join,
)
def test_command_that_only_looks_opens_nothing_for_writing(words, tmp_path):
    assert violations(traced(words, tmp_path)) == []


REHEARSAL = """
from hosttune.host.door import Rehearsal
from hosttune.host.reading.live import LiveReader
line = b"tmpfs /tmp tmpfs size=64M,nofail 0 0\\n"
assert isinstance(LiveReader().rehearse_fstab(b"", line, ("size=64M,nofail",)), Rehearsal)
"""


def test_an_fstab_is_tried_in_a_namespace_of_its_own_alone(tmp_path):
    log = traced([], tmp_path, ("-c", REHEARSAL))
    assert "unshare(CLONE_NEWNS)" in log
    assert '"/tmp/trial"' in log
    assert violations(log) == []


def test_the_net_catches_a_write(tmp_path):
    log = traced(["plan", "--save", str(tmp_path / "p.json")], tmp_path)
    assert any("p.json" in line or "rename" in line for line in violations(log))
