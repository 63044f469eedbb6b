"""The whole catalogue as one `tune` task against playbooks of plain tasks that set the same values:
`python tests/benchmarks/fleet.py [HOSTS...] [--rounds N] [--site] [--before CHECKOUT] [--forms
WORD...]`, as root. A benchmark, not a test.

Plain tasks come in two forms: `write` sets the values and looks at nothing else; `full` first reads
what an audit reads, as far as Ansible has modules for it (setup, package_facts, service_facts,
mounts, fstab). With --site all set thirty-four sysctls of a site besides: hosttune by a rule in the
task, the others in their loop. Each form is played with pipelining and without (Ansible's default).
--before adds the `tune` of another checkout of hosttune, say of the last release.

The hosts are those of the fleet ring: sshd in network namespaces of this machine, so hosts and
controller share its cores. Each round boots new hosts for each form, in turn; each runs twice, so
that the second run finds nothing to do. Told are the seconds on the clock, and the processor's: of
the controller (ansible-playbook and its ssh) and of the hosts (sshd and all that runs below it);
`main` is what of the controller's is in the one process that goes from host to host, which no core
more makes faster (see rollout.py). The best of the rounds counts. After each form hosttune says
what it would change.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fleet import tree  # noqa: E402 - of this checkout
from tests.fleet.controller import Controller, core_for, environment, pythons  # noqa: E402
from tests.fleet.hosts import POLICY, Fleet, Kind, processes  # noqa: E402

COMMUNITY = "ansible>=14,<15"  # brings ansible.posix
FORKS = 20
LIMIT_S = 3600
SETTLE_S = 2
RUNS = ("changes", "nothing to change")
# Ansible's own process, at the end of the play; its children are not in it.
MAIN = """
import os, resource
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "main_process"
    CALLBACK_NEEDS_ENABLED = False
    def v2_playbook_on_stats(self, stats):
        used = resource.getrusage(resource.RUSAGE_SELF)
        with open(os.environ["HOSTTUNE_BENCHMARK_MAIN"], "w") as file:
            file.write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}")
"""
# What hosttune finds to do on these hosts with POLICY, and the two things of the catalogue that are
# done there already.
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
LIMITS = (
    "* soft nofile 65536\n* hard nofile 524288\nroot soft nofile 65536\nroot hard nofile 524288\n"
)
TMP = "mode=1777,nosuid,nodev,size=3G,nofail,x-systemd.before=local-fs.target"


def plain_tasks(limits: Path, sysctls: dict[str, int]) -> list[dict[str, Any]]:
    """As an operator writes them: a module for each kind of setting, a loop where one takes several
    values.
    """
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
        {
            "ansible.posix.mount": {
                "path": "/tmp",
                "src": "tmpfs",
                "fstype": "tmpfs",
                "opts": TMP,
                "state": "present",
            }
        },
        {"ansible.builtin.apt": {"name": ["procps", "util-linux"], "state": "present"}},
        {"ansible.builtin.systemd_service": {"name": "fstrim.timer", "enabled": True}},
    ]


READING: list[dict[str, Any]] = [
    {"ansible.builtin.setup": {}},
    {"ansible.builtin.package_facts": {}},
    {"ansible.builtin.service_facts": {}},
    {"ansible.builtin.slurp": {"src": "/etc/fstab"}},
    {"ansible.builtin.command": {"argv": ["findmnt", "--json"]}, "changed_when": False},
]


@dataclass(frozen=True)
class Cost:
    """Seconds, as far as nothing else is said."""

    clock: float
    controller: float
    main: float
    hosts: float
    memory: float  # MiB of the main process at most

    @property
    def processor(self) -> float:
        return self.controller + self.hosts

    def told(self, count: int) -> str:
        return (
            f"{self.clock:6.1f} s, processor {self.processor:6.2f} s: controller {self.controller:6.2f} s"
            f" ({1000 * self.controller / count:5.0f} ms a host, main {1000 * self.main / count:4.0f} ms,"
            f" {self.memory:.0f} MiB), hosts {1000 * self.hosts / count:5.0f} ms each"
        )


@dataclass(frozen=True)
class Side:
    """One form: how it is played on hosts of its own, with the collection of a checkout."""

    name: str
    tasks: list[dict[str, Any]]
    is_pipelined: bool
    checkout: Path = ROOT

    def cost(self, controller: Controller, group: Group, folder: Path) -> Cost:
        hosts, started, before = group.used(), time.perf_counter(), _of_children()
        play = {"hosts": "all", "gather_facts": False, "become": True, "tasks": self.tasks}
        play["environment"] = {
            "SYSTEMD_OFFLINE": "1"
        }  # systemd's programs are there, but none runs
        path = folder / "play.json"
        path.write_text(json.dumps([play]))
        env = {
            "ANSIBLE_COLLECTIONS_PATH": str(self.checkout / "playbooks/collections"),
            "ANSIBLE_PIPELINING": str(int(self.is_pipelined)),
            "ANSIBLE_CALLBACK_PLUGINS": str(folder / "callbacks"),
            "HOSTTUNE_BENCHMARK_MAIN": str(folder / "main"),
        }
        (folder / "callbacks").mkdir(exist_ok=True)
        (folder / "callbacks/main_process.py").write_text(MAIN)
        words = ("-i", str(folder / "inventory.yml"), str(path), "--forks", str(FORKS))
        done = controller.run("ansible-playbook", *words, env=env)
        clock = time.perf_counter() - started
        if done.returncode != 0:
            sys.exit(f"{self.name}: {done.stdout}{done.stderr}")
        mine = _of_children() - before + _end_masters(folder)
        time.sleep(SETTLE_S)  # until each sshd has ended its session
        main, memory = map(float, (folder / "main").read_text().split())
        return Cost(clock, mine, main, group.used() - hosts, memory)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Group:
    """A control group that the hosts run in: it knows the processor's seconds of all that ever ran
    there. What processes tell of their children lacks what nobody waits for, as sudo does not for
    the one that holds its terminal.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hosttune-benchmark-", dir=_control_groups()))
        for host in fleet.hosts:
            for pid in processes(host.namespace):
                with contextlib.suppress(
                    ProcessLookupError
                ):  # a program of its boot that has just ended
                    (self.folder / "cgroup.procs").write_text(str(pid))

    def used(self) -> float:
        told = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(told["usage_usec"]) / 1_000_000

    def close(self) -> None:
        """Once nothing runs there any more."""
        self.folder.rmdir()


