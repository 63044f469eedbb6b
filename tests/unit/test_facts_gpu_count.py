"""How many GPUs there should be: tables, the kubelet's checkpoint, boards."""

from __future__ import annotations

import json

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.gpu_count import (
    INSTANCE_DATA,
    board_of,
    expected_of,
    registered_in,
    type_in,
)
from hosttune.facts.gpu.platforms import platform_of
from hosttune.host.record.record import RecordingReader
from tests.hosts.kinds import NAMES, record_of
from tests.unit.fake_reader import FakeReader

PCI = "/sys/bus/pci/devices"


@pytest.mark.parametrize(
    ("instance", "product", "kind", "count"),
    [
        ("p5.48xlarge", "", "instance", 8), ("p5.4xlarge", "", "instance", 1), ("g5.12xlarge", "", "instance", 4),
        ("g5.2xlarge", "", "instance", 1), ("c7i.large", "", "", 0), ("Standard_ND96isr_H100_v5", "", "instance", 8),
        ("", "DGXH100", "system", 8), ("", "DGX Station A100 920-23487-2530-000", "system", 4), ("", "DGXA100 920-23687", "system", 8),
        ("", "PowerEdge XE9680/0KK0RG", "chassis", 8), ("", "PowerEdge R760xa", "", 0), ("", "p5.48xlarge", "", 0), ("", "", "", 0),
        ("BM.GPU.H100.8", "", "instance", 8), ("VM.GPU.A100.80G.1", "", "instance", 1), ("BM.Standard3.64", "", "", 0),
        ("Standard_ND128isr_NDR_GB200_v6", "", "instance", 4), ("Standard_ND128isr_GB300_v6", "", "instance", 4), ("g7e.12xlarge", "", "instance", 2),
        ("g7e.2xlarge", "", "instance", 1), ("g7.8xlarge", "", "instance", 2), ("g6f.xlarge", "", "", 0), ("", "ARS-121GL-NB2B-LCC", "chassis", 4),
    ],
)  # fmt: skip
def test_what_a_name_says(instance, product, kind, count):
    found = expected_of(instance, product)
    assert (found.kind, found.count) == (kind, count)


@pytest.mark.parametrize(
    ("sxm", "device", "nvswitches", "whole"),
    [
        (7, "0x2330", 4, 8), (8, "0x2330", 4, 0), (4, "0x2330", 0, 0), (3, "0x2330", 0, 4), (5, "0x2901", 0, 8), (1, "0x2330", 0, 0),
        (2, "0x2330", 0, 0), (1, "0x2330", 4, 8), (7, "0x20b2", 6, 8), (15, "0x1db8", 12, 16), (16, "0x1db8", 12, 0), (17, "0x1db8", 0, 0),
        (0, "0x2330", 4, 0), (8, "0x20b2", 5, 0), (4, "0x20b2", 0, 0), (3, "0x2901", 0, 8), (3, "0x2941", 0, 4), (4, "0x31c2", 0, 0),
    ],
)  # fmt: skip
def test_what_a_board_has(sxm, device, nvswitches, whole):
    assert board_of(sxm, platform_of(device), nvswitches) == whole


@pytest.mark.parametrize(
    ("registered", "count"),
    [
        (["GPU-a", "GPU-b"], 2), (["GPU-a::0", "GPU-a::1", "GPU-b::0"], 2), (["MIG-a", "MIG-b"], 0), (["GPU-a", "MIG-b", 3], 1),
        (None, 0), ({"0": ["GPU-a"]}, 0),
    ],
)  # fmt: skip
def test_what_the_kubelet_knows(registered, count):
    assert (
        registered_in(json.dumps({"Data": {"RegisteredDevices": {"nvidia.com/gpu": registered}}}))
        == count
    )
    assert registered_in("[]") == 0


def test_record_keeps_of_two_files_what_is_read_and_no_more():
    instance = {
        "ds": {
            "meta_data": {
                "imds": {"compute": {"vmSize": "Standard_ND96asr_v4", "subscriptionId": "s3cret"}}
            }
        }
    }
    names = [f"GPU-{n}f0c-4a::{share}" for n in range(2) for share in range(3)] + ["MIG-7aa"]
    checkpoint = {
        "Data": {
            "PodDeviceEntries": [{"PodUID": "s3cret"}],
            "RegisteredDevices": {"nvidia.com/gpu": names},
        }
    }
    files = {
        INSTANCE_DATA: json.dumps(instance), "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": json.dumps(checkpoint),
        "/x/instance-data.json": "{",
    }  # fmt: skip
    recorder = RecordingReader(FakeReader(files))
    for path in files:
        recorder.read(path)
    kept = encode_record(recorder, share=False, tool_version="0.1.0")["files"]
    assert "s3cret" not in json.dumps(kept)
    assert type_in(kept[INSTANCE_DATA], "azure") == "Standard_ND96asr_v4"
    assert registered_in(kept["/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"]) == 2
    with pytest.raises(ValueError, match="is no JSON"):
        type_in(kept["/x/instance-data.json"], "azure")


