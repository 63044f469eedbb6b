"""One fleet for the ring. Its hosts are told apart by what a test needs of them, because a new one
takes a second.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import tree
from tests.fleet.controller import OF_UBUNTU_24_04, ROOT, Controller, core_for, environment, pythons
from tests.fleet.hosts import RELEASES, Fleet, Kind


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The self-contained file, built from this checkout."""
    out = tmp_path_factory.mktemp("bundle") / "hosttune.pyz"
    builder = ROOT / "playbooks/packaging/pyz.py"
    done = subprocess.run(
        [sys.executable, builder, out], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def programs() -> Path:
    """ansible-core, the newest that the newest Python here takes."""
    python = pythons()[0]
    return environment(python, core_for(python))


@pytest.fixture
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Four new hosts, which say to be of the three releases. The parameter, where a test has one:
    sysctls to start with.
    """
    files = tree.get()
    fleet = Fleet(
        [Kind(files, release) for release in (*RELEASES, "24.04")], getattr(request, "param", {})
    )
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def controller(fleet: Fleet, programs: Path, bundle: Path, tmp_path: Path) -> Controller:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(fleet.inventory())
    return Controller(programs, inventory, bundle, tmp_path)


@pytest.fixture(params=["newest", "oldest"])
def either(
    request: pytest.FixtureRequest, fleet: Fleet, programs: Path, bundle: Path, tmp_path: Path
) -> Controller:
    """A controller with the newest ansible-core that is supported, and one with the oldest."""
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(fleet.inventory())
    own = programs if request.param == "newest" else environment(pythons()[-1], OF_UBUNTU_24_04)
    return Controller(own, inventory, bundle, tmp_path)
