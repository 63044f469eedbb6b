"""Ports of RDMA devices and their siblings."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.network.rdma import rate_of, word_of
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

CLASS = "/sys/class/infiniband"


def port(name, state="4: ACTIVE", rate="400 Gb/sec (4X NDR)", layer="InfiniBand", model="0x1021", **counters):
    base = f"{CLASS}/{name}/ports/1"
    return {
        f"{CLASS}/{name}/device/device": f"{model}\n", f"{base}/state": f"{state}\n",
        f"{base}/phys_state": "5: LinkUp\n", f"{base}/rate": f"{rate}\n", f"{base}/link_layer": f"{layer}\n",
        **{f"{base}/counters/{key}": f"{value}\n" for key, value in counters.items()},
    }  # fmt: skip


def ports(*files):
    merged = {path: value for one in files for path, value in one.items()}
    return {one.name: one for one in Facts(FakeReader(merged)).rdma.ports}


@pytest.mark.parametrize(("content", "word"), [("4: ACTIVE", "ACTIVE"), ("5: LinkUp", "LinkUp"), ("DOWN", "DOWN")])
def test_word_behind_the_number(content, word):
    assert word_of(content) == word


def test_rate_is_a_number_of_gigabits():
    assert (rate_of("400 Gb/sec (4X NDR)"), rate_of("2.5 Gb/sec (1X SDR)")) == (400.0, 2.5)
    with pytest.raises(ValueError, match="is no rate"):
        rate_of("fast")


def test_ports_are_compared_with_active_ones_of_the_same_model_and_layer():
    seen = ports(
        port("mlx5_0"), port("mlx5_1", rate="200 Gb/sec (2X NDR)"), port("mlx5_2", "1: DOWN", "10 Gb/sec (4X SDR)"),
        port("mlx5_3", rate="200 Gb/sec (4X HDR)", layer="Ethernet"), port("mlx5_4", "1: DOWN", model="0x101b"),
    )  # fmt: skip
    assert {name: (one.is_active, one.rate_gbps, one.sibling_gbps) for name, one in seen.items()} == {
        "mlx5_0/1": (True, 400, 400), "mlx5_1/1": (True, 200, 400), "mlx5_2/1": (False, 10, 400),
        "mlx5_3/1": (True, 200, 200), "mlx5_4/1": (False, 400, 0),
    }  # fmt: skip


def test_counters_and_interfaces():
    device = f"{CLASS}/mlx5_0/device/net/eth2/mtu"
    seen = ports(port("mlx5_0", symbol_error=7, link_downed=3), {device: "9000\n"})["mlx5_0/1"]
    assert (seen.symbol_errors, seen.link_downed, seen.interfaces) == (7, 3, ("eth2",))
    plain = ports(port("rdmap0s6", layer="Unspecified"))["rdmap0s6/1"]
    assert (plain.symbol_errors, plain.link_downed, plain.interfaces) == (0, 0, ())


def test_port_whose_state_cannot_be_read_is_unknown_in_that_field_alone():
    seen = ports(port("mlx5_0"), {f"{CLASS}/mlx5_0/ports/1/state": Unreadable("no")})["mlx5_0/1"]
    assert seen.rate_gbps == 400
    with pytest.raises(UnknownFact):
        _ = seen.is_active


def test_host_without_rdma_has_no_ports():
    assert ports({}) == {}


ROOT, SWITCH = "pci0000:15/0000:15:01.0", "0000:16:00.0"


def b200(device_id="0x2901", interface=True):
    """A GPU and a rail below one switch, and two ConnectX that stand before the NVSwitches, without interfaces."""
    gpu = "0000:17:00.0"
    files = {
        f"/sys/devices/{ROOT}/{SWITCH}/{gpu}/{name}": text
        for name, text in (("vendor", "0x10de"), ("device", device_id), ("class", "0x030200"))
    }
    links = {f"/sys/bus/pci/devices/{gpu}": f"../../../devices/{ROOT}/{SWITCH}/{gpu}"}
    places = {
        "mlx5_0": f"{ROOT}/{SWITCH}/0000:18:00.0",
        "mlx5_1": "pci0000:c0/0000:c0:01.0/0000:c6:00.0",
        "mlx5_2": "pci0000:c0/0000:c0:01.0/0000:c6:00.1",
    }
    for name, place in places.items():
        files |= {
            path.replace(f"{CLASS}/{name}/device/", f"/sys/devices/{place}/"): text
            for path, text in port(name, "1: DOWN" if name != "mlx5_0" else "4: ACTIVE").items()
        }
        links |= {
            f"{CLASS}/{name}/device": f"../../../devices/{place}",
            f"/sys/devices/{place}/driver": "../../../../bus/pci/drivers/mlx5_core",
        }
    if interface:
        files["/sys/devices/pci0000:c0/0000:c0:01.0/0000:c6:00.1/net/ib1/mtu"] = "4092\n"
    return FakeReader(files, links=links)


def test_cards_before_the_nvswitches_are_no_rails_and_their_counters_are_left_alone():
    reader = b200()
    read: list[str] = []
    inner = reader.read
    reader.read = lambda path: read.append(path) or inner(path)
    found = Facts(reader).rdma
    assert (found.bridges, [one.name for one in found.ports]) == (("mlx5_1",), ["mlx5_0/1", "mlx5_2/1"])
    assert not any("counters" in path for path in read)
    assert [one.link_downed for one in found.ports] == [0, 0]
    assert any("mlx5_0/ports/1/counters" in path for path in read)
    assert not any("mlx5_1/ports" in path for path in read)


def test_cards_of_other_hosts_are_all_looked_at():
    found = Facts(b200("0x2330", interface=False)).rdma
    assert (found.bridges, len(found.ports)) == ((), 3)
