"""GPUs from sysfs: counted, named and dated without a driver."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.gpus import Gpu, model_in, name_in
from hosttune.facts.gpu.nvidia_tables import generation_of
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

PCI = "/sys/bus/pci/devices"
IDS = b"""# comment
10dd  Another vendor
\t2330  Not this one
10de  NVIDIA Corporation
\t2330  GH100 [H100 SXM5 80GB]
\t\t10de 16c1  HGX board
\t2684  AD102 [GeForce RTX 4090]
10df  Emulex
\t2331  Not this one either
C 03  Display controller
"""


def device(slot, device_id, class_id="0x030200", *, vendor="0x10de", driver="", **more):
    files = {
        f"{PCI}/{slot}/vendor": vendor,
        f"{PCI}/{slot}/device": device_id,
        f"{PCI}/{slot}/class": class_id,
    }
    files |= {f"{PCI}/{slot}/{name}": value for name, value in more.items()}
    links = {f"{PCI}/{slot}/driver": f"../../../bus/pci/drivers/{driver}"} if driver else {}
    return files, links


def reader(*devices, files=None):
    every = {"/sys/bus/pci/rescan": ""} | (files or {})
    links = {}
    for more, pairs in devices:
        every |= more
        links |= pairs
    return FakeReader(every, links=links, folders=[PCI])


def gpus_of(*devices, files=None):
    return Facts(reader(*devices, files=files)).gpus


def test_gpus_eight_identical_counts_each():
    gpus = gpus_of(*(device(f"0000:{n:02x}:00.0", "0x2330", driver="nvidia") for n in range(8)))
    assert gpus.count == 8
    assert gpus.generations == ("hopper",)
    assert gpus.drivers == ("nvidia",)
    assert gpus.summary == "8 x NVIDIA H100 80GB HBM3"


def test_gpus_that_no_list_knows_are_called_by_their_device():
    assert (
        gpus_of(device("0000:01:00.0", "0x2399")).summary
        == "1 x NVIDIA device 0x2399 (hopper generation)"
    )


@pytest.mark.parametrize(
    ("device_id", "subsystem", "name", "is_vgpu", "is_listed"),
    [
        ("0x2236", "10de:14bb", "NVIDIA A10", True, True),  # Azure NVadsA10 v5
        ("0x2236", "10de:1482", "NVIDIA A10", False, True),
        ("0x2236", "10de:0fff", "NVIDIA A10", False, False),
        ("0x2236", "1028:14bb", "NVIDIA A10", False, True),  # a card that another vendor sells
        ("0x2236", "", "NVIDIA A10", False, True),
        ("0x1eb8", "10de:1313", "GRID T4", True, True),
        ("0x25b6", "10de:157e", "NVIDIA A2", False, True),
        ("0x2330", "10de:16c1", "NVIDIA H100 80GB HBM3", False, True),
        ("0x2684", "10de:16f4", "NVIDIA GeForce RTX 4090", False, True),
        ("0x1db4", "10de:1214", "", False, True),
    ],
)
def test_gpus_boards_and_parts_of_boards(device_id, subsystem, name, is_vgpu, is_listed):
    vendor, _, board = subsystem.partition(":")
    more = (
        {"subsystem_vendor": f"0x{vendor}", "subsystem_device": f"0x{board}"} if subsystem else {}
    )
    gpus = gpus_of(device("0000:01:00.0", device_id, **more))
    (gpu,) = gpus.devices
    assert (gpu.name, gpu.is_vgpu, gpu.is_listed) == (name, is_vgpu, is_listed)
    assert gpus.summary.startswith("1 x vGPU of ") is is_vgpu
    assert bool(gpus.unlisted) is not is_listed


def test_gpus_all_fields_are_read():
    gpus = gpus_of(
        device(
            "0000:4e:00.0",
            "0x2330",
            driver="nouveau",
            subsystem_vendor="0x10de",
            subsystem_device="0x16c1",
            numa_node="1",
            current_link_width="8",
            max_link_width="16",
            current_link_speed="2.5 GT/s PCIe",
            max_link_speed="32.0 GT/s PCIe",
        ),
        files={"/usr/share/misc/pci.ids": IDS},
    )
    (gpu,) = gpus.devices
    assert (gpu.slot, gpu.device_id, gpu.subsystem, gpu.class_id) == (
        "0000:4e:00.0",
        "0x2330",
        "10de:16c1",
        "0x030200",
    )
    assert (gpu.name, gpu.driver, gpu.numa_node) == ("GH100 [H100 SXM5 80GB]", "nouveau", 1)
    assert (gpu.link_width, gpu.max_link_width) == (8, 16)
    assert (gpu.link_speed, gpu.max_link_speed) == ("2.5 GT/s PCIe", "32.0 GT/s PCIe")


def test_gpus_unknown_link_and_node_are_not_invented():
    (gpu,) = gpus_of(
        device(
            "0000:01:00.0",
            "0x2699",
            numa_node="-1",
            current_link_width="63",
            current_link_speed="Unknown",
        )
    ).devices
    assert (gpu.driver, gpu.numa_node, gpu.link_width, gpu.link_speed, gpu.subsystem, gpu.name) == (
        "",
        -1,
        0,
        "",
        "",
        "",
    )


def test_gpus_other_functions_and_vendors_are_not_gpus():
    gpus = gpus_of(
        device("0000:01:00.0", "0x2684", "0x030000"),
        device("0000:01:00.1", "0x22ba", "0x040300"),
        device("0000:02:00.0", "0x1234", "0x030000", vendor="0x1002"),
        device("0000:03:00.0", "0x22ce", "0x060400"),
    )
    assert [gpu.slot for gpu in gpus.devices] == ["0000:01:00.0"]
    assert gpus.nvswitches == 0


def test_gpus_nvswitches_are_counted_and_nforce_bridges_are_not():
    gpus = gpus_of(
        device("0000:05:00.0", "0x22a3", "0x068000"),
        device("0000:06:00.0", "0x1af1", "0x068000"),
        device("0000:00:0a.0", "0x0057", "0x068000"),
    )
    assert gpus.nvswitches == 2
    assert not gpus.has_gpu


def test_gpus_model_of_the_loaded_driver_wins():
    information = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-0\n"
    gpus = gpus_of(
        device("0000:4e:00.0", "0x2330"),
        files={
            "/usr/share/misc/pci.ids": IDS,
            "/proc/driver/nvidia/gpus/0000:4e:00.0/information": information,
        },
    )
    assert gpus.summary == "1 x NVIDIA H100 80GB HBM3"
    assert model_in("") == ""
    assert (
        model_in(information.replace("NVIDIA H100 80GB HBM3", "Unknown")) == ""
    )  # srinivasgln/nvidia-errors-srini


def test_gpus_passed_through_only_when_every_one_is():
    assert gpus_of(device("0000:01:00.0", "0x2330", driver="vfio-pci")).is_passed_through
    assert gpus_of(
        device("0009:01:00.0", "0x2342", driver="nvgrace-gpu-vfio-pci")
    ).is_passed_through
    both = (
        device("0000:01:00.0", "0x2330", driver="vfio-pci"),
        device("0000:02:00.0", "0x2330", driver="nvidia"),
    )
    assert not gpus_of(*both).is_passed_through
    assert not gpus_of().is_passed_through


def test_gpus_without_pci_is_none():
    gpus = Facts(FakeReader(folders=["/sys/bus/platform"])).gpus
    assert (gpus.count, gpus.nvswitches) == (0, 0)


@pytest.mark.parametrize(
    "blind",
    [FakeReader(), FakeReader(unreadable={"/sys": "no kernel runs under --root"})],
    ids=["no sysfs", "unreadable"],
)
def test_gpus_without_sysfs_is_unknown(blind):
    with pytest.raises(UnknownFact):
        _ = Facts(blind).gpus.has_gpu


@pytest.mark.parametrize(
    ("device_id", "name"),
    [
        ("2330", "GH100 [H100 SXM5 80GB]"),
        ("2684", "AD102 [GeForce RTX 4090]"),
        ("2331", ""),
        ("16c1", ""),
        ("03", ""),
    ],
)
def test_name_in_looks_only_at_nvidia_devices(device_id, name):
    assert name_in(IDS, device_id) == name


@pytest.mark.parametrize("name", ["vendor", "class"])
def test_gpus_function_that_cannot_be_looked_at_is_unknown_and_not_no_gpu(name):
    files = {
        f"/sys/bus/pci/devices/0000:1b:00.0/{one}": text
        for one, text in (("vendor", "0x10de"), ("class", "0x030200"))
    }
    blind = FakeReader(
        files
        | {f"/sys/bus/pci/devices/0000:1b:00.0/{name}": Unreadable("an error of input or output")}
    )
    with pytest.raises(UnknownFact, match="input or output"):
        _ = Facts(blind).gpus.count


def test_name_in_without_nvidia_is_empty():
    assert name_in(b"10dd  Another\n", "2330") == ""


# Chips by their code names, as pci.ids has them.
@pytest.mark.parametrize(
    ("device_id", "generation"),
    [
        (0x1024, "kepler"),
        (0x102D, "kepler"),
        (0x13F2, "maxwell"),
        (0x15F8, "pascal"),
        (0x1B80, "pascal"),
        (0x1C8C, "pascal"),
        (0x1DB4, "volta"),
        (0x1DF6, "volta"),
        (0x1EB8, "turing"),
        (0x2182, "turing"),
        (0x20B2, "ampere"),
        (0x20F1, "ampere"),
        (0x2235, "ampere"),
        (0x2482, "ampere"),
        (0x2330, "hopper"),
        (0x2335, "hopper"),
        (0x2342, "hopper"),
        (0x2684, "ada"),
        (0x26B9, "ada"),
        (0x27B8, "ada"),
        (0x2901, "blackwell"),
        (0x2B85, "blackwell"),
        (0x2D04, "blackwell"),
        (0x3182, "blackwell"),
        (0x06D1, "fermi"),
        (0x1086, "fermi"),
        (0x9999, "unknown"),
        (0x3000, "unknown"),
        (-1, "unknown"),
    ],
)
def test_generation_of_known_chips(device_id, generation):
    assert generation_of(device_id) == generation


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("NVIDIA H100 80GB HBM3", 80),
        ("GH100 [H100 SXM5 80GB]", 80),
        ("NVIDIA A100-SXM4-40GB", 40),
        ("NVIDIA GH200 480GB", 0),
        ("NVIDIA GeForce RTX 4090", 0),
        ("", 0),
    ],
)
def test_gpu_memory_is_what_the_name_tells(name, gib):
    gpu = Gpu(
        "0000:01:00.0",
        "0x2330",
        "",
        "0x030200",
        "hopper",
        name,
        "nvidia",
        0,
        16,
        16,
        "",
        "",
        False,
        True,
    )
    assert gpu.named_bytes == gib << 30


@pytest.mark.parametrize(
    ("name", "generation", "is_on"),
    [
        ("NVIDIA H100 80GB HBM3", "hopper", True),
        ("GH100 [H100 SXM5 80GB]", "hopper", True),
        ("NVIDIA L40S", "ada", True),
        ("NVIDIA A10G", "ampere", True),
        ("Tesla T4", "turing", True),
        ("Tesla V100-SXM2-16GB", "volta", True),
        ("NVIDIA RTX A6000", "ampere", False),
        ("GA102GL [RTX A6000]", "ampere", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "blackwell", False),
        ("NVIDIA GeForce RTX 4090", "ada", False),
        ("Quadro RTX 8000", "turing", False),
        ("NVIDIA TITAN V", "volta", False),
        ("Tesla M60", "maxwell", False),
        ("", "unknown", False),
    ],
)
def test_cards_that_come_with_ecc_switched_on(name, generation, is_on):
    gpu = Gpu(
        "0000:01:00.0",
        "0x2330",
        "",
        "0x030200",
        generation,
        name,
        "nvidia",
        0,
        16,
        16,
        "",
        "",
        False,
        True,
    )
    assert gpu.ships_with_ecc == is_on


def test_virtual_functions_that_this_host_lends_are_no_gpus_of_its_own():
    files = {
        f"/sys/bus/pci/devices/{slot}/{name}": text
        for slot in ("0000:1b:00.0", "0000:1b:00.4", "0000:1b:00.5")
        for name, text in (("vendor", "0x10de"), ("device", "0x20b5"), ("class", "0x030200"))
    }
    links = {
        f"/sys/bus/pci/devices/0000:1b:00.{number}/physfn": "../0000:1b:00.0" for number in (4, 5)
    }
    found = Facts(
        FakeReader(files | {"/sys/bus/pci/devices/0000:1b:00.0/config": ""}, links=links)
    ).gpus
    assert [gpu.slot for gpu in found.devices] == ["0000:1b:00.0"]
