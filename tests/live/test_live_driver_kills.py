"""A few points of driver_kills.py, each ending finished or named; `python -m
tests.live.driver_kills --all` tries all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.driver_kills import points

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.live
CHOSEN = (
    "install: libnvidia-compute-580-server-postinst-configure all",
    "update: libnvidia-compute-580-server-preinst-upgrade fail",
    "undo-update: libnvidia-compute-580-server-preinst-upgrade fail",
    "switch: libnvidia-compute-580-server-postrm-remove all",
    "undo-switch: libnvidia-compute-580-server-preinst-install dpkg",
    "go-on: journal-3 torn",
)


def test_driver_that_was_cut_off_is_finished_or_named():
    assert set(CHOSEN) <= set(map(str, points()))
    done = subprocess.run(
        (sys.executable, "-m", "tests.live.driver_kills", *CHOSEN),
        check=False, capture_output=True, text=True, timeout=900, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CHOSEN)} points, 0 faults" in done.stdout
    assert "not reached" not in done.stdout
