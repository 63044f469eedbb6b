"""What a described machine's kernel shows about its network cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.hosts.machine import Machine

SETTINGS = {
    "core.rmem_max": "212992", "core.wmem_max": "212992", "ipv4.tcp_rmem": "4096\t131072\t6291456",
    "ipv4.tcp_wmem": "4096\t16384\t4194304", "ipv4.neigh.default.gc_thresh1": "128",
    "ipv4.neigh.default.gc_thresh2": "512", "ipv4.neigh.default.gc_thresh3": "1024", "ipv4.conf.all.arp_ignore": "0",
    "ipv4.conf.all.arp_announce": "0",
}  # fmt: skip
SPEEDS = {"h100-8x-2socket": {"eno1": 1000, "enp170s0f0np0": 100000}}  # Mb/s; of all others eth0
ROUTES = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def network_files(machine: Machine) -> dict[str, str]:
    speeds = SPEEDS.get(machine.name, {"eth0": -1 if machine.is_vm else 10000})
    files = {
        f"/proc/sys/net/{key.replace('.', '/')}": f"{value}\n" for key, value in SETTINGS.items()
    }
    files["/proc/net/route"] = ROUTES
    for number, (name, speed) in enumerate(speeds.items(), 1):
        base = f"/sys/class/net/{name}"
        files |= {
            f"{base}/operstate": "up\n",
            f"{base}/speed": f"{speed}\n",
            f"{base}/device/uevent": "",
        }
        files["/proc/net/route"] += (
            f"{name}\t00{number:02X}000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
        )
    files |= {
        "/sys/class/net/lo/operstate": "unknown\n",
        "/sys/class/net/docker0/operstate": "down\n",
    }
    for path in machine.files:
        if path.startswith("/sys/class/infiniband/") and path.endswith("/node_type"):
            files |= port_files(path.split("/")[4])
    return files


def port_files(device: str) -> dict[str, str]:
    """A port of InfiniBand that is up."""
    base = f"/sys/class/infiniband/{device}/ports/1"
    return {
        f"{base}/state": "4: ACTIVE\n", f"{base}/phys_state": "5: LinkUp\n", f"{base}/rate": "400 Gb/sec (4X NDR)\n",
        f"{base}/link_layer": "InfiniBand\n", f"{base}/counters/symbol_error": "0\n", f"{base}/counters/link_downed": "0\n",
    }  # fmt: skip
