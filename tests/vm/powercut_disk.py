"""Puts a disk into states, mounts each and tells what lies on it.

A program, to be run in a mount namespace of its own:

    unshare --mount python -m tests.vm.powercut_disk DISK LOG BEGIN < STATES > OBSERVATIONS

The disk lies on an XFS in memory, because XFS clones a file in a millisecond: every state is a
clone of its own, is mounted read-write so that ext4 replays its journal as a boot would, and is
thrown away. Mounts and loop devices end with the namespace, also when this program is killed.
"""

import base64
import ctypes
import errno
import fcntl
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.vm.blklog import Log

MIB = 1 << 20
RUNS = "var/lib/hosttune/runs"
# Numbers of linux/loop.h, linux/fs.h and linux/mount.h.
LOOP_CONFIGURE, LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
LO_FLAGS_AUTOCLEAR = 4
LOOP_CONFIG = struct.Struct(
    "<II 52x I 176x 64x"
)  # fd, block size, loop_info64 with its flags, reserved
FICLONE = 0x40049409
NOSUID_NODEV_NOEXEC = 2 | 4 | 8
TIMEOUT_S = 300

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, fstype: str, flags: int = 0, options: str = "") -> None:
    if (
        _libc.mount(source.encode(), os.fsencode(target), fstype.encode(), flags, options.encode())
        != 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), source)


def umount(target: Path) -> None:
    if _libc.umount2(os.fsencode(target), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


@contextmanager
def mounted(
    file: Path, target: Path, fstype: str, flags: int = NOSUID_NODEV_NOEXEC
) -> Iterator[None]:
    """The file system in a file. Its loop device goes with the mount."""
    with file.open("r+b") as backing, _attached(backing.fileno()) as device:
        mount(device.name, target, fstype, flags)
    try:
        yield
    finally:
        umount(target)


def _attached(backing: int) -> io.FileIO:
    """A loop device on an open file, gone when nobody holds it any more."""
    with open("/dev/loop-control", "rb", buffering=0) as control:
        while True:
            device = io.FileIO(f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}", "r+")
            try:
                fcntl.ioctl(
                    device, LOOP_CONFIGURE, LOOP_CONFIG.pack(backing, 0, LO_FLAGS_AUTOCLEAR)
                )
                return device
            except OSError as error:
                device.close()
                if (
                    error.errno != errno.EBUSY
                ):  # somebody else took this one meanwhile: there are more
                    raise


class Bench:
    """The disk at one entry of the log, and clones of it in the states that lie behind that
    entry.
    """

    def __init__(self, disk: Path, log: Log, pool: Path, root: Path) -> None:
        self._log = log
        self._at = 0
        self._root = root
        self._replay, self._clone = pool / "replay", pool / "state"
        _call(["cp", "--sparse=always", str(disk), str(self._replay)])

    @classmethod
    @contextmanager
    def opened(cls, disk: Path, log: Log) -> Iterator["Bench"]:
        size = (disk.stat().st_blocks * 512 // MIB + 1024) * MIB
        with tempfile.TemporaryDirectory(prefix="hosttune-disk-") as folder:
            memory, pool, root = (Path(folder) / name for name in ("memory", "pool", "root"))
            for path in (memory, pool, root):
                path.mkdir()
            mount("none", memory, "tmpfs", NOSUID_NODEV_NOEXEC, f"size={size + 64 * MIB}")
            try:
                image = memory / "pool.img"
                image.touch()
                os.truncate(image, size)
                _call(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)])
                with mounted(image, pool, "xfs"):
                    yield cls(disk, log, pool, root)
            finally:
                umount(memory)

    def observe(self, first: int, kept: list[list[int]]) -> dict[str, Any]:
        """What lies on the disk after a power cut in this state; `first` never falls from call to
        call.
        """
        self._advance(first)
        self._clone.unlink(missing_ok=True)
        with self._clone.open("xb") as clone, self._replay.open("rb") as replay:
            fcntl.ioctl(clone, FICLONE, replay.fileno())
            for number, start, size in kept:
                entry = self._log.entries[number]
                os.pwrite(clone.fileno(), self._log.data(entry, start, size), entry.offset + start)
        try:
            with mounted(self._clone, self._root, "ext4"):
                found = {"etc": tree(self._root / "etc"), "runs": tree(self._root / RUNS)}
        except OSError as error:
            return {"error": f"cannot be mounted and read: {error}"}
        check = ["e2fsck", "-f", "-n", str(self._clone)]
        done = subprocess.run(
            check, check=False, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S
        )
        return {**found, "error": f"e2fsck: {done.stdout.strip()}" if done.returncode else ""}

    def _advance(self, first: int) -> None:
        with self._replay.open("r+b") as replay:
            for entry in self._log.entries[self._at : first]:
                if entry.is_write:
                    os.pwrite(replay.fileno(), self._log.data(entry), entry.offset)
        self._at = first


def tree(top: Path) -> dict[str, list[Any]]:
    """Mode, owner, group and content of everything below a folder: bytes in base64, or where a link
    leads.

    Nothing when there is no such folder.
    """
    found: dict[str, list[Any]] = {}
    pending = [top] if top.is_dir() else []
    while pending:
        with os.scandir(pending.pop()) as listing:
            for one in listing:
                info = one.stat(follow_symlinks=False)
                content = ""
                if one.is_symlink():
                    content = os.readlink(one.path)
                elif one.is_file(follow_symlinks=False):
                    content = base64.b64encode(Path(one.path).read_bytes()).decode("ascii")
                elif one.is_dir(follow_symlinks=False):
                    pending.append(Path(one.path))
                found[os.path.relpath(one.path, top)] = [
                    info.st_mode,
                    info.st_uid,
                    info.st_gid,
                    content,
                ]
    return found


def observe(disk: Path, log: Path, begin: int) -> None:
    """Answer every state that standard input names, one JSON line each. Of /etc only what differs
    from the disk as it was at entry `begin` is told, `null` for what is gone.
    """
    with Bench.opened(disk, Log(log)) as bench:
        was = bench.observe(begin, [])
        if was["error"]:
            raise SystemExit(f"the disk of the beginning: {was['error']}")
        for line in sys.stdin:
            found = bench.observe(*json.loads(line))
            etc = found.get("etc", was["etc"])
            changed = [
                path
                for path in sorted({*etc, *was["etc"]})
                if etc.get(path) != was["etc"].get(path)
            ]
            print(
                json.dumps({**found, "etc": {path: etc.get(path) for path in changed}}), flush=True
            )


def _call(argv: list[str]) -> None:
    done = subprocess.run(
        argv,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        )


if __name__ == "__main__":
    observe(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
