"""Replacing files on real file systems: what is kept and what is refused, on a loop ext4 in a
private mount namespace.

Each scenario runs in a child under unshare(1); what it asserts fails the test with its traceback.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.live
SCENARIOS = (
    "immutable_file", "append_only_file", "immutable_folder", "acl_attributes_and_flags", "default_acl_of_the_folder",
    "bound_file", "bound_file_removed", "read_only", "full_disk", "no_inodes", "killed_midway", "readers_see_old_or_new",
    "overlayfs", "image_root_with_a_bound_file", "touched_midway",
)  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_replace_on_ext4(name, tmp_path):
    child = (sys.executable, __file__, name, str(tmp_path))
    done = subprocess.run(
        ("unshare", "--mount", "--propagation", "private", *child),
        check=False, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def run(*argv: object) -> str:
    done = subprocess.run(
        [str(word) for word in argv], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def refused(path: Path, words: str, *, new: bytes = b"new\n") -> None:
    """A replace of `path`, which holds "old", is refused with `words`, and nothing is different
    afterwards.
    """
    from hosttune.errors import Refused
    from hosttune.host.writing.replace import replace
    from hosttune.values import FileValue

    before = sorted(os.listdir(path.parent))
    with pytest.raises(Refused, match=words):
        replace("/", str(path), FileValue(new), expected=b"old\n")
    assert path.read_bytes() == b"old\n"
    assert sorted(os.listdir(path.parent)) == before


def foretold(path: Path, words: str) -> None:
    """The plan refuses it as well, and looks only."""
    from hosttune.host.reading.live import LiveReader

    told = LiveReader().refused_write(str(path))
    assert told is not None
    assert words in told.message


def replaced(path: Path, content: bytes = b"new\n", root: str = "/") -> None:
    from hosttune.host.writing.replace import replace
    from hosttune.values import FileValue

    replace(root, str(path), FileValue(content), expected=b"old\n")


def immutable_file(disk: Path, file: Path) -> None:
    run("chattr", "+i", file)
    refused(file, "immutable")
    foretold(file, "immutable")
    run("chattr", "-i", file)
    from hosttune.host.reading.live import LiveReader

    assert LiveReader().refused_write(str(file)) is None
    replaced(file)


def append_only_file(disk: Path, file: Path) -> None:
    run("chattr", "+a", file)
    refused(file, "append-only")
    foretold(file, "append-only")


def immutable_folder(disk: Path, file: Path) -> None:
    from hosttune.errors import Refused
    from hosttune.host.writing.replace import remove, replace
    from hosttune.values import ABSENT, FileValue

    run("chattr", "+i", disk)
    refused(file, "immutable")
    foretold(file, "immutable")
    foretold(disk / "new.d/inner/file", "immutable")
    with pytest.raises(Refused, match="immutable"):
        replace("/", str(disk / "other"), FileValue(b""), expected=ABSENT)
    with pytest.raises(Refused, match="immutable"):
        remove("/", str(file), expected=b"old\n")
    assert file.exists()


def acl_attributes_and_flags(disk: Path, file: Path) -> None:
    os.chown(file, 1234, 2345)
    file.chmod(0o2750)
    run("setfacl", "-m", "u:4321:rw,g:99:r", file)
    run("setfattr", "-n", "user.note", "-v", "kept", file)
    run("setfattr", "-n", "trusted.note", "-v", "kept too", file)
    run("chattr", "+dA", file)
    before = (
        run("getfacl", "-nc", file),
        run("getfattr", "-dm", "-", file),
        run("lsattr", file),
        file.stat(),
    )
    replaced(file)
    after = (
        run("getfacl", "-nc", file),
        run("getfattr", "-dm", "-", file),
        run("lsattr", file),
        file.stat(),
    )
    assert file.read_bytes() == b"new\n"
    assert "user:4321:rw-" in after[0]
    assert after[:3] == before[:3]
    assert (after[3].st_mode, after[3].st_uid, after[3].st_gid) == (before[3].st_mode, 1234, 2345)
    assert after[3].st_ino != before[3].st_ino


def default_acl_of_the_folder(disk: Path, file: Path) -> None:
    """A new file inherits the folder's default ACL; the one that takes an old file's place must
    not.
    """
    run("setfacl", "-d", "-m", "u:4321:rw", disk)
    before = run("getfacl", "-nc", file)
    replaced(file)
    assert run("getfacl", "-nc", file) == before


def bound_file(disk: Path, file: Path) -> None:
    source = disk / "source"
    source.write_bytes(b"old\n")
    run("mount", "--bind", source, file)
    refused(file, "mount point")
    run("mount", "-o", "remount,bind,ro", file)
    refused(file, "mount point")
    assert source.read_bytes() == b"old\n"


def bound_file_removed(disk: Path, file: Path) -> None:
    from hosttune.errors import Refused
    from hosttune.host.writing.replace import remove

    run("mount", "--bind", disk / "file.conf", file)
    with pytest.raises(Refused, match="mount point"):
        remove("/", str(file), expected=b"old\n")


def read_only(disk: Path, file: Path) -> None:
    run("mount", "-o", "remount,ro", disk)
    refused(file, "Read-only file system")


def full_disk(disk: Path, file: Path) -> None:
    """Near the end write(2) takes a part of the bytes and returns normally: that must not end in a
    cut-off file.
    """
    with (
        pytest.raises(OSError, match="No space"),
        (disk / "filler").open("wb", buffering=0) as filler,
    ):
        while True:
            filler.write(bytes(1 << 16))
    with (disk / "filler").open("r+b") as filler:
        filler.truncate(filler.seek(0, 2) - 8192)
    refused(file, "No space left", new=b"x" * 200_000)
    replaced(file)
    assert file.read_bytes() == b"new\n"


def no_inodes(disk: Path, file: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        for number in range(100_000):
            (disk / f"i{number}").touch()
    refused(file, "No space left")


def killed_midway(disk: Path, file: Path) -> None:
    from hosttune.host.writing import replace as module
    from hosttune.host.writing.replace import discard_leftovers, find_leftovers

    child = os.fork()
    if child == 0:
        module._compare_real = module._compare
        calls = []

        def die(*args):
            calls.append(args)
            if len(calls) == 2:  # everything is written, the rename is next
                os.kill(os.getpid(), signal.SIGKILL)
            module._compare_real(*args)

        module._compare = die
        replaced(file)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert file.read_bytes() == b"old\n"
    assert len(find_leftovers("/", str(file))) == 1
    discard_leftovers("/", str(file))
    assert sorted(os.listdir(disk)) == ["file.conf", "lost+found"]
    replaced(file)


def touched_midway(disk: Path, file: Path) -> None:
    """What somebody does between the first look and the rename is not lost, even where the bytes
    stay the same.
    """
    from hosttune.errors import Conflict
    from hosttune.host.writing import replace as module

    copy_attributes = module.copy_attributes
    for touch in (
        lambda: file.chmod(0o600),
        lambda: os.chown(file, 1234, 0),
        lambda: os.link(file, disk / "second"),
        lambda: os.setxattr(file, "user.note", b"x"),
        lambda: run("setfacl", "-m", "u:4321:r", file),
    ):

        def copy(*args, touch=touch):
            copy_attributes(*args)
            touch()

        module.copy_attributes = copy
        with pytest.raises(Conflict, match="changed in the meantime"):
            replaced(file)
        assert file.read_bytes() == b"old\n"
        (disk / "second").unlink(missing_ok=True)
    module.copy_attributes = copy_attributes
    replaced(file)


def readers_see_old_or_new(disk: Path, file: Path) -> None:
    from hosttune.host.writing.replace import replace
    from hosttune.values import FileValue

    old, new = b"a" * 50_000, b"b" * 50_000
    file.write_bytes(old)
    writer = os.fork()
    if writer == 0:
        for _ in range(50):
            replace("/", str(file), FileValue(new), expected=old)
            old, new = new, old
        os._exit(0)
    seen = set()
    while os.waitpid(writer, os.WNOHANG) == (0, 0):
        seen.add(file.read_bytes())
    assert seen <= {old, new}


def overlayfs(disk: Path, file: Path) -> None:
    """The root of a live image and of many containers; the file to replace still lies in the lower
    layer.
    """
    from hosttune.host.writing.replace import remove, replace
    from hosttune.values import ABSENT, FileValue

    for name in ("lower", "upper", "work", "merged"):
        (disk / name).mkdir()
    (disk / "lower/conf").write_bytes(b"old\n")
    layers = f"lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work"
    run("mount", "-t", "overlay", "-o", layers, "overlay", disk / "merged")
    replaced(disk / "merged/conf")
    replace("/", str(disk / "merged/new"), FileValue(b"x"), expected=ABSENT)
    remove("/", str(disk / "merged/new"), expected=b"x")
    assert sorted(os.listdir(disk / "merged")) == ["conf"]
    assert (disk / "merged/conf").read_bytes() == b"new\n"
    assert (disk / "lower/conf").read_bytes() == b"old\n"


def image_root_with_a_bound_file(disk: Path, file: Path) -> None:
    from hosttune.errors import Refused

    (disk / "etc").mkdir()
    (disk / "etc/fstab").write_bytes(b"old\n")
    run("mount", "--bind", file, disk / "etc/fstab")
    with pytest.raises(Refused, match="mount point"):
        replaced(Path("/etc/fstab"), root=str(disk))
    assert file.read_bytes() == b"old\n"


def main(name: str, folder: Path) -> None:
    assert name in SCENARIOS
    disk = folder / "disk"
    disk.mkdir()
    with (folder / "image").open("wb") as image:
        image.truncate(8 << 20)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-N", "64", folder / "image")
    run("mount", "-o", "loop", folder / "image", disk)
    file = disk / "file.conf"
    file.write_bytes(b"old\n")
    try:
        globals()[name](disk, file)
    finally:
        if shutil.which("chattr"):
            subprocess.run(
                ["chattr", "-R", "-i", "-a", str(disk)],
                check=False,
                capture_output=True,
                timeout=60,
            )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
