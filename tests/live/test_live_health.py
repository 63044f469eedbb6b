"""What hangs in the kernel hangs nobody who waits for it, and is told: on a frozen ext4, where a
write stays in state D.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.live.namespace import loop_disk, passes, run

pytestmark = pytest.mark.live


def test_work_that_the_kernel_holds_is_left_behind_and_named(tmp_path):
    passes(__file__, "frozen", tmp_path)


def test_host_is_held_against_what_was_learned_of_it(tmp_path):
    passes(__file__, "learned", tmp_path)


def scenario_learned(folder: Path) -> None:
    from hosttune.facts.baseline import PATH

    own = Path("/var/lib/hosttune")
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", own if own.is_dir() else own.parent)
    told = hosttune("--learn")
    assert told.returncode == 0, told
    assert "GiB of memory: " in told.stdout
    file = Path(PATH)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    before = hosttune("--only", "host-baseline")
    assert (before.returncode, ": FIT" in before.stdout) == (0, True), before
    learned = json.loads(file.read_text())
    cores = next(part for part in learned["parts"] if part["name"] == "CPU cores")
    cores["amount"] += 2
    file.write_text(json.dumps(learned))
    less = hosttune("--only", "host-baseline")
    assert less.returncode == 1
    assert f"CPU cores: {cores['amount'] - 2} instead of {cores['amount']}" in " ".join(
        less.stdout.split()
    )
    assert hosttune("--learn").returncode == 0  # what is gone is no reason not to learn
    assert hosttune("--only", "host-baseline").returncode == 0


def hosttune(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hosttune", "health", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ}
    )


def write(disk: Path) -> bytes:
    from hosttune.host.writing.output import save

    save(f"{disk}/new", b"x")
    return b""


def scenario_frozen(folder: Path) -> None:
    from hosttune.actions.health import _find_late_rule
    from hosttune.engine.decide.health import Fitness, judge
    from hosttune.host.in_time import Waiting, in_time

    with loop_disk(folder / "disk", "mkfs.ext4", "-q") as device:
        disk = folder / "mnt"
        disk.mkdir()
        run("mount", device, disk)
        run("fsfreeze", "--freeze", disk)
        try:
            started = time.monotonic()
            answers = in_time({"disk": lambda: write(disk), "other": lambda: b"fine"}, 1.0)
            took = time.monotonic() - started
        finally:
            run("fsfreeze", "--unfreeze", disk)
        assert answers["other"] == b"fine"
        assert answers["disk"] == Waiting(f"{disk}/new", stuck=True)
        assert took < 60, took
        os.waitpid(-1, 0)  # the child was killed, and ends now that it can
        run("umount", disk)
    waiting = answers["disk"]
    assert isinstance(waiting, Waiting)
    (point,) = judge([_find_late_rule("storage-x", waiting, [waiting], 1.0)]).points
    assert point.fitness is Fitness.UNFIT
    assert point.reason == f"{disk}/new hangs in the kernel, where nothing ends it"
