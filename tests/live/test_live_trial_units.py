"""systemd reads the units that guard a boot on trial, with the targets that want them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hosttune.actions.trial.guard import unit_texts
from hosttune.host.known.unit_folders import ADMIN

TARGETS = ("sysinit.target", "multi-user.target", "emergency.service")


@pytest.fixture
def units(tmp_path) -> Path:
    for path, text in unit_texts(900):
        place = tmp_path / path[len(ADMIN) + 1 :]
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return tmp_path


def verify(units: Path) -> tuple[int, str]:
    names = [str(path) for path in sorted(units.iterdir()) if path.suffix in {".service", ".timer"}]
    assert len(names) == 5
    done = subprocess.run(
        ("systemd-analyze", "verify", "--man=no", *names, *TARGETS),
        check=False, capture_output=True, text=True, timeout=120,
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{units}:"},
    )  # fmt: skip
    return done.returncode, done.stderr


def test_systemd_finds_no_fault_and_no_circle_in_them(units):
    assert verify(units) == (0, "")


def test_targets_want_them(units):
    """Were the early unit to wait for the end of the boot, the order would be a circle: so the
    drop-ins are read.
    """
    early = units / "hosttune-come-back.service"
    early.write_text(early.read_text().replace("[Service]", "After=multi-user.target\n[Service]"))
    assert "ordering cycle" in verify(units)[1]
    late = units / "hosttune-trial-check.service"
    late.write_text(late.read_text() + "Unheard=of\n")
    assert "Unheard" in verify(units)[1]
