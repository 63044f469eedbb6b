"""Scenarios in a private mount namespace: each is a function `scenario_<name>(folder)` of the
test's own file that runs in a child under unshare(1), so that this machine's files and mounts stay
as they are. What it asserts fails the test.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def passes(script: str, name: str, folder: Path, timeout_s: float = 120) -> None:
    """Run `scenario_<name>` of the file `script` with `folder` as its place to work; fail with what
    it said.
    """
    child = (sys.executable, "-c", _CHILD, script, name, str(folder))
    done = subprocess.run(
        ("unshare", "--mount", "--propagation", "private", *child),
        check=False, capture_output=True, text=True, timeout=timeout_s, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


_CHILD = "import runpy, sys, pathlib; runpy.run_path(sys.argv[1])[f'scenario_{sys.argv[2]}'](pathlib.Path(sys.argv[3]))"


def run(*argv: object) -> str:
    """The output of a program that must succeed."""
    done = subprocess.run(
        [str(word) for word in argv], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def own_etc(folder: Path) -> Path:
    """An /etc of the scenario's own, with what programs need to run."""
    etc = folder / "etc"
    etc.mkdir()
    for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache", "localtime", "alternatives"):
        if (Path("/etc") / name).exists():
            run("cp", "-a", f"/etc/{name}", etc)
    run("mount", "--bind", etc, "/etc")
    return etc


@contextlib.contextmanager
def loop_disk(image: Path, mkfs: str, *words: str, size: int = 64 << 20) -> Iterator[str]:
    """A loop device with a fresh file system on it, taken away at the end; loop devices are not
    private.
    """
    with image.open("wb") as file:
        file.truncate(size)
    run(mkfs, *words, image)
    device = run("losetup", "--find", "--show", image).strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)
