"""The guests' disks with hosttune on them: its wheel and those it needs, put by pip into the disk's
own virtual environment, as a user does, with a link in the path of root.

Done from outside with chroot(8), because under emulation it takes a minute; once for all guests of
one call of `./run test`, in that call's folder.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.cache import kept, named
from tests.rings import FOLDER_OF_CALL
from tests.vm import image, wheels
from tests.vm.image import Image, Recipe

TIMEOUT_S = 300
INSTALL = """\
set -e
disk=$1 root=$2 offset=$3 venv=$4 boot=$5 boot_offset=$6
mount -o "loop,offset=$offset" "$disk" "$root"
mkdir "$root/root/wheels"
tar x -C "$root/root/wheels"
chroot "$root" "$venv/bin/pip" install --quiet --no-index --find-links /root/wheels hosttune
rm -r "$root/root/wheels"
ln -s "$venv/bin/hosttune" "$root/usr/local/bin/hosttune"
if [ "$boot" ]; then
    # The menu as Debian makes it. grub-probe asks for the devices below / and /boot, and for the links of udev; of a
    # loop device it would make no entries, so they have other names here.
    [ "$boot" = / ] || mount -o "loop,offset=$boot_offset" "$boot" "$root/boot"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t tmpfs tmpfs "$root/dev"
    cp -a /dev/null /dev/urandom "$root/dev/"
    mkdir -p "$root/dev/disk/by-uuid"
    for folder in "$root" "$root/boot"; do
        device=$(findmnt -n -o SOURCE --target "$folder")
        name=/dev/vd${device##*[!0-9]}
        cp -a "$device" "$root$name"
        ln -sfn "$name" "$root$device"
        ln -sfn "$name" "$root/dev/disk/by-uuid/$(blkid -p -s UUID -o value "$device")"
    done
    chroot "$root" grub-editenv /boot/grub/grubenv create
    chroot "$root" update-grub
    grep -q "root=UUID=" "$root/boot/grub/grub.cfg"
    mkdir -p "$root/var/log/journal" "$root/etc/hosttune"
fi
umount -R "$root"
"""


def get(recipe: Recipe = image.BOOKWORM) -> Image:
    """The image of a recipe with this checkout's hosttune installed."""
    made = image.get(recipe)
    return Image(
        kept(named("installed", recipe), lambda work: _install(work, made), _folder()), recipe
    )


@cache
def _folder() -> Path:
    if given := os.environ.get(FOLDER_OF_CALL):
        return Path(given)
    own = tempfile.mkdtemp(prefix="hosttune-installed-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _install(work: Path, made: Image) -> None:
    root, offset = made.root
    for path in made.folder.iterdir():
        if path != root:
            (work / path.name).symlink_to(path)
    copy_disk(root, work / root.name)
    boot = "/" if made.recipe.has_menu else ""
    if made.recipe.is_boot_apart:
        boot = str(work / "boot.img")
        (work / "boot.img").unlink()
        copy_disk(made.folder / "boot.img", work / "boot.img")
    with tempfile.TemporaryDirectory(prefix="hosttune-disk-") as folder:
        subprocess.run(
            [
                "unshare",
                "--mount",
                "sh",
                "-c",
                INSTALL,
                "sh",
                work / root.name,
                folder,
                str(offset),
                image.VENV,
                boot,
                str(image.PARTITION_AT),
            ],
            input=wheels.bundle(wheels.PYTHONS[made.recipe.suite]),
            check=True,
            # Nothing of ours: a place for byte code, above all, or each start in a guest compiles
            # everything.
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            timeout=TIMEOUT_S,
        )


def copy_disk(source: Path, target: Path) -> None:
    subprocess.run(
        ["cp", "--sparse=always", "--", str(source), str(target)], check=True, timeout=TIMEOUT_S
    )
