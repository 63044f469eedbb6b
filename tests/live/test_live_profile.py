"""What a login shell makes of the file for scratch space, as the user who logs in."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from hosttune.choices.scratch import ScratchFolder
from hosttune.rendering import render

USER = 65534  # nobody
EVE = 1001
SHELLS = ("dash", "bash")
SHOWN = 'printf "%s\\n" "$TMPDIR" "$XDG_CACHE_HOME" "${_hosttune-}"'


@pytest.fixture
def scratch():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        Path(folder).chmod(0o1777)
        yield Path(folder)


def session(shell: str, scratch: Path, uid: int = USER, **env: str) -> list[str]:
    """What a shell of the user shows after it has read the file; it must say nothing and go on."""
    above = ScratchFolder(str(scratch), "").above
    script = (
        render("scratch.sh.j2", rule="storage-scratch-variables", folder=str(scratch), above=above)
        + SHOWN
    )
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
def test_working_directory_that_is_closed_to_the_user_changes_nothing(
    shell, scratch, tmp_path, monkeypatch
):
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    assert session(shell, scratch)[0] == f"{scratch}/nobody/tmp"


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
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_other_user_does_not_get_the_folder_of_this_one(shell, mode, scratch):
    """Eve renames the folder of nobody's and puts one of her own there: from then on she would own
    what nobody runs.
    """
    open_to_all = scratch / "open"
    open_to_all.mkdir()
    own = open_to_all / "nobody"
    open_to_all.chmod(mode)
    if mode == 0o775:
        os.chown(open_to_all, 0, EVE)
    session(shell, open_to_all)
    assert own.exists() is (mode == 0o1777)
    is_moved = (
        as_eve("mv", own, open_to_all / "gone") == 0
        if own.exists()
        else as_eve("mkdir", "-m", "777", own) == 0
    )
    assert is_moved is (mode != 0o1777)
    shown = session(shell, open_to_all)
    assert shown == ([f"{own}/tmp", f"{own}/cache", ""] if mode == 0o1777 else ["", "", ""])
    assert mode != 0o1777 or own.stat().st_uid == USER


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("made", ["folder above", "folder", "link", "own"])
def test_folder_that_others_could_replace_is_not_used(shell, made, scratch):
    above = scratch / "above"
    place = above / "scratch"
    place.mkdir(parents=True)
    place.chmod(0o1777)
    if made == "folder above":
        os.chown(above, EVE, EVE)
    elif made == "folder":
        os.chown(place, EVE, EVE)
    elif made == "link":
        place.rename(above / "target")
        place.symlink_to("target")
    else:  # nobody's own, in which everybody can write
        (place / "nobody").mkdir()
        (place / "nobody").chmod(0o777)
        os.chown(place / "nobody", USER, USER)
    assert session(shell, place) == ["", "", ""]


def as_eve(*words) -> int:
    command = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups", *map(str, words))
    return subprocess.run(command, check=False, capture_output=True, timeout=20).returncode


@pytest.mark.parametrize("shell", SHELLS)
def test_root_and_a_disk_that_is_not_there_change_nothing(shell, scratch):
    assert session(shell, scratch, uid=0) == ["", "", ""]
    assert list(scratch.iterdir()) == []
    assert session(shell, scratch / "gone") == ["", "", ""]
    scratch.chmod(0o755)
    assert session(shell, scratch) == ["", "", ""]
