"""A program that is asked writes nothing: apt's caches and the log of its planner stay as they
were.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.live
FOLDERS = ("/var/cache/apt", "/var/log/apt")


def test_apt_writes_no_cache_and_no_log(tmp_path):
    done = subprocess.run(
        ("unshare", "--mount", "--propagation", "private", sys.executable, __file__, str(tmp_path)),
        check=False, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def written() -> list[str]:
    return sorted(
        str(Path(folder) / name) for top in FOLDERS for folder, _, names in os.walk(top) for name in names
    )  # fmt: skip


def main(scratch: Path) -> None:
    from hosttune.host.reading.live import LiveReader

    # Images for containers switch the caches off by a file in apt.conf.d; here they are on, as on a
    # server.
    for name in ("apt.conf.d", "cache", "log"):
        (scratch / name).mkdir()
    for source, target in (
        ("apt.conf.d", "/etc/apt/apt.conf.d"),
        ("cache", FOLDERS[0]),
        ("log", FOLDERS[1]),
    ):
        subprocess.run(["mount", "--bind", str(scratch / source), target], check=True, timeout=60)
    for argv in (
        ("apt-get", "-s", "-y", "install", "hello"),
        ("apt-get", "--print-uris", "-y", "install", "hello"),
        ("apt-cache", "policy", "apt"),
        ("apt-mark", "showhold"),
        # ubuntu-drivers and other programs that use libapt know nothing of our options
        ("sh", "-c", "apt-get -s -y install hello; apt-cache policy apt"),
    ):
        LiveReader().query(argv, timeout_s=100)
        assert written() == [], argv
    subprocess.run(["apt-cache", "policy", "apt"], check=True, capture_output=True, timeout=100)
    assert written() != [], "the net catches nothing"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
