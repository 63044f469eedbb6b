"""The atime mode of real mounts: set on the one that is seen, everything else as it was.

Each scenario runs in a child under unshare(1); what it asserts fails the test with its traceback.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.live
SCENARIOS = (
    "only_the_atime_field", "every_mode_and_back", "stacked", "hidden_by_a_mount_above", "not_a_mount", "blank_in_the_name",
    "bind_of_the_same_disk_stays", "old_kernel",
)  # fmt: skip


def in_namespace(name: str, folder: Path, *unshare: str) -> None:
    done = subprocess.run(
        ("unshare", "--mount", "--propagation", "private", *unshare, sys.executable, __file__, name, str(folder)),
        check=False, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SCENARIOS)
def test_atime_of_a_mount(name, tmp_path):
    in_namespace(name, tmp_path)


def test_mount_of_an_outer_user_namespace_is_locked(tmp_path):
    in_namespace("lock_it", tmp_path)


def run(*argv: object) -> str:
    done = subprocess.run(
        [str(word) for word in argv], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def tmpfs(target: Path, options: str) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", options, "scratch", target)
    return target


def set_atime(target: Path, mode: str) -> None:
    from hosttune.host.reading.live import LiveWriter

    LiveWriter().set_atime(str(target), mode)


def options(target: Path) -> set[str]:
    """The per-mount words of the mount that the path leads to, by the mount id of an open
    descriptor.
    """
    fd = os.open(target, os.O_PATH)
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines()
    finally:
        os.close(fd)
    number = next(line.split()[1] for line in lines if line.startswith("mnt_id:"))
    rows = [
        row.split(" ")
        for row in Path("/proc/self/mountinfo").read_text(encoding="utf-8").split("\n")
    ]
    return set(next(row[5] for row in rows if row[0] == number).split(","))


def only_the_atime_field(folder: Path) -> None:
    target = tmpfs(folder / "m", "ro,nosuid,nodev,noexec,nodiratime")
    before = options(target)
    assert "relatime" in before
    set_atime(target, "noatime")
    assert options(target) == before - {"relatime"} | {"noatime"}
    set_atime(target, "relatime")
    assert options(target) == before


def every_mode_and_back(folder: Path) -> None:
    target = tmpfs(folder / "m", "nodev")
    for first in ("noatime", "strictatime", "relatime"):
        for second in ("relatime", "noatime", "strictatime"):
            set_atime(target, first)
            set_atime(target, second)
            words = {"strictatime": set()}.get(second, {second})
            assert options(target) == {"rw", "nodev", *words}


def stacked(folder: Path) -> None:
    target = tmpfs(folder / "m", "nodev")
    tmpfs(target, "nosuid")
    set_atime(target, "noatime")
    assert options(target) == {"rw", "nosuid", "noatime"}
    run("umount", target)
    assert options(target) == {"rw", "nodev", "relatime"}


def hidden_by_a_mount_above(folder: Path) -> None:
    from hosttune.errors import Refused

    tmpfs(folder / "a/b", "nodev")
    tmpfs(folder / "a", "nosuid")
    (folder / "a/b").mkdir()
    with pytest.raises(Refused, match="nothing is mounted"):
        set_atime(folder / "a/b", "noatime")
    run("umount", folder / "a")
    assert options(folder / "a/b") == {"rw", "nodev", "relatime"}


def not_a_mount(folder: Path) -> None:
    from hosttune.errors import Refused

    target = tmpfs(folder / "m", "nodev")
    (target / "inner").mkdir()
    for place, mode, words in (
        (target / "inner", "noatime", "nothing is mounted"),
        (target, "atime", "no atime mode"),
    ):
        with pytest.raises(Refused, match=words):
            set_atime(place, mode)
    assert options(target) == {"rw", "nodev", "relatime"}


def blank_in_the_name(folder: Path) -> None:
    target = tmpfs(folder / "a b\tc\\d ä", "nodev")
    set_atime(target, "noatime")
    assert options(target) == {"rw", "nodev", "noatime"}


def bind_of_the_same_disk_stays(folder: Path) -> None:
    target = tmpfs(folder / "m", "nodev")
    (folder / "bind").mkdir()
    run("mount", "--bind", target, folder / "bind")
    set_atime(target, "noatime")
    assert options(folder / "bind") == {"rw", "nodev", "relatime"}


def old_kernel(folder: Path) -> None:
    """Without mount_setattr(2), by a bind remount; a line in fstab with other words must not get
    in.
    """
    from hosttune.host.writing import mountapi

    target = tmpfs(folder / "m", "ro,nosuid,nodev,nodiratime")
    fstab = folder / "fstab"
    fstab.write_text(f"scratch {target} tmpfs noexec,nonsense 0 0\n", encoding="utf-8")
    run("mount", "--bind", fstab, "/etc/fstab")
    before = options(target)
    mountapi._mount_setattr = lambda *_: errno.ENOSYS
    for mode in ("noatime", "strictatime", "relatime"):
        set_atime(target, mode)
        assert options(target) == before - {"relatime"} | ({mode} - {"strictatime"})


def lock_it(folder: Path) -> None:
    tmpfs(folder / "m", "nodev,noatime")
    in_namespace("locked", folder, "--user", "--map-root-user")
    assert options(folder / "m") == {"rw", "nodev", "noatime"}


def locked(folder: Path) -> None:
    from hosttune.errors import Refused

    with pytest.raises(Refused, match="locked"):
        set_atime(folder / "m", "relatime")


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
