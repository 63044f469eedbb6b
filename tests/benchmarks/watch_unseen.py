"""Jobs that were written for `watch_truth.py` when everything else of it stood, and without a look
at how a verdict comes about: all of them are held back. Nothing may be changed for one of them
alone.

What needs control groups of version 2 with their controllers, swap, or a machine to itself is
marked `is_in_guest`: its CPUs are emulated, so it computes in small steps and is given more time.
"""

from __future__ import annotations

import sys

from tests.benchmarks.truth_scenario import Scenario, sh, steps, until

SERVE = ("serve", "{port}", "140")
HOG = ("hog",)
NOBODY = ("hog", "nobody")
SLOW = {"read": 3_000_000}
DIRECT = ["direct", "{data}/file", 1]
NO_SWAP = "MemorySwapMax=0"
SWAP = "MemorySwapMax=400M"


def guest(truth: str, job: object, *scope: str, **more: object) -> Scenario:
    return Scenario(truth, job, scope=scope, is_in_guest=True, **more)  # type: ignore[arg-type]


UNSEEN: dict[str, Scenario] = {
    # many children, fork and spawn
    "forty workers": Scenario("CPU", steps(["cpu", 6], processes=40, feeds=True)),
    "one of thirty computes": Scenario(
        "WORKERS", sh("for i in $(seq 29); do sleep {seconds} & done; timeout {seconds} {dir}/spin 1; wait")
    ),
    "two spawned that compress": Scenario("CPU", steps(["compress", 40], processes=2, how="spawn", feeds=True)),
    "one spawned that compresses": Scenario("WORKERS", steps(["compress", 40], processes=1, how="spawn")),
    "shells below shells": Scenario(
        "WORKERS", until("sh -c \"sh -c 'head -c 1500000 {dir}/noise | gzip -5 > /dev/null'\"")
    ),
    "a new process for each item": Scenario(
        "WORKERS", (sys.executable, "-c", ("import multiprocessing as m, time\nend = time.monotonic() + {seconds}\n"
        "def work():\n x = 1\n for _ in range(1500000): x = x * 7 % 65537\n"
        "while time.monotonic() < end:\n p = m.Process(target=work); p.start(); p.join()")),
    ),
    "two at a time, new for each item": Scenario(
        "CPU", (sys.executable, "-c", ("import multiprocessing as m, time\nend = time.monotonic() + {seconds}\n"
        "def work():\n x = 1\n for _ in range(3000000): x = x * 7 % 65537\n"
        "while time.monotonic() < end:\n ps = [m.Process(target=work) for _ in range(2)]\n"
        " [p.start() for p in ps]; [p.join() for p in ps]")),
    ),
    # limits
    "quota 1.2, twelve workers": Scenario("LIMIT", steps(["cpu", 6], processes=12, feeds=True), limits={"cpu": 1.2}),
    "cpuset of one CPU, two spawned": Scenario(
        "LIMIT", steps(["cpu", 10], processes=2, how="spawn", feeds=True), limits={"cpuset": "0"}
    ),
    "quota, a new process for each item": Scenario(
        "LIMIT", until("timeout 1 {dir}/spin 1"), limits={"cpu": 0.4}
    ),
    "memory limit, two spawned": Scenario(
        "MEM|DISK", steps(["thrash", "{data}/file", 400], processes=2, how="spawn"), limits={"memory": 44, **SLOW}
    ),
    # other users
    "one thread beside five of another user": Scenario("FOREIGN", steps(["cpu", 20]), (NOBODY,) * 5),
    "three spawned beside nine of another user": Scenario(
        "FOREIGN", steps(["cpu", 10], processes=3, how="spawn", feeds=True), (NOBODY,) * 9
    ),
    "awk, nice 10, beside three of another user": Scenario(
        "FOREIGN", ("timeout", "{seconds}", "awk", "BEGIN {{ while (1) x = x * 3 % 7 + 1 }}"), (NOBODY,) * 3,
        before=("nice", "-n", "10"),
    ),
    # stores over a socket
    "eight threads, a connection each": Scenario(
        "WAIT network", steps(["fetch", "{port}", 32], processes=8, how="thread"), (SERVE,), is_light=True
    ),
    "fetches 140 ms, computes 30": Scenario("WAIT network", steps(["ask", "{port}", 64], ["cpu", 30]), (SERVE,)),
    "fetches 5 ms, computes 60": Scenario("WORKERS", steps(["ask", "{port}", 64], ["cpu", 60]), (("serve", "{port}", "5"),)),
    "a server that nobody asks": Scenario("WAIT network|IDLE", steps(["listening", "{port}"]), is_light=True),
    "spawned, over a socket of this host": Scenario(
        "WAIT peer", steps(["unix", "{dir}/{port}.sock"], processes=2, how="spawn"),
        (("unix", "{dir}/{port}.sock", "180"),), is_light=True,
    ),
    # stalls
    "a store that stalls for 3 s": Scenario(
        "WAIT network", steps(["ask", "{port}", 64]), (("stalling", "{port}", "10", "3000"),), is_light=True
    ),
    "a disk of eight reads a second": Scenario("DISK", steps(DIRECT), limits={"iops": 8}, is_light=True),
    "items that come slowly within the job": Scenario("IDLE", steps(["produced", 5, 500]), is_light=True),
    "wakes twice a second": Scenario("IDLE", steps(["cpu", 5], ["sleep", 500]), is_light=True),
    # a file system of somebody's process
    "a slow FUSE": Scenario(
        "DISK|WAIT peer", steps(["read_all", "{dir}/{port}.fuse/file"]),
        (("fuse", "{data}", "{dir}/{port}.fuse", "40"),), is_light=True,
    ),
    "loaders behind a slow FUSE": Scenario(
        "DISK|WAIT peer", steps(["read_all", "{dir}/{port}.fuse/file"], processes=3, feeds=True),
        (("fuse", "{data}", "{dir}/{port}.fuse", "25"),), is_light=True,
    ),
    # phases
    "four compute, then a store": Scenario(
        "CPU+WAIT", {"processes": 4, "phases": [[0.5, [["cpu", 10]]], [0.5, [["ask", "{port}", 64]]]]}, (SERVE,)
    ),
    "one thread, then a lock": Scenario(
        "WORKERS+WAIT", {"phases": [[0.5, [["cpu", 20]]], [0.5, [["flock", "{dir}/{port}.lock"]]]]},
        (("hold", "{dir}/{port}.lock", "60", "flock"),),
    ),
    # control groups of version 2
    "v2: quota of 40 %, one thread": guest("LIMIT", steps(["cpu", 20]), "CPUQuota=40%"),
    "v2: quota of 60 %, four workers": guest("LIMIT", steps(["cpu", 10], processes=4, feeds=True), "CPUQuota=60%"),
    "v2: quota of a slice": guest("LIMIT", steps(["cpu", 20], processes=2), "Slice=small.slice"),
    "v2: one CPU allowed, three processes": guest("LIMIT", steps(["cpu", 20], processes=3), "AllowedCPUs=1"),
    "v2: a quota that is not reached": guest(
        "WAIT network", steps(["ask", "{port}", 16]), "CPUQuota=90%", beside=(("serve", "{port}", "400"),)
    ),
    "v2: files above the limit, no swap": guest(
        "MEM|DISK", steps(["thrash", "{data}/file", 200]), "MemoryMax=40M", NO_SWAP
    ),
    "v2: memory above the limit, swap": guest("MEM", steps(["touched", 110]), "MemoryMax=72M", SWAP),
    "v2: memory above the high mark, swap": guest("MEM", steps(["touched", 110]), "MemoryHigh=72M", SWAP),
    "v2: two above the limit, swap": guest("MEM", steps(["touched", 60], processes=2), "MemoryMax=80M", SWAP),
    "v2: device with a limit for reads": guest(
        "DISK", steps(DIRECT), "IOReadBandwidthMax=/dev/vdb 300K"
    ),
    "v2: device with a limit for writes": guest(
        "DISK", steps(["written", "{data}", 256]), "IOWriteBandwidthMax=/dev/vdb 200K"
    ),
    "v2: small weight beside four": guest("FOREIGN", steps(["cpu", 20]), "CPUWeight=5", beside=(HOG,) * 4),
    "guest: another user's four": guest("FOREIGN", steps(["cpu", 20]), beside=(NOBODY,) * 4, user="daemon"),
    "guest: a slow FUSE": guest(
        "DISK|WAIT peer", steps(["read_all", "{dir}/{port}.fuse/file"]),
        beside=(("fuse", "{data}", "{dir}/{port}.fuse", "400"),),
    ),
    "guest: a store, then one thread": guest(
        "WAIT+WORKERS", {"phases": [[0.5, [["ask", "{port}", 16]]], [0.5, [["cpu", 20]]]]},
        beside=(("serve", "{port}", "400"),),
    ),
}  # fmt: skip
