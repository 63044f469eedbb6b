"""Module options in the initial RAM disk: the real update-initramfs and the real dracut build it, and hosttune names and
calls the one that this host builds with.

Nothing is booted: the disk of the Debian 13 is entered with chroot(8) in a private mount namespace, below a throw-away
overlay.
"""

import subprocess
from pathlib import Path

import pytest

from tests.vm import image
from tests.vm.archive import packages
from tests.vm.transcript import Transcript

pytestmark = pytest.mark.vm
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENTER = """\
set -e
work=$1 disk=$2 debs=$3 source=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs "$work"
cd "$work"
mkdir disk upper work root
mount -o "loop,ro,offset=$OFFSET" "$disk" disk
mount -t overlay overlay -o lowerdir=disk,upperdir=upper,workdir=work root
mkdir root/debs root/src
mount --bind "$debs" root/debs
mount --bind "$source" root/src
mount -t proc proc root/proc
mount --rbind /dev root/dev
mount -t sysfs -o ro sysfs root/sys
mount -t tmpfs tmpfs root/run
exec chroot root python3 -P /src/tests/vm/initramfs_scenarios.py "$@"
"""
SCENARIOS = (
    "initramfs_tools_takes_the_option_beside_a_dracut_without_hook",
    "dracut_takes_the_option_beside_what_initramfs_tools_left",
    "generic_dracut_leaves_the_option_out_and_that_is_said",
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_in_a_throw_away_debian_passes(name: str, tmp_path: Path, transcript: Transcript) -> None:
    cache = image.cache_folder()
    disk = image.get(cache, image.TRIXIE).disks[0]
    (debs, *_) = {file.parent for file in packages(cache, "trixie", "dracut", "dracut-core")}
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "/src",
        "PYTHONDONTWRITEBYTECODE": "1",
        "DEBIAN_FRONTEND": "noninteractive",
        "OFFSET": str(image.PARTITION_AT),
    }
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]
    done = subprocess.run(
        [*argv, str(tmp_path), str(disk), str(debs), str(ROOT), name],
        check=False, capture_output=True, text=True, timeout=600, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    transcript.note(f"Debian 13: {name}\n{done.stdout}{done.stderr}[exit {done.returncode}]")
    assert done.returncode == 0, done.stdout + done.stderr
