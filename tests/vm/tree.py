"""A throw-away Debian 13 to run programs in: the guests' disk entered with chroot(8) in a private
mount namespace, below an overlay in memory. Nothing is booted; the kernel is this machine's.
"""

import subprocess
from pathlib import Path

from tests.vm import image

ROOT = Path(__file__).resolve().parents[2]
ENTER = """\
set -e
work=$1 disk=$2 given=$3 source=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs "$work"
cd "$work"
mkdir disk upper work root
mount -o "loop,ro,offset=$OFFSET" "$disk" disk
mount -t overlay overlay -o lowerdir=disk,upperdir=upper,workdir=work root
mkdir root/given root/src
mount --bind "$given" root/given
mount --bind "$source" root/src
mount -t proc proc root/proc
mount --rbind /dev root/dev
mount -t sysfs -o ro sysfs root/sys
mount -t tmpfs tmpfs root/run
exec chroot root "$@"
"""


def inside(work: Path, given: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program as root in the tree, mounted at `work`; the folder `given` is at /given and
    this checkout at /src. The network is a namespace of its own, without a way out.
    """
    disk = image.get(image.TRIXIE).disks[0]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "/src",
        "PYTHONDONTWRITEBYTECODE": "1",
        "DEBIAN_FRONTEND": "noninteractive",
        "OFFSET": str(image.PARTITION_AT),
    }
    command = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", ENTER, "sh"]
    return subprocess.run(
        [*command, str(work), str(disk), str(given), str(ROOT), *argv],
        check=False, capture_output=True, text=True, timeout=600, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
