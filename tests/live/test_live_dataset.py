"""A data set on real file systems: no access time moves, residency is what the kernel says, other
mounts stay out, and others' files are told as such.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.namespace import ROOT, loop_disk, passes, run

pytestmark = pytest.mark.live
OLD = 1_000_000_000 * 10**9  # 2001: any read under relatime would move it
PICTURE = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffc0001108017701f403011100021100031100"
).ljust(20_000, b"\1")


@pytest.mark.parametrize(
    "name",
    [
        "atime",
        "residency",
        "mounts",
        "somebody_else",
        "interrupt",
        "million_bytes_of_names",
        "fuse_in_both_orders",
    ],
)
def test_scenario_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


def mounted(folder: Path, device: str, options: str) -> Path:
    target = folder / "data"
    target.mkdir()
    run("mount", "-t", "ext4", "-o", options, device, target)
    return target


def pictures(target: Path, count: int = 300) -> Path:
    place = target / "set"
    for number in range(count):
        below = place / f"class{number % 7}"
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number}.jpg").write_bytes(PICTURE)
    os.sync()
    return place


def times(place: Path) -> dict[str, int]:
    return {str(path): path.stat().st_atime_ns for path in (place, *place.rglob("*"))}


def look(path: Path, **options):
    from hosttune.facts import Facts
    from hosttune.host.reading.live import LiveReader
    from hosttune.measure.dataset.look import look as look_at
    from hosttune.measure.dataset.patience import Patience

    return look_at(str(path), Facts(LiveReader()), Patience(), **options)


def command(*words: object, **options) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-m", "hosttune", "dataset", *map(str, words)]
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60, **options)


def scenario_atime(folder: Path) -> None:
    """With strictatime each read would move one; a plain reader does, hosttune does not."""
    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        place = pictures(mounted(folder, device, "strictatime"))
        for path in (place, *place.rglob("*")):
            os.utime(path, ns=(OLD, path.stat().st_mtime_ns))
        run("umount", folder / "data")
        run("mount", "-t", "ext4", "-o", "strictatime", device, folder / "data")
        before = times_quietly(place)
        for exact in (False, True):
            found = look(place, is_exact=exact)
            assert found.decoded.headers == 300, found.decoded
            assert (found.look.moved_files, found.look.moved_folders) == (0, 0)
        assert times_quietly(place) == before
        assert set(before.values()) == {OLD}
        assert (found.place.fstype, found.place.atime, found.place.target) == (
            "ext4",
            "strictatime",
            str(folder / "data"),
        )
        assert found.place.layers[0].startswith("loop"), found.place
        first = next(place.rglob("*.jpg"))
        first.read_bytes()
        assert first.stat().st_atime_ns != OLD, "the test itself: a plain read moves it"
        run("umount", folder / "data")


def times_quietly(place: Path) -> dict[str, int]:
    """Access times of all files and folders; the folders are read without moving theirs."""
    found = {str(place): place.stat().st_atime_ns}
    waiting = [str(place)]
    while waiting:
        here = waiting.pop()
        fd = os.open(here, os.O_RDONLY | os.O_NOATIME)
        for name in os.listdir(fd):
            info = os.lstat(f"{here}/{name}")
            found[f"{here}/{name}"] = info.st_atime_ns
            if os.path.isdir(f"{here}/{name}"):
                waiting.append(f"{here}/{name}")
        os.close(fd)
    return found


def scenario_residency(folder: Path) -> None:
    """Cold, it is 0, and a look leaves it so; half of it read is half; all of it is all. Both
    system calls agree.
    """
    from hosttune.measure import page_cache

    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        place = pictures(mounted(folder, device, "noatime"), 200)
        run("umount", folder / "data")
        run("mount", "-t", "ext4", "-o", "noatime", device, folder / "data")
        for _ in range(2):
            assert look(place).resident.share == 0
        files = sorted(place.rglob("*.jpg"))
        for path in files[:100]:
            path.read_bytes()
        assert 0.49 <= look(place).resident.share <= 0.51
        for path in files:
            path.read_bytes()
        assert look(place).resident.share == 1
        with files[0].open("rb") as file:
            told = page_cache.resident_bytes(file.fileno())
            page_cache.name_method.cache_clear()
            counted = page_cache._ask_mincore(file.fileno(), os.fstat(file.fileno()))
            assert told == 20_000
            assert counted == 5
            page_cache.drop(file.fileno())
            assert page_cache.resident_bytes(file.fileno()) == 0
        run("umount", folder / "data")


def scenario_mounts(folder: Path) -> None:
    """A tmpfs below the path is named and not entered, unless asked for."""
    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        place = pictures(mounted(folder, device, "noatime"), 10)
        (place / "other").mkdir()
        run("mount", "-t", "tmpfs", "none", place / "other")
        (place / "other" / "x.jpg").write_bytes(PICTURE)
        found = look(place)
        assert (found.names.files, found.names.other_file_systems) == (10, 1)
        assert found.names.other_examples == (str(place / "other"),)
        assert look(place, follow=True).names.files == 11
        assert look(place / "other").place.kind == "memory"
        run("umount", place / "other")
        run("umount", folder / "data")


def scenario_somebody_else(folder: Path) -> None:
    """An ordinary user looks at files of root's: what moves is told, what is hidden is told,
    nothing fails.
    """
    import traceback

    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        run(
            "mount", "-t", "ext4", "-o", "strictatime", device, "/mnt"
        )  # pytest's folders are root's alone
        place = pictures(Path("/mnt"), 50)
        (place / "secret").mkdir(mode=0o700)
        (place / "secret" / "y.jpg").write_bytes(PICTURE)
        own = place / "class0" / "0.jpg"
        os.chmod(own, 0o600)
        look(place)  # imports what may lie where only root may read
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                found = look(place)
                names, seen = found.names, found.look
                facts = (
                    names.files, names.unreadable_folders, seen.denied, seen.moved_files, seen.moved_folders,
                    found.sizes.is_exact, found.decoded.told,
                )  # fmt: skip
                assert facts == (50, 1, 1, 49, 8, True, 49)
            except BaseException:  # noqa: BLE001 - told, and then this process ends
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        run("umount", "/mnt")


def scenario_interrupt(folder: Path) -> None:
    """Ctrl-C in the middle: the report of what was seen, marked, and 130."""
    import json
    import signal
    import time

    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-N", "60000", size=256 << 20) as device:
        place = mounted(folder, device, "noatime") / "set"
        for number in range(50):
            below = place / str(number)
            below.mkdir(parents=True)
            for name in range(1000):
                (below / f"{name}.jpg").touch()
        argv = [
            sys.executable,
            "-I",
            "-m",
            "hosttune",
            "dataset",
            str(place),
            "--exact",
            "--format",
            "json",
        ]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            child = subprocess.Popen(
                argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
            while (
                not any(str(place) in path for path in opened(child.pid)) and child.poll() is None
            ):
                pass
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)
            if child.returncode == 130:
                break
        assert child.returncode == 130, "never met in the middle"
        document = json.loads(out)
        assert document["stopped"] == "interrupted"
        assert document["names"]["files"] <= 50_000
        run("umount", folder / "data")


def opened(pid: int) -> list[str]:
    """What a process has open now, or the child that root leaves the look to."""
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += opened(int(child))
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def scenario_million_bytes_of_names(folder: Path) -> None:
    """Ten times the names take the same memory."""
    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-N", "130000", size=256 << 20) as device:
        target = mounted(folder, device, "noatime")
        peaks = []
        for number, count in enumerate((10_000, 100_000)):
            place = target / str(number)
            for start in range(0, count, 1000):
                below = place / str(start)
                below.mkdir(parents=True)
                for name in range(1000):
                    os.close(os.open(below / f"{name:0200d}.jpg", os.O_CREAT | os.O_WRONLY, 0o644))
            child = subprocess.Popen(
                [sys.executable, "-I", "-m", "hosttune", "dataset", place],
                stdout=subprocess.DEVNULL,
            )
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0
            peaks.append(used.ru_maxrss / 1024)
        # the sample of 20,000 paths of some 250 bytes is full with the second; 90,000 names more
        # would take 25 MiB
        assert peaks[1] - peaks[0] < 15, peaks
        run("umount", target)


def scenario_fuse_in_both_orders(folder: Path) -> None:
    """Kinds that were written one after the other, through a file system whose names have no inode
    numbers.
    """
    import time

    for number, is_turned in enumerate((False, True)):
        source, target = folder / f"source{number}", folder / f"seen{number}"
        source.mkdir()
        target.mkdir()
        for name in range(2_400):
            size = 70_000 if (name >= 1_200) != is_turned else 5_000
            with (source / f"{name:05}.jpg").open("wb") as file:
                file.write(PICTURE[:40])
                file.truncate(size)
        truth = 2_400 * 500 * 375 * 3
        server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("fuse_mirror.py"), source, target], stdout=subprocess.PIPE, text=True
        )  # fmt: skip
        assert server.stdout
        assert server.stdout.readline() == "mounted\n"
        try:
            with os.scandir(target) as entries:
                assert {entry.inode() for entry in entries} == {0xFFFFFFFF}
            for is_exact in (False, True):
                found = look(target, is_exact=is_exact)
                assert (found.names.files, found.place.fstype) == (2_400, "fuse.mirror"), (
                    found.place
                )
                assert found.sizes.total_bytes == 1_200 * 75_000
                assert abs(found.decoded.native_bytes - truth) <= max(
                    found.decoded.margin_bytes, 0
                ), found.decoded
                assert found.decoded.margin_bytes <= 0.03 * truth
            assert found.decoded.native_bytes == truth
        finally:
            time.sleep(0.1)
            run("umount", target)
            server.wait(10)
