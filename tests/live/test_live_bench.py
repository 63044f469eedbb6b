"""`bench` on a real disk: modes told apart by bytes written, nothing of the user's touched, a kill -9 in the middle, a
disk that is nearly full.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.namespace import ROOT, loop_disk, passes, run

pytestmark = pytest.mark.live
MIB = 1 << 20


@pytest.mark.parametrize(
    "name", ["modes", "atime_command", "user_without_root", "killed", "nearly_full", "memory", "tmp_command"]
)
def test_scenario_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


@contextmanager
def data_disk(folder: Path, options: str = "relatime", size: int = 512 * MIB):
    """An ext4 with a data set of 300 files, and a state folder of this scenario's own."""
    from hosttune.measure.bench import state

    own_state = folder / "var-lib"
    (own_state / "hosttune").mkdir(parents=True, mode=0o700)
    run("mount", "--bind", own_state, "/var/lib")
    target = folder / "data"
    target.mkdir()
    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-m", "0", size=size) as device:
        run("mount", "--options", options, device, target)
        for number in range(300):
            path = target / "set" / str(number % 3) / f"{number}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(2000 + 100 * number))
            os.utime(path, (time.time() - 5 * 86400, time.time() - 9 * 86400))
        os.sync()
        try:
            yield target, state.folder()
        finally:
            run("umount", target)


@contextmanager
def everywhere_reachable(target: Path):
    """The disk once more, where no folder above it keeps others out."""
    run("mount", "--bind", target, "/mnt")
    try:
        yield Path("/mnt")
    finally:
        run("umount", "/mnt")


def tree_of(folder: Path) -> dict[str, tuple]:
    """Times and content of a tree, read without moving them: content first, with O_NOATIME, then what stat says."""
    contents, found = {}, {}
    for place, folders, files, fd in os.fwalk(folder):
        os.set_blocking(fd, True)
        for name in files:
            one = os.open(name, os.O_RDONLY | os.O_NOATIME, dir_fd=fd)
            contents[f"{place}/{name}"] = os.read(one, MIB)
            os.close(one)
        contents |= {f"{place}/{name}": b"" for name in folders}
    for path in (str(folder), *contents):
        info = os.lstat(path)
        found[path] = (info.st_mtime_ns, info.st_ctime_ns, info.st_ino, contents.get(path, b""))
    return found


def atimes_of(paths) -> dict[str, int]:
    return {path: os.lstat(path).st_atime_ns for path in paths}


def hosttune(*argv: object, **words) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "hosttune", "bench", *map(str, argv)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, cwd=ROOT, **words)


def scenario_modes(folder: Path) -> None:
    """Bytes written by a first and by a second read of all copies: strictatime always, relatime once, noatime never."""
    from hosttune.measure.bench.atime import Arm, CopyReader
    from hosttune.measure.bench.copies import make_copies
    from hosttune.measure.bench.detached import view_of
    from hosttune.measure.bench.place import look_at
    from hosttune.measure.bench.scratch import scratch

    with data_disk(folder) as (target, _):
        place = look_at(str(target / "set"))
        assert (place.target, place.fstype, place.atime) == (str(target), "ext4", "relatime")
        with scratch(place) as (fd, path):
            assert Path(path).parent == target
            reader = CopyReader(fd, make_copies(fd, [4096] * 2000), place, 1, drops_caches=False)
            written = {}
            for mode in ("noatime", "relatime", "strictatime"):
                with view_of(fd, mode) as view:
                    written[mode] = reader.written(Arm(mode, view))
            written["O_NOATIME"] = reader.written(Arm("noatime", fd, os.O_NOATIME))
            written["plain"] = reader.written(Arm("relatime", fd))
        print(written)
        inodes = 2000 * 256  # of ext4
        assert (
            max(*written["noatime"], *written["O_NOATIME"], written["relatime"][1], written["plain"][1]) < inodes / 20
        )
        assert min(*written["strictatime"], written["relatime"][0], written["plain"][0]) > inodes
        assert sorted(os.listdir(target)) == ["lost+found", "set"]


def scenario_atime_command(folder: Path) -> None:
    """On a mount that writes every access, nothing of the user's moves, the folders' access times included."""
    with data_disk(folder, "strictatime") as (target, state):
        before = tree_of(target / "set")
        atimes = atimes_of(before)
        done = hosttune(
            "atime", target / "set", "--budget", "3", "--files", "300", "--anyway", "--seed", "4", "--format", "json"
        )
        assert done.returncode in (0, 1), done.stderr
        assert atimes_of(before) == atimes
        assert tree_of(target / "set") == before
        result = json.loads(done.stdout)
        assert (result["format_version"], result["kind"], result["seed"]) == (1, "atime", 4)
        assert (result["words"]["other"], result["words"]["how"]) == ("strictatime", "private mounts of one folder")
        figures = result["figures"]
        assert figures["copies"] == 300
        assert figures["written_bytes_base"] < 300 * 256 / 4 < 300 * 256 < figures["written_bytes_other"]
        assert figures["device_read_bytes_base"] > 0
        assert len(result["findings"][0]["ratios"]) == result["findings"][0]["pairs"]
        names = os.listdir(state)
        assert [name.partition("-")[0] for name in names] == ["atime"]
        listed = hosttune("list")
        assert (listed.returncode, str(target / "set") in listed.stdout) == (0, True)
        assert sorted(os.listdir(target)) == ["lost+found", "set"]


