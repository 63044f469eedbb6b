"""GPUs of AMD and Intel on the PCI bus: which count, what they are called, and what their counters
say.
"""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.other_gpus import errors_in
from hosttune.facts.inventory import describe_machine, take_inventory
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

PCI = "/sys/bus/pci/devices"
PCI_IDS = "#\n1002  AMD\n\t74b6  Something [Instinct MI399]\n10de  NVIDIA\n\t74a1  not this one\n"


def found(
    slot="0000:1b:00.0", vendor="0x1002", device="0x74a1", kind="0x120000", driver="amdgpu", **more
):
    base = f"{PCI}/{slot}"
    files = {
        f"{base}/vendor": f"{vendor}\n",
        f"{base}/device": f"{device}\n",
        f"{base}/class": f"{kind}\n",
    }
    files |= {f"{base}/{name.replace('__', '/')}": text for name, text in more.items()}
    links = {f"{base}/driver": f"../../bus/pci/drivers/{driver}"} if driver else {}
    return Facts(FakeReader(files, links=links)).other_gpus


def test_accelerator_of_amd_is_named_without_a_list_on_the_host():
    (gpu,) = found().devices
    assert (gpu.title, gpu.vendor, gpu.driver, gpu.uncorrected) == (
        "AMD Instinct MI300X",
        "AMD",
        "amdgpu",
        0,
    )
    assert found().summary == "1 x AMD Instinct MI300X"


@pytest.mark.parametrize(
    ("more", "title"),
    [
        (
            {"vendor": "0x8086", "device": "0x0bd5", "kind": "0x038000"},
            "Intel Data Center GPU Max 1550",
        ),
        ({"vendor": "0x1da3", "device": "0x1060"}, "Intel Gaudi 3"),
        ({"device": "0xffff"}, "AMD GPU 0xffff"),
        (
            {"slot": "0000:00:05.0", "device": "0x74b5"},
            "AMD Instinct MI300X VF",
        ),  # in a virtual machine
        ({"kind": "0x038000", "device": "0x740f"}, "AMD Instinct MI210"),
        (
            {"kind": "0x030000", "mem_info_vram_total": f"{48 << 30}\n", "device": "0x7448"},
            "AMD GPU 0x7448",
        ),
    ],
)
def test_what_counts_and_its_name(more, title):
    assert found(**more).devices[0].title == title


@pytest.mark.parametrize(
    "more",
    [
        {
            "slot": "0000:00:02.0",
            "vendor": "0x8086",
            "device": "0xa780",
            "kind": "0x030000",
        },  # graphics of the processor
        {"slot": "0000:00:02.0", "vendor": "0x8086", "device": "0x46a8", "kind": "0x038000"},
        {"kind": "0x030000", "device": "0x164e", "mem_info_vram_total": "536870912\n"},  # of Ryzen
        {"kind": "0x038000", "device": "0x1900", "mem_info_vram_total": "4294967296\n"},
        {"kind": "0x030000", "device": "0x164e"},  # without a driver nobody knows
        {"vendor": "0x1a03", "kind": "0x030000"},  # of the BMC
        {"vendor": "0x10de"},
        {"kind": "0x060400"},  # bridges of MI300X's own
    ],
)
def test_what_is_no_gpu_of_these(more):
    assert found(**more).devices == ()


def test_name_of_the_list_that_is_installed():
    base = f"{PCI}/0000:1b:00.0"
    files = {f"{base}/vendor": "0x1002", f"{base}/device": "0x74b6", f"{base}/class": "0x120000"}
    facts = Facts(FakeReader({**files, "/usr/share/misc/pci.ids": PCI_IDS}))
    assert facts.other_gpus.summary == "1 x AMD Something [Instinct MI399]"


def test_errors_are_counted_or_unknown():
    assert errors_in("ue: 2\nce: 3\n") == (2, 3)
    assert found(ras__umc_err_count="ue: 2\nce: 3\n").devices[0].uncorrected == 2
    assert (
        found(ras__umc_err_count="ue: 2\nce: 3\nde: 1\n").devices[0].uncorrected == 2
    )  # newer kernels
    with pytest.raises(UnknownFact, match="umc_err_count holds 'x'"):
        _ = found(ras__umc_err_count="x").devices[0].corrected
    with pytest.raises(UnknownFact, match="needs root"):
        _ = found(ras__umc_err_count=Unreadable("needs root")).devices[0].uncorrected


def test_bus_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="denied"):
        _ = Facts(FakeReader(unreadable={PCI: "denied"})).other_gpus.count


def test_machine_and_hardware_name_them():
    base = f"{PCI}/0000:1b:00.0"
    files = {
        f"{base}/vendor": "0x1002",
        f"{base}/device": "0x74a1",
        f"{base}/class": "0x120000",
        "/sys/bus/x": "",
    }
    facts = Facts(FakeReader(files))
    assert describe_machine(facts)["GPUs"] == "1 x AMD Instinct MI300X"
    assert take_inventory(facts).hardware["GPU"] == "AMD 0x74a1"
    assert take_inventory(facts).settings["GPUs"] == "1"


def test_accelerator_that_does_not_tell_its_model_is_called_a_gpu():
    base = f"{PCI}/0000:1b:00.0"
    files = {f"{base}/vendor": "0x1002\n", f"{base}/class": "0x030200\n"}
    (gpu,) = Facts(FakeReader(files)).other_gpus.devices
    assert (gpu.title, gpu.device_id) == ("AMD GPU", "")
