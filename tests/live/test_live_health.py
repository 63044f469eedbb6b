"""What hangs in the kernel hangs nobody who waits for it, and is told: on a frozen ext4, where a write stays in state D."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.live.namespace import loop_disk, passes, run

pytestmark = pytest.mark.live


def test_work_that_the_kernel_holds_is_left_behind_and_named(tmp_path):
    passes(__file__, "frozen", tmp_path)


def write(disk: Path) -> bytes:
    from hosttune.host.console import save

    save(f"{disk}/new", b"x")
    return b""


def scenario_frozen(folder: Path) -> None:
    from hosttune.actions.health import _late
    from hosttune.engine.health import Fitness, judge
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
    (point,) = judge([_late("storage-x", waiting, [waiting], 1.0)]).points
    assert point.fitness is Fitness.UNFIT
    assert point.reason == f"{disk}/new hangs in the kernel, where nothing ends it"
