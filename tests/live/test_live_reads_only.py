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


def traced(words: list[str], tmp_path: Path) -> str:
    log = tmp_path / "strace.log"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=%file,mount_setattr,fchmod,fchown,fsetxattr,ftruncate", "-o", str(log), sys.executable, "-m", "hosttune", *words],
        check=False, capture_output=True, text=True, timeout=300, env=environment, cwd="/",
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    return log.read_text(encoding="utf-8", errors="replace")


def violations(log: str) -> list[str]:
    found = []
    for line in log.splitlines():
        opened = OPENED.search(line)
        if (opened and any(flag in opened["flags"] for flag in WRITES) and not ALLOWED.match(opened["path"])) or (
            CHANGES.search(line) and "= -1" not in line
        ):
            found.append(line)
    return found


@pytest.mark.parametrize(
    "words", [["check"], ["check", "--timings", "--format", "json"], ["plan"], ["apply"], ["history"]], ids=" ".join
)
def test_command_that_only_looks_opens_nothing_for_writing(words, tmp_path):
    assert violations(traced(words, tmp_path)) == []


def test_the_net_catches_a_write(tmp_path):
    log = traced(["plan", "--out", str(tmp_path / "p.json")], tmp_path)
    assert any("p.json" in line or "rename" in line for line in violations(log))
