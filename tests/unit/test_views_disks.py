"""`hosttune disks`: one picture of devices, file systems, mounts, free space and fstab."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage import filesystems
from hosttune.facts.storage.filesystems import IdleGroup
from hosttune.host.door import Space
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import ABSENT, FileValue
from hosttune.views import disks
from hosttune.views.disks import disks_json, disks_of, disks_text, size_text
from hosttune.views.page import Page
from tests.hosts.built import BUILT, HOSTS
from tests.unit.fake_reader import FakeReader
from tests.unit.schemas import faults


def of(name, **files):
    overlay = Overlay(read_record(str(HOSTS / f"{name}.json")))
    for path, text in files.items():
        overlay.files[path] = ABSENT if text is None else FileValue(text.encode())
    return disks_of(Facts(overlay))


def test_server_shows_what_is_mounted_and_what_is_not():
    assert disks_text(of("h100-8x-2socket"), Page()) == (
        "nvme0n1  1.7 TiB  nvme, flash  SAMSUNG MZ1L21T9HCLS\n"
        "  nvme0n1p1  1.7 TiB  vfat  UUID=0A11-00FF\n"
        "      not mounted, no line in fstab\n"
        "  nvme0n1p2  1.7 TiB  ext4  UUID=0a11-22\n"
        "      /: relatime 50.0 GiB free of 100 GiB (50 % used); inodes 10 % used\n"
        "      fstab line 1: UUID=0a11-22 on /\n"
        "nvme1n1  3.5 TiB  nvme, flash  SAMSUNG MZWLO3T8HCLS  ext4\n"
        "    UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f\n"
        "    /data: relatime 1.7 TiB free of 3.4 TiB (50 % used); inodes 10 % used\n"
        "    fstab line 3: UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f on /data\n"
        "nvme2n1  3.5 TiB  nvme, flash  SAMSUNG MZWLO3T8HCLS  xfs  UUID=d2-7e\n"
        "    not mounted, no line in fstab\n"
        "\n"
        "3 disks, 2 mounts.\n"
        "\n"
        "Next\n"
        "  hosttune fstab  checks each line of /etc/fstab\n"
    )


def test_rotation_of_a_virtual_disk_is_doubted():
    assert "virtio, virtual disk, reports that it rotates" in disks_text(
        of("microvm-debian12"), Page()
    )
    assert "sata, rotates  ST8000VN004" in disks_text(of("workstation-rtx4090"), Page())


def test_what_is_in_no_partition_is_shown():
    """cisagov/cool-system#103: a root that nothing grew."""
    base = "/sys/devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1"
    grown = {f"{base}/nvme0n1p1/size": f"{1 << 21}\n", f"{base}/nvme0n1p2/size": f"{1 << 31}\n"}
    found = of("h100-8x-2socket", **grown)
    assert "    763 GiB in no partition\n" in disks_text(found, Page())
    assert next(one for one in disks_json(found)["devices"] if one["device"]["name"] == "nvme0n1")[
        "unused_bytes"
    ]
    full = {f"{base}/nvme0n1p1/size": f"{1 << 21}\n", f"{base}/nvme0n1p2/size": f"{1785 << 21}\n"}
    assert "in no partition" not in disks_text(of("h100-8x-2socket", **full), Page())


def test_line_whose_device_is_gone_is_named():
    found = of(
        "h100-8x-2socket",
        **{"/etc/fstab": "UUID=0a11-22 / ext4 defaults 0 1\nLABEL=old /old xfs defaults 0 0\n"},
    )
    assert "fstab line 2: LABEL=old on /old: no device has that name" in disks_text(found, Page())
    assert [entry.target for entry in found.missing] == ["/old"]


def test_what_crypttab_and_the_kernel_command_line_say_wrong_is_shown():
    files = {
        "/etc/crypttab": "old UUID=c81f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f none luks\n",
        "/proc/cmdline": "root=UUID=0a resume=UUID=c81f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1e\n",
        "/boot/grub/grub.cfg": None,
    }
    found = of("h100-8x-2socket", **files)
    assert [line.split(" names ")[0] for line in found.next_boot] == [
        "line 1 of /etc/crypttab", "the kernel command line"
    ]  # fmt: skip
    assert "\nnext boot: line 1 of /etc/crypttab names" in disks_text(found, Page())


def test_mounted_disk_without_a_line_says_so():
    text = disks_text(
        of("h100-8x-2socket", **{"/etc/fstab": "UUID=0a11-22 / ext4 defaults 0 1\n"}), Page()
    )
    assert "no line in fstab: the next boot may not mount it" in text


