"""Block devices: kinds, transports, and the disks below partitions, LVM, LUKS and md."""

import posixpath

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.disks import _list_partitions, end_on, kind_of, transport_of
from tests.unit.fake_reader import FakeReader

PCI = "/sys/devices/pci0000:00/0000:00:1d.0"


class Tree:
    """A /sys with block devices."""

    def __init__(self):
        self.files = {}
        self.links = {}
        self.minor = 0

    def add(
        self,
        name,
        place,
        *,
        size=2048,
        rotational=0,
        discard=4096,
        slaves=(),
        partitions=(),
        **files,
    ):
        base = f"{place}/{name}"
        self.links[f"/sys/block/{name}"] = posixpath.relpath(base, "/sys/block")
        values = {
            "size": size, "dev": f"259:{self.minor}", "ro": 0, "removable": 0, "queue/rotational": rotational,
            "queue/discard_max_bytes": discard,
        }  # fmt: skip
        values |= {key.replace("__", "/"): value for key, value in files.items()}
        self.files |= {f"{base}/{key}": f"{value}\n" for key, value in values.items()}
        self.files |= {f"{base}/slaves/{slave}/dev": "" for slave in slaves}
        self.minor += 1
        for partition in partitions:
            values = {"partition": 1, "size": size // 2, "dev": f"259:{self.minor}", "ro": 0}
            self.files |= {
                f"{base}/{partition}/{key}": f"{value}\n" for key, value in values.items()
            }
            self.minor += 1
        return self

    def disks(self, **options):
        return Facts(FakeReader(self.files, links=self.links, **options)).disks


def virtual(tree, name, **values):
    return tree.add(name, "/sys/devices/virtual/block", **values)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvme0n1", "disk"), ("sda", "disk"), ("vda", "disk"), ("mmcblk0", "disk"), ("cciss!c0d0", "disk"),
        ("dm-12", "dm"), ("md127", "md"), ("md_d0", "md"), ("loop3", "loop"), ("ram0", "ram"), ("zram0", "zram"),
        ("sr0", "cdrom"), ("mdraid", "disk"), ("srv", "disk"),
    ],
)  # fmt: skip
def test_kind_of(name, kind):
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "path", "transport"),
    [
        ("nvme0n1", f"{PCI}/nvme/nvme0/nvme0n1", "nvme"),
        ("vda", "/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda", "virtio"),
        (
            "sda",
            "/sys/devices/pci0000:00/0000:00:05.0/virtio2/host0/target0:0:0/0:0:0:0/block/sda",
            "virtio",
        ),
        ("sda", f"{PCI}/ata3/host2/target2:0:0/2:0:0:0/block/sda", "sata"),
        ("sdb", f"{PCI}/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb", "usb"),
        ("sdc", f"{PCI}/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdc", "sas"),
        (
            "sdd",
            f"{PCI}/host1/port-1:0/expander-1:0/port-1:0:3/end_device-1:0:3/target1:0:3/1:0:3:0/block/sdd",
            "sas",
        ),
        ("sde", f"{PCI}/host0/target0:2:0/0:2:0:0/block/sde", "scsi"),
        (
            "mmcblk0",
            "/sys/devices/platform/fe310000.sdhci/mmc_host/mmc0/mmc0:0001/block/mmcblk0",
            "mmc",
        ),
        ("xvda", "/sys/devices/vbd-51712/block/xvda", ""),
    ],
)
def test_transport_of(name, path, transport):
    assert transport_of(name, path) == transport


def test_disks_partition_has_its_disks_properties():
    tree = Tree().add(
        "sda",
        f"{PCI}/ata1/host0/target0:0:0/0:0:0:0/block",
        rotational=1,
        partitions=("sda1",),
        device__model="ST8000NM",
    )
    seen = tree.disks()
    partition = seen.by_name["sda1"]
    assert (partition.kind, partition.path, partition.parents, partition.disks) == (
        "partition",
        "/dev/sda1",
        ("sda",),
        ("sda",),
    )
    assert (partition.is_rotational, partition.transport, partition.model) == (
        True,
        "sata",
        "ST8000NM",
    )
    assert partition.size_bytes == 1024 * 512
    assert seen.by_device["259:1"] is partition or seen.by_device["259:1"] == partition
    assert seen.physical == (seen.by_name["sda"],)
    assert seen.by_name["sda"].disks == ("sda",)


