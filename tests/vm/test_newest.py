"""Debian testing as a stand-in for what comes next: its Python, its util-linux and its systemd, on
this machine's kernel.

Nothing is booted: the tree is entered with chroot(8) in a private mount namespace, above a
throw-away overlay.
"""

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests import debian
from tests.vm import image, wheels
from tests.vm.transcript import Transcript

pytestmark = pytest.mark.vm

PACKAGES = (
    "python3",
    "python3-venv",
    "systemd",
    "mount",
    "util-linux",
    "util-linux-extra",
    "procps",
    "e2fsprogs",
)
# In the tree: a venv with hosttune from the wheels, then whatever the test says.
ENTER = """\
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mount --bind "/proc/$$" "$2/root/proc/1"  # else hosttune knows it for a chroot, an image by itself
mount -t sysfs -o ro sysfs "$2/root/sys"
mount --rbind /dev "$2/root/dev"
mount -t tmpfs tmpfs "$2/root/run"
exec chroot "$2/root" /bin/sh -ec "$3"
"""
INSTALL = """\
python3 -m venv /opt/hosttune
/opt/hosttune/bin/pip install --quiet --no-index --find-links /wheels hosttune
export PATH=/opt/hosttune/bin:$PATH
"""
REHEARSE = """\
from hosttune.host.door import Rehearsal
from hosttune.host.reading.live import LiveReader
from hosttune.resources.storage.fstab_document import edit_options, insert_line, parse
from hosttune.resources.storage.fstab_proof import find_complaint, trials_of

OLD = open("/etc/fstab", "rb").read()
LINE = "tmpfs /srv tmpfs mode=1777,nosuid,nodev,size={size},nofail,x-systemd.before=local-fs.target 0 0"


def said(new, target):
    before, after = parse(OLD), parse(new)
    rehearsal = LiveReader().rehearse_fstab(OLD, new, trials_of(after, target))
    assert isinstance(rehearsal, Rehearsal), rehearsal
    assert rehearsal.after.generator is not None and rehearsal.after.generator.status == 0
    return find_complaint(rehearsal, before, after, target)


assert said(edit_options(parse(OLD), "/data", lambda options: options + ",noatime"), "/data") == ""
assert said(insert_line(parse(OLD), LINE.format(size="64M")), "/srv") == ""
assert "trial mount" in said(insert_line(parse(OLD), LINE.format(size="64MB")), "/srv")
print("agreed")
"""


@pytest.fixture(scope="module")
def tree() -> Path:
    return debian.tree("testing", *PACKAGES)


@pytest.fixture(scope="module")
def bundle(tree: Path) -> bytes:
    ask = [
        "chroot",
        str(tree),
        "python3",
        "-c",
        "import sys; print('%d.%d' % sys.version_info[:2])",
    ]
    version = subprocess.run(
        ask, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()
    return wheels.bundle(version)


def inside(tree: Path, bundle: bytes, transcript: Transcript, script: str) -> str:
    """What a shell script prints that runs in the tree, with hosttune installed and /etc/fstab
    written.
    """
    with tempfile.TemporaryDirectory(prefix="hosttune-tree-", dir="/dev/shm") as folder:
        work = Path(folder)
        for name in ("upper", "work", "root"):
            (work / name).mkdir()
        (work / "upper/wheels").mkdir()
        subprocess.run(
            ["tar", "x", "-C", str(work / "upper/wheels")], input=bundle, check=True, timeout=60
        )
        (work / "upper/etc").mkdir()
        (work / "upper/etc/fstab").write_text(image.FSTAB, encoding="utf-8")
        (work / "upper/rehearse.py").write_text(REHEARSE, encoding="utf-8")
        argv = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            ENTER,
            "sh",
            str(tree),
            folder,
        ]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}
        done = subprocess.run(
            [*argv, INSTALL + script],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
        )
    transcript.note(
        f"Debian testing: {script.strip()}\n{done.stdout}{done.stderr}[exit {done.returncode}]"
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_newest_python_runs_check_and_plan(
    tree: Path, bundle: bytes, transcript: Transcript
) -> None:
    said = inside(
        tree, bundle, transcript,
        "python3 --version; findmnt --version; systemctl --version | head -n1\n"
        "hosttune --version\nhosttune check || test $? = 1\nhosttune plan || test $? = 1\nhosttune disks\n"
        "hosttune facts fstab mounts tmp units --format json > /dev/null\n",
    )  # fmt: skip
    assert "hosttune" in said


def test_newest_util_linux_and_systemd_agree_with_our_edits(
    tree: Path, bundle: bytes, transcript: Transcript
) -> None:
    assert inside(tree, bundle, transcript, "python /rehearse.py\n").endswith("agreed\n")


def test_fstab_is_edited_and_taken_back_offline_in_the_newest_tree(
    tree: Path, bundle: bytes, transcript: Transcript
) -> None:
    said = inside(
        tree, bundle, transcript,
        "cp -a /etc/fstab /before\nmkdir /image; cp -a /etc /image/; mkdir -p /image/var/lib/dpkg\n"
        "cp /var/lib/dpkg/status /image/var/lib/dpkg/; mkdir -p /image/usr/lib; cp /usr/lib/os-release /image/usr/lib/\n"
        "hosttune apply --yes --root /image || test $? = 1\n"
        "diff /before /image/etc/fstab || test $? = 1\nfindmnt --verify --tab-file /image/etc/fstab || true\n"
        "hosttune undo --yes --root /image || test $? = 1\ncmp /before /image/etc/fstab && echo the old bytes\n",
    )  # fmt: skip
    assert "defaults,noatime" in said
    assert said.endswith("the old bytes\n")
