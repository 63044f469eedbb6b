"""`bench read` on real file systems, in a private mount namespace: bytes from the device, access
times that stay, a decoder that is nobody, nothing left behind.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError
from tests.live.namespace import loop_disk, passes, run

pytestmark = pytest.mark.live
FILES = 300
STAMP = 1_500_000_000 * 10**9
PILLOW = """
class _Picture:
    width = height = 10
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def convert(self, _): return self
__version__ = "0.0-fake"
def open(file):
    if file.read().startswith(b"broken"):
        raise OSError("cannot identify image file")
    return _Picture()
"""


@pytest.mark.parametrize(
    "name",
    [
        "disk",
        "memory",
        "overlay",
        "decoding_as_nobody",
        "no_descriptor_for_the_users_python",
        "view_of_a_folder_that_a_user_exchanges",
        "others_files",
        "killed",
        "drop_caches",
    ],
)
def test_scenario_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


def data_set(folder: Path, *, size: int = 20_000) -> list[Path]:
    """Files with an old access time; some of them are no pictures."""
    folder.mkdir()
    paths = []
    for number in range(FILES):
        path = folder / f"picture{number:03}.jpg"
        path.write_bytes((b"broken" if number % 10 == 0 else b"\xff\xd8") + os.urandom(size))
        paths.append(path)
    run("sync", "--file-system", folder)
    for path in paths:
        os.utime(path, ns=(STAMP, STAMP + 10**9))
    return paths


def stamps(paths: list[Path]) -> set[int]:
    return {path.stat().st_atime_ns for path in paths}


def wanted(folder: Path, where: Path, **more):
    """A short bench; the machine of a test is never quiet enough to conclude."""
    from hosttune.measure.bench.read import Wanted

    where.mkdir(mode=0o700, exist_ok=True)
    return Wanted(str(folder), (1, 2), budget_s=3.0, anyway=True, where=str(where), **more)


def ext4(folder: Path, options: str = "strictatime"):
    """A loop-mounted ext4 at folder/mnt, for a with statement."""
    from contextlib import contextmanager

    @contextmanager
    def mounted():
        target = folder / "mnt"
        target.mkdir()
        with loop_disk(folder / "image", "mkfs.ext4", "-q", size=640 << 20) as device:
            run(
                "mount",
                "--types",
                "ext4",
                "--options",
                options,
                "--source",
                device,
                "--target",
                target,
            )
            try:
                yield target
            finally:
                run("umount", target)

    return mounted()


def left_on(target: Path, where: Path) -> list[str]:
    """What is there that is neither ours to keep nor the data set."""
    names = [name for name in os.listdir(target) if name not in {"lost+found", "set"}]
    return names + [name for name in os.listdir(where) if name.startswith("scratch-")]


def scenario_disk(folder: Path) -> None:
    """Cold files come from the device, warm ones do not, no access time moves on a strictatime
    mount.
    """
    from hosttune.measure.bench.read import bench_read

    with ext4(folder) as target:
        paths = data_set(target / "set")
        result = bench_read(wanted(target / "set", folder / "state"))
        figures = result.figures
        assert stamps(paths) == {STAMP}
        assert left_on(target, folder / "state") == []
        assert (len(result.sample.paths), result.sample.names) == (FILES, FILES)
        assert figures.cold.device_share > 0.9, figures.cold
        assert figures.warm.device_share < 0.05, figures.warm
        assert figures.packed is not None, result.notes
        assert figures.packed.device_share > 0.9, figures.packed
        assert [one.workers for one in figures.sweep] == [1, 2]
        assert all(one.device_share > 0.9 for one in figures.sweep), figures.sweep
        assert all(one.failed == 0 for one in (figures.cold, figures.warm, *figures.sweep))


def scenario_memory(folder: Path) -> None:
    """A tmpfs has no disk, and neither has an overlay whose layers are all on one."""
    from hosttune.errors import HosttuneError
    from hosttune.measure.bench.read import bench_read

    target = folder / "mnt"
    target.mkdir()
    run("mount", "--types", "tmpfs", "--options", "size=128m", "tmpfs", target)
    data_set(target / "set")
    with pytest.raises(
        HosttuneError, match=r"set is in memory \(tmpfs\): there is no disk to measure"
    ):
        bench_read(wanted(target / "set", folder / "state"))
    merged = overlay(folder, target / "set", target)
    with pytest.raises(HosttuneError, match=r"merged is in memory \(overlay\)"):
        bench_read(wanted(merged, folder / "state"))
    run("umount", merged)
    run("umount", target)


def overlay(folder: Path, lower: Path, writable: Path) -> Path:
    """An overlay of a folder, which writes below another one."""
    merged = folder / "merged"
    for path in (merged, writable / "up", writable / "work"):
        path.mkdir()
    words = f"lowerdir={lower},upperdir={writable}/up,workdir={writable}/work"
    run("mount", "--types", "overlay", "--options", words, "overlay", merged)
    return merged


def scenario_overlay(folder: Path) -> None:
    """Files of a disk below a layer in memory: the layers are named, and nothing is compared with
    what memory gives.
    """
    from hosttune.measure.bench.read import bench_read

    memory = folder / "memory"
    memory.mkdir()
    run("mount", "--types", "tmpfs", "--options", "size=128m", "tmpfs", memory)
    with ext4(folder, "noatime") as target:
        data_set(target / "set")
        merged = overlay(folder, target / "set", memory)
        result = bench_read(wanted(merged, folder / "state"))
        assert result.figures.cold.device_share > 0.9, result.figures.cold
        assert result.figures.packed is None
        hidden, shards = result.notes
        assert f"its layers are on tmpfs on {memory} (memory), ext4 on {target} (" in hidden
        assert shards.startswith("no packed file: an overlay writes to its upper layer")
        assert os.listdir(memory / "up") == []
        run("umount", merged)
    run("umount", memory)


def scenario_decoding_as_nobody(folder: Path) -> None:
    """Root's Python decodes root's files as nobody, through a view that keeps their access
    times.
    """
    from hosttune.measure.bench import read_python
    from hosttune.measure.bench.read import bench_read

    run(
        "mount", "--types", "tmpfs", "--options", "mode=755", "tmpfs", "/opt"
    )  # where nobody may look
    site = Path("/opt/site/PIL")
    site.mkdir(parents=True)
    (site / "__init__.py").touch()
    (site / "Image.py").write_text(PILLOW)
    (site / "features.py").write_text("def check_feature(name): return True\n")
    original = read_python.environment_of
    read_python.environment_of = lambda uid: {**original(uid), "PYTHONPATH": str(site.parent)}
    with ext4(folder) as target:
        run("mount", "--bind", target, "/mnt")  # pytest's folders are root's alone
        paths = data_set(Path("/mnt/set"))
        given = wanted(
            Path("/mnt/set"), folder / "state", decode=True, python="/usr/bin/python3", files=30
        )
        result = bench_read(given)
        broken = sum(path in result.sample.paths for path in map(str, paths[::10]))
        decoder = result.decoder
        assert decoder is not None
        assert (decoder.uid, decoder.libraries) == (65534, {"jpg": "Pillow 0.0-fake"})
        assert (decoder.decoded, decoder.failed) == (30 - broken, broken), decoder
        assert {why for _, why in decoder.why} <= {"OSError: cannot identify image file"}
        assert result.figures.decode is not None
        assert result.figures.decode.failed == 0
        assert stamps(paths) == {STAMP}
        assert left_on(target, folder / "state") == []
        os.chmod(
            "/mnt", 0o700
        )  # behind a folder that is closed to it, the user's Python reads nothing
        with pytest.raises(HosttuneError, match="Permission denied"):
            bench_read(given)
        os.chmod("/mnt", 0o755)  # noqa: S103 - of this test alone
        run("umount", "/mnt")


def scenario_no_descriptor_for_the_users_python(folder: Path) -> None:
    """What its processes have open: pipes and /dev/null, nothing below the data, and no way to
    write there.
    """
    from hosttune.measure.bench.read import noatime_view
    from hosttune.measure.bench.read_crew import Crew

    with ext4(folder) as target:
        run("mount", "--bind", target, "/mnt")
        (path, *_) = data_set(Path("/mnt/set"))
        os.chmod("/mnt/set", 0o777)  # noqa: S103 - of this test alone
        user = (
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--no-new-privs",
            "--",
        )
        with (
            noatime_view("/mnt/set", (*user, "/usr/bin/python3")) as command,
            Crew(command, {}, 2, most=1 << 20, memory=1 << 30) as crew,
        ):
            assert command[: len(command) - len(user) - 1]
            crew.load([str(path)])
            for worker in crew._workers:
                pid = worker._process.pid
                held = {
                    os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")[0]
                    for fd in os.listdir(f"/proc/{pid}/fd")
                }
                assert held <= {"pipe", "/dev/null"}, held
                assert Path(f"/proc/{pid}/status").read_text().count("\t65534") >= 4
                (mounted,) = (
                    row
                    for row in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
                    if " /mnt/set " in row
                )
                assert {"ro", "nosuid", "nodev", "noatime"} <= set(mounted.split()[5].split(",")), (
                    mounted
                )
            assert crew.run([0], 1, "read", 30).files == 1
        assert path.stat().st_atime_ns == STAMP
        run("umount", "/mnt")


EXCHANGER = """
import ctypes, sys
libc, one, other = ctypes.CDLL(None), *map(str.encode, sys.argv[1:])
print("ready", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)
"""


def scenario_view_of_a_folder_that_a_user_exchanges(folder: Path) -> None:
    """A user exchanges the data and a link to /etc. Nothing is mounted on /etc, where root's
    programs look for code.
    """
    import subprocess

    from hosttune.measure.bench import detached
    from hosttune.measure.bench.detached import namespace_with_view

    del folder
    run("mount", "--types", "tmpfs", "--options", "mode=777", "tmpfs", "/mnt")
    data, link = Path("/mnt/data"), Path("/mnt/link")
    data.mkdir(mode=0o777)
    (data / "ld.so.preload").touch()
    link.symlink_to("/etc")
    os.chown(data, 1003, 1003)
    os.lchown(link, 1003, 1003)

    def is_as_before(root: int) -> bool:
        here, there = os.stat("/etc"), os.stat("etc", dir_fd=root)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def exchange() -> None:
        for old, new in ((data, "/mnt/third"), (link, data), ("/mnt/third", link)):
            os.rename(old, new)

    opened = detached.open_without_links
    looks = []

    def opened_and_exchanged(path: str) -> int:
        looks.append(opened(path))
        exchange()
        return looks[-1]

    detached.open_without_links = opened_and_exchanged
    with pytest.raises(OSError, match="symbolic links"), namespace_with_view(str(data)):
        pass
    assert len(looks) == 1
    detached.open_without_links = opened
    with (
        pytest.raises(OSError, match="symbolic links"),
        namespace_with_view(str(data)),
    ):  # which is the link now
        pass
    exchange()
    user = ("setpriv", "--reuid=1003", "--regid=1003", "--clear-groups", "--")
    words = (*user, "/usr/bin/python3", "-c", EXCHANGER, str(data), str(link))
    made = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE) as exchanger:
        try:
            assert exchanger.stdout is not None
            assert exchanger.stdout.readline() == b"ready\n"
            for _ in range(300):
                try:
                    with namespace_with_view(str(data)) as (_, root):
                        made += 1
                        assert is_as_before(root)
                except (OSError, HosttuneError):
                    continue
        finally:
            exchanger.kill()
    assert made, "the folder was never there for long enough"
    run("umount", "/mnt")


def scenario_others_files(folder: Path) -> None:
    """An ordinary user reads no file whose access time would move; with noatime all of them."""
    from hosttune.measure.bench.read_sample import draw

    with ext4(folder) as target:
        paths = data_set(target / "set")
        given = {"files": 100, "most_bytes": 1 << 30, "seed": 1, "uid": 65534}
        assert (
            draw(str(target / "set"), **given).paths,
            draw(str(target / "set"), **given).others,
        ) == ((), 100)
        run("mount", "--options", "remount,noatime", target)
        assert len(draw(str(target / "set"), **given).paths) == 100
        assert stamps(paths) == {STAMP}


def scenario_killed(folder: Path) -> None:
    """A kill -9 in the middle: the workers end by themselves, and the scratch folder is known to
    the next run.
    """
    import signal
    import subprocess
    import time

    from hosttune.measure.bench.scratch import clean, find_leftovers

    with ext4(folder) as target:
        paths = data_set(target / "set")
        given = wanted(target / "set", folder / "state")
        code = (
            "import sys; from hosttune.measure.bench.read import Wanted, bench_read\n"
            f"bench_read(Wanted({given.folder!r}, (1, 2), budget_s=60.0, anyway=True, where={given.where!r}))"
        )
        child = subprocess.Popen((sys.executable, "-c", code), start_new_session=True)
        until = time.monotonic() + 60
        while not any(one.name.startswith("shard") for one in target.glob(".hosttune-bench-*/*")):
            assert child.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        workers = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        child.send_signal(signal.SIGKILL)
        child.wait()
        while any(Path(f"/proc/{pid}/exe").exists() for pid in workers):
            assert time.monotonic() < until
            time.sleep(0.02)
        (left,) = find_leftovers(str(folder / "state"))
        assert clean(left, str(folder / "state"))
        assert left_on(target, folder / "state") == []
        assert stamps(paths) == {STAMP}


def scenario_drop_caches(folder: Path) -> None:
    """Cold passes by dropping all caches, into a file of the scenario's own in place of the
    kernel's.
    """
    from hosttune.measure.bench.read import bench_read

    dropped = folder / "drop_caches"
    dropped.touch()
    run("mount", "--bind", dropped, "/proc/sys/vm/drop_caches")
    with ext4(folder) as target:
        data_set(target / "set")
        result = bench_read(wanted(target / "set", folder / "state", drop_caches=True))
        assert result.is_metadata_cold
        assert dropped.read_text() == "3\n"
    run("umount", "/proc/sys/vm/drop_caches")
