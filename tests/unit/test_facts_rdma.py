"""Ports of RDMA devices and their siblings."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.rdma import rate_of, word_of
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
