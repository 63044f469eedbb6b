"""PCIe links, IOMMU groups and ACS, from sysfs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.decide.evaluate import evaluate
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.pcie import errors_in, ports_of, speed_of, width_of
from hosttune.facts.kernel.acs import acs_control, port_type
from hosttune.facts.kernel.iommu import arguments_of
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.reading.pci_config import extended_capabilities, is_pci_config, without_serial
from hosttune.host.record.record import read_record
from hosttune.values import FileValue, Unreadable, Verdict
from tests.hosts.built import HOSTS
from tests.hosts.machine import express_port
from tests.unit.fake_reader import FakeReader

PCI = "/sys/bus/pci/devices"
PORT = "/sys/devices/pci0000:15/0000:15:01.0"
GPU = f"{PORT}/0000:16:00.0"


def facts_of(files=None, links=None, **more):
    every = {
        f"{GPU}/vendor": "0x10de", f"{GPU}/device": "0x2330", f"{GPU}/class": "0x030200",
        f"{GPU}/current_link_width": "8\n", f"{GPU}/max_link_width": "16\n",
        f"{GPU}/current_link_speed": "2.5 GT/s PCIe\n", f"{GPU}/max_link_speed": "32.0 GT/s PCIe\n",
        f"{PORT}/vendor": "0x1000", f"{PORT}/device": "0xc030", f"{PORT}/class": "0x060400",
        f"{PORT}/max_link_width": "8\n", f"{PORT}/max_link_speed": "16.0 GT/s PCIe\n",
        f"{PORT}/config": express_port(6, 0x1D),
    }  # fmt: skip
    pairs = {
        f"{PCI}/0000:15:01.0": f"../../..{PORT[4:]}",
        f"{PCI}/0000:16:00.0": f"../../..{GPU[4:]}",
    }
    return Facts(FakeReader(every | (files or {}), links=pairs | (links or {}), **more))


def test_pcie_link_is_judged_by_what_both_ends_can_do():
    (link,) = facts_of().pcie.links
    assert (link.port, link.width, link.wanted_width, link.wanted_speed) == (
        "0000:15:01.0",
        8,
        8,
        16.0,
    )
    assert not link.is_working
    assert (link.corrected, link.uncorrected) == (-1, -1)


def test_links_of_other_kinds_are_known_where_the_way_to_one_device_is_not():
    disk = "/sys/devices/pci0000:15/0000:15:02.0/0000:17:00.0"
    files = {
        f"{disk}/class": "0x010802",
        f"{disk}/current_link_width": "4\n",
        f"{disk}/max_link_width": "4\n",
    }
    links = {f"{PCI}/0000:17:00.0": f"../../..{disk[4:]}"}
    facts = facts_of(files, links)
    why = "the registers of the bridges above it are not shown"
    resolve = facts.reader.resolve
    facts.reader.resolve = lambda path: (
        Unreadable(why) if path.endswith("0000:16:00.0") else resolve(path)
    )
    found = facts.pcie.links
    assert [one.kind for one in found] == ["gpu", "nvme"]
    assert found[1].port == "0000:15:02.0"
    assert found[0].width == 8
    with pytest.raises(UnknownFact, match=why):
        _ = found[0].port


SPLIT = "/sys/devices/pci0000:15/0000:15:01.1"


@pytest.mark.parametrize(
    ("port_width", "widths", "other_port", "split"),
    [
        ("16", ("8", "8"), SPLIT, True),  # x8/x8
        ("16", ("8", "4"), SPLIT, True),
        ("8", ("8", "8"), SPLIT, False),  # each port has its own lanes
        (
            "16",
            ("8", "16"),
            SPLIT,
            False,
        ),  # the neighbour has a slot of its own: this one came up narrow
        ("16", ("8", "0"), SPLIT, False),  # not known
        ("16", ("8", "8"), "/sys/devices/pci0000:15/0000:15:02.0", False),  # another slot
    ],
)
def test_lanes_that_a_board_shares_out_to_two_cards_are_no_fault(
    port_width, widths, other_port, split
):
    disk = f"{other_port}/0000:17:00.0"
    files = {
        f"{PORT}/max_link_width": f"{port_width}\n", f"{GPU}/current_link_width": f"{widths[0]}\n",
        f"{disk}/class": "0x010802", f"{disk}/vendor": "0x144d", f"{disk}/current_link_width": f"{widths[1]}\n",
        f"{disk.removesuffix('0')}1/class": "0x020000", f"{disk.removesuffix('0')}1/vendor": "0x15b3",
        f"{disk.removesuffix('0')}1/current_link_width": f"{widths[1]}\n",
    }  # fmt: skip
    links = {f"{PCI}/0000:17:00.{function}": f"../../..{disk[4:-1]}{function}" for function in "01"}
    facts = facts_of(files, links)
    link = next(one for one in facts.pcie.links if one.kind == "gpu")
    assert link.split_with == (("0000:17:00.0", "0000:17:00.1") if split else ())
    facts.__dict__["host"] = SimpleNamespace(
        is_image=False, is_container=False, is_wsl=False, is_vm=False
    )
    catalog = builtin_catalog()
    said = evaluate(
        catalog.rules["gpu-pcie-link"], facts, catalog.rules["gpu-pcie-link"].defaults
    ).findings
    todo = " ".join(finding.todo for finding in said)
    assert ("reseat" in todo) == (not split and port_width == "16"), said
    assert ("manual splits the slots" in todo) == split


def test_pcie_errors_of_gpu_and_port_are_added():
    files = {
        f"{GPU}/aer_dev_correctable": "RxErr 4\nTOTAL_ERR_COR 4\n",
        f"{PORT}/aer_dev_correctable": "RxErr 3\nTOTAL_ERR_COR 3\n",
        f"{GPU}/aer_dev_fatal": "DLP 0\nMalfTLP 1\nTOTAL_ERR_FATAL 1\n",
    }
    (link,) = facts_of(files).pcie.links
    assert (link.corrected, link.uncorrected, link.broken) == (7, 1, 0)


CARD = "/sys/devices/pci0000:15/0000:15:02.0"


def links_of(devices, links=None):
    """The links of network cards at these slots: slot -> (lanes, what else lies in its folder)."""
    files, pairs = {}, {}
    for slot, (lanes, more) in devices.items():
        base = f"{CARD}/{slot}"
        pairs[f"{PCI}/{slot}"] = f"../../..{base[4:]}"
        files |= {
            f"{base}/class": "0x020000", f"{base}/vendor": "0x15b3", f"{base}/device": "0x1021",
            f"{base}/current_link_width": f"{lanes}\n", f"{base}/max_link_width": "16\n",
            f"{base}/max_link_speed": "32.0 GT/s PCIe\n",
        } | {f"{base}/{name}": text for name, text in more.items()}  # fmt: skip
    found = facts_of(files, pairs | (links or {})).pcie.links
    return {link.slot: link for link in found if link.kind == "network"}


def test_virtual_functions_and_second_ports_have_no_link_of_their_own():
    devices = {"0000:16:00.0": (8, {}), "0000:16:00.1": (8, {}), "0000:16:02.3": (0, {})}
    found = links_of(devices, {f"{CARD}/0000:16:02.3/physfn": "../0000:16:00.0"})
    assert list(found) == ["0000:16:00.0"]
    assert not found["0000:16:00.0"].is_like_siblings


@pytest.mark.parametrize(
    ("guids", "half"), [(("a", "a"), "0000:18:00.0"), (("a", "b"), ""), (("", ""), "")]
)
def test_halves_of_a_card_share_their_guid(guids, half):
    devices = {
        slot: (8, {"infiniband/mlx5_0/sys_image_guid": f"{guid}\n"})
        for slot, guid in zip(("0000:17:00.0", "0000:18:00.0"), guids, strict=True)
    }
    link = links_of(devices)["0000:17:00.0"]
    assert (link.other_half, link.is_like_siblings, link.model) == (half, True, "15b3:1021")


@pytest.mark.parametrize(
    ("speed", "lanes", "rate"), [("32.0", 16, 30.72), ("16.0", 4, 3.84), ("3.0", 4, 0.0)]
)
def test_replays_of_a_sound_link(speed, lanes, rate):
    device = {"max_link_speed": f"{speed} GT/s PCIe\n", "max_link_width": f"{lanes}\n"}
    link = links_of({"0000:16:00.0": (lanes, device)})["0000:16:00.0"]
    assert link.replays_a_minute == pytest.approx(rate)


def test_link_that_cannot_be_read_is_unknown():
    facts = facts_of(unreadable={f"{GPU}/current_link_width": "input/output error"})
    with pytest.raises(UnknownFact, match="input/output error"):
        _ = facts.pcie.links[0].width


def test_pcie_device_names_the_bridges_above_it():
    (gpu,) = facts_of().pcie.devices
    assert (gpu.kind, gpu.ports, gpu.driver) == ("gpu", ("0000:15:01.0",), "")


@pytest.mark.parametrize(
    ("driver", "is_program"),
    [("vfio-pci", True), ("uio_pci_generic", True), ("igb_uio", True), ("mlx5_core", False)],
)
def test_card_that_a_program_drives_itself(driver, is_program):
    card = "/sys/devices/pci0000:15/0000:15:02.0"
    links = {
        f"{PCI}/0000:15:02.0": f"../../..{card[4:]}",
        f"{card}/driver": f"../../../bus/pci/drivers/{driver}",
    }
    facts = facts_of({f"{card}/class": "0x020000", f"{card}/vendor": "0x15b3"}, links)
    assert facts.pcie.has_user_space_driver == is_program


@pytest.mark.parametrize(
    ("spelled", "lanes"), [("16", 16), ("0", 0), ("63", 0), ("255", 0), ("", 0)]
)
def test_width_of_dead_links_is_unknown(spelled, lanes):
    assert width_of(spelled) == lanes


def test_speed_and_errors_and_ports():
    assert (speed_of("32.0 GT/s PCIe"), speed_of("Unknown")) == (32.0, 0.0)
    assert (errors_in("A 1\nTOTAL_ERR_NONFATAL 12\n"), errors_in("")) == ({"A": 1}, {})
    assert ports_of("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0") == (
        "0000:15:01.0",
        "0000:16:00.0",
    )
    assert ports_of("/sys/devices/pci0000:00/0000:00:02.0") == ()


def test_iommu_group_and_domain():
    group = "/sys/kernel/iommu_groups/7"
    iommu = facts_of({f"{group}/type": "DMA\n"}, {f"{GPU}/iommu_group": group}).iommu
    assert iommu.is_on
    assert (iommu.translated, iommu.strict, iommu.summary) == (
        ("0000:16:00.0",),
        ("0000:16:00.0",),
        "1 gpu DMA",
    )


def test_iommu_device_without_group_is_not_translated():
    iommu = facts_of().iommu
    assert not iommu.is_on
    assert (iommu.translated, iommu.summary) == ((), "1 gpu without IOMMU")


def test_iommu_group_without_type_is_unknown():
    group = "/sys/kernel/iommu_groups/7"
    iommu = facts_of({f"{group}/name": "x"}, {f"{GPU}/iommu_group": group}).iommu
    with pytest.raises(UnknownFact, match="type of the IOMMU group"):
        _ = iommu.translated


def test_iommu_group_whose_type_was_not_read_is_unknown_for_that():
    """A report of nvidia-bug-report.sh has the number of the group, and no type: the kernel is not
    to blame.
    """
    group = "/sys/kernel/iommu_groups/7"
    links = {f"{GPU}/iommu_group": group}
    iommu = facts_of({f"{group}/type": Unreadable("not in this record")}, links).iommu
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = iommu.translated


def test_arguments_of_iommu_alone():
    assert arguments_of(("quiet", "iommu=pt", "intel_iommu=on", "iommux=1")) == (
        "iommu=pt",
        "intel_iommu=on",
    )


def test_acs_downstream_port_that_redirects():
    acs = facts_of().acs
    assert (acs.slots, acs.models) == (("0000:15:01.0",), ("1000:c030",))
    assert acs.commands == "setpci -s 0000:15:01.0 ECAP_ACS+0x6.w=0:c"


def test_acs_card_behind_the_same_switch_counts():
    down = f"{PORT}/0000:16:00.0/0000:17:01.0"
    gpu, card = f"{PORT}/0000:16:00.0/0000:17:00.0/0000:18:00.0", f"{down}/0000:19:00.0"
    files = {
        f"{gpu}/vendor": "0x10de", f"{gpu}/device": "0x2330", f"{gpu}/class": "0x030200",
        f"{card}/vendor": "0x15b3", f"{card}/class": "0x020700", f"{down}/config": express_port(6, 0x4),
    }  # fmt: skip
    files |= {
        f"{PORT}/{path}config": express_port(5, 0)
        for path in ("", "0000:16:00.0/", "0000:16:00.0/0000:17:00.0/")
    }
    links = {
        f"{PCI}/{path.rpartition('/')[2]}": f"../../..{path[4:]}" for path in (gpu, card, down)
    }
    links |= {
        f"{PCI}/0000:16:00.0": f"../../..{PORT[4:]}/0000:16:00.0",
        f"{PCI}/0000:15:01.0": f"../../..{PORT[4:]}",
    }
    links[f"{PCI}/0000:17:00.0"] = f"../../..{PORT[4:]}/0000:16:00.0/0000:17:00.0"
    assert Facts(FakeReader(files, links=links)).acs.slots == ("0000:17:01.0",)


@pytest.mark.parametrize(("kind", "control"), [(4, 0x1D), (5, 0x1D), (6, 0x11)])
def test_acs_root_port_or_other_bits_do_not_count(kind, control):
    assert facts_of({f"{PORT}/config": express_port(kind, control)}).acs.redirecting == ()


def test_acs_without_root_is_unknown():
    facts = facts_of({f"{PORT}/config": express_port(6, 0x1D)[:64]}, is_privileged=False)
    with pytest.raises(UnknownFact, match="needs root"):
        _ = facts.acs.redirecting


def test_acs_plain_configuration_space_of_an_express_port_is_unknown():
    facts = facts_of({f"{PORT}/config": express_port(6, 0x1D)[:256]})
    with pytest.raises(UnknownFact, match="does not show the extended"):
        _ = facts.acs.redirecting


def test_port_type_and_control_of_what_is_no_express_port():
    assert port_type(bytes(4096)) == ""
    assert acs_control(bytes(4096)) is None
    ring = bytearray(256)
    ring[0x34], ring[0x40], ring[0x41] = 0x40, 0x05, 0x40
    assert port_type(bytes(ring)) == ""


def test_extended_capabilities_ring_ends():
    config = bytearray(4096)
    config[0x100:0x104] = (0x0003 | 0x100 << 20 | 1 << 16).to_bytes(4, "little")
    assert extended_capabilities(bytes(config)) == {3: 0x100}


def test_without_serial_nothing_else_changes():
    config = bytearray(express_port(6, 0x1D))
    config[0x102:0x104] = (0x1401).to_bytes(2, "little")  # the next one stands at 0x140
    config[0x140:0x144] = (0x0001_0003).to_bytes(4, "little")
    config[0x144:0x14C] = b"\x11\x22\x33\x44\x55\x66\x77\x88"
    masked = without_serial(bytes(config))
    assert masked[0x144:0x14C] == bytes(8)
    assert masked[:0x144] + masked[0x14C:] == bytes(config[:0x144] + config[0x14C:])
    assert is_pci_config(f"{PCI}/0000:15:01.0/config")
    assert not is_pci_config("/boot/config")


def test_acs_rule_names_the_ports_and_both_commands():
    host = Overlay(read_record(str(HOSTS / "h100-8x-2socket.json")))
    port = "/sys/devices/pci0000:18/0000:18:01.0/0000:19:00.0/0000:1a:00.0"
    host.files[f"{port}/config"] = FileValue(express_port(6, 0x1D))
    plan = examine(host, builtin_catalog(), replace(Policy(), sole=("kernel-acs",))).plan()
    (finding,) = plan.findings
    assert finding.verdict is Verdict.ADVICE
    assert (
        finding.reason == "ACS redirection is on at these ports of switches with GPUs: 0000:1a:00.0"
    )
    assert "setpci -s 0000:1a:00.0 ECAP_ACS+0x6.w=0:c" in finding.todo
    assert "pci=disable_acs_redir=pci:1000:c030" in finding.todo
