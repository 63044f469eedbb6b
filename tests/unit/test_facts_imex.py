"""nvidia-imex of an NVL rack: whether it runs, its version, and whether its list of nodes names
this host.
"""

from types import SimpleNamespace

import pytest

from hosttune.actions.record.shared import shared_text
from hosttune.facts import UnknownFact
from hosttune.facts.gpu.imex import (
    CONFIG,
    FIB_TRIE,
    IF_INET6,
    NODES,
    Imex,
    parse_addresses,
    parse_nodes,
)
from hosttune.facts.gpu.platforms import IMEX
from hosttune.facts.packages import Packages
from tests.unit.fake_reader import FakeReader
from tests.unit.growth import count_calls

GROUP = f"/sys/fs/cgroup/system.slice/{IMEX}/cgroup.procs"
TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.1.7
        /32 host LOCAL
     |-- 10.0.1.255
        /32 link BROADCAST
Local:
     |-- 10.0.1.7
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
"""
INET6 = """fd000000000000000000000000000007 02 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""
ROUTE = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\teth\n"
    "eth0\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)
PORT = "/sys/class/infiniband/mlx5_0/ports/1/gids/3"
GID = "0000:0000:0000:0000:0000:ffff:0a0a:0205\n"


def imex(
    files=(),
    unreadable=(),
    version="580.126.20-1",
    loaded="580.126.20",
    kubelet=False,
    device="0x2941",
    enabled=(IMEX,),
):
    facts = SimpleNamespace(
        gpus=SimpleNamespace(devices=(SimpleNamespace(device_id=device),)), driver=SimpleNamespace(loaded_version=loaded),
        packages=Packages({"nvidia-imex": (version, "install ok installed")} if version else {}),
        units=SimpleNamespace(enabled=frozenset(enabled)), managers=SimpleNamespace(kubelet=kubelet, gpu_operator=False),
        host=SimpleNamespace(hostname="tray05"),
    )  # fmt: skip
    return Imex.look(FakeReader(dict(files), unreadable=dict(unreadable)), facts)


def test_addresses_of_a_host_are_those_of_the_kernel_without_the_loopback():
    assert parse_addresses(TRIE, INET6) == {"10.0.1.7", "fd00::7"}
    assert parse_addresses("|-- x\n  /32 host LOCAL\n", "zz\n\n" + "z" * 32 + "\n") == frozenset()


def test_list_of_nodes_is_one_a_line():
    assert parse_nodes("# rack 3\n10.0.1.7\n\n 10.0.1.8 # tray 2\n") == ("10.0.1.7", "10.0.1.8")


@pytest.mark.parametrize(
    ("nodes", "files", "named"),
    [
        ("10.0.1.6\n10.0.1.7\n", {FIB_TRIE: TRIE}, True), ("10.0.1.6\n", {FIB_TRIE: TRIE}, False), ("tray05\n", {FIB_TRIE: TRIE}, True),
        ("fd00:0::7\n", {FIB_TRIE: TRIE, IF_INET6: INET6}, True),
        ("10.10.2.5\n", {PORT: GID, "/proc/net/route": ROUTE}, True), ("10.10.2.6\n", {PORT: GID, "/proc/net/route": ROUTE}, False),
        ("10.0.1.9\n", {"/proc/net/route": ROUTE}, None), ("10.10.2.6\n", {}, None), ("tray06\n", {FIB_TRIE: TRIE}, None),
    ],
)  # fmt: skip
def test_list_of_nodes_names_this_host_or_that_is_not_known(nodes, files, named):
    seen = imex({NODES: nodes, **files})
    if named is None:
        with pytest.raises(UnknownFact):
            _ = seen.names_this_host
    else:
        assert seen.names_this_host is named


def test_many_nodes_and_many_routes_are_compared_by_sets():
    routes = "".join(
        f"eth{n}\t{n % 250:02X}{n // 250:02X}A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
        for n in range(1000)
    )
    nodes = "".join(f"10.{n // 250}.{n % 250}.1\n" for n in range(4000))
    calls = count_calls(
        lambda: (
            imex({NODES: nodes, PORT: GID, "/proc/net/route": f"Iface\n{routes}"}).names_this_host
        )
    )
    assert calls < 150 * (4000 + 1000)


def test_list_of_nodes_is_where_the_settings_say():
    seen = imex(
        {
            CONFIG: "# IMEX_NODE_CONFIG_FILE=/x\nIMEX_NODE_CONFIG_FILE=/srv/nodes\n",
            "/srv/nodes": "10.0.1.7\n",
        }
    )
    assert (seen.nodes_file, seen.nodes) == ("/srv/nodes", ("10.0.1.7",))
    assert (imex().nodes_file, imex().nodes) == (NODES, ())


def test_processes_show_that_it_runs_where_systemd_does_not_answer():
    booted = {"/run/systemd/system/x": ""}
    assert imex({**booted, GROUP: "8836\n"}).state == "active"
    with pytest.raises(UnknownFact):
        _ = imex(booted).state


def test_list_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact):
        _ = imex(unreadable={NODES: "no permission"}).nodes


@pytest.mark.parametrize(
    ("version", "loaded", "odd"),
    [
        ("580.126.20-1", "580.126.20", ""),
        ("570.172.08-1", "580.126.20", "570.172.08"),
        ("", "580.126.20", ""),
        ("570.1-1", "", ""),
    ],
)
def test_version_has_to_be_that_of_the_loaded_driver(version, loaded, odd):
    seen = imex(version=version, loaded=loaded)
    assert (seen.odd_version, seen.is_installed) == (odd, bool(version))


@pytest.mark.parametrize(
    ("files", "kubelet", "per_job"),
    [
        ({}, False, False), ({}, True, True), ({"/etc/slurm/prolog.d/90-imex": "systemctl restart nvidia-imex\n"}, False, True),
        ({"/etc/slurm/prolog.d/10-tmp": "mkdir /tmp/x\n"}, False, False),
        ({"/etc/slurm/slurm.conf": "Prolog=/etc/slurm/p.sh\n", "/etc/slurm/p.sh": "systemctl start nvidia-imex\n"}, False, True),
        ({"/etc/slurm/slurm.conf": "SwitchType=switch/nvidia_imex\n"}, False, False),
    ],
)  # fmt: skip
def test_service_that_is_started_for_each_job(files, kubelet, per_job):
    assert imex(files, kubelet=kubelet).is_per_job is per_job


def test_only_racks_have_it():
    assert imex().is_of_rack
    assert not imex(device="0x2901").is_of_rack


@pytest.mark.parametrize(
    ("files", "enabled", "set_up"),
    [({}, (), False), ({NODES: "10.0.1.7\n"}, (), True), ({}, (IMEX,), True)],
)
def test_service_that_nothing_was_said_to_is_not_set_up(files, enabled, set_up):
    assert imex(files, enabled=enabled).is_set_up is set_up


def test_shared_record_keeps_the_list_without_its_comments():
    assert shared_text(NODES, "# rack 3 of Bob\n10.0.1.7\n") == "#\n10.0.1.7\n"
    assert (
        shared_text(CONFIG, "IMEX_NODE_CONFIG_FILE=/srv/nodes\n")
        == "IMEX_NODE_CONFIG_FILE=/srv/nodes\n"
    )
