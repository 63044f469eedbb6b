"""What files of the system tell NCCL."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.network.nccl import fits_none, prefixes
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

HOST = {"/sys/class/net/eth0/operstate": "up\n", "/sys/class/infiniband/mlx5_0/node_type": "1: CA\n"}


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
    assert prefixes(value) == parts


@pytest.mark.parametrize(
    ("value", "verdict"),
    [("eth", False), ("=eth", True), ("bond0", True), ("bond0,eth0", False), ("^bond0", False), ("", False)],
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
    judged = [one for one in seen.__slots__ if one not in {"all", "has_topology"} and getattr(seen, one)]
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
    assert [one for one in seen.__slots__ if one not in {"all", "has_topology"} and getattr(seen, one)] == []


def test_topology_file_that_is_there():
    seen = nccl("NCCL_TOPO_FILE=/opt/t.xml", **{"/opt/t.xml": ""})
    assert (seen.has_topology, seen.absent_files) == (True, ())


def test_file_that_cannot_be_read_makes_all_unknown():
    seen = Facts(FakeReader({**HOST, "/etc/nccl.conf": Unreadable("no")})).nccl
    for name in ("all", "p2p_disabled", "has_topology"):
        with pytest.raises(UnknownFact):
            getattr(seen, name)


def test_interfaces_that_are_not_known_leave_the_rest():
    seen = Facts(FakeReader({"/etc/nccl.conf": "NCCL_SOCKET_IFNAME=eth0\nNCCL_SHM_DISABLE=1\n"})).nccl
    assert len(seen.shm_disabled) == 1
    with pytest.raises(UnknownFact):
        _ = seen.absent_interfaces
