"""An apply over ssh whose connection is cut, and one that is stopped: what stays is told, and one
undo takes it back.

A process is held with SIGSTOP as soon as its journal begins, so that what comes to it meanwhile
comes in the middle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fleet import tree
from tests.fleet.hosts import Fleet, Kind, processes
from tests.fleet.tree import USER

pytestmark = pytest.mark.fleet

WAIT_S = 60
PROGRAM = "/usr/local/bin/hosttune"
RULES = "/etc/hosttune/rules.d"
RULE = "kernel-site"
APPLY = f"sudo hosttune apply --yes --only {RULE}"
HEAD = f"id: {RULE}\ntitle: x\nrisk: low\ndisturbs: nothing\nsince: '0.1'\ngain: none\nwhy: x\nsources: [x]\nwant:\n"
# So many that a look every few microseconds finds the run in the middle of them.
KEYS = (
    "busy_poll", "busy_read", "dev_weight", "dev_weight_rx_bias", "dev_weight_tx_bias", "flow_limit_table_len",
    "max_skb_frags", "message_burst", "message_cost", "netdev_budget", "netdev_budget_usecs", "netdev_max_backlog",
    "optmem_max", "rmem_default", "rmem_max", "rps_sock_flow_entries", "somaxconn", "wmem_default", "wmem_max",
)  # fmt: skip
BEFORE, AFTER = 1000, 1001
MADE = 3  # of them, when it is held
NOTICE = "/run/motd.d/61-hosttune-run"
RUNS = "var/lib/hosttune/runs"


class Server:
    """A host with the program, a rule that changes many values, and a way in."""

    def __init__(self, fleet: Fleet, bundle: Path) -> None:
        (self.host,) = fleet.hosts
        fleet.inventory()  # writes the host's key
        rule = HEAD + "".join(f"  - sysctl: net.core.{key}\n    exactly: {AFTER}\n" for key in KEYS)
        self.host.put("/run/hosttune.pyz", bundle.read_bytes())
        self.host.put("/run/rule.yaml", rule.encode())
        self.host.shell(f"install -m 755 /run/hosttune.pyz {PROGRAM}; mkdir -p {RULES} /run/motd.d")
        self.host.shell(f"install -m 644 /run/rule.yaml {RULES}/{RULE}.yaml")
        key = ("-i", str(self.host.kind.tree / "key"), "-o", "IdentitiesOnly=yes")
        self._ssh = ("ssh", *key, "-o", f"UserKnownHostsFile={fleet.folder / 'known_hosts'}")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """An apply over ssh, held in the middle."""
        pipe = subprocess.PIPE
        line = (*self._ssh, *words, f"{USER}@{self.host.address}", APPLY)
        client = subprocess.Popen(
            line, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        runs = self.host.folder / "upper" / RUNS
        end = time.monotonic() + WAIT_S
        while not any(
            path.read_text().count('"done"') >= MADE
            for path in (runs.iterdir() if runs.is_dir() else ())
        ):
            assert time.monotonic() < end, client.communicate()[0]
        for pid in self.applying():
            os.kill(pid, signal.SIGSTOP)
        assert "finished" not in next(runs.iterdir()).read_text(), "it was over before it was held"
        return client

    def applying(self) -> Sequence[int]:
        """The processes of hosttune, without those of sudo."""
        return [
            pid
            for pid in processes(self.host.namespace)
            if _command(pid)[:1] == ["/usr/bin/python3"]
        ]

    def go_on(self) -> None:
        """Let it go on, with sudo, which stops with it."""
        for pid in processes(self.host.namespace):
            if "hosttune" in " ".join(_command(pid)):
                os.kill(pid, signal.SIGCONT)

    def wait(self) -> None:
        end = time.monotonic() + WAIT_S
        while self.applying():
            assert time.monotonic() < end
            time.sleep(0.05)

    def type(self, words: str) -> str:
        line = (*self._ssh, f"{USER}@{self.host.address}", f"sudo hosttune {words}")
        return subprocess.run(
            line, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
        ).stdout

    def statuses(self) -> list[str]:
        return [run["status"] for run in json.loads(self.type("history --format json"))["runs"]]

    def values(self) -> set[str]:
        return {self.host.read(f"/proc/sys/net/core/{key}").strip() for key in KEYS}


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


@pytest.fixture
def server(bundle: Path) -> Iterator[Server]:
    fleet = Fleet([Kind(tree.get())], {f"net/core/{key}": str(BEFORE) for key in KEYS})
    try:
        yield Server(fleet, bundle)
    finally:
        fleet.close()


@pytest.mark.parametrize("terminal", ["-tt", "-T"])
def test_apply_goes_on_when_its_connection_drops_and_the_next_login_is_told(
    server: Server, terminal: str
) -> None:
    client = server.start(terminal)
    client.kill()
    client.communicate()
    end = time.monotonic() + WAIT_S
    while any(
        "@" in " ".join(_command(pid)) for pid in processes(server.host.namespace)
    ):  # sshd of the session
        assert time.monotonic() < end
        time.sleep(0.05)
    server.go_on()
    server.wait()
    assert server.values() == {str(AFTER)}
    assert server.statuses() == ["finished"]
    assert "the connection was lost during apply" in server.host.read(NOTICE)
    (receipt,) = server.host.run("ls", "/var/lib/hosttune/receipts").split()
    assert receipt.removesuffix(".json") in server.host.read(NOTICE)


def test_ctrl_c_stops_between_two_changes_and_one_undo_takes_back_what_went_on(
    server: Server,
) -> None:
    client = server.start("-tt")
    assert client.stdin is not None
    client.stdin.write("\x03")
    client.stdin.flush()
    time.sleep(0.5)  # sshd hands it on
    server.go_on()
    out, _ = client.communicate(timeout=WAIT_S)
    assert "stopped by SIGINT" in out
    assert "Not begun" in out
    assert client.returncode == 130
    assert server.statuses() == ["interrupted"]
    assert server.values() == {str(BEFORE), str(AFTER)}
    server.type(f"apply --yes --only {RULE}")
    assert server.values() == {str(AFTER)}
    told = server.type("undo --yes")
    assert f"all {len(KEYS) + 1} changes are undone" in told
    assert server.values() == {str(BEFORE)}
    assert "failed" not in server.type("history")
