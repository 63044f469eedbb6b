"""What an ordinary user can have this kernel print at the beginning of a line: nothing of it is a
word of the driver.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.gpu.gpu_errors import xids_in
from hosttune.facts.kernel.kernel_log import DMESG
from hosttune.host.reading.live import LiveReader

pytestmark = pytest.mark.live
SWITCH = Path("/proc/sys/kernel/print-fatal-signals")
USER = 4242
FAULT = "NVRM: Xid (PCI:0000:f{}:00): 79, GPU has fallen off the bus."


@pytest.fixture
def said_by_the_kernel(tmp_path):
    """The kernel says which programs end by a signal, for the time of this test."""
    before = SWITCH.read_text(encoding="ascii")
    try:
        SWITCH.write_text("1\n", encoding="ascii")
    except OSError as error:
        pytest.skip(f"{SWITCH} cannot be set: {error.strerror}")
    way = [tmp_path, *tmp_path.parents[:2]]
    modes = [place.stat().st_mode & 0o7777 for place in way]
    for place in way:
        place.chmod(0o755)
    yield tmp_path
    SWITCH.write_text(before, encoding="ascii")
    for place, mode in zip(way, modes, strict=True):
        place.chmod(mode)


@pytest.mark.parametrize(("slot", "end"), [("0", ""), ("1", "\nrest")])
def test_program_of_a_user_that_is_called_like_an_error_of_a_gpu_is_none(
    said_by_the_kernel, slot, end
):
    program = said_by_the_kernel / f"{FAULT.format(slot)}{end}"
    shutil.copy("/bin/sh", program)
    program.chmod(0o755)
    user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    subprocess.run(
        [*user, str(program), "-c", "kill -SEGV $$"], check=False, stderr=subprocess.DEVNULL
    )
    raw = subprocess.run(
        DMESG, check=False, capture_output=True, text=True, errors="replace"
    ).stdout
    assert (
        "potentially unexpected fatal signal" in raw
    )  # some kernels begin that line with the program's name
    log = Facts(LiveReader()).kernel_log.both
    assert f"f{slot}:00" not in log
    assert not any(f":f{slot}:" in gpu for gpu in xids_in(log.splitlines()))
