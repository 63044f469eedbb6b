"""A chroot with /proc, /sys and /dev bound in is an image: nothing of the kernel that builds it
counts as its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.host import open_reader, open_writer
from hosttune.host.reading import running
from hosttune.host.reading.live import LiveReader
from hosttune.host.reading.rooted import RootReader, RootWriter
from tests.live.namespace import passes, run

pytestmark = pytest.mark.live

KERNEL = ("/proc", "/sys", "/dev", "/run")


@pytest.mark.parametrize(
    "name",
    [
        "mount",
        "folder",
        "user",
        "no_proc",
        "root_that_is_bound",
        "container",
        "private_mounts",
        "root_of_a_process",
        "command_line",
    ],
)
def test_scenario_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


def test_this_machine_is_a_host_though_a_microvm_of_a_container_image_may_be_it():
    assert running.is_running_root()
    assert isinstance(open_reader(), LiveReader)


def image(folder: Path, *, is_mount: bool = True) -> Path:
    """A root with what a builder binds into it."""
    root = folder / "image"
    root.mkdir()
    if is_mount:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "image", root)
    for name in ("etc", "usr/lib", "tmp", *(place[1:] for place in KERNEL)):
        (root / name).mkdir(parents=True)
    (root / "etc/os-release").write_text("ID=ubuntu\n")
    for place in KERNEL:
        run("mount", "--rbind", place, root / place[1:])
    return root


def answer(root: Path, uid: int = 0) -> bool:
    """What `is_running_root` says in a chroot, to this user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chroot(root)
        os.chdir("/")
        if uid:
            os.setgroups([])
            os.setuid(uid)
        os.write(writing, b"1" if running.is_running_root() else b"0")
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    return {b"1": True, b"0": False}[os.read(reading, 1)]


def scenario_mount(folder: Path) -> None:
    root = image(folder)
    assert running.is_running_root()
    assert answer(root) is False
    os.chroot(root)
    os.chdir("/")
    for root_option in (None, "/", "/.", "//"):
        assert type(open_reader(root=root_option)) is RootReader
        assert type(open_writer(root=root_option)) is RootWriter
    assert "--root" in open_reader().read("/proc/sys/vm/swappiness").reason  # type: ignore[union-attr]


def scenario_folder(folder: Path) -> None:
    assert answer(image(folder, is_mount=False)) is False


def scenario_user(folder: Path) -> None:
    """Without root's rights /proc/1/root cannot be read; a root that is no mount point tells it all
    the same.
    """
    folder.chmod(0o755)
    assert answer(image(folder, is_mount=False), uid=65534) is False
    assert answer(Path("/"), uid=65534) is True


def scenario_no_proc(folder: Path) -> None:
    root = image(folder)
    run("umount", "--lazy", root / "proc")
    assert answer(root) is False


def scenario_private_mounts(folder: Path) -> None:
    """A service with a mount namespace of its own runs on the host: this very process does."""
    del folder
    assert os.readlink("/proc/self/ns/mnt") != os.readlink("/proc/2/ns/mnt")
    assert running.is_running_root()


def scenario_root_that_is_bound(folder: Path) -> None:
    """Device and inode of a bind mount of / are those of /, the mount is another one."""
    bound = folder / "bound"
    bound.mkdir()
    program = "from tests.live.test_live_chroot import answer, run; from pathlib import Path"
    program += f"; run('mount', '--rbind', '/', {str(bound)!r}); print(answer(Path('/')), answer(Path({str(bound)!r})))"
    said = run("unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program)
    assert said == "True False\n"


def scenario_container(folder: Path) -> None:
    """`docker run --pid=host`: mounts, host name and IPC of its own, and the processes of the
    host.
    """
    root = image(folder)
    program = "from tests.live.test_live_chroot import answer; from pathlib import Path"
    program += f"; print(answer(Path({str(root)!r})))"
    assert run("unshare", "--mount", "--uts", "--ipc", sys.executable, "-c", program) == "True\n"


def scenario_root_of_a_process(folder: Path) -> None:
    """/proc/PID/root of a process with mounts of its own reads as `/`, and is not this one's."""
    root = folder / "root"
    root.mkdir()
    program = "import os, signal, sys; from tests.live.namespace import run; root = sys.argv[1]"
    program += "; run('mount', '-t', 'tmpfs', 'image', root); os.mkdir(root + '/etc')"
    program += "; open(root + '/etc/os-release', 'w').write('ID=inside')"
    program += "; os.chdir(root); run('pivot_root', '.', '.')"
    program += "; print('ready', flush=True); signal.pause()"
    start = (
        "unshare",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        "-c",
        program,
        str(root),
    )
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            seen = f"/proc/{child.pid}/root"
            assert os.readlink(seen) == "/"
            reader = open_reader(root=seen)
            assert type(reader) is RootReader
            assert reader.read("/etc/os-release") == b"ID=inside"
        finally:
            child.kill()


def scenario_command_line(folder: Path) -> None:
    """check, plan and apply of the command line; an image is tuned, the running kernel is not."""
    root = image(folder)
    outside = Path("/proc/sys/vm/swappiness").read_bytes()
    for place in (
        sys.prefix,
        sys.base_prefix,
        "/usr/lib",
        "/lib",
        "/lib64",
        str(Path(__file__).resolve().parents[2]),
    ):
        if Path(place).exists() and not (root / place[1:]).is_mount():
            (root / place[1:]).mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", place, root / place[1:])
    start = ("chroot", root, sys.executable, "-m", "hosttune")
    plan = run("sh", "-c", '"$@" 2>&1 || test $? = 1', "sh", *start, "plan")
    assert plan.startswith(
        "hosttune: this is a chroot: its files are looked at as those of --root /"
    )
    assert "only the machine that runs these files can show it" in plan
    assert "sysctl:" not in plan
    run("sh", "-c", '"$@" || test $? = 1', "sh", *start, "apply", "--yes")
    assert (root / "var/lib/hosttune/runs").is_dir()
    assert Path("/proc/sys/vm/swappiness").read_bytes() == outside
