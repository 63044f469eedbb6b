"""nvidia-smi of a driver that lies in a container: run without rights, and only where root alone
has a say in it.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from hosttune.host import process
from hosttune.host.reading import driver_root, late_mounts
from hosttune.host.reading.driver_root import make_contained
from hosttune.host.reading.live import LiveReader
from hosttune.values import Unreadable

SMI = "usr/bin/nvidia-smi"
SCRIPT = '#!/bin/sh\nid -u; id -G; ls /; echo "$@"\n'


@pytest.fixture
def root(monkeypatch):
    """The root of a driver's container, in folders of root's alone; the host has no nvidia-smi."""
    folder = Path("/var/lib") / f"hosttune-test-{os.getpid()}"
    (folder / "usr/bin").mkdir(parents=True)
    for path in (folder, folder / "usr", folder / "usr/bin"):
        path.chmod(0o755)
    (folder / SMI).write_text(SCRIPT)
    (folder / SMI).chmod(0o755)
    located = process.locate
    monkeypatch.setattr(
        driver_root,
        "locate",
        lambda name: process.ABSENT if name == "nvidia-smi" else located(name),
    )
    yield folder
    shutil.rmtree(folder)


def test_host_with_its_own_nvidia_smi_is_asked_itself(root, monkeypatch):
    monkeypatch.setattr(driver_root, "locate", lambda name: f"/usr/bin/{name}")
    assert make_contained(("nvidia-smi",), str(root)) == ()


def test_host_without_such_a_container_has_none(root):
    (root / SMI).unlink()
    assert make_contained(("nvidia-smi",), str(root)) == ()


def test_it_runs_in_its_own_root_as_nobody_without_new_rights(root):
    for name in ("sh", "id", "ls"):  # what the script needs, with its libraries
        program = os.path.realpath(shutil.which(name))
        libraries = [
            word
            for word in process.look(("ldd", program), timeout_s=20).text.split()
            if word.startswith("/")
        ]
        for path in (program, *libraries):
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), place)
        (root / "bin").mkdir(exist_ok=True)
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to(program)
    command = make_contained(("nvidia-smi", "--query-gpu=name"), str(root))
    done = process.look(command, timeout_s=20)
    lines = done.text.splitlines()
    assert lines[:2] == ["65534", "65534"], done
    assert "proc" not in lines
    assert lines[-1] == "--query-gpu=name"
    assert "--no-new-privs" in command


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: os.chown(root / SMI, 1000, 1000), "nvidia-smi can be written by others"),
        (lambda root: (root / SMI).chmod(0o777), "nvidia-smi can be written by others"),
        (lambda root: (root / "usr").chmod(0o777), "usr can be written by others"),
        (lambda root: os.chown(root, 1000, 1000), "can be written by others .uid 1000"),
        (lambda root: (root / SMI).write_text(""), "is empty"),
        (lambda root: (root / SMI).chmod(0o644), "not for everybody to start"),
        (
            lambda root: ((root / SMI).unlink(), (root / SMI).symlink_to("/bin/sh")),
            "is a link or a special file",
        ),
        (
            lambda root: ((root / "usr").rename(root / "real"), (root / "usr").symlink_to("real")),
            "usr is a link or a special file",
        ),
    ],
    ids=["owner", "mode", "folder", "root", "empty", "not to start", "link", "folder link"],
)
def test_what_somebody_else_could_write_is_not_run(root, spoil, said):
    spoil(root)
    answer = make_contained(("nvidia-smi",), str(root))
    assert isinstance(answer, Unreadable)
    assert re.search(said, answer.reason), answer.reason


def test_the_door_asks_it_where_the_host_has_none(root, monkeypatch):
    monkeypatch.setattr(driver_root, "make_contained", lambda argv: make_contained(argv, str(root)))
    answer = LiveReader().query(("nvidia-smi", "-L"), timeout_s=20)
    assert answer.status != 0  # it was started: this root has no shell for the script
    assert "nvidia-smi" in answer.errors
    os.chown(root, 1000, 1000)
    assert "can be written by others" in LiveReader().query(("nvidia-smi", "-L")).reason


def test_without_roots_rights_it_says_what_is_needed(root, monkeypatch):
    monkeypatch.setattr(driver_root.os, "geteuid", lambda: 1000)
    answer = make_contained(("nvidia-smi",), str(root))
    assert answer == Unreadable(f"needs root: nvidia-smi is in the driver's container ({root})")


@pytest.fixture
def beside(root):
    """The folder of Google's installer; the host has no driver's container."""
    (root / SMI).unlink()
    for name in ("bin", "lib64"):
        (root / name).mkdir()
        (root / name).chmod(0o755)
    (root / "bin/nvidia-smi").write_text(
        '#!/bin/sh\nid -u; id -G; echo "$LD_LIBRARY_PATH"; echo "$@"\n'
    )
    (root / "bin/nvidia-smi").chmod(0o755)
    return root


def test_nvidia_smi_of_googles_nodes_runs_as_nobody_with_its_own_libraries(beside):
    command = make_contained(("nvidia-smi", "--query-gpu=name"), str(beside), str(beside))
    done = process.look(command, timeout_s=20)
    assert done.text.splitlines() == ["65534", "65534", f"{beside}/lib64", "--query-gpu=name"], done
    assert "--no-new-privs" in command


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / "lib64").chmod(0o777), "lib64 can be written by others"),
        (
            lambda root: os.chown(root / "bin/nvidia-smi", 1000, 1000),
            "nvidia-smi can be written by others",
        ),
        (lambda root: (root / "lib64").rmdir(), "lib64: No such file"),
    ],
    ids=["libraries", "owner", "no libraries"],
)
def test_nvidia_smi_of_googles_nodes_that_others_can_change_is_not_run(beside, spoil, said):
    spoil(beside)
    command = make_contained(("nvidia-smi",), str(beside), str(beside))
    assert isinstance(command, Unreadable)
    assert re.search(said, command.reason), command.reason


def test_home_of_a_user_called_kubernetes_is_not_entered(root, monkeypatch):
    """The user's program is no driver, and a file system of theirs there could hold root for
    ever.
    """
    (root / SMI).unlink()
    home = root / "home/kubernetes"
    program = home / "bin/nvidia/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text(SCRIPT)
    os.chown(home, 1001, 1001)
    looked = []
    monkeypatch.setattr(
        driver_root.os.path, "lexists", lambda path: looked.append(path) or os.path.exists(path)
    )
    assert make_contained(("nvidia-smi",), str(root), str(home / "bin/nvidia")) == ()
    os.chown(home, 0, 0)
    os.chown(home / "bin", 1001, 1001)  # where the user mounts something, too
    late_mounts._find_stranger.cache_clear()
    assert make_contained(("nvidia-smi",), str(root), str(home / "bin/nvidia")) == ()
    assert not [path for path in looked if path.startswith(str(home))]
    os.chown(home / "bin", 0, 0)
    late_mounts._find_stranger.cache_clear()
    assert isinstance(
        make_contained(("nvidia-smi",), str(root), str(home / "bin/nvidia")), Unreadable
    )
