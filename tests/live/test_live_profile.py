"""What a login shell makes of the file for scratch space, as the user who logs in."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from hosttune.rendering import render

USER = 65534  # nobody
SHELLS = ("dash", "bash")
SHOWN = 'printf "%s\\n" "$TMPDIR" "$XDG_CACHE_HOME" "${_hosttune-}"'


@pytest.fixture
def scratch():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        Path(folder).chmod(0o1777)
        yield Path(folder)


def session(shell: str, scratch: Path, uid: int = USER, **env: str) -> list[str]:
    """What a shell of the user shows after it has read the file; it must say nothing and go on."""
    script = render("scratch.sh.j2", rule="storage-scratch-variables", folder=str(scratch)) + SHOWN
    done = subprocess.run(
        ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", shell, "-eu", "-c", script),
        check=True, capture_output=True, text=True, timeout=20, env={"PATH": "/usr/bin:/bin", "TMPDIR": "", "XDG_CACHE_HOME": "", **env},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:3]


@pytest.mark.parametrize("shell", SHELLS)
def test_user_gets_a_folder_of_their_own(shell, scratch):
    own = scratch / "nobody"
    assert session(shell, scratch) == [f"{own}/tmp", f"{own}/cache", ""]
    assert session(shell, scratch) == [f"{own}/tmp", f"{own}/cache", ""]
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_set_already_stays(shell, scratch):
    assert session(shell, scratch, TMPDIR="/mine")[0] == "/mine"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("made", ["link", "folder", "file"])
def test_what_somebody_else_made_first_is_not_used(shell, made, scratch):
    own, target = scratch / "nobody", scratch / "trap"
    if made == "link":
        target.mkdir()
        own.symlink_to(target)
    elif made == "folder":
        own.mkdir(mode=0o777)
    else:
        own.touch()
    assert session(shell, scratch) == ["", "", ""]
    assert not target.exists() or list(target.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_root_and_a_disk_that_is_not_there_change_nothing(shell, scratch):
    assert session(shell, scratch, uid=0) == ["", "", ""]
    assert list(scratch.iterdir()) == []
    assert session(shell, scratch / "gone") == ["", "", ""]
    scratch.chmod(0o755)
    assert session(shell, scratch) == ["", "", ""]
