"""The whole catalogue as one `tune` task against a playbook of plain tasks that sets the same values: `python
tests/benchmarks/fleet.py [HOSTS...] [--rounds N] [--site]`, as root. A benchmark, not a test; 10, 25 and 50 hosts by
default. With --site both set thirty sysctls of a site besides: hosttune by a rule in the task, the others in their loop.

The hosts are those of the fleet ring: sshd in network namespaces of this machine, so hosts and controller share its
cores. Each round boots new hosts for each of the two, in turn; each runs twice, so that the second run finds nothing to
do. Told are the seconds on the clock and those of the controller's processor (ansible-playbook with its ssh, not what
runs on the hosts); the best of the rounds counts. After the plain tasks, hosttune is asked what it would still change.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fleet import tree  # noqa: E402 - of this checkout
from tests.fleet.controller import Controller, core_for, environment, pythons  # noqa: E402
from tests.fleet.hosts import POLICY, Fleet, Kind  # noqa: E402
from tests.vm.image import cache_folder  # noqa: E402

COMMUNITY = "ansible>=14,<15"  # brings ansible.posix
FORKS = 20
LIMIT_S = 3600
# What hosttune finds to do on these hosts with POLICY, and the two things of the catalogue that are done there already.
SYSCTLS = {
    "vm.max_map_count": 1048576,
    "fs.inotify.max_user_instances": 8192,
    "fs.inotify.max_user_watches": 524288,
}
# Values of the network namespace, all other than the kernel's own.
SITE_OFF = ("accept_redirects", "secure_redirects", "send_redirects", "shared_media")
SITE_ON = (
    *("log_martians", "rp_filter", "arp_notify", "arp_accept", "arp_filter", "drop_gratuitous_arp"),
    *("drop_unicast_in_l2_multicast", "promote_secondaries", "proxy_arp_pvlan"),
    *("ignore_routes_with_linkdown", "src_valid_mark"),
)
SITE = {
    f"net.ipv4.conf.{interface}.{name}": int(name in SITE_ON)
    for interface in ("all", "lo")
    for name in (*SITE_OFF, *SITE_ON)
}
SITE_RULE = {
    "id": "site-network",
    "title": "Network settings of the site",
    "risk": "low",
    "disturbs": "nothing",
    "since": "0.1",
    "gain": "none in speed; the settings of the site",
    "why": "As many values as a site may have of its own.",
    "sources": ["https://docs.kernel.org/networking/ip-sysctl.html"],
    "want": [{"sysctl": name, "exactly": value} for name, value in SITE.items()],
}
LIMITS = "* soft nofile 65536\n* hard nofile 524288\nroot soft nofile 65536\nroot hard nofile 524288\n"
TMP = "mode=1777,nosuid,nodev,size=3G,nofail,x-systemd.before=local-fs.target"


def plain_tasks(limits: Path, sysctls: dict[str, int]) -> list[dict[str, Any]]:
    """As an operator writes them: a module for each kind of setting, a loop where one takes several values."""
    return [
        {
            "ansible.posix.sysctl": {
                "name": "{{ item.key }}",
                "value": "{{ item.value }}",
                "sysctl_file": "/etc/sysctl.d/60-site.conf",
                "sysctl_set": True,
            },
            "loop": [{"key": name, "value": str(value)} for name, value in sysctls.items()],
        },
        {
            "ansible.builtin.template": {
                "src": str(limits),
                "dest": "/etc/security/limits.d/60-site.conf",
                "mode": "0644",
            }
        },
        {
            "ansible.posix.mount": {
                "path": "/data",
                "src": "/dev/vdb",
                "fstype": "ext4",
                "opts": "defaults,noatime",
                "passno": "2",
                "state": "mounted",
            }
        },
        {"ansible.posix.mount": {"path": "/tmp", "src": "tmpfs", "fstype": "tmpfs", "opts": TMP, "state": "present"}},
        {"ansible.builtin.apt": {"name": ["procps", "util-linux"], "state": "present"}},
        {"ansible.builtin.systemd_service": {"name": "fstrim.timer", "enabled": True}},
    ]


class Side:
    """One of the two: how it is played on hosts of its own."""

    def __init__(self, name: str, tasks: list[dict[str, Any]]) -> None:
        self.name = name
        environment = {"SYSTEMD_OFFLINE": "1"}  # systemd's programs are there, but none runs
        self._play = [
            {"hosts": "all", "gather_facts": False, "become": True, "environment": environment, "tasks": tasks}
        ]

    def seconds(self, controller: Controller) -> tuple[float, float]:
        """On the clock, and of the controller's processor."""
        before, started = _cpu(), time.perf_counter()
        done = controller.play(self._play, "--forks", str(FORKS))
        if done.status != 0:
            sys.exit(f"{self.name}: {done.output}")
        return time.perf_counter() - started, _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(side: Side, count: int, programs: Path, tune: dict[str, Any]) -> tuple[dict[str, tuple[float, float]], str]:
    """The first run and the second on new hosts, and what hosttune would still change afterwards on the first host."""
    files = tree.get(cache_folder(), "bookworm", "systemd", "python3-apt", "dbus")
    fleet = Fleet([Kind(files)] * count)
    try:
        with tempfile.TemporaryDirectory(prefix="hosttune-benchmark-") as folder:
            inventory = Path(folder) / "inventory.yml"
            inventory.write_text(fleet.inventory())
            controller = Controller(programs, inventory, Path(tune["bundle"]), Path(folder), LIMIT_S)
            runs = {name: side.seconds(controller) for name in ("changes", "no change")}
            left = controller.ask("gpu01", "tune", "--check", **tune)["changes"]
    finally:
        fleet.close()
    return runs, ", ".join(one["address"] for one in left) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hosts", nargs="*", type=int, default=[10, 25, 50])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--site", action="store_true")
    given = parser.parse_args()
    python = pythons()[0]
    programs = environment(cache_folder(), python, core_for(python), COMMUNITY)
    with tempfile.TemporaryDirectory(prefix="hosttune-benchmark-") as scratch:
        bundle, limits = Path(scratch) / "hosttune.pyz", Path(scratch) / "limits.conf.j2"
        os.spawnv(os.P_WAIT, sys.executable, [sys.executable, str(ROOT / "playbooks/packaging/pyz.py"), str(bundle)])
        limits.write_text(LIMITS)
        tune: dict[str, Any] = {"bundle": str(bundle), "policy": POLICY}
        if given.site:
            tune |= {"rules": [SITE_RULE], "select": [SITE_RULE["id"]]}
        sides = (
            Side("plain tasks", plain_tasks(limits, SYSCTLS | (SITE if given.site else {}))),
            Side("tune", [{"hosttune.hosttune.tune": tune}]),
        )
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, --forks {FORKS}, {given.rounds} rounds")
        for count in given.hosts:
            best: dict[tuple[str, str], tuple[float, float]] = {}
            for _ in range(given.rounds):
                for side in sides:
                    runs, left = measure(side, count, programs, tune)
                    for run, seconds in runs.items():
                        best[side.name, run] = min(best.get((side.name, run), seconds), seconds)
                    print(f"  {count} hosts, {side.name}: hosttune would still change: {left}", flush=True)
            for run in ("changes", "no change"):
                (plain, plain_cpu), (tuned, tuned_cpu) = best["plain tasks", run], best["tune", run]
                print(
                    f"{count:4} hosts, {run:9}: plain tasks {plain:6.1f} s ({plain_cpu:5.1f} s of the controller),"
                    f" tune {tuned:6.1f} s ({tuned_cpu:5.1f} s): {plain / tuned:4.1f} and {plain_cpu / tuned_cpu:4.1f} times",
                    flush=True,
                )


if __name__ == "__main__":
    main()