def scenario_user_without_root(folder: Path) -> None:
    """Who may not mount compares O_NOATIME with a plain open, in a folder of his own, and keeps his own results."""
    with data_disk(folder) as (target, _), everywhere_reachable(target) as top:
        home = top / "home"
        home.mkdir()
        os.rename(top / "set", home / "set")
        for place, _, files in os.walk(home):
            os.chown(place, 4711, 4711)
            for name in files:
                os.chown(os.path.join(place, name), 4711, 4711)
        code = (
            "import ctypes, datetime, encodings.ascii, os, secrets, sys\n"
            "import hosttune.codec\n"
            "from hosttune.measure.bench.atime import AtimeOptions, bench_atime\n"
            "from hosttune.measure.bench.results import save, latest\n"
            # who may not even see the interpreter from here on; PR_SET_DUMPABLE, so that /proc/self is his
            "os.setgroups([]); os.setgid(4711); os.setuid(4711); ctypes.CDLL(None).prctl(4, 1)\n"
            "result = bench_atime(sys.argv[1], 3, AtimeOptions(budget_s=2, files=200, anyway=True))\n"
            "save(result); assert latest('atime', result.uuid) == result\n"
            "print(result.words['how'], result.figures['written_bytes_base'], result.figures['written_bytes_other'])\n"
        )
        environment = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": "", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            (sys.executable, "-c", code, str(home / "set")), check=False, capture_output=True, text=True, timeout=60,
            cwd=ROOT, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        how, base, other = done.stdout.strip().rsplit(" ", 2)
        assert how == "O_NOATIME against a plain open"
        assert float(base) < 200 * 256 / 4 < 200 * 256 < float(other)
        assert sorted(os.listdir(home)) == [".local", "set"]


def scenario_killed(folder: Path) -> None:
    """A kill -9 leaves one folder and nothing else: no mount, no device. The next bench names it, clean removes it."""
    with data_disk(folder) as (target, state):
        before = tree_of(target / "set")
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        argv = (sys.executable, "-m", "hosttune", "bench", "atime", str(target / "set"), "--anyway", "--budget", "60")
        bench = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 40
            left: list[Path] = []
            while not (left and (left[0] / "000" / "000200").exists()):
                assert time.monotonic() < until
                assert bench.poll() is None
                left = list(target.glob(".hosttune-bench-*"))
                time.sleep(0.01)
            assert hosttune("clean").stdout == "nothing was left behind\n"  # it runs
            bench.send_signal(signal.SIGKILL)
        finally:
            bench.kill()
            bench.wait(20)
        assert Path("/proc/self/mountinfo").read_text(encoding="utf-8") == mounts
        assert sorted(os.listdir(target)) == sorted([left[0].name, "lost+found", "set"])
        again = hosttune("atime", target / "set", "--budget", "1", "--files", "40", "--anyway")
        assert f"left {left[0]}; to remove it:" in again.stderr, again.stderr
        assert left[0].is_dir()  # offered, not done
        done = hosttune("clean")
        assert (done.returncode, done.stdout) == (0, f"removed {left[0]}\n")
        assert sorted(os.listdir(target)) == ["lost+found", "set"]
        assert [name for name in os.listdir(state) if name.startswith("scratch-")] == []
        assert tree_of(target / "set") == before


def scenario_nearly_full(folder: Path) -> None:
    with data_disk(folder, size=128 * MIB) as (target, _):
        space = os.statvfs(target)
        fd = os.open(target / "fill", os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(fd, 0, space.f_bavail * space.f_frsize - space.f_blocks * space.f_frsize // 20)
        os.close(fd)
        for words in (("atime", target / "set", "--anyway"), ("tmp", "--dir", target, "--anyway")):
            done = hosttune(*words)
            assert (done.returncode, done.stdout) == (1, ""), done
            assert f"not measured: {target} is nearly full: 5% free, 10% are needed" in done.stderr
        assert sorted(os.listdir(target)) == ["fill", "lost+found", "set"]


def scenario_memory(folder: Path) -> None:
    """A tmpfs that hangs on a descriptor: nobody sees it mounted, and programs work in it."""
    from hosttune.measure.bench.detached import memory_folder

    del folder
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    with memory_folder(8 * MIB) as fd:
        place = f"/proc/{os.getpid()}/fd/{fd}"
        run("sh", "-c", f"echo it works > {place}/file")
        assert os.listdir(fd) == ["file"]
        space = os.statvfs(fd)
        assert space.f_blocks * space.f_frsize == 8 * MIB
        with pytest.raises(OSError, match="No space left"), open(f"{place}/large", "wb") as file:
            file.write(bytes(9 * MIB))
        assert Path("/proc/self/mountinfo").read_text(encoding="utf-8") == mounts


def scenario_tmp_command(folder: Path) -> None:
    with data_disk(folder) as (target, _):
        done = hosttune("tmp", "--dir", target, "--budget", "4", "--anyway", "--format", "json")
        assert done.returncode in (0, 1), done.stderr
        result = json.loads(done.stdout)
        assert [one["name"] for one in result["findings"]][0::2] == ["unpack", "delete"]
        assert result["words"]["how"] == "a private tmpfs"
        assert result["figures"]["written_bytes_disk"] >= result["figures"]["bytes"] * 0.9
        assert sorted(os.listdir(target)) == ["lost+found", "set"]
        run("mount", "-t", "tmpfs", "tmpfs", target / "set")
        done = hosttune("tmp", "--dir", target / "set")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{target}/set lies in memory already (tmpfs): there is nothing to gain" in done.stderr
        run("umount", target / "set")