def _control_groups() -> str:
    """Where the second version of control groups is mounted (cgroups(7))."""
    rows = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return next(row[4] for row in rows if row[row.index("-") + 1] == "cgroup2")


def _of_process(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf(
        "SC_CLK_TCK"
    )  # utime stime cutime cstime, proc_pid_stat(5)


def _end_masters(folder: Path) -> float:
    """End the ssh connections that Ansible keeps open; their seconds, which are in nobody's
    account.
    """
    used = 0.0
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes()
            if words.startswith(b"ssh: ") and str(folder).encode() in words and b"[mux]" in words:
                pid = int(entry.parent.name)
                used += _of_process(pid)
                os.kill(pid, signal.SIGTERM)
    return used


def measure(side: Side, count: int, programs: Path, bundle: Path) -> tuple[dict[str, Cost], str]:
    """The first run and the second on new hosts, and what hosttune would still change afterwards on
    the first host.
    """
    files = tree.get("bookworm", "systemd", "python3-apt", "dbus")
    fleet = Fleet([Kind(files)] * count)
    group = Group(fleet)
    try:
        with tempfile.TemporaryDirectory(
            prefix="htb-"
        ) as scratch:  # short: ssh's sockets lie below it
            folder = Path(scratch)
            (folder / "inventory.yml").write_text(fleet.inventory())
            controller = Controller(programs, folder / "inventory.yml", bundle, folder, LIMIT_S)
            runs = {name: side.cost(controller, group, folder) for name in RUNS}
            left = controller.ask("gpu01", "tune", "--check", policy=POLICY)["changes"]
            _end_masters(folder)
    finally:
        fleet.close()
        group.close()
    return runs, ", ".join(one["address"] for one in left) or "nothing"


def built(checkout: Path, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, str(checkout / "playbooks/packaging/pyz.py"), str(out)], check=False
    )
    if done.returncode != 0:
        sys.exit(f"{checkout}: no bundle")
    return out


def chosen(sides: list[Side], words: list[str]) -> list[Side]:
    return [side for side in sides if not words or side.name in words]


def forms(given: argparse.Namespace, scratch: Path) -> list[Side]:
    limits = scratch / "limits.conf.j2"
    limits.write_text(LIMITS)
    plain = plain_tasks(limits, SYSCTLS | (SITE if given.site else {}))
    extra: dict[str, Any] = (
        {"rules": [SITE_RULE], "select": [SITE_RULE["id"]]} if given.site else {}
    )
    checkouts = {"tune": ROOT} | ({"tune before": given.before} if given.before else {})
    tune = {
        name: [
            {
                "hosttune.hosttune.tune": {
                    "bundle": str(built(path, scratch / f"{name}.pyz")),
                    "policy": POLICY,
                    **extra,
                }
            }
        ]
        for name, path in checkouts.items()
    }
    return [
        Side(
            f"{name}, {'pipelined' if is_pipelined else 'default'}",
            tasks,
            is_pipelined,
            checkouts.get(name, ROOT),
        )
        for name, tasks in {**tune, "plain write": plain, "plain full": [*READING, *plain]}.items()
        for is_pipelined in (True, False)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hosts", nargs="*", type=int, default=[10])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--site", action="store_true")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument(
        "--forms",
        nargs="+",
        default=[],
        metavar="FORM",
        help='as they are printed: "tune, pipelined"',
    )
    given = parser.parse_args()
    python = pythons()[0]
    programs = environment(python, core_for(python), COMMUNITY)
    with tempfile.TemporaryDirectory(prefix="hosttune-benchmark-") as scratch:
        sides = chosen(forms(given, Path(scratch)), given.forms)
        print(
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, --forks {FORKS}, {given.rounds} rounds"
        )
        for count in given.hosts:
            best: dict[tuple[str, str], Cost] = {}
            for _ in range(given.rounds):
                for side in sides:
                    runs, left = measure(side, count, programs, Path(scratch) / "tune.pyz")
                    for run, cost in runs.items():
                        kept = best.get((side.name, run), cost)
                        best[side.name, run] = min(kept, cost, key=lambda one: one.processor)
                    print(
                        f"  {count} hosts, {side.name}: hosttune would still change: {left}",
                        flush=True,
                    )
            for run in RUNS:
                for side in sides:
                    print(
                        f"{count:4} hosts, {run:17} {side.name:24} {best[side.name, run].told(count)}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
