"""What files of the system tell NCCL."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.network.nccl import fits_none, parse_prefixes, takes_port
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.growth import count_calls

HOST = {
    "/sys/class/net/eth0/operstate": "up\n",
    "/sys/class/infiniband/mlx5_0/node_type": "1: CA\n",
}


def nccl(*lines, **files):
    conf = "".join(f"{line}\n" for line in lines)
    return Facts(FakeReader({**HOST, "/etc/nccl.conf": conf, **files})).nccl


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("eth", ("", False, ("eth",))), ("^docker, lo", ("^", False, ("docker", "lo"))),
        ("=eth0,eth1", ("", True, ("eth0", "eth1"))), ("^=mlx5_3", ("^", True, ("mlx5_3",))),
        ("mlx5_0:1,mlx5_1:2", ("", False, ("mlx5_0", "mlx5_1"))), ("", ("", False, ())),
    ],
)  # fmt: skip
def test_list_of_names_is_taken_apart(value, parts):
    assert parse_prefixes(value) == parts


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("eth", False),
        ("=eth", True),
        ("bond0", True),
        ("bond0,eth0", False),
        ("^bond0", False),
        ("", False),
    ],
)
def test_list_that_fits_no_name(value, verdict):
    assert fits_none(value, ("eth0", "lo")) is verdict


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("NCCL_P2P_DISABLE=1", "p2p_disabled"), ("NCCL_P2P_LEVEL=LOC", "p2p_disabled"),
        ("NCCL_IB_DISABLE=1", "rdma_disabled"), ("NCCL_NET=Socket", "rdma_disabled"),
        ("NCCL_SHM_DISABLE=1", "shm_disabled"), ("NCCL_PROTO=LL", "forced"), ("NCCL_DEBUG=trace", "traced"),
        ("NCCL_SOCKET_IFNAME=ens3", "absent_interfaces"), ("NCCL_IB_HCA=mlx4", "absent_devices"),
        ("NCCL_TOPO_FILE=/opt/t.xml", "absent_files"),
    ],
)  # fmt: skip
def test_setting_that_slows_or_stops_jobs_is_named(line, name):
    seen = nccl(line)
    judged = [
        one
        for one in seen.__slots__
        if one not in {"all", "has_topology", "good_gid"} and getattr(seen, one)
    ]
    assert (judged, getattr(seen, name)) == ([name], (f"{line} (/etc/nccl.conf:1)",))


@pytest.mark.parametrize(
    "line",
    [
        "NCCL_P2P_DISABLE=0", "NCCL_P2P_LEVEL=SYS", "NCCL_NET=IB", "NCCL_ALGO=", "NCCL_DEBUG=INFO",
        "NCCL_SOCKET_IFNAME=^docker0,lo", "NCCL_SOCKET_IFNAME=$IF", "NCCL_IB_HCA==mlx5_0:1",
        "NCCL_TOPO_FILE=$HOME/t.xml", "NCCL_IB_PCI_RELAXED_ORDERING=1",
    ],
)  # fmt: skip
def test_setting_that_fits_is_left_alone(line):
    seen = nccl(line)
    assert [
        one
        for one in seen.__slots__
        if one not in {"all", "has_topology", "good_gid"} and getattr(seen, one)
    ] == []


def test_topology_file_that_is_there():
    seen = nccl("NCCL_TOPO_FILE=/opt/t.xml", **{"/opt/t.xml": ""})
    assert (seen.has_topology, seen.absent_files) == (True, ())


def test_file_that_cannot_be_read_makes_all_unknown():
    seen = Facts(FakeReader({**HOST, "/etc/nccl.conf": Unreadable("no")})).nccl
    for name in ("all", "p2p_disabled", "has_topology"):
        with pytest.raises(UnknownFact):
            getattr(seen, name)


def test_interfaces_that_are_not_known_leave_the_rest():
    seen = Facts(
        FakeReader({"/etc/nccl.conf": "NCCL_SOCKET_IFNAME=eth0\nNCCL_SHM_DISABLE=1\n"})
    ).nccl
    assert len(seen.shm_disabled) == 1
    with pytest.raises(UnknownFact):
        _ = seen.absent_interfaces


EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
V4 = "0000:0000:0000:0000:0000:ffff:0a0a:0a0a"


def roce(device, *gids):
    folder = f"/sys/class/infiniband/{device}"
    port = f"{folder}/ports/1"
    return {
        f"{folder}/node_type": "1: CA\n", f"{folder}/device/net/eth0/mtu": "9000\n", f"{folder}/device/device": "0x1021\n",
        f"{port}/link_layer": "Ethernet\n", f"{port}/state": "4: ACTIVE\n", f"{port}/phys_state": "5: LinkUp\n",
        f"{port}/rate": "400 Gb/sec (4X NDR)\n",
        **{f"{port}/gids/{number}": f"{gid}\n" for number, gid in enumerate(gids)},
        **{f"{port}/gid_attrs/types/{number}": "RoCE v2\n" for number, gid in enumerate(gids) if gid != EMPTY},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "empty"),
    [
        (("NCCL_IB_GID_INDEX=1",), ("NCCL_IB_GID_INDEX=1 (/etc/nccl.conf:1) on mlx5_0/1",)),
        (("NCCL_IB_GID_INDEX=9",), ("NCCL_IB_GID_INDEX=9 (/etc/nccl.conf:1) on mlx5_0/1, mlx5_1/1",)),
        (("NCCL_IB_GID_INDEX=2",), ()), (("NCCL_IB_GID_INDEX=-1",), ()), (("NCCL_IB_GID_INDEX=$INDEX",), ()),
        (("NCCL_IB_GID_INDEX=1", "NCCL_IB_HCA==mlx5_1"), ()), (("NCCL_IB_GID_INDEX=1", "NCCL_IB_HCA=^mlx5_0"), ()),
        (("NCCL_IB_GID_INDEX=1", "NCCL_IB_HCA=mlx5_0:2"), ()),
    ],
)  # fmt: skip
def test_entry_of_the_table_of_addresses_has_to_hold_one_on_each_card_in_use(lines, empty):
    seen = nccl(*lines, **roce("mlx5_0", V4, EMPTY, V4), **roce("mlx5_1", EMPTY, V4, V4))
    assert seen.empty_gids == empty
    if empty:
        assert seen.good_gid == 2


def test_entry_that_cannot_be_read_is_unknown():
    reader = FakeReader(
        {**HOST, "/etc/nccl.conf": "NCCL_IB_GID_INDEX=1\n", **roce("mlx5_0", V4, V4)},
        unreadable={"/sys/class/infiniband/mlx5_0/ports/1/gids/1": "no permission"},
    )
    with pytest.raises(UnknownFact):
        _ = Facts(reader).nccl.empty_gids


@pytest.mark.parametrize(
    ("value", "taken"),
    [("mlx5", True), ("=mlx5", False), ("^mlx5_0", False), ("mlx5_0:1", True), ("mlx5_0:2", False), ("^mlx5_0:2", True), ("", True)],
)  # fmt: skip
def test_card_that_a_list_takes(value, taken):
    assert takes_port(value, "mlx5_0/1") is taken


def test_time_grows_linearly_with_what_is_set():
    def count(size):
        lines = [one for n in range(size) for one in ("NCCL_IB_HCA=mlx5", f"NCCL_IB_GID_INDEX={n}")]
        facts = Facts(
            FakeReader(
                {
                    **HOST,
                    **roce("mlx5_0", V4),
                    "/etc/nccl.conf": "".join(f"{one}\n" for one in lines),
                }
            )
        )
        return count_calls(lambda: facts.nccl.empty_gids)

    assert count(160) < 2.5 * count(80)
