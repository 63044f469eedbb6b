"""The door on a real file system: what cannot be kept is refused, and a full disk loses nothing.

Each scenario runs in a child with a private mount namespace, on an ext4 of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.live
SCENARIOS = (
    "immutable_file", "append_only_file", "immutable_folder", "acl_and_attributes", "bind_mounted_file", "read_only", "full_disk",
    "killed_in_the_middle", "atime_alone", "not_a_mount",
)  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_on_a_real_file_system(name, tmp_path):
    child = (sys.executable, __file__, name, str(tmp_path))
    done = subprocess.run(
        ("unshare", "--mount", "--propagation", "private", *child),
        check=False, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def sh(*argv: object) -> str:
    done = subprocess.run([str(word) for word in argv], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def disk(folder: Path, mib: int = 16, options: str = "rw") -> Path:
    image, data = folder / "image", folder / "data"
    with image.open("wb") as file:
        file.truncate(mib << 20)
    sh("mkfs.ext4", "-q", "-F", "-m", "0", image)
    data.mkdir()
    sh("mount", "-o", f"loop,{options}", image, data)
    return data


def refused(path: Path, phrase: str, content: bytes = b"new\n") -> None:
    from hosttune.errors import Refused
    from hosttune.host.live import LiveWriter
    from hosttune.values import FileValue

    before, names = path.read_bytes(), sorted(os.listdir(path.parent))
    with pytest.raises(Refused, match=phrase):
        LiveWriter().replace(str(path), FileValue(content), expected=before)
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == names, "a temp file was left"


def old(data: Path) -> Path:
    path = data / "file.conf"
    path.write_bytes(b"old\n")
    return path


def immutable_file(folder: Path) -> None:
    path = old(disk(folder))
    sh("chattr", "+i", path)
    refused(path, "immutable")
    sh("chattr", "-i", path)


def append_only_file(folder: Path) -> None:
    path = old(disk(folder))
    sh("chattr", "+a", path)
    refused(path, "append-only")
    sh("chattr", "-a", path)


def immutable_folder(folder: Path) -> None:
    data = disk(folder)
    path = old(data)
    sh("chattr", "+i", data)
    refused(path, "immutable")
    sh("chattr", "-i", data)


def acl_and_attributes(folder: Path) -> None:
    from hosttune.host.live import LiveWriter
    from hosttune.values import FileValue

    path = old(disk(folder))
    os.chown(path, 12, 34)
    path.chmod(0o2640)
    sh("setfacl", "-m", "u:nobody:r", path)
    sh("setfattr", "-n", "user.note", "-v", "kept", path)
    before = sh("getfacl", "--absolute-names", path), os.stat(path)
    LiveWriter().replace(str(path), FileValue(b"new\n"), expected=b"old\n")
    now = os.stat(path)
    assert path.read_bytes() == b"new\n"
    assert (now.st_uid, now.st_gid, now.st_mode) == (before[1].st_uid, before[1].st_gid, before[1].st_mode)
    assert sh("getfacl", "--absolute-names", path) == before[0]
    assert os.getxattr(path, "user.note") == b"kept"


def bind_mounted_file(folder: Path) -> None:
    data = disk(folder)
    path = old(data)
    other = data / "other"
    other.write_bytes(b"old\n")
    sh("mount", "--bind", other, path)
    refused(path, "mount point")


def read_only(folder: Path) -> None:
    data = disk(folder)
    path = old(data)
    sh("mount", "-o", "remount,ro", data)
    refused(path, "[Rr]ead-only")


def full_disk(folder: Path) -> None:
    data = disk(folder, mib=8)
    path = old(data)
    with pytest.raises(OSError, match="No space"), (data / "filler").open("wb") as file:
        while True:
            file.write(b"x" * 65536)
            file.flush()
    refused(path, "No space left", b"y" * (1 << 20))


def killed_in_the_middle(folder: Path) -> None:
    """A process that is killed between the temp file and the rename leaves the old file and a temp file that is found."""
    from hosttune.host.replace import leftovers

    data = disk(folder)
    path = old(data)
    program = (
        "import os, signal\n"
        "from hosttune.host import replace as r\n"
        "from hosttune.values import FileValue\n"
        "real = r._fill\n"
        "def die(*a):\n    real(*a)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "r._fill = die\n"
        f"r.replace('/', {str(path)!r}, FileValue(b'new'), expected=b'old\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == -9
    assert path.read_bytes() == b"old\n"
    assert len(leftovers("/", str(path))) == 1


def atime_alone(folder: Path) -> None:
    from hosttune.host.live import LiveWriter
    from hosttune.host.mountapi import topmost

    data = disk(folder, options="ro,nosuid,nodev,noexec")
    for mode in ("noatime", "relatime", "strictatime", "noatime"):
        LiveWriter().set_atime(str(data), mode)
        mount = topmost(str(data))
        assert mount.atime == mode
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(mount.options)


def not_a_mount(folder: Path) -> None:
    from hosttune.errors import Refused
    from hosttune.host.live import LiveWriter

    with pytest.raises(Refused, match="nothing is mounted"):
        LiveWriter().set_atime(str(folder), "noatime")


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
