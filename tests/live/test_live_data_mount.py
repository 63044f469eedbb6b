"""A data disk of the policy on real file systems: folder, line, mount, and everything back
again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from tests.live.namespace import loop_disk, own_etc, passes, run

pytestmark = pytest.mark.live
LABEL = "training-set"  # an xfs label ends at 12 bytes
BELT = "nofail,x-systemd.device-timeout=30s,x-systemd.before=local-fs.target"


@pytest.mark.parametrize(
    "name",
    [
        "ext4",
        "xfs",
        "btrfs",
        "busy_disk_stays",
        "two_disks_of_one_uuid",
        "wrong_type",
        "image_of_a_user",
    ],
)
def test_data_disk_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


class Machine:
    """This machine with an /etc of its own; the wish is for one disk at `folder`/mnt/data."""

    def __init__(self, folder: Path, source: str, **fields: object) -> None:
        from hosttune.host.reading.live import LiveWriter
        from hosttune.resources.base import Wish

        own_etc(folder)
        self.fstab = Path("/etc/fstab")
        self.fstab.write_text(
            "# by hand, no line end\nproc /proc proc defaults 0 0", encoding="utf-8"
        )
        self.before = self.fstab.read_bytes()
        self.target = folder / "mnt" / "data"
        self.writer = LiveWriter()
        wished = {"source": source, "options": ("noatime",), **fields}
        self.wish = Wish("data-mount", str(self.target), "rule", str(self.target), wished)

    def look(self):
        from hosttune.facts import Facts
        from hosttune.resources import address_kinds, wish_kinds
        from hosttune.resources.base import Context
        from hosttune.values import Disturbs, Risk

        facts = Facts(self.writer)
        # the scenario runs in a namespace of its own on purpose
        facts.__dict__["host"] = SimpleNamespace(
            has_systemd=False, shares_init_mounts=True, is_vm=False, is_container=False
        )
        kind = wish_kinds()["data-mount"]
        places = kind.addresses(self.wish, facts)
        state = {one: address_kinds()[one.kind].read(self.writer, one.name) for one in places}
        (finding,) = kind.compare(
            (self.wish,), Context(facts, state, {}, Risk.LOW, Disturbs.NOTHING)
        )
        return finding

    def write(self, changes) -> None:
        from hosttune.resources import address_kinds

        for change in changes:
            address_kinds()[change.address.kind].write(self.writer, change)

    def undo(self, changes) -> None:
        from hosttune.resources import address_kinds

        self.write([address_kinds()[one.address.kind].invert(one) for one in reversed(changes)])


def there_and_back(folder: Path, device: str, fstype: str) -> None:
    machine = Machine(folder, device)
    finding = machine.look()
    assert [change.address.kind for change in finding.changes] == [
        "folder",
        "folder",
        "fstab-line",
        "data-mount",
    ], finding
    machine.write(finding.changes)
    uuid = run("blkid", "-c", "/dev/null", "-s", "UUID", "-o", "value", device).strip()
    line = f"UUID={uuid} {machine.target} {fstype} noatime,{BELT} 0 0"
    assert machine.fstab.read_bytes() == machine.before + b"\n" + line.encode()
    mounted = run(
        "findmnt", "-n", "-o", "FSTYPE,VFS-OPTIONS", "--mountpoint", machine.target
    ).split()
    assert (mounted[0], "noatime" in mounted[1].split(",")) == (fstype, True)
    again = machine.look()
    assert (str(again.verdict), again.changes) == ("ok", ()), again
    machine.undo(finding.changes)
    assert machine.fstab.read_bytes() == machine.before
    assert not machine.target.parent.exists()


def scenario_ext4(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-L", LABEL) as device:
        there_and_back(folder, device, "ext4")


def scenario_xfs(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.xfs", "-q", "-L", LABEL, size=320 << 20) as device:
        there_and_back(folder, device, "xfs")


def scenario_btrfs(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.btrfs", "-q", "-L", LABEL, size=160 << 20) as device:
        there_and_back(folder, device, "btrfs")


def scenario_busy_disk_stays(folder: Path) -> None:
    from hosttune.errors import Refused

    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-L", LABEL) as device:
        machine = Machine(folder, device)
        changes = machine.look().changes
        machine.write(changes)
        with (machine.target / "epoch").open("w", encoding="utf-8"):
            with pytest.raises(Refused, match="cannot be unmounted") as refused:
                machine.undo(changes)
            assert "fuser" in refused.value.hint
            assert str(machine.look().verdict) == "ok"
        machine.undo(changes)
        assert machine.fstab.read_bytes() == machine.before


def scenario_two_disks_of_one_uuid(folder: Path) -> None:
    uuid = "5b0d6d4e-3f2b-4a0e-8d53-0d5f6f0a9b11"
    with loop_disk(folder / "a", "mkfs.ext4", "-q", "-U", uuid) as device:
        shutil.copy(folder / "a", folder / "b")
        other = run("losetup", "--find", "--show", folder / "b").strip()
        try:
            finding = Machine(folder, device).look()
        finally:
            run("losetup", "--detach", other)
        assert "a copy, a snapshot" in finding.hold.detail, finding


def scenario_wrong_type(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-L", LABEL) as device:
        finding = Machine(folder, device, fstype="xfs").look()
    assert "holds ext4, not xfs" in finding.hold.detail, finding


def scenario_image_of_a_user(folder: Path) -> None:
    """The disk of the policy is gone, and a user has attached a file with its label: udisks2 lets
    root's losetup do it.
    """
    as_user = ("setpriv", "--reuid", "1001", "--regid", "1001", "--clear-groups")
    with TemporaryDirectory(dir="/var/tmp") as own:  # pytest's own folder is closed to users
        os.chown(own, 1001, 1001)
        image = f"{own}/image"
        run(*as_user, "truncate", "--size", "32M", image)
        run(*as_user, "mkfs.ext4", "-q", "-L", LABEL, image)
        device = run("losetup", "--find", "--show", image).strip()
        try:
            finding = Machine(folder, f"LABEL={LABEL}").look()
        finally:
            run("losetup", "--detach", device)
    assert finding.changes == ()
    assert f"only {device}: a file that a user can attach" in finding.hold.detail, finding
