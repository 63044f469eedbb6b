"""Rails: what GPU each is near, and how those on Ethernet are set up beside their kin."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.network.rails import lossless_of, most_common
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

CLASS = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
SWITCH = "/sys/devices/pci0000:{n}0/0000:{n}0:01.0/0000:{n}1:00.0"  # a root port, and the upper port of a switch
PFC = "pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:{three} 4:off 5:off 6:off 7:off\n"
DSCP = "dscp-prio CS3:3 CS6:6\n"


def gpu(number, switch):
    slot = f"0000:{number}a:00.0"
    place = f"{SWITCH.format(n=switch)}/0000:{switch}2:00.0/{slot}"
    files = {
        f"{place}/vendor": "0x10de\n",
        f"{place}/device": "0x2330\n",
        f"{place}/class": "0x030200\n",
    }
    return files, {f"{PCI}/{slot}": place}


def card(number, switch, mtu=9000, layer="Ethernet", **more):
    """An RDMA device with one port, below a switch."""
    name, interface, place = (
        f"mlx5_{number}",
        f"eth{number}",
        f"{SWITCH.format(n=switch)}/0000:{switch}3:00.0/0000:{number}e:00.0",
    )
    port = f"{CLASS}/{name}/ports/1"
    files = {
        f"{place}/device": "0x1021\n", f"{place}/net/{interface}/mtu": f"{mtu}\n", f"{port}/state": "4: ACTIVE\n",
        f"{port}/phys_state": "5: LinkUp\n", f"{port}/rate": "400 Gb/sec (4X NDR)\n", f"{port}/link_layer": f"{layer}\n",
        f"{port}/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001\n", f"{port}/gid_attrs/types/0": "RoCE v2\n",
        f"{port}/gids/1": f"0000:0000:0000:0000:0000:ffff:0a0{number}:0001\n", f"{port}/gid_attrs/types/1": "RoCE v2\n",
        f"/sys/class/net/{interface}/mtu": f"{mtu}\n",
    }  # fmt: skip
    return files | more.get("files", {}), {f"{CLASS}/{name}/device": place}


def dcb(number, three="on", app=DSCP):
    return {
        ("dcb", "pfc", "show", "dev", f"eth{number}", "prio-pfc"): PFC.format(three=three) if isinstance(three, str) else three,
        ("dcb", "app", "show", "dev", f"eth{number}"): app,
    }  # fmt: skip


def rails(*things, queries=None, **more):
    files = {path: text for one, _ in things for path, text in one.items()}
    links = {path: text for _, one in things for path, text in one.items()}
    answers = {**dcb(1), **dcb(2), **dcb(3), **(queries or {})}
    return Facts(FakeReader(files, links=links, queries=answers, **more)).rails


def test_gpu_is_near_the_card_below_its_switch():
    found = rails(gpu(4, 1), card(1, 1), gpu(5, 2), card(2, 2), gpu(6, 3))
    assert [(one.slot, one.devices) for one in found.gpus] == [
        ("0000:4a:00.0", ("mlx5_1",)), ("0000:5a:00.0", ("mlx5_2",)), ("0000:6a:00.0", ()),
    ]  # fmt: skip
    assert found.most_gpus_have_one


def test_root_port_in_common_is_no_switch():
    files, _ = card(1, 1)
    beside = {f"{CLASS}/mlx5_1/device": "/sys/devices/pci0000:10/0000:10:01.0/0000:1e:00.0"}
    place = {"/sys/devices/pci0000:10/0000:10:01.0/0000:1e:00.0/device": "0x1021\n"}
    found = rails(gpu(4, 1), (files | place, beside))
    assert [one.devices for one in found.gpus] == [()]
    assert not found.most_gpus_have_one


def test_place_that_cannot_be_read_makes_no_gpu_one_without_a_card():
    unreadable = {f"{CLASS}/mlx5_1/device": "no way"}
    found = rails(gpu(4, 1), card(1, 1), gpu(5, 2), card(2, 2), unreadable=unreadable)
    with pytest.raises(UnknownFact):
        _ = found.gpus


def test_soft_roce_has_no_place_and_is_near_nothing():
    found = rails(gpu(4, 1), card(1, 1), ({f"{CLASS}/rxe0/node_type": "1: CA\n"}, {}))
    assert [one.devices for one in found.gpus] == [("mlx5_1",)]


def test_without_rdma_no_gpu_is_looked_at():
    assert rails(gpu(4, 1)).gpus == ()


def near(**odd):
    """Three rails, each below the switch of a GPU, the third of which is set up as `odd` says."""
    cards = [
        card(1, 1),
        card(2, 2),
        card(3, 3, mtu=odd.get("mtu", 9000), files=odd.get("files", {})),
    ]
    found = rails(gpu(4, 1), gpu(5, 2), gpu(6, 3), *cards, queries=odd.get("queries"))
    return {one.name: one for one in found.roce}["mlx5_3/1"]


def test_rail_like_its_kin():
    rail = near()
    assert (rail.interface, rail.mtu, rail.most_mtu, rail.has_address, rail.odd) == (
        "eth3",
        9000,
        9000,
        True,
        (),
    )
    assert (rail.lossless, rail.trust, rail.ecn, rail.traffic_class) == (
        "3",
        "dscp",
        "not told",
        "not told",
    )


def test_rail_that_differs_says_in_what():
    rail = near(mtu=1500, queries=dcb(3, "off", "\n"))
    assert (rail.mtu, rail.most_mtu) == (1500, 9000)
    assert rail.odd == ("lossless priorities none instead of 3", "trust pcp instead of dscp")


def test_what_mlnx_ofed_tells():
    ecn = "/sys/class/net/eth3/ecn"
    rail = near(files={
        f"{ecn}/roce_np/enable/3": "1\n", f"{ecn}/roce_np/enable/4": "0\n", f"{ecn}/roce_rp/enable/3": "1\n",
        f"{CLASS}/mlx5_3/tc/1/traffic_class": "Global tclass=106\n",
    })  # fmt: skip
    assert (rail.ecn, rail.traffic_class) == ("np 3 rp 3", "Global tclass=106")
    assert rail.odd == (
        "ECN np 3 rp 3 instead of not told",
        "traffic class Global tclass=106 instead of not told",
    )


def test_link_local_address_and_roce_v1_reach_nobody():
    port = f"{CLASS}/mlx5_3/ports/1"
    rail = near(files={f"{port}/gid_attrs/types/1": "IB/RoCE v1\n"})
    assert (rail.has_address, rail.most_have_address) == (False, True)
    many = {
        f"{port}/gids/{number}": "0000:0000:0000:0000:0000:0000:0000:0000\n"
        for number in range(1, 12)
    }
    assert not near(files=many).has_address


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Unreadable("dcb did not end"), "did not end"),
        (Completed(1, b"", b"Permission denied\n"), "dcb: Permission denied"),
        (Completed(0, b"nothing of the kind\n", b""), "shows no priorities"),
    ],
)
def test_settings_that_dcb_does_not_tell_are_unknown(answer, said):
    rail = near(queries=dcb(3, answer))
    with pytest.raises(UnknownFact, match=said):
        _ = rail.lossless
    with pytest.raises(UnknownFact, match=said):
        _ = rail.odd
    assert rail.mtu == 9000


def test_host_without_dcb_makes_nothing_unknown():
    rail = near(queries=dcb(3, ABSENT, ABSENT))
    assert rail.lossless == rail.trust == "not known: dcb is not installed"
    assert rail.mtu == 9000


def test_driver_that_knows_nothing_of_dcb_is_no_fault():
    refused = Completed(255, b"", b"RTNETLINK answers: Operation not supported\n")
    assert near(queries=dcb(3, refused, refused)).lossless == "not told"


def test_two_rails_that_are_near_no_gpu_may_be_of_two_networks():
    found = rails(gpu(4, 4), card(1, 1), card(2, 2, mtu=1500)).roce
    assert [one.most_mtu for one in found] == [0, 0]
    three = rails(gpu(4, 4), card(1, 1), card(2, 2, mtu=1500), card(3, 3)).roce
    assert [one.most_mtu for one in three] == [9000, 9000, 9000]


def test_ports_of_infiniband_and_virtual_functions_are_no_rails_of_roce():
    function = ({f"{SWITCH.format(n=2)}/0000:23:00.0/0000:2e:00.0/physfn/vendor": "0x15b3\n"}, {})
    assert rails(gpu(4, 4), card(1, 1, layer="InfiniBand"), card(2, 2), function).roce == ()


def test_most_common_of_equals_is_the_largest():
    assert (most_common([1500, 9000]), most_common([1, 1, 2]), most_common([])) == (9000, 1, None)


def test_priorities_of_dcb():
    assert (lossless_of(PFC.format(three="on")), lossless_of(PFC.format(three="off"))) == (
        "3",
        "none",
    )
    with pytest.raises(ValueError, match="shows no priorities"):
        lossless_of("x")
