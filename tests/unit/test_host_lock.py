"""One run at a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hosttune.errors import Refused
from hosttune.host.writing.lock import hold_lock


def test_second_run_is_refused_and_names_the_holder(tmp_path):
    path = str(tmp_path / "lock")
    with hold_lock(path), pytest.raises(Refused, match=f"process {os.getpid()}"), hold_lock(path):
        pass
    with hold_lock(path):
        assert os.stat(path).st_mode & 0o777 == 0o600


def test_lock_ends_with_a_process_that_is_killed(tmp_path):
    path = str(tmp_path / "lock")
    program = f"import os\nfrom hosttune.host.writing.lock import hold_lock\nwith hold_lock({path!r}):\n    os.kill(os.getpid(), 9)\n"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    with hold_lock(path):
        pass


def test_program_that_a_run_starts_does_not_inherit_the_lock(tmp_path):
    path = str(tmp_path / "lock")
    with hold_lock(path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with hold_lock(path):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_what_is_no_file_of_ours_is_refused(tmp_path, kind):
    path = tmp_path / "lock"
    if kind == "link":
        (tmp_path / "victim").write_text("keep")
        path.symlink_to("victim")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(Refused), hold_lock(str(path)):
        pass
    if kind == "link":
        assert (tmp_path / "victim").read_text() == "keep"
