"""What is on a real block device: blank only where nothing is; and the limits of its backing
device, set and taken back.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hosttune.facts.storage.spare import is_blank
from hosttune.host.reading.live import LiveReader, LiveWriter
from hosttune.resources import address_kinds
from hosttune.values import Action, Address, Change, Risk
from tests.live.namespace import loop_disk, run

pytestmark = pytest.mark.live
MIB = 1 << 20
PARTITION = b"\0\0\2\0\x83\xff\xff\xff\0\x08\0\0\0\0\x01\0"  # one row of a DOS table: type, first sector, length


def made(device: str) -> bool:
    return is_blank(LiveReader(), device)


def test_disk_of_zeros_is_blank(tmp_path):
    with loop_disk(tmp_path / "image", "true") as device:
        assert made(device) is True


@pytest.mark.parametrize(("mkfs", "size"), [("mkfs.ext4", 32), ("mkfs.btrfs", 160), ("mkswap", 32)])
def test_disk_with_a_signature_is_not(tmp_path, mkfs, size):
    with loop_disk(tmp_path / "image", mkfs, "-q", size=size * MIB) as device:
        assert made(device) is False


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"LUKS\xba\xbe\0\1", 0),
        (PARTITION + bytes(48) + b"\x55\xaa", 446),
        (b"somebody's own format", 5 * MIB),
    ],
    ids=["LUKS", "a partition table", "no signature at all"],
)
def test_disk_that_somebody_wrote_to_is_not(tmp_path, content, place):
    with loop_disk(tmp_path / "image", "true") as device:
        with open(device, "r+b") as disk:
            disk.seek(place)
            disk.write(content)
        assert made(device) is False


def test_limits_of_one_backing_device_are_set_read_back_and_taken_back(tmp_path):
    with loop_disk(tmp_path / "image", "true") as device:
        folder = f"/sys/block/{Path(device).name}/bdi"
        if not Path(folder, "strict_limit").exists():
            pytest.skip("Linux before 6.2 has no strict_limit")
        kind, writer = address_kinds()["sysfs"], LiveWriter()
        wanted = {"max_ratio": "1", "strict_limit": "1"}
        before = {name: kind.read(writer, f"{folder}/{name}") for name in wanted}
        changes = [
            Change(
                Address("sysfs", f"{folder}/{name}"),
                Action.UPDATE,
                before[name],
                value,
                "rule",
                Risk.LOW,
            )
            for name, value in wanted.items()
        ]
        for change in changes:
            kind.write(writer, change)
        assert {name: kind.read(writer, f"{folder}/{name}") for name in wanted} == wanted
        for change in reversed(changes):
            kind.write(writer, kind.invert(change))
        assert {name: kind.read(writer, f"{folder}/{name}") for name in wanted} == before


def test_wipefs_and_cmp_write_nothing(tmp_path):
    with loop_disk(tmp_path / "image", "mkfs.ext4", "-q") as device:
        before = run("sha256sum", device)
        writes = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[4]
        made(device)
        assert run("sha256sum", device) == before
        assert Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[4] == writes
        assert (
            subprocess.run(["blkid", "-p", device], check=False, capture_output=True).returncode
            == 0
        )
