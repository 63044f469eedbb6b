"""Module options in the initial RAM disk: the real update-initramfs and the real dracut build it,
and hosttune names and calls the one that this host builds with.
"""

from pathlib import Path

import pytest

from tests.vm.archive import packages
from tests.vm.transcript import Transcript
from tests.vm.tree import inside

pytestmark = pytest.mark.vm
SCENARIOS = (
    "initramfs_tools_takes_the_option_beside_a_dracut_without_hook",
    "dracut_takes_the_option_beside_what_initramfs_tools_left",
    "generic_dracut_leaves_the_option_out_and_that_is_said",
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_in_a_throw_away_debian_passes(
    name: str, tmp_path: Path, transcript: Transcript
) -> None:
    debs = packages("trixie", "dracut", "dracut-core")[0].parent
    done = inside(tmp_path, debs, "python3", "-P", "/src/tests/vm/initramfs_scenarios.py", name)
    transcript.note(f"Debian 13: {name}\n{done.stdout}{done.stderr}[exit {done.returncode}]")
    assert done.returncode == 0, done.stdout + done.stderr
