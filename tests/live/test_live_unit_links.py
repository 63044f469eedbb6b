"""Units of an image: hosttune makes and removes the links that the systemctl of this machine
does.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from hosttune.host.reading.rooted import RootWriter
from hosttune.resources.services.unit_links import disable_in_files, enable_in_files
from tests.unit.test_unit_links import image, links  # noqa: F401 - a fixture

ENABLES = [
    "a.timer",
    "b.service",
    "c.service",
    "d.socket",
    "t@.service",
    "i@eth0.service",
    "i@a.b.service",
]


@pytest.mark.parametrize("name", ENABLES)
def test_the_links_are_those_that_systemctl_makes_and_takes_away(image, tmp_path, name):  # noqa: F811
    theirs = tmp_path / "theirs"
    shutil.copytree(image, theirs, symlinks=True)
    for verb, act in (("enable", enable_in_files), ("disable", disable_in_files)):
        subprocess.run(
            ["systemctl", f"--root={theirs}", verb, name],
            check=True,
            capture_output=True,
            timeout=60,
        )
        act(RootWriter(str(image)), name)
        assert links(image) == links(theirs)
        assert bool(links(image)) is (verb == "enable")
