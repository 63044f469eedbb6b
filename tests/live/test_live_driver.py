"""The driver's whole life on a server that looks like Ubuntu's, with the real apt and dpkg
(driver_server.py).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.live.driver_server import server_tree
from tests.live.test_live_packages import inside

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("driver", numbered=True)
    tree = server_tree(base)
    shutil.copy(Path(__file__).with_name("driver_life_cycle.py"), tree / "opt/src")
    yield tree
    shutil.rmtree(base)


def test_driver_lives_from_nothing_to_another_branch_and_back(server):
    done = inside(server, "python3", "/opt/src/driver_life_cycle.py")
    assert done.returncode == 0, done.stdout + done.stderr
