"""An edited fstab before the real findmnt, systemd's real generator and the kernel: what they find,
and that nothing stays behind.
"""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hosttune.facts.storage.mounts import unit_name
from hosttune.host.door import Rehearsal
from hosttune.host.reading.live import LiveReader
from hosttune.resources.storage.fstab_document import edit_options, insert_line, parse
from hosttune.resources.storage.fstab_proof import find_complaint, trials_of

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parents[2]
OLD = b"proc /proc proc defaults 0 0\ntmpfs\t/srv\ttmpfs\tdefaults\t0\t0\n"
BELT = "nofail,x-systemd.before=local-fs.target"


def said(new: bytes, target: str) -> str:
    before, after = parse(OLD), parse(new)
    rehearsal = LiveReader().rehearse_fstab(OLD, new, trials_of(after, target))
    assert isinstance(rehearsal, Rehearsal), rehearsal
    assert rehearsal.before.verify is not None
    assert rehearsal.before.generator is not None
    assert dict(rehearsal.before.units)["srv.mount"]
    return find_complaint(rehearsal, before, after, target)


@pytest.mark.parametrize(
    ("edited", "target"),
    [
        (edit_options(parse(OLD), "/srv", lambda options: f"{options},noatime"), "/srv"),
        (
            insert_line(parse(OLD), f"tmpfs /tmp tmpfs mode=1777,nosuid,nodev,size=64M,{BELT} 0 0"),
            "/tmp",
        ),
        (
            insert_line(
                parse(OLD), f"UUID=d2-7e /mnt/a xfs noatime,x-systemd.device-timeout=30s,{BELT} 0 0"
            ),
            "/mnt/a",
        ),
        (OLD.splitlines(keepends=True)[0], "/srv"),
    ],
    ids=["options", "tmpfs", "disk", "removed"],
)
def test_edit_as_hosttune_makes_it_is_accepted(edited, target):
    assert said(edited, target) == ""


@pytest.mark.parametrize(
    ("edited", "target", "reason"),
    [
        (
            insert_line(parse(OLD), f"tmpfs /tmp tmpfs size=64MB,{BELT} 0 0"),
            "/tmp",
            "a trial mount of a tmpfs",
        ),
        (
            insert_line(parse(OLD), f"tmpfs /tmp tmpfs noatim,{BELT} 0 0"),
            "/tmp",
            "a trial mount of a tmpfs",
        ),
        (OLD + b"two words\n", "/srv", "findmnt --verify says: a line that it cannot parse"),
        (OLD.replace(b"/srv", b"/opt"), "/usr", "opt.mount as well"),
    ],
    ids=["size", "word", "broken line", "another target"],
)
def test_edit_that_would_go_wrong_is_found(edited, target, reason):
    assert reason in said(edited, target)


def test_carriage_return_at_the_end_of_options_is_found():
    old = b"proc /proc proc defaults 0 0\n/srv /opt none bind"
    new = old + b"\r\ntmpfs /tmp tmpfs size=64M 0 0"
    rehearsal = LiveReader().rehearse_fstab(old, new, ())
    assert isinstance(rehearsal, Rehearsal), rehearsal
    assert (
        find_complaint(rehearsal, parse(old), parse(new), "/tmp")
        == "systemd would change opt.mount as well"
    )


@pytest.fixture
def folder():
    """Not below /tmp, which has another content where the programs look."""
    with TemporaryDirectory(dir="/var/tmp", prefix="hosttune-test-") as name:
        yield Path(name)


@pytest.fixture
def roots_folder():
    """Where only root can change the way to it."""
    with TemporaryDirectory(dir="/run", prefix="hosttune-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_target_that_is_a_symbolic_link_is_accepted(folder):
    (folder / "disk").mkdir()
    (folder / "data").symlink_to("disk")
    target = str(folder / "data")
    old = f"UUID=d2-7e {target} ext4 nofail 0 0\n".encode()
    new = edit_options(parse(old), target, lambda options: f"{options},noatime")
    rehearsal = LiveReader().rehearse_fstab(old, new, ())
    assert isinstance(rehearsal, Rehearsal), rehearsal
    assert unit_name(str(folder / "disk")) in dict(rehearsal.after.units)
    assert find_complaint(rehearsal, parse(old), parse(new), target) == ""


@pytest.mark.parametrize("kind", ["link", "folder", "sticky", "file"])
def test_source_that_a_user_can_replace_is_not_opened(roots_folder, kind):
    """To open it is enough for a watchdog to begin to count. What findmnt opens of the pipe is seen
    by inotify.
    """
    folder = roots_folder
    home = folder / "home"
    home.mkdir()
    pipe = folder / "pipe"
    os.mkfifo(pipe, 0o600)
    (home / "img").symlink_to(pipe)
    os.chown(home / "img", 1003, 1003, follow_symlinks=False)
    if kind == "folder":
        os.chown(home, 1003, 1003)
    elif kind == "sticky":
        home.chmod(0o1777)
        (home / "img").unlink()
        os.link(pipe, home / "img")
    source = pipe if kind == "file" else home / "img"
    old = f"# a comment\n \t{source} /srv ext4 loop,noauto,user 0 0\n".encode()
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # so that no one waits for a writer
    watch = _inotify(str(pipe))
    try:
        rehearsal = LiveReader().rehearse_fstab(old, old + b"# more\n", ())
        assert isinstance(rehearsal, Rehearsal), rehearsal
        assert rehearsal.after.verify is not None
        assert rehearsal.after.verify == rehearsal.before.verify
        assert dict(rehearsal.after.units) == dict(rehearsal.before.units)
        assert bool(select.select([watch], [], [], 0)[0]) == (
            kind == "file"
        )  # this one only root can replace
    finally:
        os.close(watch)
        os.close(reader)


def _inotify(path: str) -> int:
    """A descriptor that can be read once the file was opened (inotify(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(watch, path.encode(), 0x20) >= 0  # IN_OPEN
    return int(watch)


def rehearse_and_compare():
    """Mounts, names in /tmp and utab after a rehearsal are those of before."""

    def state() -> tuple[str, list[str], str]:
        utab = Path("/run/mount/utab")
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        return (
            mounts,
            sorted(os.listdir("/tmp")),
            utab.read_text(encoding="utf-8") if utab.exists() else "",
        )

    before = state()
    said(insert_line(parse(OLD), f"tmpfs /tmp tmpfs size=64M,{BELT} 0 0"), "/tmp")
    assert state() == before


def test_nothing_stays_behind():
    """In a mount namespace with a /tmp of its own, where no other test mounts or makes anything. A
    checkout below /tmp stays where it is.
    """
    call = f"from {__name__} import rehearse_and_compare; rehearse_and_compare()"
    script = 'mount -t tmpfs none /tmp && mkdir -p "$2" && mount -c --bind /proc/self/fd/3 "$2" && exec "$0" -c "$1" 3<&-'
    script = f'exec 3< "$2" && {script}'
    argv = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        sys.executable,
        call,
        str(ROOT),
    ]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
