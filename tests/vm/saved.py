"""Machines that have just booted, kept as they stand, memory and disks: made once for all tests of
one call of `./run test`, and each test goes on from there on a machine of its own. What a boot
itself does is shown by the boots that come after.
"""

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.cache import kept, named
from tests.vm import installed
from tests.vm.guest import MEMORY_MIB, PROCESSOR, Guest
from tests.vm.image import Recipe
from tests.vm.transcript import Transcript


def get(
    recipe: Recipe, memory_mib: int = MEMORY_MIB, start: Callable[[Guest], object] = Guest.boot
) -> Path:
    """The folder of a machine of this recipe; `start` is given one that is switched off, and leaves
    it to be kept.
    """
    disks = installed.get(recipe)

    def make(work: Path) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder,
            (work / "made.txt").open("w") as file,
        ):
            guest = Guest(disks, Path(folder), Transcript(file), memory_mib)
            with contextlib.closing(guest):
                start(guest)
                guest.save(work)

    name = named("saved", PROCESSOR, recipe, disks.folder.name, memory_mib, start.__qualname__)
    return kept(name, make, disks.folder.parent)
