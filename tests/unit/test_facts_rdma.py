"""Ports of RDMA devices and their siblings."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import get_raw
from hosttune.facts.network.rdma import lanes_of, rate_of, word_of
from hosttune.host.masking.secrets import is_secret_file
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

CLASS = "/sys/class/infiniband"


def port(
    name,
    state="4: ACTIVE",
    rate="400 Gb/sec (4X NDR)",
    layer="InfiniBand",
    model="0x1021",
    **counters,
):
    base = f"{CLASS}/{name}/ports/1"
    return {
        f"{CLASS}/{name}/device/device": f"{model}\n", f"{base}/state": f"{state}\n",
        f"{base}/phys_state": "5: LinkUp\n", f"{base}/rate": f"{rate}\n", f"{base}/link_layer": f"{layer}\n",
        **{f"{base}/counters/{key}": f"{value}\n" for key, value in counters.items()},
    }  # fmt: skip


def ports(*files):
    merged = {path: value for one in files for path, value in one.items()}
    return {one.name: one for one in Facts(FakeReader(merged)).rdma.ports}


@pytest.mark.parametrize(
    ("content", "word"), [("4: ACTIVE", "ACTIVE"), ("5: LinkUp", "LinkUp"), ("DOWN", "DOWN")]
)
def test_word_behind_the_number(content, word):
    assert word_of(content) == word


def test_rate_is_a_number_of_gigabits():
    assert (rate_of("400 Gb/sec (4X NDR)"), rate_of("2.5 Gb/sec (1X SDR)")) == (400.0, 2.5)
    with pytest.raises(ValueError, match="is no rate"):
        rate_of("fast")
    assert [
        lanes_of(one)
        for one in ("400 Gb/sec (4X NDR)", "100 Gb/sec (1X NDR)", "100 Gb/sec", "fast")
    ] == [
        4,
        1,
        0,
        0,
    ]


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


def test_link_with_one_lane_or_at_the_first_speed_is_stunted_on_infiniband_alone():
    seen = ports(
        port("mlx5_0", rate="100 Gb/sec (1X NDR)"), port("mlx5_1", rate="10 Gb/sec (4X SDR)"),
        port("mlx5_2", "1: DOWN", rate="10 Gb/sec (4X SDR)"), port("mlx5_3", rate="25 Gb/sec (1X EDR)", layer="Ethernet"),
        port("mlx5_4", rate="200 Gb/sec (2X NDR)"),
    )  # fmt: skip
    assert [name for name, one in seen.items() if one.is_stunted] == ["mlx5_0/1", "mlx5_1/1"]


DOWN = {"state": "1: DOWN", "rate": "10 Gb/sec (4X SDR)"}


def alone(
    phys="2: Polling",
    layer="InfiniBand",
    flags="0x1002",
    carriers="0",
    near=False,
    vm=False,
    breaks=0,
):
    """A port that is down, and all others of its kind with it, beside a GPU or below a root port of
    its own.
    """
    root, switch, gpu = "pci0000:15/0000:15:01.0", "0000:16:00.0", "0000:17:00.0"
    place = f"{root}/{switch}/0000:18:00.0" if near else "pci0000:40/0000:40:01.0/0000:41:00.0"
    files = port("mlx5_0", **DOWN, layer=layer, link_downed=breaks) | {
        f"{CLASS}/mlx5_0/ports/1/phys_state": f"{phys}\n"
    }
    files = {
        path.replace(f"{CLASS}/mlx5_0/device", f"/sys/devices/{place}"): text
        for path, text in files.items()
    }
    net = f"/sys/devices/{place}/net/ib0"
    files |= {f"{net}/flags": f"{flags}\n", f"{net}/carrier_up_count": f"{carriers}\n"}
    files |= {
        f"/sys/devices/{root}/{switch}/{gpu}/{name}": text
        for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"))
    }
    files["/proc/cpuinfo"] = "processor : 0\nflags : fpu" + (" hypervisor" if vm else "") + "\n"
    files["/proc/sys/kernel/arch"] = "x86_64\n"
    links = {
        f"/sys/bus/pci/devices/{gpu}": f"../../../devices/{root}/{switch}/{gpu}",
        f"{CLASS}/mlx5_0/device": f"../../../devices/{place}",
    }
    return Facts(FakeReader(files, links=links)).rdma.ports[0]


@pytest.mark.parametrize(
    ("what", "is_meant"),
    [
        ({}, False),  # a used card in a workstation
        ({"phys": "3: Disabled", "near": True}, False),  # never cabled
        ({"near": True}, True),  # a rail that looks for its switch
        ({"vm": True}, True),  # nobody gives a guest a port for nothing
        ({"flags": "0x1003"}, True),
        ({"phys": "3: Disabled", "carriers": "1"}, True),
        ({"phys": "3: Disabled", "breaks": 1}, True),
        (
            {"phys": "3: Disabled", "layer": "Ethernet", "flags": "0x1003"},
            False,
        ),  # what an installer switches on
        (
            {"phys": "3: Disabled", "layer": "Ethernet", "flags": "0x1002", "carriers": "2"},
            False,
        ),  # switched off
        ({"phys": "3: Disabled", "layer": "Ethernet", "flags": "0x1003", "carriers": "2"}, True),
        ({"phys": "3: Disabled", "layer": "Ethernet", "near": True}, False),
        ({"phys": "3: Disabled", "layer": "Ethernet", "near": True, "flags": "0x1003"}, True),
    ],
)
def test_port_of_a_kind_that_is_all_down_is_meant_where_something_tells(what, is_meant):
    assert alone(**what).is_meant is is_meant


def test_interface_whose_flags_are_no_number_is_not_taken_as_off():
    with pytest.raises(UnknownFact, match="flags"):
        _ = alone(flags="up").is_meant


def of_cards(*active, layer="InfiniBand", flags="0x1002", carriers="0"):
    """Whether port 0000:41:00.1 is meant, which is down, beside these that are active."""
    files, links = {}, {}
    for slot in ("0000:41:00.1", *active):
        place, name = f"/sys/devices/pci0000:40/0000:40:01.0/{slot}", f"mlx5_{len(links)}"
        own = port(name, layer=layer) if links else port(name, **DOWN, layer=layer)
        own |= {f"{CLASS}/{name}/device/net/e0/flags": f"{flags}\n"}
        own |= {f"{CLASS}/{name}/device/net/e0/carrier_up_count": f"{carriers}\n"}
        files |= {path.replace(f"{CLASS}/{name}/device", place): text for path, text in own.items()}
        links[f"{CLASS}/{name}/device"] = place
    files |= {"/proc/cpuinfo": "processor : 0\nflags : fpu\n", "/proc/sys/kernel/arch": "x86_64\n"}
    return Facts(FakeReader(files, links=links)).rdma.ports[0].is_meant


def test_second_port_of_cards_that_have_one_cable_each_is_not_meant():
    assert not of_cards("0000:41:00.0")
    assert not of_cards("0000:41:00.0", "0000:42:00.0")
    assert of_cards("0000:42:00.0")  # nothing is plugged into its own card
    assert of_cards("0000:41:00.0", "0000:42:00.0", "0000:42:00.1")  # of another card both are used
    assert of_cards("0000:41:00.0", flags="0x1003")
    assert of_cards("0000:41:00.0", carriers="1")


def test_rails_are_not_compared_with_the_cards_of_storage():
    place = "pci0000:15/0000:15:01.0/0000:16:00.0"
    gpu, rail = "0000:17:00.0", "0000:18:00.0"
    files = {
        path.replace(f"{CLASS}/mlx5_0/device", f"/sys/devices/{place}/{rail}"): text
        for path, text in (
            port("mlx5_0") | port("mlx5_1", rate="200 Gb/sec (4X HDR)") | port("mlx5_2", "1: DOWN")
        ).items()
    }
    files |= {
        f"/sys/devices/{place}/{gpu}/{name}": text
        for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"))
    }
    links = {
        f"/sys/bus/pci/devices/{gpu}": f"../../../devices/{place}/{gpu}",
        f"{CLASS}/mlx5_0/device": f"../../../devices/{place}/{rail}",
    }
    found = Facts(FakeReader(files, links=links)).rdma.ports
    assert [(one.is_near_gpu, one.sibling_gbps) for one in found] == [
        (True, 400),
        (False, 200),
        (False, 200),
    ]


def test_virtual_function_is_a_port_while_it_is_active():
    idle, used = port("mlx5_2", "1: DOWN", model="0x101e"), port("mlx5_3", model="0x101e")
    marks = {f"{CLASS}/{name}/device/physfn/vendor": "0x15b3" for name in ("mlx5_2", "mlx5_3")}
    found = Facts(FakeReader(port("mlx5_0") | idle | used | marks)).rdma.ports
    assert [(one.name, one.is_function) for one in found] == [
        ("mlx5_0/1", False),
        ("mlx5_3/1", True),
    ]
    hidden = {f"{CLASS}/mlx5_2/ports/1/state": Unreadable("no")}
    assert len(Facts(FakeReader(idle | marks | hidden)).rdma.ports) == 1


ROOT, SWITCH = "pci0000:15/0000:15:01.0", "0000:16:00.0"


def b200(device_id="0x2901", interface=True):
    """A GPU and a rail below one switch, and two ConnectX that stand before the NVSwitches, without
    interfaces.
    """
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
    assert (found.bridges, [one.name for one in found.ports]) == (
        ("mlx5_1",),
        ["mlx5_0/1", "mlx5_2/1"],
    )
    assert not any("counters" in path for path in read)
    assert [one.link_downed for one in found.ports] == [0, 0]
    assert any("mlx5_0/ports/1/counters" in path for path in read)
    assert not any("mlx5_1/ports" in path for path in read)


def test_cards_of_other_hosts_are_all_looked_at():
    found = Facts(b200("0x2330", interface=False)).rdma
    assert (found.bridges, len(found.ports)) == ((), 3)


IPOIB = "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c6:00.1/net/ib1"


@pytest.mark.parametrize(
    ("kind", "flags", "bridges"),
    [("32", "0x1002", 2), ("32", "0x1003", 1), ("1", "0x1002", 1), ("32", "down", 1)],
)
def test_card_before_the_nvswitches_may_have_an_interface_of_ipoib_that_is_off(
    kind, flags, bridges
):
    reader = b200()
    reader.files |= {f"{IPOIB}/type": f"{kind}\n", f"{IPOIB}/flags": f"{flags}\n"}
    assert len(Facts(reader).rdma.bridges) == bridges


def test_mark_of_nvidia_decides_which_cards_are_before_the_nvswitches():
    reader = b200()
    reader.files["/sys/devices/pci0000:c0/0000:c0:01.0/0000:c6:00.1/vpd"] = (
        b"\x82\x10\x00ConnectX SW_MNG\x90"
    )
    assert Facts(reader).rdma.bridges == ("mlx5_2",)


@pytest.mark.parametrize(
    ("reason", "is_known"),
    [("Invalid argument", True), ("Operation not supported", True), ("no", False)],
)
def test_counter_that_the_device_does_not_have_counts_nothing(reason, is_known):
    (one,) = Facts(
        FakeReader(
            port("mlx5_0") | {f"{CLASS}/mlx5_0/ports/1/counters/link_downed": Unreadable(reason)}
        )
    ).rdma.ports
    assert (get_raw(one, "link_downed") == 0) is is_known


def test_vital_product_data_with_its_serial_number_is_in_no_record():
    assert is_secret_file(f"{CLASS}/mlx5_0/device/vpd")
