"""A /boot of a few MiB on a loop device: what is left of it, the finding, and the refusal of a set
of packages.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.namespace import loop_disk, passes, run

pytestmark = pytest.mark.live
MIB = 1 << 20


@pytest.mark.parametrize("name", ["bytes", "files", "read_only"])
def test_boot_of_its_own(name, tmp_path):
    passes(__file__, name, tmp_path)


def look():
    """The room on /boot, and what becomes of a set that has an image built."""
    from hosttune.facts import Facts
    from hosttune.facts import apt_get as apt
    from hosttune.host.door import Completed
    from hosttune.host.reading.live import LiveReader
    from hosttune.resources.base import Context, Wish
    from hosttune.resources.packages.package import PackagesWish
    from hosttune.resources.packages.package_set import ADDRESS
    from hosttune.values import Disturbs, Risk

    class Reader(LiveReader):
        """This machine with an archive that has microcode."""

        def query(self, argv, *, timeout_s=10.0):
            if argv == apt.make_simulation(("no-such-microcode",)):
                names = ("no-such-microcode", "intel-microcode")
                return Completed(
                    0, "".join(f"Inst {one} (1 a:1/b [all])\n" for one in names).encode(), b""
                )
            return super().query(argv, timeout_s=timeout_s)

    facts, kind = Facts(Reader()), PackagesWish("packages")
    wish = Wish("packages", "no-such-microcode", "some-rule", "", {"state": "installed"})
    state = {one: ADDRESS.read(facts.reader, one.name) for one in kind.addresses(wish, facts)}
    (finding,) = kind.compare((wish,), Context(facts, state, {}, Risk.LOW, Disturbs.NOTHING))
    return facts.boot_room, finding.hold.detail, finding


def fill(boot: Path, image: int) -> None:
    release = os.uname().release
    (boot / f"vmlinuz-{release}").write_bytes(b"\1" * 1000)
    (boot / f"initrd.img-{release}").write_bytes(os.urandom(image))


def scenario_bytes(folder: Path) -> None:
    with loop_disk(folder / "disk", "mkfs.ext4", "-q", "-m", "5", size=8 * MIB) as device:
        run("mount", device, "/boot")
        boot = Path("/boot")
        fill(boot, 2 * MIB)
        room, why, _ = look()
        assert (room.target, room.initrd_bytes, room.is_full) == ("/boot", 2 * MIB, False)
        assert "/boot" not in why
        (boot / "filling").write_bytes(os.urandom(room.free_bytes - 2 * MIB + 4096))
        tight, why, _ = look()
        assert tight.is_full
        assert "/boot has" in why, why
        assert "a new initial RAM disk needs 2 MiB there" in why
        (boot / "filling").unlink()
        (boot / "filling").write_bytes(os.urandom(room.free_bytes - 3 * MIB))
        room, why, _ = look()
        assert not room.is_full
        (boot / "initrd.img.new").write_bytes(os.urandom(2 * MIB))  # root takes what is kept back
        assert "/boot" not in why
        run("umount", "/boot")


def scenario_files(folder: Path) -> None:
    with loop_disk(folder / "disk", "mkfs.ext4", "-q", "-N", "32", size=8 * MIB) as device:
        run("mount", device, "/boot")
        fill(Path("/boot"), 1000)
        for number in range(os.statvfs("/boot").f_favail - 7):
            (Path("/boot") / f"filling-{number}").touch()
        room, why, _ = look()
        assert "more files (inodes)" in room.told
        assert room.told in why
        run("umount", "/boot")


def scenario_read_only(folder: Path) -> None:
    """A set is refused where nothing can be written, as before."""
    from hosttune.errors import Refused
    from hosttune.host.overlay.overlay import Overlay
    from hosttune.host.reading.live import LiveReader
    from hosttune.resources.packages.package_set import ADDRESS

    with loop_disk(folder / "disk", "mkfs.ext4", "-q", size=8 * MIB) as device:
        run("mount", device, "/boot")
        fill(Path("/boot"), 1000)
        run("mount", "-o", "remount,ro", "/boot")
        _, _, finding = look()
        (change,) = finding.changes
        with pytest.raises(Refused, match="read-only"):
            ADDRESS.write(Overlay(LiveReader()), change)
        run("umount", "/boot")
