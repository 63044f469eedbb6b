"""An entry for one boot, as GRUB itself takes it: on disks where it can write to its block, and
where it cannot.

Nothing of a kernel is needed for that, so each boot takes a second: what would be started is
printed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import debian
from tests.vm.grub_disk import OLD_ARGUMENTS, RUN, GrubDisk, booted, make, menu

SUITES = ("bookworm", "trixie")  # GRUB 2.06 and 2.12
OLD = OLD_ARGUMENTS.split()
NEW = [*OLD, "iommu=pt", "panic=30", "systemd.crash_reboot", f"hosttune.trial={RUN}"]
UNWRITABLE = [*OLD, "hosttune.trial=unwritable"]
CUSTOM, BLOCK = "/boot/grub/custom.cfg", "/boot/grub/grubenv"


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    made: dict[tuple[str, str], GrubDisk] = {}
    folder = tmp_path_factory.mktemp("grub")

    def disk(suite: str, kind: str) -> GrubDisk:
        """A disk that nobody has armed; tests take copies."""
        if (suite, kind) not in made:
            made[suite, kind] = make(folder, suite, kind)
        return made[suite, kind]

    return disk


@pytest.fixture
def armed(disks):
    def disk(suite: str, kind: str, name: str) -> GrubDisk:
        copy = disks(suite, kind).copy(name)
        copy.mounted("arm")
        return copy

    return disk


def at_cut(disk: GrubDisk, number: int) -> GrubDisk:
    return GrubDisk(Path(f"{disk.image}.{number}"), disk.at)


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("suite", SUITES)
def test_entry_is_booted_once(armed, suite, kind):
    disk = armed(suite, kind, f"once-{suite}-{kind}.img")
    assert booted(disk.boot()) == NEW
    assert "next_entry=\n" in disk.read(BLOCK)
    for _ in range(2):
        assert booted(disk.boot()) == OLD


@pytest.mark.parametrize("kind", ["lvm", "btrfs"])
@pytest.mark.parametrize("suite", SUITES)
def test_where_grub_cannot_write_its_block_the_old_arguments_are_booted(armed, suite, kind):
    """It is refused there beforehand; should it come about, no boot is the one on trial, and the
    host clears it.
    """
    disk = armed(suite, kind, f"unwritable-{suite}-{kind}.img")
    for _ in range(2):
        text = disk.boot()
        assert booted(text) == UNWRITABLE
        assert "error: " in text
    assert "next_entry=hosttune-trial\n" in disk.read(BLOCK)
    disk.mounted("disarm")
    assert booted(disk.boot()) == OLD


@pytest.mark.parametrize(("kind", "whole"), [("ext4", NEW), ("xfs", OLD)])
def test_power_cut_at_any_write_boots_as_before_or_once_on_trial(armed, kind, whole):
    """The copies were made while the disk was mounted, and GRUB reads them without the journal:
    written are custom.cfg, `sync -f`, the block. Reading the block mounts the disk, as the kernel
    does after the first boot.
    """
    disk = armed("bookworm", kind, f"cut-{kind}.img")
    for number, first in enumerate((OLD, OLD, whole), 1):
        cut = at_cut(disk, number)
        assert booted(cut.boot()) == first
        assert "hosttune-trial" not in cut.read(BLOCK)
        assert booted(cut.boot()) == OLD
    assert not Path(f"{disk.image}.4").exists()


def test_entry_that_is_taken_back_is_not_booted(armed):
    disk = armed("trixie", "ext4", "disarmed.img")
    disk.mounted("disarm")
    assert booted(disk.boot()) == OLD
    assert disk.read(CUSTOM) == ""
    assert "next_entry" not in disk.read(BLOCK)


@pytest.mark.parametrize("suite", SUITES)
def test_kernel_that_is_gone_leads_to_the_default(tmp_path, armed, suite):
    """Without `fallback` GRUB would wait in its menu for ever."""
    disk = armed(suite, "ext4", f"gone-{suite}.img")
    there = make(
        tmp_path, suite, "ext4", modules=("linux",)
    )  # the command itself, which finds no file
    there.mounted("write", CUSTOM, disk.read(CUSTOM))
    there.mounted("write", BLOCK, disk.read(BLOCK))
    tree = debian.tree(suite, "grub-common", "grub-pc-bin")
    default = (
        "menuentry default { echo word path; echo word default; echo BOOTED; halt; sleep 600; }\n"
    )
    text = menu(tree, has_stand_ins=False)
    start, end = text.index("menuentry 'Debian"), text.index("### END /etc/grub.d/10_linux")
    there.mounted("write", "/boot/grub/grub.cfg", text[:start] + default + text[end:])
    text = there.boot(until=r"BOOTED|Failed to boot both")
    assert "not found" in text
    assert booted(text)[-1:] == ["default"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 0.8, 0.99])
def test_entry_that_was_cut_short_leads_to_the_default(armed, share):
    disk = armed("bookworm", "ext4", "short.img")
    text = disk.read(CUSTOM)
    disk.mounted("write", CUSTOM, text[: int(len(text) * share)])
    assert booted(disk.boot()) == OLD
    assert booted(disk.boot()) == OLD


def test_entry_that_was_deleted_leads_to_the_default(armed):
    disk = armed("trixie", "ext4", "deleted.img")
    disk.mounted("remove", CUSTOM)
    assert booted(disk.boot()) == OLD
    assert booted(disk.boot()) == OLD


def test_what_somebody_else_asks_for_meanwhile_is_booted(armed):
    disk = armed("trixie", "ext4", "theirs.img")
    block = (
        disk.read(BLOCK).replace("next_entry=hosttune-trial\n", "next_entry=second\n").rstrip("#")
    )
    disk.mounted("write", BLOCK, block.ljust(1024, "#"))
    assert booted(disk.boot()) == ["second"]
    assert booted(disk.boot()) == OLD