def test_size_of_an_azure_machine():
    assert (
        type_in(
            json.dumps(
                {"ds": {"meta_data": {"imds": {"compute": {"vmSize": "Standard_ND96asr_v4"}}}}}
            ),
            "azure",
        )
        == "Standard_ND96asr_v4"
    )
    assert type_in("{}", "azure") == type_in('{"ds": []}', "azure") == ""
    with pytest.raises(ValueError, match="is no JSON"):
        type_in("{", "azure")


def test_accelerators_of_others_count_where_there_is_no_gpu_of_nvidia():
    files = {
        f"{PCI}/0000:05:00.0/class": "0x120000", f"{PCI}/0000:05:00.0/vendor": "0x1002", f"{PCI}/0000:15:00.0/class": "0x120000",
        f"{PCI}/0000:15:00.0/vendor": "0x1002", f"{PCI}/0000:02:00.0/class": "0x030000", f"{PCI}/0000:02:00.0/vendor": "0x1a03",
    }  # fmt: skip
    assert Facts(FakeReader(files)).gpu_count.present == 2


@pytest.mark.parametrize("driver", ["nvidia", "vfio-pci"])
def test_gpus_that_are_held_for_virtual_machines_are_there(driver):
    files = {
        f"{PCI}/0000:05:00.0/{name}": text
        for name, text in {"class": "0x030200", "vendor": "0x10de"}.items()
    }
    links = {f"{PCI}/0000:05:00.0/driver": f"../../../bus/pci/drivers/{driver}"}
    assert Facts(FakeReader(files, links=links)).gpu_count.present == 1


def test_card_for_the_screen_of_a_dgx_station_stands_in_for_no_gpu():
    board = {
        "class": "0x030200",
        "vendor": "0x10de",
        "device": "0x20b0",
        "subsystem_vendor": "0x10de",
        "subsystem_device": "0x144d",
    }
    screen = board | {"class": "0x030000", "device": "0x1fb0", "subsystem_device": "0x1485"}
    slots = {
        "0000:01:00.0": board,
        "0000:47:00.0": board,
        "0000:81:00.0": board,
        "0000:c1:00.0": screen,
    }
    files = {
        f"{PCI}/{slot}/{name}": text for slot, card in slots.items() for name, text in card.items()
    }
    assert Facts(FakeReader(files)).gpu_count.present == 3
    other = {
        name.replace("1485", "12db"): text.replace("1485", "12db") for name, text in files.items()
    }
    assert Facts(FakeReader(other)).gpu_count.present == 4


def test_bus_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="may not"):
        _ = Facts(FakeReader({}, unreadable={PCI: "may not"})).gpu_count.present


@pytest.mark.parametrize("kind", NAMES)
def test_no_kind_of_host_lacks_a_gpu(kind):
    count = Facts(record_of(kind)).gpu_count
    assert count.by_name.count in {0, count.present}
    assert (count.by_board, count.by_kubelet in {0, count.present}) == (0, True)


def test_shape_of_a_machine_of_oracle():
    told = json.dumps({"ds": {"shape": "BM.GPU.H100.8", "meta_data": {}}})
    assert (type_in(told, "oracle"), type_in(told, "azure")) == ("BM.GPU.H100.8", "")


def test_record_keeps_the_shape_of_a_machine_of_oracle_and_no_more():
    told = {
        "ds": {
            "shape": "BM.GPU.H100.8",
            "displayName": "s3cret",
            "metadata": {"ssh_authorized_keys": "s3cret"},
        }
    }
    recorder = RecordingReader(FakeReader({INSTANCE_DATA: json.dumps(told)}))
    recorder.read(INSTANCE_DATA)
    kept = encode_record(recorder, share=False, tool_version="0.1.0")["files"]
    assert json.loads(kept[INSTANCE_DATA]) == {"ds": {"shape": "BM.GPU.H100.8"}}
