"""`hosttune watch` where it has what this machine lacks: systemd, control groups of version 2,
memory limits and swap.

The guest has no GPU, so all of it is judged only by the host.
"""

import json
from typing import Any

import pytest

from tests.vm.guest import Guest

pytestmark = pytest.mark.vm

# Touches each page of 128 MiB, again and again, until the time is over. The limit is the job's own,
# because a whole guest that swaps stands still under software emulation.
LIMITED = (
    "systemd-run",
    "--scope",
    "--quiet",
    "--collect",
    "-p",
    "MemoryMax=72M",
    "-p",
    "MemorySwapMax=200M",
)
THRASH = b"""\
import sys, time
held = bytearray(128 << 20)
until, value = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    value = (value + 1) % 256
    for start in range(0, len(held), 1 << 20):
        part = memoryview(held)[start : start + (1 << 20) : 4096]
        part[:] = bytes([value]) * len(part)
        if time.monotonic() > until:
            break
sys.exit(7)
"""
# Says where it is, and keeps twice as many processes busy as there are CPUs.
BURN = b"""\
import multiprocessing, sys, time
print(open("/proc/self/cgroup").read().strip(), flush=True)
def burn(until):
    while time.monotonic() < until:
        sum(range(10000))
if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1])
    workers = [multiprocessing.Process(target=burn, args=(until,)) for _ in range(4)]
    for one in workers: one.start()
    for one in workers: one.join()
"""


@pytest.fixture(scope="module")
def ready(guest: Guest) -> Guest:
    """The guest, with the jobs in it."""
    guest.write("/root/thrash.py", THRASH)
    guest.write("/root/burn.py", BURN)
    return guest


def watched(guest: Guest, *words: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, what the command printed, and the JSON of the verdict."""
    watch = [
        "hosttune",
        "watch",
        "--no-live",
        "--format",
        "json",
        "--output",
        "/root/seen.json",
        "--warm-up",
        "3",
    ]
    answer = guest.run([*watch, *words])
    assert "Traceback" not in answer.stderr, answer.stderr
    return answer.rc, answer.stdout, json.loads(guest.read("/root/seen.json"))


def test_watch_job_that_swaps_is_memory(ready: Guest) -> None:
    status, _, seen = watched(ready, "--", *LIMITED, "python3", "/root/thrash.py", "30")
    assert status == 7
    verdict = seen["verdict"]
    assert (verdict["outcome"], verdict["state"], verdict["confidence"]) == (
        "one",
        "MEM",
        "high",
    ), seen
    assert seen["means"]["memory_some"] > 10
    assert seen["means"]["swapped_in_pages"] > 100
    assert any(
        "raise its memory limit: /sys/fs/cgroup/" in advice["text"] for advice in seen["advice"]
    ), seen["advice"]


def test_watch_in_a_scope_of_its_own_is_sure(ready: Guest) -> None:
    """The pressure is that of the job's own control group, which is gone afterwards."""
    status, stdout, seen = watched(ready, "--scope", "--", "python3", "/root/burn.py", "30")
    assert status == 0
    assert stdout.strip().endswith(".scope")
    verdict = seen["verdict"]
    assert (verdict["outcome"], verdict["state"], verdict["confidence"]) == (
        "one",
        "CPU",
        "high",
    ), seen
    assert scopes(ready) == ""


def test_watch_in_a_scope_beside_others_is_foreign(ready: Guest) -> None:
    """A job of one thread that gets a part of a CPU, because others hold them all."""
    ready.run(["systemd-run", "--unit=hogs", "--quiet", "python3", "/root/burn.py", "3600"])
    job = (
        "import time\nend = time.monotonic() + 25\nwhile time.monotonic() < end: sum(range(10000))"
    )
    status, _, seen = watched(ready, "--scope", "--", "python3", "-c", job)
    ready.run(["systemctl", "stop", "hogs"])
    assert status == 0
    assert (seen["verdict"]["outcome"], seen["verdict"]["state"]) == ("one", "FOREIGN"), seen
    assert any("python" in name for name in seen["others_core_s"])


def test_watch_with_a_scope_passes_a_signal_on(ready: Guest) -> None:
    """The command's status is told as a shell would, and nothing is left."""
    line = (
        "hosttune watch --no-live --scope -- sleep 1234 & watch=$!; "
        "until pgrep -f '^(/usr/bin/)?sleep 1234' >/dev/null; do sleep 0.2; done; kill -TERM $watch; wait $watch; echo $?"
    )
    assert ready.run(["sh", "-c", line]).stdout.strip() == "143"
    assert ready.ask_any(["pgrep", "-f", "^(/usr/bin/)?sleep 1234"]).rc == 1
    assert scopes(ready) == ""


def scopes(guest: Guest) -> str:
    return guest.ask_any(["systemctl", "list-units", "--all", "--no-legend", "run-*.scope"]).stdout
