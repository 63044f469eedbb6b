"""The guests' disks with hosttune on them: its wheel and those it needs, put by pip into the disk's own virtual
environment, as a user does, with a link in the path of root.

Done from outside with chroot(8), because under emulation it takes a minute; once for all guests of one call of `./run
test`, in that call's folder.
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
disk=$1 root=$2 offset=$3 venv=$4
mount -o "loop,offset=$offset" "$disk" "$root"
mkdir "$root/root/wheels"
tar x -C "$root/root/wheels"
chroot "$root" "$venv/bin/pip" install --quiet --no-index --find-links /root/wheels hosttune
rm -r "$root/root/wheels"
ln -s "$venv/bin/hosttune" "$root/usr/local/bin/hosttune"
umount "$root"
"""


def get(recipe: Recipe = image.BOOKWORM) -> Image:
    """The image of a recipe with this checkout's hosttune installed."""
    made = image.get(recipe)
    return Image(kept(named("installed", recipe), lambda work: _install(work, made), _folder()), recipe)


@cache
def _folder() -> Path:
    if given := os.environ.get(FOLDER_OF_CALL):
        return Path(given)
    own = tempfile.mkdtemp(prefix="hosttune-installed-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _install(work: Path, made: Image) -> None:
    root = made.disks[0]
    for path in made.folder.iterdir():
        if path != root:
            (work / path.name).symlink_to(path)
    copy_disk(root, work / root.name)
    offset = image.PARTITION_AT if made.recipe.boots_itself else 0
    with tempfile.TemporaryDirectory(prefix="hosttune-disk-") as folder:
        subprocess.run(
            ["unshare", "--mount", "sh", "-c", INSTALL, "sh", work / root.name, folder, str(offset), image.VENV],
            input=wheels.bundle(wheels.PYTHONS[made.recipe.suite]),
            check=True,
            # Nothing of ours: a place for byte code, above all, or each start in a guest compiles everything.
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            timeout=TIMEOUT_S,
        )


def copy_disk(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--sparse=always", "--", str(source), str(target)], check=True, timeout=TIMEOUT_S)