def test_disks_encrypted_lvm_on_md_over_nvme_partitions_ends_on_both():
    tree = Tree()
    for number in (0, 1):
        tree.add(
            f"nvme{number}n1",
            f"{PCI}/nvme/nvme{number}",
            partitions=(f"nvme{number}n1p1", f"nvme{number}n1p2"),
        )
    virtual(tree, "md0", slaves=("nvme0n1p2", "nvme1n1p2"))
    virtual(tree, "dm-0", slaves=("md0",), dm__name="luks-1234")
    virtual(tree, "dm-1", slaves=("dm-0",), dm__name="vg-data")
    seen = tree.disks()
    assert seen.by_name["dm-1"].path == "/dev/mapper/vg-data"
    assert seen.by_name["dm-1"].parents == ("dm-0",)
    assert seen.by_name["dm-1"].disks == ("nvme0n1", "nvme1n1")
    assert seen.by_name["dm-1"].transport == ""
    assert seen.by_name["nvme0n1p1"].disks == ("nvme0n1",)
    assert [disk.name for disk in seen.physical] == ["nvme0n1", "nvme1n1"]
    assert seen.whole == ()


def test_disks_device_mapper_multipath_ends_on_every_path():
    tree = Tree()
    for name in ("sda", "sdb"):
        tree.add(name, f"{PCI}/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block")
    virtual(tree, "dm-0", slaves=("sda", "sdb"), dm__name="mpatha")
    assert tree.disks().by_name["dm-0"].disks == ("sda", "sdb")


def test_disks_nvme_multipath_shows_the_namespace_once():
    tree = Tree().add("nvme0n1", "/sys/devices/virtual/nvme-subsystem/nvme-subsys0", hidden=0)
    for path in ("nvme0c0n1", "nvme0c1n1"):
        tree.add(path, f"{PCI}/nvme/nvme0", hidden=1)
    assert [disk.name for disk in tree.disks().all] == ["nvme0n1"]


def test_disks_without_a_medium_are_left_out():
    tree = virtual(virtual(Tree(), "loop0", size=0), "loop1")
    tree.add("sr0", f"{PCI}/ata2/host1/target1:0:0/1:0:0:0/block", size=0)
    virtual(tree, "zram0", size=4096)
    seen = tree.disks()
    assert [(disk.name, disk.kind, disk.disks) for disk in seen.all] == [
        ("loop1", "loop", ()),
        ("zram0", "zram", ()),
    ]


def test_disks_discard_of_zero_bytes_is_none():
    tree = (
        Tree()
        .add("sda", f"{PCI}/ata1/host0/block", discard=0)
        .add("sdb", f"{PCI}/ata2/host1/block", discard=2147450880)
    )
    seen = tree.disks()
    assert (seen.by_name["sda"].can_discard, seen.by_name["sdb"].can_discard) == (False, True)


def test_disks_name_with_a_slash_is_restored_in_the_path():
    seen = Tree().add("cciss!c0d0", f"{PCI}/block", partitions=("cciss!c0d0p1",)).disks()
    assert seen.by_name["cciss!c0d0p1"].path == "/dev/cciss/c0d0p1"


def test_disks_unused_whole_disk_is_found():
    tree = (
        Tree()
        .add("nvme0n1", f"{PCI}/nvme/nvme0", partitions=("nvme0n1p1",))
        .add("nvme1n1", f"{PCI}/nvme/nvme1")
    )
    assert [disk.name for disk in tree.disks().whole] == ["nvme1n1"]


def test_disks_unreadable_attribute_is_unknown_in_that_field_alone():
    tree = virtual(Tree().add("nvme0n1", f"{PCI}/nvme/nvme0"), "dm-0", slaves=("nvme0n1",))
    hidden = {
        f"{PCI}/nvme/nvme0/nvme0n1/queue": "not in this record",
        "/sys/devices/virtual/block/dm-0/slaves": "hidden",
    }
    seen = tree.disks(unreadable=hidden)
    disk = seen.by_name["nvme0n1"]
    assert (disk.size_bytes, disk.transport) == (2048 * 512, "nvme")
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = disk.is_rotational
    with pytest.raises(UnknownFact, match="hidden"):
        _ = seen.by_name["dm-0"].disks