@pytest.mark.parametrize(
    ("source", "unsure"),
    [
        ("/home/s3b/file", ""),
        ("/dev/disk/cloud/azure_resource-part1", "; whether that is this device"),
    ],
)
def test_mounted_disk_whose_line_names_no_known_device_has_it(source, unsure):
    fstab = f"UUID=0a11-22 / ext4 defaults 0 1\n{source} /data ext4 loop,_netdev 0 0\n"
    text = disks_text(of("h100-8x-2socket", **{"/etc/fstab": fstab}), Page())
    assert f" fstab line 2: {source} on /data{unsure}" in " ".join(text.split())
    assert "may not mount it" not in text


def test_line_of_several_devices_is_mounted_from_one_of_them():
    """Disks of one btrfs, and a volume with its snapshot."""
    fstab = "UUID=0a11-22 / ext4 defaults 0 1\nUUID=d2-7e /data btrfs defaults 0 0\n"
    reader = Overlay(read_record(str(HOSTS / "h100-8x-2socket.json")))
    reader.files["/etc/fstab"] = FileValue(fstab.encode())
    facts = Facts(reader)
    two = [
        replace(one, uuid="d2-7e") if one.path in {"/dev/nvme1n1", "/dev/nvme2n1"} else one
        for one in facts.filesystems.all
    ]
    facts.__dict__["filesystems"] = replace(facts.filesystems, all=tuple(two))
    text = " ".join(disks_text(disks_of(facts), Page()).split())
    assert "fstab line 2: UUID=d2-7e on /data; another device of that name is mounted there" in text
    assert "not mounted now" not in text


def test_fstab_line_of_an_unmounted_disk_says_so():
    fstab = "UUID=0a11-22 / ext4 defaults 0 1\nUUID=d2-7e /scratch xfs nofail 0 0\n"
    assert "fstab line 2: UUID=d2-7e on /scratch; not mounted now" in disks_text(
        of("h100-8x-2socket", **{"/etc/fstab": fstab}), Page()
    )


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (
            IdleGroup("ZFS", "tank", ("/dev/nvme2n1",)),
            "a disk of the ZFS pool tank, which is not imported",
        ),
        (
            IdleGroup("LVM", "", ("/dev/nvme2n1",)),
            "a volume group of LVM of which no volume is active",
        ),
        (IdleGroup("RAID", "", ("/dev/nvme2n1",)), "a part of the array, which is not assembled"),
    ],
)
def test_part_of_what_is_not_up_says_so(monkeypatch, group, said):
    monkeypatch.setattr(filesystems, "_find_idle", lambda _reader, _facts: (group,))

    assert disks_text(of("h100-8x-2socket"), Page()).count(said) == 1


def test_unknown_file_systems_are_said_once_and_the_rest_is_shown():
    text = disks_text(of("h100-8x-2socket", **{"/run/udev/control": None}), Page())
    assert text.count("unknown:") == 1
    assert "fstab line 3: UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f on /data" in text


def test_space_of_a_full_btrfs_has_no_inodes():
    overlay = Overlay(read_record(str(HOSTS / "h100-8x-2socket.json")))
    overlay.space = lambda path: Space(100 << 30, 0, 0, 0)  # type: ignore[method-assign]
    text = disks_text(disks_of(Facts(overlay)), Page())
    assert "0 B free of 100 GiB (100 % used); inodes as needed" in text


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.stem)
def test_json_is_what_the_schema_says(path):
    data = disks_json(disks_of(Facts(read_record(str(path)))))
    assert faults(json.loads(json.dumps(data)), "disks") == []


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (100 << 20, "100 MiB"),
        (3_840_755_982_336, "3.5 TiB"),
        (None, "?"),
    ],
)
def test_size_text(size, text):
    assert size_text(size) == text


def test_many_devices_are_not_held_against_all_others(monkeypatch):
    """A record may have thousands."""
    asked = []
    real = disks._list_parents
    monkeypatch.setattr(disks, "_list_parents", lambda disk: asked.append(1) or real(disk))
    files = {}
    for number in range(20):
        folder = f"/sys/block/dm-{number}"
        files |= {
            f"{folder}/size": "9\n",
            f"{folder}/dev": f"253:{number}\n",
            f"{folder}/dm/name": f"m{number}\n",
        }
        files[f"{folder}/slaves/{f'dm-{number - 1}' if number else 'nvme2n1'}/dev"] = ""
    found = disks_of(Facts(FakeReader(files)))
    assert [row.disk.name for row in found.rows] == [f"dm-{number}" for number in range(20)]
    assert len(asked) < 4 * 20


def test_devices_one_upon_the_other_may_be_more_than_calls_of_python():
    rows = [
        SimpleNamespace(
            disk=SimpleNamespace(name=f"d{n}", parents=(f"d{n - 1}",)), children=(f"d{n + 1}",)
        )
        for n in range(2000)
    ]
    rows[-1].children = ()
    assert [row.disk.name for row in disks._sort_rows(rows)] == [f"d{n}" for n in range(2000)]