def test_end_on_a_circle_ends():
    assert end_on("a", {"a": ("b",), "b": ("a", "c"), "c": ()}.__getitem__, frozenset({"c"})) == (
        "c",
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "does not exist"), ({"unreadable": {"/sys": "no kernel"}}, "no kernel")],
)
def test_disks_without_sysfs_are_unknown(options, reason):
    with pytest.raises(UnknownFact, match=reason):
        _ = Facts(FakeReader(**options)).disks.physical


UNAME = {("uname", "-m"): "x86_64\n"}


def machine(tree, flags):
    tree.files["/proc/cpuinfo"] = f"processor\t: 0\nflags\t\t: {flags}\n\n"
    return tree


def test_a_hard_disk_rotates():
    tree = machine(
        Tree().add("sda", f"{PCI}/ata1/host0/target0:0:0/0:0:0:0/block", rotational=1), "fpu"
    )
    (disk,) = tree.disks(queries=UNAME).all
    assert (disk.is_rotational, disk.is_virtual, disk.rotates) == (True, False, True)


@pytest.mark.parametrize(
    "place",
    [
        "/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block",
        f"{PCI}/host1/rport-1:0-0/target1:0:0/1:0:0:0/block",
    ],
    ids=["iSCSI", "Fibre Channel"],
)
def test_medium_of_a_storage_array_is_not_told(place):
    tree = virtual(Tree().add("sda", place, rotational=1), "dm-0", rotational=1, slaves=("sda",))
    assert [(disk.name, disk.is_virtual, disk.rotates) for disk in tree.disks().all] == [
        ("dm-0", True, False), ("sda", True, False),
    ]  # fmt: skip


def test_medium_of_a_virtual_machines_disk_is_not_told():
    tree = Tree().add("vda", f"{PCI}/virtio1/block", rotational=1, partitions=("vda1",))
    disks = machine(tree, "fpu hypervisor").disks(queries=UNAME).all
    assert [(disk.is_virtual, disk.rotates) for disk in disks] == [(True, False), (True, False)]


def test_partitions_are_known_by_the_class_where_the_folder_of_the_disk_is_not():
    base = f"{PCI}/virtio2/block/vda"
    own = {f"{base}/{name}": f"{value}\n" for name, value in {"size": 4096, "dev": "254:0"}.items()}
    part = {
        f"{base}/vda1/{name}": f"{value}\n"
        for name, value in {"size": 2048, "dev": "254:1"}.items()
    }
    reader = FakeReader(
        own | part | {"/sys/class/block/vda/x": "", "/sys/class/block/vda1/x": ""},
        links={"/sys/block/vda": base},
        unreadable={base: "not in this record", "/sys/block/vda": "not in this record"},
    )
    assert [one.name for one in Facts(reader).disks.all] == ["vda", "vda1"]


def test_partition_is_of_the_disk_that_its_name_says():
    names = (
        "sda",
        "sda1",
        "sdaa2",
        "sdp3",
        "nvme0n1",
        "nvme0n1p1",
        "nvme0n1p12",
        "mmcblk0p1",
        "cciss!c0d0p2",
        "dm-0",
    )
    assert _list_partitions(names) == {
        "sda": ["sda1"], "sdaa": ["sdaa2"], "sdp": ["sdp3"], "nvme0n": ["nvme0n1"], "dm-": ["dm-0"],
        "nvme0n1": ["nvme0n1p1", "nvme0n1p12"], "mmcblk0": ["mmcblk0p1"], "cciss!c0d0": ["cciss!c0d0p2"],
    }  # fmt: skip


@pytest.mark.parametrize("link", ["/dev/disk/cloud/azure_resource", "/dev/disk/azure/resource"])
def test_temporary_disk_of_azure_is_known_by_the_rules_of_udev_and_not_by_its_model(link):
    vmbus = "/sys/devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00/f8b3781a/host0/target0:0:0/0:0:0:1/block"
    tree = Tree().add("sda", vmbus, device__model="Virtual Disk", partitions=("sda1",))
    tree.add("sdb", vmbus, device__model="Virtual Disk", partitions=("sdb1",))
    tree.links[link] = "../../sdb"
    tree.files["/dev/sdb"] = ""
    assert [one.name for one in tree.disks().all if one.is_ephemeral] == ["sdb", "sdb1"]
